#include "tests/bench/raw_echo.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

namespace volador::bench {
namespace {

constexpr size_t kFrame = 64;  // As a call with a small argument.

void write_all(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t wrote = send(fd, data, size, MSG_NOSIGNAL);
    if (wrote <= 0) return;
    data += wrote;
    size -= static_cast<size_t>(wrote);
  }
}

// Bytes from the epoll thread to the working thread, whole frames, as many as there are.
class HandOff {
 public:
  void give(const char* data, size_t size) {
    const std::lock_guard<std::mutex> hold(mutex_);
    bytes_.insert(bytes_.end(), data, data + size);
    ready_.notify_one();
  }
  void finish() {
    const std::lock_guard<std::mutex> hold(mutex_);
    finished_ = true;
    ready_.notify_one();
  }
  // Empty at the end.
  std::vector<char> take() {
    std::unique_lock<std::mutex> hold(mutex_);
    ready_.wait(hold, [this] { return finished_ || bytes_.size() >= kFrame; });
    const size_t whole = bytes_.size() / kFrame * kFrame;
    std::vector<char> taken(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(whole));
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(whole));
    return taken;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<char> bytes_;
  bool finished_ = false;
};

void read_until_end(int fd, HandOff& hand_off) {
  const int poller = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
  std::vector<char> buffer(256 << 10);
  while (true) {
    epoll_event got{};
    if (epoll_wait(poller, &got, 1, -1) < 1) continue;
    const ssize_t size = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size == 0) break;
    if (size > 0) hand_off.give(buffer.data(), static_cast<size_t>(size));
  }
  close(poller);
  hand_off.finish();
}

// The echoing process; ends with the socket.
pid_t start_server(int& client) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) _exit(1);
  const pid_t pid = fork();
  if (pid == 0) {
    close(pair[0]);
    HandOff hand_off;
    std::thread worker([&] {
      for (auto frames = hand_off.take(); !frames.empty(); frames = hand_off.take()) write_all(pair[1], frames.data(), frames.size());
    });
    read_until_end(pair[1], hand_off);
    worker.join();
    _exit(0);
  }
  close(pair[1]);
  client = pair[0];
  return pid;
}

double seconds_of(size_t calls, size_t outstanding) {
  int fd = -1;
  const pid_t server = start_server(fd);
  HandOff hand_off;
  std::thread reader([&] { read_until_end(fd, hand_off); });
  const std::vector<char> frames(kFrame * outstanding, 'x');
  const auto begin = std::chrono::steady_clock::now();
  size_t sent = std::min(outstanding, calls);
  write_all(fd, frames.data(), sent * kFrame);
  for (size_t received = 0; received < calls;) {
    const size_t got = hand_off.take().size() / kFrame;
    if (got == 0) break;
    received += got;
    const size_t more = std::min(got, calls - sent);
    write_all(fd, frames.data(), more * kFrame);
    sent += more;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  shutdown(fd, SHUT_RDWR);
  reader.join();
  close(fd);
  waitpid(server, nullptr, 0);
  return took.count();
}

}  // namespace

double raw_echo_sync_us(size_t calls) { return seconds_of(calls, 1) / static_cast<double>(calls) * 1e6; }
double raw_echo_pipelined_per_s(size_t calls, size_t outstanding) { return static_cast<double>(calls) / seconds_of(calls, outstanding); }

}  // namespace volador::bench
