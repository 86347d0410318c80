// Functions as tasks in real processes of a private cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <volador/volador.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <numeric>
#include <set>
#include <thread>

#include "tests/temporary_directory.h"

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

int square(int x) { return x * x; }
int sum(const std::vector<int>& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0); }
int pid_after(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  return getpid();
}
// Returns once this many run at the same time.
int pid_when_together(const std::string& folder, size_t count) {
  namespace fs = std::filesystem;
  std::ofstream(fs::path(folder) / std::to_string(getpid()));
  const auto files = [&] { return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {})); };
  for (int turn = 0; turn < 5000 && files() < count; ++turn) std::this_thread::sleep_for(10ms);
  return getpid();
}
void nothing() {}
int fails(const std::string& how) {
  if (how == "throw") throw std::runtime_error("on purpose");
  std::abort();
}
// Crashes or throws until the file is full of letters.
int succeeds_at_the_third(const std::string& file, bool dies) {
  std::ofstream(file, std::ios::app) << 'x';
  if (std::filesystem::file_size(file) < 3) {
    if (dies) ::kill(getpid(), SIGKILL);
    throw std::out_of_range("not yet");
  }
  return 3;
}
class Worker {
 public:
  int square_slowly(int x) {
    if (x < 0) throw std::domain_error("below zero");
    std::this_thread::sleep_for(20ms);
    ++calls_;
    return x * x;
  }
  int calls() const { return calls_; }
  int pid() const { return getpid(); }

 private:
  int calls_ = 0;
};
VOLADOR_ACTOR(Worker, &Worker::square_slowly, &Worker::calls, &Worker::pid);

// Records each execution.
int runs_once(const std::string& file, int milliseconds) {
  std::ofstream(file, std::ios::app) << 'x';
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  return 1;
}

int nested(int n) { return n == 0 ? 1 : volador::task<&nested>(n - 1).resources({}).submit().get(60s) + 1; }

TEST(Tasks, ManyRunAndComeBackInOrder) {
  std::vector<volador::Future<int>> squares;
  for (int i = 0; i < 2000; ++i) squares.push_back(volador::task<&square>(i).submit());
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(squares[static_cast<size_t>(i)].get(60s), i * i);
  volador::task<&nothing>().submit().get(60s);
  EXPECT_EQ(volador::task<&sum>(std::vector<int>{1, 2, 3}).submit().get(60s), 6);
}

TEST(Tasks, RunSideBySideInProcessesOfTheirOwn) {
  std::vector<volador::Future<int>> pids;
  const volador::TemporaryDirectory folder;
  for (int i = 0; i < 4; ++i)
    pids.push_back(volador::task<&pid_when_together>(folder.path().string(), size_t{4}).submit());
  std::set<int> seen;
  for (const auto& pid : pids) seen.insert(pid.get(60s));
  EXPECT_EQ(seen.size(), 4u);
  EXPECT_FALSE(seen.contains(getpid()));
}

// They are known to be short from their first run, so that they go to one process, from which waiting ones are
// recalled.
TEST(Tasks, ThatWaitForEachOtherMeetAlthoughTheyAreKnownAsShort) {
  std::this_thread::sleep_for(1500ms);  // Earlier runners end: a single one is left, which gets all tasks.
  const volador::TemporaryDirectory alone;
  for (int i = 0; i < 8; ++i) volador::task<&pid_when_together>(alone.path().string(), size_t{1}).submit().get(60s);
  for (int round = 0; round < 3; ++round) {
    const volador::TemporaryDirectory folder;
    std::vector<volador::Future<int>> pids;
    for (int i = 0; i < 4; ++i)
      pids.push_back(volador::task<&pid_when_together>(folder.path().string(), size_t{4}).submit());
    std::set<int> seen;
    for (const auto& pid : pids) seen.insert(pid.get(60s));
    EXPECT_EQ(seen.size(), 4u);
  }
}

