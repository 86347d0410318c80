#include "tune/schedulers/asha_promotion_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "tune/display/progress_table.h"
#include "tune/snapshot.h"
#include "tune/space/config.h"

namespace volador::tune {
namespace {

// Smaller is better; the second member, the order of arrival, breaks ties.
using Key = std::pair<double, size_t>;

struct Arrival {
  TrialId trial;
  double value = 0;  // As reported.
  bool promoted = false;
};

struct PromotionRung {
  double milestone = 0;
  std::vector<Arrival> arrivals;
  // Live trials that were not promoted.
  std::set<Key> waiting;
  __gnu_pbds::tree<Key, __gnu_pbds::null_type, std::less<Key>, __gnu_pbds::rb_tree_tag,
                   __gnu_pbds::tree_order_statistics_node_update>
      all;
};

struct PromotionTrial {
  size_t rung = 0;     // Next rung to reach.
  size_t arrival = 0;  // Order of arrival at the previous rung, where it waits or waited last.
  int64_t last_step = 0;
  Decision decision = Decision::kContinue;
  bool live = true;
  bool runs() const { return live && decision == Decision::kContinue; }
};

}  // namespace

struct AshaPromotionScheduler::State {
  AshaOptions options;
  SchedulerContext context;
  std::vector<PromotionRung> rungs;
  std::unordered_map<TrialId, PromotionTrial> trials;
  std::vector<TrialId> order;  // In the order added.
  int64_t running = 0;
  bool no_more = false;
  std::vector<Order> orders;
  std::vector<DecisionRecord> decisions;  // Not taken yet.

  State(const AshaOptions& options_in, const SchedulerContext& context_in) : options(options_in), context(context_in) {
    for (const double milestone :
         asha_rungs(static_cast<double>(options.grace_period), options.max_t, options.reduction_factor, 0))
      rungs.emplace_back().milestone = milestone;
    // A trial is complete at max_t: there is no further rung to be promoted to.
    if (options.stop_last_trials && rungs.back().milestone >= static_cast<double>(options.max_t)) rungs.pop_back();
  }

  double key(double value) const {
    if (std::isnan(value)) return std::numeric_limits<double>::infinity();
    return context.mode == Mode::kMax ? -value : value;
  }
  Key key_of(const PromotionRung& rung, size_t arrival) const { return {key(rung.arrivals[arrival].value), arrival}; }
  // Number of trials of a rung that continue.
  size_t passing(const PromotionRung& rung) const {
    return static_cast<size_t>(std::floor(static_cast<double>(rung.arrivals.size()) / options.reduction_factor));
  }

  void set(PromotionTrial& trial, Decision decision) {
    running -= trial.runs();
    trial.decision = decision;
    running += trial.runs();
  }

  void arrive(PromotionTrial& trial, size_t index, TrialId id, double value) {
    PromotionRung& rung = rungs[index];
    trial.arrival = rung.arrivals.size();
    trial.rung = index + 1;
    rung.arrivals.push_back({id, value, false});
    rung.all.insert(key_of(rung, trial.arrival));
    if (!std::isnan(value)) rung.waiting.insert(key_of(rung, trial.arrival));
  }

  // Returns the best waiting trial of a rung if it may continue.
  std::optional<size_t> promotable(const PromotionRung& rung) const {
    if (rung.waiting.empty()) return std::nullopt;
    const Key best = *rung.waiting.begin();
    return rung.all.order_of_key(best) < passing(rung) ? std::optional(best.second) : std::nullopt;
  }

  DecisionRecord& note(size_t index, size_t arrival, Act act) {
    const PromotionRung& rung = rungs[index];
    const Arrival& one = rung.arrivals[arrival];
    const size_t pass = passing(rung);
    DecisionRecord& record = decisions.emplace_back(
        DecisionRecord{.trial = one.trial,
                       .step = trials.at(one.trial).last_step,
                       .act = act,
                       .rule = "ASHA",
                       .bracket = 0,
                       .milestone = rung.milestone,
                       .value = one.value,
                       .rank = static_cast<int64_t>(rung.all.order_of_key(key_of(rung, arrival))) + 1,
                       .of = static_cast<int64_t>(rung.arrivals.size()),
                       .pass = static_cast<int64_t>(pass)});
    if (pass > 0) record.cutoff = rung.arrivals[rung.all.find_by_order(pass - 1)->second].value;
    return record;
  }

