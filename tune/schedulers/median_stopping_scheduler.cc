#include "tune/schedulers/median_stopping_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>
#include <utility>

#include "runtime/quantities.h"
#include "tune/display/progress_table.h"
#include "tune/schedulers/ranking.h"
#include "tune/snapshot.h"
#include "tune/space/config.h"

namespace volador::tune {
namespace {

constexpr int64_t kEachStep = 256;  // Up to here every step is compared.
constexpr int64_t kSpacing = 64;    // From there on every 1/64 more.
constexpr double kWorst = std::numeric_limits<double>::infinity();
// Soft-stopped trials queue behind all others.
constexpr double kLastPriority = 1;

std::vector<int64_t> milestones_from(int64_t grace_period) {
  std::vector<int64_t> out;
  for (int64_t step = 1; step < int64_t{1} << 62; step += step < kEachStep ? 1 : step / kSpacing) {
    if (step >= grace_period) out.push_back(step);
  }
  return out;
}

struct MedianTrial {
  int64_t last_step = 0;
  double best = kWorst;  // A key: smaller is better.
  double sum = 0;        // Sum of the keys since the grace period, without NaN.
  int64_t count = 0;
  int64_t nans = 0;
  std::vector<std::pair<size_t, double>> means;  // At each milestone passed, as keys.
  size_t next = 0;                               // Next milestone.
  Decision decision = Decision::kContinue;
  bool judged = false;  // Soft-stopped once: not judged again.
  bool complete = false;

  bool has_mean() const { return count + nans > 0; }
  double mean() const { return count > 0 && !std::isnan(sum) ? sum / static_cast<double>(count) : kWorst; }
};

}  // namespace

struct MedianStoppingScheduler::State {
  MedianStoppingOptions options;
  SchedulerContext context;
  std::vector<int64_t> milestones;
  std::vector<Ranking> rankings;  // Means at each milestone that some trial has passed.
  std::unordered_map<TrialId, MedianTrial> trials;
  std::vector<TrialId> order;  // In the order added.
  std::set<TrialId> paused;
  bool no_more = false;
  std::vector<Order> orders;
  std::vector<DecisionRecord> decisions;  // Not taken yet.

  State(const MedianStoppingOptions& options_in, const SchedulerContext& context_in)
      : options(options_in), context(context_in), milestones(milestones_from(options_in.grace_period)) {}

  double key(double value) const { return context.mode == Mode::kMax ? -value : value; }

  // Records that a trial's best value is worse than the median of `others` trials.
  void note(TrialId id, const MedianTrial& trial, Act act, double median, size_t others) {
    const auto shown = [this](double key) { return context.mode == Mode::kMax ? -key : key; };
    DecisionRecord& record = decisions.emplace_back(DecisionRecord{.trial = id,
                                                                   .step = trial.last_step,
                                                                   .act = act,
                                                                   .rule = "median stopping",
                                                                   .value = shown(trial.best),
                                                                   .cutoff = shown(median)});
    record.of = static_cast<int64_t>(others) + 1;
    record.detail =
        reason("decision.median", record.step, format_value(record.value), format_value(record.cutoff), others);
  }

  void pass(MedianTrial& trial, size_t milestone, double mean) {
    if (rankings.size() <= milestone) rankings.resize(milestone + 1);
    rankings[milestone].insert(mean);
    trial.means.emplace_back(milestone, mean);
  }

  // Returns the median of the other trials at the milestone; no value: too few.
  std::optional<double> median(size_t milestone) const {
    if (milestone >= rankings.size()) return std::nullopt;
    const Ranking& ranking = rankings[milestone];
    const size_t size = ranking.size();
    if (size == 0 || static_cast<int64_t>(size) < options.min_samples_required) return std::nullopt;
    const double upper = ranking.at(size / 2);
    return size % 2 == 1 ? upper : (ranking.at(size / 2 - 1) + upper) / 2;
  }

