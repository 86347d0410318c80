#include "tune/execution/runner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <future>
#include <limits>
#include <set>
#include <unordered_map>

#include "runtime/log.h"
#include "runtime/quantities.h"
#include "tune/display/run_news.h"
#include "tune/display/run_progress.h"
#include "tune/execution/request_inbox.h"
#include "tune/execution/run_callbacks.h"
#include "tune/execution/run_output.h"
#include "tune/execution/run_results.h"
#include "tune/execution/run_setup.h"
#include "tune/execution/run_state_file.h"
#include "tune/execution/trial_executor.h"
#include "tune/results/experiment_directory.h"
#include "tune/results/experiment_journal.h"
#include "tune/results/experiment_resume.h"
#include "tune/results/interrupted_writes.h"
#include "tune/results/run_mirror.h"
#include "tune/schedulers/pbt_policy.h"
#include "tune/searchers/recording_searcher.h"
#include "tune/searchers/warm_start.h"
#include "tune/space/given_config.h"

namespace volador::tune {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kTick{100};                // Progress, rows for the head, the cluster's size.
constexpr milliseconds kReportInterval{200};      // Between rows for the head.
constexpr std::chrono::seconds kLeftInterval{1};  // Minimum time between estimates of the time left.
constexpr int kCostShare = 20;                    // A periodic task takes at most 1/kCostShare of the time.
constexpr int64_t kSlotsMax = 100'000;

int64_t slots_of(const ResourceSet& total, const ResourceSet& each) {
  if (total.empty()) return 0;
  int64_t slots = kSlotsMax;
  for (const auto& [name, amount] : each.entries()) slots = std::min(slots, total.get(name) / amount);
  return slots;
}

class Runner {
 public:
  Runner(const RunnerEnvironment& environment, RunOptions options, ResourceSet resources, uint64_t seed,
         std::unique_ptr<TrialLoop> loop, RecordingSearcher& recording, ExperimentDirectory directory,
         std::unique_ptr<ExperimentJournal> journal, std::unique_ptr<RunMirror> mirror)
      : environment_(environment),
        options_(std::move(options)),
        resources_(std::move(resources)),
        directory_(std::move(directory)),
        output_(options_, environment.display, environment.clock),
        results_(options_, directory_),
        state_file_(options_, seed, directory_, environment.clock),
        journal_(std::move(journal)),
        mirror_(std::move(mirror)),
        callbacks_(options_.callbacks),
        progress_(options_, resources_, directory_),
        news_(options_, directory_),
        loop_(std::move(loop)),
        recording_(&recording) {
    for (const Resources& bundle : options_.bundles_per_trial) bundles_.push_back(*ResourceSet::from(bundle));
  }

