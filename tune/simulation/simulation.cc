#include "tune/simulation/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <queue>

#include "tune/loop/trial_loop.h"
#include "tune/schedulers/fifo_scheduler.h"
#include "tune/searchers/variant_searcher.h"

namespace volador::tune {
namespace {

constexpr double kSecondsMax = 1e9;  // Limit of one step: larger values would overflow virtual time.

std::chrono::nanoseconds nanoseconds_of(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(std::min(std::max(seconds, 0.0), kSecondsMax) * 1e9));
}

// Proposes the given configurations.
class GivenSearcher final : public Searcher {
 public:
  explicit GivenSearcher(std::vector<Config> configs) : configs_(std::move(configs)) {}
  Result<Suggestion> suggest(int64_t index) override {
    if (index >= *total()) return Suggestion{};
    return Suggestion{Suggestion::Kind::kConfig, configs_[static_cast<size_t>(index)]};
  }
  void on_result(const Observation&) override {}
  void on_complete(int64_t, const std::optional<Observation>&) override {}
  std::optional<int64_t> total() const override { return static_cast<int64_t>(configs_.size()); }
  bool learns() const override { return false; }
  bool needs_metric() const override { return false; }
  std::string describe() const override { return "the trials of an earlier run"; }
  std::string snapshot() const override { return "{\"version\":1}"; }
  Result<void> restore(std::string_view) override { return {}; }

 private:
  const std::vector<Config> configs_;
};

// Executes the actions of a loop on slots in virtual time.
class VirtualSlots {
 public:
  VirtualSlots(const SimulationOptions& options, TrialLoop& loop)
      : options_(options), loop_(loop), free_(options.slots * kUnit) {}

  SimulationReport run() {
    perform(loop_.begin(now_));
    tell(CapacityChanged{options_.slots});
    if (loop_.scheduler().changes_resources()) tell(ClusterChanged{{{"cpus", options_.slots * kUnit}}});
    const BootTime limit =
        options_.time_limit_s > 0 ? BootTime{} + nanoseconds_of(options_.time_limit_s) : BootTime::max();
    while (!loop_.ended()) {
      const auto wakeup = loop_.next_wakeup();
      const bool tick = wakeup && (due_.empty() || *wakeup < due_.top().at);
      if (!tick && due_.empty()) break;  // Nothing is pending: waiting trials would wait forever.
      const BootTime next = tick ? *wakeup : due_.top().at;
      if (next > limit) {
        now_ = limit;
        break;
      }
      now_ = std::max(now_, next);
      if (tick) {
        tell(Tick{});
        continue;
      }
      const Due due = due_.top();
      due_.pop();
      deliver(due);
    }
    report_.elapsed_s = seconds(now_);
    for (const Actor& actor : actors_) {
      if (actor.holds) report_.busy_s += busy(actor, report_.elapsed_s);
    }
    if (best_) report_.best_config = trial(*best_).config;
    return std::move(report_);
  }

 private:
  enum class Kind : uint8_t { kStarted, kStepped, kSaved, kCloned, kGone };
  struct Due {
    BootTime at;
    uint64_t sequence;
    Kind kind;
    int64_t index;
    int64_t attempt;
    int64_t step;
    bool operator>(const Due& other) const { return at != other.at ? at > other.at : sequence > other.sequence; }
  };
  struct Actor {
    int64_t attempt = 0;
    int64_t step = 0;    // Steps done.
    bool holds = false;  // Holds a slot.
    bool alive = false;
    double since = 0;  // Time at which it got its slot.
    Amount cpus = kUnit;
    double value = std::numeric_limits<double>::quiet_NaN();  // Value after its last step.
    std::vector<std::pair<int64_t, double>> saved;            // Checkpoints: step and value.
    double step_s = 0;                                        // Duration of the current step.
  };

  static double seconds(BootTime time) { return std::chrono::duration<double>(time - BootTime{}).count(); }
  const Trial& trial(int64_t index) const { return loop_.trials()[static_cast<size_t>(index)]; }
  Workload::At at(int64_t index, const Actor& actor, int64_t step) const {
    return {trial(index).id,
            index,
            trial(index).config,
            actor.attempt,
            step,
            actor.value,
            static_cast<double>(actor.cpus) / kUnit};
  }
  Actor& actor(int64_t index) {
    const auto at = static_cast<size_t>(index);
    if (actors_.size() <= at) actors_.resize(at + 1);
    return actors_[at];
  }

