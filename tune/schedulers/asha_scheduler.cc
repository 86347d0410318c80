#include "tune/schedulers/asha_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <utility>

#include "runtime/random.h"
#include "tune/loop/trial_index.h"
#include "tune/schedulers/asha_promotion_scheduler.h"
#include "tune/schedulers/ranking.h"
#include "tune/snapshot.h"
#include "tune/space/config.h"

namespace volador::tune {
namespace {

constexpr size_t kRungsMax = 1000;  // Reached by a factor close to 1 in a long run; further rungs would not decide
                                    // anything.

struct AshaRung {
  double milestone = 0;
  Ranking ranking;     // Best first; without NaN under kRay, which ignores it.
  int64_t trials = 0;  // Including NaN.
};

struct AshaTrial {
  TrialId id;
  size_t bracket = 0;
  int64_t last_step = 0;
  Decision decision = Decision::kContinue;
  bool complete = false;
  std::vector<std::pair<size_t, double>> recorded;  // Rung and reported value, in the order recorded.

  bool has(size_t rung) const {
    return std::any_of(recorded.begin(), recorded.end(), [rung](const auto& entry) { return entry.first == rung; });
  }
};

}  // namespace

std::vector<double> asha_rungs(double grace_period, int64_t max_t, double reduction_factor, int bracket) {
  std::vector<double> rungs;
  int k = 0;
  for (double milestone = grace_period; milestone <= static_cast<double>(max_t) && rungs.size() <= kRungsMax;
       milestone *= reduction_factor) {
    if (k++ >= bracket) rungs.push_back(milestone);
  }
  return rungs;
}

struct AshaScheduler::State {
  AshaOptions options;
  SchedulerContext context;
  std::vector<std::vector<AshaRung>> brackets;
  std::vector<double> chances;   // One per bracket, with sum 1.
  std::deque<AshaTrial> trials;  // In the order added.
  TrialIndex by_id;
  std::vector<DecisionRecord> decisions;  // Not taken yet.

  State(const AshaOptions& options_in, const SchedulerContext& context_in) : options(options_in), context(context_in) {
    for (int s = 0; s < options.brackets; ++s) {
      std::vector<AshaRung>& rungs = brackets.emplace_back();
      for (const double milestone :
           asha_rungs(static_cast<double>(options.grace_period), options.max_t, options.reduction_factor, s)) {
        rungs.emplace_back().milestone = milestone;
      }
    }
    // Ray Tune's softmax over the number of rungs: most trials go to the bracket with the strongest early stopping.
    double sum = 0;
    for (const std::vector<AshaRung>& rungs : brackets) {
      chances.push_back(std::exp(static_cast<double>(rungs.size()) - static_cast<double>(brackets.front().size())));
      sum += chances.back();
    }
    for (double& chance : chances) chance /= sum;
  }

  AshaTrial* find(TrialId id) {
    const size_t at = by_id.find(id);
    return at == TrialIndex::kNone ? nullptr : &trials[at];
  }
  Result<void> read(const Config& state);  // Throws if a value is absent or of another kind.

  // A function of the trial's number and the seed: trial ids differ between runs with one seed, but brackets must not.
  size_t bracket_of(size_t number) const {
    const TrialId trial = TrialId::of(context.seed, static_cast<int64_t>(number));
    double u = SeededRandom(context.seed ^ (uint64_t{trial.value()} << 32 | trial.value())).real();
    for (size_t s = 0; s < chances.size(); ++s) {
      if (u < chances[s]) return s;
      u -= chances[s];
    }
    return 0;
  }

  // Smaller is better; NaN is the worst.
  double key(double value) const {
    if (std::isnan(value)) return std::numeric_limits<double>::infinity();
    return context.mode == Mode::kMax ? -value : value;
  }
  double value_of(double key) const { return context.mode == Mode::kMax ? -key : key; }

  // Number of trials of a rung that continue.
  size_t passing(const AshaRung& rung) const {
    return static_cast<size_t>(
        std::max(std::floor(static_cast<double>(rung.ranking.size()) / options.reduction_factor), 1.0));
  }

  // Records the decision for a trial that was just added to the rung.
  void note(TrialId id, const AshaTrial& state, int64_t step, size_t index, double value, Decision decision,
            double cutoff) {
    const AshaRung& rung = brackets[state.bracket][index];
    const bool ranked = options.rule == AshaRule::kInclusive || !std::isnan(value);
    decisions.push_back({.trial = id,
                         .step = step,
                         .act = decision == Decision::kStop ? Act::kStopped : Act::kPassed,
                         .rule = "ASHA",
                         .bracket = static_cast<int64_t>(state.bracket),
                         .milestone = rung.milestone,
                         .value = value,
                         .rank = ranked ? static_cast<int64_t>(rung.ranking.rank(key(value))) + 1 : 0,
                         .of = static_cast<int64_t>(rung.ranking.size()),
                         .pass = options.rule == AshaRule::kInclusive ? static_cast<int64_t>(passing(rung)) : 0,
                         .cutoff = cutoff});
  }

