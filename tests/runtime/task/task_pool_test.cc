#include "runtime/task/task_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/net/call_errors.h"
#include "runtime/random.h"

namespace volador {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const Error kDied{ErrorCode::kActorDied, "killed by signal 9"};

class TaskPoolTest : public testing::Test {
 protected:
  void take(TaskPool::Actions actions) {
    for (auto& one : actions.start) starts.push_back(one.runner);
    for (auto& one : actions.run) runs.push_back(std::move(one));
    for (const auto& one : actions.recall) recalls.push_back(one.runner);
    for (const auto one : actions.end) ends.push_back(one);
    for (auto& one : actions.finish) finished.insert_or_assign(one.task, std::move(one.result));
    pool.check_invariants();
  }
  TaskId submit(int max_retries = 3, double cpus = 1, std::vector<std::string> retry_on = {}) {
    const TaskId id{next++};
    TaskRequest request{.function = function,
                        .name = "square",
                        .arguments = std::to_string(static_cast<uint64_t>(id)),
                        .resources = *ResourceSet::from({.cpus = cpus})};
    request.max_retries = max_retries;
    request.retry_on = std::move(retry_on);
    take(pool.submit(now, id, std::move(request)));
    return id;
  }
  void ready(RunnerId runner) { take(pool.runner_ready(now, runner)); }
  void answer(const TaskPool::Run& run, Result<std::string> result = std::string("ok"),
              std::chrono::nanoseconds took = {}) {
    take(pool.answered(now, run.runner, run.task, run.attempt, std::move(result), took));
  }
  // All four runners exist and are idle, and the duration of `function` is known.
  void warm_up(std::chrono::nanoseconds took) {
    for (int i = 0; i < 4; ++i) submit();
    for (const RunnerId runner : std::vector(starts)) ready(runner);
    for (const auto& run : std::exchange(runs, {})) answer(run, std::string("ok"), took);
    ASSERT_EQ(pool.runners(), 4u);
  }
  std::map<RunnerId, int> given() const {
    std::map<RunnerId, int> counts;
    for (const auto& run : runs) ++counts[run.runner];
    return counts;
  }

  TaskPool pool{TaskPool::Options{}};
  BootTime now{1000s};
  uint64_t next = 1;
  uint64_t function = 7;
  std::vector<RunnerId> starts, ends, recalls;
  std::vector<TaskPool::Run> runs;
  std::map<TaskId, Result<std::string>> finished;

  TaskPoolTest() { pool.set_total(*ResourceSet::from({.cpus = 4})); }
};

TEST_F(TaskPoolTest, ATaskStartsARunnerAndRunsThere) {
  const TaskId task = submit();
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_TRUE(runs.empty());
  ready(starts[0]);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].arguments, "1");
  answer(runs[0], std::string("49"));
  EXPECT_EQ(*finished.at(task), "49");
  EXPECT_EQ(pool.unfinished(), 0u);
}

TEST_F(TaskPoolTest, RunnersAreAsManyAsTasksButNoMoreThanFit) {
  for (int i = 0; i < 3; ++i) submit();
  EXPECT_EQ(starts.size(), 3u);
  for (int i = 0; i < 3; ++i) submit();
  EXPECT_EQ(starts.size(), 4u);
  for (int i = 0; i < 2; ++i) submit(3, 2);  // Others of another size.
  EXPECT_EQ(starts.size(), 6u);
}

TEST_F(TaskPoolTest, LongTasksAreNotGivenInAdvanceShortOnesAre) {
  for (int i = 0; i < 100; ++i) submit();
  ready(starts[0]);
  EXPECT_EQ(runs.size(), 1u);
  now += 1s;
  answer(runs[0]);
  EXPECT_EQ(runs.size(), 2u);  // Took a second: one at a time.
  for (int i = 0; i < 40; ++i) {
    now += 10us;
    answer(TaskPool::Run(runs[static_cast<size_t>(i) + 1]));
  }
  EXPECT_GT(runs.size(), 50u);  // Ten microseconds: some in advance.
  EXPECT_LE(runs.size(), 42u + 64u);
}

