#include "train/group/node_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/security/openssl_types.h"
#include "runtime/security/tls_context.h"

namespace volador::train {
namespace {

using SteadyClock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::string_view kIdentity = "volador node link";  // Name of the key, sent in clear text.
constexpr unsigned char kCipherId[] = {0x13, 0x01};          // TLS_AES_128_GCM_SHA256
constexpr std::string_view kExportLabel = "EXPORTER-volador-node-link";
constexpr size_t kAesKeyBytes = 16;
constexpr size_t kTagBytes = 16;  // Behind each piece.
constexpr size_t kSealedBytes = NodeLink::kPieceBytes + kTagBytes;
constexpr timeval kWaitSlice{0, 100'000};                           // Pause between looks at the deadline.
constexpr auto kUnreachableAfter = std::chrono::milliseconds(20s);  // As net::tune_socket().

// The key as a session that both ends resume. The caller, or OpenSSL, frees it.
SSL_SESSION* make_session(SSL* ssl) {
  const auto& key = *static_cast<const LinkKey*>(SSL_CTX_get_app_data(::SSL_get_SSL_CTX(ssl)));
  const std::string& secret = key.secret().reveal();
  SSL_SESSION* session = ::SSL_SESSION_new();
  const SSL_CIPHER* cipher = ::SSL_CIPHER_find(ssl, kCipherId);
  if (session == nullptr || cipher == nullptr ||
      ::SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(secret.data()), secret.size()) !=
          1 ||
      ::SSL_SESSION_set_cipher(session, cipher) != 1 ||
      ::SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    ::SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

int offer_key(SSL* ssl, const EVP_MD* digest, const unsigned char** id, size_t* id_bytes, SSL_SESSION** session) {
  *session = nullptr;
  if (digest != nullptr && ::EVP_MD_get_type(digest) != NID_sha256) return 1;
  *id = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *id_bytes = kIdentity.size();
  *session = make_session(ssl);
  return *session == nullptr ? 0 : 1;
}

int find_key(SSL* ssl, const unsigned char* id, size_t id_bytes, SSL_SESSION** session) {
  const bool is_ours = std::string_view(reinterpret_cast<const char*>(id), id_bytes) == kIdentity;
  *session = is_ours ? make_session(ssl) : nullptr;
  return is_ours && *session == nullptr ? 0 : 1;
}

// A handshake succeeds by the key alone: the server has no certificate, and the client would trust none.
SSL_CTX* make_link_context(LinkKey* key, const SSL_METHOD* method) {
  SSL_CTX* context = ::SSL_CTX_new(method);
  if (context == nullptr) return nullptr;
  SSL_CTX_set_app_data(context, key);
  const bool is_set = ::SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                      ::SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
                      ::SSL_CTX_set_num_tickets(context, 0) == 1;
  ::SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  ::SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  if (is_set) return context;
  ::SSL_CTX_free(context);
  return nullptr;
}

Error openssl_failure() {
  return {ErrorCode::kUnavailable, "the encryption between the nodes: " + security::take_openssl_reason()};
}

}  // namespace

LinkKey::LinkKey(security::Secret secret, int64_t pieces_per_key)
    : secret_(std::move(secret)), pieces_per_key_(pieces_per_key) {}

LinkKey::~LinkKey() {
  ::SSL_CTX_free(client_);
  ::SSL_CTX_free(server_);
}

Result<std::unique_ptr<LinkKey>> LinkKey::create(security::Secret secret, int64_t pieces_per_key) {
  if (secret.size() != kLinkKeyBytes) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("the key of the nodes has {} bytes, expected {}", secret.size(), kLinkKeyBytes));
  }
  std::unique_ptr<LinkKey> key(new LinkKey(std::move(secret), pieces_per_key));
  key->client_ = make_link_context(key.get(), ::TLS_client_method());
  key->server_ = make_link_context(key.get(), ::TLS_server_method());
  if (key->client_ == nullptr || key->server_ == nullptr) return make_error(openssl_failure());
  ::SSL_CTX_set_verify(key->client_, SSL_VERIFY_PEER, nullptr);
  ::SSL_CTX_set_psk_use_session_callback(key->client_, offer_key);
  ::SSL_CTX_set_psk_find_session_callback(key->server_, find_key);
  return key;
}

// OpenSSL reads single records, so that it takes no byte of the data from the socket.
struct NodeLink::Bio {
  static NodeLink& link(BIO* bio) { return *static_cast<NodeLink*>(::BIO_get_data(bio)); }

