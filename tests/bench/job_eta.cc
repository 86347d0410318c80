// Accuracy of start forecasts and quality of the job planner on a trace of GPU jobs.
//
//   job_eta JOBS.csv [--jobs=20000] [--every=1] [--projects]
//
// JOBS.csv has a header and the columns submission time ("2017-10-09 07:01:55"), duration in s, GPUs, GPU-seconds,
// group. Replays jobs that are evenly spread over the trace on 64 nodes of 8 GPUs; their times between submissions are
// scaled for each load (GPU-seconds asked / GPU-seconds available). The trace has no limits: each job gets its duration
// × U(1.1, 4), rounded up to a usual value. --every: forecasts for each n-th job that does not start at once.
// --projects: fair share between the groups; otherwise the order is the submission.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <queue>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "jobs/queue/job_planner.h"
#include "jobs/queue/run_time_predictor.h"
#include "jobs/queue/start_forecast.h"
#include "runtime/resources.h"

namespace volador::bench {
namespace {

using jobs::JobNumber;

constexpr int kEtaNodes = 64;
constexpr int kEtaGpus = 8;  // On a node.
constexpr int64_t kMinuteMs = 60'000;

struct TracedJob {
  int64_t submitted_ms = 0;
  int64_t run_ms = 0;
  int64_t limit_ms = 0;
  int gpus = 1;
  std::string group;
};

int64_t usual_limit(double wanted_ms) {
  constexpr int64_t kHour = 60 * kMinuteMs;
  constexpr std::array kUsual{10 * kMinuteMs, 30 * kMinuteMs, kHour,       2 * kHour,    4 * kHour,
                              8 * kHour,      12 * kHour,     24 * kHour,  48 * kHour,   96 * kHour,
                              168 * kHour,    336 * kHour,    720 * kHour, 1440 * kHour, 2880 * kHour};
  for (const int64_t limit : kUsual) {
    if (static_cast<double>(limit) >= wanted_ms) return limit;
  }
  return std::llround(wanted_ms);
}

std::vector<TracedJob> read_trace(const std::string& path) {
  std::ifstream file(path);
  std::vector<TracedJob> result;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::array<std::string, 5> fields;
    size_t at = 0;
    for (const char c : line) {
      if (c == ',' && at + 1 < fields.size()) {
        ++at;
      } else if (c != '\r') {
        fields[at] += c;
      }
    }
    std::tm date{};
    if (strptime(fields[0].c_str(), "%Y-%m-%d %H:%M:%S", &date) == nullptr) continue;
    TracedJob job;
    job.submitted_ms = static_cast<int64_t>(timegm(&date)) * 1000;
    job.run_ms = std::max<int64_t>(1000, std::llround(std::stod(fields[1]) * 1000));
    job.gpus = std::clamp(std::stoi(fields[2]), 1, kEtaNodes * kEtaGpus);
    job.group = fields[4];
    result.push_back(std::move(job));
  }
  std::ranges::stable_sort(result, {}, &TracedJob::submitted_ms);
  std::mt19937 random(2017);  // Its values are the same everywhere.
  for (TracedJob& job : result) {
    const double share = static_cast<double>(random()) / 4294967296.0;
    job.limit_ms = usual_limit(static_cast<double>(job.run_ms) * (1.1 + 2.9 * share));
  }
  return result;
}

// Moves the submissions so that the jobs ask for this share of the GPUs.
std::vector<TracedJob> at_load(std::vector<TracedJob> trace, double load) {
  double asked = 0;
  for (const TracedJob& job : trace) asked += static_cast<double>(job.run_ms) * job.gpus;
  const int64_t first = trace.front().submitted_ms;
  const auto span = static_cast<double>(trace.back().submitted_ms - first);
  const double stretch = asked / (kEtaNodes * kEtaGpus * load) / span;
  for (TracedJob& job : trace) {
    job.submitted_ms = 1 + std::llround(static_cast<double>(job.submitted_ms - first) * stretch);
  }
  return trace;
}

enum class Policy { kFifo, kEasyLimits, kPredictions };

struct EtaFigures {
  double mean_wait_s = 0;
  double utilisation = 0;          // Between the first and the last submission.
  int waited = 0;                  // Jobs with a forecast that waited for at least a minute.
  int within_two = 0;              // Likely wait within a factor of 2.
  int late = 0;                    // Started later than "at the latest".
  double error_median = 0;         // |likely - true| / true wait.
  double latest_ratio_median = 0;  // Latest wait / true wait.
  double forecast_ms = 0;
};

struct EtaOptions {
  int every = 1;
  bool projects = false;
};

class EtaReplay {
 public:
  EtaReplay(const std::vector<TracedJob>& trace, Policy policy, EtaOptions options)
      : trace_(trace), policy_(policy), options_(options), started_(trace.size(), -1) {
    planner_.backfill = policy != Policy::kFifo;
    for (int i = 0; i < kEtaNodes; ++i) {
      const auto total = *ResourceSet::from({.cpus = 64, .gpus = kEtaGpus});
      view_.nodes.push_back({.name = fmt::format("node-{:02}", i), .labels = {}, .total = total, .free = total});
      node_index_[view_.nodes.back().name] = static_cast<size_t>(i);
    }
  }

