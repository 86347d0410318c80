#include "tune/runner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <set>
#include <unordered_map>

#include "runtime/log.h"
#include "runtime/quantities.h"
#include "tune/checkpoint_store.h"
#include "tune/experiment_directory.h"
#include "tune/experiment_journal.h"
#include "tune/experiment_resume.h"
#include "tune/interrupted_writes.h"
#include "tune/given_config.h"
#include "tune/pbt_policy.h"
#include "tune/recording_searcher.h"
#include "tune/request_inbox.h"
#include "tune/result_files.h"
#include "tune/result_logger.h"
#include "tune/run_callbacks.h"
#include "tune/run_news.h"
#include "tune/run_progress.h"
#include "tune/run_setup.h"
#include "tune/trial_executor.h"
#include "tune/warm_start.h"

namespace volador::tune {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kTick{100};               // Progress, rows for the head, the cluster's size.
constexpr milliseconds kReportInterval{200};     // Between rows for the head.
constexpr std::chrono::seconds kLeftInterval{1};     // Between estimates of the time left, at least.
constexpr std::chrono::seconds kStateInterval{10};  // Between writes of experiment_state.json, at least.
constexpr int kCostShare = 20;                   // A periodic task takes at most one part in so many of the time.
constexpr int64_t kSlotsMax = 100'000;

int64_t slots_of(const ResourceSet& total, const ResourceSet& each) {
  if (total.empty()) return 0;
  int64_t slots = kSlotsMax;
  for (const auto& [name, amount] : each.entries()) slots = std::min(slots, total.get(name) / amount);
  return slots;
}

class Runner {
 public:
  Runner(const RunnerEnvironment& environment, RunOptions options, ResourceSet resources, uint64_t seed, std::unique_ptr<TrialLoop> loop,
         RecordingSearcher& recording, ExperimentDirectory directory, std::unique_ptr<ExperimentJournal> journal)
      : environment_(environment),
        options_(std::move(options)),
        resources_(std::move(resources)),
        seed_(seed),
        directory_(std::move(directory)),
        display_(environment.display),
        logger_({.directory = directory_.path(), .tensorboard = options_.tensorboard}),
        journal_(std::move(journal)),
        callbacks_(options_.callbacks),
        progress_(options_, resources_, directory_),
        news_(options_, directory_),
        loop_(std::move(loop)),
        recording_(&recording) {
    for (const Resources& bundle : options_.bundles_per_trial) bundles_.push_back(*ResourceSet::from(bundle));
  }

  // What `prepared` says of the run, with the run to go on with.
  Result<Analysis> run(const TrainableRef& trainable, const PreparedRun& prepared) {
    const JournalContents* const earlier = prepared.earlier ? &*prepared.earlier : nullptr;
    const std::optional<int64_t> total = prepared.total;
    const Clock& clock = environment_.clock;
    started_ = clock.now();
    started_wall_ = earlier != nullptr ? WallTime(earlier->header.started) : clock.wall();
    recording_->on_suggestion = [this](int64_t index, const Config& config) { journal_->add(JournalSuggestion{index, config}); };
    if (earlier != nullptr) replay(*earlier);
    journal_->add(environment_.program);
    journal_->add(JournalLabels{trainable.name, options_.tags});
    for (const std::string& text : prepared.notices) say(text);
    for (const EarlierTrial& trial : prepared.warm_start) {
      if (earlier == nullptr) journal_->add(journal_record_of(trial));
    }
    origin_ = {environment_.program.arguments, environment_.program.working_directory, environment_.program.hostname, {}, {}, false};
    if (environment_.source) revision_ = std::async(std::launch::async, environment_.source);
    // A line or a request that is under way when the run ends, or throws, finds it closed.
    const auto inbox = std::make_shared<RequestInbox>(queue_);
    struct Closer {
      RequestInbox& inbox;
      ~Closer() { inbox.close(); }
    } const closer{*inbox};
    if (shows_lines()) {
      environment_.session->on_log([inbox](const LogLine& line) { inbox->put(line); });
    }
    for (const RequestAsked& old : experiment_requests(directory_.path())) answer_request(old);  // They were for an earlier program.
    environment_.session->on_request(directory_.key(), [inbox](const ExperimentRequest& request) { inbox->put(request); });
    std::optional<InterruptCounter> signals;
    if (environment_.handle_signals) signals.emplace(queue_.wakeup());
    callbacks_.setup({options_.name, directory_.path(), total, earlier != nullptr});
    {
      TrialExecutor executor(environment_.session, executor_options(trainable), [this](ExecutorEvent event) { queue_.push(std::move(event)); });
      executor_ = &executor;
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
        // Behind the others, which are written down already.
        for (const RunnerEvent& event : events) {
          const auto* asked = std::get_if<AddAsked>(&event);
          if (asked == nullptr) continue;
          if (auto added = take_configuration(asked->config, asked->like, asked->request); !added) say(added.error().message);
        }
        if (const auto due = loop_->next_wakeup(); due && *due <= loop_now()) handle(Tick{});
        periodic(clock.now());
      }
      executor.drain();
      executor_ = nullptr;
    }
    if (options_.log_to_file) take_last_lines();
    environment_.session->on_request(directory_.key(), nullptr);
    inbox->close();
    if (shows_lines()) environment_.session->on_log(nullptr);
    return finish();
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
  bool shows_lines() const { return options_.progress != Progress::kSilent || options_.log_to_file; }