TEST_F(TaskPoolTest, ShortTasksGoTogetherLongerOnesToWhoIsIdle) {
  warm_up(10us);
  for (int i = 0; i < 12; ++i) submit();
  std::multiset<int> counts;
  for (const auto& [runner, count] : given()) counts.insert(count);
  EXPECT_EQ(counts, (std::multiset<int>{2, 10})) << "a tenth of a millisecond is not worth a wake-up";
  for (const auto& run : std::exchange(runs, {})) answer(run, std::string("ok"), 10us);
  function = 8;
  for (int i = 0; i < 3; ++i) submit();
  EXPECT_EQ(given().size(), 3u) << "of one that was never seen each gets a runner of its own";
  for (const auto& run : std::exchange(runs, {})) answer(run, std::string("ok"), 300us);
  for (int i = 0; i < 8; ++i) submit();
  EXPECT_EQ(given().size(), 4u);
  for (const auto& [runner, count] : given()) EXPECT_EQ(count, 2) << "one each before two to any";
}

TEST_F(TaskPoolTest, OneOfAMillisecondOrTwoFindsTheNextOneBehindIt) {
  warm_up(2ms);
  for (int i = 0; i < 12; ++i) submit();
  for (const auto& [runner, count] : given()) EXPECT_EQ(count, 2);
  EXPECT_EQ(runs.size(), 8u);
}

TEST_F(TaskPoolTest, HowLongATaskTakesIsKnownByItsFunction) {
  warm_up(10us);
  function = 8;
  for (int i = 0; i < 5; ++i) submit();
  EXPECT_EQ(runs.size(), 4u) << "a stranger goes behind nobody";
  function = 7;
  submit();
  EXPECT_EQ(runs.size(), 4u) << "and nobody behind a stranger";
}

TEST_F(TaskPoolTest, ForShortTasksFewRunnersStart) {
  submit();
  ready(starts[0]);
  answer(runs[0], std::string("ok"), 10us);
  for (int i = 0; i < 500; ++i) submit();
  EXPECT_EQ(starts.size(), 1u) << "five milliseconds of work";
  for (int i = 0; i < 1000; ++i) submit();
  EXPECT_EQ(starts.size(), 3u) << "fifteen, of which one is given";
}

TEST_F(TaskPoolTest, WhatWaitsBehindATaskThatTakesLongerIsCalledBackAndGoesToOthers) {
  submit();
  ready(starts[0]);
  answer(runs[0], std::string("ok"), 10us);
  runs.clear();
  for (int i = 0; i < 4; ++i) submit();
  const auto first = std::exchange(runs, {});
  ASSERT_EQ(first.size(), 4u) << "all with the one runner";
  ASSERT_EQ(pool.next_tick(), now + 20ms);
  now += 20ms;
  take(pool.tick(now));
  EXPECT_EQ(recalls, std::vector{starts[0]});
  EXPECT_FALSE(pool.next_tick().has_value()) << "once";
  for (size_t i = 4; i-- > 1;) answer(first[i], make_error(net::given_back()));
  EXPECT_TRUE(runs.empty()) << "not to the one that is late";
  EXPECT_EQ(starts.size(), 4u);
  ready(starts[1]);
  ready(starts[2]);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].task, first[1].task) << "in their order";
  EXPECT_EQ(runs[1].task, first[2].task);
  answer(first[0]);
  EXPECT_EQ(runs.size(), 3u) << "it takes tasks again";
  for (const auto& run : std::vector(runs)) answer(run);
  EXPECT_EQ(pool.unfinished(), 0u);
  for (const auto& [task, result] : finished) EXPECT_TRUE(result) << "no retry was charged";
}

TEST_F(TaskPoolTest, WhatRanBeforeItCouldBeGivenBackCounts) {
  warm_up(10us);
  for (int i = 0; i < 3; ++i) submit();
  const auto first = std::exchange(runs, {});
  now += 20ms;
  take(pool.tick(now));
  for (const auto& run : first) answer(run);
  EXPECT_EQ(pool.unfinished(), 0u);
  EXPECT_TRUE(runs.empty());
  submit();
  answer(runs.at(0), make_error(ErrorCode::kCancelled, "its own answer"));
  EXPECT_EQ(finished.at(runs[0].task).error().message, "task square: its own answer");
}

