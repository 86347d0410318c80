// A small HTTP/1.1 and WebSocket server on a thread of its own, with or without TLS. The only door to Boost.Beast.
//
// The handler, the sockets' callbacks and everything posted run on that one thread and must not block.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/net/admission.h"
#include "runtime/result.h"

namespace volador::dashboard {

struct HttpLimits {
  size_t header_bytes = 16 << 10;  // Of a request: 431 beyond.
  size_t body_bytes = 64 << 10;    // 413 beyond.
  size_t target_bytes = 4 << 10;   // 414 beyond.
  size_t connections = 512;        // The next ones are closed at once.
  size_t peer_connections = 128;   // Of one address.
  // Connections on which nobody has shown who he is, see net/guarded_port.h: they are served once the head of a request (or a TLS hello)
  // has come, and take a part of `connections` only. A page is loaded by six at once, some of which never carry a request with a cookie.
  // The server itself bounds a request's bytes, and answers 413 or 431 where it has more.
  net::AdmissionLimits strangers = {.connections = 256,
                                    .unproved = 64,
                                    .unproved_of_address = 32,
                                    .proof_time = std::chrono::seconds(20),
                                    .unproved_bytes = std::numeric_limits<uint64_t>::max()};
  std::chrono::seconds stranger_time{5};   // Of these: instead of request_time and idle_time.
  std::chrono::seconds stranger_last{10};  // The answer to a request that begins later is the last one of its connection.
  std::chrono::seconds request_time{10};  // From the first byte of a request to its last; an idle connection closes after idle_time.
  std::chrono::seconds idle_time{75};
  std::chrono::seconds write_time{30};    // A message that could not be written within it ends its connection.
  size_t socket_message_bytes = 16 << 10;  // From a client.
};

struct HttpRequest {
  std::string method;
  std::string target;  // As it came: path and query, percent-encoded.
  std::string body;
  std::string peer;    // Its address without the port.
  bool tls = false;
  bool wants_socket = false;
  // To be called where it shows who sent it: its connection does not count as a stranger's from then on.
  std::function<void()> prove;

  // The value of a header; empty where there is none. `name` in lower case.
  std::string_view header(std::string_view name) const;
  // How often a header occurs.
  size_t count(std::string_view name) const;
  std::vector<std::pair<std::string, std::string>> headers;  // Names in lower case.
};

// A body that is made while it is sent: one piece at a time, the next one once that has left.
class BodySource {
 public:
  using Done = std::function<void(Result<std::string>)>;
  virtual ~BodySource() = default;
  // Of the whole, where it is known before.
  virtual std::optional<uint64_t> length() const { return std::nullopt; }
  // `done` is called once, on the server's thread, now or later, with the next piece; empty: that was all. An error cuts the connection,
  // so that its client sees that something is missing.
  virtual void next(Done done) = 0;
};

struct HttpResponse {
  int status = 200;
  std::string content_type;
  std::string body;
  std::string_view fixed_body = {};  // Instead of `body`: bytes that live as long as the process.
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::shared_ptr<BodySource> source = nullptr;  // Instead of both bodies.
};

// The server's end of a WebSocket. Gone once its connection ends: keep it weakly.
class Socket {
 public:
  virtual ~Socket() = default;
  // Whether a message is still being written.
  virtual bool busy() const = 0;
  // One text message; not while busy.
  virtual void send(std::string text) = 0;
  // After what is being written, `last` (may be empty) and a close frame.
  virtual void close(std::string last) = 0;
};

class SocketEvents {
 public:
  virtual ~SocketEvents() = default;
  virtual void on_text(std::string_view text) = 0;
  virtual void on_written() = 0;  // The socket is not busy any more.
  virtual void on_closed() = 0;   // Last.
};

class HttpHandler {
 public:
  using Respond = std::function<void(HttpResponse)>;
  virtual ~HttpHandler() = default;
  // `respond` is called once, on the server's thread, now or later.
  virtual void on_request(HttpRequest request, Respond respond) = 0;
  // A request that wants to become a WebSocket: its events, or the answer that refuses it.
  virtual tl::expected<std::shared_ptr<SocketEvents>, HttpResponse> on_socket(const HttpRequest& request, std::weak_ptr<Socket> socket) = 0;
  // Headers that every answer carries, those of the server's own refusals too.
  virtual const std::vector<std::pair<std::string, std::string>>& common_headers() const = 0;
};

struct HttpServerOptions {
  std::string bind = "127.0.0.1";
  uint16_t port = 0;            // 0: a free one.
  std::string certificate_pem;  // With the key: TLS (1.2 and later) only.
  std::string key_pem;
  HttpLimits limits = {};
};

class HttpServer {
 public:
  // kUnavailable: the port is in use or the address not of this machine; kInvalidArgument: certificate or key cannot be used.
  // Listens when it returns, answers after run().
  [[nodiscard]] static Result<std::unique_ptr<HttpServer>> listen(const HttpServerOptions& options);
  // As stop().
  ~HttpServer();

  uint16_t port() const;
  // Starts the thread. The handler outlives the server.
  void run(HttpHandler& handler);
  // For connections from now on; those that are open go on. On the server's thread. kInvalidArgument: they cannot be used, and the old
  // ones stay.
  Result<void> set_certificate(const std::string& certificate_pem, const std::string& key_pem);
  // Closes every connection; nothing runs any more when it returns. Repeated calls do nothing.
  void stop();

  // Thread safe. Dropped after stop().
  void post(std::function<void()> function);
  // On the server's thread.
  void post_after(std::chrono::nanoseconds delay, std::function<void()> function);

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::dashboard
