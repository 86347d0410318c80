#include "tune/determined/determined_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/quantities.h"
#include "tune/overload.h"
#include "tune/refusal.h"
#include "tune/snapshot.h"

namespace volador::tune::determined {
namespace {

// ---- Spaces.

Result<Config> hyperparameters_of(const std::string& path, const std::vector<SpaceEntry>& entries, bool grid);

tl::unexpected<Error> no_kind(const std::string& path, const Domain& domain, std::string_view instead) {
  return tune::refuse(fmt::format("space.{}: {} is no kind of hyperparameter that Determined has: {}", path,
                                  to_string(domain), instead));
}

Result<Config> categorical(const std::string& path, const Domain& whole, const std::vector<SpaceNode>& options) {
  Config values = Config::list({});
  for (const SpaceNode& option : options) {
    if (option.constant() == nullptr) return no_kind(path, whole, "give constants to choose from");
    values.push_back(*option.constant());
  }
  return Config{{"type", "categorical"}, {"vals", std::move(values)}};
}

Result<Config> hyperparameter_of(const std::string& path, const SpaceNode& node, bool grid) {
  if (node.constant() != nullptr) return Config{{"type", "const"}, {"val", *node.constant()}};
  if (node.map() != nullptr) return hyperparameters_of(path, *node.map(), grid);
  if (node.domain() == nullptr)
    return tune::refuse(
        fmt::format("space.{}: Determined has no lists of hyperparameters: give each a name of its own", path));
  const Domain& whole = *node.domain();
  return std::visit(
      Overload{
          [&](const RealDomain& domain) -> Result<Config> {
            if (domain.q) return no_kind(path, whole, "leave out the step, or choose from constants");
            if (!domain.log) return Config{{"type", "double"}, {"minval", domain.low}, {"maxval", domain.high}};
            return Config{{"type", "log"},
                          {"base", 10.0},
                          {"minval", std::log10(domain.low)},
                          {"maxval", std::log10(domain.high)}};
          },
          [&](const IntegerDomain& domain) -> Result<Config> {
            if (domain.q || domain.log) return no_kind(path, whole, "use randint, or choose from constants");
            Config out{{"type", "int"}, {"minval", domain.low}, {"maxval", domain.high - 1}};
            if (grid) out.set("count", domain.high - domain.low);
            return out;
          },
          [&](const ChoiceDomain& domain) -> Result<Config> { return categorical(path, whole, domain.options); },
          [&](const GridDomain& domain) -> Result<Config> {
            if (!grid) return no_kind(path, whole, "use choice, or the searcher \"grid\"");
            return categorical(path, whole, domain.options);
          },
          [&](const auto&) -> Result<Config> { return no_kind(path, whole, "use uniform, or choose from constants"); }},
      whole);
}

Result<Config> hyperparameters_of(const std::string& path, const std::vector<SpaceEntry>& entries, bool grid) {
  Config out = Config::map();
  for (const SpaceEntry& entry : entries) {
    auto one = hyperparameter_of(path.empty() ? entry.name : path + "." + entry.name, entry.value, grid);
    if (!one) return one;
    out.set(entry.name, std::move(*one));
  }
  return out;
}

// Number of trials in the search if none is invalid.
int64_t trials_of(const SearchOptions& options, const Hyperparameters& hyperparameters) {
  if (options.name == "single") return 1;
  if (options.name == "grid") return static_cast<int64_t>(hyperparameters.grid()->size());
  if (options.name != "adaptive_asha") return options.max_trials;
  int64_t trials = 0;
  for (const Bracket& bracket : adaptive_brackets(options)) trials += bracket.trials;
  return trials;
}

// ---- State shared by searcher and scheduler.

class Shared {
 public:
  Shared(const SearchOptions& options, std::unique_ptr<Search> search, int64_t trials)
      : options_(options),
        closes_in_advance_(options.name == "single" || options.name == "random" || options.name == "grid"),
        search_(std::move(search)),
        trials_(trials) {
    tell(search_->initial_operations());
  }

  int64_t trials() const { return trials_; }

  // ---- Searcher.

  Suggestion suggest() {
    // Only results of a running trial can create another one.
    if (waiting_.empty()) return {over_ || open_ == 0 ? Suggestion::Kind::kExhausted : Suggestion::Kind::kWait, {}};
    next_ = std::move(waiting_.front());
    waiting_.pop_front();
    return {Suggestion::Kind::kConfig, next_->hyperparameters};
  }

  // ---- Scheduler.

  void add(TrialId id) {
    if (!trials_by_id_.try_emplace(id).second) return;
    Trial& trial = trials_by_id_.at(id);
    trial.length = options_.max_length;
    order_.push_back(id);
    if (!next_) return;  // Not a trial of the search.
    trial.request = next_->request;
    ids_[trial.request] = id;
    next_.reset();
    trial.length = lengths_.at(trial.request);
    ++open_;
    tell(search_->created(trial.request));
  }

