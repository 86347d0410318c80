#include "dashboard/http_server.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <cerrno>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "dashboard/api.h"
#include "dashboard/request_guard.h"
#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/net/guarded_port.h"
#include "runtime/text.h"

namespace volador::dashboard {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr int kNotSentBytesMax = 128 << 10;  // Per connection, in the kernel, beyond its peer's window.
using NotSentMax = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_NOTSENT_LOWAT>;

// One connection, with or without TLS; the protocols above it are compiled only once.
class Stream {
 public:
  using executor_type = beast::tcp_stream::executor_type;

  Stream(tcp::socket socket, asio::ssl::context* tls) : tcp_(std::move(socket)) {
    if (tls != nullptr) tls_.emplace(tcp_, *tls);
  }
  executor_type get_executor() noexcept { return tcp_.get_executor(); }
  beast::tcp_stream& tcp_layer() { return tcp_; }
  bool is_tls() const { return tls_.has_value(); }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) {
      tls_->async_read_some(buffers, std::forward<Handler>(handler));
    } else {
      tcp_.async_read_some(buffers, std::forward<Handler>(handler));
    }
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) {
      tls_->async_write_some(buffers, std::forward<Handler>(handler));
    } else {
      tcp_.async_write_some(buffers, std::forward<Handler>(handler));
    }
  }
  template <class Handler>
  void async_handshake(Handler&& handler) {
    tls_->async_handshake(asio::ssl::stream_base::server, std::forward<Handler>(handler));
  }
  // Closing TCP suffices: every message carries its length.
  void shutdown() {
    error_code ignored;
    tcp_.socket().shutdown(tcp::socket::shutdown_both, ignored);
  }
  void close() {
    error_code ignored;
    tcp_.socket().close(ignored);
  }

 private:
  beast::tcp_stream tcp_;
  std::optional<asio::ssl::stream<beast::tcp_stream&>> tls_;
};

void beast_close_socket(Stream& stream) { stream.close(); }

template <class Handler>
void async_teardown(beast::role_type, Stream& stream, Handler&& handler) {
  stream.shutdown();
  asio::post(stream.get_executor(), beast::bind_front_handler(std::forward<Handler>(handler), error_code()));
}

// Whether a request head waits on a socket; used as net::GuardedPortOptions::has_hello.
Result<bool> peek_request_head(int fd, size_t header_bytes) {
  std::string bytes(header_bytes, '\0');
  const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got > 0) return is_request_head(std::string_view(bytes).substr(0, static_cast<size_t>(got)), header_bytes);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  return make_error(ErrorCode::kUnavailable, "the peer closed");
}

using Parser = http::request_parser<http::string_body>;
using Outgoing = http::response<http::span_body<const char>>;

