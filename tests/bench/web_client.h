// The subset of HTTP/1.1 and WebSocket (RFC 6455) that the figures of the dashboard's server need, with or without TLS.
// Blocks unless stated otherwise; throws std::runtime_error when the connection ends.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct ssl_ctx_st;
struct ssl_st;

namespace volador::bench {

// A connection to a loopback port.
class WebLine {
 public:
  enum class Tls : bool { kNo, kYes };  // The certificate is not verified.
  // receive_bytes: size of the kernel's buffer; 0: the default.
  WebLine(int port, Tls tls, int receive_bytes = 0);
  ~WebLine();
  WebLine(const WebLine&) = delete;
  WebLine& operator=(const WebLine&) = delete;

  void write(std::string_view bytes);
  // Returns at least one byte; 0: none available (after never_block() only).
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

// Sequential requests on one connection.
class WebClient {
 public:
  WebClient(int port, std::string token, WebLine::Tls tls = WebLine::Tls::kNo)
      : line_(port, tls), token_(std::move(token)) {}
  // Returns the body. Throws if the status is not 200.
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
  // Reads available data and passes on each complete message. Returns false if nothing was available.
  bool poll(const std::function<void(std::string_view message)>& on_message);
  WebLine& line() { return line_; }

 private:
  void frame(int opcode, std::string_view payload);

  WebLine line_;
  std::string buffer_, message_;
};

}  // namespace volador::bench
