#include "worker/data_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "runtime/log.h"
#include "runtime/net/server_name.h"
#include "runtime/security/tls_context.h"

namespace volador::worker {
namespace {

using std::chrono::milliseconds;

constexpr auto kPause = milliseconds(100);
constexpr auto kLookAgain =
    milliseconds(20);  // Bytes that are left on a socket wake a level-triggered wait without end.
constexpr int kAcceptsATurn = 64;

}  // namespace

struct DataPort::Listener final : net::Pollable {
  DataPort* port = nullptr;
  net::UniqueFd fd;
  net::UniqueFd reserve;  // Given up for a moment to refuse a connection when descriptors have run out.
  void on_events(uint32_t) override {
    if (port != nullptr) port->accept();
  }
};

struct DataPort::Waiting final : net::Pollable, std::enable_shared_from_this<DataPort::Waiting> {
  DataPort* port = nullptr;
  uint64_t number = 0;
  net::UniqueFd fd;
  bool watched = false;
  BootTime until{};
  net::IoLoop::TimerId timer = 0;
  void on_events(uint32_t) override {
    if (port != nullptr) port->look(shared_from_this());
  }
};

DataPort::DataPort(net::IoLoop& loop, const DataPortOptions& options, Adopt adopt)
    : loop_(loop), options_(options), adopt_(std::move(adopt)) {}

Result<std::unique_ptr<DataPort>> DataPort::create(net::IoLoop& loop, const DataPortOptions& options, Adopt adopt) {
  sockaddr_storage address{};
  socklen_t size = 0;
  auto* four = reinterpret_cast<sockaddr_in*>(&address);
  auto* six = reinterpret_cast<sockaddr_in6*>(&address);
  if (::inet_pton(AF_INET, options.bind_address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(options.port);
    size = sizeof *four;
  } else if (::inet_pton(AF_INET6, options.bind_address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(options.port);
    size = sizeof *six;
  } else {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("bind address: expected an IPv4 or IPv6 address, got \"{}\"", options.bind_address));
  }
  const auto failed = [&](const char* what) {
    const int error = errno;
    const char* next = error == EADDRINUSE      ? "; choose another port"
                       : error == EADDRNOTAVAIL ? "; it is not an address of this machine"
                                                : "";
    return make_error(ErrorCode::kUnavailable, fmt::format("data port {}:{}: {}: {}{}", options.bind_address,
                                                           options.port, what, std::strerror(error), next));
  };
  auto listener = std::make_shared<Listener>();
  listener->fd.reset(::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener->fd) return failed("socket");
  const int on = 1;
  ::setsockopt(listener->fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(listener->fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return failed("bind");
  if (::listen(listener->fd.get(), 256) != 0) return failed("listen");
  if (::getsockname(listener->fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return failed("getsockname");
  listener->reserve.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));

  std::unique_ptr<DataPort> port(new DataPort(loop, options, std::move(adopt)));
  const bool is_four = address.ss_family == AF_INET;
  const int number = ntohs(is_four ? four->sin_port : six->sin6_port);
  port->address_ = is_four ? fmt::format("{}:{}", options.bind_address, number)
                           : fmt::format("[{}]:{}", options.bind_address, number);
  listener->port = port.get();
  port->listener_ = listener;
  VOLADOR_TRY(loop.watch(listener->fd.get(), EPOLLIN, listener));
  return port;
}

DataPort::~DataPort() {
  loop_.run([this] { close(); });
}

void DataPort::close() {
  if (pause_timer_ != 0) loop_.cancel_timer(std::exchange(pause_timer_, 0));
  if (listener_ && listener_->fd) {
    listener_->port = nullptr;
    loop_.unwatch(listener_->fd.get());
    listener_->fd.reset();
  }
  while (!waiting_.empty()) drop(waiting_.begin()->second);
}

void DataPort::accept() {
  for (int i = 0; i < kAcceptsATurn && listener_->fd; ++i) {
    net::UniqueFd fd(::accept4(listener_->fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      log::warn("worker", "the data port cannot accept", {{"reason", std::strerror(errno)}});
      // Refuse one by the descriptor kept for it, so that a caller learns it at once; then let the others wait a
      // little.
      listener_->reserve.reset();
      net::UniqueFd refused(::accept4(listener_->fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
      refused.reset();
      listener_->reserve.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      return pause();
    }
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (waiting_.size() >= options_.waiting_max) drop(waiting_.begin()->second);
    auto waiting = std::make_shared<Waiting>();
    waiting->port = this;
    waiting->number = next_++;
    waiting->fd = std::move(fd);
    waiting->until = loop_.now() + options_.hello_timeout;
    waiting_[waiting->number] = waiting;
    waiting->watched = loop_.watch(waiting->fd.get(), EPOLLIN, waiting).has_value();
    if (!waiting->watched) {
      drop(waiting);
      continue;
    }
    waiting->timer = loop_.add_timer(waiting->until, [this, waiting] {
      waiting->timer = 0;
      if (waiting->port != nullptr) drop(waiting);
    });
  }
}

void DataPort::pause() {
  loop_.change(listener_->fd.get(), 0);
  pause_timer_ = loop_.add_timer(loop_.now() + kPause, [this] {
    pause_timer_ = 0;
    if (listener_->fd) loop_.change(listener_->fd.get(), EPOLLIN);
  });
}

void DataPort::look(const std::shared_ptr<Waiting>& waiting) {
  const auto name = net::peek_server_name(waiting->fd.get());
  if (!name) return drop(waiting);
  if (!*name) {
    if (waiting->watched) loop_.unwatch(waiting->fd.get());
    waiting->watched = false;
    if (waiting->timer != 0) loop_.cancel_timer(std::exchange(waiting->timer, 0));
    if (loop_.now() >= waiting->until) return drop(waiting);
    waiting->timer = loop_.add_timer(loop_.now() + kLookAgain, [this, waiting] {
      waiting->timer = 0;
      if (waiting->port != nullptr) look(waiting);
    });
    return;
  }
  const auto host = **name == security::kNodeServerName ? HostId{} : parse_id<HostId>(**name);
  if (!host) return drop(waiting);
  if (waiting->watched) loop_.unwatch(waiting->fd.get());
  waiting->watched = false;
  net::UniqueFd fd = std::move(waiting->fd);
  drop(waiting);
  if (const auto adopted = adopt_(*host, std::move(fd)); !adopted) {
    log::debug("worker", "a connection to the data port was refused", {{"reason", adopted.error().message}});
  }
}

void DataPort::drop(const std::shared_ptr<Waiting>& waiting) {
  const auto kept = waiting;
  if (kept->timer != 0) loop_.cancel_timer(std::exchange(kept->timer, 0));
  if (kept->watched) loop_.unwatch(kept->fd.get());
  kept->watched = false;
  kept->port = nullptr;
  kept->fd.reset();
  waiting_.erase(kept->number);
}

}  // namespace volador::worker