  void record(AshaTrial& state, size_t index, double value) {
    AshaRung& rung = brackets[state.bracket][index];
    if (options.rule == AshaRule::kInclusive || !std::isnan(value)) rung.ranking.insert(key(value));
    ++rung.trials;
    state.recorded.emplace_back(index, value);
  }

  Decision decide_inclusive(TrialId id, AshaTrial& state, int64_t step, double value) {
    const std::vector<AshaRung>& rungs = brackets[state.bracket];
    const auto above = std::upper_bound(rungs.begin(), rungs.end(), static_cast<double>(step),
                                        [](double t, const AshaRung& rung) { return t < rung.milestone; });
    if (above == rungs.begin()) return Decision::kContinue;
    const auto index = static_cast<size_t>(above - rungs.begin()) - 1;
    if (!state.recorded.empty() && state.recorded.back().first >= index) return Decision::kContinue;
    record(state, index, value);
    const Ranking& ranking = rungs[index].ranking;
    const size_t pass = passing(rungs[index]);
    const bool passes = !std::isnan(value) && ranking.rank(key(value)) < pass;
    const Decision decision = passes ? Decision::kContinue : Decision::kStop;
    note(id, state, step, index, value, decision, value_of(ranking.at(pass - 1)));
    return decision;
  }

  // The (1 - 1/factor) quantile of the values (greater is better) with numpy's linear interpolation, in the same order
  // of operations.
  double ray_cutoff(const Ranking& ranking) const {
    const auto last = static_cast<double>(ranking.size() - 1);
    const double quantile = (1 - 1 / options.reduction_factor) * 100 / 100;
    const double position = last * quantile;
    const auto ascending = [&](double k) { return -ranking.at(static_cast<size_t>(last - k)); };
    const double low = std::floor(position);
    const double a = ascending(low);
    const double b = ascending(std::min(low + 1, last));
    const double t = position - low;
    return t >= 0.5 ? b - (b - a) * (1 - t) : a + (b - a) * t;
  }

  Decision decide_ray(TrialId id, AshaTrial& state, int64_t step, double value) {
    const std::vector<AshaRung>& rungs = brackets[state.bracket];
    for (size_t i = rungs.size(); i-- > 0;) {
      const bool reached = static_cast<double>(step) >= rungs[i].milestone;
      const bool recorded = state.has(i);
      if (reached && recorded && !options.stop_last_trials) return Decision::kContinue;
      if (!reached || recorded) continue;
      const Ranking& ranking = rungs[i].ranking;
      const double cutoff = ranking.size() > 0 ? ray_cutoff(ranking) : std::numeric_limits<double>::quiet_NaN();
      const Decision decision = !std::isnan(value) && -key(value) < cutoff ? Decision::kStop : Decision::kContinue;
      record(state, i, value);
      note(id, state, step, i, value, decision, value_of(-cutoff));
      return decision;
    }
    return Decision::kContinue;
  }
};

Result<void> AshaScheduler::State::read(const Config& state) {
  const auto refuse = [](std::string_view what) { return snapshot_does_not_fit("asha", what); };
  const Config all = state["trials"];
  for (const Config& entry : all.items()) {
    auto id = TrialId::parse(entry.text("id"));
    if (!id) return make_error(id.error());
    AshaTrial trial;
    trial.id = *id;
    trial.bracket = static_cast<size_t>(entry.integer("bracket"));
    trial.last_step = entry.integer("last_step");
    const int64_t decision = entry.integer("decision");
    if (decision < 0 || decision > static_cast<int64_t>(Decision::kFinish)) return refuse("unknown decision");
    trial.decision = static_cast<Decision>(decision);
    trial.complete = entry.boolean("complete");
    if (trial.bracket != bracket_of(trials.size())) return refuse("another seed or number of brackets");
    const Config recorded = entry["recorded"];
    for (const Config& pair : recorded.items()) {
      const auto rung = static_cast<size_t>(pair[0].integer());
      if (rung >= brackets[trial.bracket].size() || trial.has(rung)) return refuse("unknown or repeated rung");
      record(trial, rung, pair[1].real());
    }
    if (!by_id.insert(*id, trials.size())) return refuse("a trial stands in it twice");
    trials.push_back(std::move(trial));
  }
  return {};
}

AshaScheduler::AshaScheduler(const AshaOptions& options, const SchedulerContext& context)
    : state_(std::make_unique<State>(options, context)) {}
AshaScheduler::~AshaScheduler() = default;

Result<std::unique_ptr<AshaScheduler>> AshaScheduler::create(const AshaOptions& options,
                                                             const SchedulerContext& context) {
  const auto refuse = [](std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); };
  if (options.grace_period < 1)
    return refuse(fmt::format("asha.grace_period: expected at least 1 step, got {}", options.grace_period));
  if (options.max_t < options.grace_period) {
    return refuse(
        fmt::format("asha.max_t: expected at least grace_period ({}), got {}", options.grace_period, options.max_t));
  }
  if (options.max_t > int64_t{1} << 53)
    return refuse(fmt::format("asha.max_t: expected at most 2^53, got {}", options.max_t));
  if (!(options.reduction_factor > 1) || !std::isfinite(options.reduction_factor)) {
    return refuse(
        fmt::format("asha.reduction_factor: expected a number above 1, got {}", format_real(options.reduction_factor)));
  }
  if (options.brackets < 1 || options.brackets > static_cast<int>(kRungsMax)) {
    return refuse(fmt::format("asha.brackets: expected 1 to {}, got {}", kRungsMax, options.brackets));
  }
  if (asha_rungs(static_cast<double>(options.grace_period), options.max_t, options.reduction_factor, 0).size() >
      kRungsMax) {
    return refuse(fmt::format("asha.reduction_factor: {} makes more than {} rungs up to max_t {}; use a larger one",
                              format_real(options.reduction_factor), kRungsMax, options.max_t));
  }
  if (context.metric.empty())
    return refuse("asha: it compares trials by a metric: set .metric to the name of one that the trials report");
  return std::unique_ptr<AshaScheduler>(new AshaScheduler(options, context));
}

