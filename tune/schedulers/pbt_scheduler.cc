#include "tune/schedulers/pbt_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "tune/display/progress_table.h"
#include "tune/schedulers/pb2_model.h"
#include "tune/snapshot.h"

namespace volador::tune {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct PbtTrial {
  Config config;
  int64_t last_step = 0;          // Last reported step.
  int64_t scored_step = 0;        // Step of its last interval; 0: none yet.
  double score = kNone;           // Score at that step.
  int64_t base_step = 0;          // Start of the current interval, …
  double base_score = kNone;      // … and the metric there: with bandit.
  int64_t last_perturbation = 0;  // Start of its perturbation interval.
  int64_t checkpoint_step = 0;
  Decision decision = Decision::kContinue;
  bool live = true;
  bool waits = false;  // synch: paused until all others are.
};

struct Quantiles {
  std::vector<TrialId> lower, upper;
  std::vector<TrialId> ranked;  // All trials, worst first.
  double cutoff = kNone;        // Best score of the lower quantile.
  static bool holds(const std::vector<TrialId>& ids, TrialId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  }
};

constexpr size_t kChangesMax = 100;

PbtExploreOptions explore_options(const PbtOptions& options) {
  return {.mutations = options.hyperparam_mutations,
          .resample_probability = options.resample_probability,
          .factors = options.perturbation_factors,
          .custom = options.custom_explore_fn,
          .rule = options.rule};
}

}  // namespace

struct PbtScheduler::State {
  PbtOptions options;
  SchedulerContext context;
  PbtExploreOptions exploring;
  std::unordered_map<TrialId, PbtTrial> trials;
  std::vector<TrialId> order;                   // In the order added.
  std::unordered_map<TrialId, Config> configs;  // Configurations of trials that are not added yet.
  int64_t draws = 0;                            // Number of draws so far: each has its own random stream.
  int64_t perturbations = 0;
  int64_t live = 0, waiting = 0;
  std::optional<Error> error;  // Error of a user function, kept until the next report can return it.
  std::vector<Order> orders;
  std::vector<DecisionRecord> decisions;         // Not taken yet.
  std::unique_ptr<SearchDimensions> dimensions;  // Only with bandit.
  std::vector<Pb2Change> changes;                // The newest ones, oldest first.

  State(const PbtOptions& options_in, const SchedulerContext& context_in)
      : options(options_in), context(context_in), exploring(explore_options(options_in)) {
    if (options.bandit) dimensions = std::make_unique<SearchDimensions>(options.hyperparam_mutations, 0);
  }

  // ---- PB2.

  std::optional<Point> point_of(const Config& config) const {
    Config values = Config::map();
    for (const auto& [path, domain] : options.hyperparam_mutations.variables()) {
      const Config* value = config.find(path);
      if (value == nullptr) return std::nullopt;
      values.set(path, *value);
    }
    return dimensions->point_of(values);
  }
  double gained(double score) const { return context.mode == Mode::kMax ? score : -score; }
  double intervals(int64_t steps) const {
    return static_cast<double>(steps) / static_cast<double>(options.perturbation_interval);
  }

  void learn(PbtTrial& trial) {
    const bool numbers =
        std::isfinite(trial.score) && std::isfinite(trial.base_score) && trial.scored_step > trial.base_step;
    if (auto point = point_of(trial.config); point && numbers && trial.base_step > 0) {
      const double gain =
          (gained(trial.score) - gained(trial.base_score)) / intervals(trial.scored_step - trial.base_step);
      if (std::isfinite(gain))
        changes.push_back({intervals(trial.scored_step), gained(trial.base_score), std::move(*point), gain});
      if (changes.size() > kChangesMax) changes.erase(changes.begin());
    }
    trial.base_step = trial.scored_step;
    trial.base_score = trial.score;
  }