HttpRequest to_request(const http::request<http::string_body>& message, const Stream& stream, std::string peer) {
  HttpRequest out{.method = std::string(message.method_string()),
                  .target = std::string(message.target()),
                  .body = message.body(),
                  .peer = std::move(peer)};
  out.tls = stream.is_tls();
  out.wants_socket = websocket::is_upgrade(message);
  for (const auto& field : message)
    out.headers.emplace_back(lower_case({field.name_string().data(), field.name_string().size()}),
                             std::string(field.value()));
  return out;
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

size_t HttpRequest::count(std::string_view name) const {
  return static_cast<size_t>(
      std::count_if(headers.begin(), headers.end(), [name](const auto& entry) { return entry.first == name; }));
}

namespace {

class HttpConnection;

struct Server {
  explicit Server(const HttpServerOptions& o) : options(o) {}

  Result<void> listen();
  Result<void> set_certificate(const std::string& certificate_pem, const std::string& key_pem);
  void serve(uint64_t number, net::UniqueFd connection, const std::string& peer);

  const HttpServerOptions options;
  const SystemClock clock;
  HttpHandler* handler = nullptr;
  uint16_t port = 0;
  tcp protocol = tcp::v4();
  std::unique_ptr<net::GuardedPort> guard;
  size_t connections = 0;
  std::map<std::string, size_t> of_peer;
  // Its destructor destroys the connections, which use the members above.
  asio::io_context context{1};
  const asio::executor_work_guard<asio::io_context::executor_type> work{
      context.get_executor()};  // Keeps run() alive without connections.
  std::optional<asio::ssl::context> tls;
  // Connections that wait for their handler. Held only here, so that none outlives the members above.
  std::set<std::shared_ptr<HttpConnection>> waiting;
};

// Counts a connection while it exists, and tells the port whether it is authenticated.
class Place {
 public:
  Place(Server& server, uint64_t number, std::string peer) : server_(server), number_(number), peer_(std::move(peer)) {
    ++server_.connections;
    ++server_.of_peer[peer_];
  }
  ~Place() {
    if (!proved_) server_.guard->on_closed(number_);
    --server_.connections;
    if (const auto found = server_.of_peer.find(peer_); --found->second == 0) server_.of_peer.erase(found);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  const std::string& peer() const { return peer_; }
  bool proved() const { return proved_; }
  void prove() {
    if (!std::exchange(proved_, true)) server_.guard->on_proved(number_);
  }
  bool is_old_stranger() const {
    return !proved_ && server_.clock.now() - began_ >= server_.options.limits.stranger_last;
  }

 private:
  Server& server_;
  const uint64_t number_;
  const std::string peer_;
  const BootTime began_ = server_.clock.now();
  bool proved_ = false;
};

// The parts of a connection; a WebSocket takes them over from its HTTP connection.
struct Line {
  Place place;
  Stream stream;
};

class SocketConnection final : public Socket, public std::enable_shared_from_this<SocketConnection> {
 public:
  SocketConnection(Server& server, std::shared_ptr<Line> line)
      : server_(server), line_(std::move(line)), socket_(line_->stream), write_timer_(server.context) {}

  void start(std::shared_ptr<SocketEvents> events, const http::request<http::string_body>& request) {
    events_ = std::move(events);
    line_->stream.tcp_layer().expires_never();
    const HttpLimits& limits = server_.options.limits;
    socket_.set_option(websocket::stream_base::timeout{
        .handshake_timeout = limits.request_time, .idle_timeout = limits.idle_time, .keep_alive_pings = true});
    socket_.set_option(websocket::stream_base::decorator([this](websocket::response_type& response) {
      for (const auto& [name, value] : server_.handler->common_headers()) response.set(name, value);
    }));
    socket_.read_message_max(limits.socket_message_bytes);
    socket_.text(true);
    socket_.auto_fragment(false);  // A message is one frame; fragments of 4 kB would each be a write.
    socket_.async_accept(request, [self = shared_from_this()](error_code error) {
      if (error) return self->end();
      self->open_ = true;
      self->read();
      self->write_next();
    });
  }

  bool busy() const override { return writing_ || !waiting_.empty() || closing_; }
  void send(std::string text) override {
    if (closing_ || ended_) return;
    waiting_.push_back(std::move(text));
    write_next();
  }
  void close(std::string last) override {
    if (closing_ || ended_) return;
    if (!last.empty()) waiting_.push_back(std::move(last));
    closing_ = true;
    write_next();
  }

 private:
  void read() {
    socket_.async_read(in_, [self = shared_from_this()](error_code error, size_t) {
      if (error || self->ended_) return self->end();
      const std::string text = beast::buffers_to_string(self->in_.data());
      self->in_.consume(self->in_.size());
      if (!self->closing_) self->events_->on_text(text);
      self->read();
    });
  }

  void write_next() {
    if (!open_ || writing_ || ended_) return;
    if (waiting_.empty()) {
      if (closing_) close_now();
      return;
    }
    writing_ = true;
    out_ = std::move(waiting_.front());
    waiting_.pop_front();
    watch_writing();
    socket_.async_write(asio::buffer(out_), [self = shared_from_this()](error_code error, size_t) {
      self->writing_ = false;
      self->write_timer_.cancel();
      if (error) return self->end();
      self->write_next();
      if (!self->busy()) self->events_->on_written();
    });
  }

  // Bounds the time for which a peer that does not read occupies resources.
  void watch_writing() {
    write_timer_.expires_after(server_.options.limits.write_time);
    write_timer_.async_wait([self = weak_from_this()](error_code error) {
      if (auto here = self.lock(); here && !error) here->line_->stream.close();
    });
  }

  void close_now() {
    writing_ = true;
    watch_writing();
    socket_.async_close(websocket::close_code::normal, [self = shared_from_this()](error_code) { self->end(); });
  }

  void end() {
    if (std::exchange(ended_, true)) return;
    write_timer_.cancel();
    line_->stream.close();
    events_->on_closed();
  }

  Server& server_;
  std::shared_ptr<Line> line_;
  websocket::stream<Stream&> socket_;
  asio::steady_timer write_timer_;
  std::shared_ptr<SocketEvents> events_;
  beast::flat_buffer in_;
  std::string out_;
  std::deque<std::string> waiting_;  // At most two: send() requires !busy(), close() adds one.
  bool open_ = false;
  bool writing_ = false;
  bool closing_ = false;
  bool ended_ = false;
};

class HttpConnection final : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(Server& server, std::shared_ptr<Line> line) : server_(server), line_(std::move(line)) {}

  void start() {
    line_->stream.tcp_layer().expires_after(limits().stranger_time);
    if (!line_->stream.is_tls()) return wait_for_bytes();
    line_->stream.async_handshake([self = shared_from_this()](error_code error) {
      if (!error) self->wait_for_bytes();
    });
  }

 private:
  const HttpLimits& limits() const { return server_.options.limits; }
  bool is_stranger() const { return !line_->place.proved(); }

  // A connection may be idle between requests, but a started request must complete in time.
  void wait_for_bytes() {
    if (buffer_.size() > 0) return read_request();
    line_->stream.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](error_code error, size_t bytes) {
      if (error) return;
      self->buffer_.commit(bytes);
      self->read_request();
    });
  }

  void read_request() {
    line_->stream.tcp_layer().expires_after(is_stranger() ? limits().stranger_time : limits().request_time);
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(limits().header_bytes));
    parser_->body_limit(limits().body_bytes);
    http::async_read(line_->stream, buffer_, *parser_,
                     [self = shared_from_this()](error_code error, size_t) { self->on_read(error); });
  }

  void on_read(error_code error) {
    if (error == http::error::header_limit) return refuse(431, "the headers are longer than 16 KiB");
    if (error == http::error::body_limit) return refuse(413, "the body is longer than 64 KiB", target_read());
    if (error == http::error::end_of_stream || error == beast::error::timeout) return line_->stream.shutdown();
    if (error && error.category() == make_error_code(http::error::bad_method).category())
      return refuse(400, "this is no valid HTTP request");
    if (error) return;
    message_ = parser_->release();
    keep_alive_ = message_.keep_alive();
    head_only_ = message_.method() == http::verb::head;
    if (message_.target().size() > limits().target_bytes)
      return refuse(414, "the address is longer than 4 KiB",
                    std::string_view(message_.target().data(), message_.target().size()));
    HttpRequest request = to_request(message_, line_->stream, line_->place.peer());
    request.prove = [line = std::weak_ptr(line_)] {
      if (const auto here = line.lock()) here->place.prove();
    };
    line_->stream.tcp_layer().expires_never();  // The response may take a while; writing it has a separate limit.
    if (request.wants_socket) return open_socket(request);
    wait_for<HttpResponse>([&](auto done) { server_.handler->on_request(std::move(request), std::move(done)); },
                           [](HttpConnection& self, HttpResponse response) { self.answer(std::move(response)); });
  }

  // Drops responses that arrive after the connection closed.
  template <class Answer>
  void wait_for(auto ask, auto use) {
    const auto self = shared_from_this();
    server_.waiting.insert(self);
    try {
      ask([weak = weak_from_this(), use](Answer answer) {
        const auto here = weak.lock();
        if (!here) return;
        here->server_.waiting.erase(here);
        use(*here, std::move(answer));
      });
    } catch (...) {
      server_.waiting.erase(self);
      throw;
    }
  }

  void open_socket(const HttpRequest& request) {
    auto socket = std::make_shared<SocketConnection>(server_, line_);
    auto events = server_.handler->on_socket(request, socket);
    if (!events) return answer(std::move(events.error()));
    socket->start(std::move(*events), message_);
  }

  // The target of a request whose body was not read.
  std::string_view target_read() const {
    const auto target = parser_->get().target();
    return {target.data(), target.size()};
  }

  // `target`: of the request, as far as it is known. Requests of the API get its form of errors.
  void refuse(int status, const std::string& why, std::string_view target = {}) {
    keep_alive_ = false;
    if (target.starts_with("/api/")) return answer(problem(status, Error{ErrorCode::kInvalidArgument, why}));
    answer({.status = status, .content_type = "text/plain; charset=utf-8", .body = why + "\n"});
  }

  void answer(HttpResponse response) {
    if (std::exchange(answering_, true)) return;
    response_ = std::move(response);
    const std::string_view body =
        response_.fixed_body.empty() ? std::string_view(response_.body) : response_.fixed_body;
    out_.emplace();
    out_->result(static_cast<unsigned>(response_.status));
    out_->version(11);
    for (const auto& [name, value] : server_.handler->common_headers()) out_->set(name, value);
    for (const auto& [name, value] : response_.headers) out_->set(name, value);
    if (!response_.content_type.empty()) out_->set(http::field::content_type, response_.content_type);
    keep_alive_ = keep_alive_ && !line_->place.is_old_stranger();
    out_->keep_alive(keep_alive_);
    if (response_.source) return answer_in_pieces();
    out_->content_length(body.size());
    if (!head_only_) out_->body() = {body.data(), body.size()};
    serializer_.emplace(*out_);
    if (head_only_) serializer_->split(true);
    line_->stream.tcp_layer().expires_after(limits().write_time);
    auto written = [self = shared_from_this()](error_code error, size_t) { self->on_written(error); };
    if (head_only_) {
      http::async_write_header(line_->stream, *serializer_, std::move(written));
    } else {
      http::async_write(line_->stream, *serializer_, std::move(written));
    }
  }

  void answer_in_pieces() {
    const auto length = response_.source->length();
    chunked_ = !length;
    if (length) {
      out_->content_length(*length);
    } else {
      out_->chunked(true);
    }
    serializer_.emplace(*out_);
    serializer_->split(true);
    line_->stream.tcp_layer().expires_after(limits().write_time);
    http::async_write_header(line_->stream, *serializer_, [self = shared_from_this()](error_code error, size_t) {
      if (error) return;
      if (self->head_only_) return self->on_written(error);
      self->next_piece();
    });
  }

  // In a separate turn, so that a long body does not block other connections.
  void next_piece() {
    line_->stream.tcp_layer().expires_never();
    asio::post(server_.context, [self = shared_from_this()] {
      self->wait_for<Result<std::string>>(
          [&](auto done) { self->response_.source->next(std::move(done)); },
          [](HttpConnection& here, Result<std::string> piece) { here.write_piece(std::move(piece)); });
    });
  }

  void write_piece(Result<std::string> piece) {
    if (!piece) {
      log::warn("dashboard", "a download was cut", {{"why", piece.error().message}});
      return line_->stream.close();
    }
    const bool last = piece->empty();
    if (last && !chunked_) return on_written({});
    piece_ =
        chunked_ ? last ? "0\r\n\r\n" : fmt::format("{:x}\r\n", piece->size()) + *piece + "\r\n" : std::move(*piece);
    line_->stream.tcp_layer().expires_after(limits().write_time);
    asio::async_write(line_->stream, asio::buffer(piece_), [self = shared_from_this(), last](error_code error, size_t) {
      if (error || last) return self->on_written(error);
      self->next_piece();
    });
  }

  void on_written(error_code error) {
    if (error) return;
    serializer_.reset();
    out_.reset();
    response_ = {};
    answering_ = false;
    if (!keep_alive_) return linger();
    line_->stream.tcp_layer().expires_after(is_stranger() ? limits().stranger_time : limits().idle_time);
    wait_for_bytes();
  }

  // Reads the peer's remaining data for a moment, since a reset would discard the response.
  void linger() {
    error_code ignored;
    line_->stream.tcp_layer().socket().shutdown(tcp::socket::shutdown_send, ignored);
    line_->stream.tcp_layer().expires_after(std::chrono::seconds(1));
    drain(0);
  }
  void drain(size_t drained) {
    if (drained > (size_t{1} << 20)) return;
    buffer_.consume(buffer_.size());
    line_->stream.tcp_layer().async_read_some(buffer_.prepare(4096),
                                              [self = shared_from_this(), drained](error_code error, size_t bytes) {
                                                if (!error) self->drain(drained + bytes);
                                              });
  }

  Server& server_;
  std::shared_ptr<Line> line_;
  beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  http::request<http::string_body> message_;
  HttpResponse response_;
  std::optional<Outgoing> out_;
  std::optional<http::response_serializer<http::span_body<const char>>> serializer_;
  bool keep_alive_ = false;
  bool head_only_ = false;
  bool answering_ = false;
  bool chunked_ = false;
  std::string piece_;  // Piece of a streamed body.
};

