#include "tune/schedulers/hyperband_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "runtime/quantities.h"
#include "tune/display/progress_table.h"
#include "tune/loop/trial.h"
#include "tune/snapshot.h"
#include "tune/space/config.h"

namespace volador::tune {
namespace {

struct HyperbandTrial {
  size_t bracket = 0;
  int64_t last_step = 0;
  double value = 0;
  Decision decision = Decision::kContinue;
  bool live = true;  // Takes part in its bracket: neither stopped nor ended.
};

struct Bracket {
  int s = 0;
  std::vector<HyperBandRung> ladder;
  size_t rung = 0;
  bool closed = false;           // No further trial joins.
  std::vector<TrialId> members;  // In the order they joined; trials that left are removed at each halving.
  int64_t live = 0;
  int64_t behind = 0;                         // Live trials that have not reached the rung.
  std::vector<std::vector<RungMember>> past;  // Members of the rungs halved since the start or the last restore, for
                                              // tables.

  int64_t milestone() const { return ladder[rung].steps; }
  bool last() const { return rung + 1 == ladder.size(); }
};

// In floating point log(243) / log(3) is below 5 and 81 / pow(3, 4) may be below 1.
constexpr double kRoundingSlack = 1e-9;

int64_t floor_quotient(int64_t value, double divisor) {
  return static_cast<int64_t>(std::floor(static_cast<double>(value) / divisor + kRoundingSlack));
}

// Ladder of a bracket that starts with `trials`; for each number of steps the first rung counts.
std::vector<HyperBandRung> paper_ladder(int64_t max_t, double eta, int s, int64_t trials) {
  std::vector<HyperBandRung> ladder;
  for (int i = 0; i <= s; ++i) {
    const int64_t steps = i == s ? max_t : floor_quotient(max_t, std::pow(eta, s - i));
    if (steps < 1) return {};
    if (!ladder.empty() && ladder.back().steps == steps) continue;
    ladder.push_back({std::max<int64_t>(floor_quotient(trials, std::pow(eta, i)), 1), steps});
  }
  return ladder;
}

std::vector<HyperBandRung> ray_ladder(int64_t max_t, double eta, int s, int64_t trials) {
  int64_t steps = floor_quotient(max_t, std::pow(eta, s));
  std::vector<HyperBandRung> ladder;
  if (steps < 1) return ladder;
  ladder.push_back({trials, steps});
  for (int i = 0; i < s; ++i) {
    trials = static_cast<int64_t>(std::ceil(static_cast<double>(trials) / eta));
    steps = std::min(static_cast<int64_t>(static_cast<double>(steps) * eta), max_t);
    if (steps > ladder.back().steps) ladder.push_back({trials, steps});
  }
  return ladder;
}

}  // namespace

int hyperband_brackets(int64_t max_t, double eta, HyperBandRule rule) {
  const double exact = std::log(static_cast<double>(max_t)) / std::log(eta);
  const double halvings = rule == HyperBandRule::kRay ? std::round(exact) : std::floor(exact + kRoundingSlack);
  return static_cast<int>(std::min(halvings, 1e6)) + 1;
}

std::vector<HyperBandRung> hyperband_ladder(int64_t max_t, double eta, int s, HyperBandRule rule) {
  const double count = hyperband_brackets(max_t, eta, rule);
  const auto trials = static_cast<int64_t>(std::ceil(count / (s + 1) * std::pow(eta, s) - kRoundingSlack));
  return rule == HyperBandRule::kRay ? ray_ladder(max_t, eta, s, trials) : paper_ladder(max_t, eta, s, trials);
}

struct HyperBandScheduler::State {
  HyperBandOptions options;
  SchedulerContext context;
  std::vector<std::vector<HyperBandRung>> ladders;  // In the order in which brackets are opened; without those that
                                                    // max_t is too short for.
  std::vector<int> halvings;                        // The s of each ladder.
  std::vector<Bracket> brackets;                    // The last one is being filled.
  std::unordered_map<TrialId, HyperbandTrial> trials;
  std::vector<TrialId> order;  // In the order added.
  std::vector<Order> orders;
  std::vector<DecisionRecord> decisions;  // Not taken yet.