  EtaFigures run() {
    size_t next = 0;
    while (next < trace_.size() || !ends_.empty()) {
      const bool ends_first =
          !ends_.empty() && (next >= trace_.size() || ends_.top().first <= trace_[next].submitted_ms);
      const int64_t now = ends_first ? ends_.top().first : trace_[next].submitted_ms;
      while (!ends_.empty() && ends_.top().first <= now) end_top();
      const size_t first_new = next;
      for (; next < trace_.size() && trace_[next].submitted_ms <= now; ++next) submit(next);
      start(now);
      for (size_t job = first_new; job < next; ++job) ask(job, now);
    }
    return figures();
  }

 private:
  struct Asked {
    size_t job;
    int64_t likely_ms;
    int64_t latest_ms;
  };

  void submit(size_t at) {
    const TracedJob& job = trace_[at];
    const int nodes = (job.gpus + kEtaGpus - 1) / kEtaGpus;
    const double gpus = std::ceil(static_cast<double>(job.gpus) / nodes);
    queue_.push_back(
        {.number = at,
         .project = options_.projects ? job.group : "all",
         .owner = job.group,
         .nodes = nodes,
         .per_node = *ResourceSet::from({.cpus = gpus, .gpus = gpus}),
         .submitted_ms = job.submitted_ms,
         .limit_ms = job.limit_ms,
         .predicted_ms = policy_ == Policy::kPredictions ? predictor_.predict(job.group, "all", job.limit_ms) : 0,
         .node_names = {},
         .labels = {}});
  }

  void start(int64_t now) {
    if (queue_.empty()) return;
    const jobs::Plan planned = jobs::plan(view_, queue_, now, planner_);
    for (const jobs::BlockedJob& blocked : planned.blocked) {
      const auto head = std::ranges::find(queue_, blocked.number, &jobs::QueuedJob::number);
      if (head->promised_ms == 0) head->promised_ms = blocked.likely_ms;
    }
    for (const auto& [number, placement] : planned.start) {
      const auto job = std::ranges::find(queue_, number, &jobs::QueuedJob::number);
      jobs::RunningJob running{.number = number,
                               .started_ms = now,
                               .limit_ms = job->limit_ms,
                               .predicted_ms = job->predicted_ms,
                               .project = job->project,
                               .held = {}};
      for (const std::string& node : placement.nodes) {
        running.held.emplace_back(node, job->per_node);
        view_.nodes[node_index_[node]].free -= job->per_node;
      }
      view_.running.push_back(std::move(running));
      started_[number] = now;
      ends_.emplace(now + trace_[number].run_ms, number);
      queue_.erase(job);
    }
  }

  void end_top() {
    const JobNumber number = ends_.top().second;
    ends_.pop();
    const auto job = std::ranges::find(view_.running, number, &jobs::RunningJob::number);
    for (const auto& [node, held] : job->held) view_.nodes[node_index_[node]].free += held;
    std::swap(*job, view_.running.back());
    view_.running.pop_back();
    predictor_.record(trace_[number].group, "all", trace_[number].run_ms, trace_[number].limit_ms);
  }

  void ask(size_t at, int64_t now) {
    if (policy_ == Policy::kFifo || started_[at] >= 0 || ++unstarted_ % options_.every != 0) return;
    const auto before = std::chrono::steady_clock::now();
    const auto forecast = jobs::forecast_one(view_, queue_, at, now, planner_);
    forecast_ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - before).count();
    asked_.push_back({.job = at, .likely_ms = forecast->likely_ms, .latest_ms = forecast->latest_ms});
  }

