#include "worker/shell/node_identity.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/process_file.h"

namespace volador::worker {

Result<NodeIdentity> claim_node(const NodePaths& paths, const std::string& node_name, Random& random) {
  VOLADOR_TRY(make_private_directory(paths.directory));
  NodeIdentity node;
  const auto lock_file = paths.directory / "lock";
  node.lock.reset(::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!node.lock) return make_error(file_error("open", lock_file, errno));
  if (::flock(node.lock.get(), LOCK_EX | LOCK_NB) != 0) {
    const auto other = running_process(paths.pid());
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format(
            "a worker of node {} runs on this machine already{}; choose another --name, or stop it with `volador stop`",
            node_name, other ? fmt::format(" (pid {})", other->pid) : std::string()));
  }
  auto text = read_file_limited(paths.node_json(), 64 << 10);
  if (text) {
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    const auto id = json.is_object() && json.contains("node_id") && json["node_id"].is_string()
                        ? parse_id<NodeId>(json["node_id"].get<std::string>())
                        : Result<NodeId>(make_error(ErrorCode::kInvalidArgument, "no node_id"));
    if (!id) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("{}: expected {{\"node_id\": 32 hex digits}}; remove the file, the node then joins as a new one",
                      paths.node_json().string()));
    }
    node.id = *id;
    return node;
  }
  if (text.error().code != ErrorCode::kNotFound) return make_error(text.error());
  node.id = new_id<NodeId>(random);
  node.fresh = true;
  const nlohmann::json json = {{"node_id", to_string(node.id)}, {"name", node_name}};
  VOLADOR_TRY(write_file_atomic(paths.node_json(), json.dump(2) + "\n", 0600));
  return node;
}

Result<HostAndPort> parse_host_port(const std::string& address) {
  const auto bad = [&] {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("address of the head: expected host:port, got \"{}\"", address));
  };
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad();
  HostAndPort out;
  out.host = address.substr(0, colon);
  if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']')
    out.host = out.host.substr(1, out.host.size() - 2);
  const char* const end = address.data() + address.size();
  const auto [stopped, error] = std::from_chars(address.data() + colon + 1, end, out.port);
  if (error != std::errc() || stopped != end || out.port == 0) return bad();
  return out;
}

Result<std::string> source_address_towards(const HostAndPort& peer) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int rc = ::getaddrinfo(peer.host.c_str(), std::to_string(peer.port).c_str(), &hints, &found);
  if (rc != 0)
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("cannot resolve the head's address {}: {}", peer.host, ::gai_strerror(rc)));
  std::string out;
  int error_number = 0;
  for (const addrinfo* each = found; each != nullptr && out.empty(); each = each->ai_next) {
    const net::UniqueFd fd(::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (!fd || ::connect(fd.get(), each->ai_addr, each->ai_addrlen) != 0 ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
      error_number = errno;
      continue;
    }
    char text[INET6_ADDRSTRLEN] = {};
    const void* raw_address = own.ss_family == AF_INET
                                  ? static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(&own)->sin_addr)
                                  : static_cast<const void*>(&reinterpret_cast<sockaddr_in6*>(&own)->sin6_addr);
    if (::inet_ntop(own.ss_family, raw_address, text, sizeof text) != nullptr) out = text;
  }
  ::freeaddrinfo(found);
  if (out.empty())
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("no route to the head at {}: {}", peer.host, std::strerror(error_number)));
  return out;
}

}  // namespace volador::worker
