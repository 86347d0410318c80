// A small HTTP/1.1 and WebSocket server with its own thread, optionally with TLS. Only this file's .cc uses
// Boost.Beast.
//
// The handler, socket callbacks and posted functions run on that thread and must not block.
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

// Limits per server, connection and request.
struct HttpLimits {
  size_t header_bytes = 16 << 10;  // Per request; 431 beyond it.
  size_t body_bytes = 64 << 10;    // 413 beyond it.
  size_t target_bytes = 4 << 10;   // 414 beyond it.
  size_t connections = 512;        // Further connections are closed at once.
  size_t peer_connections = 128;   // Per address.
  // Limits of unauthenticated connections, see net/guarded_port.h: they are served once the head of a request (or a TLS
  // hello) has arrived, and may use only a part of `connections`. A browser opens six at once, some of which never
  // carry a request with a cookie. The server itself limits a request's bytes and responds with 413 or 431.
  net::AdmissionLimits strangers = {.connections = 256,
                                    .unproved = 64,
                                    .unproved_of_address = 32,
                                    .proof_time = std::chrono::seconds(20),
                                    .unproved_bytes = std::numeric_limits<uint64_t>::max()};
  std::chrono::seconds stranger_time{5};  // For unauthenticated connections, instead of request_time and idle_time.
  // A response to a request that begins later is the last one on its connection.
  std::chrono::seconds stranger_last{10};
  // From the first to the last byte of a request; an idle connection closes after idle_time.
  std::chrono::seconds request_time{10};
  std::chrono::seconds idle_time{75};
  std::chrono::seconds write_time{30};     // A connection whose message cannot be written in time is closed.
  size_t socket_message_bytes = 16 << 10;  // Messages from a client.
};

// A received request.
struct HttpRequest {
  std::string method;
  std::string target;  // Unparsed: path and query, percent-encoded.
  std::string body;
  std::string peer;  // The peer's address without the port.
  bool tls = false;
  bool wants_socket = false;
  // To be called once the request is authenticated: lifts the limits of unauthenticated connections.
  std::function<void()> prove;

  // The value of a header; empty if missing. `name` in lower case.
  std::string_view header(std::string_view name) const;
  // The number of occurrences of a header.
  size_t count(std::string_view name) const;
  std::vector<std::pair<std::string, std::string>> headers;  // Names in lower case.
};

// A response body generated while it is sent: the next piece is requested after the previous one was sent.
class BodySource {
 public:
  using Done = std::function<void(Result<std::string>)>;
  virtual ~BodySource() = default;
  // Total length, if known in advance.
  virtual std::optional<uint64_t> length() const { return std::nullopt; }
  // Calls `done` once, on the server's thread, now or later, with the next piece; an empty piece ends the body. An
  // error cuts the connection, so that the client notices the truncation.
  virtual void next(Done done) = 0;
};

// A response to send.
struct HttpResponse {
  int status = 200;
  std::string content_type;
  std::string body;
  std::string_view fixed_body = {};  // Instead of `body`: bytes with static storage duration.
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::shared_ptr<BodySource> source = nullptr;  // Instead of `body` and `fixed_body`.
};

// The server's end of a WebSocket. Destroyed with its connection: hold it weakly.
class Socket {
 public:
  virtual ~Socket() = default;
  // Whether a message is being written.
  virtual bool busy() const = 0;
  // Sends one text message. Requires !busy().
  virtual void send(std::string text) = 0;
  // Sends `last` (may be empty) and a close frame after the pending write.
  virtual void close(std::string last) = 0;
};

// Receives the events of a WebSocket, on the server's thread.
class SocketEvents {
 public:
  virtual ~SocketEvents() = default;
  virtual void on_text(std::string_view text) = 0;
  virtual void on_written() = 0;  // The socket is not busy any more.
  virtual void on_closed() = 0;   // Called last.
};

// Handles the requests of a server, on its thread.
class HttpHandler {
 public:
  using Respond = std::function<void(HttpResponse)>;
  virtual ~HttpHandler() = default;
  // `respond` is called once, on the server's thread, now or later.
  virtual void on_request(HttpRequest request, Respond respond) = 0;
  // Handles a WebSocket upgrade: returns its event receiver, or the response that refuses it.
  virtual tl::expected<std::shared_ptr<SocketEvents>, HttpResponse> on_socket(const HttpRequest& request,
                                                                              std::weak_ptr<Socket> socket) = 0;
  // Headers of every response, including the server's own errors.
  virtual const std::vector<std::pair<std::string, std::string>>& common_headers() const = 0;
};

// Address, certificate and limits of a server.
struct HttpServerOptions {
  std::string bind = "127.0.0.1";
  uint16_t port = 0;            // 0: any free port.
  std::string certificate_pem;  // With the key: enables TLS (1.2 and later) only.
  std::string key_pem;
  HttpLimits limits = {};
};

class HttpServer {
 public:
  // kUnavailable: the port is in use, or the address is not of this machine; kInvalidArgument: invalid certificate or
  // key. Listens when it returns; serves after run().
  [[nodiscard]] static Result<std::unique_ptr<HttpServer>> listen(const HttpServerOptions& options);
  // Calls stop().
  ~HttpServer();

  uint16_t port() const;
  // Starts the thread. The handler must outlive the server.
  void run(HttpHandler& handler);
  // Applies to new connections; open ones continue. Call on the server's thread. kInvalidArgument: invalid certificate
  // or key; the old ones stay.
  Result<void> set_certificate(const std::string& certificate_pem, const std::string& key_pem);
  // Closes every connection; nothing runs after it returns. Idempotent.
  void stop();

  // Thread safe. Functions posted after stop() are dropped.
  void post(std::function<void()> function);
  // Call on the server's thread.
  void post_after(std::chrono::nanoseconds delay, std::function<void()> function);

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::dashboard