  Result<Decision> report(const Report& report) {
    const auto found = trials_by_id_.find(report.trial);
    if (found == trials_by_id_.end())
      return tune::refuse(
          fmt::format("{}: trial {} reported before it was added", options_.name, to_string(report.trial)));
    if (report.step < 1)
      return tune::refuse(fmt::format("{}: trial {} reported step {}, expected at least 1", options_.name,
                                      to_string(report.trial), report.step));
    Trial& trial = found->second;
    if (trial.ended || trial.decision != Decision::kContinue || report.step <= trial.last_step) return trial.decision;
    trial.last_step = report.step;
    if (!trial.request.empty()) search_->trained(trial.request, static_cast<double>(report.step));
    if (report.step < trial.length) return Decision::kContinue;
    if (trial.request.empty()) return trial.decision = Decision::kFinish;
    trial.value = report.value;
    reporting_ = &trial;
    due_.push_back(trial.request);
    tell({});
    reporting_ = nullptr;
    decisions_.push_back({.trial = report.trial,
                          .step = report.step,
                          .act = act_of(trial.decision),
                          .rule = options_.name,
                          .milestone = static_cast<double>(std::min(report.step, options_.max_length)),
                          .value = report.value,
                          .detail = words_of(trial)});
    return trial.decision;
  }

  void complete(TrialId id) {
    const auto found = trials_by_id_.find(id);
    if (found == trials_by_id_.end() || found->second.ended) return;
    Trial& trial = found->second;
    trial.ended = true;
    if (trial.request.empty()) return;
    --open_;
    // A waiting trial has validated: it leaves only when it is to continue or to close.
    if (trial.closing || trial.decision != Decision::kPause) leave(trial);
    tell({});
  }

  std::vector<Order> take_orders() { return std::exchange(orders_, {}); }
  std::vector<DecisionRecord> take_decisions() { return std::exchange(decisions_, {}); }

  std::string snapshot() const {
    Config trials = Config::list({}), waiting = Config::list({}), lengths = Config::list({});
    for (const TrialId id : order_) {
      const Trial& trial = trials_by_id_.at(id);
      trials.push_back({{"id", to_string(id)},
                        {"request", trial.request},
                        {"length", trial.length},
                        {"last_step", trial.last_step},
                        {"value", trial.value},
                        {"decision", static_cast<int>(trial.decision)},
                        {"closing", trial.closing},
                        {"ended", trial.ended}});
    }
    for (const Create& create : waiting_) {
      waiting.push_back(
          {{"request", create.request}, {"seed", create.trial_seed}, {"hyperparameters", create.hyperparameters}});
      lengths.push_back(lengths_.at(create.request));
    }
    return Config{{"version", 1},
                  {"search", search_->snapshot()},
                  {"trials", std::move(trials)},
                  {"waiting", std::move(waiting)},
                  {"lengths", std::move(lengths)},
                  {"over", over_}}
        .to_json();
  }

  Result<void> restore(std::string_view snapshot) {
    return read_snapshot(options_.name, snapshot, [this](const Config& state) -> Result<void> {
      std::unordered_map<TrialId, Trial> by_id;
      std::unordered_map<RequestId, TrialId> ids;
      std::unordered_map<RequestId, int64_t> lengths;
      std::vector<TrialId> order;
      std::deque<Create> waiting;
      int64_t open = 0;
      const Config trials = state["trials"], creates = state["waiting"], first = state["lengths"];
      for (const Config& entry : trials.items()) {
        const auto id = TrialId::parse(entry.text("id"));
        if (!id) return make_error(id.error());
        const int64_t decision = entry.integer("decision");
        if (decision < 0 || decision > static_cast<int64_t>(Decision::kPause))
          return snapshot_does_not_fit(options_.name, "unknown decision");
        const Trial trial{.request = entry.text("request"),
                          .length = entry.integer("length"),
                          .last_step = entry.integer("last_step"),
                          .value = entry.real("value"),
                          .decision = static_cast<Decision>(decision),
                          .closing = entry.boolean("closing"),
                          .ended = entry.boolean("ended")};
        if (!by_id.emplace(*id, trial).second)
          return snapshot_does_not_fit(options_.name, "a trial stands in it twice");
        order.push_back(*id);
        if (trial.request.empty()) continue;
        open += !trial.ended;
        ids[trial.request] = *id;
        lengths[trial.request] = trial.length;
      }
      if (first.size() != creates.size()) return snapshot_does_not_fit(options_.name, "trials without a length");
      for (size_t i = 0; i < creates.size(); ++i) {
        const Config entry = creates[i];
        (void)entry["hyperparameters"];  // Throws if it is absent.
        waiting.push_back({.request = entry.text("request"),
                           .trial_seed = static_cast<uint32_t>(entry.integer("seed")),
                           .hyperparameters = *entry.find("hyperparameters")});
        lengths[waiting.back().request] = first[i].integer();
      }
      const bool over = state.boolean("over");
      VOLADOR_TRY(search_->restore(state.text("search")));
      trials_by_id_ = std::move(by_id);
      ids_ = std::move(ids);
      lengths_ = std::move(lengths);
      order_ = std::move(order);
      waiting_ = std::move(waiting);
      over_ = over;
      open_ = open;
      next_.reset();
      orders_.clear();
      decisions_.clear();
      return {};
    });
  }

