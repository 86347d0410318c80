#include "dashboard/page_ports.h"

#include <fmt/format.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "dashboard/page_head.h"
#include "runtime/log.h"
#include "runtime/operations/registry.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/security/principal.h"
#include "runtime/security/secret.h"

namespace volador::dashboard {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::use_awaitable;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using Reply = operations::Registry::Reply;
using namespace std::chrono_literals;

constexpr size_t kHeadBytes = 64 << 10;
constexpr size_t kBytesAtOnce = 256 << 10;
constexpr size_t kKeysMax = 8;  // Unused ones of a page.
constexpr int64_t kReadWaitMs = 20'000;
constexpr auto kFirstPause = 20ms;  // Between tries to write while the server in the job does not read.
constexpr auto kLongestPause = 500ms;
constexpr auto kLinger = 1s;  // For the browser to read the end of a reply.
constexpr auto kAcceptPause = 50ms;

std::string_view status_text(int status) {
  switch (status) {
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 421:
      return "Misdirected Request";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Bad Gateway";
  }
}

int status_of(ErrorCode code) {
  return code == ErrorCode::kNotFound ? 404 : code == ErrorCode::kPermissionDenied ? 403 : 502;
}

using PlainStream = beast::tcp_stream;
using TlsStream = asio::ssl::stream<beast::tcp_stream>;

PlainStream& tcp_layer(PlainStream& stream) { return stream; }
PlainStream& tcp_layer(TlsStream& stream) { return stream.next_layer(); }

struct OpenConnection {
  virtual ~OpenConnection() = default;
  virtual void close() = 0;
};

// A page: its port, and the secrets that open it. Used on the thread of the pages only.
struct Page {
  Page(asio::io_context& context, PageTarget t) : target(std::move(t)), acceptor(context) {}

  const PageTarget target;
  tcp::acceptor acceptor;
  uint16_t port = 0;
  std::shared_ptr<asio::ssl::context> tls;  // Null: none.
  const std::string secret = new_secret();  // In the cookie of the browser that opened it.
  std::deque<std::string> keys;
  std::set<OpenConnection*> connections;
  BootTime used{};  // When its last connection ended.
  bool closed = false;

  std::string cookie_name() const { return fmt::format("volador_page_{}", port); }
  void close() {
    if (std::exchange(closed, true)) return;
    error_code ignored;
    acceptor.close(ignored);
    for (OpenConnection* connection : std::set(connections)) connection->close();
  }
};

template <class Stream>
struct PageConnection final : OpenConnection {
  PageConnection(std::shared_ptr<Page> p, Stream s, std::string address)
      : page(std::move(p)), stream(std::move(s)), peer(std::move(address)) {
    page->connections.insert(this);
  }
  ~PageConnection() override { page->connections.erase(this); }
  PageConnection(const PageConnection&) = delete;
  PageConnection& operator=(const PageConnection&) = delete;

  void close() override {
    closed = true;
    tcp_layer(stream).close();
  }

  const std::shared_ptr<Page> page;
  Stream stream;
  const std::string peer;
  std::string command;  // Id of its connection in the job.
  bool closed = false;
};

// A request about the connection in the job.
template <class Request, class Stream>
std::shared_ptr<Request> request_in_job(const PageConnection<Stream>& connection) {
  auto request = std::make_shared<Request>();
  request->set_job(connection.page->target.job);
  request->set_rank(connection.page->target.rank);
  request->set_command(connection.command);
  return request;
}

}  // namespace

// All but the constructor, stop() and the replies of operations runs on its thread.
struct PagePorts::Impl {
  Impl(PagePortsOptions o, operations::Registry& r, AccessOf a, const Clock& c)
      : options(std::move(o)), registry(r), access_of(std::move(a)), clock(c) {}

  // Replies to operations that arrive when nothing waits for them any longer are dropped.
  struct Gate {
    std::mutex mutex;
    Impl* impl = nullptr;
  };

  void start();
  Result<Opened> open(const PageTarget& target);
  Result<std::shared_ptr<Page>> listen(const PageTarget& target);
  void close_idle();