// A program that calls a function does not see the actor behind it.
TEST_F(TaskPoolTest, ErrorsNameTheTaskAndNoActor) {
  net::CallRequest large;
  large.body = std::string(3, 'x');
  for (const Error& error : {net::arguments_too_large(large), net::cancelled_by_caller(true),
                             net::timed_out(true, "node a"), net::result_too_large(3)}) {
    const TaskId task = submit();
    if (pool.runners() == 1) ready(starts[0]);
    answer(TaskPool::Run(runs.back()), make_error(error));
    const std::string message = finished.at(task).error().message;
    EXPECT_EQ(finished.at(task).error().code, error.code);
    EXPECT_TRUE(message.starts_with("task square: ")) << message;
    EXPECT_EQ(message.find("actor"), std::string::npos) << message;
    EXPECT_EQ(message.find("the call "), std::string::npos) << message;
  }
}

TEST_F(TaskPoolTest, RequeuesTheFirstTaskWhenItIsGivenBackUnexecuted) {
  warm_up(10us);
  const TaskId once = submit(0);  // It may run only once, and has not run.
  submit();
  const auto first = std::exchange(runs, {});
  now += 20ms;
  take(pool.tick(now));
  ASSERT_EQ(recalls.size(), 1u);
  // The runner was frozen: it had started neither of them when it read the recall.
  answer(first[1], make_error(net::given_back()));
  answer(first[0], make_error(net::given_back()));
  EXPECT_FALSE(finished.contains(once));
  ASSERT_EQ(runs.size(), 2u);
  for (const auto& run : std::vector(runs)) answer(run);
  EXPECT_TRUE(finished.at(once));
  EXPECT_EQ(pool.unfinished(), 0u);
}

TEST_F(TaskPoolTest, OneThatWasCalledBackAndCancelledIsOver) {
  warm_up(10us);
  for (int i = 0; i < 3; ++i) submit();
  const auto first = std::exchange(runs, {});
  now += 20ms;
  take(pool.tick(now));
  take(pool.cancel(now, first[2].task, false));
  answer(first[2], make_error(net::given_back()));
  EXPECT_EQ(finished.at(first[2].task).error().code, ErrorCode::kCancelled);
  answer(first[1], make_error(net::given_back()));
  EXPECT_FALSE(finished.contains(first[1].task));
  ASSERT_EQ(runs.size(), 1u) << "it goes to one that is idle";
  EXPECT_NE(runs[0].runner, first[1].runner);
}

TEST_F(TaskPoolTest, AShortTaskThatWaitsForOneWithoutARunnerGetsItOne) {
  submit();
  ready(starts[0]);
  answer(runs[0], std::string("ok"), 4ms);
  submit();
  submit();
  ASSERT_EQ(runs.size(), 2u) << "the second waits for the first: that is sooner than a start";
  EXPECT_EQ(starts.size(), 1u);
  now += 20ms;
  take(pool.tick(now));
  EXPECT_TRUE(recalls.empty());
  EXPECT_EQ(starts.size(), 2u) << "the first may be waiting for the second";
}

TEST_F(TaskPoolTest, ATaskWhoseRunnerDiedGoesToAnotherAsOftenAsItMay) {
  const TaskId task = submit(1);
  ready(starts[0]);
  answer(runs[0], make_error(kDied));
  EXPECT_FALSE(finished.contains(task));
  ASSERT_EQ(starts.size(), 2u);
  ready(starts[1]);
  ASSERT_EQ(runs.size(), 2u);
  answer(runs[0], std::string("late"));  // From an attempt that has ended.
  EXPECT_FALSE(finished.contains(task));
  answer(runs[1], make_error(kDied));
  ASSERT_TRUE(finished.contains(task));
  EXPECT_EQ(finished.at(task).error().code, ErrorCode::kActorDied);
  EXPECT_THAT(finished.at(task).error().message, HasSubstr("task square was executed 2 times"));
}

TEST_F(TaskPoolTest, OnlyTheTaskThatRanIsChargedForADeath) {
  submit();
  ready(starts[0]);
  answer(runs[0], std::string("ok"), 10us);
  runs.clear();
  submit(1);
  submit(1);
  ASSERT_EQ(runs.size(), 2u) << "both with the one runner";
  take(pool.runner_failed(now, starts[0], kDied, false));
  ready(starts.back());
  runs.clear();
  take(pool.runner_failed(now, starts.back(), kDied, false));
  EXPECT_EQ(finished.at(TaskId{2}).error().code, ErrorCode::kActorDied);
  EXPECT_FALSE(finished.contains(TaskId{3}));
}

