#include "cli/commands/collect_trial.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "cli/collected_process.h"
#include "cli/metric_sources.h"
#include "cli/own_folder.h"
#include "experiments/katib/metric_lines.h"
#include "experiments/katib/observation.h"
#include "experiments/katib/prometheus_text.h"
#include "experiments/katib/stopping_rules.h"
#include "experiments/katib/time_stamp.h"
#include "runtime/outgoing/transfer.h"
#include "runtime/protocol/katib/v1beta1/api.pb.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;
namespace katib = experiments::katib;
using katib::CollectorKind;
using katib::MetricPoint;
using std::chrono::milliseconds;

constexpr size_t kReportsMax = 10'000;  // That wait for the head; later ones are left out of the series.
constexpr milliseconds kFileTick{250}, kFolderTick{1000}, kScrapeTick{1000}, kScrapeTimeout{1000};
constexpr milliseconds kReportedPause{1000}, kReportedTick{100};
constexpr size_t kScrapeBytesMax = 16 << 20;
constexpr int kPortMax = 65'535;
constexpr const char* kKatibFolder = "/var/log/katib";

// JSON has no NaN and no infinities; they are texts, as the reports of Python have them.
nlohmann::ordered_json json_of_metric(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

nlohmann::ordered_json json_of_observation(const std::vector<katib::ObservedMetric>& metrics) {
  auto list = nlohmann::ordered_json::array();
  for (const katib::ObservedMetric& each : metrics)
    list.push_back({{"name", each.name}, {"min", each.min}, {"max", each.max}, {"latest", each.latest}});
  return list;
}

std::string text_of_report(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// Sends reports to the head on a thread, in their order, while the program goes on.
class Reports {
 public:
  Reports(const Context& context, const CollectedTrial& trial, HeadCalls& calls)
      : context_(context), trial_(trial), calls_(calls) {}
  ~Reports() { finish(); }

  void add(const std::vector<MetricPoint>& points) {
    nlohmann::ordered_json metrics = nlohmann::ordered_json::object();
    for (const MetricPoint& point : points) {
      const auto value = katib::number_of(point.value);
      if (!value) continue;
      if (metrics.contains(point.metric)) {
        queue(text_of_report(metrics));
        metrics.clear();
      }
      metrics[point.metric] = json_of_metric(*value);
    }
    if (!metrics.empty()) queue(text_of_report(metrics));
  }
  // Sends what waits; afterwards call() may be used.
  void finish() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
    if (left_out_ > 0) {
      context_.terminal.note(context_.terminal.fill(
          "{} reports of metrics came faster than the head takes them and are not in the curves; the result has them",
          std::exchange(left_out_, 0)));
    }
  }
  int64_t count() const { return count_; }
  template <class Reply>
  tl::expected<Reply, Failure> call(const char* operation, const google::protobuf::Message& request) {
    Reply reply;
    if (auto called = calls_.call(operation, request, reply); !called) return tl::unexpected(called.error());
    return reply;
  }

 private:
  void queue(std::string metrics) {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kReportsMax) {
      ++left_out_;
      return;
    }
    v1::ReportMetricsRequest request;
    request.set_trial(trial_.trial);
    request.set_run(trial_.run);
    request.set_group("observation");
    request.set_batches(++count_);
    request.set_metrics(std::move(metrics));
    waiting_.push_back(std::move(request));
    if (!thread_.joinable()) thread_ = std::thread([this] { send(); });
    changed_.notify_one();
  }
  void send() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const v1::ReportMetricsRequest request = std::move(waiting_.front());
      waiting_.pop_front();
      if (has_failed_) continue;
      lock.unlock();
      v1::ReportMetricsReply reply;
      const auto called = calls_.call("Experiments/ReportMetrics", request, reply);
      lock.lock();
      if (called) continue;
      has_failed_ = true;
      context_.terminal.note(context_.terminal.fill("the head refuses the reports of metrics of trial {}: {}",
                                                    trial_.trial, called.error().error.message));
    }
  }

  const Context& context_;
  const CollectedTrial& trial_;
  HeadCalls& calls_;  // The thread's while it runs.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::ReportMetricsRequest> waiting_;
  int64_t count_ = 0;
  int64_t left_out_ = 0;
  bool ends_ = false, has_failed_ = false;
  std::thread thread_;
};