  asio::awaitable<Result<Reply>> ask(std::string_view name, security::Principal by,
                                     std::shared_ptr<const google::protobuf::Message> request);
  asio::awaitable<void> wait(std::chrono::milliseconds time);
  asio::awaitable<void> accept_all(std::shared_ptr<Page> page);
  template <class Stream>
  asio::awaitable<void> serve(std::shared_ptr<PageConnection<Stream>> connection);
  template <class Stream>
  asio::awaitable<void> forward(std::shared_ptr<PageConnection<Stream>> connection, PageRequest request,
                                std::string rest, security::Principal by);
  // From the browser to the job, until the browser closes.
  template <class Stream>
  asio::awaitable<void> give(std::shared_ptr<PageConnection<Stream>> connection, uint64_t left, bool upgrade,
                             security::Principal by);
  // From the job to the browser, until the job's server closes.
  template <class Stream>
  asio::awaitable<void> take(std::shared_ptr<PageConnection<Stream>> connection, std::string origin,
                             security::Principal by);
  template <class Stream>
  asio::awaitable<bool> put(std::shared_ptr<PageConnection<Stream>> connection, std::string bytes,
                            security::Principal by);
  template <class Stream>
  asio::awaitable<void> refuse(std::shared_ptr<PageConnection<Stream>> connection, int status, std::string why);
  template <class Stream>
  asio::awaitable<void> send(std::shared_ptr<PageConnection<Stream>> connection, std::string bytes);
  template <class Stream>
  asio::awaitable<void> linger(std::shared_ptr<PageConnection<Stream>> connection);

  PagePortsOptions options;
  operations::Registry& registry;
  const AccessOf access_of;
  const Clock& clock;
  const std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  uint64_t asked = 0;
  std::map<uint64_t, std::function<void(Result<Reply>)>> answers;  // Operations that have no reply yet.
  std::map<uint16_t, std::shared_ptr<Page>> pages;
  // Their destructors end what waits, which uses the members above.
  asio::io_context context{1};
  asio::steady_timer idle_timer{context};
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
  std::thread thread;
  bool stopped = false;
};

void PagePorts::Impl::start() {
  work.emplace(context.get_executor());
  {
    const std::lock_guard lock(gate->mutex);
    gate->impl = this;
  }
  thread = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "pages");
    context.run();
  });
}

Result<std::shared_ptr<Page>> PagePorts::Impl::listen(const PageTarget& target) {
  auto page = std::make_shared<Page>(context, target);
  error_code error;
  const auto address = asio::ip::make_address(options.bind, error);
  const tcp::endpoint endpoint(address, 0);
  if (!error) page->acceptor.open(endpoint.protocol(), error);
  if (!error) page->acceptor.bind(endpoint, error);
  if (!error) page->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error && !options.certificate_pem.empty()) {
    page->tls = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
    SSL_CTX_set_min_proto_version(page->tls->native_handle(), TLS1_2_VERSION);
    page->tls->use_certificate_chain(asio::buffer(options.certificate_pem), error);
    if (!error) page->tls->use_private_key(asio::buffer(options.key_pem), asio::ssl::context::pem, error);
  }
  if (error)
    return make_error(ErrorCode::kUnavailable, fmt::format("the head cannot open a port for the page on {} ({})",
                                                           options.bind, error.message()));
  page->port = page->acceptor.local_endpoint().port();
  page->used = clock.now();
  return page;
}

Result<PagePorts::Opened> PagePorts::Impl::open(const PageTarget& target) {
  close_idle();
  std::shared_ptr<Page> page;
  for (const auto& [port, one] : pages) {
    if (one->target == target) page = one;
  }
  if (!page) {
    if (pages.size() >= options.pages)
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("{} pages of jobs are open, and no more may be; those that are not used for {} "
                                    "minutes close, or use `volador job forward`",
                                    pages.size(), options.idle_time.count()));
    auto made = listen(target);
    if (!made) return make_error(made.error());
    page = std::move(*made);
    pages.emplace(page->port, page);
    asio::co_spawn(context, accept_all(page), asio::detached);
    log::info("dashboard", "a page of a job is open",
              {{"job", target.job}, {"rank", target.rank}, {"port", target.port}, {"here", page->port}});
  }
  page->keys.push_back(new_secret());
  if (page->keys.size() > kKeysMax) page->keys.pop_front();
  return Opened{.port = page->port, .key = page->keys.back()};
}

void PagePorts::Impl::close_idle() {
  std::erase_if(pages, [this](const auto& entry) {
    Page& page = *entry.second;
    const bool idle = page.connections.empty() && clock.now() - page.used >= options.idle_time;
    if (page.closed || idle || !access_of(page.target)) page.close();
    return page.closed;
  });
  if (pages.empty()) return;
  idle_timer.expires_after(10s);
  idle_timer.async_wait([this](error_code error) {
    if (!error) close_idle();
  });
}