TEST_F(TaskPoolTest, WhatMayRunOnlyOnceIsNeverGivenBehindAnother) {
  submit();
  ready(starts[0]);
  answer(runs[0], std::string("ok"), 10us);
  runs.clear();
  submit();
  submit(0);  // If the runner had it too, its execution would be unknown after a death.
  submit();
  ASSERT_EQ(runs.size(), 1u);
  answer(TaskPool::Run(runs[0]), std::string("ok"), 10us);
  ASSERT_EQ(runs.size(), 3u) << "the first one of its runner, others behind it";
  EXPECT_EQ(runs[1].task, TaskId{3});
  take(pool.runner_failed(now, starts[0], kDied, false));
  EXPECT_EQ(finished.at(TaskId{3}).error().code, ErrorCode::kActorDied);
  EXPECT_FALSE(finished.contains(TaskId{4}));
}

TEST_F(TaskPoolTest, AnExceptionIsTheResultUnlessItIsListed) {
  const Error thrown{ErrorCode::kApplication, "std::runtime_error: busy"};
  const TaskId plain = submit();
  const TaskId listed = submit(2, 1, {"std::runtime_error"});
  for (const RunnerId runner : std::vector(starts)) ready(runner);
  answer(TaskPool::Run(runs[0]), make_error(thrown));
  answer(TaskPool::Run(runs[1]), make_error(thrown));
  EXPECT_TRUE(finished.contains(plain));
  EXPECT_FALSE(finished.contains(listed));
  answer(TaskPool::Run(runs.back()), make_error(thrown));
  answer(TaskPool::Run(runs.back()), make_error(thrown));
  EXPECT_EQ(finished.at(listed).error(), thrown);
}

TEST_F(TaskPoolTest, WhatCanNeverStartFails) {
  const TaskId task = submit(3, 400);
  ASSERT_EQ(starts.size(), 1u);
  take(pool.runner_failed(now, starts[0], {ErrorCode::kInfeasible, "the largest node has 4"}, true));
  EXPECT_EQ(finished.at(task).error().code, ErrorCode::kInfeasible);
}

TEST_F(TaskPoolTest, RunnersThatDieAtTheirStartAreNotTriedForEver) {
  const TaskId task = submit();
  for (size_t i = 0; i < 20 && !finished.contains(task); ++i)
    take(pool.runner_failed(now, starts.back(), {ErrorCode::kActorDied, "no such library"}, false));
  EXPECT_EQ(starts.size(), 3u);
  EXPECT_EQ(finished.at(task).error().message, "task square: no such library");
}

TEST_F(TaskPoolTest, AnIdleRunnerEndsAfterAWhile) {
  submit();
  ready(starts[0]);
  answer(runs[0]);
  EXPECT_EQ(pool.next_tick(), now + 500ms);
  take(pool.tick(now + 499ms));
  EXPECT_TRUE(ends.empty());
  take(pool.tick(now + 500ms));
  EXPECT_EQ(ends, starts);
  EXPECT_EQ(pool.runners(), 0u);
}

TEST_F(TaskPoolTest, ManyAreRefusedRatherThanKept) {
  TaskPool small{{.tasks_max = 1}};
  (void)small.submit(now, TaskId{1}, {.name = "square"});
  const auto refused = small.submit(now, TaskId{2}, {.name = "square"});
  ASSERT_EQ(refused.finish.size(), 1u);
  EXPECT_EQ(refused.finish[0].result.error().code, ErrorCode::kUnavailable);
}

// For any order of events: every task finishes once, and a successful one was answered by its last attempt.
TEST_F(TaskPoolTest, ACancelledTaskThatWaitsIsNeverRun) {
  for (int i = 0; i < 5; ++i) submit();
  take(pool.cancel(now, TaskId{5}, false));
  EXPECT_EQ(finished.at(TaskId{5}).error().code, ErrorCode::kCancelled);
  for (const RunnerId runner : std::vector(starts)) ready(runner);
  EXPECT_EQ(runs.size(), 4u);
  take(pool.cancel(now, TaskId{5}, true));  // Ended.
  EXPECT_EQ(pool.unfinished(), 4u);
}

