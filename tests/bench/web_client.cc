#include "tests/bench/web_client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace volador::bench {

WebLine::WebLine(int port, Tls tls, int receive_bytes)
    : port_(port), fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_bytes > 0) setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
  const int one = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error(fmt::format("port {}: {}", port, std::strerror(errno)));
  if (tls == Tls::kNo) return;
  context_ = SSL_CTX_new(TLS_client_method());
  ssl_ = SSL_new(context_);
  SSL_set_fd(ssl_, fd_);
  if (SSL_connect(ssl_) != 1) throw std::runtime_error("TLS was refused");
}

WebLine::~WebLine() {
  SSL_free(ssl_);
  SSL_CTX_free(context_);
  close(fd_);
}

void WebLine::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto written = ssl_ != nullptr ? SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                                         : ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written <= 0) throw std::runtime_error("the server closed the connection");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

size_t WebLine::read(char* to, size_t size) {
  const auto got = ssl_ != nullptr ? SSL_read(ssl_, to, static_cast<int>(size)) : ::recv(fd_, to, size, 0);
  if (got > 0) return static_cast<size_t>(got);
  const bool none_now =
      ssl_ != nullptr ? SSL_get_error(ssl_, static_cast<int>(got)) == SSL_ERROR_WANT_READ : got < 0 && errno == EAGAIN;
  if (none_now) return 0;
  throw std::runtime_error("the server closed the connection");
}

void WebLine::never_block() { fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK); }

namespace {

constexpr size_t kPiece = 64 << 10;

// Reads up to the empty line, which is removed; bytes after it stay in the buffer.
std::string read_head(WebLine& line, std::string& buffer) {
  std::array<char, kPiece> piece;
  for (;;) {
    if (const size_t end = buffer.find("\r\n\r\n"); end != std::string::npos) {
      std::string head = buffer.substr(0, end);
      buffer.erase(0, end + 4);
      return head;
    }
    buffer.append(piece.data(), line.read(piece.data(), piece.size()));
  }
}

}  // namespace

std::string WebClient::get(const std::string& target) {
  line_.write(fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\r\n", target,
                          line_.port(), token_));
  const std::string head = read_head(line_, buffer_);
  const size_t length_at = head.find("Content-Length: ");
  if (length_at == std::string::npos) throw std::runtime_error(target + ": no Content-Length");
  const size_t length = std::stoul(head.substr(length_at + 16));
  std::array<char, kPiece> piece;
  while (buffer_.size() < length) buffer_.append(piece.data(), line_.read(piece.data(), piece.size()));
  std::string body = buffer_.substr(0, length);
  buffer_.erase(0, length);
  if (!head.starts_with("HTTP/1.1 200"))
    throw std::runtime_error(fmt::format("{}: {} {}", target, head.substr(0, head.find('\r')), body));
  return body;
}

WebSocket::WebSocket(int port, const std::string& token, WebLine::Tls tls, int receive_bytes)
    : line_(port, tls, receive_bytes) {
  line_.write(
      fmt::format("GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\nUpgrade: "
                  "websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                  "Sec-WebSocket-Key: dm9sYWRvciBiZW5jaCBrZQ==\r\n\r\n",
                  port, token));
  const std::string head = read_head(line_, buffer_);
  if (!head.starts_with("HTTP/1.1 101")) throw std::runtime_error("/ws: " + head.substr(0, head.find('\r')));
}

void WebSocket::frame(int opcode, std::string_view payload) {
  if (payload.size() > 65535) throw std::runtime_error("a message of the bench is too long");
  std::string bytes(1, static_cast<char>(0x80 | opcode));
  if (payload.size() < 126) {
    bytes += static_cast<char>(0x80 | payload.size());
  } else {
    bytes += {static_cast<char>(0x80 | 126), static_cast<char>(payload.size() >> 8),
              static_cast<char>(payload.size() & 0xFF)};
  }
  bytes.append(4, '\0');  // A zero mask leaves the bytes unchanged.
  bytes += payload;
  line_.write(bytes);
}

void WebSocket::send(std::string_view text) { frame(1, text); }

bool WebSocket::poll(const std::function<void(std::string_view)>& on_message) {
  std::array<char, kPiece> piece;
  const size_t got = line_.read(piece.data(), piece.size());
  if (got == 0) return false;
  buffer_.append(piece.data(), got);
  size_t at = 0;
  while (buffer_.size() - at >= 2) {
    const auto byte = [&](size_t index) {
      return static_cast<size_t>(static_cast<unsigned char>(buffer_[at + index]));
    };
    const size_t opcode = byte(0) & 0x0F;
    const bool last = (byte(0) & 0x80) != 0;
    size_t size = byte(1) & 0x7F, head = 2;
    const size_t length_bytes = size == 126 ? 2 : size == 127 ? 8 : 0;
    if (buffer_.size() - at < head + length_bytes) break;
    if (length_bytes > 0) size = 0;
    for (; head < 2 + length_bytes; ++head) size = size << 8 | byte(head);
    if (buffer_.size() - at < head + size) break;
    const std::string_view payload = std::string_view(buffer_).substr(at + head, size);
    at += head + size;
    if (opcode == 8) throw std::runtime_error("the server closed the WebSocket");
    if (opcode == 9) frame(10, payload);
    if (opcode > 2) continue;
    message_ += payload;
    if (!last) continue;
    on_message(message_);
    message_.clear();
  }
  buffer_.erase(0, at);
  return true;
}

}  // namespace volador::bench