  void check_invariants() const {
    VOLADOR_CHECK(order_.size() == trials_by_id_.size());
    for (const auto& [request, id] : ids_) VOLADOR_CHECK(trials_by_id_.at(id).request == request, request);
    for (const Create& create : waiting_) VOLADOR_CHECK(lengths_.contains(create.request), create.request);
  }

 private:
  struct Trial {
    RequestId request;   // Empty: not a trial of the search.
    int64_t length = 0;  // Step of its next validation.
    int64_t last_step = 0;
    double value = std::numeric_limits<double>::quiet_NaN();  // Value of its last validation.
    Decision decision = Decision::kContinue;
    bool closing = false;  // Ended by its search.
    bool ended = false;
  };

  static Act act_of(Decision decision) {
    switch (decision) {
      case Decision::kFinish:
        return Act::kFinished;
      case Decision::kStop:
        return Act::kStopped;
      case Decision::kPause:
        return Act::kPaused;
      default:
        return Act::kPassed;
    }
  }
  Reason words_of(const Trial& trial) const {
    switch (trial.decision) {
      case Decision::kFinish:
        return reason("decision.steps_done", trial.last_step);
      case Decision::kStop:
        return reason("decision.others_better", trial.last_step);
      case Decision::kPause:
        return reason("decision.waits_promotion", trial.last_step);
      default:
        return reason("decision.goes_on", trial.length);
    }
  }

  // Executes the operations and their consequences.
  void tell(Operations operations) {
    apply_actions(std::move(operations));
    while (!due_.empty()) {
      const RequestId request = std::move(due_.front());
      due_.pop_front();
      const TrialId id = ids_.at(request);
      Trial& trial = trials_by_id_.at(id);
      trial.decision = Decision::kPause;  // Unless the search decides otherwise now.
      apply_actions(search_->validated(request, trial.value));
      if (closes_in_advance_) close(id, trial);
    }
  }
  void apply_actions(Operations operations) {
    for (Operation& operation : operations) std::visit([this](auto& one) { on(one); }, operation);
  }
  // The trial has ended; informs its search.
  void leave(Trial& trial) {
    if (!trial.closing) apply_actions(search_->exited(trial.request, ExitReason::kErrored));
    apply_actions(search_->closed(trial.request));
  }

  void on(Create& create) { waiting_.push_back(std::move(create)); }
  void on(const ValidateAfter& validate) {
    lengths_[validate.request] = validate.length;
    const auto found = ids_.find(validate.request);
    if (found == ids_.end()) return;  // Not started.
    Trial& trial = trials_by_id_.at(found->second);
    trial.length = validate.length;
    if (trial.ended) return leave(trial);
    // A rung of the same length as the previous one: it has trained that far already.
    if (trial.length <= trial.last_step) return due_.push_back(validate.request);
    trial.decision = Decision::kContinue;
    if (&trial != reporting_) orders_.push_back(ResumeOrder{.trial = found->second});
  }
  void on(const Close& close) {
    const auto found = ids_.find(close.request);
    if (found != ids_.end() && !closes_in_advance_) this->close(found->second, trials_by_id_.at(found->second));
  }
  void close(TrialId id, Trial& trial) {
    trial.closing = true;
    if (trial.ended) return leave(trial);
    trial.decision = trial.last_step >= options_.max_length ? Decision::kFinish : Decision::kStop;
    if (&trial != reporting_) orders_.push_back(EndOrder{.trial = id, .decision = trial.decision});
  }
  void on(const Shutdown&) { over_ = true; }