asio::awaitable<Result<Reply>> PagePorts::Impl::ask(std::string_view name, security::Principal by,
                                                    std::shared_ptr<const google::protobuf::Message> request) {
  auto begin = [this, name, by = std::move(by), request = std::move(request)](auto handler) {
    const uint64_t id = ++asked;
    auto kept = std::make_shared<decltype(handler)>(std::move(handler));
    answers.emplace(id, [kept](Result<Reply> reply) { std::move (*kept)(std::move(reply)); });
    registry.call(name, by, *request, operations::Registry::Done<Reply>([to = gate, id](Result<Reply> reply) {
                    const std::lock_guard lock(to->mutex);
                    if (to->impl == nullptr) return;
                    asio::post(to->impl->context, [impl = to->impl, id, reply = std::move(reply)]() mutable {
                      auto found = impl->answers.extract(id);
                      if (!found.empty()) found.mapped()(std::move(reply));
                    });
                  }));
  };
  return asio::async_initiate<const asio::use_awaitable_t<>, void(Result<Reply>)>(std::move(begin), use_awaitable);
}

asio::awaitable<void> PagePorts::Impl::wait(std::chrono::milliseconds time) {
  asio::steady_timer timer(context, time);
  error_code ignored;
  co_await timer.async_wait(asio::redirect_error(use_awaitable, ignored));
}

asio::awaitable<void> PagePorts::Impl::accept_all(std::shared_ptr<Page> page) {
  while (!page->closed) {
    error_code error;
    tcp::socket socket = co_await page->acceptor.async_accept(asio::redirect_error(use_awaitable, error));
    if (page->closed) co_return;
    if (error) {  // No descriptor is left, for example.
      co_await wait(kAcceptPause);
      continue;
    }
    if (page->connections.size() >= options.connections) continue;
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const std::string peer = socket.remote_endpoint(ignored).address().to_string();
    if (page->tls) {
      auto connection = std::make_shared<PageConnection<TlsStream>>(
          page, TlsStream(beast::tcp_stream(std::move(socket)), *page->tls), peer);
      asio::co_spawn(context, serve(std::move(connection)), asio::detached);
    } else {
      auto connection = std::make_shared<PageConnection<PlainStream>>(page, beast::tcp_stream(std::move(socket)), peer);
      asio::co_spawn(context, serve(std::move(connection)), asio::detached);
    }
  }
}

template <class Stream>
asio::awaitable<void> PagePorts::Impl::send(std::shared_ptr<PageConnection<Stream>> connection, std::string bytes) {
  tcp_layer(connection->stream).expires_after(options.write_time);
  co_await asio::async_write(connection->stream, asio::buffer(bytes), use_awaitable);
}

// A reset would discard what the browser has not read yet.
template <class Stream>
asio::awaitable<void> PagePorts::Impl::linger(std::shared_ptr<PageConnection<Stream>> connection) {
  error_code ignored;
  tcp_layer(connection->stream).socket().shutdown(tcp::socket::shutdown_send, ignored);
  co_await wait(kLinger);
  connection->close();
}

template <class Stream>
asio::awaitable<void> PagePorts::Impl::refuse(std::shared_ptr<PageConnection<Stream>> connection, int status,
                                              std::string why) {
  why += "\n";
  // A server that starts answers a moment later.
  const std::string again = status == 502 ? "Refresh: 3\r\n" : "";
  std::string reply = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nCache-Control: "
      "no-store\r\n{}Content-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, status_text(status), again, why.size(), why);
  co_await send(connection, std::move(reply));
  co_await linger(connection);
}

