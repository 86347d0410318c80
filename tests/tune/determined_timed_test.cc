#include "tune/determined/determined_timed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>

namespace volador::tune::determined {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::unique_ptr<Search> timed_search(SearchOptions options) {
  options.timed = true;
  return Search::create(
             options,
             Hyperparameters::from(Config::from_json(R"({"x": {"type": "double", "minval": 0, "maxval": 1}})").value())
                 .value(),
             7)
      .value();
}

// Trials report at every multiple of `step`, one trial after the other, until they are closed. Returns the units at
// which each ended, in order of creation.
std::vector<int64_t> stops(Search& search, int64_t step, const std::function<double(int64_t)>& metric) {
  std::vector<int64_t> units;
  std::map<RequestId, size_t> numbers;
  std::deque<RequestId> running;
  bool shut_down = false;
  const std::function<void(const Operations&)> take = [&](const Operations& operations) {
    for (const Operation& operation : operations) {
      if (const auto* create = std::get_if<Create>(&operation)) {
        numbers[create->request] = units.size();
        units.push_back(0);
        running.push_back(create->request);
        search.created(create->request);
      } else if (const auto* close = std::get_if<Close>(&operation)) {
        std::erase(running, close->request);
        take(search.closed(close->request));
      } else {
        shut_down = std::holds_alternative<Shutdown>(operation);
      }
    }
  };
  take(search.initial_operations());
  while (!running.empty()) {
    const RequestId request = running.front();
    running.pop_front();
    running.push_back(request);
    const size_t number = numbers[request];
    units[number] += step;
    take(search.reported(request, units[number], metric(static_cast<int64_t>(number))));
  }
  EXPECT_TRUE(shut_down);
  EXPECT_EQ(search.progress(), 1);
  return units;
}

double rising_metric(int64_t trial) { return static_cast<double>(trial + 1); }

TEST(DeterminedTimed, StopsAllButTheBest) {
  const auto search = timed_search({.name = "async_halving",
                                    .max_length = 900,
                                    .max_trials = 10,
                                    .max_concurrent_trials = 3,
                                    .divisor = 3,
                                    .num_rungs = 3});
  EXPECT_THAT(stops(*search, 100, rising_metric), ElementsAre(900, 100, 100, 100, 100, 100, 100, 100, 100, 100));
}

TEST(DeterminedTimed, RunsBracketsInTandem) {
  const auto search = timed_search({.name = "adaptive_asha", .max_length = 90, .max_trials = 9, .divisor = 3});
  std::map<int64_t, int> ends;
  const auto all = stops(*search, 10, rising_metric);
  for (const int64_t units : all) ++ends[units];
  EXPECT_EQ(ends, (std::map<int64_t, int>{{10, 5}, {30, 2}, {90, 2}}));
}

TEST(DeterminedTimed, OneReportMayPassSeveralRungs) {
  const auto search = timed_search({.name = "async_halving",
                                    .max_length = 9,
                                    .max_trials = 2,
                                    .max_concurrent_trials = 2,
                                    .divisor = 3,
                                    .num_rungs = 3});
  const Operations first = search->initial_operations();
  ASSERT_EQ(first.size(), 2U);
  const RequestId a = std::get<Create>(first[0]).request, b = std::get<Create>(first[1]).request;
  search->created(a);
  search->created(b);
  EXPECT_THAT(search->reported(a, 5, 0.5), IsEmpty());
  const Operations closed = search->reported(b, 5, 0.6);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(std::get<Close>(closed[0]).request, b);
  EXPECT_THAT(search->reported(b, 6, 0.1), IsEmpty()) << "it is stopping";
  EXPECT_EQ(search->reported(a, 100, 0.4).size(), 1U);
}

TEST(DeterminedTimed, ReplacesWhatEndsOrIsInvalid) {
  const auto search = timed_search({.name = "async_halving",
                                    .max_length = 9,
                                    .max_trials = 3,
                                    .max_concurrent_trials = 1,
                                    .divisor = 3,
                                    .num_rungs = 2});
  const auto created_in = [](const Operations& operations) {
    for (const Operation& operation : operations) {
      if (const auto* create = std::get_if<Create>(&operation)) return create->request;
    }
    return RequestId();
  };
  RequestId now = created_in(search->initial_operations());
  search->created(now);
  RequestId next = created_in(search->exited(now, ExitReason::kInitInvalidHp));
  ASSERT_FALSE(next.empty());
  EXPECT_THAT(search->closed(now), IsEmpty());
  search->created(next);
  now = created_in(search->closed(next));  // It ended by itself.
  ASSERT_FALSE(now.empty());
  search->created(now);
  next = created_in(search->exited(now, ExitReason::kErrored));
  ASSERT_FALSE(next.empty());
  search->closed(now);
  search->created(next);
  const Operations last = search->reported(next, 9, 1);
  ASSERT_EQ(last.size(), 1U) << "the budget is spent";
  const Operations end = search->closed(next);
  ASSERT_EQ(end.size(), 1U);
  EXPECT_FALSE(std::get<Shutdown>(end[0]).failure);
  EXPECT_EQ(search->counts(), (SearchCounts{.requested = 4, .created = 4, .closed = 4, .failed = 1, .invalid = 1}));
}

TEST(DeterminedTimed, RandomTrialsRunToTheirEnds) {
  const auto search = timed_search({.name = "random", .max_trials = 2, .max_concurrent_trials = 1});
  const Operations first = search->initial_operations();
  ASSERT_EQ(first.size(), 1U) << "only Create";
  const RequestId request = std::get<Create>(first[0]).request;
  search->created(request);
  EXPECT_THAT(search->reported(request, 1, 0.5), IsEmpty());
  EXPECT_EQ(search->closed(request).size(), 1U);
}

}  // namespace
}  // namespace volador::tune::determined