void AshaScheduler::on_trial_add(TrialId trial) {
  if (!state_->by_id.insert(trial, state_->trials.size())) return;
  AshaTrial& added = state_->trials.emplace_back();
  added.id = trial;
  added.bracket = state_->bracket_of(state_->trials.size() - 1);
}

Result<Decision> AshaScheduler::on_report(const Report& report) {
  AshaTrial* const found = state_->find(report.trial);
  if (found == nullptr) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("asha: trial {} reported before it was added", to_string(report.trial)));
  }
  if (report.step < 1) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("asha: trial {} reported step {}, expected at least 1",
                                                               to_string(report.trial), report.step));
  }
  AshaTrial& trial = *found;
  if (trial.complete || trial.decision != Decision::kContinue || report.step <= trial.last_step) return trial.decision;
  trial.last_step = report.step;
  const AshaOptions& options = state_->options;
  const bool last = report.step >= options.max_t && options.stop_last_trials;
  if (options.rule == AshaRule::kInclusive) {
    trial.decision = state_->decide_inclusive(report.trial, trial, report.step, result_or_nan(report.value));
  } else if (!last) {
    trial.decision = state_->decide_ray(report.trial, trial, report.step, report.value);
  }
  if (last) {
    trial.decision = Decision::kFinish;
    std::erase_if(state_->decisions,
                  [&](const DecisionRecord& one) { return one.trial == report.trial && one.step == report.step; });
    state_->decisions.push_back(
        {.trial = report.trial, .step = report.step, .act = Act::kFinished, .rule = "ASHA", .value = report.value});
  }
  return trial.decision;
}

void AshaScheduler::on_complete(TrialId trial) {
  if (AshaTrial* const found = state_->find(trial)) found->complete = true;
}

std::vector<DecisionRecord> AshaScheduler::take_decisions() { return std::exchange(state_->decisions, {}); }

std::optional<int64_t> AshaScheduler::steps_max() const {
  return state_->options.stop_last_trials ? std::optional(state_->options.max_t) : std::nullopt;
}

std::vector<RungState> AshaScheduler::rungs(size_t members_max) const {
  std::vector<RungState> out;
  std::vector<size_t> first;  // First rung of each bracket in `out`.
  for (size_t s = 0; s < state_->brackets.size(); ++s) {
    first.push_back(out.size());
    for (const AshaRung& rung : state_->brackets[s]) {
      RungState& state = out.emplace_back();
      state.bracket = static_cast<int64_t>(s);
      state.milestone = rung.milestone;
      state.trials = rung.trials;
      state.state = "open";
      if (rung.ranking.size() == 0) continue;
      const bool ray = state_->options.rule == AshaRule::kRay;
      state.cutoff =
          state_->value_of(ray ? -state_->ray_cutoff(rung.ranking) : rung.ranking.at(state_->passing(rung) - 1));
    }
  }
  for (const AshaTrial& trial : state_->trials) {
    for (size_t i = 0; i < trial.recorded.size(); ++i) {
      const bool left = trial.decision == Decision::kStop && i + 1 == trial.recorded.size();
      RungState& rung = out[first[trial.bracket] + trial.recorded[i].first];
      rung.passed += !left;
      rung.members.push_back({trial.id, trial.recorded[i].second, left ? Act::kStopped : Act::kPassed});
    }
  }
  for (RungState& rung : out) keep_best(rung.members, members_max, state_->context.mode);
  return out;
}

