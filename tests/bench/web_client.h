// As much of HTTP/1.1 and WebSocket (RFC 6455) as the figures of the dashboard's server need, with or without TLS.
// Blocks unless said; throws std::runtime_error where the line ends.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct ssl_ctx_st;
struct ssl_st;

namespace volador::bench {

// One connection to a port of the loopback.
class WebLine {
 public:
  enum class Tls : bool { kNo, kYes };  // The certificate is not looked at.
  // receive_bytes: of the kernel's buffer; 0: the default.
  WebLine(int port, Tls tls, int receive_bytes = 0);
  ~WebLine();
  WebLine(const WebLine&) = delete;
  WebLine& operator=(const WebLine&) = delete;

  void write(std::string_view bytes);
  // At least one byte; 0: there is none now (after never_block() only).
  size_t read(char* to, size_t size);
  void never_block();
  int fd() const { return fd_; }
  int port() const { return port_; }

 private:
  const int port_;
  int fd_ = -1;
  ssl_ctx_st* context_ = nullptr;
  ssl_st* ssl_ = nullptr;
};

// Requests one after the other on one connection.
class WebClient {
 public:
  WebClient(int port, std::string token, WebLine::Tls tls = WebLine::Tls::kNo)
      : line_(port, tls), token_(std::move(token)) {}
  // The body. Throws where the status is not 200.
  std::string get(const std::string& target);

 private:
  WebLine line_;
  const std::string token_;
  std::string buffer_;
};

class WebSocket {
 public:
  WebSocket(int port, const std::string& token, WebLine::Tls tls, int receive_bytes = 0);
  void send(std::string_view text);
  // Reads what has come and hands on each whole message. False: nothing came.
  bool poll(const std::function<void(std::string_view message)>& on_message);
  WebLine& line() { return line_; }

 private:
  void frame(int opcode, std::string_view payload);

  WebLine line_;
  std::string buffer_, message_;
};

}  // namespace volador::bench
