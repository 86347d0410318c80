// Several objectives at once, and constraints: which trials are better than which.
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

// What a run wants beside its one metric. Constraints are metrics too: a trial keeps one where it is at most 0.
struct Goals {
  std::vector<Objective> objectives;
  std::vector<std::string> constraints;
  bool empty() const { return objectives.empty() && constraints.empty(); }
};

// kInvalidArgument: an objective or a constraint has no name, or stands there twice; the message names it.
[[nodiscard]] Result<void> validate(const Goals& goals);

// A trial as it is compared.
struct Outcome {
  std::vector<double> values;  // Of each objective; smaller is better.
  double violation = 0;        // Sum of what constraints are above 0; 0: it keeps all, infinity: one was not reported.
  bool operator==(const Outcome&) const = default;
};

// What a result says. An objective that is absent is NaN.
Outcome outcome_of(const Metrics& result, const Goals& goals);
Outcome outcome_of(const std::vector<double>& objectives, const std::vector<double>& constraints,
                   const std::vector<Objective>& as);

// Whether a is better than b: what keeps the constraints than what does not, of two that do not the one that violates
// them less, else what is nowhere worse and somewhere better (Deb, Pratap, Agarwal, Meyarivan, IEEE TEVC 6, 2002). As
// many values each, none of them NaN.
bool dominates(const Outcome& a, const Outcome& b);

// 0 for those that none dominates, 1 for those that only they dominate, and so on. O(objectives × outcomes²).
std::vector<size_t> domination_ranks(const std::vector<Outcome>& outcomes);

// How far each of `members` has its neighbours in every objective, the range of the members being 1: infinite at the
// ends.
std::vector<double> crowding_distances(const std::vector<Outcome>& outcomes, const std::vector<size_t>& members);

// The best `count`, best first: by rank, in the last rank that fits in part those with more room around them; of equal
// ones the first.
std::vector<size_t> select_elite(const std::vector<Outcome>& outcomes, size_t count);

}  // namespace volador::tune
