#include "head/shell/listen_port.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <utility>

namespace volador::head {
namespace {

constexpr int kBacklog = 4096;  // Most machines have a lower kernel limit.

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

int port_of(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// The inode of the listening socket in a table of /proc/net; empty: none.
std::string listening_inode(const char* table, int port) {
  std::ifstream in(table);
  std::string line;
  std::getline(in, line);
  const std::string wanted = fmt::format(":{:04X}", port);
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
    if (state == "0A" && local.ends_with(wanted)) return inode;
  }
  return {};
}

std::string process_with_socket(const std::string& inode) {
  const std::string wanted = fmt::format("socket:[{}]", inode);
  std::error_code ignored;
  for (const auto& process : std::filesystem::directory_iterator(
           "/proc", std::filesystem::directory_options::skip_permission_denied, ignored)) {
    const std::string pid = process.path().filename();
    if (pid.find_first_not_of("0123456789") != pid.npos) continue;
    std::error_code gone;
    for (std::filesystem::directory_iterator fd(process.path() / "fd", gone), end; !gone && fd != end;
         fd.increment(gone)) {
      std::error_code closed;
      if (std::filesystem::read_symlink(fd->path(), closed) != wanted) continue;
      std::ifstream in(process.path() / "comm");
      std::string name;
      std::getline(in, name);
      return fmt::format("{} (pid {})", name, pid);
    }
  }
  return {};
}

}  // namespace

std::string listener_of(int port) {
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    if (const std::string inode = listening_inode(table, port); !inode.empty()) return process_with_socket(inode);
  }
  return {};
}

Result<OpenPort> open_port(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list); code != 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("--bind={}: not an address: {}. Give an IP address of this machine, or auto.", host,
                                  gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(list);
  net::UniqueFd listener(socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int fd = listener.get();
  if (fd < 0)
    return make_error(ErrorCode::kUnavailable, fmt::format("--bind={}: no socket: {}", host, std::strerror(errno)));
  // Ignores connections of an earlier head in TIME_WAIT.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const int off = 0;
  if (list->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  int error_number = 0;
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (bind(fd, list->ai_addr, list->ai_addrlen) != 0 || listen(fd, kBacklog) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    error_number = errno;
  }
  if (error_number == 0) return OpenPort{.fd = std::move(listener), .port = port_of(bound)};
  if (error_number == EADDRINUSE) {
    const std::string owner = listener_of(port);
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{} is in use{}. Stop that process, or choose another port with --port.",
                                  join_host_port(host, port), owner.empty() ? std::string() : " by " + owner));
  }
  if (error_number == EACCES) {
    return make_error(
        ErrorCode::kPermissionDenied,
        fmt::format("{}: ports below 1024 need root. Choose another with --port.", join_host_port(host, port)));
  }
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("--bind={}: {}. Give an IP address of this machine, or auto.", host, std::strerror(error_number)));
}

std::string reachable_host(const std::string& host) {
  if (host != "0.0.0.0" && host != "::" && host != "*") return host;
  ifaddrs* list = nullptr;
  std::string found = "127.0.0.1";
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* one = list; one; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & IFF_LOOPBACK) != 0 ||
        (one->ifa_flags & IFF_UP) == 0)
      continue;
    char text[INET_ADDRSTRLEN];
    if (inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text, sizeof text)) {
      found = text;
      break;
    }
  }
  freeifaddrs(list);
  return found;
}

std::string join_host_port(const std::string& host, int port) {
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

}  // namespace volador::head