  const SearchOptions options_;
  const bool closes_in_advance_;  // A trial's Close comes with its Create, and holds after its validation.
  const std::unique_ptr<Search> search_;
  const int64_t trials_;
  std::deque<Create> waiting_;                      // To be suggested by the searcher.
  std::optional<Create> next_;                      // Suggested, not added yet.
  std::unordered_map<RequestId, int64_t> lengths_;  // Lengths last requested.
  std::unordered_map<RequestId, TrialId> ids_;
  std::unordered_map<TrialId, Trial> trials_by_id_;
  std::vector<TrialId> order_;  // In the order added.
  std::deque<RequestId> due_;   // To be validated now.
  Trial* reporting_ = nullptr;
  int64_t open_ = 0;  // Trials of the search that have started and not ended.
  std::vector<Order> orders_;
  std::vector<DecisionRecord> decisions_;
  bool over_ = false;  // The search is ending: nothing more is tried.
};

class InTuneSearcher final : public Searcher {
 public:
  InTuneSearcher(std::shared_ptr<Shared> shared, std::string name)
      : shared_(std::move(shared)), name_(std::move(name)) {}
  Result<Suggestion> suggest(int64_t index) override {
    return index >= shared_->trials() ? Suggestion{} : shared_->suggest();
  }
  void on_result(const Observation&) override {}
  void on_complete(int64_t, const std::optional<Observation>&) override {}
  std::optional<int64_t> total() const override { return shared_->trials(); }
  bool learns() const override { return true; }
  bool needs_metric() const override { return true; }
  bool takes_goals() const override { return false; }
  std::string describe() const override { return "Determined's " + name_; }
  // The state is part of the scheduler's snapshot.
  std::string snapshot() const override { return "{\"version\":1}"; }
  Result<void> restore(std::string_view snapshot) override {
    return read_snapshot(describe(), snapshot, [](const Config&) { return Result<void>(); });
  }

 private:
  const std::shared_ptr<Shared> shared_;
  const std::string name_;
};

class InTuneScheduler final : public Scheduler {
 public:
  InTuneScheduler(std::shared_ptr<Shared> shared, const SearchOptions& options)
      : shared_(std::move(shared)), options_(options) {}
  void on_trial_add(TrialId trial) override { shared_->add(trial); }
  Result<Decision> on_report(const Report& report) override { return shared_->report(report); }
  void on_complete(TrialId trial) override { shared_->complete(trial); }
  std::vector<Order> take_orders() override { return shared_->take_orders(); }
  std::vector<DecisionRecord> take_decisions() override { return shared_->take_decisions(); }
  bool pauses() const override {
    return (options_.name == "adaptive_asha" || options_.name == "async_halving") && !options_.stop_once;
  }
  bool needs_metric() const override { return true; }
  std::string describe() const override {
    std::string text = fmt::format("Determined's {} max_length {}", options_.name, options_.max_length);
    if (options_.name == "adaptive_asha" || options_.name == "async_halving")
      text += fmt::format(", divisor {}{}", format_real(options_.divisor), options_.stop_once ? ", stop once" : "");
    return text;
  }
  std::string snapshot() const override { return shared_->snapshot(); }
  Result<void> restore(std::string_view snapshot) override { return shared_->restore(snapshot); }
  void check_invariants() const override { shared_->check_invariants(); }

 private:
  const std::shared_ptr<Shared> shared_;
  const SearchOptions options_;
};

}  // namespace

Result<Config> hyperparameters_of(const Space& space, bool grid) {
  return hyperparameters_of("", space.entries(), grid);
}

InTune in_tune(const SearchOptions& options) {
  struct Made {
    std::shared_ptr<Shared> shared;
    SearchOptions options;
  };
  const auto last = std::make_shared<Made>();
  const SearcherFactory searcher = [options, last](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    VOLADOR_TRY(context.space.validate());
    if (options.timed) return tune::refuse("searcher.timed: trials of tune::run report each step: leave it out");
    if (options.name == "custom") return tune::refuse("searcher.name: custom is for experiments: derive a Searcher");
    const auto space = hyperparameters_of(context.space, options.name == "grid");
    if (!space) return make_error(space.error());
    const auto hyperparameters = Hyperparameters::from(*space);
    if (!hyperparameters) return make_error(hyperparameters.error());
    SearchOptions own = options;
    own.smaller_is_better = context.mode == Mode::kMin;
    auto search = Search::create(own, *hyperparameters, static_cast<uint32_t>(context.seed));
    if (!search) return make_error(search.error());
    *last = {std::make_shared<Shared>(own, std::move(*search), trials_of(own, *hyperparameters)), own};
    return std::make_unique<InTuneSearcher>(last->shared, own.name);
  };
  const SchedulerFactory scheduler = [last](const SchedulerContext& context) -> Result<std::unique_ptr<Scheduler>> {
    if (last->shared == nullptr)
      return tune::refuse(
          "scheduler: that of tune::determined::in_tune() goes with its searcher: set .searcher as well, of the same "
          "in_tune()");
    if (context.metric.empty())
      return tune::refuse(
          fmt::format("{}: it compares trials by a metric: set .metric to the name of one that the trials report",
                      last->options.name));
    return std::make_unique<InTuneScheduler>(std::exchange(last->shared, nullptr), last->options);
  };
  return {searcher, scheduler};
}

}  // namespace volador::tune::determined