// Reads what a program or its collector reports to the head by itself, on a thread while it runs, until the rules of
// early stopping are met.
class ReportedMetrics {
 public:
  ReportedMetrics(const Context& context, const CollectedTrial& trial, HeadCalls& calls)
      : context_(context),
        calls_(calls),
        trial_(trial.trial),
        rules_(trial.collection.objective, trial.collection.rules),
        thread_([this](const std::stop_token& stop) { read_all(stop); }) {}

  bool are_rules_met() const { return are_met_; }

 private:
  struct Point {
    int64_t number;
    size_t series;
    MetricPoint point;
  };

  void read_all(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    while (!are_met_) {
      std::unique_lock lock(mutex);
      never.wait_for(lock, stop, kReportedPause, [] { return false; });
      if (stop.stop_requested()) return;
      v1::GetMetricsRequest request;
      request.add_trials(trial_);
      request.set_group("observation");
      request.set_from_batch(last_ + 1);
      request.set_max_points(-1);
      v1::GetMetricsReply reply;
      if (const auto called = calls_.call("Experiments/GetMetrics", request, reply); !called) {
        context_.terminal.note(context_.terminal.fill("trial {} cannot stop early: the head refuses its metrics: {}",
                                                      trial_, called.error().error.message));
        return;
      }
      apply(reply);
    }
  }
  // In the order in which they were reported.
  void apply(const v1::GetMetricsReply& reply) {
    std::vector<Point> points;
    for (int at = 0; at < reply.series_size(); ++at) {
      const v1::TrialMetricSeries& one = reply.series(at);
      for (int i = 0; i < one.values_size(); ++i)
        points.push_back({one.batches(i),
                          static_cast<size_t>(at),
                          {.metric = one.metric(), .value = fmt::format("{}", one.values(i)), .time_ns = {}}});
    }
    std::ranges::sort(points, {}, [](const Point& one) { return std::pair(one.number, one.series); });
    for (const Point& one : points) {
      last_ = std::max(last_, one.number);
      if (rules_.on_report(one.point)) are_met_ = true;
    }
  }

  const Context& context_;
  HeadCalls& calls_;
  const int64_t trial_;
  katib::StoppingRules rules_;
  int64_t last_ = 0;  // Number of the last report that was read.
  std::atomic<bool> are_met_ = false;
  std::jthread thread_;
};

// Where the metrics of a trial come from, and what they lead to.
class Collecting {
 public:
  Collecting(const Context& context, const CollectedTrial& trial, HeadCalls& calls)
      : context_(context),
        trial_(trial),
        collector_(trial.collection.collector),
        observation_(trial.collection.objective),
        rules_(trial.collection.objective, trial.collection.rules),
        calls_(calls),
        reports_(context, trial, calls) {
    metrics_.push_back(trial.collection.objective.metric);
    const auto& more = trial.collection.objective.additional_metrics;
    metrics_.insert(metrics_.end(), more.begin(), more.end());
  }