  // Keeps the bytes for send_some().
  static int write(BIO* bio, const char* bytes, int count) {
    NodeLink& self = link(bio);
    const auto size = static_cast<size_t>(count);
    if (size > self.buffer_bytes_ - self.used_) return -1;
    std::memcpy(self.buffer_.get() + self.used_, bytes, size);
    self.used_ += size;
    return count;
  }

  static int read(BIO* bio, char* bytes, int count) {
    ::BIO_clear_retry_flags(bio);
    const ssize_t n = ::recv(link(bio).fd(), bytes, static_cast<size_t>(count), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) ::BIO_set_retry_read(bio);
    if (n == 0) errno = 0;
    return static_cast<int>(n);
  }

  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static const BIO_METHOD* method() {
    static const BIO_METHOD* const method = [] {
      BIO_METHOD* made = ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "volador node link");
      ::BIO_meth_set_write(made, write);
      ::BIO_meth_set_read(made, read);
      ::BIO_meth_set_ctrl(made, control);
      return made;
    }();
    return method;
  }
};

NodeLink::NodeLink(int64_t pieces_per_key, End end, net::UniqueFd socket, std::string peer)
    : pieces_per_key_(pieces_per_key),
      end_(end),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      buffer_bytes_(end == End::kClient ? 4 * kSealedBytes : kSealedBytes),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(buffer_bytes_)) {}

NodeLink::~NodeLink() {
  ::EVP_CIPHER_CTX_free(cipher_);
  ::SSL_free(ssl_);
}

Result<std::unique_ptr<NodeLink>> NodeLink::create(const LinkKey& key, End end, net::UniqueFd socket,
                                                   std::string peer) {
  std::unique_ptr<NodeLink> link(new NodeLink(key.pieces_per_key_, end, std::move(socket), std::move(peer)));
  link->ssl_ = ::SSL_new(end == End::kClient ? key.client_ : key.server_);
  link->cipher_ = ::EVP_CIPHER_CTX_new();
  BIO* bio = ::BIO_new(Bio::method());
  if (link->ssl_ == nullptr || link->cipher_ == nullptr || bio == nullptr) {
    ::BIO_free(bio);
    return make_error(openssl_failure());
  }
  ::BIO_set_data(bio, link.get());
  ::BIO_set_init(bio, 1);
  ::SSL_set_bio(link->ssl_, bio, bio);
  if (end == End::kClient) {
    ::SSL_set_connect_state(link->ssl_);
  } else {
    ::SSL_set_accept_state(link->ssl_);
  }
  return link;
}

Result<bool> NodeLink::handshake() {
  ::ERR_clear_error();
  const int status = ::SSL_do_handshake(ssl_);
  const bool waits = status != 1 && ::SSL_get_error(ssl_, status) == SSL_ERROR_WANT_READ;
  Error error;
  if (status != 1 && !waits) error = tls_failure(status);
  const auto sent = send_some();  // On an error the alert that names it.
  if (status != 1 && !waits) return make_error(std::move(error));
  if (!sent) return make_error(sent.error());
  if (waits) return false;
  if (::SSL_session_reused(ssl_) != 1) {
    return make_error(ErrorCode::kUnauthenticated, fmt::format("{} did not prove that it has the key", peer_));
  }
  return true;
}