  // `prepared` describes the run and the run to resume, if any.
  Result<Analysis> run(const TrainableRef& trainable, const PreparedRun& prepared) {
    const JournalContents* const earlier = prepared.earlier ? &*prepared.earlier : nullptr;
    const std::optional<int64_t> total = prepared.total;
    const Clock& clock = environment_.clock;
    started_ = clock.now();
    const WallTime started_wall = earlier != nullptr ? WallTime(earlier->header.started) : clock.wall();
    recording_->on_suggestion = [this](int64_t index, const Config& config) {
      journal_->add(JournalSuggestion{index, config, event_});
    };
    if (earlier != nullptr) replay(*earlier, started_wall, prepared.replayed.get());
    journal_->add(environment_.program);
    journal_->add(JournalLabels{trainable.name, options_.tags});
    for (const std::string& text : prepared.notices) say(text);
    for (const EarlierTrial& trial : prepared.warm_start) {
      if (earlier == nullptr) journal_->add(journal_record_of(trial));
    }
    state_file_.begin(started_wall, environment_.program, environment_.source);
    // Closed when the run ends or throws, so that late lines and requests are dropped.
    const auto inbox = std::make_shared<RequestInbox>(queue_);
    struct Closer {
      RequestInbox& inbox;
      ~Closer() { inbox.close(); }
    } const closer{*inbox};
    if (output_.shows_lines()) {
      environment_.session->on_log([inbox](const LogLine& line) { inbox->put(line); });
    }
    // Discards requests that were made to an earlier program.
    for (const RequestAsked& old : experiment_requests(directory_.path())) answer_request(old);
    environment_.session->on_request(directory_.key(),
                                     [inbox](const ExperimentRequest& request) { inbox->put(request); });
    std::optional<InterruptCounter> signals;
    if (environment_.handle_signals) signals.emplace(queue_.wakeup());
    callbacks_.setup({options_.name, directory_.path(), total, earlier != nullptr});
    {
      TrialExecutor executor(environment_.session, executor_options(trainable),
                             [this](ExecutorEvent event) { queue_.push(std::move(event)); });
      executor_ = &executor;
      results_.go_live();
      if (earlier != nullptr) {
        go_on(earlier->header.total, total);
      } else {
        loop_zero_ = clock.now() - BootTime{};
        event_wall_ = clock.wall();
        apply(loop_->begin(BootTime{}));
      }
      follow_cluster();
      periodic(clock.now());
      while (!loop_->ended()) {
        const auto events = queue_.take(until_next(clock.now()));
        if (signals) {
          for (; interrupts_ < signals->count(); ++interrupts_) interrupt();
        }
        write_down(events);
        for (const RunnerEvent& event : events) take(event);
        // Handled after the other events, which are in the journal already.
        for (const RunnerEvent& event : events) {
          const auto* asked = std::get_if<AddAsked>(&event);
          if (asked == nullptr) continue;
          if (auto added = take_configuration(asked->config, asked->like, asked->request); !added)
            say(added.error().message);
        }
        follow_failure();
        if (const auto due = loop_->next_wakeup(); due && *due <= loop_now()) handle(Tick{});
        periodic(clock.now());
      }
      commit_last();
      executor.drain();
      executor_ = nullptr;
    }
    if (options_.log_to_file) take_last_lines();
    environment_.session->on_request(directory_.key(), nullptr);
    inbox->close();
    if (output_.shows_lines()) environment_.session->on_log(nullptr);
    // A further interrupt ends the last transfer to the storage.
    return finish([this, &signals] { return signals && signals->count() > interrupts_; });
  }

 private:
  TrialExecutorOptions executor_options(const TrainableRef& trainable) const {
    return {.trainable = trainable,
            .experiment = directory_.key(),
            .directory = directory_.path(),
            .resources = options_.bundles_per_trial.empty() ? resources_ : bundles_.front(),
            .bundles = bundles_,
            .strategy = options_.bundle_strategy,
            .artifact_bytes_max = options_.artifact_bytes_max,
            .wait_if_infeasible = options_.wait_if_infeasible,
            .reuse_actors = options_.reuse_actors,
            .step_timeout = options_.step_timeout,
            .start_timeout = options_.start_timeout,
            .retry_pause = environment_.retry_pause,
            .clock = &environment_.clock};
  }

  bool retries_failed() const { return options_.resume_errored || options_.restart_errored; }

  nanoseconds until_next(BootTime now) const {
    nanoseconds wait = kTick;
    if (const auto due = loop_->next_wakeup()) wait = std::min<nanoseconds>(wait, *due - (now - loop_zero_));
    return std::max(wait, nanoseconds(0));
  }

  // Workers send lines in batches: those of the last trials are in transit when their actors have ended.
  void take_last_lines() {
    constexpr std::chrono::milliseconds kQuiet{400}, kAtMost{3000};
    BootTime now = environment_.clock.now();
    const BootTime end = now + kAtMost;
    for (BootTime last = now; now < std::min(last + kQuiet, end); now = environment_.clock.now()) {
      for (const RunnerEvent& event : queue_.take(std::min(last + kQuiet, end) - now)) {
        if (!std::holds_alternative<LogLine>(event)) continue;
        take(event);
        last = environment_.clock.now();
      }
    }
  }