Result<void> Server::listen() {
  error_code error;
  const auto address = asio::ip::make_address(options.bind, error);
  if (error)
    return make_error(ErrorCode::kInvalidArgument, fmt::format("dashboard: \"{}\" is no IP address", options.bind));
  if (!options.certificate_pem.empty()) VOLADOR_TRY(set_certificate(options.certificate_pem, options.key_pem));
  const tcp::endpoint endpoint(address, options.port);
  protocol = endpoint.protocol();
  tcp::acceptor acceptor(context);
  acceptor.open(protocol, error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) acceptor.native_non_blocking(true, error);
  if (!error) {
    port = acceptor.local_endpoint().port();
    net::GuardedPortOptions guarded{.component = "dashboard", .limits = options.limits.strangers};
    if (!tls) guarded.has_hello = [most = options.limits.header_bytes](int fd) { return peek_request_head(fd, most); };
    auto made = net::GuardedPort::create(net::UniqueFd(acceptor.release()), clock, std::move(guarded));
    if (!made) return make_error(std::move(made).error());
    guard = std::move(*made);
    return {};
  }
  return make_error(
      ErrorCode::kUnavailable,
      fmt::format(
          "dashboard: {}:{} cannot be served: {}. Choose another port with --dashboard-port, or leave it out with "
          "--no-dashboard.",
          options.bind, options.port, error.message()));
}

