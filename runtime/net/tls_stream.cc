#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>

#include "runtime/net/stream.h"
#include "runtime/security/tls_context.h"

namespace volador::net {
namespace {

constexpr size_t kReadAheadBytes = size_t{128} << 10;
constexpr size_t kWriteBytesMax = size_t{256} << 10;  // Passed to OpenSSL per call.

std::string openssl_reason() {
  std::string text;
  while (const unsigned long code = ::ERR_get_error()) {
    const char* reason = ::ERR_reason_error_string(code);
    if (!text.empty()) text += ", ";
    text += reason != nullptr ? reason : fmt::format("code {:x}", code);
  }
  return text;
}

// Socket state behind OpenSSL's BIO.
struct Wire {
  int fd = -1;
  bool asks_once = false;  // After a short read no more is available: wait for the next read of the stream.
  bool drained = false;    // The last read was short.
};
Wire& wire_of(BIO* bio) { return *static_cast<Wire*>(::BIO_get_data(bio)); }

// Socket BIO for OpenSSL. OpenSSL's own socket BIO would raise SIGPIPE if the peer is gone.
int send_some(BIO* bio, const char* bytes, int count) {
  ::BIO_clear_retry_flags(bio);
  const ssize_t n = ::send(wire_of(bio).fd, bytes, static_cast<size_t>(count), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) ::BIO_set_retry_write(bio);
  return static_cast<int>(n);
}

int receive_some(BIO* bio, char* bytes, int count) {
  ::BIO_clear_retry_flags(bio);
  Wire& wire = wire_of(bio);
  if (wire.drained) {
    ::BIO_set_retry_read(bio);
    return -1;
  }
  const ssize_t n = ::recv(wire.fd, bytes, static_cast<size_t>(count), MSG_DONTWAIT);
  wire.drained = wire.asks_once && n > 0 && n < count;
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) ::BIO_set_retry_read(bio);
  if (n == 0) errno = 0;
  return static_cast<int>(n);
}

long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

const BIO_METHOD* socket_method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "volador socket");
    ::BIO_meth_set_write(made, send_some);
    ::BIO_meth_set_read(made, receive_some);
    ::BIO_meth_set_ctrl(made, control);
    return made;
  }();
  return method;
}

using CheckPeer = std::function<Result<security::PeerIdentity>(const ssl_st*)>;

// OpenSSL's connection object is not thread safe: guarded by its own mutex, never held while waiting.
class TlsStream final : public Stream {
 public:
  TlsStream(UniqueFd socket, security::SslPtr ssl, CheckPeer check_peer)
      : socket_(std::move(socket)),
        check_peer_(std::move(check_peer)),
        wire_{.fd = socket_.get()},
        ssl_(std::move(ssl)) {}

  // Call first. kInternal: OpenSSL is out of memory.
  Result<void> attach() {
    BIO* bio = ::BIO_new(socket_method());
    if (bio == nullptr) return make_error(ErrorCode::kInternal, fmt::format("TLS: {}", openssl_reason()));
    ::BIO_set_data(bio, &wire_);
    ::BIO_set_init(bio, 1);
    ::SSL_set_bio(ssl_.get(), bio, bio);
    ::SSL_set_mode(ssl_.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    return {};
  }

  int fd() const override { return socket_.get(); }
  std::string identity() const override { return identity_; }

  Result<void> check_peer() override {
    const std::lock_guard lock(mutex_);
    const auto peer = check_peer_(ssl_.get());
    if (!peer) return make_error(peer.error());
    return {};
  }

  Result<Handshake> handshake() override {
    const std::lock_guard lock(mutex_);
    ::ERR_clear_error();
    const int result = ::SSL_do_handshake(ssl_.get());
    if (result == 1) {
      const auto peer = check_peer_(ssl_.get());
      if (!peer) return make_error(peer.error());
      identity_ = fmt::format("{} {}", security::to_string(peer->role), peer->name);
      ::SSL_set_read_ahead(ssl_.get(), 1);  // Reads a record with one system call instead of two.
      wire_.asks_once = true;
      if (peer->role == security::Role::kNode) keep_buffers();
      return Handshake::kDone;
    }
    const int saved = errno;
    switch (::SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return Handshake::kWantsRead;
      case SSL_ERROR_WANT_WRITE:
        return Handshake::kWantsWrite;
      case SSL_ERROR_SSL:
        return refused();
      default:
        break;
    }
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("TLS handshake: {}", saved != 0 ? std::strerror(saved) : "the peer closed"));
  }

