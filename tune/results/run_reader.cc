#include "tune/results/run_reader.h"

#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tune/display/trial_report.h"
#include "tune/results/experiment_journal.h"
#include "tune/results/journal_rungs.h"
#include "tune/results/result_number.h"

namespace volador::tune {
namespace {

constexpr uint64_t kPieceMax = 4 << 20;  // Bytes of one result.json read at a time.
constexpr int kJournalShare = 10;        // A journal is read as a whole: at most a tenth of the time is spent on it.

std::map<std::string, double> numbers_in(const nlohmann::json& fields) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : fields.items()) {
    if (const auto number = result_number(name, value)) numbers[name] = *number;
  }
  return numbers;
}

// Text of a row by which changes are detected.
std::string text_of(const TrialReport& row) {
  std::string text = row.status + '\x1f' + row.node_name + '\x1f' + std::to_string(row.step) + '\x1f' +
                     row.error.text() + '\x1f' + row.reason.text() + '\x1f' + row.config_json + '\x1f' + row.name;
  for (const std::string& tag : row.tags) text += '\x1f' + tag;
  for (const auto& [name, value] : row.metrics) text += '\x1f' + name + '=' + std::to_string(value);
  return text;
}

}  // namespace

RunReader::Stamp RunReader::stamp_of(const std::filesystem::path& file) {
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0) return {};
  return {int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec, static_cast<int64_t>(found.st_size),
          static_cast<int64_t>(found.st_ino)};
}

// Returns whether the state file has changed, or the program has died without writing it.
Result<bool> RunReader::read_state() {
  const Stamp stamp = stamp_of(directory_ / "experiment_state.json");
  const bool died = run_ && run_->goes_on() && !is_driven(directory_);
  if (run_ && stamp == state_stamp_ && !died) return false;
  auto run = load_run(directory_);
  if (!run) return make_error(run.error());
  run_ = std::move(*run);
  state_stamp_ = stamp;
  for (auto& [id, trace] : traces_) trace.whole = false;
  return true;
}

Result<std::optional<RunReader::News>> RunReader::look() {
  const auto told = read_state();
  if (!told) return make_error(told.error());
  const ExperimentState& state = run_->analysis.state();
  News news;
  ExperimentReport& report = news.report;
  report.experiment = directory_.filename().string();
  report.state = run_->state;
  report.metric = state.metric;
  report.mode = to_string(state.mode);
  report.directory = directory_.string();
  report.trials_total = trials_total(*run_);
  report.trials_planned = state.trials_planned;
  report.left = time_left(*run_, state.written);  // The page subtracts the time that has passed since.
  report.scheduler = state.scheduler;
  news.started = state.started;
  news.written = state.written;
  rows_due_ = rows_due_ || *told;
  read_results(news);
  report.best = best_of(Scope::kLast);
  report.best_so_far = best_of(Scope::kAll);
  read_rungs(news);
  if (!*told && report.trials.empty() && report.rungs.empty() && !news.afresh) return std::optional<News>();
  return std::optional<News>(std::move(news));
}

void RunReader::read_results(News& news) {
  points_ = 0;
  for (const Trial& trial : run_->analysis.state().trials) {
    Trace& trace = traces_[trial.id];
    if (trace.whole) continue;
    if (points_ >= kPointsMax) {
      news.more = true;
      return;
    }
    std::vector<TrialPoint> points;
    const bool all = read_results_of(trial, trace, news, points);
    if (news.afresh) {  // Restarts from the beginning with the next call.
      traces_.clear();
      journal_stamp_ = {};
      rows_due_ = true;
      news.more = true;
      news.report.trials.clear();
      return;
    }
    trace.whole = all && has_ended(trial.status);
    news.more = news.more || !all;
    if (!rows_due_ && points.empty() && !trace.row.empty()) continue;
    TrialReport row = report_of(trial);
    if (trace.step > row.step) {  // The state file is older than the results.
      row.step = trace.step;
      row.metrics = trace.metrics;
    }
    std::string text = text_of(row);
    if (text == trace.row && points.empty()) continue;
    trace.row = std::move(text);
    row.points = std::move(points);
    news.report.trials.push_back(std::move(row));
  }
  rows_due_ = false;
}

// Returns whether the whole of its result.json has been read.
bool RunReader::read_results_of(const Trial& trial, Trace& trace, News& news, std::vector<TrialPoint>& points) {
  const std::filesystem::path file = directory_ / folder_of(trial) / "result.json";
  const auto size = static_cast<uint64_t>(stamp_of(file)[1]);
  if (size < trace.bytes) news.afresh = true;
  if (size <= trace.bytes) return true;
  std::string piece(std::min(size - trace.bytes, kPieceMax), '\0');
  std::ifstream in(file, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(trace.bytes));
  in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
  piece.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  const bool to_the_end = trace.bytes + piece.size() >= size;
  size_t begin = 0;
  for (size_t end = piece.find('\n'); end != std::string::npos && points_ < kPointsMax;
       begin = end + 1, end = piece.find('\n', begin)) {
    const auto fields = nlohmann::json::parse(std::string_view(piece).substr(begin, end - begin), nullptr, false);
    if (!fields.is_object()) continue;  // Damaged: the lines around it are shown.
    std::map<std::string, double> numbers = numbers_in(fields);
    const auto number = [&](const char* name) {
      const auto found = numbers.find(name);
      return found == numbers.end() || !std::isfinite(found->second) ? 0.0 : found->second;
    };
    trace.step = static_cast<int64_t>(number("training_iteration"));
    if (const auto value = numbers.find(run_->analysis.state().metric); value != numbers.end())
      trace.summary.add(value->second, trace.step);
    points.push_back({.step = trace.step, .time_s = number("time_total_s"), .metrics = numbers});
    trace.metrics = std::move(numbers);
    ++points_;
  }
  trace.bytes += begin;
  // A last line that is still being written is read by the next call.
  return begin == 0 || (to_the_end && piece.find('\n', begin) == std::string::npos);
}

// Uses the results read so far where they are newer than the state file.
BestReport RunReader::best_of(Scope scope) const {
  const ExperimentState& state = run_->analysis.state();
  BestOfTrials best(state.mode, scope);
  for (const Trial& trial : state.trials) {
    const auto saved = trial.metrics.find(state.metric);
    const MetricSummary known = saved == trial.metrics.end() ? MetricSummary() : saved->second;
    const auto trace = traces_.find(trial.id);
    const bool read_further = trace != traces_.end() && trace->second.summary.reports() > known.reports();
    best.add(trial, read_further ? trace->second.summary : known);
  }
  return report_of(best.best());
}

void RunReader::read_rungs(News& news) {
  const Stamp stamp = stamp_of(journal_path(directory_));
  if (stamp == journal_stamp_ || clock_.now() < rungs_due_) return;
  const BootTime begin = clock_.now();
  const auto journal = read_journal(directory_);
  rungs_due_ = clock_.now() + (clock_.now() - begin) * kJournalShare;
  journal_stamp_ = stamp;
  if (!journal) return;  // The results are shown nevertheless.
  std::vector<RungState> rungs;
  for (const JournalRung& rung : journal_rungs(*journal))
    rungs.push_back(state_of(rung, run_->analysis.state().mode, !run_->goes_on()));
  news.report.rungs = report_of(rungs, kRungMembersShown);
}

}  // namespace volador::tune