  State(const HyperBandOptions& options_in, const SchedulerContext& context_in)
      : options(options_in), context(context_in) {
    for (int s = 0; s < hyperband_brackets(options.max_t, options.eta, options.rule); ++s) {
      if (options.only_bracket >= 0 && s != options.only_bracket) continue;
      auto ladder = hyperband_ladder(options.max_t, options.eta, s, options.rule);
      if (ladder.empty()) continue;
      ladders.push_back(std::move(ladder));
      halvings.push_back(s);
    }
    if (!options.largest_first) return;
    std::reverse(ladders.begin(), ladders.end());
    std::reverse(halvings.begin(), halvings.end());
  }

  bool ray() const { return options.rule == HyperBandRule::kRay; }

  DecisionRecord& note(TrialId id, Act act, double milestone) {
    const HyperbandTrial& trial = trials.at(id);
    return decisions.emplace_back(DecisionRecord{.trial = id,
                                                 .step = trial.last_step,
                                                 .act = act,
                                                 .rule = "HyperBand",
                                                 .bracket = static_cast<int64_t>(trial.bracket),
                                                 .milestone = milestone,
                                                 .value = trial.value});
  }

  Bracket& open_bracket() {
    const bool full = brackets.empty() || brackets.back().closed ||
                      (ray() && brackets.back().live == brackets.back().ladder.front().trials);
    if (!full) return brackets.back();
    const size_t s = brackets.size() % ladders.size();
    Bracket& bracket = brackets.emplace_back();
    bracket.s = halvings[s];
    bracket.ladder = ladders[s];
    return bracket;
  }

  void add(TrialId id) {
    HyperbandTrial& trial = trials[id];
    order.push_back(id);
    Bracket& bracket = open_bracket();
    trial.bracket = brackets.size() - 1;
    bracket.members.push_back(id);
    ++bracket.live;
    ++bracket.behind;
    if (!ray() && static_cast<int64_t>(bracket.members.size()) == bracket.ladder.front().trials) bracket.closed = true;
  }

  void leave(HyperbandTrial& trial) {
    if (!trial.live) return;
    trial.live = false;
    Bracket& bracket = brackets[trial.bracket];
    --bracket.live;
    if (trial.last_step < bracket.milestone()) --bracket.behind;
  }

  void report(TrialId id, HyperbandTrial& trial, int64_t step, double value) {
    Bracket& bracket = brackets[trial.bracket];
    const bool arrives = trial.last_step < bracket.milestone() && step >= bracket.milestone();
    trial.last_step = step;
    trial.value = value;
    if (arrives) --bracket.behind;
    if (step < bracket.milestone() || (bracket.last() && !options.stop_last_trials)) return;
    const auto milestone = static_cast<double>(bracket.milestone());
    if (!ray() && bracket.last()) {
      trial.decision = Decision::kFinish;
      note(id, Act::kFinished, milestone);
      leave(trial);
    } else {
      trial.decision = Decision::kPause;
    }
    const int64_t behind = bracket.behind;
    const size_t index = trial.bracket;
    advance(index);
    if (trial.decision != Decision::kPause || !trial.live || decided(id)) return;
    DecisionRecord& record = note(id, Act::kPaused, milestone);
    record.detail = behind > 0 ? reason("decision.waits_in", record.step, format_value(value), behind, index)
                               : reason("decision.waits_full", record.step, format_value(value), index);
  }

  // Whether the current call has decided the trial.
  bool decided(TrialId id) const {
    return std::any_of(decisions.begin(), decisions.end(), [id](const DecisionRecord& one) { return one.trial == id; });
  }