Result<void> NodeLink::say(std::span<const std::byte> bytes) {
  size_t count = 0;
  ::ERR_clear_error();
  const int status = ::SSL_write_ex(ssl_, bytes.data(), bytes.size(), &count);
  if (status != 1) return make_error(tls_failure(status));
  return {};
}

Result<size_t> NodeLink::hear(std::span<std::byte> to) {
  size_t count = 0;
  ::ERR_clear_error();
  const int status = ::SSL_read_ex(ssl_, to.data(), to.size(), &count);
  if (status == 1) return count;
  if (::SSL_get_error(ssl_, status) == SSL_ERROR_WANT_READ) return 0;
  return make_error(tls_failure(status));
}

Result<bool> NodeLink::send_some() {
  while (sent_ < used_) {
    const ssize_t n = ::send(fd(), buffer_.get() + sent_, used_ - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent_ += static_cast<size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      return make_error(lost(errno));
    }
  }
  sent_ = used_ = 0;
  return true;
}

Result<void> NodeLink::start() {
  ::fcntl(fd(), F_SETFL, ::fcntl(fd(), F_GETFL) & ~O_NONBLOCK);
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    ::setsockopt(fd(), SOL_SOCKET, option, &kWaitSlice, sizeof kWaitSlice);
  }
  // A peer that lives and does not read yet must not lose the connection after 20 s; is_unreachable() finds the others.
  const int none = 0;
  ::setsockopt(fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, &none, sizeof none);
  if (::EVP_CipherInit_ex(cipher_, ::EVP_aes_128_gcm(), nullptr, nullptr, nullptr, end_ == End::kClient ? 1 : 0) != 1) {
    return make_error(openssl_failure());
  }
  return {};
}

Result<void> NodeLink::write(std::span<const std::byte> bytes, Time deadline) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPieceBytes));
    if (used_ - sent_ >= send_bytes_ || buffer_bytes_ - used_ < kSealedBytes) {
      VOLADOR_TRY(send_all(deadline, MSG_MORE));
      send_bytes_ = std::min(2 * send_bytes_, buffer_bytes_);
    }
    VOLADOR_TRY(seal(piece));
    bytes = bytes.subspan(piece.size());
  }
  return {};
}

Result<void> NodeLink::flush(Time deadline) {
  send_bytes_ = kPieceBytes;
  return send_all(deadline, 0);
}

Result<void> NodeLink::read(std::span<std::byte> to, Time deadline) {
  while (!to.empty()) {
    const auto piece = to.first(std::min(to.size(), kPieceBytes));
    VOLADOR_TRY(open(piece, deadline));
    to = to.subspan(piece.size());
  }
  return {};
}

Result<void> NodeLink::next_nonce() {
  if (pieces_ % pieces_per_key_ == 0) {
    const std::string number = std::to_string(pieces_ / pieces_per_key_);
    unsigned char exported[kAesKeyBytes + sizeof iv_];
    const bool is_set =
        ::SSL_export_keying_material(ssl_, exported, sizeof exported, kExportLabel.data(), kExportLabel.size(),
                                     reinterpret_cast<const unsigned char*>(number.data()), number.size(), 1) == 1 &&
        ::EVP_CipherInit_ex(cipher_, nullptr, nullptr, exported, nullptr, -1) == 1;
    std::memcpy(iv_, exported + kAesKeyBytes, sizeof iv_);
    ::OPENSSL_cleanse(exported, sizeof exported);
    if (!is_set) return make_error(openssl_failure());
  }
  unsigned char nonce[sizeof iv_];
  std::memcpy(nonce, iv_, sizeof nonce);
  const auto number = static_cast<uint64_t>(pieces_++);
  for (size_t i = 0; i < sizeof number; ++i) nonce[sizeof nonce - 1 - i] ^= static_cast<unsigned char>(number >> 8 * i);
  if (::EVP_CipherInit_ex(cipher_, nullptr, nullptr, nullptr, nonce, -1) != 1) return make_error(openssl_failure());
  return {};
}