  Result<Config> explore_by_bandit(TrialId id, const PbtTrial& from) {
    std::vector<Point> running;
    for (const TrialId other : order) {
      const PbtTrial& trial = trials.at(other);
      if (other == id || !trial.live) continue;
      if (auto point = point_of(trial.config)) running.push_back(std::move(*point));
    }
    SeededRandom random(context.seed ^ (static_cast<uint64_t>(++draws) * 0x9e3779b97f4a7c15ULL));
    const double before = std::isfinite(from.score) ? gained(from.score) : 0;
    Point point = pb2_suggest(changes, running, intervals(std::max<int64_t>(from.scored_step, 1)), before,
                              dimensions->size(), random);
    auto values = dimensions->config({.seed = context.seed, .index = draws}, dimensions->settled(std::move(point)));
    if (!values) return values;
    Config config = from.config;
    for (const auto& [path, domain] : options.hyperparam_mutations.variables()) config.set(path, *values->find(path));
    if (!options.custom_explore_fn) return config;
    try {
      return options.custom_explore_fn(config);
    } catch (const std::exception& error_in) {
      return make_error(ErrorCode::kApplication, fmt::format("pb2: custom_explore_fn threw: {}", error_in.what()));
    }
  }

  // ---- PBT.

  bool ray() const { return options.rule == PbtRule::kRay; }

  // Live trials that had an interval, worst first; ties in the order added.
  Quantiles quantiles() const {
    std::vector<TrialId> ranked;
    for (const TrialId id : order) {
      const PbtTrial& trial = trials.at(id);
      if (trial.live && trial.scored_step > 0 && (!ray() || std::isfinite(trial.score))) ranked.push_back(id);
    }
    if (ranked.size() < 2) return {};
    std::stable_sort(ranked.begin(), ranked.end(), [&](TrialId a, TrialId b) {
      return better(trials.at(b).score, trials.at(a).score, context.mode);
    });
    const double wanted = std::ceil(static_cast<double>(ranked.size()) * options.quantile_fraction);
    const auto count = static_cast<std::ptrdiff_t>(std::min(static_cast<size_t>(wanted), ranked.size() / 2));
    Quantiles found{{ranked.begin(), ranked.begin() + count}, {ranked.end() - count, ranked.end()}, {}, kNone};
    if (count > 0) found.cutoff = trials.at(found.lower.back()).score;
    std::erase_if(found.upper, [this](TrialId id) { return !is_result(trials.at(id).score); });
    found.ranked = std::move(ranked);
    return found;
  }

  DecisionRecord& note(TrialId id, Act act, const Quantiles& found) {
    const PbtTrial& trial = trials.at(id);
    DecisionRecord& record = decisions.emplace_back(DecisionRecord{
        .trial = id, .step = trial.last_step, .act = act, .rule = "PBT", .value = trial.score, .cutoff = found.cutoff});
    record.of = static_cast<int64_t>(found.ranked.size());
    const auto place = std::find(found.ranked.rbegin(), found.ranked.rend(), id);
    if (place != found.ranked.rend()) record.rank = place - found.ranked.rbegin() + 1;
    return record;
  }

  bool has_checkpoint(TrialId id) const {
    const PbtTrial& trial = trials.at(id);
    return trial.checkpoint_step > 0 && trial.checkpoint_step >= trial.scored_step;
  }

  // No value: there is none to copy.
  std::optional<TrialId> pick(std::vector<TrialId> upper) {
    if (!ray()) std::erase_if(upper, [this](TrialId id) { return !has_checkpoint(id); });
    if (upper.empty()) return std::nullopt;
    SeededRandom random(context.seed + static_cast<uint64_t>(++draws));
    const TrialId picked = upper[random.below(upper.size())];
    return has_checkpoint(picked) ? std::optional<TrialId>(picked) : std::nullopt;
  }

  Result<bool> exploit(TrialId id, const Quantiles& found) {
    if (!Quantiles::holds(found.lower, id)) return false;
    const auto from = pick(found.upper);
    if (!from) return false;
    auto config = options.bandit ? explore_by_bandit(id, trials.at(*from))
                                 : explore(exploring, trials.at(*from).config, context.seed, ++draws);
    if (!config) return make_error(config.error());
    note(id, Act::kCloned, found).other = *from;
    orders.push_back(CloneOrder{id, *from, std::move(*config), static_cast<double>(trials.at(*from).checkpoint_step)});
    return true;
  }