  nanoseconds until_next(BootTime now) const {
    nanoseconds wait = kTick;
    if (const auto due = loop_->next_wakeup()) wait = std::min<nanoseconds>(wait, *due - (now - loop_zero_));
    return std::max(wait, nanoseconds(0));
  }

  // Workers send lines in batches: those of the last trials are on their way when their actors have ended.
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
    if (const auto* line = std::get_if<LogLine>(&event)) {
      const auto trial = trial_of_.find(line->actor);  // Reused actors keep the name they were made with.
      const std::string display = trial == trial_of_.end() ? line->display : "trial " + name_of(*loop_->find(trial->second));
      if (options_.log_to_file) {
        const auto named = trial_named_.find(display);  // Of a line from before its setup was done.
        if (trial != trial_of_.end()) logger_.log_output(trial->second, line->is_stderr, line->text);
        else if (named != trial_named_.end()) logger_.log_output(named->second, line->is_stderr, line->text);
        if (options_.progress == Progress::kSilent) return;
      }
      const std::string node = line->node_name.empty() ? "" : ", node " + line->node_name;
      display_.print(fmt::format("({}{}) {}", display, node, line->text));
      return;
    }
    if (std::holds_alternative<AddAsked>(event)) return;
    const auto& executed = std::get<ExecutorEvent>(event);
    if (const auto* media = std::get_if<MediaReported>(&executed)) return logger_.log_media(media->trial, media->step, event_wall_, media->values);
    if (const auto* notice = std::get_if<AttemptNotice>(&executed)) return say(notice->text);
    if (const auto* waiting = std::get_if<AttemptActor>(&executed)) {
      actors_[waiting->trial] = waiting->actor;
      return;
    }
    if (const auto* place = std::get_if<AttemptPlace>(&executed)) {
      places_[place->trial] = *place;
      actors_[place->trial] = place->actor;
      if (options_.reuse_actors || options_.log_to_file) trial_of_[place->actor] = place->trial;
      return;
    }
    const Event& of_loop = std::get<Event>(executed);
    note_request(of_loop);
    if (const auto* failed = std::get_if<TrialFailed>(&of_loop)) note_failure(*failed);
    if (const auto* failed = std::get_if<CheckpointFailed>(&of_loop)) {
      // Said once, and only where checkpoints were asked for.
      const bool asked = options_.checkpoint.frequency > 0 || options_.checkpoint.at_end || loop_->scheduler().pauses();
      quiet_ = !asked || !checkpoint_errors_.insert(failed->error.text()).second;
    }
    std::visit([this](const auto& one) { touch(one); }, of_loop);
    tell(of_loop);
    quiet_ = false;
  }

  // Of the loop: it stands still between two drivers.
  BootTime loop_now() const { return environment_.clock.now() - loop_zero_; }