  // Halves as long as all trials have arrived: those that jumped ahead may have reached the next rung as well.
  void advance(size_t index) {
    Bracket& bracket = brackets[index];
    while (bracket.live > 0 && bracket.behind == 0 && (ray() || bracket.closed)) {
      if (bracket.last()) {
        if (options.stop_last_trials) end(bracket, members(bracket), Decision::kFinish);
        return;
      }
      halve(bracket);
    }
  }

  std::vector<TrialId> members(const Bracket& bracket) const {
    std::vector<TrialId> out;
    std::copy_if(bracket.members.begin(), bracket.members.end(), std::back_inserter(out),
                 [this](TrialId id) { return trials.at(id).live; });
    return out;
  }

  void halve(Bracket& bracket) {
    std::vector<TrialId> all = members(bracket);
    ++bracket.rung;
    const auto keep = std::min(static_cast<size_t>(bracket.ladder[bracket.rung].trials), all.size());
    // Ray sorts the worst first and keeps the end: among equal trials the later ones.
    if (ray()) std::reverse(all.begin(), all.end());
    std::stable_sort(all.begin(), all.end(), [this](TrialId a, TrialId b) {
      return better(trials.at(a).value, trials.at(b).value, context.mode);
    });
    note_halving(bracket, all, keep);
    end(bracket, {all.begin() + static_cast<std::ptrdiff_t>(keep), all.end()}, Decision::kStop);
    all.resize(keep);
    bracket.members = all;
    bracket.behind = 0;
    for (const TrialId id : all) {
      HyperbandTrial& trial = trials.at(id);
      const bool free_run = bracket.last() && !options.stop_last_trials;
      const bool behind = trial.last_step < bracket.milestone();
      bracket.behind += behind;
      if (!behind && !free_run) continue;  // It is already that far and waits there.
      trial.decision = Decision::kContinue;
      orders.push_back(ResumeOrder{id});
    }
  }

  // `all`: best first; the first `keep` continue.
  void note_halving(Bracket& bracket, const std::vector<TrialId>& all, size_t keep) {
    const auto milestone = static_cast<double>(bracket.ladder[bracket.rung - 1].steps);
    bracket.past.resize(bracket.rung);
    for (size_t i = 0; i < all.size(); ++i) {
      DecisionRecord& record = note(all[i], i < keep ? Act::kPassed : Act::kStopped, milestone);
      record.rank = static_cast<int64_t>(i) + 1;
      record.of = static_cast<int64_t>(all.size());
      record.pass = static_cast<int64_t>(keep);
      record.cutoff = trials.at(all[keep - 1]).value;
      bracket.past.back().push_back({all[i], record.value, record.act});
    }
  }

  void end(Bracket& bracket, const std::vector<TrialId>& ending, Decision decision) {
    for (const TrialId id : ending) {
      HyperbandTrial& trial = trials.at(id);
      if (decision == Decision::kFinish) note(id, Act::kFinished, static_cast<double>(bracket.milestone()));
      trial.decision = decision;
      trial.live = false;
      --bracket.live;
      orders.push_back(EndOrder{id, decision});
    }
  }

  // Starts a bracket with the trials that have joined; its rungs shrink accordingly.
  void close(size_t index) {
    Bracket& bracket = brackets[index];
    if (bracket.closed) return;
    bracket.closed = true;
    bracket.ladder = paper_ladder(options.max_t, options.eta, bracket.s, static_cast<int64_t>(bracket.members.size()));
    advance(index);
  }

