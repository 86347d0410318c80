// Several objectives and constraints: Pareto comparison of trials.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/result.h"
#include "tune/loop/metrics.h"

namespace volador::tune {

// {"error", tune::Mode::kMin}
struct Objective {
  std::string metric;
  Mode mode = Mode::kMax;
  bool operator==(const Objective&) const = default;
};

// Objectives of a run beyond its one metric. Constraints are metrics too: a trial satisfies one if it is at most 0.
struct Goals {
  std::vector<Objective> objectives;
  std::vector<std::string> constraints;
  bool empty() const { return objectives.empty() && constraints.empty(); }
};

// kInvalidArgument: an objective or a constraint has no name or is listed twice; the message names it.
[[nodiscard]] Result<void> validate(const Goals& goals);

// A trial in the form used for comparison.
struct Outcome {
  std::vector<double> values;  // One per objective; smaller is better.
  double violation = 0;        // Sum of the constraint values above 0; 0: all satisfied, infinity: one was not
                               // reported.
  bool operator==(const Outcome&) const = default;
};

// Returns the outcome of a result. An absent objective is NaN.
Outcome outcome_of(const Metrics& result, const Goals& goals);
Outcome outcome_of(const std::vector<double>& objectives, const std::vector<double>& constraints,
                   const std::vector<Objective>& as);

// Returns whether a dominates b: a feasible outcome dominates an infeasible one; of two infeasible ones, that with the
// smaller violation dominates; of two feasible ones, that which is nowhere worse and somewhere better (Deb, Pratap,
// Agarwal, Meyarivan, IEEE TEVC 6, 2002). Both have the same number of values, none of them NaN.
bool dominates(const Outcome& a, const Outcome& b);

// Returns the rank of each outcome: 0 if no other dominates it, 1 if only outcomes of rank 0 do, and so on.
// O(objectives × outcomes²).
std::vector<size_t> domination_ranks(const std::vector<Outcome>& outcomes);

// Returns the crowding distance of each of `members`: the distance between its neighbours, summed over the objectives,
// where the range of the members is 1; infinite at the ends.
std::vector<double> crowding_distances(const std::vector<Outcome>& outcomes, const std::vector<size_t>& members);

// Returns the best `count`, best first: by rank, and in the last rank that fits only in part by larger crowding
// distance; ties by index.
std::vector<size_t> select_elite(const std::vector<Outcome>& outcomes, size_t count);

}  // namespace volador::tune
