#include "tune/display/run_news.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tune/display/trial_report.h"
#include "tune/seconds.h"
#include "tune/space/space_json.h"

namespace volador::tune {
namespace {

// Empty if the space has functions.
std::string json_of(const Space& space) {
  const auto json = space_to_json(space);
  return json ? json->to_json() : std::string();
}

}  // namespace

void RunNews::note_point(const Trial& trial, const RecordResult& action) {
  if (points_held_ >= kPointsMax) return;
  ++points_held_;
  TrialPoint point{.step = action.step, .time_s = action.result.get("time_total_s").value_or(0)};
  for (const auto& [name, value] : action.result) point.metrics[name] = value;
  points_[trial.index].push_back(std::move(point));
}

void RunNews::note_left(const std::optional<TimeLeft>& left, BootTime now) {
  left_ = left;
  left_changed_ = left.has_value() != left_told_.has_value();
  if (!left || !left_told_) return;
  const double expected = left_told_->seconds - seconds_of(now - left_told_at_);
  left_changed_ = std::abs(left->seconds - expected) > 1 + 0.05 * left_told_->seconds;
}

ExperimentReport RunNews::take(const TrialLoop& loop, const std::string& state, const Clock& clock,
                               const std::function<ActorId(const Trial&)>& actor_of) {
  ExperimentReport report;
  report.experiment = directory_.key();
  report.state = state;
  report.metric = options_.metric;
  report.mode = to_string(options_.mode);
  report.directory = directory_.path().string();
  const TrialCounts counts = loop.counts();
  report.trials_planned = counts.total.value_or(0);
  report.trials_total = loop.ending() || loop.ended() ? counts.known : counts.total.value_or(counts.known);
  if (loop.ended())
    best_ = best_so_far_ = std::nullopt;  // Repeated with the last report, in case an earlier one was
                                          // lost.
  report.best = news_of_best(loop, Scope::kLast, best_);
  report.best_so_far = news_of_best(loop, Scope::kAll, best_so_far_);
  if (!loop.ending() && !loop.ended() && !loop.paused()) report.left = left_;
  left_changed_ = false;
  left_told_ = report.left;
  left_told_at_ = clock.now();
  report.scheduler = loop.scheduler().describe();
  if (!std::exchange(space_told_, true)) {
    report.space = json_of(options_.space);
    report.tags = options_.tags;
  }
  if (rungs_changed_ && (loop.ended() || clock.now() >= next_rungs_)) report.rungs = rungs(loop, clock);
  for (const int64_t index : changed_) {
    const Trial& trial = loop.trials()[static_cast<size_t>(index)];
    TrialReport row = report_of(trial);
    row.actor = actor_of(trial);
    if (const auto points = points_.find(index); points != points_.end()) row.points = std::move(points->second);
    report.trials.push_back(std::move(row));
  }
  changed_.clear();
  points_.clear();
  points_held_ = 0;
  return report;
}

std::optional<BestReport> RunNews::news_of_best(const TrialLoop& loop, Scope scope,
                                                std::optional<BestReport>& told) const {
  BestReport best = report_of(loop.best(scope));
  if (told == best) return std::nullopt;
  told = best;
  return best;
}

std::vector<RungReport> RunNews::rungs(const TrialLoop& loop, const Clock& clock) {
  const BootTime begin = clock.now();
  std::vector<RungReport> reports = report_of(loop.scheduler().rungs(SIZE_MAX), kRungMembersMax);
  rungs_changed_ = false;
  const BootTime end = clock.now();
  next_rungs_ = end + std::max<std::chrono::nanoseconds>(kRungsInterval, (end - begin) * kRungsShare);
  return reports;
}

}  // namespace volador::tune