Result<void> NodeLink::seal(std::span<const std::byte> piece) {
  VOLADOR_TRY(next_nonce());
  auto* out = reinterpret_cast<unsigned char*>(buffer_.get() + used_);
  int size = 0, rest = 0;
  if (::EVP_CipherUpdate(cipher_, out, &size, reinterpret_cast<const unsigned char*>(piece.data()),
                         static_cast<int>(piece.size())) != 1 ||
      ::EVP_CipherFinal_ex(cipher_, out + size, &rest) != 1 ||
      ::EVP_CIPHER_CTX_ctrl(cipher_, EVP_CTRL_AEAD_GET_TAG, kTagBytes, out + piece.size()) != 1) {
    return make_error(openssl_failure());
  }
  used_ += piece.size() + kTagBytes;
  return {};
}

Result<void> NodeLink::open(std::span<std::byte> piece, Time deadline) {
  const size_t size = piece.size() + kTagBytes;
  for (size_t got = 0; got < size;) {
    const ssize_t n = ::recv(fd(), buffer_.get() + got, size - got, MSG_WAITALL);
    if (n == 0) return make_error(ErrorCode::kUnavailable, fmt::format("{} closed the connection", peer_));
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return make_error(lost(errno));
    got += n > 0 ? static_cast<size_t>(n) : 0;
    if (got < size && SteadyClock::now() >= deadline) {
      return make_error(ErrorCode::kTimeout, fmt::format("{} has not sent its part", peer_));
    }
  }
  VOLADOR_TRY(next_nonce());
  auto* in = reinterpret_cast<unsigned char*>(buffer_.get());
  int opened = 0, rest = 0;
  if (::EVP_CipherUpdate(cipher_, reinterpret_cast<unsigned char*>(piece.data()), &opened, in,
                         static_cast<int>(piece.size())) != 1 ||
      ::EVP_CIPHER_CTX_ctrl(cipher_, EVP_CTRL_AEAD_SET_TAG, kTagBytes, in + piece.size()) != 1) {
    return make_error(openssl_failure());
  }
  if (::EVP_CipherFinal_ex(cipher_, in, &rest) != 1) {
    security::take_openssl_reason();
    return make_error(ErrorCode::kUnauthenticated,
                      fmt::format("what came from {} is not what this node expects: the nodes have started different "
                                  "operations, or the bytes were changed on their way",
                                  peer_));
  }
  return {};
}

Result<void> NodeLink::send_all(Time deadline, int flags) {
  while (sent_ < used_) {
    const ssize_t n = ::send(fd(), buffer_.get() + sent_, used_ - sent_, MSG_NOSIGNAL | flags);
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return make_error(lost(errno));
    sent_ += n > 0 ? static_cast<size_t>(n) : 0;
    if (sent_ == used_) break;
    if (is_unreachable()) {
      return make_error(ErrorCode::kUnavailable, fmt::format("{} has not answered for 20 s", peer_));
    }
    if (SteadyClock::now() >= deadline) {
      return make_error(ErrorCode::kTimeout, fmt::format("{} has not read its part", peer_));
    }
  }
  sent_ = used_ = 0;
  return {};
}

void NodeLink::shut_down() { ::shutdown(fd(), SHUT_RDWR); }

Error NodeLink::tls_failure(int status) { return security::tls_error(ssl_, status, peer_); }

Error NodeLink::lost(int error) const {
  return {ErrorCode::kUnavailable, fmt::format("{}: connection lost: {}", peer_, std::strerror(error))};
}

// The kernel counts unanswered retransmissions, and unanswered probes of a peer that does not read.
bool NodeLink::is_unreachable() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  return (info.tcpi_retransmits > 1 || info.tcpi_probes > 1) &&
         std::chrono::milliseconds(info.tcpi_last_ack_recv) > kUnreachableAfter;
}

}  // namespace volador::train
