#include "runtime/actor/shared_threads.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>

#include "runtime/actor/blocking.h"

namespace volador {
namespace {

using namespace std::chrono_literals;

TEST(ThreadsToAdd, NoneWhileThereAreEnough) {
  EXPECT_EQ(threads_to_add({.base = 2, .limit = 8, .threads = 2, .held_up = 0, .idle = 0, .turns = 5}), 0);
  EXPECT_EQ(threads_to_add({.base = 2, .limit = 8, .threads = 2, .held_up = 1, .idle = 0, .turns = 0}), 0)
      << "nothing waits";
  EXPECT_EQ(threads_to_add({.base = 2, .limit = 8, .threads = 3, .held_up = 2, .idle = 1, .turns = 1}), 0)
      << "one is on its way";
}

TEST(ThreadsToAdd, OneForEachThatIsHeldUpButNoneWithoutWork) {
  EXPECT_EQ(threads_to_add({.base = 2, .limit = 8, .threads = 2, .held_up = 2, .idle = 0, .turns = 5}), 2);
  EXPECT_EQ(threads_to_add({.base = 2, .limit = 8, .threads = 2, .held_up = 2, .idle = 0, .turns = 1}), 1);
  EXPECT_EQ(threads_to_add({.base = 4, .limit = 8, .threads = 0, .held_up = 0, .idle = 0, .turns = 9}), 4);
}

TEST(ThreadsToAdd, NeverBeyondTheLimit) {
  EXPECT_EQ(threads_to_add({.base = 4, .limit = 8, .threads = 7, .held_up = 7, .idle = 0, .turns = 9}), 1);
  EXPECT_EQ(threads_to_add({.base = 4, .limit = 8, .threads = 8, .held_up = 8, .idle = 0, .turns = 9}), 0);
}

class Function final : public SharedThreads::Runnable {
 public:
  explicit Function(std::function<void()> function) : function_(std::move(function)) {}
  void run_turn(const std::shared_ptr<Runnable>&, void*) override { function_(); }

 private:
  const std::function<void()> function_;
};

class SharedThreadsTest : public testing::Test {
 protected:
  void post(SharedThreads& threads, std::function<void()> function) {
    threads.post(std::make_shared<Function>(std::move(function)), nullptr);
  }
  SystemClock clock_;
};

TEST_F(SharedThreadsTest, TurnsOfOneThreadKeepTheirOrder) {
  std::vector<int> seen;
  std::promise<void> last;
  SharedThreads threads({.threads = 1, .threads_max = 1}, clock_);
  for (int turn = 0; turn < 1000; ++turn) post(threads, [&, turn] { seen.push_back(turn); });
  post(threads, [&] { last.set_value(); });
  last.get_future().wait();
  ASSERT_EQ(seen.size(), 1000);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

// Each turn waits for the next: without further threads none would end.
TEST_F(SharedThreadsTest, ATurnThatSaysThatItWaitsCostsItsThreadOnly) {
  constexpr int kDepth = 100;
  std::vector<std::promise<void>> done(kDepth + 1);
  SharedThreads threads({.threads = 2, .threads_max = kDepth + 2, .patience = 1h}, clock_);
  for (int depth = 0; depth < kDepth; ++depth) {
    post(threads, [&, depth] {
      {
        const internal::Blocking blocking;
        done[static_cast<size_t>(depth) + 1].get_future().wait();
      }
      done[static_cast<size_t>(depth)].set_value();
    });
  }
  post(threads, [&] { done.back().set_value(); });
  done.front().get_future().wait();
  EXPECT_GT(threads.threads(), 2);
}

TEST_F(SharedThreadsTest, SoDoesOneThatSaysNothing) {
  constexpr int kStuck = 10;
  std::promise<void> gate;
  const auto open = gate.get_future().share();
  std::promise<void> through;
  SharedThreads threads({.threads = 2, .threads_max = 64}, clock_);
  for (int stuck = 0; stuck < kStuck; ++stuck) post(threads, [open] { open.wait(); });
  post(threads, [&] { through.set_value(); });
  through.get_future().wait();
  EXPECT_GT(threads.threads(), kStuck);
  gate.set_value();
}

TEST_F(SharedThreadsTest, ThreadsThatAreNotNeededEnd) {
  std::promise<void> gate;
  const auto open = gate.get_future().share();
  std::promise<void> through;
  SharedThreads threads({.threads = 2, .threads_max = 64, .idle = 5ms}, clock_);
  for (int stuck = 0; stuck < 20; ++stuck) post(threads, [open] { open.wait(); });
  post(threads, [&] { through.set_value(); });
  through.get_future().wait();
  gate.set_value();
  while (threads.threads() > 2) std::this_thread::sleep_for(1ms);  // Bounded by the test's own timeout.
}

TEST_F(SharedThreadsTest, AtTheLimitTurnsWait) {
  std::promise<void> gate;
  const auto open = gate.get_future().share();
  std::promise<void> through;
  auto passed = through.get_future();
  SharedThreads threads({.threads = 1, .threads_max = 3, .patience = 2ms}, clock_);
  for (int stuck = 0; stuck < 3; ++stuck) post(threads, [open] { open.wait(); });
  post(threads, [&] { through.set_value(); });
  while (threads.threads() < 3) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(passed.wait_for(50ms), std::future_status::timeout);
  gate.set_value();
  passed.wait();
  EXPECT_EQ(threads.threads(), 3);
}

}  // namespace
}  // namespace volador
