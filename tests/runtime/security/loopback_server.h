// A TCP server on a loopback port that handles its connections sequentially with a function.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace volador::security {

class LoopbackServer {
 public:
  // serve(fd) gets a blocking socket with a receive timeout of 10 s, which is closed when it returns.
  explicit LoopbackServer(std::function<void(int)> serve)
      : serve_(std::move(serve)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_, 8);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    if (serve_) thread_ = std::thread([this] { run(); });
  }
  ~LoopbackServer() { stop(); }
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  const std::string& address() const { return address_; }
  void stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
    if (listener_ >= 0) ::close(listener_);
    listener_ = -1;
  }

 private:
  void run() {
    while (!stopping_) {
      pollfd entry{.fd = listener_, .events = POLLIN, .revents = 0};
      if (::poll(&entry, 1, 20) <= 0) continue;
      const int fd = ::accept(listener_, nullptr, nullptr);
      if (fd < 0) continue;
      const timeval limit{.tv_sec = 10, .tv_usec = 0};
      ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      serve_(fd);
      ::close(fd);
    }
  }

  const std::function<void(int)> serve_;
  int listener_;
  std::string address_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace volador::security