TEST_F(TaskPoolTest, OfARunningTaskTheCallIsCancelledOrByForceTheRunnerEnded) {
  for (int i = 0; i < 5; ++i) submit();
  for (const RunnerId runner : std::vector(starts)) ready(runner);
  const auto told = pool.cancel(now, runs[0].task, false);
  ASSERT_EQ(told.cancel.size(), 1u);
  EXPECT_EQ(told.cancel[0].runner, runs[0].runner);
  answer(runs[0], make_error(ErrorCode::kCancelled, "the call was cancelled by its caller"));
  EXPECT_EQ(finished.at(runs[0].task).error().code, ErrorCode::kCancelled);
  take(pool.cancel(now, runs[1].task, true));
  EXPECT_EQ(finished.at(runs[1].task).error().code, ErrorCode::kCancelled);
  EXPECT_EQ(ends, std::vector{runs[1].runner});
  answer(runs[1], std::string("late"));
  EXPECT_EQ(pool.unfinished(), 3u);
}

TEST_F(TaskPoolTest, EveryTaskFinishesOnceUnderRandomDeathsAndCancels) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    TaskPool fresh{TaskPool::Options{}};
    fresh.set_total(*ResourceSet::from({.cpus = 4}));
    std::map<TaskId, int> ends_of;
    std::map<RunnerId, std::deque<TaskPool::Run>> given;
    std::vector<RunnerId> starting;
    const std::function<void(TaskPool::Actions)> apply = [&](TaskPool::Actions actions) {
      for (auto& one : actions.start) starting.push_back(one.runner);
      for (auto& one : actions.run) given[one.runner].push_back(std::move(one));
      for (auto& one : actions.finish) ++ends_of[one.task];
      for (const RunnerId one : actions.end) given.erase(one);
      fresh.check_invariants();
      for (const auto& one : actions.recall) {  // Some of the queued tasks have started by then.
        auto& calls = given[one.runner];
        while (calls.size() > 1 + random.next() % 2) {
          const TaskPool::Run back = calls.back();
          calls.pop_back();
          apply(fresh.answered(now, back.runner, back.task, back.attempt, make_error(net::given_back())));
        }
      }
      for (const auto& one : actions.cancel) {  // The call ends at once.
        auto& calls = given[one.runner];
        const auto run =
            std::find_if(calls.begin(), calls.end(), [&](const auto& call) { return call.task == one.task; });
        if (run == calls.end()) continue;
        const TaskPool::Run cancelled = *run;
        calls.erase(run);
        apply(fresh.answered(now, cancelled.runner, cancelled.task, cancelled.attempt,
                             make_error(ErrorCode::kCancelled, "by its caller")));
      }
    };
    size_t submitted = 0;
    for (int step = 0; step < 20'000 && (submitted < 60 || fresh.unfinished() > 0); ++step) {
      now += std::chrono::microseconds(random.next() % 50 == 0 ? 25'000 : random.next() % 500);
      const uint64_t what = random.next() % 100;
      if (what < 20 && submitted < 60) {
        apply(fresh.submit(now, TaskId{++submitted},
                           {.function = random.next() % 3,
                            .name = "f",
                            .resources = *ResourceSet::from({.cpus = 1.0 + static_cast<double>(random.next() % 2)}),
                            .max_retries = static_cast<int>(random.next() % 3)}));
      } else if (what < 50 && !starting.empty()) {
        const RunnerId runner = starting.back();
        starting.pop_back();
        apply(random.next() % 10 == 0 ? fresh.runner_failed(now, runner, kDied, false)
                                      : fresh.runner_ready(now, runner));
      } else if (what < 90 && !given.empty()) {
        auto at = std::next(given.begin(), static_cast<long>(random.next() % given.size()));
        if (at->second.empty()) continue;
        const TaskPool::Run run = at->second.front();
        at->second.pop_front();
        const bool dies = random.next() % 5 == 0;
        if (dies) given.erase(at);
        apply(fresh.answered(now, run.runner, run.task, run.attempt,
                             dies ? Result<std::string>(make_error(kDied)) : Result<std::string>(std::string("ok")),
                             std::chrono::microseconds(random.next() % 100)));
      } else if (what < 94 && submitted > 0) {
        apply(fresh.cancel(now, TaskId{1 + random.next() % submitted}, random.next() % 2 == 0));
      } else {
        apply(fresh.tick(now));
      }
    }
    EXPECT_EQ(fresh.unfinished(), 0u);
    EXPECT_EQ(ends_of.size(), submitted);
    for (const auto& [task, times] : ends_of) EXPECT_EQ(times, 1);
  }
}

}  // namespace
}  // namespace volador