  Outcome run() {
    CollectedProcess::Options options;
    options.command = trial_.command;
    if (auto prepared = prepare(options); !prepared) return prepared;
    CollectedProcess process(std::move(options));
    process_ = &process;
    if (const auto started = process.start(); !started) {
      const int error = started.error().error;
      return fail(static_cast<ExitCode>(error == ENOENT ? 127 : 126),
                  Error{ErrorCode::kNotFound,
                        fmt::format("command: {} of trial {} cannot be started on node {}: {}", trial_.command.front(),
                                    trial_.collection.trial, trial_.node, std::generic_category().message(error))});
    }
    if (watches_reports()) reported_.emplace(context_, trial_, calls_);
    process.wait();
    process_ = nullptr;
    reported_.reset();
    read_rest();
    reports_.finish();
    const int status = process.status();
    const bool succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (is_early_ || !process.was_stopped()) {
      if (auto kept = keep_checkpoints(trial_.checkpoints, calls_); !kept) return kept;
    }
    if (is_early_ || (succeeded && !process.was_stopped())) {
      if (auto told = report_end(); !told) return told;
    }
    if (is_early_) return {};
    return end_as(status);
  }

 private:
  bool asks_head() const {
    return collector_.kind == CollectorKind::kCustom || collector_.kind == CollectorKind::kPush ||
           collector_.kind == CollectorKind::kNone;
  }
  // Without a collector nothing decides about the trial.
  bool watches_reports() const {
    return !trial_.collection.rules.empty() &&
           (collector_.kind == CollectorKind::kCustom || collector_.kind == CollectorKind::kPush);
  }

  Outcome prepare(CollectedProcess::Options& options) {
    const bool as_katib = !trial_.collection.reads_numbers;
    const auto make_lines = [&](bool is_json) -> Result<void> {
      auto made = katib::MetricLines::create(
          {.metrics = metrics_, .formats = collector_.formats, .is_json = is_json, .as_katib = as_katib});
      if (!made) return make_error(made.error());
      lines_ = std::move(*made);
      return {};
    };
    switch (collector_.kind) {
      case CollectorKind::kStdOut:
        if (auto made = make_lines(false); !made) return fail_here(made.error());
        options.on_output = [this](int stream, std::string_view bytes) { on_output(stream, bytes); };
        // Each stream has lines of its own.
        if (auto made = katib::MetricLines::create({metrics_, collector_.formats, false, as_katib}); made)
          error_lines_ = std::move(*made);
        break;
      case CollectorKind::kFile: {
        if (auto made = make_lines(collector_.is_json); !made) return fail_here(made.error());
        own_folder(fs::path(collector_.path).parent_path());
        make_folder(fs::path(collector_.path).parent_path());
        file_.emplace(collector_.path, /*skip=*/true);
        file_->on_new = [this] { lines_->end([this](auto points) { on_points(std::move(points)); }); };
        options.tick = kFileTick;
        options.on_tick = [this] { read_file(); };
        break;
      }
      case CollectorKind::kTensorFlowEvent:
        own_folder(collector_.path);
        make_folder(collector_.path);
        folder_.emplace(collector_.path, metrics_, as_katib, /*skip=*/true);
        options.tick = kFolderTick;
        options.on_tick = [this] { read_folder(); };
        break;
      case CollectorKind::kPrometheus:
        if (collector_.port < 1 || collector_.port > kPortMax) {
          return fail_here(
              Error{ErrorCode::kInvalidArgument,
                    fmt::format("port of the metrics collector: expected 1 to {}, got {}", kPortMax, collector_.port)});
        }
        ::setenv("no_proxy", "127.0.0.1", 1);  // The child has its own environment by then.
        transfer_.emplace();
        options.tick = kScrapeTick;
        options.on_tick = [this] { scrape(); };
        break;
      case CollectorKind::kCustom:
        own_folder(kKatibFolder);
        options.beside = collector_.command;
        break;
      case CollectorKind::kPush:
      case CollectorKind::kNone:
        break;
    }
    if (watches_reports()) {
      options.tick = kReportedTick;
      options.on_tick = [this] {
        if (reported_ && reported_->are_rules_met()) stop_early();
      };
    }
    // It may be in the folder of the metrics.
    return restore_checkpoints(trial_.checkpoints, calls_);
  }