std::string AshaScheduler::describe() const {
  const AshaOptions& options = state_->options;
  std::string text = fmt::format("ASHA max_t {}, factor {}", options.max_t, format_real(options.reduction_factor));
  if (options.grace_period != 1) text += fmt::format(", grace {}", options.grace_period);
  if (options.brackets != 1) text += fmt::format(", {} brackets", options.brackets);
  if (options.rule == AshaRule::kRay) text += ", Ray's rule";
  return text;
}

std::string AshaScheduler::snapshot() const {
  Config trials = Config::list({});
  for (const AshaTrial& trial : state_->trials) {
    Config recorded = Config::list({});
    for (const auto& [rung, value] : trial.recorded) recorded.push_back(Config::list({rung, value}));
    trials.push_back({{"id", to_string(trial.id)},
                      {"bracket", trial.bracket},
                      {"last_step", trial.last_step},
                      {"decision", static_cast<int>(trial.decision)},
                      {"complete", trial.complete},
                      {"recorded", recorded}});
  }
  return Config{{"version", 1}, {"trials", trials}}.to_json();
}

Result<void> AshaScheduler::restore(std::string_view snapshot) {
  auto fresh = std::make_unique<State>(state_->options, state_->context);
  VOLADOR_TRY(read_snapshot("asha", snapshot, [&fresh](const Config& state) { return fresh->read(state); }));
  state_ = std::move(fresh);
  return {};
}

void AshaScheduler::check_invariants() const {
  std::vector<std::vector<int64_t>> counts;
  for (const auto& rungs : state_->brackets) counts.emplace_back(rungs.size());
  VOLADOR_CHECK(state_->by_id.size() == state_->trials.size());
  size_t number = 0;
  for (const AshaTrial& trial : state_->trials) {
    const TrialId id = trial.id;
    VOLADOR_CHECK(trial.bracket == state_->bracket_of(number++), to_string(id));
    for (size_t i = 0; i < trial.recorded.size(); ++i) {
      const auto& [rung, value] = trial.recorded[i];
      ++counts.at(trial.bracket).at(rung);
      VOLADOR_CHECK(state_->brackets[trial.bracket][rung].milestone <= static_cast<double>(trial.last_step),
                    to_string(id));
      if (state_->options.rule != AshaRule::kInclusive) continue;
      if (i > 0) VOLADOR_CHECK(trial.recorded[i - 1].first < rung, to_string(id));
      if (std::isnan(value))
        VOLADOR_CHECK(trial.decision != Decision::kContinue && i + 1 == trial.recorded.size(), to_string(id));
    }
  }
  for (size_t s = 0; s < counts.size(); ++s) {
    for (size_t r = 0; r < counts[s].size(); ++r) {
      const AshaRung& rung = state_->brackets[s][r];
      VOLADOR_CHECK(counts[s][r] == rung.trials,
                    fmt::format("bracket {} rung {}: {} trials, counted {}", s, r, rung.trials, counts[s][r]));
      VOLADOR_CHECK(static_cast<int64_t>(rung.ranking.size()) <= rung.trials);
      if (r > 0) VOLADOR_CHECK(state_->brackets[s][r - 1].milestone < rung.milestone);
    }
  }
}

std::vector<AshaScheduler::RungCount> AshaScheduler::rung_counts() const {
  std::vector<RungCount> out;
  for (size_t s = 0; s < state_->brackets.size(); ++s) {
    for (const AshaRung& rung : state_->brackets[s]) out.push_back({static_cast<int>(s), rung.milestone, rung.trials});
  }
  return out;
}

SchedulerFactory asha(const AshaOptions& options) {
  return [options](const SchedulerContext& context) -> Result<std::unique_ptr<Scheduler>> {
    if (options.variant == AshaVariant::kPromotion) {
      auto promotion = AshaPromotionScheduler::create(options, context);
      if (!promotion) return make_error(promotion.error());
      return std::unique_ptr<Scheduler>(std::move(*promotion));
    }
    auto scheduler = AshaScheduler::create(options, context);
    if (!scheduler) return make_error(scheduler.error());
    return std::unique_ptr<Scheduler>(std::move(*scheduler));
  };
}

}  // namespace volador::tune
