#include "runtime/net/guarded_port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace volador::net {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kHello = "hello";

// A valid hello has five bytes and begins with an h.
Result<bool> has_short_hello(int fd) {
  char bytes[5];
  const ssize_t got = ::recv(fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
  if (got > 0 && bytes[0] != 'h') return make_error(ErrorCode::kInvalidArgument, "no hello");
  return got == static_cast<ssize_t>(sizeof bytes);
}

class GuardedPortTest : public ::testing::Test {
 protected:
  struct Served {
    uint64_t number;
    UniqueFd fd;
    std::string address;
  };

  void listen(AdmissionLimits limits) {
    UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address_), sizeof address_), 0);
    ASSERT_EQ(::listen(listener.get(), 128), 0);
    socklen_t size = sizeof address_;
    ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address_), &size);
    limits.hello_time =
        std::min(limits.hello_time, std::chrono::milliseconds(900));  // No deferred accepts: they take whole seconds.
    port_ = std::move(*GuardedPort::create(std::move(listener), clock_,
                                           {.component = "test", .limits = limits, .has_hello = has_short_hello}));
    port_->start([this](uint64_t number, UniqueFd fd, const GuardedPort::Peer& peer) {
      const std::lock_guard lock(mutex_);
      served_.push_back({number, std::move(fd), peer.address});
      changed_.notify_all();
    });
  }
  ~GuardedPortTest() override {
    if (port_) port_->stop();
  }

  UniqueFd dial(std::string_view says, const char* from = "127.0.0.1") {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in own{};
    own.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &own.sin_addr);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address_), sizeof address_), 0);
    EXPECT_EQ(::send(fd.get(), says.data(), says.size(), MSG_NOSIGNAL), static_cast<ssize_t>(says.size()));
    return fd;
  }
  // Returns the number of the n-th served connection, from 1.
  uint64_t wait_served(size_t n) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 10s, [&] { return served_.size() >= n; }));
    return served_.size() < n ? 0 : served_[n - 1].number;
  }
  size_t served() {
    const std::lock_guard lock(mutex_);
    return served_.size();
  }
  static bool ends(const UniqueFd& fd, std::chrono::milliseconds within = 5s) {
    pollfd wait{fd.get(), POLLRDHUP, 0};
    return ::poll(&wait, 1, static_cast<int>(within.count())) == 1;
  }

  const SystemClock clock_;
  sockaddr_in address_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Served> served_;
  std::unique_ptr<GuardedPort> port_;
};

TEST_F(GuardedPortTest, AConnectionIsServedWithItsHelloStillOnIt) {
  listen({});
  const auto fd = dial("he");
  EXPECT_EQ(::send(fd.get(), "llo", 3, MSG_NOSIGNAL), 3) << "in pieces";
  ASSERT_NE(wait_served(1), 0);
  std::string got(kHello.size(), '\0');
  EXPECT_EQ(::recv(served_[0].fd.get(), got.data(), got.size(), 0), 5);
  EXPECT_EQ(got, kHello);
  EXPECT_EQ(served_[0].address, "127.0.0.1");
}

TEST_F(GuardedPortTest, SilenceAndOtherBytesEnd) {
  listen({.hello_time = 100ms});
  EXPECT_TRUE(ends(dial("xyz")));
  EXPECT_TRUE(ends(dial("hel")));
  EXPECT_TRUE(ends(dial("")));
  EXPECT_EQ(served(), 0);
}

TEST_F(GuardedPortTest, AConnectionThatProvesItselfStaysAndOthersEnd) {
  listen({.proof_time = 150ms});
  const auto proves = dial(kHello), silent = dial(kHello);
  const uint64_t first = wait_served(1), second = wait_served(2);
  EXPECT_TRUE(port_->expects_proofs());
  // The kernel may accept the second one first.
  char byte = 0;
  EXPECT_EQ(::send(proves.get(), "p", 1, MSG_NOSIGNAL), 1);
  const auto is_first = [&] {
    std::string got(6, '\0');
    return ::recv(served_[0].fd.get(), got.data(), got.size(), MSG_PEEK | MSG_DONTWAIT) == 6;
  };
  port_->on_proved(is_first() ? first : second);
  EXPECT_TRUE(ends(silent));
  EXPECT_FALSE(ends(proves, 300ms));
  EXPECT_FALSE(port_->expects_proofs());
  EXPECT_EQ(::recv(proves.get(), &byte, 1, MSG_DONTWAIT), -1);
}

TEST_F(GuardedPortTest, OneAddressThatOnlyTakesPlacesHoldsUpItselfAlone) {
  listen({.unproved = 4, .unproved_of_address = 2});
  std::vector<UniqueFd> held;
  for (int i = 0; i < 20; ++i) held.push_back(dial(kHello));
  wait_served(2);
  const auto other = dial(kHello, "127.0.0.2");
  const uint64_t number = wait_served(3);
  EXPECT_EQ(served_[2].address, "127.0.0.2");
  port_->on_proved(number);
  held.clear();  // After the attack its address is served as well.
  const auto after = dial(kHello);
  wait_served(4);
}

TEST_F(GuardedPortTest, WhatIsRefusedOrClosedMakesRoomAndItsPeerLearnsOfIt) {
  listen({.unproved = 1, .budget = 1, .budget_per_second = 0.001});
  const auto refused = dial(kHello);
  port_->on_refused(wait_served(1));
  EXPECT_TRUE(ends(refused));
  const auto closed = dial(kHello);
  const uint64_t number = wait_served(2);
  served_[1].fd.reset();
  port_->on_closed(number);
  EXPECT_TRUE(ends(closed)) << "although the port has a descriptor of its own";
  const auto late = dial(kHello);
  EXPECT_FALSE(ends(late, 50ms));
  EXPECT_EQ(served(), 2) << "the one that was closed cost its address the budget; the refused one cost nothing";
}

TEST_F(GuardedPortTest, ItServesOthersWhileMoreAreSilentThanItHolds) {
  listen({.connections = 8, .hello_time = 900ms, .crowded_time = 20ms});
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(dial(""));
  const auto fd = dial(kHello);
  wait_served(1);
}

TEST_F(GuardedPortTest, NothingIsServedAfterStop) {
  listen({});
  const auto fd = dial("he");
  port_->stop();
  port_->on_proved(1);
  EXPECT_TRUE(ends(fd));
}

}  // namespace
}  // namespace volador::net