  Result<void> report(TrialId id, PbtTrial& trial, const Report& told) {
    trial.last_step = told.step;
    trial.decision = Decision::kContinue;
    if (told.step < options.burn_in_period || told.step - trial.last_perturbation < options.perturbation_interval)
      return {};
    trial.scored_step = told.step;
    trial.score = told.value;
    trial.last_perturbation = told.step;
    if (options.bandit) learn(trial);
    if (options.synch) {
      trial.decision = Decision::kPause;
      trial.waits = true;
      ++waiting;
      note(id, Act::kPaused, {}).detail =
          reason("decision.waits_others", told.step, format_value(told.value), waiting, live);
      return {};
    }
    const Quantiles found = quantiles();
    auto copies = exploit(id, found);
    if (!copies) return make_error(copies.error());
    if (*copies) {
      trial.decision = Decision::kClone;
    } else if (told.others_wait) {
      trial.decision = Decision::kPause;
      note(id, Act::kPaused, found).detail = reason("decision.others_wait", told.step);
      orders.push_back(ResumeOrder{id, static_cast<double>(told.step), true});
    } else {
      if (Quantiles::holds(found.upper, id)) trial.decision = Decision::kCheckpoint;
      note(id, Act::kPassed, found);
    }
    return {};
  }

  // synch: once all trials have arrived with their checkpoints.
  void meet() {
    if (!options.synch || waiting == 0 || waiting < live) return;
    for (const TrialId id : order) {
      if (trials.at(id).waits && !has_checkpoint(id)) return;
    }
    const Quantiles found = quantiles();
    for (const TrialId id : order) {
      PbtTrial& trial = trials.at(id);
      if (!trial.waits) continue;
      trial.waits = false;
      trial.decision = Decision::kContinue;
      auto copies = exploit(id, found);
      if (!copies && !error) error = copies.error();
      if (copies && *copies) continue;
      note(id, Act::kResumed, found).cutoff = kNone;
      orders.push_back(ResumeOrder{id, static_cast<double>(trial.last_step)});
    }
    waiting = 0;
  }

  Result<void> read(const Config& state);
};

PbtScheduler::PbtScheduler(const PbtOptions& options, const SchedulerContext& context)
    : state_(std::make_unique<State>(options, context)) {}
PbtScheduler::~PbtScheduler() = default;

Result<std::unique_ptr<PbtScheduler>> PbtScheduler::create(const PbtOptions& options, const SchedulerContext& context) {
  const auto refuse = [](std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); };
  constexpr int64_t kMost = int64_t{1} << 53;
  if (options.perturbation_interval < 1 || options.perturbation_interval > kMost)
    return refuse(
        fmt::format("pbt.perturbation_interval: expected 1 to 2^53 steps, got {}", options.perturbation_interval));
  if (options.burn_in_period < 0 || options.burn_in_period > kMost)
    return refuse(fmt::format("pbt.burn_in_period: expected 0 to 2^53 steps, got {}", options.burn_in_period));
  if (!(options.quantile_fraction >= 0 && options.quantile_fraction <= 0.5))
    return refuse(
        fmt::format("pbt.quantile_fraction: expected 0 to 0.5, got {}", format_real(options.quantile_fraction)));
  VOLADOR_TRY(validate(explore_options(options)));
  if (context.metric.empty())
    return refuse("pbt: it compares trials by a metric: set .metric to the name of one that the trials report");
  return std::unique_ptr<PbtScheduler>(new PbtScheduler(options, context));
}

void PbtScheduler::on_trial_config(TrialId trial, Config& config) {
  if (state_->trials.contains(trial)) return;
  auto whole = complete(state_->exploring, config, state_->context.seed, ++state_->draws);
  if (whole) {
    config = std::move(*whole);
  } else if (!state_->error) {
    state_->error = whole.error();
  }
  state_->configs[trial] = config;
}

void PbtScheduler::on_trial_add(TrialId trial) {
  const auto [added, fresh] = state_->trials.try_emplace(trial);
  if (!fresh) return;
  if (const auto config = state_->configs.find(trial); config != state_->configs.end()) {
    added->second.config = std::move(config->second);
    state_->configs.erase(config);
  } else {
    added->second.config = Config::map();
  }
  state_->order.push_back(trial);
  ++state_->live;
}

