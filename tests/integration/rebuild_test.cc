// Objects of a node that dies: made again by their tasks, or lost with that node's name. Two workers that the command line starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <volador/volador.h>

#include <csignal>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "tests/integration/cluster_main.h"
#include "tests/integration/two_workers.h"

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Numbers = std::vector<int64_t>;
using NumbersRef = volador::Ref<Numbers>;

constexpr int64_t kCount = 50'000;

std::vector<NumbersRef> count_from(std::vector<int64_t> firsts, int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  std::vector<NumbersRef> made;
  for (const int64_t first : firsts) {
    Numbers numbers(kCount);
    std::iota(numbers.begin(), numbers.end(), first);
    made.push_back(volador::put(numbers));
  }
  return made;
}
NumbersRef twice(Numbers numbers) {
  for (int64_t& one : numbers) one *= 2;
  return volador::put(numbers);
}
int64_t sum(const Numbers& numbers) { return std::accumulate(numbers.begin(), numbers.end(), int64_t{0}); }

constexpr int64_t sum_from(int64_t first) { return kCount * first + kCount * (kCount - 1) / 2; }

volador::testing::TwoWorkers* workers = nullptr;

volador::NodeId home_of(const NumbersRef& ref) { return ref.any().stored()->key().node; }

TEST(Rebuild, WhatADeadNodeHadIsMadeAgainByItsTasksOrLostByName) {
  // The worker that dies is not the one whose store this program uses.
  const auto mine = volador::put(Numbers(kCount));
  const auto on = [](const std::string& node, std::vector<int64_t> firsts, int milliseconds) {
    return volador::task<&count_from>(std::move(firsts), milliseconds).prefer_node(node).submit();
  };
  const std::string victim = home_of(on("second", {0}, 0).get(60s).at(0)) == home_of(mine) ? "first" : "second";
  const pid_t pid = workers->pid_of(victim);
  ASSERT_NE(home_of(on(victim, {0}, 0).get(60s).at(0)), home_of(mine));  // The tasks' process has room for objects now.
  auto made = on(victim, {1000, 2000, 3000}, 400);
  std::this_thread::sleep_for(200ms);
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);  // The task ends, its objects never come here.
  const std::vector<NumbersRef> all = made.get(60s);
  const NumbersRef &first = all.at(0), &second = all.at(1), &third = all.at(2);
  EXPECT_FALSE(first.any().is_ready());
  ASSERT_NE(home_of(first), home_of(mine));
  ASSERT_EQ(::kill(pid, SIGKILL), 0);

  EXPECT_EQ(sum(first.get(120s)), sum_from(1000));  // Read here.
  EXPECT_EQ(volador::task<&sum>(second).submit().get(120s), sum_from(2000));  // Read by a task, which is run again.
  EXPECT_EQ(sum(volador::task<&twice>(second).submit().get(60s).get(60s)), 2 * sum_from(2000));
  third.any().stored()->set_origin({});  // As one that was put, not brought by a task.
  const auto gone = third.result(60s);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, volador::ErrorCode::kObjectLost);
  EXPECT_THAT(gone.error().message, HasSubstr(volador::short_id(home_of(third))));
}

}  // namespace

int main(int argc, char** argv) { return volador::testing::run_tests_on(workers, argc, argv); }