  void tell(const Event& event) {
    ++report_.events;
    if (options_.on_event) options_.on_event(now_ - BootTime{}, event);
    perform(loop_.handle(now_, event));
    if (options_.after_event) options_.after_event(now_, loop_);
  }
  void perform(Actions&& actions) {
    for (const Action& action : actions) std::visit([this](const auto& one) { on(one); }, action);
    loop_.reuse(std::move(actions));
  }
  void schedule(double in_seconds, Kind kind, int64_t index, int64_t attempt, int64_t step) {
    due_.push({now_ + nanoseconds_of(in_seconds), sequence_++, kind, index, attempt, step});
  }
  int64_t index_of(TrialId id) const { return loop_.find(id)->index; }

  void deliver(const Due& due) {
    Actor& one = actors_[static_cast<size_t>(due.index)];
    const TrialId id = trial(due.index).id;
    if (due.kind == Kind::kCloned) return tell(CheckpointCloned{id, due.attempt, due.step, location(due)});
    if (one.attempt != due.attempt || !one.alive) return;  // It was stopped meanwhile.
    switch (due.kind) {
      case Kind::kStarted:
        return tell(TrialStarted{id, due.attempt, "virtual"});
      case Kind::kStepped:
        return stepped(one, id, due);
      case Kind::kSaved:
        return tell(CheckpointSaved{id, due.attempt, due.step, location(due)});
      case Kind::kGone:
        release(one);
        return tell(TrialGone{id, due.attempt});
      case Kind::kCloned:
        return;
    }
  }

  void stepped(Actor& one, TrialId id, const Due& due) {
    ++report_.steps;
    const Workload::At asked = at(due.index, one, due.step);
    if (options_.workload.fails && options_.workload.fails(asked)) {
      release(one);
      return tell(TrialFailed{id, due.attempt, "it failed as the workload says", true});
    }
    one.step = due.step;
    auto& result = std::get<ResultReported>(result_);
    const double value = options_.workload.value(asked);
    one.value = value;
    result.trial = id;
    result.attempt = due.attempt;
    result.step = due.step;
    result.metrics.set(options_.metric, value);
    result.duration = nanoseconds_of(one.step_s);
    if (is_result(value) && (!report_.best || better(value, *report_.best, options_.mode))) {
      report_.best = value;
      best_ = due.index;
      report_.curve.push_back({seconds(now_), value});
    }
    tell(result_);
  }

  static std::string location(const Due& due) { return fmt::format("{}/{}", due.index, due.step); }

  void release(Actor& one) {
    one.alive = false;
    if (!one.holds) return;
    one.holds = false;
    report_.busy_s += busy(one, seconds(now_));
    free_ += one.cpus;
    place();
  }

  static double busy(const Actor& actor, double now) {
    return (now - actor.since) * static_cast<double>(actor.cpus) / kUnit;
  }

  // Assigns free slots to the first waiting trials.
  void place() {
    while (!waiting_.empty()) {
      const auto [index, attempt] = waiting_.front();
      Actor& one = actor(index);
      const bool waits = one.attempt == attempt && one.alive;
      if (waits && one.cpus > free_) return;
      waiting_.pop_front();
      if (!waits) continue;
      free_ -= one.cpus;
      one.holds = true;
      one.since = seconds(now_);
      schedule(options_.workload.start_s, Kind::kStarted, index, attempt, 0);
    }
  }

  void on(const StartTrial& action) {
    const int64_t index = index_of(action.trial);
    Actor& one = actor(index);
    report_.trials += one.attempt == 0;
    one.attempt = action.attempt;
    one.step = action.restore ? action.restore->step : 0;
    one.value = value_at(one, one.step);
    one.holds = false;
    one.alive = true;
    const ResourceSet& resources = trial(index).resources;
    one.cpus = resources.empty() ? kUnit : std::clamp<Amount>(resources.get("cpus"), 1, options_.slots * kUnit);
    waiting_.emplace_back(index, action.attempt);
    place();
  }
  void on(const Step& action) {
    const int64_t index = index_of(action.trial);
    Actor& one = actor(index);
    one.step_s = options_.workload.seconds(at(index, one, one.step + 1));
    schedule(one.step_s, Kind::kStepped, index, action.attempt, one.step + 1);
  }
  static double value_at(const Actor& one, int64_t step) {
    for (const auto& [at, value] : one.saved) {
      if (at == step) return value;
    }
    return std::numeric_limits<double>::quiet_NaN();
  }
  static void keep(Actor& one, int64_t step, double value) {
    std::erase_if(one.saved, [step](const auto& saved) { return saved.first >= step; });
    one.saved.emplace_back(step, value);
  }

