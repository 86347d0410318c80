#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/log.h"
#include "runtime/net/channel.h"
#include "runtime/net/local_connection.h"
#include "runtime/net/server_connection.h"
#include "runtime/net/socket.h"
#include "runtime/net/stream.h"
#include "runtime/quantities.h"

namespace volador::net {
namespace {

constexpr size_t kAcceptsMax = 64;  // Per turn of the loop.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr auto kLogEvery = std::chrono::seconds(1);

Error host_ends() { return {ErrorCode::kUnavailable, "this host ends"}; }

// Everything except the counters and close() runs on the loop's thread.
class Server final : public Pollable, public ServerSide, public std::enable_shared_from_this<Server> {
 public:
  Server(IoLoop& io_loop, ServerOptions server_options, CallHandler call_handler)
      : ServerSide(io_loop, std::move(server_options), std::move(call_handler)) {}

  Result<void> start();
  void check_peers();
  void adopt(UniqueFd socket, std::function<void()> on_proved);
  std::shared_ptr<CallConnection> connect_here(ConnectionOptions options, std::function<void(Error)> on_down);
  void close();
  size_t connections() const { return count_.load(); }

  void on_events(uint32_t events) override;
  void on_hello(ServerConnection& connection) override;
  void on_end(ServerConnection& connection, const Error& why) override;

 private:
  void add(std::unique_ptr<Stream> stream, Peer peer, std::function<void()> on_proved = {});
  void shed();
  void pause();
  void report(std::string_view text, const std::string& reason);

  UniqueFd listener_;
  UniqueFd reserve_;  // Released briefly to accept and close a connection when descriptors have run out.
  bool paused_ = false;
  bool closed_ = false;
  ino_t inode_ = 0;  // Inode of the socket file: a file of the same name from another process is not removed.
  std::unordered_map<ServerConnection*, std::shared_ptr<ServerConnection>> connections_;
  std::list<ServerConnection*> half_open_;  // Connections without a hello, oldest first.
  std::atomic<size_t> count_{0};
  BootTime last_report_{};
  size_t unreported_ = 0;
  std::mutex local_mutex_;  // Guards the two members below.
  bool ends_ = false;
  std::vector<std::weak_ptr<LocalCaller>> local_;
};

class LocalConnection final : public CallConnection {
 public:
  explicit LocalConnection(std::shared_ptr<LocalCaller> caller) : caller_(std::move(caller)) {}
  ~LocalConnection() override { caller_->close(); }
  void call(CallRequest&& request, CallDone&& done) override { caller_->call(std::move(request), std::move(done)); }
  void call_into(CallRequest&& request, std::shared_ptr<ReplyRoom>, CallDone&& done) override {
    caller_->call(std::move(request), std::move(done));
  }
  void cancel(uint64_t request_id) override { caller_->cancel(request_id); }
  void give_back() override {}  // The handler already has all calls.
  void close() override { caller_->close(); }

 private:
  const std::shared_ptr<LocalCaller> caller_;
};

Result<void> Server::start() {
  if (options.unix_path.empty()) return {};
  auto listener = listen_unix(options.unix_path);
  if (!listener) return make_error(std::move(listener).error());
  listener_ = *std::move(listener);
  struct stat info {};
  if (::lstat(options.unix_path.c_str(), &info) == 0) inode_ = info.st_ino;
  reserve_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return loop.watch(listener_.get(), EPOLLIN, shared_from_this());
}

void Server::report(std::string_view text, const std::string& reason) {
  const BootTime now = loop.now();
  if (last_report_ != BootTime{} && now - last_report_ < kLogEvery) {
    ++unreported_;
    return;
  }
  log::warn("net", text, {{"socket", options.unix_path}, {"reason", reason}, {"unreported", unreported_}});
  last_report_ = now;
  unreported_ = 0;
}

void Server::on_events(uint32_t) {
  for (size_t i = 0; i < kAcceptsMax && !closed_ && !paused_; ++i) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) shed();
      return;
    }
    ucred peer{};
    socklen_t length = sizeof peer;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
        (peer.uid != ::geteuid() && peer.uid != 0)) {
      report("caller refused", fmt::format("it runs as user {}, this host as user {}", peer.uid, ::geteuid()));
      continue;
    }
    tune_socket(socket.get(), false);
    add(make_plain_stream(std::move(socket)),
        {.caller = {}, .local = true, .identity = fmt::format("uid {} pid {}", peer.uid, peer.pid)});
  }
}

// No descriptors are left: closes one waiting connection with the reserve, so that its peer sees an end.
void Server::shed() {
  report("connections refused", fmt::format("{}: raise the limit (ulimit -n)", std::strerror(errno)));
  reserve_.reset();
  UniqueFd dropped(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  dropped.reset();
  reserve_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!reserve_) pause();
}

// Without the reserve the listener would wake up the loop continuously.
void Server::pause() {
  paused_ = true;
  loop.unwatch(listener_.get());
  loop.add_timer(loop.now() + kAcceptPause, [self = shared_from_this()] {
    if (self->closed_) return;
    self->paused_ = false;
    self->reserve_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!self->reserve_ || !self->loop.watch(self->listener_.get(), EPOLLIN, self)) self->pause();
  });
}

