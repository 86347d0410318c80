#include "runtime/once_event.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace volador {
namespace {

using namespace std::chrono_literals;

TEST(OnceEventTest, WakesAllWhoWaitAndLaterOnesDoNotWait) {
  for (int round = 0; round < 200; ++round) {
    OnceEvent event;
    int written = 0;
    std::vector<std::thread> waiting;
    for (int at = 0; at < 4; ++at) {
      waiting.emplace_back([&] {
        EXPECT_TRUE(event.wait_until(std::nullopt));
        EXPECT_EQ(written, 7);
      });
    }
    if (round % 2 == 0) std::this_thread::yield();
    written = 7;
    event.happen();
    event.happen();
    for (auto& thread : waiting) thread.join();
    EXPECT_TRUE(event.has_happened());
    EXPECT_TRUE(event.wait_until(std::chrono::steady_clock::now() - 1h));
  }
}

TEST(OnceEventTest, ADeadlineEndsTheWait) {
  OnceEvent event;
  EXPECT_FALSE(event.wait_until(std::chrono::steady_clock::now() + 5ms));
  EXPECT_FALSE(event.wait_until(std::chrono::steady_clock::time_point::min()));
  EXPECT_FALSE(event.wait_until(std::chrono::steady_clock::now() - 1s));
  event.happen();
  EXPECT_TRUE(event.wait_until(std::chrono::steady_clock::now() + 5ms));
}

TEST(OnceEventTest, WakesTogetherLeaveNobodyAsleep) {
  constexpr size_t kEvents = 20;  // More than are remembered at once.
  for (int round = 0; round < 50; ++round) {
    std::vector<std::unique_ptr<OnceEvent>> events;
    std::vector<std::thread> waiting;
    for (size_t at = 0; at < kEvents; ++at) {
      events.push_back(std::make_unique<OnceEvent>());
      waiting.emplace_back([event = events.back().get()] { EXPECT_TRUE(event->wait_until(std::nullopt)); });
    }
    {
      const WakesTogether together;
      for (const auto& event : events) {
        event->happen();
        EXPECT_TRUE(event->has_happened());
      }
    }
    for (auto& thread : waiting) thread.join();
  }
}

// A waiter may destroy the event as soon as it has occurred.
TEST(OnceEventTest, MayEndRightAfterItsWait) {
  for (int round = 0; round < 500; ++round) {
    auto event = std::make_unique<OnceEvent>();
    std::thread other([raw = event.get()] { raw->happen(); });
    event->wait_until(std::nullopt);
    event.reset();
    other.join();
  }
}

}  // namespace
}  // namespace volador