  void on(const SaveCheckpoint& action) {
    Actor& one = actor(index_of(action.trial));
    keep(one, action.step, one.value);
    schedule(options_.workload.checkpoint_s, Kind::kSaved, index_of(action.trial), action.attempt, action.step);
  }
  void on(const CloneCheckpoint& action) {
    const double value = value_at(actor(index_of(action.from)), action.checkpoint.step);
    keep(actor(index_of(action.trial)), action.checkpoint.step, value);
    schedule(options_.workload.checkpoint_s, Kind::kCloned, index_of(action.trial), action.attempt,
             action.checkpoint.step);
  }
  void on(const DeleteCheckpoint& action) {
    std::erase_if(actor(index_of(action.trial)).saved,
                  [&](const auto& saved) { return saved.first == action.checkpoint.step; });
  }
  void on(const StopTrial& action) { schedule(0, Kind::kGone, index_of(action.trial), action.attempt, 0); }
  void on(const TrialEnded& action) {
    const Trial& ended = *loop_.find(action.trial);
    report_.stopped += ended.status == TrialStatus::kStopped;
    report_.failed += ended.status == TrialStatus::kFailed;
    if (ended.status != TrialStatus::kFinished) return;
    ++report_.finished;
    if (!report_.first_finished_s) report_.first_finished_s = seconds(now_);
  }
  template <class T>
  void on(const T&) {}

  const SimulationOptions& options_;
  TrialLoop& loop_;
  BootTime now_{};
  uint64_t sequence_ = 0;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::deque<std::pair<int64_t, int64_t>> waiting_;  // Trials and attempts without a slot.
  std::vector<Actor> actors_;                        // By the trial's index.
  Amount free_;                                      // CPUs.
  Event result_ = ResultReported{};                  // Reused, so that its metrics need no allocation per event.
  SimulationReport report_;
  std::optional<int64_t> best_;  // Index of the trial of report_.best.
};

}  // namespace

Result<SimulationReport> simulate(const SimulationOptions& options) {
  const auto refuse = [](std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); };
  if (!options.workload.value || !options.workload.seconds)
    return refuse("workload: give it value and seconds, as synthetic_workload() does");
  if (options.slots < 1) return refuse(fmt::format("slots: expected at least 1, got {}", options.slots));
  if (options.max_steps < 1) return refuse(fmt::format("max_steps: expected at least 1, got {}", options.max_steps));
  if (options.num_samples < 1 && options.configs.empty() && !(options.num_samples == -1 && options.time_limit_s > 0))
    return refuse(
        fmt::format("num_samples: expected at least 1, or -1 with a time limit, got {}", options.num_samples));
  const SearchContext search{options.space, options.metric, options.mode, options.num_samples, options.seed, false};
  Result<std::unique_ptr<Searcher>> searcher = std::unique_ptr<Searcher>();
  if (options.configs.empty()) {
    searcher = options.searcher ? options.searcher(search) : random_search()(search);
  } else {
    searcher = std::unique_ptr<Searcher>(std::make_unique<GivenSearcher>(options.configs));
  }
  if (!searcher) return make_error(searcher.error());
  ResourceSet slot;
  slot.set("cpus", kUnit);
  const SchedulerContext schedule{options.metric, options.mode, options.seed, slot};
  auto scheduler = options.scheduler ? options.scheduler(schedule) : fifo()(schedule);
  if (!scheduler) return make_error(scheduler.error());
  LoopOptions loop_options{
      .metric = options.metric, .mode = options.mode, .trial_key = options.seed, .stop = max_steps(options.max_steps)};
  loop_options.max_failures = options.max_failures;
  auto loop = TrialLoop::create(std::move(loop_options), std::move(*searcher), std::move(*scheduler));
  if (!loop) return make_error(loop.error());
  return VirtualSlots(options, **loop).run();
}

}  // namespace volador::tune