TEST(Tasks, ShortOnesDoNotWaitForALongOneOfTheirFunction) {
  for (int i = 0; i < 8; ++i) volador::task<&pid_after>(0).submit().get(60s);
  std::vector<volador::Future<int>> futures;
  futures.push_back(volador::task<&pid_after>(20'000).submit());
  for (int i = 0; i < 200; ++i) futures.push_back(volador::task<&pid_after>(0).submit());
  const auto [ready, pending] = volador::wait(futures, {.count = 200, .timeout = 15s});
  EXPECT_EQ(ready.size(), 200u);
  futures[0].cancel({.force = true});
}

// Occasionally a task takes so long that those queued behind it are recalled while others start.
TEST(Tasks, ThatAreCalledBackRunOnce) {
  const volador::TemporaryDirectory folder;
  constexpr int kTasks = 3000;
  const auto file = [&](int i) { return (folder.path() / std::to_string(i)).string(); };
  std::vector<volador::Future<int>> futures;
  for (int i = 0; i < kTasks; ++i)
    futures.push_back(volador::task<&runs_once>(file(i), i % 500 == 100 ? 300 : 0).max_retries(i % 3).submit());
  for (const auto& future : futures) EXPECT_EQ(future.get(60s), 1);
  for (int i = 0; i < kTasks; ++i) EXPECT_EQ(std::filesystem::file_size(file(i)), 1u) << i;
}

TEST(Tasks, WaitGivesWhatIsReady) {
  std::vector<volador::Future<int>> futures;
  futures.push_back(volador::task<&pid_after>(5000).submit());
  for (int i = 0; i < 3; ++i) futures.push_back(volador::task<&square>(i).submit());
  const auto [ready, pending] = volador::wait(futures, {.count = 2, .timeout = 60s});
  EXPECT_EQ(ready.size(), 2u);
  EXPECT_EQ(pending.size(), 2u);
  const auto [all_but_one, slow] = volador::wait(futures, {.timeout = 300ms});
  EXPECT_LE(all_but_one.size(), 3u);
  EXPECT_GE(slow.size(), 1u);
  EXPECT_FALSE(futures[0].is_ready());
  futures[0].cancel({.force = true});
}

TEST(Tasks, StartWhenTheFuturesTheyTakeAreThere) {
  auto first = volador::task<&square>(3).submit();
  auto second = volador::task<&square>(first).submit();
  auto third = volador::task<&square>(second).submit();
  EXPECT_EQ(third.get(60s), 6561);
  const auto failed = volador::task<&square>(volador::task<&fails>("throw").submit()).submit().result(60s);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error(), (volador::Error{volador::ErrorCode::kApplication, "std::runtime_error: on purpose"}));
}

TEST(Tasks, WhatTheyThrowArrivesAndADeadProcessIsTriedAgain) {
  const auto thrown = volador::task<&fails>("throw").submit().result(60s);
  ASSERT_FALSE(thrown);
  EXPECT_EQ(thrown.error().code, volador::ErrorCode::kApplication);
  const auto dead = volador::task<&fails>("die").max_retries(1).submit().result(60s);
  ASSERT_FALSE(dead);
  EXPECT_EQ(dead.error().code, volador::ErrorCode::kActorDied);
  EXPECT_THAT(dead.error().message,
              testing::AllOf(HasSubstr("task fails was executed 2 times"), HasSubstr("signal 6")));

  const auto folder = std::filesystem::temp_directory_path() / ("volador-tasks-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  EXPECT_EQ(volador::task<&succeeds_at_the_third>((folder / "dies").string(), true).submit().get(60s), 3);
  EXPECT_EQ(volador::task<&succeeds_at_the_third>((folder / "throws").string(), false)
                .retry_on<std::out_of_range>()
                .submit()
                .get(60s),
            3);
  EXPECT_EQ(volador::task<&succeeds_at_the_third>((folder / "derived").string(), false)
                .retry_on<std::logic_error>()
                .submit()
                .get(60s),
            3);
  EXPECT_FALSE(volador::task<&succeeds_at_the_third>((folder / "another").string(), false)
                   .retry_on<std::runtime_error>()
                   .submit()
                   .result(60s));
  EXPECT_FALSE(volador::task<&succeeds_at_the_third>((folder / "not_listed").string(), false).submit().result(60s));
  std::filesystem::remove_all(folder);
}

TEST(Tasks, WhatNoNodeCouldEverRunIsRefused) {
  const auto refused = volador::task<&square>(1).resources({.cpus = 400}).submit().result(60s);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, volador::ErrorCode::kInfeasible);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("join a larger node first"))
      << "tasks have no option to wait";
  EXPECT_THROW((void)volador::task<&square>(1).max_retries(-2).submit(), volador::Exception);
}

