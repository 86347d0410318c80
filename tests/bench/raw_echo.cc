#include "tests/bench/raw_echo.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace volador::bench {
namespace {

constexpr size_t kBody = 48;  // Size of a call with a small argument.

struct Header {
  uint32_t length = 0;  // Length of the body.
  uint32_t kind = 0;
  uint64_t id = 0;
};
struct Message {
  uint64_t id = 0;
  std::string body;
};
using Messages = std::vector<Message>;

void put_message(std::string& out, const Message& message) {
  const Header header{.length = static_cast<uint32_t>(message.body.size()), .id = message.id};
  out.append(reinterpret_cast<const char*>(&header), sizeof header);
  out += message.body;
}

// Removes the complete frames from the front.
Messages cut(std::string& bytes) {
  Messages messages;
  size_t at = 0;
  Header header;
  while (bytes.size() - at >= sizeof header) {
    std::memcpy(&header, bytes.data() + at, sizeof header);
    if (bytes.size() - at - sizeof header < header.length) break;
    messages.push_back({header.id, bytes.substr(at + sizeof header, header.length)});
    at += sizeof header + header.length;
  }
  bytes.erase(0, at);
  return messages;
}

void write_all(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t wrote = send(fd, data, size, MSG_NOSIGNAL);
    if (wrote <= 0) return;
    data += wrote;
    size -= static_cast<size_t>(wrote);
  }
}

// Passes all pending messages from the epoll thread to the working thread.
class HandOff {
 public:
  void give(Messages messages) {
    const std::lock_guard<std::mutex> hold(mutex_);
    if (messages_.empty()) {
      messages_ = std::move(messages);
    } else {
      std::move(messages.begin(), messages.end(), std::back_inserter(messages_));
    }
    ready_.notify_one();
  }
  void finish() {
    const std::lock_guard<std::mutex> hold(mutex_);
    finished_ = true;
    ready_.notify_one();
  }
  // Empty at shutdown.
  Messages take() {
    std::unique_lock<std::mutex> hold(mutex_);
    ready_.wait(hold, [this] { return finished_ || !messages_.empty(); });
    return std::exchange(messages_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  Messages messages_;
  bool finished_ = false;
};

void read_until_end(int fd, HandOff& hand_off) {
  const int poller = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
  std::vector<char> buffer(256 << 10);
  std::string bytes;
  while (true) {
    epoll_event got{};
    if (epoll_wait(poller, &got, 1, -1) < 1) continue;
    const ssize_t size = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size == 0) break;
    if (size < 0) continue;
    bytes.append(buffer.data(), static_cast<size_t>(size));
    if (Messages messages = cut(bytes); !messages.empty()) hand_off.give(std::move(messages));
  }
  close(poller);
  hand_off.finish();
}

// The echo process; exits when the socket closes.
pid_t start_server(int& client) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) _exit(1);
  const pid_t pid = fork();
  if (pid == 0) {
    close(pair[0]);
    HandOff hand_off;
    std::thread worker([&] {
      std::string out;
      for (Messages messages = hand_off.take(); !messages.empty(); messages = hand_off.take()) {
        out.clear();
        for (const Message& message : messages) put_message(out, message);
        write_all(pair[1], out.data(), out.size());
      }
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
  uint64_t sent = 0;
  std::string out;
  const auto send_more = [&](size_t count) {
    out.clear();
    for (const uint64_t end = std::min<uint64_t>(calls, sent + count); sent < end; ++sent)
      put_message(out, {sent, std::string(kBody, 'x')});
    write_all(fd, out.data(), out.size());
  };
  const auto begin = std::chrono::steady_clock::now();
  send_more(outstanding);
  for (size_t received = 0; received < calls;) {
    const Messages answers = hand_off.take();
    if (answers.empty()) break;
    received += answers.size();
    send_more(answers.size());
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
double raw_echo_pipelined_per_s(size_t calls, size_t outstanding) {
  return static_cast<double>(calls) / seconds_of(calls, outstanding);
}

}  // namespace volador::bench