  // ---- Events.

  void take(const RunnerEvent& event) {
    if (const auto* line = std::get_if<LogLine>(&event)) return output_.print(*line, *loop_, results_.logger());
    if (std::holds_alternative<AddAsked>(event)) return;
    const auto& executed = std::get<ExecutorEvent>(event);
    if (const auto* media = std::get_if<MediaReported>(&executed))
      return results_.logger().log_media(media->trial, media->step, event_wall_, media->values);
    if (const auto* notice = std::get_if<AttemptNotice>(&executed)) return say(notice->text);
    if (const auto* waiting = std::get_if<AttemptActor>(&executed)) {
      actors_[waiting->trial] = waiting->actor;
      return;
    }
    if (const auto* place = std::get_if<AttemptPlace>(&executed)) {
      results_.note(*place);
      actors_[place->trial] = place->actor;
      output_.note_actor(place->actor, place->trial);
      return;
    }
    const Event& of_loop = std::get<Event>(executed);
    note_request(of_loop);
    if (const auto* failed = std::get_if<TrialFailed>(&of_loop)) note_failure(*failed);
    if (const auto* failed = std::get_if<CheckpointFailed>(&of_loop)) {
      // Reported once, and only if checkpoints were requested.
      const bool asked = options_.checkpoint.frequency > 0 || options_.checkpoint.at_end || loop_->scheduler().pauses();
      quiet_ = !asked || !checkpoint_errors_.insert(failed->error.text()).second;
    }
    if (mirror_ != nullptr && std::holds_alternative<CheckpointSaved>(of_loop)) mirror_->note_checkpoint();
    std::visit([this](const auto& one) { touch(one); }, of_loop);
    tell(of_loop);
    quiet_ = false;
  }

  // Loop time, which does not advance between two drivers.
  BootTime loop_now() const { return environment_.clock.now() - loop_zero_; }

  // Writes events to the journal before the loop handles them, so that a driver that resumes knows their effects. One
  // write for all pending events, with a single time.
  void write_down(const std::vector<RunnerEvent>& events) {
    stamp();
    for (const RunnerEvent& event : events) {
      const auto* executed = std::get_if<ExecutorEvent>(&event);
      if (executed == nullptr) continue;
      if (const auto* of_loop = std::get_if<Event>(executed)) add_to_journal(*of_loop);
      const auto* place = std::get_if<AttemptPlace>(executed);
      if (place != nullptr)
        journal_->add(JournalPlace{place->trial.value(), place->attempt, place->node, place->hostname, place->pid});
    }
    journal_->commit();
    if (options_.committed && !loop_->ending()) options_.committed(directory_.path(), false);
  }
  void commit_last() {
    if (!options_.committed || loop_->ending()) return;
    journal_->commit();
    options_.committed(directory_.path(), true);
  }
  void stamp() {
    event_now_ = loop_now();
    event_wall_ = environment_.clock.wall();
  }
  void add_to_journal(const Event& event) {
    journal_->add(JournalEvent{event_now_ - BootTime{}, event_wall_.time_since_epoch(), event});
  }

  void handle(const Event& event) {
    stamp();
    add_to_journal(event);
    journal_->commit();
    tell(event);
  }

  // Handles an event that is in the journal.
  void tell(const Event& event) {
    const bool was_ending = loop_->ending();
    event_ = events_told_;
    callbacks_.before(event, *loop_);
    apply(loop_->handle(event_now_, event, event_wall_));
    callbacks_.after(event);
    if (loop_->ending() && !was_ending) journal_->add(JournalEnding{events_told_, end_.reason.text()});
    ++events_told_;
  }

  // ---- Resuming an earlier run.

