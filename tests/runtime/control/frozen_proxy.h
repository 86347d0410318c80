// TCP relay to a loopback port that can go silent without closing connections, like a cut cable.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace volador::control {

class FrozenProxy {
 public:
  explicit FrozenProxy(int target_port) : target_port_(target_port), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = loopback(0);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_, 16);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~FrozenProxy() {
    stopping_ = true;
    thread_.join();
    for (const auto& [left, right] : pairs_) {
      ::close(left);
      ::close(right);
    }
    ::close(listener_);
  }
  FrozenProxy(const FrozenProxy&) = delete;
  FrozenProxy& operator=(const FrozenProxy&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  void freeze() { frozen_ = true; }

 private:
  static sockaddr_in loopback(int port) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    out.sin_port = htons(static_cast<uint16_t>(port));
    return out;
  }

  void run() {
    while (!stopping_) {
      std::vector<pollfd> entries{{.fd = listener_, .events = POLLIN, .revents = 0}};
      for (const auto& [left, right] : pairs_) {
        entries.push_back({.fd = left, .events = POLLIN, .revents = 0});
        entries.push_back({.fd = right, .events = POLLIN, .revents = 0});
      }
      if (::poll(entries.data(), frozen_ ? 0 : entries.size(), 20) <= 0 || frozen_) continue;
      for (size_t i = 1; i < entries.size(); ++i) {
        if (entries[i].revents == 0) continue;
        const auto& [left, right] = pairs_[(i - 1) / 2];
        relay(entries[i].fd, entries[i].fd == left ? right : left);
      }
      if (entries[0].revents != 0) accept_one();
    }
  }

  void accept_one() {
    const int left = ::accept(listener_, nullptr, nullptr);
    const int right = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in target = loopback(target_port_);
    ::connect(right, reinterpret_cast<sockaddr*>(&target), sizeof target);
    pairs_.emplace_back(left, right);
  }

  static void relay(int from, int to) {
    char bytes[65536];
    const ssize_t got = ::recv(from, bytes, sizeof bytes, 0);
    if (got <= 0) {
      ::shutdown(to, SHUT_WR);
      return;
    }
    for (ssize_t sent = 0; sent < got;) {
      const ssize_t now = ::send(to, bytes + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
      if (now <= 0) return;
      sent += now;
    }
  }

  const int target_port_;
  const int listener_;
  int port_ = 0;
  std::vector<std::pair<int, int>> pairs_;
  std::atomic<bool> frozen_ = false;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace volador::control