template <class Stream>
asio::awaitable<void> PagePorts::Impl::serve(std::shared_ptr<PageConnection<Stream>> connection) {
  Page& page = *connection->page;
  constexpr bool kTls = std::is_same_v<Stream, TlsStream>;
  try {
    tcp_layer(connection->stream).expires_after(options.head_time);
    if constexpr (kTls) co_await connection->stream.async_handshake(asio::ssl::stream_base::server, use_awaitable);
    std::string in;
    error_code error;
    const size_t size = co_await asio::async_read_until(connection->stream, asio::dynamic_buffer(in, kHeadBytes),
                                                        "\r\n\r\n", asio::redirect_error(use_awaitable, error));
    if (error == asio::error::not_found)
      co_return co_await refuse(connection, 431, fmt::format("the headers are longer than {} KiB", kHeadBytes >> 10));
    if (error) co_return;
    auto request = read_page_request(std::string_view(in).substr(0, size), page.target.port, connection->peer, kTls);
    if (!request) co_return co_await refuse(connection, 400, request.error().message);
    std::string rest = in.substr(size);
    if (!options.guard->is_ours(request->host))
      co_return co_await refuse(connection, 421, "this server does not go by the name in the Host header");
    if (!request->origin.empty() && !options.guard->same_origin(request->origin, request->host, kTls))
      co_return co_await refuse(connection, 403, "pages of other sites may not ask this server");
    PageKey key = take_page_key(request->target);
    if (!key.key.empty()) {
      const auto found = std::ranges::find(page.keys, key.key);
      if (found != page.keys.end()) {
        page.keys.erase(found);
        std::string reply = fmt::format(
            "HTTP/1.1 303 See Other\r\nLocation: {}\r\nSet-Cookie: {}={}; Path=/; HttpOnly; SameSite=Strict{}\r\n"
            "Referrer-Policy: no-referrer\r\nCache-Control: no-store\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            key.target, page.cookie_name(), page.secret, kTls ? "; Secure" : "");
        co_await send(connection, std::move(reply));
        co_return co_await linger(connection);
      }
      request->target = key.target;
    }
    const std::string_view cookie = cookie_of(request->cookie, page.cookie_name());
    if (!security::Secret(page.secret).equals(cookie)) {
      std::string why = fmt::format(
          "This page is open to the browser that opened it in the dashboard only: open port {} of {} there again.",
          page.target.port, page.target.job);
      co_return co_await refuse(connection, 403, std::move(why));
    }
    const auto access = access_of(page.target);
    if (!access) {
      page.close();
      co_return;
    }
    Visitor visitor = page.target.visitor;
    visitor.access = *access;
    security::Principal by = principal_of(visitor, connection->peer);
    co_await forward(connection, std::move(*request), std::move(rest), std::move(by));
  } catch (const boost::system::system_error&) {  // The browser has closed, or does not read or write in time.
  }
  connection->close();
  page.used = clock.now();
}

template <class Stream>
asio::awaitable<void> PagePorts::Impl::forward(std::shared_ptr<PageConnection<Stream>> connection, PageRequest request,
                                               std::string rest, security::Principal by) {
  const PageTarget& target = connection->page->target;
  auto start = std::make_shared<v1::StartCommandRequest>();
  start->set_job(target.job);
  start->set_rank(target.rank);
  start->set_port(target.port);
  start->set_request_id(new_secret());
  const Result<Reply> started = co_await ask("Jobs/StartCommand", by, start);
  if (!started) co_return co_await refuse(connection, status_of(started.error().code), started.error().message);
  connection->command = static_cast<const v1::StartCommandReply&>(**started).command();
  if (!request.upgrade && rest.size() > request.body_bytes) rest.resize(request.body_bytes);
  const uint64_t left = request.body_bytes - std::min<uint64_t>(request.body_bytes, rest.size());
  std::string first = request.head + rest;
  const bool given = co_await put(connection, std::move(first), by);
  if (given) asio::co_spawn(context, give(connection, left, request.upgrade, by), asio::detached);
  constexpr bool kTls = std::is_same_v<Stream, TlsStream>;
  std::string origin = (kTls ? "https://" : "http://") + request.host;
  co_await take(connection, std::move(origin), by);
}

template <class Stream>
asio::awaitable<bool> PagePorts::Impl::put(std::shared_ptr<PageConnection<Stream>> connection, std::string bytes,
                                           security::Principal by) {
  auto request = request_in_job<v1::WriteCommandRequest>(*connection);
  request->set_input(std::move(bytes));
  std::chrono::milliseconds pause = kFirstPause;
  while (true) {
    const Result<Reply> given = co_await ask("Jobs/WriteCommand", by, request);
    if (given) co_return true;
    if (given.error().code != ErrorCode::kUnavailable || connection->closed) co_return false;
    co_await wait(pause);
    pause = std::min<std::chrono::milliseconds>(pause * 2, kLongestPause);
  }
}

template <class Stream>
asio::awaitable<void> PagePorts::Impl::give(std::shared_ptr<PageConnection<Stream>> connection, uint64_t left,
                                            bool upgrade, security::Principal by) {
  std::string bytes;
  while (!connection->closed) {
    tcp_layer(connection->stream).expires_never();
    bytes.resize(kBytesAtOnce);
    error_code error;
    const size_t size =
        co_await connection->stream.async_read_some(asio::buffer(bytes), asio::redirect_error(use_awaitable, error));
    if (error) break;
    bytes.resize(size);
    if (!upgrade) {  // What follows the body is no part of this request, and a browser sends none.
      bytes.resize(std::min<uint64_t>(bytes.size(), left));
      left -= bytes.size();
      if (bytes.empty()) continue;
    }
    const bool given = co_await put(connection, bytes, by);
    if (!given) co_return;  // The end is on its way by take().
  }
  auto request = request_in_job<v1::WriteCommandRequest>(*connection);
  request->set_close(true);
  co_await ask("Jobs/WriteCommand", by, request);
}

template <class Stream>
asio::awaitable<void> PagePorts::Impl::take(std::shared_ptr<PageConnection<Stream>> connection, std::string origin,
                                            security::Principal by) {
  const PageTarget& target = connection->page->target;
  auto request = request_in_job<v1::ReadCommandRequest>(*connection);
  request->set_wait_ms(kReadWaitMs);
  std::string head;  // Until the reply's own head is whole.
  bool headed = false;
  while (!connection->closed) {
    const Result<Reply> read = co_await ask("Jobs/ReadCommand", by, request);
    if (!read) {
      if (!headed) co_return co_await refuse(connection, status_of(read.error().code), read.error().message);
      co_return;  // Bytes may be lost: the connection breaks, as it does between two machines.
    }
    const auto& part = static_cast<const v1::ReadCommandReply&>(**read);
    std::string bytes = part.output();
    if (!headed) {
      head += bytes;
      bytes.clear();
      while (!headed) {
        const size_t end = head.find("\r\n\r\n");
        if (end == std::string::npos) break;
        auto reply = read_page_reply(std::string_view(head).substr(0, end + 4), target.port, origin);
        if (!reply) co_return co_await refuse(connection, 502, reply.error().message);
        head.erase(0, end + 4);
        if (reply->informational) continue;
        headed = true;
        bytes = reply->head + head;
      }
      if (!headed && head.size() > kHeadBytes)
        co_return co_await refuse(connection, 502, "the server in the job does not speak HTTP/1");
    }
    if (!bytes.empty()) co_await send(connection, std::move(bytes));
    if (!part.ended()) continue;
    if (!headed) {
      std::string why =
          fmt::format("Port {} of rank {} of {} was closed without a reply.", target.port, target.rank, target.job);
      co_return co_await refuse(connection, 502, std::move(why));
    }
    co_return co_await linger(connection);
  }
}

PagePorts::PagePorts(PagePortsOptions options, operations::Registry& registry, AccessOf access_of, const Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(options), registry, std::move(access_of), clock)) {}