  // Katib's default folder is a volume of each trial's own: on a node, trials that run at the same time would write into
  // the same file. Their processes see another folder in its place, where this process may arrange that.
  void own_folder(const fs::path& folder) const {
    const char* info = std::getenv("VOLADOR_INFO_DIR");
    if (info == nullptr || !folder.is_absolute()) return;
    if (*folder.lexically_normal().lexically_relative(kKatibFolder).begin() == "..") return;
    make_folder(kKatibFolder);
    const fs::path own = fs::path(info) / "metrics";
    std::error_code failed;
    fs::remove_all(own, failed);
    fs::create_directories(own, failed);
    if (!failed && show_in_place(own, kKatibFolder)) return;
    context_.terminal.note(
        context_.terminal.fill("trials that run at the same time on node {} share the folder {}; name a relative path "
                               "in the metrics collector",
                               trial_.node, kKatibFolder));
  }

  // The program may make it as well.
  void make_folder(const fs::path& folder) const {
    std::error_code failed;
    if (!folder.empty()) fs::create_directories(folder, failed);
    if (failed) {
      context_.terminal.note(context_.terminal.fill("the folder {} of the metrics cannot be made on node {}: {}",
                                                    folder.string(), trial_.node, failed.message()));
    }
  }

  void on_points(std::vector<MetricPoint> points) {
    bool stops = false;
    for (const MetricPoint& point : points) {
      observation_.add(point);
      stops |= rules_.on_report(point);
    }
    reports_.add(points);
    if (stops) stop_early();
  }

  void stop_early() {
    if (is_early_ || process_ == nullptr) return;
    is_early_ = true;
    context_.terminal.note(context_.terminal.fill("trial {} is stopped early", trial_.collection.trial));
    process_->end();
  }

  void on_output(int stream, std::string_view bytes) {
    (stream == STDOUT_FILENO ? *lines_ : *error_lines_).feed(bytes, [this](auto points) {
      on_points(std::move(points));
    });
  }
  void read_file() {
    file_->read(
        [this](std::string_view bytes) { lines_->feed(bytes, [this](auto points) { on_points(std::move(points)); }); });
  }
  void read_folder() {
    for (const std::string& wrong : folder_->read([this](auto points) { on_points(std::move(points)); }))
      context_.terminal.note(context_.terminal.fill("the rest of an event file is not read: {}", wrong));
  }
  void scrape() {
    const auto answer =
        transfer_->fetch({.url = fmt::format("http://127.0.0.1:{}{}{}", collector_.port,
                                             collector_.path.starts_with('/') ? "" : "/", collector_.path),
                          .bytes_max = kScrapeBytesMax},
                         kScrapeTimeout);
    if (!answer.delivered) return;  // The program may not serve it yet.
    auto points = katib::read_prometheus_text(answer.body, metrics_);
    if (points == scraped_) return;
    scraped_ = points;
    on_points(std::move(points));
  }

  void read_rest() {
    if (file_) read_file();
    if (folder_) read_folder();
    for (const auto& lines : {lines_.get(), error_lines_.get()}) {
      if (lines == nullptr) continue;
      lines->end([this](auto points) { on_points(std::move(points)); });
      if (lines->broken_lines() > 0) {
        context_.terminal.note(context_.terminal.fill("{}: {} lines are no JSON objects and are left out",
                                                      collector_.path, lines->broken_lines()));
      }
    }
  }

  // What the program or its collector reported by itself.
  Outcome read_reported() {
    api::v1::beta1::GetObservationLogRequest request;
    request.set_trial_name(trial_.collection.trial);
    const auto reply = reports_.call<api::v1::beta1::GetObservationLogReply>("DBManager/GetObservationLog", request);
    if (!reply) {
      if (reply.error().error.code == ErrorCode::kNotFound) return {};
      return tl::unexpected(reply.error());
    }
    for (const auto& log : reply->observation_log().metric_logs()) {
      observation_.add({.metric = log.metric().name(),
                        .value = log.metric().value(),
                        .time_ns = katib::parse_time_stamp(log.time_stamp())});
    }
    return {};
  }

