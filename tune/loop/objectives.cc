#include "tune/loop/objectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace volador::tune {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double violation_of(double constraint) {
  if (std::isnan(constraint)) return kInfinity;
  return std::max(constraint, 0.0);
}

bool dominates_by_values(const std::vector<double>& a, const std::vector<double>& b) {
  bool better = false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
    better = better || a[i] < b[i];
  }
  return better;
}

}  // namespace

Result<void> validate(const Goals& goals) {
  std::set<std::string> names;
  const auto check = [&names](const char* what, const std::string& name) -> Result<void> {
    if (name.empty())
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: a metric without a name: give the name of one that trials report", what));
    if (names.insert(name).second) return {};
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: \"{}\" stands there twice: name each metric once", what, name));
  };
  for (const Objective& objective : goals.objectives) VOLADOR_TRY(check("objectives", objective.metric));
  names.clear();
  for (const std::string& constraint : goals.constraints) VOLADOR_TRY(check("constraints", constraint));
  return {};
}

Outcome outcome_of(const std::vector<double>& objectives, const std::vector<double>& constraints,
                   const std::vector<Objective>& as) {
  Outcome outcome;
  for (size_t i = 0; i < as.size(); ++i) {
    const double value = i < objectives.size() ? objectives[i] : std::numeric_limits<double>::quiet_NaN();
    outcome.values.push_back(result_or_nan(as[i].mode == Mode::kMin ? value : -value));
  }
  for (const double constraint : constraints) outcome.violation += violation_of(constraint);
  return outcome;
}

Outcome outcome_of(const Metrics& result, const Goals& goals) {
  const auto value = [&result](const std::string& name) {
    return result.get(name).value_or(std::numeric_limits<double>::quiet_NaN());
  };
  std::vector<double> objectives, constraints;
  for (const Objective& objective : goals.objectives) objectives.push_back(value(objective.metric));
  for (const std::string& constraint : goals.constraints) constraints.push_back(value(constraint));
  return outcome_of(objectives, constraints, goals.objectives);
}

bool dominates(const Outcome& a, const Outcome& b) {
  if (a.violation == 0 && b.violation == 0) return dominates_by_values(a.values, b.values);
  return a.violation < b.violation;
}

std::vector<size_t> domination_ranks(const std::vector<Outcome>& outcomes) {
  const size_t count = outcomes.size();
  std::vector<size_t> ranks(count), better(count);  // better: number of unranked outcomes that dominate each one.
  std::vector<std::vector<size_t>> worse(count);
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = a + 1; b < count; ++b) {
      if (dominates(outcomes[a], outcomes[b])) {
        worse[a].push_back(b);
        ++better[b];
      } else if (dominates(outcomes[b], outcomes[a])) {
        worse[b].push_back(a);
        ++better[a];
      }
    }
  }
  std::vector<size_t> front;
  for (size_t i = 0; i < count; ++i) {
    if (better[i] == 0) front.push_back(i);
  }
  for (size_t rank = 0; !front.empty(); ++rank) {
    std::vector<size_t> next;
    for (const size_t one : front) {
      ranks[one] = rank;
      for (const size_t other : worse[one]) {
        if (--better[other] == 0) next.push_back(other);
      }
    }
    front = std::move(next);
  }
  return ranks;
}

std::vector<double> crowding_distances(const std::vector<Outcome>& outcomes, const std::vector<size_t>& members) {
  std::vector<double> distances(members.size(), 0);
  if (members.empty()) return distances;
  std::vector<size_t> order(members.size());
  for (size_t objective = 0; objective < outcomes[members[0]].values.size(); ++objective) {
    const auto value = [&](size_t member) { return outcomes[members[member]].values[objective]; };
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return value(a) < value(b); });
    distances[order.front()] = distances[order.back()] = kInfinity;
    const double range = value(order.back()) - value(order.front());
    if (!(range > 0) || !std::isfinite(range)) continue;
    for (size_t i = 1; i + 1 < order.size(); ++i)
      distances[order[i]] += (value(order[i + 1]) - value(order[i - 1])) / range;
  }
  return distances;
}

std::vector<size_t> select_elite(const std::vector<Outcome>& outcomes, size_t count) {
  const std::vector<size_t> ranks = domination_ranks(outcomes);
  std::vector<size_t> elite;
  for (size_t rank = 0; elite.size() < std::min(count, outcomes.size()); ++rank) {
    std::vector<size_t> front;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      if (ranks[i] == rank) front.push_back(i);
    }
    const std::vector<double> room = crowding_distances(outcomes, front);
    std::vector<size_t> order(front.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return room[a] > room[b]; });
    for (const size_t one : order) {
      if (elite.size() < count) elite.push_back(front[one]);
    }
  }
  return elite;
}

}  // namespace volador::tune