  Result<void> read(const Config& state);
};

HyperBandScheduler::HyperBandScheduler(const HyperBandOptions& options, const SchedulerContext& context)
    : state_(std::make_unique<State>(options, context)) {}
HyperBandScheduler::~HyperBandScheduler() = default;

Result<std::unique_ptr<HyperBandScheduler>> HyperBandScheduler::create(const HyperBandOptions& options,
                                                                       const SchedulerContext& context) {
  const auto refuse = [](std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); };
  if (options.max_t < 1 || options.max_t > int64_t{1} << 53)
    return refuse(fmt::format("hyperband.max_t: expected 1 to 2^53 steps, got {}", options.max_t));
  if (!(options.eta > 1) || !std::isfinite(options.eta))
    return refuse(fmt::format("hyperband.eta: expected a number above 1, got {}", format_real(options.eta)));
  const int brackets = hyperband_brackets(options.max_t, options.eta, options.rule);
  const double largest = std::pow(options.eta, brackets - 1);
  if (brackets > 1000 || largest > static_cast<double>(kTrialsMax)) {
    return refuse(
        fmt::format("hyperband.eta: {} with max_t {} makes brackets of more than 2^32 trials, or more than 1000 of "
                    "them; use a larger eta or a "
                    "smaller max_t",
                    format_real(options.eta), options.max_t));
  }
  const int s = options.only_bracket;
  if (s < -1 || s >= brackets || (s >= 0 && hyperband_ladder(options.max_t, options.eta, s, options.rule).empty())) {
    return refuse(fmt::format("hyperband.only_bracket: expected 0 to {}, or -1 for all, got {}", brackets - 1, s));
  }
  if (context.metric.empty())
    return refuse("hyperband: it compares trials by a metric: set .metric to the name of one that the trials report");
  return std::unique_ptr<HyperBandScheduler>(new HyperBandScheduler(options, context));
}

void HyperBandScheduler::on_trial_add(TrialId trial) {
  if (!state_->trials.contains(trial)) state_->add(trial);
}

Result<Decision> HyperBandScheduler::on_report(const Report& report) {
  const auto found = state_->trials.find(report.trial);
  if (found == state_->trials.end()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("hyperband: trial {} reported before it was added", to_string(report.trial)));
  }
  if (report.step < 1) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("hyperband: trial {} reported step {}, expected at least 1", to_string(report.trial), report.step));
  }
  HyperbandTrial& trial = found->second;
  if (trial.live && trial.decision == Decision::kContinue && report.step > trial.last_step) {
    state_->report(report.trial, trial, report.step, result_or_nan(report.value));
    // The decision already covers the reporting trial, which needs no order.
    std::erase_if(state_->orders, [&](const Order& order) {
      return std::visit([&](const auto& one) { return one.trial == report.trial; }, order);
    });
  }
  return trial.decision;
}

void HyperBandScheduler::on_complete(TrialId trial) {
  const auto found = state_->trials.find(trial);
  if (found == state_->trials.end() || !found->second.live) return;
  state_->leave(found->second);
  state_->advance(found->second.bracket);
}

void HyperBandScheduler::on_no_more_trials() {
  if (state_->ray()) return;  // Trials do not wait for each other in this mode.
  for (size_t i = state_->brackets.size(); i-- > 0 && !state_->brackets[i].closed;) state_->close(i);
}

std::vector<Order> HyperBandScheduler::take_orders() { return std::exchange(state_->orders, {}); }

std::vector<DecisionRecord> HyperBandScheduler::take_decisions() { return std::exchange(state_->decisions, {}); }

std::optional<int64_t> HyperBandScheduler::steps_max() const { return state_->options.max_t; }

std::vector<RungState> HyperBandScheduler::rungs(size_t members_max) const {
  std::vector<RungState> out;
  for (size_t i = 0; i < state_->brackets.size(); ++i) {
    const Bracket& bracket = state_->brackets[i];
    for (size_t r = 0; r < bracket.ladder.size(); ++r) {
      RungState& rung = out.emplace_back();
      rung.bracket = static_cast<int64_t>(i);
      rung.milestone = static_cast<double>(bracket.ladder[r].steps);
      rung.trials = r < bracket.past.size() ? static_cast<int64_t>(bracket.past[r].size()) : 0;
      rung.state = r < bracket.rung ? "decided" : "waiting";
      if (r < bracket.past.size()) {
        rung.members = bracket.past[r];
        rung.passed = std::count_if(rung.members.begin(), rung.members.end(),
                                    [](const RungMember& one) { return one.act == Act::kPassed; });
        if (rung.passed > 0) rung.cutoff = rung.members[static_cast<size_t>(rung.passed) - 1].value;
      } else if (r == bracket.rung) {
        rung.awaited =
            bracket.closed
                ? bracket.behind
                : std::max(bracket.ladder[0].trials - static_cast<int64_t>(bracket.members.size()), int64_t{0}) +
                      bracket.behind;
        for (const TrialId id : bracket.members) {
          const HyperbandTrial& trial = state_->trials.at(id);
          if (trial.last_step < bracket.milestone()) continue;
          rung.members.push_back(
              {id, trial.value, trial.decision == Decision::kFinish ? Act::kFinished : Act::kPaused});
        }
        rung.trials = static_cast<int64_t>(rung.members.size());
      } else {
        rung.awaited = bracket.ladder[r].trials;
      }
      keep_best(rung.members, members_max, state_->context.mode);
    }
  }
  return out;
}

