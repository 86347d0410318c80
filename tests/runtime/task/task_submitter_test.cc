// The thread-safe part of tasks, on actors within this process; also run with the thread sanitizer.
#include "runtime/task/task_submitter.h"

#include <gmock/gmock.h>

#include <thread>

#include "runtime/actor/handle.h"
#include "runtime/actor/wait.h"
#include "runtime/once_event.h"
#include "runtime/task/task.h"
#include "runtime/task/task_time.h"
#include "tests/runtime/in_process_session.h"

namespace volador {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

int square(int x) { return x * x; }
int square_in_a_moment(int x) {
  std::this_thread::sleep_for(1ms);
  return x * x;
}

OnceEvent gate;
int pass_gate(int x) {
  gate.wait_until(std::nullopt);
  return x;
}
struct Desk {
  int pass(int x) { return pass_gate(x); }
};
VOLADOR_ACTOR(Desk, &Desk::pass);

std::string error_of(const auto& question) {
  try {
    question();
  } catch (const Exception& failed) {
    return failed.what();
  }
  return "";
}

TEST(TaskTime, TravelsBehindTheAnswer) {
  std::string answer = "answer";
  put_time_taken(answer, 1500us);
  EXPECT_NEAR(std::chrono::duration<double>(take_time_taken(answer)).count(), 1500e-6, 1e-9);
  EXPECT_EQ(answer, "answer");
  std::string none = "abc";
  EXPECT_EQ(take_time_taken(none), 0ns);
  EXPECT_EQ(none, "abc");
  std::string no_number = "answer\xff\xff\xff\xff";
  EXPECT_EQ(take_time_taken(no_number), 0ns);
}

class TaskSubmitterTest : public testing::Test {
 protected:
  TaskSubmitterTest() { Session::set_current(session); }
  ~TaskSubmitterTest() override {
    TaskSubmitter::shutdown();
    Session::set_current(nullptr);
    end_session(session);
  }
  std::shared_ptr<InProcessSession> session = std::make_shared<InProcessSession>(*ResourceSet::from({.cpus = 4}));
};

TEST_F(TaskSubmitterTest, ManyThreadsSubmit) {
  std::vector<std::thread> threads;
  std::atomic<int64_t> sum{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      std::vector<Future<int>> futures;
      for (int i = 0; i < 200; ++i) futures.push_back(task<&square>(i).submit());
      for (const auto& future : futures) sum += future.get(60s);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sum.load(), 4 * int64_t{199} * 200 * 399 / 6);
  EXPECT_LE(session->alive_max(), 4);
}

TEST_F(TaskSubmitterTest, TasksOutliveTheDeathsOfTheirRunners) {
  std::vector<Future<int>> futures;
  for (int i = 0; i < 300; ++i) futures.push_back(task<&square_in_a_moment>(i).max_retries(-1).submit());
  for (int death = 0; death < 5; ++death) {
    std::this_thread::sleep_for(10ms);
    session->die_all("killed by signal 9");
  }
  for (int i = 0; i < 300; ++i) EXPECT_EQ(futures[static_cast<size_t>(i)].get(60s), i * i);
}

TEST_F(TaskSubmitterTest, ShutdownEndsWhatHasNotFinished) {
  std::vector<Future<int>> futures;
  for (int i = 0; i < 300; ++i) futures.push_back(task<&square_in_a_moment>(i).submit());
  std::this_thread::sleep_for(5ms);
  TaskSubmitter::shutdown();
  int cancelled = 0;
  for (const auto& future : futures) {
    const auto result = future.result(60s);
    if (result) continue;
    EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
    ++cancelled;
  }
  EXPECT_GT(cancelled, 0);
}

TEST_F(TaskSubmitterTest, WhoWaitsInVainIsAdvisedByWhatWasAsked) {
  const std::vector<Future<int>> tasks = {task<&pass_gate>(1).submit(), task<&square>(2).submit()};
  const auto desk = actor<Desk>().spawn();
  const auto call = desk.call<&Desk::pass>(3);
  EXPECT_THAT(error_of([&] { tasks[0].get(0s); }),
              HasSubstr("the task has not ended yet; it goes on: wait longer, or end it by cancel()"));
  EXPECT_THAT(
      error_of([&] { call.get(0s); }),
      HasSubstr("the call has not ended yet; it goes on: wait longer, or make it by call_for() with a timeout"));
  EXPECT_EQ(tasks[1].get(60s), 4);
  EXPECT_THAT(error_of([&] { get(tasks, 0s); }),
              HasSubstr("1 of 2 results are there; what makes the others goes on: wait longer, or end it by cancel()"));
  gate.happen();
  EXPECT_EQ(tasks[0].get(60s), 1);
  EXPECT_EQ(call.get(60s), 3);
}

TEST_F(TaskSubmitterTest, IdleRunnersEnd) {
  EXPECT_EQ(task<&square>(3).submit().get(60s), 9);
  for (int wait = 0; wait < 1000 && session->alive() > 0; ++wait) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(session->alive(), 0);
}

}  // namespace
}  // namespace volador