// Connections keep the context they started with.
Result<void> Server::set_certificate(const std::string& certificate_pem, const std::string& key_pem) {
  error_code error;
  asio::ssl::context made(asio::ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(made.native_handle(), TLS1_2_VERSION);
  made.use_certificate_chain(asio::buffer(certificate_pem), error);
  if (!error) made.use_private_key(asio::buffer(key_pem), asio::ssl::context::pem, error);
  if (!error && SSL_CTX_check_private_key(made.native_handle()) != 1) error = asio::error::invalid_argument;
  if (error)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("dashboard: its certificate and key cannot be used ({})", error.message()));
  tls = std::move(made);
  return {};
}

void Server::serve(uint64_t number, net::UniqueFd connection, const std::string& peer) {
  const auto from_there = of_peer.find(peer);
  const bool room = connections < options.limits.connections &&
                    (from_there == of_peer.end() || from_there->second < options.limits.peer_connections);
  if (!room) return guard->on_refused(number);
  error_code error;
  tcp::socket socket(context);
  socket.assign(protocol, connection.get(), error);
  if (error) return guard->on_refused(number);
  (void)connection.release();
  // Limits unsent data in the kernel of a slow reader; otherwise megabytes become stale before they are read.
  socket.set_option(NotSentMax(kNotSentBytesMax), error);
  std::shared_ptr<Line> line(new Line{Place(*this, number, peer), Stream(std::move(socket), tls ? &*tls : nullptr)});
  std::make_shared<HttpConnection>(*this, std::move(line))->start();
}

}  // namespace