std::string HyperBandScheduler::describe() const {
  const HyperBandOptions& options = state_->options;
  return fmt::format(
      "HyperBand max_t {}, eta {}{}{}", options.max_t, format_real(options.eta),
      options.only_bracket >= 0 ? fmt::format(", bracket {} alone", options.only_bracket) : "",
      fmt::format("{}{}", options.largest_first ? ", largest bracket first" : "", state_->ray() ? ", Ray's rule" : ""));
}

std::string HyperBandScheduler::snapshot() const {
  Config trials = Config::list({});
  for (const TrialId id : state_->order) {
    const HyperbandTrial& trial = state_->trials.at(id);
    trials.push_back({{"id", to_string(id)},
                      {"bracket", trial.bracket},
                      {"last_step", trial.last_step},
                      {"value", trial.value},
                      {"decision", static_cast<int>(trial.decision)},
                      {"live", trial.live}});
  }
  Config brackets = Config::list({});
  for (const Bracket& bracket : state_->brackets) {
    Config members = Config::list({});
    for (const TrialId id : bracket.members) members.push_back(to_string(id));
    Config sizes = Config::list({});
    for (const HyperBandRung& rung : bracket.ladder) sizes.push_back(rung.trials);
    brackets.push_back({{"rung", bracket.rung}, {"closed", bracket.closed}, {"sizes", sizes}, {"members", members}});
  }
  return Config{{"version", 1}, {"trials", trials}, {"brackets", brackets}}.to_json();
}

Result<void> HyperBandScheduler::State::read(const Config& state) {
  const auto refuse = [](std::string_view what) { return snapshot_does_not_fit("hyperband", what); };
  const Config all_brackets = state["brackets"];
  for (const Config& entry : all_brackets.items()) {
    Bracket& bracket = brackets.emplace_back();
    const size_t s = (brackets.size() - 1) % ladders.size();
    bracket.s = halvings[s];
    bracket.ladder = ladders[s];
    const int64_t rung = entry.integer("rung");
    const Config sizes = entry["sizes"];
    if (sizes.size() != bracket.ladder.size() || rung < 0 || rung >= static_cast<int64_t>(sizes.size()))
      return refuse("another max_t or eta");
    bracket.rung = static_cast<size_t>(rung);
    bracket.closed = entry.boolean("closed");
    for (size_t i = 0; i < sizes.size(); ++i)
      bracket.ladder[i].trials = std::clamp<int64_t>(sizes[i].integer(), 0, kTrialsMax);
  }
  const Config all_trials = state["trials"];
  for (const Config& entry : all_trials.items()) {
    auto id = TrialId::parse(entry.text("id"));
    if (!id) return make_error(id.error());
    const int64_t decision = entry.integer("decision");
    const int64_t bracket = entry.integer("bracket");
    if (decision < 0 || decision > static_cast<int64_t>(Decision::kPause)) return refuse("unknown decision");
    if (bracket < 0 || bracket >= static_cast<int64_t>(brackets.size())) return refuse("unknown bracket");
    const HyperbandTrial trial{static_cast<size_t>(bracket), entry.integer("last_step"), entry.real("value"),
                               static_cast<Decision>(decision), entry.boolean("live")};
    if (!trials.emplace(*id, trial).second) return refuse("a trial stands in it twice");
    order.push_back(*id);
  }
  size_t placed = 0;
  for (size_t i = 0; i < brackets.size(); ++i) {
    Bracket& bracket = brackets[i];
    const Config members = all_brackets[i]["members"];
    for (const Config& name : members.items()) {
      auto id = TrialId::parse(name.text());
      if (!id) return make_error(id.error());
      const auto found = trials.find(*id);
      if (found == trials.end() || found->second.bracket != i) return refuse("a member of another bracket");
      if (std::find(bracket.members.begin(), bracket.members.end(), *id) != bracket.members.end())
        return refuse("a member twice");
      bracket.members.push_back(*id);
      if (!found->second.live) continue;
      ++placed;
      ++bracket.live;
      bracket.behind += found->second.last_step < bracket.milestone();
    }
  }
  const auto living = std::count_if(trials.begin(), trials.end(), [](const auto& entry) { return entry.second.live; });
  if (placed != static_cast<size_t>(living)) return refuse("a trial is in no bracket");
  return {};
}

