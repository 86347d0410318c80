#include "runtime/net/socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

namespace volador::net {
namespace {

constexpr int kBacklog = 1024;
constexpr int kBufferBytes = 1 << 20;

std::string reason() { return std::strerror(errno); }

// Removes a stale socket file; other files are left alone.
Result<void> remove_stale(const std::string& path, const SocketAddress& address, int type) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return {};
  if (!S_ISSOCK(info.st_mode)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: exists and is no socket; remove it or choose another path", path));
  }
  const UniqueFd probe(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return make_error(ErrorCode::kUnavailable, fmt::format("{}: socket: {}", path, reason()));
  const auto* at = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::connect(probe.get(), at, address.length) == 0 || errno != ECONNREFUSED) {
    return make_error(ErrorCode::kUnavailable, fmt::format("{}: another process listens there; stop it first", path));
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return make_error(ErrorCode::kUnavailable, fmt::format("{}: removing the old socket file: {}", path, reason()));
  }
  return {};
}

}  // namespace

Result<SocketAddress> unix_address(const std::string& path) {
  SocketAddress address;
  auto* un = reinterpret_cast<sockaddr_un*>(&address.storage);
  if (path.empty() || path.size() >= sizeof un->sun_path || path.find('\0') != std::string::npos) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("Unix socket path \"{}\" has {} bytes; 1 to {} are allowed: set VOLADOR_HOME or "
                                  "XDG_RUNTIME_DIR to a shorter path",
                                  path, path.size(), sizeof un->sun_path - 1));
  }
  un->sun_family = AF_UNIX;
  std::memcpy(un->sun_path, path.data(), path.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_NUMERICHOST;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  int status = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
  if (status == EAI_NONAME) {
    hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
    status = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
  }
  if (status != 0) {
    return make_error(ErrorCode::kNotFound, fmt::format("address \"{}\": {}", host, ::gai_strerror(status)));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.length = one->ai_addrlen;
    addresses.push_back(address);
  }
  ::freeaddrinfo(found);
  return addresses;
}

Result<Connecting> start_connect(const SocketAddress& address) {
  Connecting result;
  result.socket.reset(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!result.socket) return make_error(ErrorCode::kUnavailable, fmt::format("socket: {}", reason()));
  tune_socket(result.socket.get(), address.storage.ss_family != AF_UNIX);
  if (::connect(result.socket.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) == 0) {
    return result;
  }
  result.busy = errno == EAGAIN;
  result.in_progress = errno == EINPROGRESS || errno == EINTR;
  if (!result.busy && !result.in_progress) {
    return make_error(ErrorCode::kUnavailable, fmt::format("connect: {}", reason()));
  }
  return result;
}

int take_socket_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

Result<UniqueFd> listen_unix(const std::string& path, int type) {
  const auto address = unix_address(path);
  if (!address) return make_error(address.error());
  VOLADOR_TRY(remove_stale(path, *address, type));
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return make_error(ErrorCode::kUnavailable, fmt::format("{}: socket: {}", path, reason()));
  // No connection is possible between bind and listen, so the mode is set in time.
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address->storage), address->length) != 0) {
    return make_error(ErrorCode::kUnavailable, fmt::format("{}: bind: {}", path, reason()));
  }
  if (::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    const std::string why = reason();
    ::unlink(path.c_str());
    return make_error(ErrorCode::kUnavailable, fmt::format("{}: listen: {}", path, why));
  }
  return fd;
}

void tune_socket(int fd, bool tcp) {
  const auto set = [fd](int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); };
  if (!tcp) {
    set(SOL_SOCKET, SO_SNDBUF, kBufferBytes);  // TCP sizes its buffers automatically.
    return;
  }
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 2);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
}

}  // namespace volador::net