  // `view`: what searcher and scheduler see of it; null: nothing.
  void replay(const JournalContents& earlier, WallTime started, EarlierRun* view) {
    for (const JournalRecord& record : earlier.records) {
      events_told_ += std::holds_alternative<JournalEvent>(record);
      const auto* place = std::get_if<JournalPlace>(&record);
      if (place != nullptr) results_.note(*place);
    }
    event_wall_ = started;
    apply(loop_->begin(BootTime{}));
    BootTime last{};
    for (const JournalEvent& told : effective_events(earlier.records)) {
      last = BootTime{} + told.at;
      event_ = told.number;
      recording_->at(event_);
      if (view != nullptr) view->event = event_;
      event_wall_ = WallTime(told.wall);
      std::visit([this](const auto& one) { touch(one); }, told.event);
      apply(loop_->handle(last, told.event, event_wall_));
    }
    recording_->at(std::numeric_limits<int64_t>::max());
    if (view != nullptr) view->replaying = false;
    keep_missing_decisions(earlier);
    loop_zero_ = environment_.clock.now() - last;
    if (!earlier.torn.empty()) say(fmt::format("{}: {}", journal_path(directory_.path()).string(), earlier.torn));
    if (recording_->differences() > 0) {
      say(fmt::format(
          "the searcher would now suggest other configurations than it did in {}; those of the journal are used",
          counted(recording_->differences(), "case")));
    }
    results_.restore(loop_->trials(), retries_failed(), event_wall_);
  }

  // Adds decisions of the last events, which a killed program had not written yet.
  void keep_missing_decisions(const JournalContents& earlier) {
    std::set<std::tuple<TrialId, int64_t, Act>> known;
    const auto key = [](const DecisionRecord& one) { return std::tuple(one.trial, one.step, one.act); };
    for (const JournalRecord& record : earlier.records) {
      if (const auto* decision = std::get_if<JournalDecision>(&record)) known.insert(key(decision->record));
    }
    for (DecisionRecord& made : replayed_decisions_) {
      if (known.insert(key(made)).second) journal_->add(JournalDecision{events_told_ - 1, std::move(made)});
    }
    replayed_decisions_.clear();
  }

  void go_on(int64_t total_before, std::optional<int64_t> total) {
    handle(Resumed{});
    const bool any_failed = loop_->counts().by_status[static_cast<int>(TrialStatus::kFailed)] > 0;
    if (retries_failed() && any_failed) {
      end_ = {};
      handle(RetryFailed{options_.restart_errored});
    }
    const int64_t wanted = total.value_or(-1);
    if (wanted == total_before) return;
    end_ = {};
    handle(MoreSamples{wanted});
  }

  void interrupt() {
    commit_last();
    say(interrupts_ == 0 ? "interrupted: trials finish their step, checkpoint and stop; again: they stop at once"
                         : "interrupted again: trials stop at once");
    ending_ = interrupts_ == 0 ? "interrupted: trials checkpoint and stop" : "interrupted: trials stop at once";
    handle(Interrupt{});
    for (const Trial& trial : loop_->trials()) news_.note(trial);
  }

  // Prints a notice if the event is a user's request.
  void note_request(const Event& event) {
    if (const auto* stop = std::get_if<StopRequested>(&event)) {
      note_request(*stop, "stop", "trials finish their step, checkpoint and stop");
      if (!stop->whole) return;
      stop_requested_ = true;
      ending_ = "on request: trials checkpoint and stop";
    }
    if (const auto* pause = std::get_if<PauseRequested>(&event))
      note_request(*pause, "pause", "trials finish their step and checkpoint; nothing starts");
    if (const auto* resume = std::get_if<ResumeRequested>(&event))
      note_request(*resume, "go on", "paused trials wait for places again");
  }
  template <class T>
  void note_request(const T& event, const char* what, const char* all) {
    if (!event.whole) return say(fmt::format("trial {} is to {}, on request", to_string(event.trial), what));
    say(fmt::format("to {}, on request: {}", what, all));
    for (const Trial& trial : loop_->trials()) news_.note(trial);
  }