  // Assigns one slot, trying the highest rung first. Returns false if no trial may continue.
  bool promote() {
    for (size_t index = rungs.size(); index-- > 0;) {
      const auto arrival = promotable(rungs[index]);
      if (!arrival) continue;
      PromotionRung& rung = rungs[index];
      note(index, *arrival, Act::kPassed);
      rung.arrivals[*arrival].promoted = true;
      rung.waiting.erase(key_of(rung, *arrival));
      const TrialId id = rung.arrivals[*arrival].trial;
      set(trials.at(id), Decision::kContinue);
      orders.push_back(ResumeOrder{id, -static_cast<double>(index + 1)});
      return true;
    }
    return false;
  }

  // Called when a slot is free.
  void fill() {
    if (!promote() || !no_more) return end_those_that_wait();
    while (promote()) {
    }
  }

  void end_those_that_wait() {
    if (!no_more || running > 0) return;
    for (const TrialId id : order) {
      PromotionTrial& trial = trials.at(id);
      if (!trial.live || trial.decision != Decision::kPause) continue;
      note(trial.rung - 1, trial.arrival, Act::kStopped);
      rungs[trial.rung - 1].waiting.erase(key_of(rungs[trial.rung - 1], trial.arrival));
      set(trial, Decision::kStop);
      trial.live = false;
      orders.push_back(EndOrder{id, Decision::kStop});
    }
  }

  void report(TrialId id, PromotionTrial& trial, int64_t step, double value) {
    trial.last_step = step;
    if (step >= options.max_t && options.stop_last_trials) {
      set(trial, Decision::kFinish);
      decisions.push_back({.trial = id,
                           .step = step,
                           .act = Act::kFinished,
                           .rule = "ASHA",
                           .bracket = 0,
                           .milestone = static_cast<double>(options.max_t),
                           .value = value});
      return fill();
    }
    const auto above = std::upper_bound(rungs.begin(), rungs.end(), static_cast<double>(step),
                                        [](double t, const PromotionRung& rung) { return t < rung.milestone; });
    const auto reached = static_cast<size_t>(above - rungs.begin());
    if (reached == 0 || reached <= trial.rung) return;
    arrive(trial, reached - 1, id, value);
    set(trial, Decision::kPause);
    fill();
    if (trial.decision == Decision::kPause) note(reached - 1, trial.arrival, Act::kPaused);
  }

  void leave(PromotionTrial& trial) {
    if (!trial.live) return;
    running -= trial.runs();
    trial.live = false;
    if (trial.rung > 0) rungs[trial.rung - 1].waiting.erase(key_of(rungs[trial.rung - 1], trial.arrival));
    fill();
  }

  Result<void> read(const Config& state);
};

AshaPromotionScheduler::AshaPromotionScheduler(const AshaOptions& options, const SchedulerContext& context)
    : state_(std::make_unique<State>(options, context)) {}
AshaPromotionScheduler::~AshaPromotionScheduler() = default;

Result<std::unique_ptr<AshaPromotionScheduler>> AshaPromotionScheduler::create(const AshaOptions& options,
                                                                               const SchedulerContext& context) {
  const auto refuse = [](std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); };
  VOLADOR_TRY(AshaScheduler::create(options, context));
  if (options.brackets != 1)
    return refuse(fmt::format("asha.brackets: expected 1 with the promotion variant, got {}", options.brackets));
  if (options.rule != AshaRule::kInclusive)
    return refuse("asha.rule: Ray's rule stops trials: expected kInclusive with the promotion variant");
  return std::unique_ptr<AshaPromotionScheduler>(new AshaPromotionScheduler(options, context));
}

void AshaPromotionScheduler::on_trial_add(TrialId trial) {
  if (!state_->trials.try_emplace(trial).second) return;
  state_->order.push_back(trial);
  ++state_->running;
  state_->no_more = false;
}