PagePorts::~PagePorts() { stop(); }

Result<PagePorts::Opened> PagePorts::open(const PageTarget& target) {
  if (impl_->stopped) return make_error(ErrorCode::kUnavailable, "the dashboard stops");
  if (!impl_->thread.joinable()) impl_->start();
  std::promise<Result<Opened>> done;
  asio::post(impl_->context, [this, &target, &done] { done.set_value(impl_->open(target)); });
  return done.get_future().get();
}

void PagePorts::end_session(const std::string& session) {
  if (session.empty() || !impl_->thread.joinable()) return;
  asio::post(impl_->context, [impl = impl_.get(), session] {
    std::erase_if(impl->pages, [&session](const auto& entry) {
      if (entry.second->target.session == session) entry.second->close();
      return entry.second->closed;
    });
  });
}

void PagePorts::set_certificate(const std::string& certificate_pem, const std::string& key_pem) {
  const auto set = [impl = impl_.get(), certificate_pem, key_pem] {
    impl->options.certificate_pem = certificate_pem;
    impl->options.key_pem = key_pem;
  };
  if (!impl_->thread.joinable()) return set();
  asio::post(impl_->context, set);
}

void PagePorts::stop() {
  if (std::exchange(impl_->stopped, true)) return;
  {
    const std::lock_guard lock(impl_->gate->mutex);
    impl_->gate->impl = nullptr;
  }
  if (!impl_->thread.joinable()) return;
  asio::post(impl_->context, [impl = impl_.get()] {
    for (const auto& [port, page] : impl->pages) page->close();
    impl->context.stop();
  });
  impl_->thread.join();
  impl_->answers.clear();
  impl_->pages.clear();
}

}  // namespace volador::dashboard