void Server::adopt(UniqueFd socket, std::function<void()> on_proved) {
  loop.post([self = shared_from_this(), socket = std::make_shared<UniqueFd>(std::move(socket)),
             on_proved = std::move(on_proved)]() mutable {
    if (self->closed_) return;
    if (!self->options.tls) return self->report("adopted socket closed", "this host has no certificate");
    const int flags = ::fcntl(socket->get(), F_GETFL);
    if (flags < 0 || ::fcntl(socket->get(), F_SETFL, flags | O_NONBLOCK) != 0) {
      return self->report("adopted socket closed", std::strerror(errno));
    }
    tune_socket(socket->get(), true);
    auto stream = make_tls_server(std::move(*socket), self->options.tls);
    if (!stream) return self->report("adopted socket closed", stream.error().message);
    self->add(*std::move(stream), {}, std::move(on_proved));
  });
}

std::shared_ptr<CallConnection> Server::connect_here(ConnectionOptions options_of_caller,
                                                     std::function<void(Error)> on_down) {
  const auto caller = std::make_shared<LocalCaller>(
      loop, handler,
      LocalCaller::Limits{
          .calls_max = options.calls_max, .bytes_max = options.bytes_max, .later_max = options.later_max},
      std::move(options_of_caller), "this process", std::move(on_down));
  {
    const std::lock_guard lock(local_mutex_);
    std::erase_if(local_, [](const auto& one) { return one.expired(); });
    if (ends_) {
      caller->end(host_ends());
    } else {
      local_.push_back(caller);
    }
  }
  return std::make_shared<LocalConnection>(caller);
}

void Server::check_peers() {
  loop.post([self = shared_from_this()] {
    std::vector<std::shared_ptr<ServerConnection>> open;
    for (const auto& [address, connection] : self->connections_) open.push_back(connection);
    for (const auto& connection : open) connection->check_peer();
  });
}

void Server::add(std::unique_ptr<Stream> stream, Peer peer, std::function<void()> on_proved) {
  if (connections_.size() >= options.connections_max) {
    return report("connection refused",
                  fmt::format("{} open, the limit", counted(connections_.size(), "connection is", "connections are")));
  }
  if (half_open_.size() >= options.handshakes_max && !half_open_.empty()) {
    half_open_.front()->end(
        {ErrorCode::kUnavailable,
         fmt::format("{} handshake, the limit; the "
                     "oldest gives way",
                     counted(options.handshakes_max, "connection is in its", "connections are in their"))});
  }
  auto connection =
      std::make_shared<ServerConnection>(shared_from_this(), std::move(stream), std::move(peer), std::move(on_proved));
  connections_.emplace(connection.get(), connection);
  count_.store(connections_.size());
  connection->half_open = half_open_.insert(half_open_.end(), connection.get());
  connection->start();
}

void Server::on_hello(ServerConnection& connection) {
  half_open_.erase(*connection.half_open);
  connection.half_open.reset();
}

void Server::on_end(ServerConnection& connection, const Error& why) {
  if (connection.half_open) on_hello(connection);
  if (why.code == ErrorCode::kUnavailable) {
    log::debug("net", "caller left", {{"socket", options.unix_path}, {"reason", why.message}});
  } else {
    report("connection closed", why.message);
  }
  connections_.erase(&connection);
  count_.store(connections_.size());
}

void Server::close() {
  loop.run([this] {
    if (closed_) return;
    closed_ = true;
    if (listener_) {
      if (!paused_) loop.unwatch(listener_.get());
      struct stat info {};
      if (::lstat(options.unix_path.c_str(), &info) == 0 && info.st_ino == inode_) ::unlink(options.unix_path.c_str());
      listener_.reset();
      reserve_.reset();
    }
    while (!connections_.empty()) {
      const auto connection = connections_.begin()->second;
      connection->say_goodbye("the host ends");
      connection->end(host_ends());
    }
  });
  std::vector<std::weak_ptr<LocalCaller>> local;
  {
    const std::lock_guard lock(local_mutex_);
    ends_ = true;
    local.swap(local_);
  }
  for (const auto& one : local) {
    if (const auto caller = one.lock()) caller->end(host_ends());
  }
}

class OwnedServer final : public CallServer {
 public:
  explicit OwnedServer(std::shared_ptr<Server> server) : server_(std::move(server)) {}
  ~OwnedServer() override { server_->close(); }
  void adopt(UniqueFd socket, std::function<void()> on_proved) override {
    server_->adopt(std::move(socket), std::move(on_proved));
  }
  std::shared_ptr<CallConnection> connect_here(ConnectionOptions options, std::function<void(Error)> on_down) override {
    return server_->connect_here(std::move(options), std::move(on_down));
  }
  void check_peers() override { server_->check_peers(); }
  void close() override { server_->close(); }
  size_t connections() const override { return server_->connections(); }

 private:
  const std::shared_ptr<Server> server_;
};

}  // namespace

CallHandler each_call(std::function<void(CallRequest&&, std::shared_ptr<Responder>&&)> function) {
  return [function = std::move(function)](std::span<IncomingCall> calls) {
    for (IncomingCall& call : calls) function(std::move(*call.request), std::move(call.responder));
  };
}

Result<std::unique_ptr<CallServer>> CallServer::create(IoLoop& loop, ServerOptions options, CallHandler handler) {
  auto server = std::make_shared<Server>(loop, std::move(options), std::move(handler));
  VOLADOR_TRY(server->start());
  return std::make_unique<OwnedServer>(std::move(server));
}

}  // namespace volador::net