Result<Decision> PbtScheduler::on_report(const Report& report) {
  const auto found = state_->trials.find(report.trial);
  if (found == state_->trials.end()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("pbt: trial {} reported before it was added", to_string(report.trial)));
  }
  if (report.step < 1) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("pbt: trial {} reported step {}, expected at least 1",
                                                               to_string(report.trial), report.step));
  }
  if (state_->error) return make_error(*state_->error);
  PbtTrial& trial = found->second;
  if (trial.live && !trial.waits && report.step > trial.last_step)
    VOLADOR_TRY(state_->report(report.trial, trial, report));
  return trial.decision;
}

void PbtScheduler::on_complete(TrialId trial) {
  const auto found = state_->trials.find(trial);
  if (found == state_->trials.end() || !found->second.live) return;
  found->second.live = false;
  --state_->live;
  std::erase_if(state_->orders, [&](const Order& order) {
    return std::visit([&](const auto& one) { return one.trial == trial; }, order);
  });
  state_->waiting -= found->second.waits;
  found->second.waits = false;
  state_->meet();
}

void PbtScheduler::on_checkpoint(TrialId trial, int64_t step) {
  const auto found = state_->trials.find(trial);
  if (found == state_->trials.end() || step <= found->second.checkpoint_step) return;
  found->second.checkpoint_step = step;
  state_->meet();
}

void PbtScheduler::on_cloned(const CloneOrder& order, int64_t step) {
  const auto found = state_->trials.find(order.trial);
  const auto from = state_->trials.find(order.from);
  if (found == state_->trials.end() || from == state_->trials.end() || !found->second.live) return;
  PbtTrial& trial = found->second;
  trial.config = order.config;
  trial.last_step = trial.scored_step = trial.checkpoint_step = step;
  trial.last_perturbation = from->second.last_perturbation;
  trial.base_step = step;
  trial.base_score = from->second.score;
  ++state_->perturbations;
}

std::vector<Order> PbtScheduler::take_orders() { return std::exchange(state_->orders, {}); }

std::vector<DecisionRecord> PbtScheduler::take_decisions() { return std::exchange(state_->decisions, {}); }

std::string PbtScheduler::describe() const {
  const PbtOptions& options = state_->options;
  return fmt::format("{} interval {}, quantile {}{}{}", options.bandit ? "PB2" : "PBT", options.perturbation_interval,
                     format_real(options.quantile_fraction), options.synch ? ", synchronous" : "",
                     state_->ray() ? ", Ray's rule" : "");
}

int64_t PbtScheduler::perturbations() const { return state_->perturbations; }

std::vector<double> PbtScheduler::scores() const {
  std::vector<double> scores;
  for (const TrialId id : state_->order) scores.push_back(state_->trials.at(id).score);
  return scores;
}

std::string PbtScheduler::snapshot() const {
  Config trials = Config::list({});
  for (const TrialId id : state_->order) {
    const PbtTrial& trial = state_->trials.at(id);
    trials.push_back({{"id", to_string(id)},
                      {"config", trial.config},
                      {"last_step", trial.last_step},
                      {"scored_step", trial.scored_step},
                      {"score", trial.score},
                      {"last_perturbation", trial.last_perturbation},
                      {"checkpoint_step", trial.checkpoint_step},
                      {"decision", static_cast<int>(trial.decision)},
                      {"live", trial.live},
                      {"waits", trial.waits}});
  }
  Config whole{{"version", 1}, {"draws", state_->draws}, {"perturbations", state_->perturbations}, {"trials", trials}};
  if (!state_->options.bandit) return whole.to_json();
  Config bases = Config::list({}), changes = Config::list({});
  for (const TrialId id : state_->order)
    bases.push_back(Config::list({state_->trials.at(id).base_step, state_->trials.at(id).base_score}));
  for (const Pb2Change& one : state_->changes)
    changes.push_back(Config::list({one.time, one.before, one.gain, SearchDimensions::to_text(one.point)}));
  whole.set("bases", std::move(bases));
  whole.set("changes", std::move(changes));
  return whole.to_json();
}