  // Requests in the run's directory. A file is removed once the request is in the journal.
  void follow_requests() {
    for (const RequestAsked& asked : experiment_requests(directory_.path())) {
      if (asked.act == RequestAct::kAdd) {
        const auto added = take_configuration(asked.config, asked.trial, asked.file.stem().string());
        answer_request(asked, added ? std::nullopt : std::optional(added.error()));
        continue;
      }
      const Event event = event_of(asked.act, asked.trial);
      note_request(event);
      std::visit([this](const auto& one) { touch(one); }, event);
      handle(event);
      answer_request(asked);
    }
  }

  // Adds a user's configuration; missing values come from the trial `like`, or are drawn. On error nothing has changed;
  // the error states why it was rejected.
  Result<void> take_configuration(const std::string& json, std::optional<TrialId> like, const std::string& request) {
    if (loop_->ending() || loop_->ended())
      return make_error(ErrorCode::kNotFound,
                        fmt::format("{}: it ends; no configuration is added any more", directory_.key()));
    const auto given = Config::from_json(json);
    if (!given) return make_error(given.error());
    const Trial* const from = like ? loop_->find(*like) : nullptr;
    if (like && from == nullptr)
      return make_error(ErrorCode::kNotFound,
                        fmt::format("{}: it has no trial {}", directory_.key(), to_string(*like)));
    auto config = from == nullptr ? completed_config("config", options_.space, *given, environment_.random)
                                  : changed_config("config", options_.space, from->config, *given, environment_.random);
    if (!config) return make_error(config.error());
    handle(ConfigAdded{request, std::move(*config), like});
    return {};
  }

  void note_failure(const TrialFailed& event) {
    const Trial* trial = loop_->find(event.trial);
    if (trial == nullptr || trial->attempt != event.attempt) return;
    results_.log_failure(*trial, event, environment_.clock.wall());
  }

  template <class T>
  void touch(const T& event) {
    if constexpr (requires { event.trial; }) {
      if (const Trial* trial = loop_->find(event.trial)) news_.note(*trial);
    }
  }

  // ---- Actions.

  void apply(const Actions& actions) {
    for (const Action& action : actions) {
      std::visit([this](const auto& one) { touch(one); }, action);
      std::visit([this](const auto& one) { execute(one); }, action);
    }
  }