  void report(TrialId id, MedianTrial& trial, int64_t step, double value) {
    trial.last_step = step;
    // Skipped milestones get the mean of the preceding values.
    const auto pass_until = [&](int64_t limit) {
      for (; trial.next < milestones.size() && milestones[trial.next] < limit; ++trial.next) {
        if (trial.has_mean()) pass(trial, trial.next, trial.mean());
      }
    };
    const size_t first = trial.next;
    pass_until(step);
    if (!std::isnan(value)) trial.best = std::min(trial.best, key(value));
    if (step < options.grace_period) return;
    if (std::isnan(value)) {
      ++trial.nans;
    } else {
      trial.sum += key(value);
      ++trial.count;
    }
    const bool exact = trial.next < milestones.size() && milestones[trial.next] == step;
    if (!exact && trial.next == first) return;
    const auto others = exact ? median(trial.next) : std::nullopt;
    const size_t count = others ? rankings[trial.next].size() : 0;
    if (exact) pass(trial, trial.next++, trial.mean());
    if (trial.judged || !others || !(trial.best > *others)) return;
    trial.decision = Decision::kStop;
    if (options.hard_stop) return note(id, trial, Act::kStopped, *others, count);
    trial.judged = true;
    trial.decision = no_more ? Decision::kContinue : Decision::kPause;
    note(id, trial, no_more ? Act::kPassed : Act::kPaused, *others, count);
    if (!no_more) paused.insert(id);
  }

  Result<void> read(const Config& state);
};

MedianStoppingScheduler::MedianStoppingScheduler(const MedianStoppingOptions& options, const SchedulerContext& context)
    : state_(std::make_unique<State>(options, context)) {}
MedianStoppingScheduler::~MedianStoppingScheduler() = default;

Result<std::unique_ptr<MedianStoppingScheduler>> MedianStoppingScheduler::create(const MedianStoppingOptions& options,
                                                                                 const SchedulerContext& context) {
  const auto refuse = [](std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); };
  if (options.grace_period < 1 || options.grace_period > int64_t{1} << 53)
    return refuse(fmt::format("median_stopping.grace_period: expected 1 to 2^53 steps, got {}", options.grace_period));
  if (options.min_samples_required < 1)
    return refuse(fmt::format("median_stopping.min_samples_required: expected at least 1 trial, got {}",
                              options.min_samples_required));
  if (context.metric.empty())
    return refuse(
        "median_stopping: it compares trials by a metric: set .metric to the name of one that the trials report");
  return std::unique_ptr<MedianStoppingScheduler>(new MedianStoppingScheduler(options, context));
}

void MedianStoppingScheduler::on_trial_add(TrialId trial) {
  if (state_->trials.try_emplace(trial).second) state_->order.push_back(trial);
}

Result<Decision> MedianStoppingScheduler::on_report(const Report& report) {
  const auto found = state_->trials.find(report.trial);
  if (found == state_->trials.end()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("median_stopping: trial {} reported before it was added", to_string(report.trial)));
  }
  if (report.step < 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("median_stopping: trial {} reported step {}, expected at least 1",
                                  to_string(report.trial), report.step));
  }
  MedianTrial& trial = found->second;
  if (!trial.complete && trial.decision == Decision::kContinue && report.step > trial.last_step) {
    state_->report(report.trial, trial, report.step, result_or_nan(report.value));
  }
  return trial.decision;
}

void MedianStoppingScheduler::on_complete(TrialId trial) {
  const auto found = state_->trials.find(trial);
  if (found == state_->trials.end()) return;
  found->second.complete = true;
  state_->paused.erase(trial);
}

void MedianStoppingScheduler::on_no_more_trials() {
  state_->no_more = true;
  for (const TrialId id : std::exchange(state_->paused, {})) {
    state_->trials.at(id).decision = Decision::kContinue;
    state_->orders.push_back(ResumeOrder{id, kLastPriority});
    state_->decisions.push_back({.trial = id,
                                 .step = state_->trials.at(id).last_step,
                                 .act = Act::kResumed,
                                 .rule = "median stopping",
                                 .detail = reason("decision.place_free")});
  }
}

std::vector<Order> MedianStoppingScheduler::take_orders() { return std::exchange(state_->orders, {}); }
std::vector<DecisionRecord> MedianStoppingScheduler::take_decisions() { return std::exchange(state_->decisions, {}); }
bool MedianStoppingScheduler::pauses() const { return !state_->options.hard_stop; }

std::string MedianStoppingScheduler::describe() const {
  const MedianStoppingOptions& options = state_->options;
  return fmt::format("median stopping, grace {}, {}{}", options.grace_period,
                     counted(options.min_samples_required, "sample"), options.hard_stop ? "" : ", soft");
}

