#include "tests/bench/raw_tls.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tests/bench/figure.h"

namespace volador::bench {
namespace {

constexpr size_t kMessage = 64;
constexpr size_t kBuffer = size_t{256} << 10;

enum class Wants : uint64_t { kEcho = 1, kTlsStream = 2, kTcpStream = 3 };
struct Request {
  Wants wants = Wants::kEcho;
  uint64_t amount = 0;  // Round trips, or bytes.
};

sockaddr_in address_of(const std::string& address, uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  inet_pton(AF_INET, address.c_str(), &to.sin_addr);
  return to;
}

void no_delay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

[[noreturn]] void fail(const char* what) { throw std::runtime_error(std::string("raw TLS: ") + what); }

// Context with a self-signed certificate, which the peer does not verify.
SSL_CTX* make_context(bool server) {
  SSL_CTX* context = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  if (!server) return context;
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 86'400);
  X509_set_pubkey(certificate, key);
  X509_sign(certificate, key, EVP_sha256());
  SSL_CTX_use_certificate(context, certificate);
  SSL_CTX_use_PrivateKey(context, key);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return context;
}

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using Ssl = std::unique_ptr<SSL, FreeSsl>;

void read_all(SSL* ssl, void* to, size_t size) {
  for (size_t done = 0; done < size;) {
    const int got = SSL_read(ssl, static_cast<char*>(to) + done, static_cast<int>(std::min(size - done, kBuffer)));
    if (got <= 0) fail("the other side ended");
    done += static_cast<size_t>(got);
  }
}
void write_all(SSL* ssl, const void* from, size_t size) {
  if (SSL_write(ssl, from, static_cast<int>(size)) != static_cast<int>(size)) fail("the other side does not read");
}

void serve_tls(int fd, SSL_CTX* context, const Request& request) {
  const Ssl ssl(SSL_new(context));
  SSL_set_fd(ssl.get(), fd);
  if (SSL_accept(ssl.get()) != 1) return;
  std::vector<char> buffer(kBuffer, 'x');
  if (request.wants == Wants::kEcho) {
    for (uint64_t i = 0; i < request.amount; ++i) {
      read_all(ssl.get(), buffer.data(), kMessage);
      write_all(ssl.get(), buffer.data(), kMessage);
    }
    return;
  }
  for (uint64_t left = request.amount; left > 0; left -= std::min<uint64_t>(left, kBuffer))
    write_all(ssl.get(), buffer.data(), std::min<uint64_t>(left, kBuffer));
}

void serve_tcp(int fd, uint64_t bytes) {
  const std::vector<char> buffer(kBuffer, 'x');
  while (bytes > 0) {
    const ssize_t sent = send(fd, buffer.data(), std::min<uint64_t>(bytes, kBuffer), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes -= static_cast<uint64_t>(sent);
  }
}

class Connection {
 public:
  Connection(const std::string& address, uint16_t port, const Request& request)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in to = address_of(address, port);
    for (int tries = 0; connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0; ++tries) {
      if (tries == 100) fail("nobody listens");
      usleep(20'000);
    }
    no_delay(fd_);
    if (send(fd_, &request, sizeof request, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof request))
      fail("the request does not go");
    if (request.wants == Wants::kTcpStream) return;
    context_ = make_context(false);
    ssl_.reset(SSL_new(context_));
    SSL_set_fd(ssl_.get(), fd_);
    if (SSL_connect(ssl_.get()) != 1) fail("no handshake");
  }
  ~Connection() {
    ssl_.reset();
    SSL_CTX_free(context_);
    close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const { return fd_; }
  SSL* ssl() const { return ssl_.get(); }

 private:
  int fd_;
  SSL_CTX* context_ = nullptr;
  Ssl ssl_;
};

}  // namespace

void serve_raw(const std::string& address, uint16_t port) {
  std::signal(SIGPIPE, SIG_IGN);
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in at = address_of(address, port);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 || listen(listener, 8) != 0)
    fail("cannot listen");
  SSL_CTX* const context = make_context(true);
  while (true) {
    const int fd = accept(listener, nullptr, nullptr);
    if (fd < 0) std::exit(1);
    no_delay(fd);
    Request request;
    if (recv(fd, &request, sizeof request, MSG_WAITALL) == static_cast<ssize_t>(sizeof request)) {
      try {
        request.wants == Wants::kTcpStream ? serve_tcp(fd, request.amount) : serve_tls(fd, context, request);
      } catch (const std::exception&) {
        // The connection ended: accept the next one.
      }
    }
    close(fd);
  }
}

double raw_tls_echo_us(const std::string& address, uint16_t port, size_t calls) {
  const Connection connection(address, port, {Wants::kEcho, calls + 100});
  std::vector<char> message(kMessage, 'x');
  const auto round = [&] {
    write_all(connection.ssl(), message.data(), kMessage);
    read_all(connection.ssl(), message.data(), kMessage);
  };
  for (int i = 0; i < 100; ++i) round();
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < calls; ++i) round();
  return seconds_since(begin) / static_cast<double>(calls) * 1e6;
}

double raw_tls_stream_gb_per_s(const std::string& address, uint16_t port, uint64_t bytes) {
  const Connection connection(address, port, {Wants::kTlsStream, bytes});
  std::vector<char> buffer(kBuffer);
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t left = bytes; left > 0; left -= std::min<uint64_t>(left, kBuffer))
    read_all(connection.ssl(), buffer.data(), std::min<uint64_t>(left, kBuffer));
  return static_cast<double>(bytes) / 1e9 / seconds_since(begin);
}

double raw_tcp_stream_gb_per_s(const std::string& address, uint16_t port, uint64_t bytes) {
  const Connection connection(address, port, {Wants::kTcpStream, bytes});
  std::vector<char> buffer(kBuffer);
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t left = bytes; left > 0;) {
    const ssize_t got = recv(connection.fd(), buffer.data(), kBuffer, 0);
    if (got <= 0) fail("the other side ended");
    left -= static_cast<uint64_t>(got);
  }
  return static_cast<double>(bytes) / 1e9 / seconds_since(begin);
}

}  // namespace volador::bench