  EtaFigures figures() const {
    EtaFigures result;
    const int64_t last = trace_.back().submitted_ms;
    double used = 0;
    for (size_t at = 0; at < trace_.size(); ++at) {
      result.mean_wait_s += static_cast<double>(started_[at] - trace_[at].submitted_ms) / 1000;
      const int64_t in_window = std::min(last, started_[at] + trace_[at].run_ms) - started_[at];
      used += static_cast<double>(std::max<int64_t>(0, in_window)) * trace_[at].gpus;
    }
    result.mean_wait_s /= static_cast<double>(trace_.size());
    result.utilisation = used / (static_cast<double>(last) * kEtaNodes * kEtaGpus);
    std::vector<double> errors, ratios;
    for (const Asked& asked : asked_) {
      const int64_t submitted = trace_[asked.job].submitted_ms;
      const auto wait = static_cast<double>(started_[asked.job] - submitted);
      if (wait < static_cast<double>(kMinuteMs)) continue;
      const auto likely = static_cast<double>(asked.likely_ms - submitted);
      ++result.waited;
      if (likely >= wait / 2 && likely <= wait * 2) ++result.within_two;
      if (started_[asked.job] > asked.latest_ms) ++result.late;
      errors.push_back(std::abs(likely - wait) / wait);
      ratios.push_back(static_cast<double>(asked.latest_ms - submitted) / wait);
    }
    result.error_median = median(errors);
    result.latest_ratio_median = median(ratios);
    result.forecast_ms = asked_.empty() ? 0 : forecast_ms_ / static_cast<double>(asked_.size());
    return result;
  }

  static double median(std::vector<double>& values) {
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
  }

  const std::vector<TracedJob>& trace_;
  Policy policy_;
  EtaOptions options_;
  jobs::PlannerOptions planner_;
  jobs::ClusterView view_;
  std::unordered_map<std::string, size_t> node_index_;
  std::vector<jobs::QueuedJob> queue_;
  std::vector<int64_t> started_;
  std::priority_queue<std::pair<int64_t, JobNumber>, std::vector<std::pair<int64_t, JobNumber>>, std::greater<>> ends_;
  jobs::RunTimePredictor predictor_;
  std::vector<Asked> asked_;
  int unstarted_ = 0;
  double forecast_ms_ = 0;
};

int run_eta(int argc, char** argv) {
  std::string path;
  size_t count = 20'000;
  EtaOptions options;
  const auto number = [](std::string_view text) {
    int value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return std::max(1, value);
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--jobs=")) {
      count = static_cast<size_t>(number(argument.substr(7)));
    } else if (argument.starts_with("--every=")) {
      options.every = number(argument.substr(8));
    } else if (argument == "--projects") {
      options.projects = true;
    } else {
      path = argument;
    }
  }
  std::vector<TracedJob> trace = read_trace(path);
  if (trace.empty()) {
    fmt::print(stderr, "job_eta: expected a CSV file with jobs, got \"{}\"\n", path);
    return 2;
  }
  if (count < trace.size()) {
    std::vector<TracedJob> spread;
    for (size_t i = 0; i < count; ++i) spread.push_back(trace[i * trace.size() / count]);
    trace = std::move(spread);
  }
  fmt::print("{} jobs, {} nodes of {} GPUs; forecasts: jobs that waited at least 1 min\n", trace.size(), kEtaNodes,
             kEtaGpus);
  fmt::print("{:<5} {:<12} {:>12} {:>11} {:>7} {:>9} {:>13} {:>5} {:>13} {:>12}\n", "load", "policy", "mean wait s",
             "utilisation", "waited", "factor 2", "median error", "late", "latest/true", "forecast ms");
  for (const double load : {0.70, 0.85, 0.95}) {
    const std::vector<TracedJob> stretched = at_load(trace, load);
    for (const auto& [policy, name] : {std::pair(Policy::kFifo, "FIFO"), std::pair(Policy::kEasyLimits, "EASY limits"),
                                       std::pair(Policy::kPredictions, "last two")}) {
      const EtaFigures f = EtaReplay(stretched, policy, options).run();
      fmt::print("{:<5.2f} {:<12} {:>12.0f} {:>11.3f} {:>7} {:>8.1f}% {:>13.2f} {:>5} {:>13.1f} {:>12.2f}\n", load,
                 name, f.mean_wait_s, f.utilisation, f.waited, f.waited == 0 ? 0 : 100.0 * f.within_two / f.waited,
                 f.error_median, f.late, f.latest_ratio_median, f.forecast_ms);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace volador::bench

int main(int argc, char** argv) { return volador::bench::run_eta(argc, argv); }
