#include "runtime/net/loopback_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace volador::net {
namespace {

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

Result<UniqueFd> listen_on_loopback(uint16_t port, int type) {
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | type, 0));
  const int yes = 1;
  const sockaddr_in address = loopback(port);
  if (listener && ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(listener.get(), SOMAXCONN) == 0)
    return listener;
  return make_error(ErrorCode::kUnavailable, fmt::format("port {} of 127.0.0.1 cannot be opened: {}", port,
                                                         std::generic_category().message(errno)));
}

UniqueFd connect_to_loopback(uint16_t port) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  if (socket && ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    socket.reset();
  return socket;
}

uint16_t port_of(const UniqueFd& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

Result<uint16_t> free_loopback_port() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in any = loopback(0);
  if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0)
    return make_error(ErrorCode::kUnavailable, fmt::format("no free port: {}", std::generic_category().message(errno)));
  return port_of(socket);
}

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace volador::net