  // For connections between object stores, which are few and send much: buffers are kept instead of being freed and
  // allocated for each record, and more data arrives while a record is decrypted.
  void keep_buffers() {
    ::SSL_clear_mode(ssl_.get(), SSL_MODE_RELEASE_BUFFERS);
    ::SSL_set_default_read_buffer_len(ssl_.get(), kReadAheadBytes);
    wire_.asks_once = false;
  }

  StreamResult read(std::span<char> buffer) override {
    const std::lock_guard lock(mutex_);
    StreamResult result;
    wire_.drained = false;
    while (result.bytes < buffer.size() && !result.blocked && !result.ended) {
      size_t n = 0;
      ::ERR_clear_error();
      const int status = ::SSL_read_ex(ssl_.get(), buffer.data() + result.bytes, buffer.size() - result.bytes, &n);
      if (status == 1) {
        result.bytes += n;
      } else {
        note(status, result);
      }
    }
    return result;
  }

  StreamResult write(std::span<const iovec> parts) override {
    const std::lock_guard lock(mutex_);
    StreamResult result;
    for (const iovec& part : parts) {
      size_t at = 0;
      while (at < part.iov_len) {
        // A blocked write must be repeated with the same bytes first: the outbox keeps them at its front. More bytes
        // than before are allowed.
        const size_t want = std::min(part.iov_len - at, kWriteBytesMax);
        size_t n = 0;
        ::ERR_clear_error();
        const int status = ::SSL_write_ex(ssl_.get(), static_cast<const char*>(part.iov_base) + at, want, &n);
        if (status == 1) {
          at += n;
          result.bytes += n;
          result.touched = result.bytes;
          continue;
        }
        note(status, result);
        result.touched = result.bytes + want;
        return result;
      }
    }
    return result;
  }

  void shut_down() override {
    const std::lock_guard lock(mutex_);
    ::ERR_clear_error();
    if (::SSL_is_init_finished(ssl_.get()) == 1 && !failed_) ::SSL_shutdown(ssl_.get());
    ::ERR_clear_error();
    ::shutdown(socket_.get(), SHUT_RDWR);
  }

 private:
  Result<Handshake> refused() {
    failed_ = true;
    const long verdict = ::SSL_get_verify_result(ssl_.get());
    const std::string reason = openssl_reason();
    if (verdict != X509_V_OK) {
      return make_error(ErrorCode::kUnauthenticated, fmt::format("TLS handshake: the peer's certificate: {} ({})",
                                                                 ::X509_verify_cert_error_string(verdict), reason));
    }
    return make_error(ErrorCode::kUnauthenticated, fmt::format("TLS handshake: {}", reason));
  }

  void note(int status, StreamResult& result) {
    const int saved = errno;
    switch (::SSL_get_error(ssl_.get(), status)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        result.blocked = true;
        return;
      case SSL_ERROR_ZERO_RETURN:
        result.error = "the peer closed it";
        break;
      case SSL_ERROR_SYSCALL:
        result.error = saved != 0 ? std::strerror(saved) : "the peer closed it";
        break;
      default:
        result.error = "TLS: " + openssl_reason();
        break;
    }
    failed_ = true;
    result.ended = true;
  }

  UniqueFd socket_;
  const CheckPeer check_peer_;
  std::string identity_;
  std::mutex mutex_;
  Wire wire_;
  security::SslPtr ssl_;
  bool failed_ = false;  // OpenSSL forbids a shutdown after a failure.
};

Result<std::unique_ptr<Stream>> attached(std::unique_ptr<TlsStream> stream) {
  VOLADOR_TRY(stream->attach());
  return stream;
}

}  // namespace

Result<std::unique_ptr<Stream>> make_tls_client(UniqueFd socket, std::shared_ptr<const security::TlsContext> tls,
                                                std::string server_name) {
  auto ssl = tls->new_client(server_name);
  if (!ssl) return make_error(std::move(ssl).error());
  return attached(std::make_unique<TlsStream>(
      std::move(socket), *std::move(ssl),
      [tls, server_name](const ssl_st* connection) { return tls->check_server(connection, server_name); }));
}

Result<std::unique_ptr<Stream>> make_tls_server(UniqueFd socket, std::shared_ptr<const security::TlsContext> tls) {
  auto ssl = tls->new_server();
  if (!ssl) return make_error(std::move(ssl).error());
  return attached(std::make_unique<TlsStream>(
      std::move(socket), *std::move(ssl), [tls](const ssl_st* connection) { return tls->check_client(connection); }));
}

}  // namespace volador::net
