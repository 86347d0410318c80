#include "train/report/run_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <variant>

#include "runtime/actor/session.h"
#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/quantities.h"
#include "runtime/random.h"
#include "runtime/utf8.h"
#include "tune/display/trial_report.h"
#include "tune/execution/experiment_request.h"
#include "tune/execution/run_results.h"
#include "tune/execution/this_program.h"
#include "tune/loop/best_trial.h"
#include "tune/results/experiment_directory.h"
#include "tune/results/experiment_journal.h"
#include "tune/results/experiment_state.h"
#include "tune/results/result_text.h"
#include "tune/results/run_mirror.h"
#include "tune/seconds.h"

namespace volador::train {
namespace {

using tune::Trial;
using tune::TrialStatus;

constexpr std::chrono::seconds kStateInterval{1};  // Minimum time between writes of experiment_state.json;
constexpr int kCostShare = 20;                     // writing takes at most 1/kCostShare of the time.
constexpr std::chrono::milliseconds kIntervalMin{10};
constexpr size_t kSentenceBytesMax = 2000;
constexpr double kNormal95 = 1.645;  // Quantile of the normal distribution: 90 % lie within ± this.
constexpr std::string_view kNoFiles = "none";
constexpr std::chrono::seconds kActivityInterval{1};       // Minimum time between reports of what ranks do,
constexpr std::chrono::milliseconds kActivityPerRank{10};  // and the same for each rank.
constexpr double kLongStep = 1;                            // Seconds in a step that are worth a word.

struct Row {
  int64_t iteration = 0;
  tune::Metrics metrics;
  BootTime at{};
  WallTime wall{};
};
struct Event {
  std::string sentence;
  WallTime at{};
};
struct Fault {
  int rank = -1;
  std::string error;
  WallTime at{};
};
struct Ranks {
  std::vector<RankReport> ranks;
  int64_t step = -1;
  WallTime at{};
};
struct End {
  RunOutcome outcome = RunOutcome::kStopped;
  std::string message;
};
using Entry = std::variant<Row, Event, Fault, Ranks, End>;

std::string scheduler_text(const RunReportOptions& options) {
  return std::string(kTrainKind) + (options.resources.empty() ? "" : ": " + options.resources);
}

Error unsupported(std::string_view act) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("{}: a training run takes only \"stop\"; its program goes on from its last checkpoint", act)};
}

constexpr const char* kStopAsked = "a user asked the run to stop";

Error not_alone(const std::string& trial) {
  return {ErrorCode::kInvalidArgument, fmt::format("trial {}: a rank is not stopped alone; stop the whole run", trial)};
}

// Returns plain_text() of each line: the error of a hang has a line for each rank.
std::string plain_lines(std::string_view text, size_t bytes_max) {
  std::string plain;
  for (size_t at = 0; at < text.size() && plain.size() < bytes_max;) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (at > 0) plain += '\n';
    plain += plain_text(text.substr(at, end - at), bytes_max - plain.size());
    at = end + 1;
  }
  return plain;
}

// "forward pass for 4.2 s", "all_reduce of 64 elements of Float; waits for ranks 1, 3". The dashboard reads it again.
std::string activity_text(const RankActivity& activity) {
  std::string text = activity.activity;
  if (text.empty()) return text;
  if (activity.in_step_s >= kLongStep) text += fmt::format(" for {:.1f} s", activity.in_step_s);
  if (!activity.waiting_for.empty())
    text += fmt::format("; waits for {} {}", activity.waiting_for.size() == 1 ? "rank" : "ranks",
                        fmt::join(activity.waiting_for, ", "));
  return plain_text(text, kSentenceBytesMax);
}

// Durations of the reports so far, for the estimate of the time left.
class Pace {
 public:
  void add(double seconds, int64_t iterations) {
    ++reports_;
    iterations_ += iterations;
    const double before = seconds - mean_;
    mean_ += before / static_cast<double>(reports_);
    squares_ += before * (seconds - mean_);
  }
  // No value: fewer than two reports were timed, or nothing is left to do.
  std::optional<TimeLeft> left(int64_t iterations) const {
    if (reports_ < 2 || iterations <= 0) return std::nullopt;
    const auto seen = static_cast<double>(reports_);
    const double reports = static_cast<double>(iterations) * seen / static_cast<double>(iterations_);
    const double deviation = std::sqrt(squares_ / (seen - 1));
    // The sum of the coming durations varies, and so does the mean that was measured.
    const double margin = kNormal95 * deviation * std::sqrt(reports + reports * reports / seen);
    const double seconds = reports * mean_;
    return TimeLeft{.seconds = seconds, .low = std::max(seconds - margin, 0.0), .high = seconds + margin};
  }