struct HttpServer::Impl {
  std::mutex mutex;  // Guards `server`, which other threads may post to while it ends.
  std::unique_ptr<Server> server;
  uint16_t port = 0;
  std::thread thread;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() { stop(); }

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const HttpServerOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->server = std::make_unique<Server>(options);
  VOLADOR_TRY(impl->server->listen());
  impl->port = impl->server->port;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

uint16_t HttpServer::port() const { return impl_->port; }

void HttpServer::run(HttpHandler& handler) {
  Server& server = *impl_->server;
  server.handler = &handler;
  server.guard->start([&server](uint64_t number, net::UniqueFd connection, const net::GuardedPort::Peer& peer) {
    asio::post(server.context, [&server, number, connection = std::move(connection), address = peer.address]() mutable {
      server.serve(number, std::move(connection), address);
    });
  });
  impl_->thread = std::thread([&server] {
    pthread_setname_np(pthread_self(), "dashboard");
    while (true) {
      try {
        server.context.run();
        return;
      } catch (const std::exception& error) {  // Thrown by a handler; only its connection ends.
        log::error("dashboard", "a handler threw", {{"what", error.what()}});
      }
    }
  });
}

Result<void> HttpServer::set_certificate(const std::string& certificate_pem, const std::string& key_pem) {
  return impl_->server->set_certificate(certificate_pem, key_pem);
}

void HttpServer::stop() {
  if (impl_->server) {
    impl_->server->guard->stop();
    impl_->server->context.stop();
  }
  if (impl_->thread.joinable()) impl_->thread.join();
  std::unique_ptr<Server> ended;
  {
    std::lock_guard lock(impl_->mutex);
    ended = std::move(impl_->server);
  }
}

void HttpServer::post(std::function<void()> function) {
  std::lock_guard lock(impl_->mutex);
  if (impl_->server) asio::post(impl_->server->context, std::move(function));
}

void HttpServer::post_after(std::chrono::nanoseconds delay, std::function<void()> function) {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->server) return;
  auto timer = std::make_shared<asio::steady_timer>(impl_->server->context, delay);
  timer->async_wait([timer, function = std::move(function)](error_code error) {
    if (!error) function();
  });
}

}  // namespace volador::dashboard