Result<Decision> AshaPromotionScheduler::on_report(const Report& report) {
  const auto found = state_->trials.find(report.trial);
  if (found == state_->trials.end()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("asha: trial {} reported before it was added", to_string(report.trial)));
  }
  if (report.step < 1) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("asha: trial {} reported step {}, expected at least 1",
                                                               to_string(report.trial), report.step));
  }
  PromotionTrial& trial = found->second;
  if (!trial.runs() || report.step <= trial.last_step) return trial.decision;
  state_->report(report.trial, trial, report.step, result_or_nan(report.value));
  // The decision already covers the reporting trial, which needs no order.
  std::erase_if(state_->orders, [&](const Order& order) {
    return std::visit([&](const auto& one) { return one.trial == report.trial; }, order);
  });
  return trial.decision;
}

void AshaPromotionScheduler::on_complete(TrialId trial) {
  const auto found = state_->trials.find(trial);
  if (found != state_->trials.end()) state_->leave(found->second);
}

void AshaPromotionScheduler::on_no_more_trials() {
  state_->no_more = true;
  state_->fill();
}

std::vector<Order> AshaPromotionScheduler::take_orders() { return std::exchange(state_->orders, {}); }
std::vector<DecisionRecord> AshaPromotionScheduler::take_decisions() { return std::exchange(state_->decisions, {}); }

std::optional<int64_t> AshaPromotionScheduler::steps_max() const {
  return state_->options.stop_last_trials ? std::optional(state_->options.max_t) : std::nullopt;
}

std::vector<RungState> AshaPromotionScheduler::rungs(size_t members_max) const {
  std::vector<RungState> out;
  for (const PromotionRung& rung : state_->rungs) {
    RungState& state = out.emplace_back(
        RungState{.milestone = rung.milestone, .trials = static_cast<int64_t>(rung.arrivals.size()), .state = "open"});
    for (const Arrival& one : rung.arrivals) {
      const bool ended = !state_->trials.at(one.trial).live;
      state.passed += one.promoted;
      state.members.push_back({one.trial, one.value,
                               one.promoted ? Act::kPassed
                               : ended      ? Act::kStopped
                                            : Act::kPaused});
    }
    if (const size_t pass = state_->passing(rung); pass > 0)
      state.cutoff = rung.arrivals[rung.all.find_by_order(pass - 1)->second].value;
    keep_best(state.members, members_max, state_->context.mode);
  }
  return out;
}

std::string AshaPromotionScheduler::describe() const {
  const AshaOptions& options = state_->options;
  std::string text = fmt::format("ASHA max_t {}, factor {}", options.max_t, format_real(options.reduction_factor));
  if (options.grace_period != 1) text += fmt::format(", grace {}", options.grace_period);
  return text + ", promotion";
}

std::string AshaPromotionScheduler::snapshot() const {
  Config trials = Config::list({}), rungs = Config::list({});
  for (const TrialId id : state_->order) {
    const PromotionTrial& trial = state_->trials.at(id);
    trials.push_back({{"id", to_string(id)},
                      {"rung", trial.rung},
                      {"last_step", trial.last_step},
                      {"decision", static_cast<int>(trial.decision)},
                      {"live", trial.live}});
  }
  for (const PromotionRung& rung : state_->rungs) {
    Config arrivals = Config::list({});
    for (const Arrival& one : rung.arrivals)
      arrivals.push_back(Config::list({to_string(one.trial), one.value, one.promoted}));
    rungs.push_back(std::move(arrivals));
  }
  return Config{{"version", 1}, {"no_more", state_->no_more}, {"trials", trials}, {"rungs", rungs}}.to_json();
}

