#include "cli/port_owner.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

namespace volador::cli {

namespace fs = std::filesystem;

namespace {

// Collects the inodes of the sockets that listen on a port, from one of the kernel's tables.
void collect_listeners(const char* table, uint16_t port, std::set<std::string>& inodes) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // Column titles.
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, skipped, inode;
    fields >> number >> local >> remote >> state >> skipped >> skipped >> skipped >> skipped >> skipped >> inode;
    constexpr const char* kListen = "0A";
    if (state == kListen && local.ends_with(fmt::format(":{:04X}", port)))
      inodes.insert(fmt::format("socket:[{}]", inode));
  }
}

std::string command_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

bool holds_one_of(const fs::path& process, const std::set<std::string>& sockets) {
  std::error_code error;
  for (fs::directory_iterator fd(process / "fd", error), end; !error && fd != end; fd.increment(error)) {
    std::error_code gone;
    if (sockets.contains(fs::read_symlink(fd->path(), gone).native())) return true;
  }
  return false;
}

sockaddr_in to_address(const std::string& text, uint16_t port, bool& good) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  good = ::inet_pton(AF_INET, text.c_str(), &address.sin_addr) == 1;
  return address;
}

std::string text_of(const in_addr& address) {
  char buffer[INET_ADDRSTRLEN];
  return ::inet_ntop(AF_INET, &address, buffer, sizeof buffer) != nullptr ? buffer : "";
}

std::string first_interface_address() {
  ifaddrs* interfaces = nullptr;
  if (::getifaddrs(&interfaces) != 0) return "";
  std::string found;
  for (ifaddrs* entry = interfaces; entry != nullptr && found.empty(); entry = entry->ifa_next) {
    const bool usable = entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET &&
                        (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable) continue;
    sockaddr_in address{};
    std::memcpy(&address, entry->ifa_addr, sizeof address);
    found = text_of(address.sin_addr);
  }
  ::freeifaddrs(interfaces);
  return found;
}

}  // namespace

std::optional<std::string> port_owner(uint16_t port) {
  std::set<std::string> sockets;
  collect_listeners("/proc/net/tcp", port, sockets);
  collect_listeners("/proc/net/tcp6", port, sockets);
  if (sockets.empty()) return std::nullopt;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().native();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (holds_one_of(entry->path(), sockets)) return fmt::format("process {} ({})", name, command_of(name));
  }
  return "a process of another user";
}

Result<void> check_port_free(const std::string& address, uint16_t port) {
  bool good = false;
  const sockaddr_in socket_address = to_address(address, port, good);
  if (!good)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("bind: expected an IPv4 address of this machine or auto, got \"{}\"", address));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return make_error(ErrorCode::kUnavailable, fmt::format("cannot make a socket: {}", std::strerror(errno)));
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  int error = 0;
  // With SO_REUSEADDR bind() succeeds on a port that is being listened on, but listen() fails.
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&socket_address), sizeof socket_address) != 0 ||
      ::listen(fd, 1) != 0)
    error = errno;
  ::close(fd);
  if (error == 0) return {};
  if (error == EADDRINUSE)
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("port {} of {} is in use by {}; end that, or choose another with --port (0 takes a free one)", port,
                    address, port_owner(port).value_or("another process")));
  if (error == EADDRNOTAVAIL)
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("bind: {} is no address of this machine; --bind=auto takes the one that leads to the network",
                    address));
  if (error == EACCES)
    return make_error(ErrorCode::kPermissionDenied,
                      fmt::format("port {} needs root; choose one of 1024 and above with --port", port));
  return make_error(ErrorCode::kUnavailable,
                    fmt::format("cannot serve on {}:{}: {}", address, port, std::strerror(error)));
}

Result<std::string> network_address() {
  // Connecting a UDP socket sends nothing; it only makes the kernel choose a route. The address is from a block
  // reserved for documentation.
  bool good = false;
  const sockaddr_in far = to_address("192.0.2.1", 9, good);
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  std::string found;
  if (fd >= 0) {
    sockaddr_in local{};
    socklen_t size = sizeof local;
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&far), sizeof far) == 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) == 0)
      found = text_of(local.sin_addr);
    ::close(fd);
  }
  if (found.empty() || found == "0.0.0.0" || found.starts_with("127.")) found = first_interface_address();
  if (found.empty())
    return make_error(ErrorCode::kUnavailable,
                      "bind: auto found no network on this machine; name an address: --bind=ADDR");
  return found;
}

}  // namespace volador::cli
