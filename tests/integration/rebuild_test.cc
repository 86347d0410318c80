// Objects of a node that dies: reconstructed by their tasks, or lost with an error that names the node. Two workers
// started by the command line.
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
// An actor that only received references.
class Borrower {
 public:
  void keep(NumbersRef ref) { kept_.push_back(std::move(ref)); }
  int64_t sum(size_t index) {
    const Numbers numbers = kept_.at(index).get(90s);
    return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
  }
  std::string trouble(size_t index) {
    const auto read = kept_.at(index).result(60s);
    return read ? "none" : read.error().message;
  }
  NumbersRef give(size_t index) { return kept_.at(index); }

 private:
  std::vector<NumbersRef> kept_;
};
VOLADOR_ACTOR(Borrower, &Borrower::keep, &Borrower::sum, &Borrower::trouble, &Borrower::give);

// Submits its own task.
class Submitter {
 public:
  NumbersRef submit(std::string node, int64_t first, int milliseconds) {
    return volador::task<&count_from>(std::vector<int64_t>{first}, milliseconds)
        .prefer_node(std::move(node))
        .submit()
        .get(60s)
        .at(0);
  }
};
VOLADOR_ACTOR(Submitter, &Submitter::submit);

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
  ASSERT_NE(home_of(on(victim, {0}, 0).get(60s).at(0)), home_of(mine));  // The tasks' process has free space for
                                                                         // objects now.
  const std::string survivor = victim == "first" ? "second" : "first";
  const auto borrower = volador::actor<Borrower>().node(survivor).spawn();
  const auto submitter = volador::actor<Submitter>().node(survivor).spawn(),
             doomed = volador::actor<Submitter>().node(survivor).spawn();
  // Starts the processes of their tasks.
  for (const auto& one : {submitter, doomed}) one.call<&Submitter::submit>(victim, 0, 0).get(60s);
  auto of_actor = submitter.call<&Submitter::submit>(victim, 6000, 1000),
       of_doomed = doomed.call<&Submitter::submit>(victim, 7000, 1000);
  auto made = on(victim, {1000, 2000, 3000, 4000, 5000}, 1000);
  std::this_thread::sleep_for(700ms);
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);  // The task ends, but its objects never arrive here.
  std::vector<NumbersRef> all = made.get(60s);
  auto fourth_kept = borrower.call<&Borrower::keep>(all.at(3)), fifth_kept = borrower.call<&Borrower::keep>(all.at(4));
  all.resize(4);  // The fifth is only borrowed from now on.
  const NumbersRef &first = all.at(0), &second = all.at(1), &third = all.at(2);
  EXPECT_FALSE(first.any().is_ready());
  ASSERT_NE(home_of(first), home_of(mine));
  std::this_thread::sleep_for(500ms);  // Those of the actors have ended as well.
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  fourth_kept.get(60s);
  fifth_kept.get(60s);
  borrower.call<&Borrower::keep>(of_actor.get(60s)).get(60s);
  borrower.call<&Borrower::keep>(of_doomed.get(60s)).get(60s);

  EXPECT_EQ(sum(first.get(120s)), sum_from(1000));                            // Read by this process.
  EXPECT_EQ(volador::task<&sum>(second).submit().get(120s), sum_from(2000));  // Read by a task, which is run again.
  EXPECT_EQ(sum(volador::task<&twice>(second).submit().get(60s).get(60s)), 2 * sum_from(2000));
  EXPECT_EQ(borrower.call<&Borrower::sum>(size_t{0}).get(120s), sum_from(4000));  // Borrowers request reconstruction
                                                                                  // from the submitter of the task,
  EXPECT_EQ(borrower.call<&Borrower::sum>(size_t{1}).get(120s), sum_from(5000));  // which need not hold a reference any
                                                                                  // more,
  EXPECT_EQ(borrower.call<&Borrower::sum>(size_t{2}).get(120s), sum_from(6000));  // and may be an actor.
  EXPECT_EQ(sum(borrower.call<&Borrower::give>(size_t{2}).get(60s).get(60s)), sum_from(6000));
  EXPECT_EQ(sum(all.at(3).get(60s)), sum_from(4000));
  doomed.kill();
  const std::string trouble = borrower.call<&Borrower::trouble>(size_t{3}).get(120s);
  EXPECT_THAT(trouble, HasSubstr(volador::short_id(home_of(third))));
  EXPECT_THAT(trouble, HasSubstr("of program rebuild_test"));
  EXPECT_THAT(trouble, HasSubstr("which submitted the task that brought it, has ended"));
  third.any().stored()->set_origin({});  // As an object that was put, not returned by a task.
  const auto gone = third.result(60s);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, volador::ErrorCode::kObjectLost);
  EXPECT_THAT(gone.error().message, HasSubstr(volador::short_id(home_of(third))));
}

}  // namespace

int main(int argc, char** argv) { return volador::testing::run_tests_on(workers, argc, argv); }