std::string MedianStoppingScheduler::snapshot() const {
  Config trials = Config::list({});
  for (const TrialId id : state_->order) {
    const MedianTrial& trial = state_->trials.at(id);
    Config means = Config::list({});
    for (const auto& [milestone, mean] : trial.means) means.push_back(Config::list({milestone, mean}));
    trials.push_back({{"id", to_string(id)},
                      {"last_step", trial.last_step},
                      {"best", trial.best},
                      {"sum", trial.sum},
                      {"count", trial.count},
                      {"nans", trial.nans},
                      {"next", trial.next},
                      {"decision", static_cast<int>(trial.decision)},
                      {"judged", trial.judged},
                      {"complete", trial.complete},
                      {"means", means}});
  }
  return Config{{"version", 1}, {"no_more", state_->no_more}, {"trials", trials}}.to_json();
}

Result<void> MedianStoppingScheduler::State::read(const Config& state) {
  const auto refuse = [](std::string_view what) { return snapshot_does_not_fit("median_stopping", what); };
  const auto milestone = [this](const Config& index) {
    const int64_t value = index.integer();
    return value >= 0 && value <= static_cast<int64_t>(milestones.size()) ? static_cast<size_t>(value)
                                                                          : milestones.size();
  };
  no_more = state.boolean("no_more");
  const Config all = state["trials"];
  for (const Config& entry : all.items()) {
    auto id = TrialId::parse(entry.text("id"));
    if (!id) return make_error(id.error());
    const int64_t decision = entry.integer("decision");
    if (decision < 0 || decision > static_cast<int64_t>(Decision::kPause)) return refuse("unknown decision");
    MedianTrial trial;
    trial.last_step = entry.integer("last_step");
    trial.best = entry.real("best");
    trial.sum = entry.real("sum");
    trial.count = entry.integer("count");
    trial.nans = entry.integer("nans");
    trial.next = milestone(entry["next"]);
    trial.decision = static_cast<Decision>(decision);
    trial.judged = entry.boolean("judged");
    trial.complete = entry.boolean("complete");
    const Config means = entry["means"];
    for (const Config& pair : means.items()) {
      const size_t at = milestone(pair[0]);
      if (at >= trial.next || (!trial.means.empty() && trial.means.back().first >= at))
        return refuse("means out of order");
      pass(trial, at, std::isnan(pair[1].real()) ? kWorst : pair[1].real());
    }
    if (trial.decision == Decision::kPause && !trial.complete) paused.insert(*id);
    if (!trials.emplace(*id, std::move(trial)).second) return refuse("a trial stands in it twice");
    order.push_back(*id);
  }
  return {};
}

Result<void> MedianStoppingScheduler::restore(std::string_view snapshot) {
  auto fresh = std::make_unique<State>(state_->options, state_->context);
  VOLADOR_TRY(read_snapshot("median_stopping", snapshot, [&fresh](const Config& state) { return fresh->read(state); }));
  state_ = std::move(fresh);
  return {};
}

void MedianStoppingScheduler::check_invariants() const {
  std::vector<size_t> counts(state_->rankings.size());
  VOLADOR_CHECK(state_->order.size() == state_->trials.size());
  for (const TrialId id : state_->order) {
    const MedianTrial& trial = state_->trials.at(id);
    for (const auto& [milestone, mean] : trial.means) {
      ++counts.at(milestone);
      VOLADOR_CHECK(!std::isnan(mean) && milestone < trial.next && state_->milestones[milestone] <= trial.last_step,
                    to_string(id));
    }
    VOLADOR_CHECK(state_->paused.contains(id) == (trial.decision == Decision::kPause && !trial.complete),
                  to_string(id));
  }
  for (size_t i = 0; i < counts.size(); ++i) VOLADOR_CHECK(counts[i] == state_->rankings[i].size(), std::to_string(i));
}

SchedulerFactory median_stopping(const MedianStoppingOptions& options) {
  return [options](const SchedulerContext& context) -> Result<std::unique_ptr<Scheduler>> {
    auto scheduler = MedianStoppingScheduler::create(options, context);
    if (!scheduler) return make_error(scheduler.error());
    return std::unique_ptr<Scheduler>(std::move(*scheduler));
  };
}

}  // namespace volador::tune