 private:
  int64_t reports_ = 0, iterations_ = 0;
  double mean_ = 0, squares_ = 0;
};

}  // namespace

// Queue to the report's thread.
struct RunReport::Inbox {
  std::mutex mutex;
  std::condition_variable wake;  // Wakes the thread: flush or end.
  std::condition_variable done;  // Wakes flush().
  std::vector<Entry> entries;
  std::optional<std::string> doing;        // What the run does, if that has changed.
  std::map<int, RankActivity> activities;  // By rank.
  int64_t left_out = 0;
  bool ended = false;
  uint64_t flushes_asked = 0, flushes_done = 0;
  std::atomic<bool> stop{false};
  std::string train;  // Id of the trial "train"; constant once requests arrive.

  void put(Entry entry) {
    const std::lock_guard<std::mutex> hold(mutex);
    if (ended) return;
    if (entries.size() >= kWaitingMax) {
      ++left_out;
      return;
    }
    entries.push_back(std::move(entry));
  }
  void take(const ExperimentRequest& request) {
    const auto event = [this](std::string sentence) { put(Event{std::move(sentence), SystemClock().wall()}); };
    if (request.act != "stop") return event(unsupported(request.act).message);
    if (!request.trial.empty() && request.trial != train) return event(not_alone(request.trial).message);
    if (!stop.exchange(true)) event(kStopAsked);
  }
};

