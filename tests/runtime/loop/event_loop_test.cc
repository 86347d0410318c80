#include "runtime/loop/event_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace volador {
namespace {

using namespace std::chrono_literals;

TEST(EventLoop, FunctionsOfOneThreadRunInOrder) {
  LoopSystem system;
  for (const auto thread : {EventLoop::Thread::kShared, EventLoop::Thread::kOwn}) {
    EventLoop loop(system, "test", thread);
    std::vector<int> seen;
    std::promise<void> done;
    for (int i = 0; i < 1000; ++i) loop.post([&seen, i] { seen.push_back(i); });
    loop.post([&done] { done.set_value(); });
    done.get_future().wait();
    ASSERT_EQ(seen.size(), 1000u);
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i);
  }
}

TEST(EventLoop, NeverRunsTwoFunctionsAtOnce) {
  LoopSystem system;
  EventLoop loop(system, "test");
  int plain_counter = 0;  // The thread sanitizer detects concurrent access.
  std::vector<std::thread> posters;
  for (int t = 0; t < 4; ++t) {
    posters.emplace_back([&] {
      for (int i = 0; i < 500; ++i) loop.post([&] { ++plain_counter; });
    });
  }
  for (std::thread& poster : posters) poster.join();
  std::promise<int> total;
  loop.post([&] { total.set_value(plain_counter); });
  EXPECT_EQ(total.get_future().get(), 2000);
}

TEST(EventLoop, AFunctionThatThrowsDoesNotEndTheLoop) {
  LoopSystem system;
  EventLoop loop(system, "test");
  loop.post([] { throw std::runtime_error("declared by this test"); });
  std::promise<void> done;
  loop.post([&] { done.set_value(); });
  EXPECT_EQ(done.get_future().wait_for(10s), std::future_status::ready);
}

TEST(EventLoopDeathTest, AnExceptionEndsTheProcessWhereTheLoopSaysSo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto serve_half_an_event = [] {
    LoopSystem system;
    EventLoop loop(system, "test", EventLoop::Thread::kShared, EventLoop::OnThrow::kAbort);
    loop.post([] { throw std::runtime_error("declared by this test"); });
    std::this_thread::sleep_for(60s);
  };
  EXPECT_DEATH(serve_half_an_event(), "a function threw.*declared by this test");
}

TEST(EventLoop, AfterStopNothingRunsAndAPostedDelayIsDropped) {
  LoopSystem system;
  std::atomic<int> ran{0};
  {
    EventLoop loop(system, "test");
    loop.post_after(1h, [&] { ++ran; });
    loop.stop();
    loop.stop();
    loop.post([&] { ++ran; });
  }
  EXPECT_EQ(ran, 0);
}

TEST(EventLoop, DelaysAreKept) {
  LoopSystem system;
  EventLoop loop(system, "test");
  std::promise<bool> inside;
  const auto from = std::chrono::steady_clock::now();
  loop.post_after(20ms, [&] { inside.set_value(loop.is_current()); });
  EXPECT_TRUE(inside.get_future().get());
  EXPECT_GE(std::chrono::steady_clock::now() - from, 20ms);
  EXPECT_FALSE(loop.is_current());
}

// A host of one isolated actor has no idle threads.
TEST(EventLoop, OneOfItsOwnThreadStartsNoOther) {
  LoopSystem system(4);
  const auto threads = [] {
    std::set<std::string> ids;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) ids.insert(task.path().filename());
    return ids;
  };
  const std::set<std::string> before = threads();  // Those of earlier tests may still be ending.
  EventLoop loop(system, "own", EventLoop::Thread::kOwn);
  std::promise<std::set<std::string>> during;
  loop.post([&] { during.set_value(threads()); });
  std::set<std::string> made = during.get_future().get();
  for (const std::string& id : before) made.erase(id);
  EXPECT_EQ(made.size(), 1U);
}

}  // namespace
}  // namespace volador
