#include "runtime/security/handshake.h"

#include <fmt/format.h>
#include <openssl/err.h>

#include <algorithm>
#include <charconv>
#include <csignal>

#include "runtime/security/authority.h"
#include "runtime/security/openssl_types.h"
#include "runtime/security/tcp_connect.h"
#include "runtime/security/tls_context.h"

namespace volador::security {
namespace {

// Fingerprints are abbreviated unless their abbreviations are equal.
std::string text_of(const Fingerprint& fingerprint, const Fingerprint& other) {
  const std::string brief = short_text(fingerprint);
  return brief == short_text(other) ? to_string(fingerprint) : brief;
}

struct Handshaken {
  Socket socket;
  SslPtr ssl;
};

// OpenSSL writes to sockets without MSG_NOSIGNAL: a closed peer would end a process that does not ignore SIGPIPE.
class SigpipeBlocked {
 public:
  SigpipeBlocked() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeBlocked() {
    const timespec none{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &none);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlocked(const SigpipeBlocked&) = delete;
  SigpipeBlocked& operator=(const SigpipeBlocked&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

Error silent(std::string_view address, std::string_view what, std::chrono::milliseconds timeout) {
  return {
      ErrorCode::kUnavailable,
      fmt::format("{} accepted the connection but {} within {:.1f} s. Is it a Volador head, and does its machine run?",
                  address, what, static_cast<double>(timeout.count()) / 1000)};
}

// Interprets a failed handshake from OpenSSL's error queue.
Error handshake_error(std::string_view address, const SSL* ssl, int result) {
  const unsigned long code = ERR_peek_last_error();
  if (SSL_get_error(ssl, result) == SSL_ERROR_SSL && ERR_GET_LIB(code) == ERR_LIB_SSL) {
    const int reason = ERR_GET_REASON(code);
    const bool alert = reason >= SSL_AD_REASON_OFFSET;
    if (!alert && reason != SSL_R_UNEXPECTED_EOF_WHILE_READING && SSL_get_verify_result(ssl) == X509_V_OK) {
      take_openssl_reason();
      return {
          ErrorCode::kUnauthenticated,
          fmt::format("{} does not speak TLS: another program listens there. Check the port; `volador status` on that "
                      "machine shows the head's.",
                      address)};
    }
  }
  return tls_error(ssl, result, address);
}

Result<Handshaken> shake_hands(std::string_view address, SSL_CTX* context, bool check_name, SteadyTime deadline,
                               std::chrono::milliseconds timeout) {
  auto socket = connect_tcp(address, deadline);
  if (!socket) return make_error(socket.error());
  SslPtr ssl(SSL_new(context));
  VOLADOR_CHECK(ssl != nullptr, take_openssl_reason());
  static constexpr unsigned char kProtocols[] = {2, 'h', '2'};  // Required by gRPC servers.
  const std::string name(kHeadServerName);
  VOLADOR_CHECK(SSL_set_alpn_protos(ssl.get(), kProtocols, sizeof kProtocols) == 0 &&
                SSL_set_tlsext_host_name(ssl.get(), name.c_str()) == 1 && SSL_set_fd(ssl.get(), socket->fd()) == 1);
  if (check_name) VOLADOR_CHECK(SSL_set1_host(ssl.get(), name.c_str()) == 1);
  while (true) {
    ERR_clear_error();
    const int result = SSL_connect(ssl.get());
    if (result == 1) return Handshaken{.socket = std::move(*socket), .ssl = std::move(ssl)};
    const int kind = SSL_get_error(ssl.get(), result);
    if (kind != SSL_ERROR_WANT_READ && kind != SSL_ERROR_WANT_WRITE) {
      return make_error(handshake_error(address, ssl.get(), result));
    }
    if (!wait_for(socket->fd(), kind == SSL_ERROR_WANT_WRITE, deadline)) {
      return make_error(silent(address, "did not finish a TLS handshake", timeout));
    }
  }
}

tl::unexpected<Error> not_a_head(std::string_view address, std::string_view why) {
  return make_error(
      ErrorCode::kUnauthenticated,
      fmt::format("{} is not a Volador head: {}. Check the port; `volador status` on that machine shows the head's.",
                  address, why));
}

Result<void> check_valid_now(std::string_view address, std::string_view whose, WallTime from, WallTime until,
                             WallTime now, std::string_view next_step) {
  if (now >= from && now <= until) return {};
  return make_error(
      ErrorCode::kUnauthenticated,
      fmt::format("{}: {} certificate is valid from {} to {}, but this machine's clock says {}. Set the clocks "
                  "of both machines (NTP){}.",
                  address, whose, utc_text(from), utc_text(until), utc_text(now), next_step));
}

}  // namespace

Result<HostPort> parse_host_port(std::string_view address) {
  const auto bad = [&](std::string_view why) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("address \"{}\": {}; expected HOST:PORT, for example 10.0.0.1:6380 or [fd00::1]:6380",
                                  address.substr(0, 100), why));
  };
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return bad("it has no port");
  std::string_view host = address.substr(0, colon);
  const std::string_view port = address.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad("an IPv6 address goes into brackets");
  }
  const bool visible = std::all_of(host.begin(), host.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (host.empty() || host.size() > 253 || !visible) return bad("it has no host name or IP address");
  int number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc{} || end != port.data() + port.size() || number < 1 || number > 65535) {
    return bad("its port is not a number from 1 to 65535");
  }
  return HostPort{.host = std::string(host), .port = std::to_string(number)};
}

Result<ProbeReply> probe_authority(std::string_view address, std::chrono::milliseconds timeout, const Clock& clock) {
  const SigpipeBlocked no_sigpipe;
  const SteadyTime deadline = std::chrono::steady_clock::now() + timeout;
  auto context = make_context({}, {.version_min = TLS1_2_VERSION, .verify_peer = false});
  if (!context) return make_error(context.error());
  auto connection = shake_hands(address, context->get(), false, deadline, timeout);
  if (!connection) return make_error(connection.error());

  STACK_OF(X509)* chain = SSL_get_peer_cert_chain(connection->ssl.get());
  if (chain == nullptr || sk_X509_num(chain) < 2)
    return not_a_head(address, "it does not show its cluster's authority");
  const X509* leaf = sk_X509_value(chain, 0);
  auto head = peer_identity_of(leaf);
  if (!head || head->role != Role::kHead) {
    return not_a_head(
        address, head ? fmt::format("its certificate is of role {}", to_string(head->role)) : head.error().message);
  }
  X509* authority = sk_X509_value(chain, 1);
  if (X509_verify(sk_X509_value(chain, 0), X509_get0_pubkey(authority)) != 1 || X509_check_ca(authority) != 1) {
    take_openssl_reason();
    return not_a_head(address, "its certificate was not signed by the authority that it shows");
  }
  VOLADOR_TRY(check_valid_now(address, "its", head->not_before, head->not_after, clock.wall(), ""));
  ProbeReply out{.authority = {}, .authority_pem = to_pem(authority), .head = std::move(*head)};
  auto fingerprint = fingerprint_of(out.authority_pem);
  if (!fingerprint) return make_error(fingerprint.error());
  out.authority = *fingerprint;
  SSL_shutdown(connection->ssl.get());
  take_openssl_reason();
  return out;
}

Result<ProbeReply> probe_expected(std::string_view address, const Fingerprint& expected,
                                  std::chrono::milliseconds timeout, const Clock& clock) {
  auto reply = probe_authority(address, timeout, clock);
  if (reply && reply->authority != expected)
    return make_error(other_cluster_error(address, reply->authority, expected));
  return reply;
}

Result<void> check_connection(std::string_view address, const Credentials& credentials,
                              std::chrono::milliseconds timeout, const Clock& clock) {
  const SigpipeBlocked no_sigpipe;
  const SteadyTime deadline = std::chrono::steady_clock::now() + timeout;
  auto own = validity_of(credentials.certificate_pem);
  if (!own) return make_error(own.error());
  VOLADOR_TRY(check_valid_now(address, "our own", own->not_before, own->not_after, clock.wall(), ", or join again"));
  auto expected = fingerprint_of(credentials.authority_pem);
  if (!expected) return make_error(expected.error());
  VOLADOR_TRY(probe_expected(address, *expected, timeout, clock));

  auto context = make_context(credentials, {.version_min = TLS1_2_VERSION});
  if (!context) return make_error(context.error());
  auto connection = shake_hands(address, context->get(), true, deadline, timeout);
  if (!connection) return make_error(connection.error());
  // A TLS 1.3 server rejects our certificate after our side has finished; if it accepts, it sends its HTTP/2 settings.
  while (true) {
    ERR_clear_error();
    char byte = 0;
    const int result = SSL_read(connection->ssl.get(), &byte, 1);
    if (result > 0) break;
    const int kind = SSL_get_error(connection->ssl.get(), result);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
      if (!wait_for(connection->socket.fd(), kind == SSL_ERROR_WANT_WRITE, deadline)) {
        return make_error(silent(address, "said nothing after the TLS handshake", timeout));
      }
      continue;
    }
    Error error = tls_error(connection->ssl.get(), result, address);
    if (error.code != ErrorCode::kUnauthenticated) {
      error = {
          ErrorCode::kUnauthenticated,
          fmt::format("{} ended the connection when it saw our certificate: it was refused. Join again.", address)};
    }
    return make_error(std::move(error));
  }
  SSL_shutdown(connection->ssl.get());
  take_openssl_reason();
  return {};
}

Error other_cluster_error(std::string_view address, const Fingerprint& found, const Fingerprint& expected) {
  return {
      ErrorCode::kUnauthenticated,
      fmt::format("{} belongs to another cluster: its certificate is {}, the token expects {}.\n"
                  "  Copy the join command that `volador start --head` printed on that machine, or run `volador token "
                  "create` there.",
                  address, text_of(found, expected), text_of(expected, found))};
}

}  // namespace volador::security
