#include "runtime/security/tcp_connect.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/security/handshake.h"

namespace volador::security {
namespace {

struct Target {
  sockaddr_storage address{};
  socklen_t size = 0;
  int family = 0;
  std::string text;
};

struct Resolution {
  int error = 0;
  std::vector<Target> targets;
};

Resolution resolve_now(const HostPort& where, bool numeric) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (numeric ? AI_NUMERICHOST : 0);
  addrinfo* found = nullptr;
  Resolution out;
  out.error = ::getaddrinfo(where.host.c_str(), where.port.c_str(), &hints, &found);
  for (const addrinfo* entry = found; out.error == 0 && entry != nullptr; entry = entry->ai_next) {
    Target target{.size = entry->ai_addrlen, .family = entry->ai_family};
    std::memcpy(&target.address, entry->ai_addr, entry->ai_addrlen);
    char text[NI_MAXHOST] = {};
    ::getnameinfo(entry->ai_addr, entry->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
    target.text = text;
    out.targets.push_back(std::move(target));
  }
  if (found != nullptr) ::freeaddrinfo(found);
  return out;
}

struct Pending {
  std::mutex mutex;
  std::condition_variable done;
  bool finished = false;
  Resolution resolution;
};

// The C library's resolver has no deadline and cannot be cancelled: names are resolved on a thread that owns its data
// and may outlive the call; it ends when the resolver gives up.
std::optional<Resolution> resolve(const HostPort& where, SteadyTime deadline) {
  if (auto numeric = resolve_now(where, true); numeric.error == 0) return numeric;
  auto pending = std::make_shared<Pending>();
  std::thread([pending, where] {
    auto resolution = resolve_now(where, false);
    const std::scoped_lock lock(pending->mutex);
    pending->resolution = std::move(resolution);
    pending->finished = true;
    pending->done.notify_all();
  }).detach();
  std::unique_lock lock(pending->mutex);
  if (!pending->done.wait_until(lock, deadline, [&] { return pending->finished; })) return std::nullopt;
  return std::move(pending->resolution);
}

struct Attempt {
  Socket socket;
  int error = 0;  // ETIMEDOUT also if our own deadline passed.
};

Attempt try_target(const Target& target, SteadyTime deadline) {
  Socket socket(::socket(target.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return {.socket = {}, .error = errno};
  if (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&target.address), target.size) != 0) {
    if (errno != EINPROGRESS) return {.socket = {}, .error = errno};
    if (!wait_for(socket.fd(), true, deadline)) return {.socket = {}, .error = ETIMEDOUT};
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return {.socket = {}, .error = error};
  }
  return {.socket = std::move(socket), .error = 0};
}

Error connect_error(std::string_view address, int error, const std::string& tried) {
  if (error == ECONNREFUSED) {
    return {
        ErrorCode::kUnavailable,
        fmt::format("nothing listens at {} (connection refused; tried {}). Check address and port; `volador status` on "
                    "that machine shows whether its head runs and where it listens.",
                    address, tried)};
  }
  if (error == ETIMEDOUT) {
    return {ErrorCode::kUnavailable,
            fmt::format(
                "{} did not answer in time (connecting to {}). Check the address, the network and firewalls between.",
                address, tried)};
  }
  return {ErrorCode::kUnavailable, fmt::format("{} is unreachable: {} (tried {}). Check the address and the network.",
                                               address, std::strerror(error), tried)};
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}
Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

bool wait_for(int fd, bool writable, SteadyTime deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    pollfd entry{.fd = fd, .events = static_cast<short>(writable ? POLLOUT : POLLIN), .revents = 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

Result<Socket> connect_tcp(std::string_view address, SteadyTime deadline) {
  auto where = parse_host_port(address);
  if (!where) return make_error(where.error());
  auto resolution = resolve(*where, deadline);
  if (!resolution) {
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("{}: looking up the name {} took too long. Check the name service, or use the IP address.", address,
                    where->host));
  }
  if (resolution->error != 0) {
    return make_error(ErrorCode::kUnavailable, fmt::format("{}: {}: {}. Check the spelling, or use the IP address.",
                                                           address, where->host, ::gai_strerror(resolution->error)));
  }
  std::string tried;
  int error = EHOSTUNREACH;
  const size_t count = resolution->targets.size();
  for (size_t i = 0; i < count; ++i) {
    const auto now = std::chrono::steady_clock::now();
    const auto share = (deadline - now) / static_cast<int64_t>(count - i);
    auto attempt = try_target(resolution->targets[i], now + share);
    if (attempt.error == 0) return std::move(attempt.socket);
    error = attempt.error;
    if (!tried.empty()) tried += ", ";
    tried += resolution->targets[i].text;
  }
  return make_error(connect_error(address, error, tried));
}

}  // namespace volador::security
