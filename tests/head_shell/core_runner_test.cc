#include "head/shell/core_runner.h"

#include <gtest/gtest.h>

#include <future>

#include "head/journal/journal_writer.h"
#include "head/journal/memory_journal.h"
#include "head/kernel/core.h"
#include "head/shell/log_rings.h"
#include "runtime/clock.h"
#include "runtime/loop/event_loop.h"
#include "runtime/random.h"

namespace volador::head {
namespace {

using namespace std::chrono_literals;

class CoreRunnerTest : public testing::Test {
 protected:
  Result<void> store(std::string key) {
    std::promise<Result<void>> done;
    runner_.store({{"tokens", std::move(key), "value"}},
                  [&done](Result<void> stored) { done.set_value(std::move(stored)); });
    return done.get_future().get();
  }

  SystemClock clock_;
  SeededRandom random_{1};
  std::shared_ptr<MemoryStore> rows_ = std::make_shared<MemoryStore>();
  MemoryJournal journal_{rows_};
  HeadCore core_{Options{}, random_};
  JournalWriter writer_{
      journal_, {}, [](const Error& error) { ADD_FAILURE() << "the head would end: " << error.message; }};
  LogRings logs_;
  LoopSystem loops_{1};
  CoreRunner runner_{{.core = core_, .writer = writer_, .logs = logs_, .clock = clock_, .loops = loops_}};
};

TEST_F(CoreRunnerTest, ARowThatBreaksALimitFailsItsOwnRequest) {
  runner_.start();
  ASSERT_TRUE(store("good"));
  const auto refused = store(std::string(2000, 'k'));  // Keys have at most 1024 bytes.
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(store("another")) << "the head goes on";
  EXPECT_TRUE(rows_->rows.contains({"tokens", "another"}));
}

TEST_F(CoreRunnerTest, AnExceptionInTheCoreEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto throw_in_a_step = [this] {
    runner_.start();
    std::promise<void> never;
    runner_.tell([](HeadCore&) { throw std::out_of_range("declared by this test"); });
    never.get_future().wait_for(60s);
  };
  EXPECT_DEATH(throw_in_a_step(), "declared by this test");
}

}  // namespace
}  // namespace volador::head