  void execute(const TrialAdded& action) {
    if (executor_ == nullptr) return;
    results_.start(*loop_->find(action.trial), environment_.clock.wall());
  }
  // In a replay there is no executor: all this was done before.
  void execute(const StartTrial& action) {
    results_.release(action.trial, false);
    if (executor_ == nullptr) return;
    const Trial& trial = *loop_->find(action.trial);
    callbacks_.starts(action);
    output_.note_start(trial);
    executor_->start(action.trial, action.attempt,
                     {trial.config, trial.resources, action.restore, name_of(trial), folder_of(trial)});
  }
  void execute(const Step& action) {
    results_.release(action.trial, false);
    if (executor_ != nullptr) executor_->step(action.trial, action.attempt, loop_->find(action.trial)->step + 1);
  }
  void execute(const SaveCheckpoint& action) {
    if (executor_ != nullptr) executor_->save(action.trial, action.attempt, action.step);
  }
  void execute(const StopTrial& action) {
    if (executor_ != nullptr) executor_->stop(action.trial, action.attempt, action.at_once);
  }
  void execute(const DeleteCheckpoint& action) {
    if (executor_ != nullptr) executor_->remove(action.checkpoint);
  }
  void execute(const CloneCheckpoint& action) {
    if (executor_ != nullptr)
      executor_->clone(action.trial, action.attempt, folder_of(*loop_->find(action.trial)), action.checkpoint);
  }
  void execute(const TrialCloned& action) {
    if (executor_ == nullptr) return;
    const Trial& trial = *loop_->find(action.trial);
    results_.start(trial, environment_.clock.wall());
    if (action.from == action.trial) return;
    const auto logged = log_clone(directory_.path(), {action, loop_->find(action.from)->config, trial.config,
                                                      folder_of(trial), folder_of(*loop_->find(action.from))});
    if (!logged) say(fmt::format("the log of copies is not complete: {}", logged.error().message));
  }
  void execute(const TrialEnded& action) {
    results_.release(action.trial, true);
    if (executor_ == nullptr) return;
    results_.end(*loop_->find(action.trial), event_wall_);
    callbacks_.ended(*loop_->find(action.trial));
  }
  void execute(const DecisionMade& action) {
    news_.note_decision();
    if (executor_ == nullptr) return replayed_decisions_.push_back(action.record);
    journal_->add(JournalDecision{events_told_, action.record});
  }
  void execute(const Notice& action) {
    if (!quiet_ && executor_ != nullptr) say(action.text);
  }
  void execute(const EndExperiment& action) {
    end_ = action;
    if (!end_.error) return;
    if (const auto why = environment_.session->left(); why && executor_ != nullptr) {
      has_left_ = true;  // Regardless of which call ended first.
      end_.error =
          Error{why->code, fmt::format("{}. What its trials have reported and saved is kept in {}; with a cluster "
                                       "again, .resume = \"{}\" or `volador tune resume {}` goes on from there",
                                       why->message, display_path(directory_.path()), directory_.path().string(),
                                       directory_.argument())};
    }
  }
  void execute(const RecordResult& action) {
    if (action.replayed) return;  // It is in the files already: each step counts once.
    results_.release(action.trial, false);
    const Trial& trial = *loop_->find(action.trial);
    news_.note_point(trial, action);
    if (executor_ != nullptr) callbacks_.result(trial, action.result);
    results_.add(trial, action, event_wall_);
  }

  void say(const Reason& notice) { output_.say(notice); }
  void say_all(const std::vector<std::string>& notices) {
    for (const std::string& text : notices) say(text);
  }

  void take_tags_of_callbacks() {
    for (const TrialTagged& tagged : callbacks_.take_tags()) {
      touch(tagged);
      handle(tagged);
    }
  }

  // ---- Periodic tasks.

  void periodic(BootTime now) {
    if (now >= next_look_) {
      next_look_ = now + kTick;
      follow_cluster();
      follow_disk();
      say_all(callbacks_.take_notices());
      take_tags_of_callbacks();
      if (!loop_->ended()) follow_requests();
      follow_session();
      say_lines_left_out();
    }
    if (now >= next_left_ && !loop_->ended()) estimate(now);
    if (now >= next_report_ && news_.any()) {
      next_report_ = now + kReportInterval;
      report(state_name(false));
    }
    if (state_file_.is_due(now, state_name(false))) say_all(state_file_.write(*loop_, standing(state_name(false))));
    output_.draw(now, [this] { return snapshot(); });
  }

  // The single estimate shown by the terminal, the head and the state file.
  void estimate(BootTime now) {
    left_ = loop_->time_left(loop_now());
    const BootTime after = environment_.clock.now();
    next_left_ = after + std::max<nanoseconds>(kLeftInterval, (after - now) * kCostShare);
    news_.note_left(left_, now);
  }

  void say_lines_left_out() {
    const int64_t lines = queue_.take_left_out();
    if (lines == 0) return;
    say(fmt::format("{} left out here{}: they came faster than they can be shown; `volador logs TRIAL` has them",
                    counted(lines, "line of trials is", "lines of trials are"),
                    options_.log_to_file ? " and in stdout and stderr of their folders" : ""));
  }

  void follow_cluster() {
    totals_ = environment_.session->totals();
    tell_resources();
    const int64_t slots = slots_of(totals_.total, resources_);
    if (slots == slots_ || loop_->ended()) return;
    slots_ = slots;
    handle(CapacityChanged{slots});
  }