  // Events are in the journal before the loop is told of them: what comes of them is known to a driver that goes on from here. One write
  // for all that have come meanwhile, and one time.
  void write_down(const std::vector<RunnerEvent>& events) {
    stamp();
    for (const RunnerEvent& event : events) {
      const auto* executed = std::get_if<ExecutorEvent>(&event);
      if (executed == nullptr) continue;
      if (const auto* of_loop = std::get_if<Event>(executed)) add_to_journal(*of_loop);
      const auto* place = std::get_if<AttemptPlace>(executed);
      if (place != nullptr) journal_->add(JournalPlace{place->trial.value(), place->attempt, place->node, place->hostname, place->pid});
    }
    journal_->commit();
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

  // Of an event that is written down.
  void tell(const Event& event) {
    const bool was_ending = loop_->ending();
    callbacks_.before(event, *loop_);
    apply(loop_->handle(event_now_, event, event_wall_));
    callbacks_.after(event);
    if (loop_->ending() && !was_ending) journal_->add(JournalEnding{events_told_, end_.reason.text()});
    ++events_told_;
  }

  // ---- Going on with an earlier run.

  void replay(const JournalContents& earlier) {
    for (const JournalRecord& record : earlier.records) {
      events_told_ += std::holds_alternative<JournalEvent>(record);
      const auto* place = std::get_if<JournalPlace>(&record);
      if (place != nullptr) former_places_[{place->trial, place->attempt}] = *place;
    }
    event_wall_ = started_wall_;
    apply(loop_->begin(BootTime{}));
    BootTime last{};
    for (const JournalEvent& told : effective_events(earlier.records)) {
      last = BootTime{} + told.at;
      event_wall_ = WallTime(told.wall);
      std::visit([this](const auto& one) { touch(one); }, told.event);
      apply(loop_->handle(last, told.event, event_wall_));
    }
    keep_missing_decisions(earlier);
    loop_zero_ = environment_.clock.now() - last;
    if (!earlier.torn.empty()) say(fmt::format("{}: {}", journal_path(directory_.path()).string(), earlier.torn));
    if (recording_->differences() > 0) {
      say(fmt::format("the searcher would now suggest other configurations than it did in {}; those of the journal are used",
                      counted(recording_->differences(), "case")));
    }
    restore_files();
  }

  // Those of the last events, which a program that was killed had not written yet.
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

  // What the logger had not written yet when its process ended, and what it wrote half, is written anew.
  void restore_files() {
    CheckpointStore store(directory_.path());
    for (const Trial& trial : loop_->trials()) {
      std::vector<ResultRow>& rows = replayed_[trial.id];
      const bool goes_on = trial.status == TrialStatus::kFailed && retries_failed();
      const bool ended = has_ended(trial.status) && !goes_on;
      const ResultFiles files(directory_.path() / folder_of(trial));
      store.remove_partial(folder_of(trial));
      if (!ended) remove_unknown_checkpoints(store, trial);
      if (ended && files.rows() == static_cast<int64_t>(rows.size())) continue;
      const std::string media = options_.tensorboard ? files.media() : std::string();
      files.remove();
      logger_.start_trial(trial.id, rows.empty() ? event_wall_ : rows.front().reported, trial.config, folder_of(trial));
      logger_.keep_events(trial.id, event_wall_, media);
      for (ResultRow& row : rows) logger_.log(std::move(row));
      if (ended) end_files(trial);
    }
    replayed_.clear();
  }

  void remove_unknown_checkpoints(CheckpointStore& store, const Trial& trial) {
    for (const StoredCheckpoint& stored : store.list(folder_of(trial)).valid) {
      const bool known = std::any_of(trial.checkpoints.begin(), trial.checkpoints.end(), [&](const Checkpoint& one) { return one.step == stored.step; });
      if (!known) (void)store.remove(stored);
    }
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
    say(interrupts_ == 0 ? "interrupted: trials finish their step, checkpoint and stop; again: they stop at once"
                         : "interrupted again: trials stop at once");
    ending_ = interrupts_ == 0 ? "interrupted: trials checkpoint and stop" : "interrupted: trials stop at once";
    handle(Interrupt{});
    for (const Trial& trial : loop_->trials()) news_.note(trial);
  }

  // Says what somebody asked for, where the event is that.
  void note_request(const Event& event) {
    if (const auto* stop = std::get_if<StopRequested>(&event)) {
      note_request(*stop, "stop", "trials finish their step, checkpoint and stop");
      if (!stop->whole) return;
      stop_requested_ = true;
      ending_ = "on request: trials checkpoint and stop";
    }
    if (const auto* pause = std::get_if<PauseRequested>(&event)) note_request(*pause, "pause", "trials finish their step and checkpoint; nothing starts");
    if (const auto* resume = std::get_if<ResumeRequested>(&event)) note_request(*resume, "go on", "paused trials wait for places again");
  }
  template <class T>
  void note_request(const T& event, const char* what, const char* all) {
    if (!event.whole) return say(fmt::format("trial {} is to {}, on request", to_string(event.trial), what));
    say(fmt::format("to {}, on request: {}", what, all));
    for (const Trial& trial : loop_->trials()) news_.note(trial);
  }

  // Of the run's directory. The file goes once the request stands in the journal.
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

  // A configuration to be tried besides those of the searcher; what it leaves out is that of the trial `like`, or drawn. An error: why it is
  // not tried; nothing has changed.
  Result<void> take_configuration(const std::string& json, std::optional<TrialId> like, const std::string& request) {
    if (loop_->ending() || loop_->ended())
      return make_error(ErrorCode::kNotFound, fmt::format("{}: it ends; no configuration is added any more", directory_.key()));
    const auto given = Config::from_json(json);
    if (!given) return make_error(given.error());
    const Trial* const from = like ? loop_->find(*like) : nullptr;
    if (like && from == nullptr) return make_error(ErrorCode::kNotFound, fmt::format("{}: it has no trial {}", directory_.key(), to_string(*like)));
    auto config = from == nullptr ? completed_config("config", options_.space, *given, environment_.random)
                                  : changed_config("config", options_.space, from->config, *given, environment_.random);
    if (!config) return make_error(config.error());
    handle(ConfigAdded{request, std::move(*config), like});
    return {};
  }

  void note_failure(const TrialFailed& event) {
    const Trial* trial = loop_->find(event.trial);
    if (trial == nullptr || trial->attempt != event.attempt) return;
    const auto place = places_.find(event.trial);
    logger_.log_error(event.trial, environment_.clock.wall(),
                      fmt::format("attempt {}{}, after step {}: {}", event.attempt,
                                  place == places_.end() ? "" : " on node " + place->second.node, trial->step, event.error));
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
    const Trial& trial = *loop_->find(action.trial);
    logger_.start_trial(trial.id, environment_.clock.wall(), trial.config, folder_of(trial));
  }
  // In a replay there is no executor: all this was done before.
  void execute(const StartTrial& action) {
    release(action.trial, false);
    if (executor_ == nullptr) return;
    const Trial& trial = *loop_->find(action.trial);
    callbacks_.starts(action);
    if (options_.log_to_file) trial_named_.insert_or_assign("trial " + name_of(trial), trial.id);
    executor_->start(action.trial, action.attempt, {trial.config, trial.resources, action.restore, name_of(trial), folder_of(trial)});
  }
  void execute(const Step& action) {
    release(action.trial, false);
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
    if (executor_ != nullptr) executor_->clone(action.trial, action.attempt, folder_of(*loop_->find(action.trial)), action.checkpoint);
  }
  void execute(const TrialCloned& action) {
    if (executor_ == nullptr) return;
    const Trial& trial = *loop_->find(action.trial);
    logger_.start_trial(action.trial, environment_.clock.wall(), trial.config, folder_of(trial));
    if (action.from == action.trial) return;
    const auto logged = log_clone(directory_.path(), {action, loop_->find(action.from)->config, trial.config, folder_of(trial), folder_of(*loop_->find(action.from))});
    if (!logged) say(fmt::format("the log of copies is not complete: {}", logged.error().message));
  }
  void execute(const TrialEnded& action) {
    release(action.trial, true);
    if (executor_ == nullptr) return;
    end_files(*loop_->find(action.trial));
    callbacks_.ended(*loop_->find(action.trial));
  }
  void end_files(const Trial& trial) {
    logger_.end_trial(trial.id, event_wall_, trial.status == TrialStatus::kFinished || trial.status == TrialStatus::kStopped);
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
      has_left_ = true;  // Whatever call ended first.
      end_.error =
          Error{why->code, fmt::format("{}. What its trials have reported and saved is kept in {}; with a cluster "
                                       "again, .resume = \"{}\" or `volador tune resume {}` goes on from there",
                                       why->message, display_path(directory_.path()), directory_.path().string(),
                                       directory_.argument())};
    }
  }
  void execute(const RecordResult& action) {
    if (action.replayed) return;  // It stands in the files already: each step counts once.
    release(action.trial, false);
    const Trial& trial = *loop_->find(action.trial);
    news_.note_point(trial, action);
    if (executor_ != nullptr) callbacks_.result(trial, action.result);
    ResultRow row;
    row.trial = action.trial;
    row.metrics = action.result;
    row.step = action.step;
    row.time_this_iter_s = action.result.get("time_this_iter_s").value_or(0);
    row.time_total_s = action.result.get("time_total_s").value_or(0);
    row.reported = event_wall_;
    row.node = trial.node;
    if (const auto former = former_places_.find({action.trial.value(), action.attempt}); former != former_places_.end()) {
      row.hostname = former->second.hostname;
      row.pid = former->second.pid;
    } else if (const auto place = places_.find(action.trial); place != places_.end()) {
      row.hostname = place->second.hostname;
      row.pid = place->second.pid;
    }
    held_[action.trial] = std::move(row);
  }