Result<void> HyperBandScheduler::restore(std::string_view snapshot) {
  auto fresh = std::make_unique<State>(state_->options, state_->context);
  VOLADOR_TRY(read_snapshot("hyperband", snapshot, [&fresh](const Config& state) { return fresh->read(state); }));
  state_ = std::move(fresh);
  return {};
}

void HyperBandScheduler::check_invariants() const {
  size_t living = 0;
  for (size_t i = 0; i < state_->brackets.size(); ++i) {
    const Bracket& bracket = state_->brackets[i];
    int64_t live = 0;
    int64_t behind = 0;
    for (const TrialId id : bracket.members) {
      const HyperbandTrial& trial = state_->trials.at(id);
      VOLADOR_CHECK(trial.bracket == i, to_string(id));
      if (!trial.live) continue;
      ++live;
      behind += trial.last_step < bracket.milestone();
    }
    living += static_cast<size_t>(live);
    const std::string name = fmt::format("bracket {} rung {}: live {} {}, behind {} {}", i, bracket.rung, live,
                                         bracket.live, behind, bracket.behind);
    VOLADOR_CHECK(live == bracket.live, name);
    VOLADOR_CHECK(behind == bracket.behind, name);
    VOLADOR_CHECK(bracket.rung < bracket.ladder.size(), name);
    // No trial may wait at a rung that all have reached.
    const bool halves = state_->ray() || bracket.closed;
    VOLADOR_CHECK(!halves || live == 0 || behind > 0 || (bracket.last() && !state_->options.stop_last_trials), name);
    VOLADOR_CHECK(i + 1 == state_->brackets.size() || bracket.closed || state_->ray(), name);
  }
  size_t counted = 0;
  for (const auto& [id, trial] : state_->trials) counted += trial.live;
  VOLADOR_CHECK(counted == living && state_->order.size() == state_->trials.size(),
                fmt::format("{} {}", counted, living));
}

std::vector<HyperBandScheduler::BracketState> HyperBandScheduler::brackets() const {
  std::vector<BracketState> out;
  for (const Bracket& bracket : state_->brackets)
    out.push_back({bracket.s, bracket.rung, bracket.milestone(), bracket.live});
  return out;
}

SchedulerFactory hyperband(const HyperBandOptions& options) {
  return [options](const SchedulerContext& context) -> Result<std::unique_ptr<Scheduler>> {
    auto scheduler = HyperBandScheduler::create(options, context);
    if (!scheduler) return make_error(scheduler.error());
    return std::unique_ptr<Scheduler>(std::move(*scheduler));
  };
}

SchedulerFactory hyperband_for_bohb(HyperBandOptions options) {
  options.largest_first = true;
  return hyperband(options);
}

}  // namespace volador::tune