  // Ends the run if the cluster no longer accepts this session, since nothing can continue without it.
  void follow_session() {
    if (has_left_ || loop_->ended()) return;
    const auto why = environment_.session->left();
    if (!why) return;
    has_left_ = true;
    handle(Abort{*why});
  }

  void follow_failure() {
    if (!options_.failure || has_failed_ || loop_->ended()) return;
    const auto failure = options_.failure();
    if (!failure) return;
    has_failed_ = true;
    handle(Abort{*failure});
  }

  void tell_resources() {
    if (loop_->ended() || !loop_->scheduler().changes_resources() || totals_.total == resources_told_) return;
    resources_told_ = totals_.total;
    handle(ClusterChanged{{resources_told_.entries().begin(), resources_told_.entries().end()}});
  }

  void follow_disk() {
    say_all(results_.take_disk_notices());
    if (mirror_ != nullptr) say_all(mirror_->take_notices());
    if (journal_->status() && !journal_trouble_)
      say(fmt::format("the journal cannot be written: {}; the run goes on, a resume would know what came before only",
                      journal_->status()->message));
    journal_trouble_ = journal_->status().has_value() || journal_->lost();
  }

  std::string state_name(bool ended) const {
    if (!ended) return loop_->paused() ? "paused" : "running";
    const bool failed_fast =
        options_.fail_fast && loop_->counts().by_status[static_cast<int>(TrialStatus::kFailed)] > 0;
    if (has_left_) return "interrupted";
    if (end_.error || failed_fast) return "failed";
    return interrupts_ > 0 || stop_requested_ ? "interrupted" : "finished";
  }

  void report(const std::string& state) {
    environment_.session->report(news_.take(*loop_, state, environment_.clock, [this](const Trial& trial) {
      const auto actor = actors_.find(trial.id);
      return actor == actors_.end() ? ActorId() : actor->second;
    }));
  }

  RunStanding standing(const std::string& name) const {
    return {.name = name, .reason = end_.reason, .left = left_, .notices = output_.notices()};
  }

  ProgressSnapshot snapshot() const {
    return progress_.snapshot(
        *loop_, {.totals = totals_, .elapsed = environment_.clock.now() - started_, .left = left_, .ending = ending_});
  }

  // ---- The end.

  Result<Analysis> finish(const std::function<bool()>& is_interrupted) {
    left_.reset();
    if (const std::string lost = results_.finish(); !lost.empty()) say(lost);
    const std::string name = state_name(true);
    callbacks_.drain();
    take_tags_of_callbacks();
    for (const Trial& trial : loop_->trials()) news_.note(trial);
    report(name);
    if (callbacks_.listens()) callbacks_.end(Analysis(state_file_.state(*loop_, standing(name)), directory_.path()));
    say_all(callbacks_.take_notices());
    if (options_.failure && !end_.error) end_.error = options_.failure();  // From the last calls of a callback.
    say_all(state_file_.write(*loop_, standing(name)));
    if (mirror_ != nullptr) store_rest(is_interrupted);
    output_.finish([this] { return snapshot(); });
    if (end_.error) return make_error(*end_.error);
    return Analysis(state_file_.state(*loop_, standing(name)), directory_.path());
  }

  void store_rest(const std::function<bool()>& is_interrupted) {
    if (auto stored = mirror_->finish(is_interrupted); !stored) {
      say(stored.error().message);
    } else {
      say(fmt::format("results and checkpoints are stored in {}", mirror_->url().text()));
    }
  }