// State of the run. Its members are used on its thread, after construction.
class RunReport::Writer {
 public:
  Writer(std::shared_ptr<Session> session, RunReportOptions options, std::shared_ptr<Inbox> inbox)
      : session_(std::move(session)), options_(std::move(options)), inbox_(std::move(inbox)) {
    options_.interval = std::max(options_.interval, kIntervalMin);
    if (options_.config.is_null()) options_.config = tune::Config::map();
    if (!options_.config.is_map())
      throw Exception({ErrorCode::kInvalidArgument, fmt::format("config: expected a map of names and values, got {}",
                                                                tune::to_string(options_.config.kind()))});
    key_ = SystemRandom().next();
    started_ = clock_.now();
    state_.started = clock_.wall();
    open_files();
    begin();
    start_copy();
    if (session_ != nullptr)
      session_->on_request(experiment_, [to = inbox_](const ExperimentRequest& request) { to->take(request); });
    thread_ = std::thread([this] { run(); });
  }
  ~Writer() { join(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void join() {
    const std::lock_guard<std::mutex> hold(join_mutex_);
    if (thread_.joinable()) thread_.join();
  }

  void note_checkpoint() {
    const std::lock_guard<std::mutex> hold(join_mutex_);
    if (mirror_ != nullptr) mirror_->note_checkpoint();
  }
  // After join().
  void store_rest(const std::function<bool()>& is_interrupted) {
    const std::lock_guard<std::mutex> hold(join_mutex_);
    const auto mirror = std::exchange(mirror_, nullptr);
    if (mirror == nullptr) return;
    const auto stored = mirror->finish([&] { return is_interrupted && is_interrupted(); });
    if (!stored) log::warn("train", stored.error().message);
  }

  const std::string& experiment() const { return experiment_; }
  const std::filesystem::path& directory() const { return directory_; }

 private:
  struct Files {
    Files(tune::ExperimentDirectory made, bool tensorboard) : directory(std::move(made)) {
      options.tensorboard = tensorboard;
      results.emplace(options, directory);
      results->go_live();
    }
    tune::RunOptions options;
    const tune::ExperimentDirectory directory;
    std::optional<tune::RunResults> results;
    std::unique_ptr<tune::ExperimentJournal> journal;
  };

  Trial& train() { return state_.trials.front(); }

  void open_files() {
    if (options_.directory != kNoFiles) {
      auto place = tune::place_of_runs(options_.directory);
      if (!place) throw Exception({place.error().code, fmt::format("storage: {}", place.error().message)});
      copies_ = std::move(place->copies);
      auto made =
          tune::ExperimentDirectory::create({.name = options_.name, .storage_path = place->folder}, state_.started);
      if (!made) throw Exception(made.error());
      experiment_ = made->key();
      directory_ = made->path();
      files_ = std::make_unique<Files>(std::move(*made), options_.tensorboard);
      return;
    }
    if (options_.name.empty() || options_.name.find('/') != std::string::npos)
      throw Exception({ErrorCode::kInvalidArgument,
                       fmt::format("name: expected a name without slashes, got \"{}\"", options_.name)});
    constexpr uint64_t kSuffixes = 1'000'000;  // Without a directory nothing else keeps runs of one second apart.
    experiment_ = fmt::format("{}_{}_{:06}", options_.name, tune::DateText().of(state_.started), key_ % kSuffixes);
  }

  void start_copy() {
    if (!copies_) return;
    auto mirror = tune::RunMirror::start_new(*copies_, files_->directory);
    if (mirror) {
      mirror_ = std::move(*mirror);
      return;
    }
    files_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
    throw Exception({mirror.error().code, fmt::format("storage: {}", mirror.error().message)});
  }

  void begin() {
    state_.name = options_.name;
    state_.state = "running";
    state_.metric = options_.metric;
    state_.mode = options_.mode;
    state_.tags = {std::string(kTrainKind)};
    for (const std::string& tag : options_.tags) {
      if (tag != kTrainKind) state_.tags.push_back(tag);
    }
    state_.scheduler = scheduler_text(options_);
    state_.searcher = kTrainKind;
    if (options_.planned > 0) state_.stop = {fmt::format("after {} steps", options_.planned)};
    const tune::JournalProgram program = tune::this_program({});
    state_.origin = {program.arguments, program.working_directory, program.hostname, {}, {}, false};
    Trial& trial = state_.trials.emplace_back();
    trial.id = tune::TrialId::of(key_, 0);
    trial.name = kTrainKind;
    trial.folder = fmt::format("train-{}", to_string(trial.id));
    trial.config = options_.config;
    trial.status = TrialStatus::kRunning;
    trial.attempt = 1;
    trial.started = state_.started;
    if (session_ != nullptr) trial.node = session_->node_name();
    actors_.emplace_back();
    changed_.insert(0);
    inbox_->train = to_string(trial.id);
    if (!files_) return;
    // Without a record of the program `volador tune resume` refuses to start it again.
    auto journal = tune::ExperimentJournal::create(directory_, {.name = options_.name,
                                                                .metric = options_.metric,
                                                                .mode = std::string(tune::to_string(options_.mode)),
                                                                .searcher = std::string(kTrainKind),
                                                                .scheduler = state_.scheduler,
                                                                .total = 1,
                                                                .started = state_.started.time_since_epoch(),
                                                                .key = key_});
    if (!journal) throw Exception(journal.error());
    files_->journal = std::move(*journal);
    files_->journal->add(tune::JournalSuggestion{0, trial.config});
    files_->journal->add(tune::JournalLabels{{}, state_.tags});
    files_->journal->commit();
    tune::AttemptPlace place;
    place.trial = trial.id;
    place.node = trial.node;
    place.hostname = program.hostname;
    place.pid = getpid();
    files_->results->note(place);
    files_->results->start(trial, state_.started);
    write_state();
  }

  void run() {
    pthread_setname_np(pthread_self(), "train-report");
    std::vector<Entry> taken;
    std::unique_lock<std::mutex> hold(inbox_->mutex);
    while (true) {
      inbox_->wake.wait_for(hold, options_.interval,
                            [this] { return inbox_->ended || inbox_->flushes_asked > inbox_->flushes_done || first_; });
      first_ = false;
      const bool last = inbox_->ended;
      const uint64_t flushes = inbox_->flushes_asked;
      const int64_t left_out = std::exchange(inbox_->left_out, 0);
      taken.swap(inbox_->entries);
      const std::optional<std::string> doing = std::exchange(inbox_->doing, std::nullopt);
      std::map<int, RankActivity> activities;
      const bool is_flush = flushes > 0 && flushes != flushed_;
      if (last || is_flush || clock_.now() >= next_activity_) activities.swap(inbox_->activities);
      hold.unlock();
      try {
        pass(taken, left_out, last, is_flush, doing, activities);
      } catch (const std::exception& exception) {  // Such as bad_alloc, or an error of the session.
        if (!std::exchange(has_lost_, true)) note(fmt::format("reports of this run are lost: {}", exception.what()));
      }
      taken.clear();
      flushed_ = flushes;
      hold.lock();
      inbox_->flushes_done = flushes;
      inbox_->done.notify_all();
      if (last) return;
    }
  }

  void pass(std::vector<Entry>& taken, int64_t left_out, bool last, bool flushes,
            const std::optional<std::string>& doing, const std::map<int, RankActivity>& activities) {
    if (left_out > 0)
      note(fmt::format("{} left out: they came faster than they can be written",
                       counted(left_out, "report was", "reports were")));
    for (Entry& entry : taken) {
      std::visit([this](auto& one) { take(one); }, entry);
    }
    if (doing) take_doing(*doing);
    take(activities);
    if (files_) {
      if (!last) follow_requests();
      for (const std::string& notice : files_->results->take_disk_notices()) note(notice);
      if (mirror_ != nullptr) {
        for (const std::string& notice : mirror_->take_notices()) note(notice);
      }
      if (last) {
        if (const std::string lost = files_->results->finish(); !lost.empty()) note(lost);
      } else if (flushes) {
        (void)files_->results->logger().flush();
      }
      if (last || flushes || (is_state_due_ && clock_.now() >= next_state_)) write_state();
    }
    if (session_ == nullptr) return;
    if (last) session_->on_request(experiment_, nullptr);
    if (!changed_.empty() || last) send(last);
  }

  void take(Row& row) {
    Trial& trial = train();
    if (row.iteration <= trial.step) return;
    if (files_) files_->results->release(trial.id, false);
    const double total_s = tune::seconds_of(row.at - started_);
    const double this_s = total_s - trial.time_total_s;
    if (is_timed_) pace_.add(this_s, row.iteration - trial.step);
    is_timed_ = true;  // The first report includes the start of the ranks.
    trial.step = trial.step_max = row.iteration;
    trial.time_total_s = total_s;
    if (trial.failures > 0 && !row.metrics.contains("faults"))
      row.metrics.set("faults", static_cast<double>(trial.failures));
    tune::Metrics result;
    result.take(row.metrics,
                {{"training_iteration", static_cast<double>(row.iteration)},
                 {"time_this_iter_s", this_s},
                 {"time_total_s", total_s}},
                trial.last_result);
    trial.last_result = std::move(result);
    for (const auto& [name, value] : trial.last_result) {
      const auto found = trial.metrics.find(name);
      (found == trial.metrics.end() ? trial.metrics[name] : found->second).add(value, row.iteration);
    }
    if (const auto steps = trial.last_result.get("step")) steps_ = static_cast<int64_t>(*steps);
    state_.left = pace_.left(options_.planned - row.iteration);
    if (files_)
      files_->results->add(trial, {.trial = trial.id, .attempt = 1, .step = row.iteration, .result = trial.last_result},
                           row.wall);
    add_point(0);
    touch(0);
  }

  void note(const std::string& sentence) {
    if (state_.notices.size() == kNoticesMax) state_.notices.erase(state_.notices.begin());
    state_.notices.emplace_back(sentence);
    if (!has_ended(train().status) && !is_doing_) train().reason = sentence;
    touch(0);
  }

  void add_event(std::string_view kind, WallTime at, std::string sentence, int64_t step, int rank = -1) {
    const size_t number = events_++;
    if (number < kEventsMax) event_rows_.push_back(add_row());
    const size_t index = event_rows_[number % kEventsMax];
    Trial& row = state_.trials[index];
    row.name = fmt::format("event {}", number + 1);
    row.config = tune::Config{{"event", std::string(kind)}};
    if (rank >= 0) row.config.set("rank", rank);
    row.config.set("workers", workers());
    if (step >= 0) row.config.set("step", step);
    row.status = TrialStatus::kFinished;
    row.started = row.ended = at;
    row.reason = std::move(sentence);
    touch(index);
  }

  size_t add_row() {
    const size_t index = state_.trials.size();
    Trial& made = state_.trials.emplace_back();
    made.id = tune::TrialId::of(key_, static_cast<int64_t>(index));
    made.index = static_cast<int64_t>(index);
    actors_.emplace_back();
    return index;
  }

  // Ranks that have neither failed nor left.
  int64_t workers() const {
    return std::count_if(row_of_rank_.begin(), row_of_rank_.end(),
                         [this](const auto& row) { return state_.trials[row.second].status == TrialStatus::kRunning; });
  }

  void take(const Event& event) {
    note(event.sentence);
    add_event("note", event.at, event.sentence, steps_);
  }

  void take(const Fault& fault) {
    ++train().failures;
    const std::string sentence =
        fault.rank < 0 ? fault.error : fmt::format("rank {} failed: {}", fault.rank, fault.error);
    note(sentence);
    if (files_)
      files_->results->logger().log_error(train().id, fault.at,
                                          fmt::format("after step {}: {}", train().step, sentence));
    if (const auto found = row_of_rank_.find(fault.rank); found != row_of_rank_.end()) {
      Trial& rank = state_.trials[found->second];
      rank.status = TrialStatus::kFailed;
      rank.error = fault.error;
      rank.reason = {};
      rank.ended = fault.at;
      ++rank.failures;
      touch(found->second);
    }
    add_event("fault", fault.at, fault.error, steps_, fault.rank);
  }

  void take_doing(const std::string& sentence) {
    is_doing_ = !sentence.empty();
    if (has_ended(train().status) || train().reason.text() == sentence) return;
    train().reason = sentence;
    touch(0);
  }

  void take(const std::map<int, RankActivity>& activities) {
    if (activities.empty()) return;
    next_activity_ = clock_.now() + std::max<std::chrono::nanoseconds>(
                                        kActivityInterval, kActivityPerRank * static_cast<int64_t>(activities.size()));
    for (const auto& [number, activity] : activities) {
      const auto found = row_of_rank_.find(number);
      if (found == row_of_rank_.end()) continue;
      Trial& rank = state_.trials[found->second];
      if (rank.status != TrialStatus::kRunning) continue;
      steps_ = std::max(steps_, activity.step);
      std::string text = activity_text(activity);
      if (rank.last_result.get("step") == static_cast<double>(activity.step) && rank.reason.text() == text) continue;
      rank.last_result.set("step", static_cast<double>(activity.step));
      rank.reason = std::move(text);
      touch(found->second);
    }
  }

  void take(Ranks& given) {
    const WallTime now = given.at;
    std::map<int, ActorId> group;
    if (given.step >= 0) steps_ = given.step;
    std::vector<bool> is_there(state_.trials.size(), false);
    for (RankReport& one : given.ranks) {
      if (one.rank < 0 || one.rank >= kRanksMax) continue;
      const auto [found, is_new] = row_of_rank_.try_emplace(one.rank, state_.trials.size());
      const size_t index = found->second;
      if (is_new) {
        add_row();
        state_.trials[index].name = fmt::format("rank {}", one.rank);
        is_there.push_back(true);
      }
      is_there[index] = true;
      group.insert_or_assign(one.rank, one.actor);
      Trial& rank = state_.trials[index];
      rank.config = tune::Config{{"rank", one.rank}};
      if (one.pid > 0) rank.config.set("pid", one.pid);
      if (!one.device.empty()) rank.config.set("device", plain_text(one.device, kSentenceBytesMax));
      if (rank.status != TrialStatus::kRunning || actors_[index] != one.actor) {
        rank.status = TrialStatus::kRunning;
        ++rank.attempt;
        if (rank.attempt == 1) rank.started = now;
        rank.ended = {};
        rank.error = rank.reason = {};
      }
      actors_[index] = one.actor;
      rank.node = std::move(one.node);
      if (!one.metrics.empty()) {
        const auto step = rank.last_result.get("step");
        rank.last_result = std::move(one.metrics);
        if (step && !rank.last_result.contains("step")) rank.last_result.set("step", *step);
      }
      if (train().step > rank.step) {
        rank.step = rank.step_max = train().step;
        rank.time_total_s = train().time_total_s;
        if (!rank.last_result.empty()) add_point(index);
      }
      touch(index);
    }
    for (size_t index = 1; index < is_there.size(); ++index) {
      if (!is_there[index]) leave(index, TrialStatus::kStopped, "it left the group", now);
    }
    if (group == group_) return;
    const bool is_first = std::exchange(group_, std::move(group)).empty();
    std::string sentence =
        fmt::format("The run {} with {}{}.", is_first ? "trains" : "goes on", counted(workers(), "worker", "workers"),
                    given.step > 0 ? fmt::format(" from step {}", given.step) : "");
    if (!is_first) note(sentence);
    add_event("group", now, std::move(sentence), given.step);
  }

  void leave(size_t index, TrialStatus status, const char* why, WallTime now) {
    Trial& rank = state_.trials[index];
    if (has_ended(rank.status)) return;
    rank.status = status;
    rank.reason = why;
    rank.ended = now;
    touch(index);
  }

  void take(const End& end) {
    const WallTime now = clock_.wall();
    Trial& trial = train();
    const bool finished = end.outcome == RunOutcome::kFinished;
    const bool failed = end.outcome == RunOutcome::kFailed;
    state_.state = finished ? "finished" : failed ? "failed" : "interrupted";
    state_.reason = end.message;
    state_.left.reset();
    trial.status = finished ? TrialStatus::kFinished : failed ? TrialStatus::kFailed : TrialStatus::kInterrupted;
    trial.ended = now;
    if (failed) {
      trial.error = end.message;
      if (files_)
        files_->results->logger().log_error(trial.id, now, fmt::format("after step {}: {}", trial.step, end.message));
    }
    trial.reason = failed ? Reason() : Reason(end.message);
    for (size_t index = 1; index < state_.trials.size(); ++index)
      leave(index, finished ? TrialStatus::kFinished : TrialStatus::kInterrupted, finished ? "" : "the run ended", now);
    touch(0);
    if (!files_) return;
    files_->results->release(trial.id, true);
    files_->results->end(trial, now);
  }

  void follow_requests() {
    for (const tune::RequestAsked& asked : tune::experiment_requests(directory_)) {
      if (asked.act != tune::RequestAct::kStop) {
        tune::answer_request(asked, unsupported(tune::to_string(asked.act)));
      } else if (asked.trial && *asked.trial != train().id) {
        tune::answer_request(asked, not_alone(to_string(*asked.trial)));
      } else {
        if (!inbox_->stop.exchange(true)) take(Event{kStopAsked, clock_.wall()});
        tune::answer_request(asked);
      }
    }
  }

  void write_state() {
    const BootTime begun = clock_.now();
    is_state_due_ = false;
    state_.written = clock_.wall();
    const auto written = files_->directory.write_state(to_json(state_));
    if (!written && !state_trouble_)
      note(fmt::format("experiment_state.json is not up to date: {}", written.error().message));
    state_trouble_ = !written;
    const BootTime after = clock_.now();
    next_state_ = after + std::max<std::chrono::nanoseconds>(kStateInterval, (after - begun) * kCostShare);
  }

  void touch(size_t index) {
    is_state_due_ = true;
    changed_.insert(index);
  }

  void add_point(size_t index) {
    if (session_ == nullptr) return;
    const Trial& trial = state_.trials[index];
    TrialPoint point{.step = trial.step, .time_s = trial.time_total_s};
    for (const auto& [name, value] : trial.last_result) point.metrics[name] = value;
    points_[index].push_back(std::move(point));
  }

  BestReport best(tune::Scope scope) {
    tune::BestOfTrials best(options_.mode, scope);
    if (const auto summary = train().metrics.find(options_.metric); summary != train().metrics.end())
      best.add(train(), summary->second);
    return tune::report_of(best.best());
  }

  void send(bool last) {
    ExperimentReport report;
    report.experiment = experiment_;
    report.state = state_.state;
    report.metric = options_.metric;
    report.mode = tune::to_string(options_.mode);
    report.directory = directory_.string();
    report.trials_total = static_cast<int64_t>(state_.trials.size());
    report.scheduler = state_.scheduler;
    report.left = state_.left;
    if (!std::exchange(tags_sent_, true)) report.tags = state_.tags;
    report.best = best(tune::Scope::kLast);
    report.best_so_far = best(tune::Scope::kAll);
    if (last) {  // All rows, in case an earlier report was lost.
      for (size_t index = 0; index < state_.trials.size(); ++index) touch(index);
    }
    for (const size_t index : changed_) {
      TrialReport row = tune::report_of(state_.trials[index]);
      row.actor = actors_[index];
      if (index == 0 && options_.planned > 0) row.metrics["planned_iterations"] = static_cast<double>(options_.planned);
      if (const auto points = points_.find(index); points != points_.end()) row.points = std::move(points->second);
      report.trials.push_back(std::move(row));
    }
    changed_.clear();
    points_.clear();
    session_->report(report);
  }

  const std::shared_ptr<Session> session_;
  RunReportOptions options_;
  const std::shared_ptr<Inbox> inbox_;
  const SystemClock clock_;
  uint64_t key_ = 0;  // The trials' ids derive from it.
  std::string experiment_;
  std::filesystem::path directory_;
  std::unique_ptr<Files> files_;
  std::optional<storage::StorageUrl> copies_;
  std::unique_ptr<tune::RunMirror> mirror_;  // Null: the directory is all, or the run has ended.
  tune::ExperimentState state_;              // The first trial is "train"; the others are ranks.
  std::vector<ActorId> actors_;              // By trial.
  std::map<int, size_t> row_of_rank_;
  std::map<int, ActorId> group_;    // As last passed to ranks().
  std::vector<size_t> event_rows_;  // Rows of events, at most kEventsMax.
  size_t events_ = 0;
  int64_t steps_ = -1;                                // Optimizer steps done, as last heard; -1: unknown.
  std::set<size_t> changed_;                          // Trials to report.
  std::map<size_t, std::vector<TrialPoint>> points_;  // New points by trial.
  Pace pace_;
  BootTime started_{}, next_state_{}, next_activity_{};
  bool is_timed_ = false;  // A report was made, which the next one is timed from.
  bool is_state_due_ = false, state_trouble_ = false, tags_sent_ = false;
  bool is_doing_ = false;  // The run's reason is what it does.
  bool has_lost_ = false;  // A pass has failed.
  bool first_ = true;      // The first pass does not wait.
  uint64_t flushed_ = 0;
  std::mutex join_mutex_;
  std::thread thread_;
};

RunReport::RunReport(std::shared_ptr<Session> session, RunReportOptions options)
    : inbox_(std::make_shared<Inbox>()),
      writer_(std::make_unique<Writer>(std::move(session), std::move(options), inbox_)),
      exceptions_(std::uncaught_exceptions()) {}

RunReport::~RunReport() {
  if (std::uncaught_exceptions() > exceptions_)
    end(RunOutcome::kFailed, "an exception ended the training loop");
  else
    end(RunOutcome::kStopped, "the training loop ended before its planned end");
}

void RunReport::metrics(int64_t iteration, const tune::Metrics& metrics) {
  const SystemClock clock;
  inbox_->put(Row{iteration, metrics, clock.now(), clock.wall()});
}

void RunReport::event(std::string sentence) {
  inbox_->put(Event{plain_text(sentence, kSentenceBytesMax), SystemClock().wall()});
}

void RunReport::fault(int rank, std::string error) {
  inbox_->put(Fault{rank, plain_lines(error, kSentenceBytesMax), SystemClock().wall()});
}

void RunReport::ranks(std::vector<RankReport> ranks, int64_t step) {
  inbox_->put(Ranks{std::move(ranks), step, SystemClock().wall()});
}

void RunReport::activity(std::string sentence) {
  const std::lock_guard<std::mutex> hold(inbox_->mutex);
  inbox_->doing = plain_lines(sentence, kSentenceBytesMax);
}

void RunReport::rank_activity(RankActivity activity) {
  const std::lock_guard<std::mutex> hold(inbox_->mutex);
  inbox_->activities.insert_or_assign(activity.rank, std::move(activity));
}

bool RunReport::stop_requested() const { return inbox_->stop.load(std::memory_order_relaxed); }

void RunReport::note_checkpoint() { writer_->note_checkpoint(); }

void RunReport::end(RunOutcome outcome, std::string message, const std::function<bool()>& is_interrupted) {
  {
    const std::lock_guard<std::mutex> hold(inbox_->mutex);
    if (!inbox_->ended) inbox_->entries.emplace_back(End{outcome, std::move(message)});
    inbox_->ended = true;
  }
  inbox_->wake.notify_one();
  writer_->join();
  writer_->store_rest(is_interrupted);
}

void RunReport::flush() {
  std::unique_lock<std::mutex> hold(inbox_->mutex);
  const uint64_t wanted = ++inbox_->flushes_asked;
  inbox_->wake.notify_one();
  inbox_->done.wait(hold, [&] { return inbox_->flushes_done >= wanted || inbox_->ended; });
}

const std::string& RunReport::experiment() const { return writer_->experiment(); }
const std::filesystem::path& RunReport::directory() const { return writer_->directory(); }

}  // namespace volador::train
