#include "tune/simulation/scheduler_comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace volador::tune {
namespace {

constexpr size_t kTimes = 101;

std::optional<double> best_at(const SimulationReport& report, double seconds) {
  const auto after = std::ranges::upper_bound(report.curve, seconds, {}, &SimulationReport::Point::seconds);
  return after == report.curve.begin() ? std::nullopt : std::optional(std::prev(after)->best);
}

SchedulerComparison::Row summarise(const std::string& name, const std::vector<SimulationReport>& reports,
                                   int64_t slots) {
  SchedulerComparison::Row row{.name = name, .seeds = static_cast<int64_t>(reports.size())};
  const auto share = 1 / static_cast<double>(reports.size());
  double first = 0, best = 0;
  int firsts = 0, bests = 0;
  for (const SimulationReport& one : reports) {
    row.trials += share * static_cast<double>(one.trials);
    row.finished += share * static_cast<double>(one.finished);
    row.stopped += share * static_cast<double>(one.stopped);
    row.steps += share * static_cast<double>(one.steps);
    row.elapsed_s += share * one.elapsed_s;
    if (one.elapsed_s > 0) row.busy_share += share * one.busy_s / (one.elapsed_s * static_cast<double>(slots));
    if (one.first_finished_s) first += *one.first_finished_s, ++firsts;
    if (one.best) best += *one.best, ++bests;
  }
  if (firsts > 0) row.first_finished_s = first / firsts;
  if (bests > 0) row.best = best / bests;
  return row;
}

}  // namespace

Result<SchedulerComparison> compare_schedulers(const SimulationOptions& base,
                                               const std::vector<std::pair<std::string, SchedulerFactory>>& schedulers,
                                               int64_t seeds,
                                               const std::function<Result<Workload>(uint64_t seed)>& workload) {
  SchedulerComparison comparison;
  std::vector<std::vector<SimulationReport>> all;
  double longest = 0;
  for (const auto& [name, scheduler] : schedulers) {
    std::vector<SimulationReport>& reports = all.emplace_back();
    for (int64_t i = 0; i < seeds; ++i) {
      SimulationOptions options = base;
      options.scheduler = scheduler;
      options.seed = base.seed + static_cast<uint64_t>(i);
      auto work = workload(options.seed);
      if (!work) return make_error(work.error());
      options.workload = std::move(*work);
      auto report = simulate(options);
      if (!report) return make_error(report.error().code, name + ": " + report.error().message);
      longest = std::max(longest, report->elapsed_s);
      reports.push_back(std::move(*report));
    }
    comparison.rows.push_back(summarise(name, reports, base.slots));
  }
  for (size_t i = 0; i < kTimes; ++i) comparison.times.push_back(longest * static_cast<double>(i) / (kTimes - 1));
  for (size_t s = 0; s < all.size(); ++s) {
    for (const double time : comparison.times) {
      double sum = 0;
      for (const SimulationReport& report : all[s])
        sum += best_at(report, time).value_or(std::numeric_limits<double>::quiet_NaN());
      comparison.rows[s].curve.push_back(sum / static_cast<double>(all[s].size()));
    }
  }
  return comparison;
}

}  // namespace volador::tune
