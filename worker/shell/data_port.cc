#include "worker/shell/data_port.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/log.h"
#include "runtime/net/server_name.h"
#include "runtime/security/tls_context.h"

namespace volador::worker {
namespace {

constexpr int kBacklog = 4096;  // The kernel's own limit is lower on most machines.

}  // namespace

Result<std::unique_ptr<DataPort>> DataPort::create(net::IoLoop& loop, const Clock& clock,
                                                   const DataPortOptions& options, Adopt adopt) {
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
  net::UniqueFd listener(::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener) return failed("socket");
  const int on = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return failed("bind");
  if (::listen(listener.get(), kBacklog) != 0) return failed("listen");
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return failed("getsockname");

  std::unique_ptr<DataPort> port(new DataPort(loop, std::move(adopt)));
  const bool is_four = address.ss_family == AF_INET;
  const int number = ntohs(is_four ? four->sin_port : six->sin6_port);
  port->address_ = is_four ? fmt::format("{}:{}", options.bind_address, number)
                           : fmt::format("[{}]:{}", options.bind_address, number);
  auto guarded =
      net::GuardedPort::create(std::move(listener), clock, {.component = "worker", .limits = options.strangers});
  if (!guarded) return make_error(std::move(guarded).error());
  port->port_ = std::move(*guarded);
  port->port_->start([raw = port.get()](uint64_t connection, net::UniqueFd fd, const net::GuardedPort::Peer&) {
    raw->loop_.post([raw, connection, fd = std::move(fd)]() mutable { raw->hand_over(connection, std::move(fd)); });
  });
  return port;
}

DataPort::~DataPort() { close(); }

void DataPort::close() {
  if (!port_) return;  // Could not listen.
  port_->stop();
  loop_.run([this] { closed_ = true; });  // After functions posted by the port.
}

void DataPort::hand_over(uint64_t number, net::UniqueFd fd) {
  if (closed_) return;
  const auto refuse = [&](const std::string& reason) {
    log::debug("worker", "a connection to the data port was refused", {{"reason", reason}});
    port_->on_refused(number);
  };
  const auto name = net::peek_server_name(fd.get());
  if (!name || !*name) return refuse(name ? "its hello is gone" : name.error().message);
  const auto host = **name == security::kNodeServerName ? HostId{} : parse_id<HostId>(**name);
  if (!host) return refuse("its hello names neither a host nor a node");
  if (const auto adopted = adopt_(*host, std::move(fd), number); !adopted) refuse(adopted.error().message);
}

}  // namespace volador::worker