  const RunnerEnvironment& environment_;
  const RunOptions options_;
  const ResourceSet resources_;
  const ExperimentDirectory directory_;
  RunOutput output_;
  RunResults results_;
  RunStateFile state_file_;
  const std::unique_ptr<ExperimentJournal> journal_;
  const std::unique_ptr<RunMirror> mirror_;  // Null: results stay on this disk.
  RunCallbacks callbacks_;
  RunProgress progress_;
  RunNews news_;
  EventQueue<RunnerEvent> queue_;
  std::unique_ptr<TrialLoop> loop_;
  TrialExecutor* executor_ = nullptr;
  std::vector<ResourceSet> bundles_;             // Bundles of each trial; empty: only resources_.
  std::unordered_map<TrialId, ActorId> actors_;  // Including pending ones.
  RecordingSearcher* const recording_;
  std::vector<DecisionRecord> replayed_decisions_;
  nanoseconds loop_zero_{0};  // Clock value at loop time 0.
  BootTime event_now_{};      // Time of the current event on the loop's clock,
  WallTime event_wall_{};     // and in wall time.
  int64_t events_told_ = 0;
  int64_t event_ = -1;  // Number of the current event; -1: before the first.
  std::set<std::string> checkpoint_errors_;
  EndExperiment end_;
  std::string ending_;
  ClusterTotals totals_;
  ResourceSet resources_told_;  // Last cluster totals passed to the loop.
  int64_t slots_ = -1;
  int interrupts_ = 0;
  bool stop_requested_ = false;
  bool has_left_ = false;    // The session has left the cluster permanently.
  bool has_failed_ = false;  // options_.failure returned an error.
  bool quiet_ = false;       // Notices of this event are not printed.
  bool journal_trouble_ = false;
  std::optional<TimeLeft> left_;
  BootTime started_{}, next_look_{}, next_report_{}, next_left_{};
};

}  // namespace

Result<Analysis> run_experiment(const RunnerEnvironment& environment, const TrainableRef& trainable,
                                RunOptions options) {
  const auto place = place_of_runs(options.storage_path.string());
  if (!place) return make_error(place.error().code, fmt::format("storage_path: {}", place.error().message));
  options.storage_path = place->folder;
  if (const std::string text = options.resume.string(); storage::is_storage_url(text)) {
    const auto url = storage::parse_storage_url(text);
    if (!url) return make_error(url.error().code, fmt::format("resume: {}", url.error().message));
    auto fetched = url->kind == storage::StorageKind::kFolder ? Result<std::filesystem::path>(url->prefix)
                                                              : fetch_run(text, default_storage_path());
    if (!fetched) return make_error(fetched.error().code, fmt::format("resume: {}", fetched.error().message));
    options.resume = std::move(*fetched);
  }
  auto prepared = prepare_run(trainable, std::move(options), environment.random);
  if (!prepared) return make_error(prepared.error());
  PreparedRun& run = *prepared;
  run.header.started = environment.clock.wall().time_since_epoch();
  auto directory =
      run.earlier ? ExperimentDirectory::open(run.options.resume, run.options.name)
                  : ExperimentDirectory::create({.name = run.options.name, .storage_path = run.options.storage_path},
                                                environment.clock.wall());
  if (!directory) return make_error(directory.error());
  auto journal = run.earlier ? ExperimentJournal::open(directory->path(), run.earlier->whole_bytes)
                             : ExperimentJournal::create(directory->path(), run.header);
  if (!journal) return make_error(journal.error());
  remove_interrupted_writes(directory->path().parent_path(), run.options.name, directory->path());
  auto mirror = run.earlier     ? RunMirror::resume(*directory)
                : place->copies ? RunMirror::start_new(*place->copies, *directory)
                                : Result<std::unique_ptr<RunMirror>>(nullptr);
  if (!mirror) {
    // A new run has nothing but its empty directory yet.
    std::error_code ignored;
    if (!run.earlier) std::filesystem::remove_all(directory->path(), ignored);
    return make_error(mirror.error().code, fmt::format("storage_path: {}", mirror.error().message));
  }
  Runner runner(environment, std::move(run.options), std::move(run.resources), run.seed, std::move(run.loop),
                *run.recording, std::move(*directory), std::move(*journal), std::move(*mirror));
  return runner.run(trainable, run);
}

}  // namespace volador::tune
