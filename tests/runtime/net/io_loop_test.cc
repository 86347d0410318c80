#include "runtime/net/io_loop.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/net/unique_fd.h"
#include "runtime/once_event.h"

namespace volador::net {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<IoLoop> make_loop() { return *IoLoop::create(); }

std::thread::id loop_thread(IoLoop& loop) {
  std::thread::id id;
  loop.run([&] { id = std::this_thread::get_id(); });
  return id;
}

// Responds to each signal with a function on the loop.
class PolledSignal final : public Pollable {
 public:
  explicit PolledSignal(std::function<void()> function)
      : function_(std::move(function)), fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  int fd() const { return fd_.get(); }
  void send() const {
    const uint64_t one = 1;
    ASSERT_EQ(::write(fd_.get(), &one, sizeof one), ssize_t{sizeof one});
  }
  void on_events(uint32_t) override {
    uint64_t count = 0;
    static_cast<void>(::read(fd_.get(), &count, sizeof count));
    function_();
  }

 private:
  const std::function<void()> function_;
  UniqueFd fd_;
};

// Waits for the event and leads the loop on this thread (led_loop.h); the loop's own thread yields.
void wait_led(OnceEvent& event) {
  LedLoop::run_installed_until([&] { return event.has_happened_to_leader(); }, std::nullopt);
  const LedLoop::Follower follower;
  ASSERT_TRUE(event.wait_until(std::chrono::steady_clock::now() + 30s));
}

class LedLoopTest : public testing::Test {
 protected:
  LedLoopTest() : loop_(make_loop()) { LedLoop::install(loop_.get()); }
  ~LedLoopTest() override { LedLoop::remove(loop_.get()); }

  // Waits until a response is handled on the waiting thread itself.
  void make_guest() {
    for (const auto end = std::chrono::steady_clock::now() + 30s; std::chrono::steady_clock::now() < end;) {
      OnceEvent event;
      std::thread::id by;
      const auto signal = std::make_shared<PolledSignal>([&] {
        by = std::this_thread::get_id();
        event.happen();
      });
      ASSERT_TRUE(loop_->watch(signal->fd(), EPOLLIN, signal));
      signal->send();
      wait_led(event);
      loop_->unwatch(signal->fd());
      if (by == std::this_thread::get_id()) return;
    }
    FAIL() << "the loop's own thread never stands back";
  }

  std::unique_ptr<IoLoop> loop_;
};

TEST_F(LedLoopTest, WaitingThreadRunsEventsItself) {
  EXPECT_NE(loop_thread(*loop_), std::this_thread::get_id());
  make_guest();
}

TEST_F(LedLoopTest, OwnThreadRunsPostsAndTimersWhileNobodyWaits) {
  make_guest();
  EXPECT_NE(loop_thread(*loop_), std::this_thread::get_id());
  make_guest();
  std::promise<std::thread::id> fired;
  loop_->add_timer(loop_->now() + 20ms, [&] { fired.set_value(std::this_thread::get_id()); });
  auto by = fired.get_future();
  ASSERT_EQ(by.wait_for(30s), std::future_status::ready);
  EXPECT_NE(by.get(), std::this_thread::get_id());
}

TEST_F(LedLoopTest, OwnThreadReadsSocketsWhileNobodyWaits) {
  make_guest();
  std::promise<std::thread::id> read;
  const auto signal = std::make_shared<PolledSignal>([&] { read.set_value(std::this_thread::get_id()); });
  ASSERT_TRUE(loop_->watch(signal->fd(), EPOLLIN, signal));
  signal->send();
  auto by = read.get_future();
  ASSERT_EQ(by.wait_for(30s), std::future_status::ready);
  EXPECT_NE(by.get(), std::this_thread::get_id());
  loop_->unwatch(signal->fd());
}

TEST_F(LedLoopTest, LeaderReturnsWhenAnotherThreadBringsWhatItWaitsFor) {
  make_guest();
  for (int round = 0; round < 200; ++round) {
    OnceEvent event;
    std::thread other([&] {
      if (round % 4 == 0) std::this_thread::sleep_for(1ms);
      event.happen();
    });
    wait_led(event);
    other.join();
  }
}

TEST_F(LedLoopTest, DeadlineEndsTheLead) {
  bool led = false;
  for (const auto end = std::chrono::steady_clock::now() + 30s; !led && std::chrono::steady_clock::now() < end;) {
    make_guest();
    loop_->run_until([&] { return led |= loop_->in_loop(), false; }, std::chrono::steady_clock::now() + 5ms);
  }
  EXPECT_TRUE(led);
}

TEST_F(LedLoopTest, LeaderGivesWayToAThreadThatWaitsOtherwise) {
  make_guest();
  std::atomic<bool> leads{false};
  std::atomic<bool> ends{false};
  std::thread leader([&] {
    while (!ends) loop_->run_until([&] { return leads.exchange(true), ends.load(); }, std::nullopt);
  });
  while (!leads) std::this_thread::yield();
  {
    const LedLoop::Follower follower;
    EXPECT_NE(loop_thread(*loop_), leader.get_id());
  }
  ends = true;
  loop_->interrupt();
  leader.join();
}

TEST_F(LedLoopTest, ThreadsThatWaitByTurnsAllGetTheirAnswers) {
  make_guest();
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int call = 0; call < 2'000; ++call) {
        const auto event = std::make_shared<OnceEvent>();
        loop_->post([event] { event->happen(); });
        wait_led(*event);
      }
    });
  }
  for (auto& caller : callers) caller.join();
}

TEST_F(LedLoopTest, NestedWaitDoesNotLeadAgain) {
  make_guest();
  int reached = 0;
  LedLoop::run_installed_until(
      [&] {
        LedLoop::run_installed_until([&] { return ++reached, true; }, std::nullopt);
        return true;
      },
      std::nullopt);
  EXPECT_EQ(reached, 0);
}

TEST_F(LedLoopTest, RemoveEndsTheLead) {
  make_guest();
  OnceEvent never;
  std::atomic<bool> waits{false};
  std::thread leader([&] {
    LedLoop::run_installed_until(
        [&] {
          waits = true;
          return never.has_happened_to_leader();
        },
        std::nullopt);
  });
  while (!waits) std::this_thread::yield();
  LedLoop::remove(loop_.get());
  leader.join();
  EXPECT_FALSE(never.has_happened());
}

TEST(IoLoopTest, RunsPostedFunctionsInOrderAndEndsAfterThem) {
  std::vector<int> order;
  {
    const auto loop = make_loop();
    for (int number = 0; number < 100; ++number) loop->post([&order, number] { order.push_back(number); });
  }
  ASSERT_EQ(order.size(), 100U);
  for (int number = 0; number < 100; ++number) EXPECT_EQ(order[static_cast<size_t>(number)], number);
}

}  // namespace
}  // namespace volador::net