Result<void> PbtScheduler::State::read(const Config& state) {
  const auto refuse = [](std::string_view what) { return snapshot_does_not_fit("pbt", what); };
  draws = state.integer("draws");
  perturbations = state.integer("perturbations");
  const Config all = state["trials"];
  for (const Config& entry : all.items()) {
    auto id = TrialId::parse(entry.text("id"));
    if (!id) return make_error(id.error());
    const int64_t decision = entry.integer("decision");
    if (decision < 0 || decision > static_cast<int64_t>(Decision::kClone)) return refuse("unknown decision");
    PbtTrial trial;
    trial.config = entry["config"];
    trial.last_step = entry.integer("last_step");
    trial.scored_step = entry.integer("scored_step");
    trial.score = entry.real("score");
    trial.last_perturbation = entry.integer("last_perturbation");
    trial.checkpoint_step = entry.integer("checkpoint_step");
    trial.decision = static_cast<Decision>(decision);
    trial.live = entry.boolean("live");
    trial.waits = entry.boolean("waits");
    if (trial.waits && (!trial.live || !options.synch)) return refuse("a trial waits that does not take part");
    live += trial.live;
    waiting += trial.waits;
    if (!trials.emplace(*id, std::move(trial)).second) return refuse("a trial stands in it twice");
    order.push_back(*id);
  }
  if (!options.bandit) return {};
  const Config bases = state["bases"], all_changes = state["changes"];
  if (bases.size() != order.size() || all_changes.size() > kChangesMax) return refuse("another number of trials");
  for (size_t i = 0; i < order.size(); ++i) {
    trials.at(order[i]).base_step = bases[i][0].integer();
    trials.at(order[i]).base_score = bases[i][1].real();
  }
  for (const Config& entry : all_changes.items()) {
    auto point = dimensions->from_text(entry[3].text());
    if (!point) return refuse("other bounds");
    Pb2Change one{entry[0].real(), entry[1].real(), std::move(*point), entry[2].real()};
    if (!std::isfinite(one.time) || !std::isfinite(one.before) || !std::isfinite(one.gain))
      return refuse("a change that is no number");
    changes.push_back(std::move(one));
  }
  return {};
}

Result<void> PbtScheduler::restore(std::string_view snapshot) {
  auto fresh = std::make_unique<State>(state_->options, state_->context);
  VOLADOR_TRY(read_snapshot("pbt", snapshot, [&fresh](const Config& state) { return fresh->read(state); }));
  state_ = std::move(fresh);
  return {};
}

void PbtScheduler::check_invariants() const {
  int64_t live = 0, waiting = 0;
  VOLADOR_CHECK(state_->order.size() == state_->trials.size());
  for (const TrialId id : state_->order) {
    const PbtTrial& trial = state_->trials.at(id);
    live += trial.live;
    waiting += trial.waits;
    VOLADOR_CHECK(!trial.waits || (trial.live && trial.decision == Decision::kPause), to_string(id));
  }
  VOLADOR_CHECK(live == state_->live && waiting == state_->waiting);
}

SchedulerFactory pbt(const PbtOptions& options) {
  return [options](const SchedulerContext& context) -> Result<std::unique_ptr<Scheduler>> {
    auto scheduler = PbtScheduler::create(options, context);
    if (!scheduler) return make_error(scheduler.error());
    return std::unique_ptr<Scheduler>(std::move(*scheduler));
  };
}

SchedulerFactory pb2(const Pb2Options& options) {
  return [options](const SchedulerContext& context) -> Result<std::unique_ptr<Scheduler>> {
    const auto refuse = [](std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); };
    if (options.hyperparam_bounds.entries().empty())
      return refuse("pb2.hyperparam_bounds: expected domains of numbers, as {{\"lr\", tune::loguniform(1e-4, 1e-1)}}");
    for (const auto& [path, domain] : options.hyperparam_bounds.variables()) {
      const bool number = std::holds_alternative<RealDomain>(*domain) || std::holds_alternative<IntegerDomain>(*domain);
      if (!number)
        return refuse(fmt::format(
            "pb2.hyperparam_bounds.{}: expected numbers between two bounds, got {}: take tune::pbt for others", path,
            to_string(*domain)));
    }
    PbtOptions made{.perturbation_interval = options.perturbation_interval,
                    .burn_in_period = options.burn_in_period,
                    .hyperparam_mutations = options.hyperparam_bounds,
                    .quantile_fraction = options.quantile_fraction,
                    .custom_explore_fn = options.custom_explore_fn,
                    .synch = options.synch,
                    .bandit = true};
    return pbt(made)(context);
  };
}

}  // namespace volador::tune
