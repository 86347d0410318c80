// Features of actor calls beyond sequential execution: concurrency, cancellation, shared deadlines, retries after a
// death. Real processes on a private cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <volador/volador.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <mutex>
#include <thread>

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::filesystem::path& folder() {
  static std::filesystem::path path;
  return path;
}

// A call that blocks until another one opens the door.
class Door {
 public:
  int enter() {
    std::unique_lock<std::mutex> hold(mutex_);
    const int number = ++inside_;
    most_ = std::max(most_, number);
    changed_.notify_all();
    changed_.wait(hold, [this] { return open_; });
    --inside_;
    return most_;
  }
  void open() {
    const std::lock_guard<std::mutex> hold(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  int inside() {
    const std::lock_guard<std::mutex> hold(mutex_);
    return inside_;
  }
  std::vector<int> note(int number) {
    const std::lock_guard<std::mutex> hold(mutex_);
    noted_.push_back(number);
    return noted_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int inside_ = 0, most_ = 0;
  bool open_ = false;
  std::vector<int> noted_;
};
VOLADOR_ACTOR(Door, &Door::enter, &Door::open, &Door::inside, &Door::note);

TEST(Concurrency, SoManyCallsRunAtOnceAndNoMore) {
  auto door =
      volador::actor<Door>().max_concurrency(4).concurrency_group<&Door::inside, &Door::open>("control", 1).spawn();
  std::vector<volador::Future<int>> inside;
  for (int i = 0; i < 6; ++i) inside.push_back(door.call<&Door::enter>());
  while (door.call<&Door::inside>().get(60s) < 4) std::this_thread::sleep_for(2ms);
  door.call<&Door::open>().get(60s);
  for (auto& one : inside) EXPECT_LE(one.get(60s), 4);
}

TEST(Concurrency, AGroupWithOneThreadKeepsItsOrder) {
  auto door = volador::actor<Door>().max_concurrency(3).concurrency_group<&Door::note>("notes", 1).spawn();
  auto stuck = door.call<&Door::enter>();
  volador::Future<std::vector<int>> last;
  std::vector<int> expected;
  for (int i = 0; i < 500; ++i) {
    last = door.call<&Door::note>(i);
    expected.push_back(i);
  }
  EXPECT_EQ(last.get(60s), expected) << "beside a call that does not end";
  EXPECT_FALSE(stuck.is_ready());
}

TEST(Concurrency, WhatCannotBeIsRefusedAtOnce) {
  const auto refused = [](auto&& spawn) {
    try {
      spawn();
    } catch (const volador::Exception& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refused([] { volador::actor<Door>().max_concurrency(0).spawn(); }),
              HasSubstr("expected 1 or more, got 0"));
  EXPECT_THAT(refused([] { volador::actor<Door>().max_concurrency(2000).spawn(); }), HasSubstr("the limit is 1000"));
  EXPECT_THAT(
      refused([] {
        volador::actor<Door>().concurrency_group<&Door::note>("a", 1).concurrency_group<&Door::note>("b", 1).spawn();
      }),
      HasSubstr("one group"));
  EXPECT_THAT(refused([] { volador::actor<Door>().max_task_retries(-2).spawn(); }), HasSubstr("max_task_retries"));
}

// ---- cancelling ----

class Worker {
 public:
  std::string until_cancelled() {
    running_ = true;
    while (!volador::cancel_requested()) std::this_thread::sleep_for(1ms);
    ++cancelled_;
    return "stopped";
  }
  int cancelled() { return cancelled_; }
  bool running() { return running_; }
  int count() { return ++count_; }
  // Waits for a nested call; cancellation propagates to it.
  std::string ask(const volador::ActorHandle<Worker>& other);
  double left() { return volador::time_left() ? std::chrono::duration<double>(*volador::time_left()).count() : -1; }
  double left_of_a_nested_call(const volador::ActorHandle<Worker>& other);
  void leave() { volador::exit_actor(); }

 private:
  std::atomic<int> cancelled_{0};
  std::atomic<bool> running_{false};
  int count_ = 0;
};
VOLADOR_ACTOR(Worker, &Worker::until_cancelled, &Worker::cancelled, &Worker::running, &Worker::count, &Worker::ask,
              &Worker::left, &Worker::left_of_a_nested_call, &Worker::leave);

std::string Worker::ask(const volador::ActorHandle<Worker>& other) {
  return other.call<&Worker::until_cancelled>().get();
}
double Worker::left_of_a_nested_call(const volador::ActorHandle<Worker>& other) {
  return other.call<&Worker::left>().get();
}

auto two_lanes() {
  return volador::actor<Worker>().concurrency_group<&Worker::cancelled, &Worker::running>("looking", 1).spawn();
}

void wait_until(const std::function<bool()>& reached) {
  while (!reached()) std::this_thread::sleep_for(2ms);
}

TEST(Cancel, ARunningMethodSeesItAndAWaitingCallIsNotMade) {
  auto worker = two_lanes();
  auto running = worker.call<&Worker::until_cancelled>();
  auto waiting = worker.call<&Worker::count>();
  auto after = worker.call<&Worker::count>();
  wait_until([&] { return worker.call<&Worker::running>().get(60s); });
  waiting.cancel();
  running.cancel();
  running.cancel();
  EXPECT_EQ(running.result(60s).error().code, volador::ErrorCode::kCancelled);
  EXPECT_EQ(waiting.result(60s).error().code, volador::ErrorCode::kCancelled);
  EXPECT_EQ(after.get(60s), 1) << "the cancelled call did not count";
  wait_until([&] { return worker.call<&Worker::cancelled>().get(60s) == 1; });
  EXPECT_THROW(after.cancel({.force = true}), volador::Exception);
}

TEST(Cancel, TravelsToTheCallsThatACallMade) {
  auto inner = two_lanes();
  auto outer = volador::actor<Worker>().spawn();
  auto asked = outer.call<&Worker::ask>(inner);
  wait_until([&] { return inner.call<&Worker::running>().get(60s); });
  asked.cancel();
  wait_until([&] { return inner.call<&Worker::cancelled>().get(60s) == 1; });
}

TEST(Cancel, BeforeTheActorIsThereNothingIsSent) {
  auto hungry = volador::actor<Worker>().resources({.cpus = 4}).spawn();
  EXPECT_EQ(hungry.call<&Worker::count>().get(60s), 1);
  auto waits = volador::actor<Worker>().resources({.cpus = 4}).spawn();
  auto call = waits.call<&Worker::count>();
  call.cancel();
  EXPECT_THAT(call.result(60s).error().message, HasSubstr("before it was sent"));
  hungry.kill();
  EXPECT_EQ(waits.call<&Worker::count>().get(60s), 1);
  waits.kill();
}

TEST(Deadline, TravelsWithTheCallAndToItsOwnCalls) {
  auto inner = volador::actor<Worker>().spawn();
  auto outer = volador::actor<Worker>().spawn();
  EXPECT_EQ(outer.call<&Worker::left>().get(60s), -1);
  const double left = outer.call_for<&Worker::left_of_a_nested_call>(50s, inner).get();
  EXPECT_GT(left, 0);
  EXPECT_LE(left, 50);
  // Either of the two callers may see the deadline pass first.
  constexpr int kTimes = 5;
  for (int i = 0; i < kTimes; ++i) {
    const auto late = outer.call_for<&Worker::ask>(100ms, inner).result(60s);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, volador::ErrorCode::kTimeout) << late.error().message;
  }
  EXPECT_GE(inner.call<&Worker::cancelled>().get(60s), 1) << "its method was told and came to an end";
}

TEST(Exit, AnActorEndsItselfForGood) {
  auto worker = volador::actor<Worker>().max_restarts(-1).spawn();
  const auto left = worker.call<&Worker::leave>().result(60s);
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().code, volador::ErrorCode::kActorDied);
  EXPECT_THAT(left.error().message, HasSubstr("ended itself"));
  wait_until([&] { return worker.status().state == volador::ActorState::kDead; });
  EXPECT_EQ(worker.call<&Worker::count>().result(60s).error().code, volador::ErrorCode::kActorDied);
  EXPECT_THROW(volador::exit_actor(), volador::Exception) << "this is a driver";
}

// ---- tasks ----

std::string endless(const std::string& file) {
  std::ofstream(file) << "runs";
  while (!volador::cancel_requested()) std::this_thread::sleep_for(1ms);
  std::ofstream(file) << "told";
  return "stopped";
}
int deaf(const std::string& file) {
  std::ofstream(file) << ::getpid();
  while (true) std::this_thread::sleep_for(1s);
}
int one() { return 1; }

std::string content(const std::filesystem::path& file) {
  std::string text;
  std::ifstream(file) >> text;
  return text;
}

TEST(CancelTask, OneThatRunsIsToldOneThatWaitsIsNotRun) {
  const std::string file = folder() / "endless";
  std::vector<volador::Future<std::string>> hold;
  auto runs = volador::task<&endless>(file).resources({.cpus = 4}).submit();
  auto waits = volador::task<&one>().resources({.cpus = 4}).submit();
  wait_until([&] { return content(file) == "runs"; });
  waits.cancel();
  EXPECT_EQ(waits.result(60s).error().code, volador::ErrorCode::kCancelled);
  runs.cancel();
  EXPECT_EQ(runs.result(60s).error().code, volador::ErrorCode::kCancelled);
  wait_until([&] { return content(file) == "told"; });
  EXPECT_EQ(volador::task<&one>().resources({.cpus = 4}).submit().get(60s), 1);
}

TEST(CancelTask, ByForceItsProcessEndsAndTheNextOneRuns) {
  const std::string file = folder() / "deaf";
  auto runs = volador::task<&deaf>(file).resources({.cpus = 4}).submit();
  wait_until([&] { return !content(file).empty(); });
  const pid_t pid = std::stoi(content(file));
  auto next = volador::task<&one>().resources({.cpus = 4}).submit();
  runs.cancel({.force = true});
  EXPECT_EQ(runs.result(60s).error().code, volador::ErrorCode::kCancelled);
  EXPECT_EQ(next.get(60s), 1);
  wait_until([&] { return ::kill(pid, 0) != 0; });
}

// ---- retries after a death ----

// Writes a line for each executed call: incarnation and number.
class Ledger {
 public:
  explicit Ledger(std::string file) : file_(std::move(file)) {}
  int add(int number) {
    std::ofstream(file_, std::ios::app) << volador::self().epoch << ' ' << number << '\n';
    return number;
  }
  int pid() { return ::getpid(); }

 private:
  std::string file_;
};
VOLADOR_ACTOR(Ledger, &Ledger::add, &Ledger::pid);

constexpr int kDeaths = 5;  // Per actor: further restarts would have ever longer delays.
constexpr int kBatch = 50;

void kill_some_times(const volador::ActorHandle<Ledger>& ledger, int seed) {
  uint64_t last_epoch = 0;
  for (int death = 0; death < kDeaths;) {
    const auto status = ledger.status();
    if (status.state == volador::ActorState::kAlive && status.epoch > last_epoch) {
      last_epoch = status.epoch;
      std::this_thread::sleep_for(std::chrono::milliseconds(3 + 7 * ((seed + death) % 5)));
      ::kill(status.pid, SIGKILL);
      ++death;
    } else {
      std::this_thread::sleep_for(1ms);
    }
  }
}

// Calls until the actor has died this often, then checks its ledger.
void call_through_deaths(int seed) {
  const std::string file = folder() / ("ledger" + std::to_string(seed));
  auto ledger = volador::actor<Ledger>(file).max_restarts(-1).max_task_retries(-1).spawn();
  std::atomic<bool> dying{true};
  std::thread killer([&] {
    kill_some_times(ledger, seed);
    dying = false;
  });
  int next = 0;
  while (dying) {
    std::vector<volador::Future<int>> calls;
    for (int i = 0; i < kBatch; ++i) calls.push_back(ledger.call<&Ledger::add>(next + i));
    for (int i = 0; i < kBatch; ++i) EXPECT_EQ(calls[static_cast<size_t>(i)].get(120s), next + i);
    next += kBatch;
  }
  killer.join();

  std::ifstream lines(file);
  std::map<uint64_t, int> last;  // By incarnation.
  std::vector<bool> ran(static_cast<size_t>(next), false);
  uint64_t epoch = 0;
  int number = 0;
  while (lines >> epoch >> number) {
    const auto [before, first] = last.try_emplace(epoch, -1);
    EXPECT_LT(before->second, number) << "out of order or twice in incarnation " << epoch;
    before->second = number;
    ran[static_cast<size_t>(number)] = true;
  }
  EXPECT_GE(last.size(), 2u) << "it died too seldom to show anything";
  EXPECT_TRUE(std::all_of(ran.begin(), ran.end(), [](bool one) { return one; }));
}

TEST(Retries, ThroughManyDeathsEveryCallIsAnsweredInOrderAndRunsOnceAnIncarnation) {
  std::vector<std::thread> actors;
  for (int seed = 0; seed < 5; ++seed) actors.emplace_back(call_through_deaths, seed);
  for (auto& one : actors) one.join();
}

TEST(Retries, AsOftenAsAllowedThenTheOutcomeIsUnknown) {
  auto door = volador::actor<Door>()
                  .max_restarts(-1)
                  .max_task_retries(1)
                  .concurrency_group<&Door::inside>("looking", 1)
                  .spawn();
  auto call = door.call<&Door::enter>();
  for (int death = 0; death < 2; ++death) {
    wait_until([&] { return door.call<&Door::inside>().get(60s) == 1; });
    const auto status = door.status();
    ::kill(status.pid, SIGKILL);
    wait_until(
        [&] { return door.status().epoch > status.epoch && door.status().state == volador::ActorState::kAlive; });
  }
  const auto ended = call.result(60s);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, volador::ErrorCode::kUnknownOutcome);
  EXPECT_THAT(ended.error().message, HasSubstr("max_task_retries (1) is used up"));
}

TEST(Retries, WithoutThemTheOutcomeIsUnknownAtOnce) {
  auto door = volador::actor<Door>().max_restarts(-1).concurrency_group<&Door::inside>("looking", 1).spawn();
  auto call = door.call<&Door::enter>();
  wait_until([&] { return door.call<&Door::inside>().get(60s) == 1; });
  ::kill(door.status().pid, SIGKILL);
  EXPECT_EQ(call.result(60s).error().code, volador::ErrorCode::kUnknownOutcome);
  EXPECT_EQ(door.call<&Door::inside>().get(60s), 0);
}

// ---- streams ----

struct Row {
  int number = 0;
  std::string text;
};
VOLADOR_FIELDS(Row, number, text);

class Reader {
 public:
  void rows(int count, volador::Sink<Row>& out) {
    for (int i = 0; i < count; ++i) out.push({i, std::string(100, static_cast<char>('a' + i % 26))});
  }
  // Produces one item at a time, on demand.
  void steps(int count, volador::Sink<int>& out) {
    for (int i = 0; i < count; ++i) {
      {
        std::unique_lock<std::mutex> hold(mutex_);
        changed_.wait(hold, [&] { return allowed_ > i; });
      }
      out.push(i);
    }
  }
  void allow(int count) {
    const std::lock_guard<std::mutex> hold(mutex_);
    allowed_ = count;
    changed_.notify_all();
  }
  void endless(volador::Sink<std::string>& out) {
    try {
      while (true) {
        out.push(std::string(10'000, 'x'));
        ++pushed_;
      }
    } catch (const volador::Exception& error) {
      ended_by_ = error.code();
      throw;
    }
  }
  void fails_after(int count, volador::Sink<int>& out) {
    for (int i = 0; i < count; ++i) out.push(i);
    throw std::runtime_error("no more of it");
  }
  void dies_after(int count, volador::Sink<int>& out) {
    for (int i = 0; i < count; ++i) out.push(i);
    std::this_thread::sleep_for(100ms);
    ::kill(::getpid(), SIGKILL);
  }
  int pushed() { return pushed_; }
  int ended_by() { return static_cast<int>(ended_by_.load()); }
  void refs(int count, volador::Sink<volador::Ref<std::string>>& out) {
    for (int i = 0; i < count; ++i) out.push(volador::put(std::string(50'000, static_cast<char>('a' + i))));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int allowed_ = 0;
  std::atomic<int> pushed_{0};
  std::atomic<volador::ErrorCode> ended_by_{};
};
VOLADOR_ACTOR(Reader, &Reader::rows, &Reader::steps, &Reader::allow, &Reader::endless, &Reader::fails_after,
              &Reader::dies_after, &Reader::pushed, &Reader::ended_by, &Reader::refs);

auto reader() {
  return volador::actor<Reader>()
      .concurrency_group<&Reader::allow, &Reader::pushed, &Reader::ended_by>("control", 1)
      .spawn();
}

TEST(Stream, BringsEverythingInOrder) {
  auto actor = reader();
  int next = 0;
  for (const Row& row : actor.stream<&Reader::rows>(50'000)) {
    ASSERT_EQ(row.number, next);
    ASSERT_EQ(row.text.front(), static_cast<char>('a' + next % 26));
    ++next;
  }
  EXPECT_EQ(next, 50'000);
  for (const Row& row : actor.stream<&Reader::rows>(0)) FAIL() << row.number;
}

TEST(Stream, ItemsArriveWhileTheMethodRuns) {
  auto actor = reader();
  auto steps = actor.stream<&Reader::steps>(3);
  for (int i = 0; i < 3; ++i) {
    actor.call<&Reader::allow>(i + 1).get(60s);
    EXPECT_EQ(steps.next(), i);
  }
  EXPECT_EQ(steps.next(), std::nullopt);
  EXPECT_EQ(steps.next(), std::nullopt);
}

TEST(Stream, AReaderThatIsSlowHoldsUpTheMethodAndOneThatLeavesEndsIt) {
  auto actor = reader();
  {
    auto endless = actor.stream<&Reader::endless>();
    EXPECT_EQ(endless.next()->size(), 10'000u);
    int before = -1;
    while (actor.call<&Reader::pushed>().get(60s) != before) {  // Until it no longer changes.
      before = actor.call<&Reader::pushed>().get(60s);
      std::this_thread::sleep_for(100ms);
    }
    EXPECT_LT(before, 1000) << "10 MB on their way would be too many";
  }
  wait_until(
      [&] { return actor.call<&Reader::ended_by>().get(60s) == static_cast<int>(volador::ErrorCode::kCancelled); });
  EXPECT_EQ(actor.stream<&Reader::rows>(1).next()->number, 0) << "the actor goes on";
}

TEST(Stream, WhatTheMethodThrowsComesAfterItsItems) {
  auto actor = reader();
  auto failing = actor.stream<&Reader::fails_after>(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(failing.next(), i);
  try {
    failing.next();
    FAIL();
  } catch (const volador::Exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("no more of it"));
  }
}

TEST(Stream, ADeathEndsItWithTheCause) {
  auto actor = reader();
  auto dying = actor.stream<&Reader::dies_after>(2);
  EXPECT_EQ(dying.next(), 0);
  EXPECT_EQ(dying.next(), 1);
  try {
    dying.next();
    FAIL();
  } catch (const volador::Exception& error) {
    EXPECT_EQ(error.code(), volador::ErrorCode::kActorDied) << error.what();
  }
}

TEST(Stream, ItsTimeOutEndsIt) {
  auto actor = reader();
  auto steps = actor.stream_for<&Reader::steps>(200ms, 3);
  EXPECT_THROW(steps.next(), volador::Exception);
  actor.call<&Reader::allow>(3).get(60s);
}

TEST(Stream, ReferencesTravelInIt) {
  auto actor = reader();
  char expected = 'a';
  for (const volador::Ref<std::string>& text : actor.stream<&Reader::refs>(5)) {
    EXPECT_EQ(text.get(60s), std::string(50'000, expected));
    ++expected;
  }
  EXPECT_EQ(expected, 'f');
}

}  // namespace

int main(int argc, char** argv) {
  auto cluster = volador::init(argc, argv, {.address = "local", .num_cpus = 4});
  folder() = std::filesystem::temp_directory_path() / ("volador-calls-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder());
  testing::InitGoogleTest(&argc, argv);
  const int code = RUN_ALL_TESTS();
  std::filesystem::remove_all(folder());
  return code;
}