  // The last result of a trial goes to its files once it is known whether another one follows.
  void release(TrialId trial, bool done) {
    const auto found = held_.find(trial);
    if (found == held_.end()) return;
    found->second.done = done;
    if (executor_ == nullptr) {
      replayed_[trial].push_back(std::move(found->second));
    } else {
      logger_.log(std::move(found->second));
    }
    held_.erase(found);
  }

  void say(const Reason& notice) {
    notices_.push_back(notice);
    if (options_.progress != Progress::kSilent) display_.say(notice);
  }

  void take_tags_of_callbacks() {
    for (const TrialTagged& tagged : callbacks_.take_tags()) {
      touch(tagged);
      handle(tagged);
    }
  }

  void say_notices_of_callbacks() {
    for (const std::string& text : callbacks_.take_notices()) say(text);
  }

  // ---- What is due now and then.

  void periodic(BootTime now) {
    if (now >= next_look_) {
      next_look_ = now + kTick;
      follow_cluster();
      follow_disk();
      say_notices_of_callbacks();
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
    if (now >= next_state_ || state_name(false) != state_written_) write_state(now, state_name(false));
    if (options_.progress != Progress::kSilent && now >= next_draw_ && display_.is_due(now)) {
      display_.update(progress_.snapshot(*loop_, moment()), now);
      next_draw_ = environment_.clock.now() + (environment_.clock.now() - now) * kCostShare;
    }
  }

  // The one number that the terminal, the head and the state file show.
  void estimate(BootTime now) {
    left_ = loop_->time_left(loop_now());
    const BootTime after = environment_.clock.now();
    next_left_ = after + std::max<nanoseconds>(kLeftInterval, (after - now) * kCostShare);
    news_.note_left(left_, now);
  }

  void say_lines_left_out() {
    const int64_t lines = queue_.take_left_out();
    if (lines == 0) return;
    say(fmt::format("{} left out here{}: they came faster than they can be shown; `volador logs TRIAL` has them", counted(lines, "line of trials is", "lines of trials are"),
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

  // Nothing of the run goes on without a cluster, and this one has no place for it any more.
  void follow_session() {
    if (has_left_ || loop_->ended()) return;
    const auto why = environment_.session->left();
    if (!why) return;
    has_left_ = true;
    handle(Abort{*why});
  }

  void tell_resources() {
    if (loop_->ended() || !loop_->scheduler().changes_resources() || totals_.total == resources_told_) return;
    resources_told_ = totals_.total;
    handle(ClusterChanged{{resources_told_.entries().begin(), resources_told_.entries().end()}});
  }

  void follow_disk() {
    const ResultLoggerStatus status = logger_.status();
    if (status.error && !disk_trouble_) {
      say(fmt::format("results cannot be written: {}; they are kept in memory and tried again, the run goes on", status.error->message));
    }
    if (!status.error && disk_trouble_) say("results are written again; nothing was lost so far but what was said");
    if (status.rows_lost > rows_lost_) {
      if (rows_lost_ == 0) say("results cannot be written and memory for them is full: new ones are lost until the disk takes them again");
      rows_lost_ = status.rows_lost;
    }
    disk_trouble_ = status.error.has_value();
    if (journal_->status() && !journal_trouble_)
      say(fmt::format("the journal cannot be written: {}; the run goes on, a resume would know what came before only", journal_->status()->message));
    journal_trouble_ = journal_->status().has_value() || journal_->lost();
  }

  std::string state_name(bool ended) const {
    if (!ended) return loop_->paused() ? "paused" : "running";
    const bool failed_fast = options_.fail_fast && loop_->counts().by_status[static_cast<int>(TrialStatus::kFailed)] > 0;
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

  ExperimentState state(const std::string& name) const {
    ExperimentState state;
    state.name = options_.name;
    state.state = name;
    state.reason = end_.reason;
    state.metric = options_.metric;
    state.mode = options_.mode;
    state.tags = options_.tags;
    state.goals = {options_.objectives, options_.constraints};
    state.seed = seed_;
    state.scheduler = loop_->scheduler().describe();
    state.searcher = loop_->searcher().describe();
    state.space = space_text(options_.space);
    state.stop = stop_texts(options_.stop);
    state.origin = origin_;
    state.started = started_wall_;
    state.written = environment_.clock.wall();
    state.trials.assign(loop_->trials().begin(), loop_->trials().end());
    state.notices = notices_;
    state.trials_planned = loop_->counts().total.value_or(0);
    state.left = left_;
    return state;
  }

  // Where git has answered by now; `wait`: it answers within seconds.
  void note_revision(bool wait) {
    if (!revision_.valid() || (!wait && revision_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)) return;
    const SourceRevision revision = revision_.get();
    origin_.git_commit = revision.commit;
    origin_.git_branch = revision.branch;
    origin_.git_changed = revision.changed;
    if (!revision.changed) return;
    const auto written = write_file_atomically(directory_.path() / "source.diff", revision.diff);
    if (!written) say(fmt::format("source.diff is not written: {}", written.error().message));
  }

  void write_state(BootTime now, const std::string& name) {
    note_revision(name != "running" && name != "paused");
    state_written_ = name;
    const auto written = directory_.write_state(to_json(state(name)));
    if (!written && !state_trouble_) say(fmt::format("experiment_state.json is not up to date: {}", written.error().message));
    state_trouble_ = !written;
    const BootTime after = environment_.clock.now();
    next_state_ = after + std::max<nanoseconds>(kStateInterval, (after - now) * kCostShare);
  }

  RunMoment moment() const {
    return {.totals = totals_, .elapsed = environment_.clock.now() - started_, .left = left_, .ending = ending_};
  }

  // ---- The end.

  Result<Analysis> finish() {
    left_.reset();
    const ResultLoggerStatus written = logger_.flush();
    const int64_t lost = written.rows_lost + written.rows_unwritten;
    if (lost > 0) {
      say(fmt::format("{} lost, {} written: {}", counted(lost, "result is", "results are"), counted(written.rows_written, "was", "were"),
                      written.error ? written.error->message : "the disk refused them for too long"));
    }
    const std::string name = state_name(true);
    callbacks_.drain();
    take_tags_of_callbacks();
    for (const Trial& trial : loop_->trials()) news_.note(trial);
    report(name);
    if (callbacks_.listens()) callbacks_.end(Analysis(state(name), directory_.path()));
    say_notices_of_callbacks();
    write_state(environment_.clock.now(), name);
    if (options_.progress != Progress::kSilent) display_.finish(progress_.snapshot(*loop_, moment()));
    if (end_.error) return make_error(*end_.error);
    return Analysis(state(name), directory_.path());
  }

  const RunnerEnvironment& environment_;
  const RunOptions options_;
  const ResourceSet resources_;
  const uint64_t seed_;
  const ExperimentDirectory directory_;
  LiveDisplay display_;
  ResultLogger logger_;
  const std::unique_ptr<ExperimentJournal> journal_;
  RunCallbacks callbacks_;
  RunProgress progress_;
  RunNews news_;
  EventQueue<RunnerEvent> queue_;
  std::unique_ptr<TrialLoop> loop_;
  TrialExecutor* executor_ = nullptr;
  std::vector<ResourceSet> bundles_;  // Of each trial; none: resources_ alone.
  std::unordered_map<TrialId, AttemptPlace> places_;
  std::unordered_map<TrialId, ActorId> actors_;  // Those that wait for a place, too.
  std::unordered_map<std::string, TrialId> trial_named_;  // As lines of their actors call them; with log_to_file.
  std::unordered_map<ActorId, TrialId> trial_of_;  // Of reused actors.
  std::unordered_map<TrialId, ResultRow> held_;  // Last results whose "done" is not known yet.
  RecordingSearcher* const recording_;
  std::map<std::pair<uint32_t, int64_t>, JournalPlace> former_places_;  // Of attempts of earlier drivers.
  std::unordered_map<TrialId, std::vector<ResultRow>> replayed_;
  std::vector<DecisionRecord> replayed_decisions_;
  nanoseconds loop_zero_{0};  // The clock at the loop's time 0.
  BootTime event_now_{};      // Of the event that the loop is told, in its time,
  WallTime event_wall_{};     // and as clocks have it.
  int64_t events_told_ = 0;
  std::set<std::string> checkpoint_errors_;
  std::vector<Reason> notices_;
  EndExperiment end_;
  std::string ending_;
  ClusterTotals totals_;
  ResourceSet resources_told_;  // Of the cluster.
  int64_t slots_ = -1;
  int64_t rows_lost_ = 0;
  int interrupts_ = 0;
  bool stop_requested_ = false;
  bool has_left_ = false;  // The cluster, for good.
  bool quiet_ = false;  // Notices of this event are not said.
  bool disk_trouble_ = false;
  bool state_trouble_ = false;
  bool journal_trouble_ = false;
  std::optional<TimeLeft> left_;
  std::string state_written_;  // The word in experiment_state.json.
  BootTime started_{}, next_look_{}, next_report_{}, next_state_{}, next_draw_{}, next_left_{};
  WallTime started_wall_{};
  RunOrigin origin_;
  std::future<SourceRevision> revision_;
};

}  // namespace

Result<Analysis> run_experiment(const RunnerEnvironment& environment, const TrainableRef& trainable, RunOptions options) {
  auto prepared = prepare_run(trainable, std::move(options), environment.random);
  if (!prepared) return make_error(prepared.error());
  PreparedRun& run = *prepared;
  run.header.started = environment.clock.wall().time_since_epoch();
  auto directory = run.earlier ? ExperimentDirectory::open(run.options.resume, run.options.name)
                               : ExperimentDirectory::create({.name = run.options.name, .storage_path = run.options.storage_path}, environment.clock.wall());
  if (!directory) return make_error(directory.error());
  auto journal = run.earlier ? ExperimentJournal::open(directory->path(), run.earlier->whole_bytes) : ExperimentJournal::create(directory->path(), run.header);
  if (!journal) return make_error(journal.error());
  remove_interrupted_writes(directory->path().parent_path(), run.options.name, directory->path());
  Runner runner(environment, std::move(run.options), std::move(run.resources), run.seed, std::move(run.loop), *run.recording, std::move(*directory),
                std::move(*journal));
  return runner.run(trainable, run);
}

}  // namespace volador::tune