  Outcome report_end() {
    if (asks_head()) {
      if (auto read = read_reported(); !read) return read;
    }
    const auto objective = observation_.objective();
    // Without a collector a trial needs no result.
    if (!objective && collector_.kind == CollectorKind::kNone) return complete(std::nan(""));
    v1::ReportMetricsRequest report;
    report.set_trial(trial_.trial);
    report.set_run(trial_.run);
    nlohmann::ordered_json metrics = nlohmann::ordered_json::object();
    if (objective) metrics[metrics_.front()] = json_of_metric(*objective);
    metrics["observation"] = json_of_observation(observation_.metrics());
    report.set_metrics(text_of_report(metrics));
    report.set_group(objective ? "validation" : "observation");
    report.set_batches(objective ? 1 : reports_.count() + 1);
    if (auto told = reports_.call<v1::ReportMetricsReply>("Experiments/ReportMetrics", report); !told)
      return refused(told.error());
    if (is_early_ || !objective) return report_exit(is_early_ ? "early_stopped" : "metrics_unavailable");
    return complete(*objective);
  }

  Outcome complete(double metric) {
    v1::CompleteTrialOperationRequest done;
    done.set_trial(trial_.trial);
    done.set_run(trial_.run);
    done.set_length(1);
    done.set_metric(metric);
    if (auto told = reports_.call<v1::CompleteTrialOperationReply>("Experiments/CompleteTrialOperation", done); !told)
      return refused(told.error());
    return {};
  }

  Outcome report_exit(const char* reason) {
    if (std::string_view(reason) == "metrics_unavailable") {
      context_.terminal.note(context_.terminal.fill("trial {} has not reported {}, its objective",
                                                    trial_.collection.trial, metrics_.front()));
    }
    v1::ReportTrialExitRequest request;
    request.set_trial(trial_.trial);
    request.set_run(trial_.run);
    request.set_reason(reason);
    if (auto told = reports_.call<v1::ReportTrialExitReply>("Experiments/ReportTrialExit", request); !told)
      return refused(told.error());
    return {};
  }

  // A run that is over has nothing to report.
  Outcome refused(const Failure& failure) const {
    if (failure.error.code != ErrorCode::kCancelled) return tl::unexpected(failure);
    context_.terminal.note(context_.terminal.fill("the result of run {} of trial {} does not count: {}", trial_.run,
                                                  trial_.trial, failure.error.message));
    return {};
  }

  // Ends this process as the child ended.
  Outcome end_as(int status) const {
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      const rlimit none{};
      ::setrlimit(RLIMIT_CORE, &none);  // The child has written the core, if one is wanted.
      ::signal(signal, SIG_DFL);
      ::raise(signal);
      return fail(static_cast<ExitCode>(128 + signal), {});
    }
    if (WEXITSTATUS(status) == 0) return {};
    return fail(static_cast<ExitCode>(WEXITSTATUS(status)), {});
  }

  const Context& context_;
  const CollectedTrial& trial_;
  const katib::Collector& collector_;
  std::vector<std::string> metrics_;  // The objective first.
  katib::Observation observation_;
  katib::StoppingRules rules_;
  HeadCalls& calls_;  // Used by the thread of `reported_` or `reports_` while there is one.
  Reports reports_;
  std::optional<ReportedMetrics> reported_;
  std::unique_ptr<katib::MetricLines> lines_, error_lines_;
  std::optional<GrowingFile> file_;
  std::optional<EventFolder> folder_;
  std::optional<outgoing::Transfer> transfer_;
  std::vector<MetricPoint> scraped_;
  CollectedProcess* process_ = nullptr;  // While it runs.
  bool is_early_ = false;
};

}  // namespace

Outcome collect_trial(const Context& context, const CollectedTrial& trial, HeadCalls& calls) {
  return Collecting(context, trial, calls).run();
}

}  // namespace volador::cli
