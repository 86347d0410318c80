#include "tune/loop/trial_loop.h"

#include <fmt/format.h>

#include "tune/loop/trial_loop_core.h"
#include "tune/seconds.h"

namespace volador::tune {
namespace {

constexpr int64_t kAheadMax = 64;      // Trials requested beyond the capacity of the cluster.
constexpr int64_t kCopiesMax = 1024;   // Trials requested at once if they become copies of each other.
constexpr int64_t kAheadUnknown = 16;  // kAheadMax while the capacity is unknown.
constexpr std::chrono::milliseconds kSearcherPause{50};  // Between calls to a searcher that returned kWait.

}  // namespace

Actions TrialLoop::Core::begin(BootTime now) {
  VOLADOR_CHECK(!begun_);
  begun_ = true;
  started_ = now_ = table.now = now;
  return settle();
}

Actions TrialLoop::Core::handle(BootTime now, const Event& event) {
  VOLADOR_CHECK(begun_);
  const bool reopens = std::holds_alternative<MoreSamples>(event) || std::holds_alternative<RetryFailed>(event);
  if (ended && !reopens && !std::holds_alternative<TrialTagged>(event)) return {};
  now_ = table.now = now;
  spend_time();
  if (!back_offs_.empty()) end_back_offs();
  std::visit([this](const auto& one) { on(one); }, event);
  return ended ? Actions() : settle();
}

std::optional<BootTime> TrialLoop::Core::next_wakeup() const {
  if (ended || !begun_) return std::nullopt;
  std::optional<BootTime> at;
  if (options.time_budget.count() > 0 && !stopping_at_once_) {
    if (!ending()) at = started_ + options.time_budget;
    if (budget_used_) at = started_ + options.time_budget + options.stop_grace;
  }
  if (!back_offs_.empty() && (!at || back_offs_.begin()->first < *at)) at = back_offs_.begin()->first;
  if (searcher_waits_ && (!at || now_ + kSearcherPause < *at)) at = now_ + kSearcherPause;
  return at;
}

std::optional<BestTrial> TrialLoop::Core::best(Scope scope) const {
  const std::optional<int64_t> best = board_.best(scope);
  if (!best) return std::nullopt;
  const Trial& trial = table.at(*best);
  const Standing standing = standing_of(trial.metrics.find(options.metric)->second, scope, options.mode);
  return BestTrial{&trial, standing.value, standing.step};
}

void TrialLoop::Core::spend_time() {
  if (options.time_budget.count() == 0) return;
  if (!ending_ && now_ >= started_ + options.time_budget) {
    budget_used_ = true;
    stop_all(reason("run.budget", fmt::format("{}", seconds_of(options.time_budget))), TrialStatus::kUnstarted);
  }
  if (budget_used_ && !stopping_at_once_ && now_ >= started_ + options.time_budget + options.stop_grace)
    stop_all_at_once();
}

Actions TrialLoop::Core::settle() {
  obey_scheduler();
  fill();
  if (exhausted_ && !told_exhausted_) {
    told_exhausted_ = true;
    scheduler->on_no_more_trials();
    obey_scheduler();
    fill();
  }
  if (break_stall(); !table.queue_empty()) fill();
  if (table.live() == 0 && table.queue_empty() && !table.any_paused() && !table.any_held() && (exhausted_ || ending_)) {
    ended = true;
    emit(EndExperiment{error_, ending_ ? end_reason_ : reason("run.all_ended")});
  }
  return std::exchange(out_, {});
}

bool TrialLoop::Core::room() const {
  if (options.max_concurrent_trials > 0 && table.live() >= options.max_concurrent_trials) return false;
  const int64_t ahead = searcher->learns() ? 1 : (slots_ == 0 ? kAheadUnknown : std::min(slots_, kAheadMax));
  const int64_t free = std::max<int64_t>(slots_ - (table.live() - table.starting()), 0);
  return table.starting() < free + ahead;
}

void TrialLoop::Core::fill() {
  searcher_waits_ = false;
  if (holding) return;
  while (!ending_ && scheduler->clones() && table.size() < kCopiesMax && suggest()) {
  }
  while (!ending_ && room()) {
    if (!table.queue_empty()) {
      start(table.front());
      continue;
    }
    if (!suggest()) return;
  }
}

bool TrialLoop::Core::suggest() {
  const int64_t index = table.size();
  const std::optional<int64_t> total = table.counts.total;
  if (exhausted_ || index >= kTrialsMax || (total && index >= *total)) {
    exhausted_ = true;
    return false;
  }
  auto suggestion = searcher->suggest(index);
  if (!suggestion) {
    abort(suggestion.error());
    return false;
  }
  if (suggestion->kind != Suggestion::Kind::kConfig) {
    searcher_waits_ = suggestion->kind == Suggestion::Kind::kWait;
    exhausted_ = suggestion->kind == Suggestion::Kind::kExhausted;
    return false;
  }
  const TrialId id = TrialId::of(options.trial_key, index);
  scheduler->on_trial_config(id, suggestion->config);
  Trial& trial = table.add(id, std::move(suggestion->config));
  if (!added_waiting_.empty() && added_waiting_.front().config == trial.config) {
    trial.cloned_from = added_waiting_.front().cloned_from;
    added_waiting_.pop_front();
  }
  const TrialNaming& naming = options.naming;
  if (!naming.name.is_id()) trial.name = naming.name.fill(naming.experiment, trial);
  if (!naming.folder.is_id()) trial.folder = naming.folder.fill(naming.experiment, trial);
  table.enqueue(trial);
  scheduler->on_trial_add(trial.id);
  emit(TrialAdded{trial.id});
  if (total && index + 1 == *total) exhausted_ = true;
  return true;
}

void TrialLoop::Core::stop_all(Reason reason, TrialStatus unstarted) {
  if (ending_) return;
  ending_ = true;
  end_reason_ = std::move(reason);
  for (Trial& trial : table.trials()) {
    const Phase phase = slot(trial).phase;
    if (is_copied(trial)) continue;  // Its checkpoint is about to be replaced by the copy.
    const bool begun =
        trial.step_max > 0 || trial.attempt > 1 || (trial.attempt == 1 && trial.status != TrialStatus::kWaiting);
    const Verdict verdict{begun ? TrialStatus::kInterrupted : unstarted, end_reason_};
    if (phase != Phase::kDone && !TrialTable::is_live(phase)) finish(trial, verdict);
    const bool nothing_to_save = phase == Phase::kStepping && !options.can_checkpoint;
    if (phase == Phase::kStarting || nothing_to_save) stop(trial, verdict, true);
    if (phase == Phase::kStopping && !slot(trial).verdict) slot(trial).verdict = verdict;
  }
}

void TrialLoop::Core::stop_all_at_once() {
  stop_all(reason("run.interrupted"));
  if (stopping_at_once_) return;
  stopping_at_once_ = true;
  for (Trial& trial : table.trials()) {
    Slot& state = slot(trial);
    if (state.phase == Phase::kStopping) {
      if (!state.stop_at_once) emit(StopTrial{trial.id, trial.attempt, true});
      state.stop_at_once = true;
    } else if (state.phase == Phase::kStepping || state.phase == Phase::kSaving || state.phase == Phase::kCloning) {
      const bool decided = state.phase == Phase::kSaving && state.verdict && state.verdict_step == trial.step;
      stop(trial, decided ? *state.verdict : Verdict{TrialStatus::kInterrupted, end_reason_}, true);
    }
  }
}

void TrialLoop::Core::abort(Error error) {
  if (!error_) error_ = std::move(error);
  stop_all(error_->message);
  stop_all_at_once();
}

void TrialLoop::Core::check_invariants() const {
  table.check_invariants();
  board_.check_invariants();
  const TrialCounts& counts = table.counts;
  VOLADOR_CHECK(!counts.total || counts.known <= *counts.total);
  VOLADOR_CHECK(options.max_concurrent_trials == 0 || table.live() <= options.max_concurrent_trials,
                std::to_string(table.live()));
  VOLADOR_CHECK(!ended || (table.live() == 0 && table.queue_empty() && !table.any_paused() && !table.any_held()));
  scheduler->check_invariants();
}

Result<std::unique_ptr<TrialLoop>> TrialLoop::create(LoopOptions options, std::unique_ptr<Searcher> searcher,
                                                     std::unique_ptr<Scheduler> scheduler) {
  VOLADOR_CHECK(searcher != nullptr && scheduler != nullptr);
  VOLADOR_TRY(validate(options, *searcher, *scheduler));
  if (const auto timeout = options.stop.timeout();
      timeout && (options.time_budget.count() == 0 || *timeout < options.time_budget))
    options.time_budget = *timeout;
  auto core = std::make_unique<Core>(std::move(options), std::move(searcher), std::move(scheduler));
  core->table.counts.total = core->searcher->total();
  return std::unique_ptr<TrialLoop>(new TrialLoop(std::move(core)));
}

TrialLoop::TrialLoop(std::unique_ptr<Core> core) : core_(std::move(core)) {}
TrialLoop::~TrialLoop() = default;

Actions TrialLoop::begin(BootTime now) { return core_->begin(now); }
Actions TrialLoop::handle(BootTime now, const Event& event, WallTime wall) {
  core_->table.wall = wall;
  return core_->handle(now, event);
}
void TrialLoop::reuse(Actions&& done) { core_->reuse(std::move(done)); }
std::optional<BootTime> TrialLoop::next_wakeup() const { return core_->next_wakeup(); }
const std::deque<Trial>& TrialLoop::trials() const { return core_->table.trials(); }
const Trial* TrialLoop::find(TrialId id) const { return core_->find(id); }
std::optional<BestTrial> TrialLoop::best(Scope scope) const { return core_->best(scope); }
std::optional<TimeLeft> TrialLoop::time_left(BootTime now) const { return core_->time_left(now); }
const Trial* TrialLoop::best_trial() const {
  const auto best = core_->best(Scope::kLast);
  return best ? best->trial : nullptr;
}
TrialLoop::Counts TrialLoop::counts() const { return core_->table.counts; }
bool TrialLoop::ending() const { return core_->ending(); }
bool TrialLoop::ended() const { return core_->ended; }
bool TrialLoop::paused() const { return core_->holding; }
const LoopOptions& TrialLoop::options() const { return core_->options; }
const Searcher& TrialLoop::searcher() const { return *core_->searcher; }
const Scheduler& TrialLoop::scheduler() const { return *core_->scheduler; }
void TrialLoop::check_invariants() const { core_->check_invariants(); }

}  // namespace volador::tune