TEST(Tasks, MayMakeTasks) { EXPECT_EQ(volador::task<&nested>(3).resources({}).submit().get(60s), 4); }

int fans_out(int depth) {
  if (depth == 0) return 1;
  std::vector<volador::Future<int>> parts;
  for (int i = 0; i < 2; ++i) parts.push_back(volador::task<&fans_out>(depth - 1).submit());
  int leaves = 0;
  for (const auto& part : parts) leaves += part.get();
  return leaves;
}

TEST(Tasks, ThatWaitForTheirOwnGiveTheirCpusToThem) {
  // Each requires a CPU, and more wait than there are.
  std::vector<volador::Future<int>> trees;
  for (int i = 0; i < 5; ++i) trees.push_back(volador::task<&fans_out>(2).submit());
  for (const auto& tree : trees) EXPECT_EQ(tree.get(100s), 4);
  EXPECT_EQ(volador::task<&fans_out>(1).resources({.cpus = 4}).submit().get(60s), 2) << "all CPUs there are";
}

// Its process stays for half a second for the next task. An actor that requires all CPUs must start earlier.
TEST(Tasks, AnIdleRunnerLendsItsCpus) {
  bool met = false;
  for (int round = 0; round < 20 && !met; ++round) {
    const volador::TemporaryDirectory folder;
    std::vector<volador::Future<int>> pids;
    for (int i = 0; i < 4; ++i)
      pids.push_back(volador::task<&pid_when_together>(folder.path().string(), size_t{4}).submit());
    std::set<int> before;
    for (const auto& pid : pids) before.insert(pid.get(60s));
    const auto worker = volador::actor<Worker>().resources({.cpus = 4}).spawn();
    EXPECT_GT(worker.call<&Worker::pid>().get(60s), 0);
    worker.kill();
    met = before.contains(volador::task<&pid_after>(0).submit().get(60s));
  }
  EXPECT_TRUE(met);
}

TEST(Tasks, AnIdleRunnerEnds) {
  const int before = volador::task<&pid_after>(0).submit().get(60s);
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (::kill(before, 0) == 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(20ms);
  EXPECT_NE(::kill(before, 0), 0);
}

TEST(ActorPool, SharesTheInputsAndKeepsTheirOrder) {
  std::vector<volador::ActorHandle<Worker>> workers;
  for (int i = 0; i < 3; ++i) workers.push_back(volador::actor<Worker>().spawn());
  const volador::ActorPool<Worker> pool(workers);
  std::vector<int> inputs(30);
  std::iota(inputs.begin(), inputs.end(), 0);
  const std::vector<int> squares = pool.map<&Worker::square_slowly>(inputs);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(squares[static_cast<size_t>(i)], i * i);
  for (const auto& worker : workers) EXPECT_GE(worker.call<&Worker::calls>().get(60s), 3);
  EXPECT_THROW((void)pool.map<&Worker::square_slowly>(std::vector<int>{1, -1, 2}), volador::Exception);
  EXPECT_THROW(volador::ActorPool<Worker>({}), volador::Exception);
}

TEST(GetOrCreate, GivesEverybodyTheSameOne) {
  const auto first = volador::actor<Worker>().name("shared").get_or_create();
  const auto second = volador::actor<Worker>().name("shared").get_or_create();
  EXPECT_EQ(first, second);
  EXPECT_EQ(first.call<&Worker::pid>().get(60s), second.call<&Worker::pid>().get(60s));
  EXPECT_THROW((void)volador::actor<Worker>().get_or_create(), volador::Exception);
}

}  // namespace

int main(int argc, char** argv) {
  auto cluster = volador::init(argc, argv, {.address = "local", .num_cpus = 4});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
