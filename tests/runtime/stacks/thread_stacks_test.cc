#include "runtime/stacks/thread_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include "runtime/stacks/frame_names.h"

namespace volador::stacks {

// Not in an unnamed namespace, because the test searches for its name. Runs until `ends` is set.
__attribute__((noinline)) void turns_in_circles(const std::atomic<bool>& ends, std::atomic<int>& thread) {
  volatile uint64_t sum = 0;
  thread = static_cast<int>(::syscall(SYS_gettid));
  while (!ends) sum = sum + 1;
}

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const ThreadStack* find(const std::vector<ThreadStack>& stacks, int thread) {
  for (const ThreadStack& one : stacks) {
    if (one.thread.id == thread) return &one;
  }
  return nullptr;
}

std::string names_of(const ThreadStack& stack) {
  FrameNames names;
  std::string text;
  for (size_t at = 0; at < stack.frames.size(); ++at) text += names.name_of(stack.frames[at], at > 0) + "\n";
  return text;
}

TEST(ThreadStacks, OneThatComputesIsSeenWhereItIsAndGoesOn) {
  std::atomic<bool> ends{false};
  std::atomic<int> id{0};
  std::thread circling([&] {
    ::pthread_setname_np(::pthread_self(), "circling");
    turns_in_circles(ends, id);
  });
  while (id == 0) std::this_thread::yield();
  for (int round = 0; round < 20; ++round) {
    const auto stacks = capture(10s);
    ASSERT_TRUE(stacks) << stacks.error().message;
    const ThreadStack* one = find(*stacks, id);
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(one->thread.name, "circling");
    EXPECT_EQ(one->note, "");
    EXPECT_THAT(names_of(*one), HasSubstr("turns_in_circles"));
  }
  ends = true;
  circling.join();
}

TEST(ThreadStacks, OneThatWaitsIsSeenInTheKernelsCallAndWaitsOn) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::atomic<int> id{0};
  std::thread waiting([&] {
    id = static_cast<int>(::syscall(SYS_gettid));
    std::unique_lock<std::mutex> hold(mutex);
    changed.wait(hold, [&] { return done; });
  });
  while (id == 0) std::this_thread::yield();
  const auto stacks = capture(10s);
  ASSERT_TRUE(stacks) << stacks.error().message;
  ASSERT_NE(find(*stacks, id), nullptr);
  EXPECT_GT(find(*stacks, id)->frames.size(), 1u) << find(*stacks, id)->note;
  {
    const std::lock_guard<std::mutex> hold(mutex);
    done = true;
  }
  changed.notify_all();
  waiting.join();
}

TEST(ThreadStacks, TheCallersOwnIsThereToo) {
  const auto stacks = capture(10s);
  ASSERT_TRUE(stacks) << stacks.error().message;
  const ThreadStack* own = find(*stacks, static_cast<int>(::syscall(SYS_gettid)));
  ASSERT_NE(own, nullptr);
  EXPECT_THAT(names_of(*own), HasSubstr("volador::stacks::capture"));
}

TEST(ThreadStacks, OneThatBlocksSignalsIsListedWithTheReason) {
  std::atomic<bool> ends{false};
  std::atomic<int> id{0};
  std::thread deaf([&] {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    turns_in_circles(ends, id);
  });
  while (id == 0) std::this_thread::yield();
  const auto stacks = capture(10s);
  ASSERT_TRUE(stacks) << stacks.error().message;
  ASSERT_NE(find(*stacks, id), nullptr);
  EXPECT_TRUE(find(*stacks, id)->frames.empty());
  EXPECT_THAT(find(*stacks, id)->note, HasSubstr("it blocks"));
  ends = true;
  deaf.join();
}

TEST(FrameNames, AnAddressOfNothingIsItself) {
  FrameNames names;
  EXPECT_EQ(names.name_of(0x10, false), "0x10");
}

}  // namespace
}  // namespace volador::stacks