Result<void> AshaPromotionScheduler::State::read(const Config& state) {
  const auto refuse = [](std::string_view what) { return snapshot_does_not_fit("asha", what); };
  no_more = state.boolean("no_more");
  const Config all_trials = state["trials"], all_rungs = state["rungs"];
  std::unordered_map<TrialId, size_t> wanted;  // Number of trials at the rung before their next one.
  for (const Config& entry : all_trials.items()) {
    auto id = TrialId::parse(entry.text("id"));
    if (!id) return make_error(id.error());
    const int64_t decision = entry.integer("decision"), rung = entry.integer("rung");
    const bool known =
        decision == static_cast<int64_t>(Decision::kContinue) || decision == static_cast<int64_t>(Decision::kStop) ||
        decision == static_cast<int64_t>(Decision::kFinish) || decision == static_cast<int64_t>(Decision::kPause);
    if (!known) return refuse("unknown decision");
    if (rung < 0 || rung > static_cast<int64_t>(rungs.size())) return refuse("unknown rung");
    if (rung == 0 && decision == static_cast<int64_t>(Decision::kPause)) return refuse("a trial that waits in no rung");
    PromotionTrial trial{.rung = 0,
                         .last_step = entry.integer("last_step"),
                         .decision = static_cast<Decision>(decision),
                         .live = entry.boolean("live")};
    if (!trials.emplace(*id, trial).second) return refuse("a trial stands in it twice");
    wanted[*id] = static_cast<size_t>(rung);
    order.push_back(*id);
    running += trial.runs();
  }
  if (all_rungs.size() != rungs.size()) return refuse("another max_t or reduction_factor");
  for (size_t index = 0; index < rungs.size(); ++index) {
    const Config arrivals = all_rungs[index];
    for (const Config& entry : arrivals.items()) {
      auto id = TrialId::parse(entry[0].text());
      if (!id) return make_error(id.error());
      const auto found = trials.find(*id);
      if (found == trials.end() || found->second.rung > index) return refuse("an unknown or repeated trial in a rung");
      arrive(found->second, index, *id, entry[1].real());
      Arrival& one = rungs[index].arrivals.back();
      one.promoted = entry[2].boolean();
      const bool waits = found->second.live && !one.promoted && !std::isnan(one.value);
      if (!waits) rungs[index].waiting.erase(key_of(rungs[index], found->second.arrival));
    }
  }
  for (const auto& [id, trial] : trials) {
    if (trial.rung != wanted.at(id)) return refuse("a trial is not where it arrived");
    const bool waits = trial.live && trial.decision == Decision::kPause;
    const bool unpromoted = trial.rung > 0 && !rungs[trial.rung - 1].arrivals[trial.arrival].promoted;
    if (trial.live && trial.decision == Decision::kContinue && trial.rung > 0 && unpromoted)
      return refuse("a trial runs that was not promoted");
    if (waits && !unpromoted) return refuse("a trial waits that was promoted");
  }
  return {};
}

Result<void> AshaPromotionScheduler::restore(std::string_view snapshot) {
  auto fresh = std::make_unique<State>(state_->options, state_->context);
  VOLADOR_TRY(read_snapshot("asha", snapshot, [&fresh](const Config& state) { return fresh->read(state); }));
  state_ = std::move(fresh);
  return {};
}

void AshaPromotionScheduler::check_invariants() const {
  int64_t running = 0;
  std::vector<size_t> waiting(state_->rungs.size());
  VOLADOR_CHECK(state_->order.size() == state_->trials.size());
  for (const auto& [id, trial] : state_->trials) {
    running += trial.runs();
    if (!trial.live || trial.decision != Decision::kPause) continue;
    const PromotionRung& rung = state_->rungs[trial.rung - 1];
    const Arrival& one = rung.arrivals[trial.arrival];
    VOLADOR_CHECK(one.trial == id && !one.promoted, to_string(id));
    VOLADOR_CHECK(rung.waiting.contains(state_->key_of(rung, trial.arrival)) == !std::isnan(one.value), to_string(id));
    waiting[trial.rung - 1] += !std::isnan(one.value);
  }
  VOLADOR_CHECK(running == state_->running, fmt::format("{} {}", running, state_->running));
  for (size_t i = 0; i < waiting.size(); ++i) {
    const PromotionRung& rung = state_->rungs[i];
    VOLADOR_CHECK(rung.waiting.size() == waiting[i],
                  fmt::format("rung {}: {} wait, counted {}", i, rung.waiting.size(), waiting[i]));
    VOLADOR_CHECK(rung.all.size() == rung.arrivals.size());
    // If no new trials come, no promotable trial may be waiting.
    VOLADOR_CHECK(!state_->no_more || !state_->promotable(rung), fmt::format("rung {}", i));
  }
}

}  // namespace volador::tune
