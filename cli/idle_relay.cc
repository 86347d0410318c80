#include "cli/idle_relay.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include "runtime/net/loopback_socket.h"
#include "runtime/net/unique_fd.h"

namespace volador::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr size_t kRelayPieceBytes = size_t{64} << 10;
constexpr size_t kConnectionsMax = 256;
constexpr std::string_view kStarts =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html; charset=utf-8\r\nRefresh: 1\r\nRetry-After: 1\r\n"
    "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    "<!doctype html><title>TensorBoard</title><p>TensorBoard starts…</p>\n";

}  // namespace

struct IdleRelay::Impl {
  struct Connection {
    net::UniqueFd client;
    std::thread thread;
    std::atomic<bool> over = false;
  };

  ~Impl() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t told = ::write(ends.get(), &one, sizeof one);
    if (accepts.joinable()) accepts.join();
    for (Connection& connection : connections) connection.thread.join();
  }

  void accept_all();
  void serve(Connection& connection);
  void note_use() { used = SteadyClock::now().time_since_epoch().count(); }

  net::UniqueFd listener;
  net::UniqueFd ends{::eventfd(0, EFD_CLOEXEC)};  // Readable: everything ends.
  uint16_t port = 0;
  std::atomic<uint16_t> target = 0;  // 0: the server starts.
  std::atomic<SteadyClock::rep> used = SteadyClock::now().time_since_epoch().count();
  std::thread accepts;
  std::list<Connection> connections;  // Used by the thread that accepts.
};

void IdleRelay::Impl::accept_all() {
  for (;;) {
    std::array<pollfd, 2> waits{
        {{.fd = listener.get(), .events = POLLIN, .revents = 0}, {.fd = ends.get(), .events = POLLIN, .revents = 0}}};
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    if (waits[1].revents != 0) return;
    if (waits[0].revents == 0) continue;
    net::UniqueFd client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) continue;
    note_use();
    connections.remove_if([](Connection& one) {
      if (!one.over) return false;
      one.thread.join();
      return true;
    });
    if (connections.size() >= kConnectionsMax) continue;
    Connection& connection = connections.emplace_back();
    // The end of the relay waits for this long, where a client does not read.
    const timeval most{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(client.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    connection.client = std::move(client);
    connection.thread = std::thread([this, &connection] {
      serve(connection);
      connection.client.reset();
      connection.over = true;
    });
  }
}

void IdleRelay::Impl::serve(Connection& connection) {
  const int client = connection.client.get();
  std::string piece(kRelayPieceBytes, '\0');
  net::UniqueFd server;
  if (const uint16_t to = target; to != 0) {
    server = net::connect_to_loopback(to);
  }
  std::array<pollfd, 3> waits{{{.fd = client, .events = POLLIN, .revents = 0},
                               {.fd = ends.get(), .events = POLLIN, .revents = 0},
                               {.fd = server ? server.get() : -1, .events = POLLIN, .revents = 0}}};
  std::string head;
  for (;;) {
    if (::poll(waits.data(), waits.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (waits[1].revents != 0) return;
    if (waits[0].revents != 0) {
      const ssize_t got = ::recv(client, piece.data(), piece.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      note_use();
      const std::string_view bytes(piece.data(), got > 0 ? static_cast<size_t>(got) : 0);
      if (!server) {
        head += bytes;
        if (got > 0 && head.find("\r\n\r\n") == std::string::npos && head.size() < kRelayPieceBytes) continue;
        if (got > 0) std::ignore = net::send_all(client, kStarts);
        return;
      }
      if (got <= 0) {
        ::shutdown(server.get(), SHUT_WR);
        waits[0].fd = -1;
      } else if (!net::send_all(server.get(), bytes)) {
        return;
      }
    }
    if (waits[2].revents != 0) {
      const ssize_t got = ::recv(server.get(), piece.data(), piece.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0 || !net::send_all(client, std::string_view(piece.data(), static_cast<size_t>(got)))) return;
    }
  }
}

IdleRelay::IdleRelay(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
IdleRelay::~IdleRelay() = default;

Result<std::unique_ptr<IdleRelay>> IdleRelay::open(uint16_t port) {
  auto impl = std::make_unique<Impl>();
  auto listener = net::listen_on_loopback(port);
  if (!listener)
    return make_error(listener.error().code, listener.error().message + "; start it again, it gets another port");
  impl->listener = std::move(*listener);
  impl->port = net::port_of(impl->listener);
  impl->accepts = std::thread([impl = impl.get()] { impl->accept_all(); });
  return std::unique_ptr<IdleRelay>(new IdleRelay(std::move(impl)));
}

uint16_t IdleRelay::port() const { return impl_->port; }
void IdleRelay::lead_to(uint16_t port) { impl_->target = port; }
std::chrono::milliseconds IdleRelay::idle() const {
  const SteadyClock::time_point used{SteadyClock::duration(impl_->used.load())};
  return std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now() - used);
}

}  // namespace volador::cli
