#include "cli/render/train_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/render/cluster_view.h"
#include "cli/render/row_json.h"
#include "cli/render/row_view.h"
#include "cli/render/table.h"
#include "runtime/quantities.h"
#include "tune/display/progress_table.h"
#include "tune/results/experiment_directory.h"

namespace volador::cli {
namespace {

using tune::Trial;

constexpr size_t kBarColumns = 24;
constexpr size_t kEventsShown = 20;
constexpr size_t kTitleColumns = 14;

// Parts of a step and their metrics, in seconds.
constexpr std::array<std::pair<const char*, const char*>, 5> kParts{{{"data wait", "mean_data_s"},
                                                                     {"forward", "mean_forward_s"},
                                                                     {"backward", "mean_backward_s"},
                                                                     {"communication", "mean_communication_s"},
                                                                     {"optimizer", "mean_optimizer_s"}}};

// Number of a row's name: 3 of "rank 3" and the word "rank"; no value: another name.
std::optional<int64_t> number_in(std::string_view name, std::string_view word) {
  if (!name.starts_with(word) || name.size() < word.size() + 2 || name[word.size()] != ' ') return std::nullopt;
  const std::string_view digits = name.substr(word.size() + 1);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? std::optional(number) : std::nullopt;
}

// Values of a configuration; no value, or empty: absent, or of another kind.
std::optional<int64_t> integer_in(const tune::Config& config, const char* name) {
  const tune::Config* value = config.find(name);
  return value != nullptr && value->kind() == tune::Config::Kind::kInteger ? std::optional(value->integer())
                                                                           : std::nullopt;
}
std::string text_in(const tune::Config& config, const char* name) {
  const tune::Config* value = config.find(name);
  return value != nullptr && value->kind() == tune::Config::Kind::kText ? value->text() : std::string();
}

const Trial* run_row(const tune::ExperimentState& state) {
  const auto found =
      std::find_if(state.trials.begin(), state.trials.end(), [](const Trial& trial) { return trial.name == "train"; });
  return found == state.trials.end() ? nullptr : &*found;
}

std::vector<std::pair<int64_t, const Trial*>> rows_named(const tune::ExperimentState& state, std::string_view word) {
  std::vector<std::pair<int64_t, const Trial*>> rows;
  for (const Trial& trial : state.trials) {
    if (const auto number = number_in(trial.name, word)) rows.emplace_back(*number, &trial);
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return rows;
}

std::string time_of_day(WallTime time) {
  const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char buffer[32];
  return std::string(buffer, std::strftime(buffer, sizeof buffer, "%H:%M:%S", &parts));
}

std::string first_line(const std::string& text) { return printable(text.substr(0, text.find('\n'))); }

// "12 ms", "1.2 s".
std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} µs", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} s", seconds);
}

std::string parts_text(const tune::Metrics& metrics, const Terminal& terminal) {
  double known = 0;
  for (const auto& [name, metric] : kParts) known += metrics.get(metric).value_or(0);
  const double samples = metrics.get("num_samples").value_or(0), rate = metrics.get("samples_per_s").value_or(0);
  const double batches = metrics.get("batch_count").value_or(0);
  const double whole =
      std::max(known, metrics.get("mean_step_s").value_or(rate > 0 && batches > 0 ? samples / rate / batches : 0));
  if (!(whole > 0) || !std::isfinite(whole)) return {};
  std::vector<std::string> parts;
  const auto add = [&](const std::string& name, double seconds) {
    parts.push_back(fmt::format("{} {:.0f} %", name, 100 * seconds / whole));
  };
  for (const auto& [name, metric] : kParts) add(terminal.tr(name), metrics.get(metric).value_or(0));
  add(terminal.tr("other"), whole - known);
  return fmt::format("{}: {}", seconds_text(whole), fmt::join(parts, ", "));
}

std::string ranks_table(const std::vector<std::pair<int64_t, const Trial*>>& ranks, const Trial* run,
                        const Terminal& terminal) {
  Table table({{.title = terminal.tr("rank"), .align = Align::kRight},
               {.title = terminal.tr("state")},
               {.title = terminal.tr("node"), .width_max = 40, .width_min = 8, .cut = Cut::kMiddle},
               {.title = terminal.tr("device"), .rank = 3},
               {.title = terminal.tr("process"), .align = Align::kRight, .rank = 4},
               {.title = terminal.tr("step"), .align = Align::kRight},
               {.title = terminal.tr("samples/s"), .align = Align::kRight, .rank = 1},
               {.title = terminal.tr("data wait"), .align = Align::kRight, .rank = 2},
               {.title = terminal.tr("does"), .width_max = 80, .width_min = 16}});
  for (const auto& [number, rank] : ranks) {
    const auto pid = integer_in(rank->config, "pid");
    const bool runs = rank->status == tune::TrialStatus::kRunning || rank->status == tune::TrialStatus::kFinished;
    auto step = rank->last_result.get("step");
    if (!step && runs && run != nullptr) step = run->last_result.get("step");  // All ranks do the same steps.
    const auto rate = rank->last_result.get("samples_per_s"), wait = rank->last_result.get("data_wait_s");
    table.add({std::to_string(number), terminal.paint_state(tune::to_string(rank->status)), printable(rank->node),
               printable(text_in(rank->config, "device")), pid ? std::to_string(*pid) : "",
               step ? fmt::format("{:.0f}", *step) : "", rate ? fmt::format("{:.0f}", *rate) : "",
               wait ? seconds_text(*wait) : "", first_line(rank->error.empty() ? rank->reason : rank->error)});
  }
  return fitted(table, terminal);
}

// Iterations after which the run ends, by its stop rule; 0: unknown.
int64_t planned_of(const tune::ExperimentState& state) {
  for (const std::string& rule : state.stop) {
    if (!rule.starts_with("after ") || !rule.ends_with(" steps")) continue;
    const auto steps = number_in(std::string_view(rule).substr(0, rule.size() - 6), "after");
    if (steps) return *steps;
  }
  return 0;
}

// "████████░░░░  53 %": the iterations that are done; empty: the end is unknown, or the run has ended.
std::string bar_text(const tune::SavedRun& run) {
  const Trial* row = run_row(run.analysis.state());
  const int64_t planned = planned_of(run.analysis.state());
  if (!run.goes_on() || row == nullptr || planned <= 0) return {};
  const double part = std::min(1.0, static_cast<double>(row->step) / static_cast<double>(planned));
  const auto full = static_cast<size_t>(std::lround(part * kBarColumns));
  std::string bar;
  for (size_t i = 0; i < kBarColumns; ++i) bar += i < full ? "█" : "░";
  return fmt::format("{}  {:.0f} %", bar, 100 * part);
}

// "epoch 24", "step 973", "train_loss 0.1667", "963 samples/s"; those that are known.
std::vector<std::string> numbers_of(const tune::ExperimentState& state, const Terminal& terminal) {
  std::vector<std::string> numbers;
  const Trial* run = run_row(state);
  if (run == nullptr) return numbers;
  double step = run->last_result.get("step").value_or(0);
  for (const auto& [number, rank] : rows_named(state, "rank"))
    step = std::max(step, rank->last_result.get("step").value_or(0));
  if (const auto epoch = run->last_result.get("epoch")) numbers.push_back(terminal.fill("epoch {}", *epoch));
  if (step > 0) numbers.push_back(terminal.fill("step {}", static_cast<int64_t>(step)));
  if (const auto value = run->last_result.get(state.metric))
    numbers.push_back(fmt::format("{} {}", printable(state.metric), tune::format_value(*value)));
  if (const auto rate = run->last_result.get("samples_per_s"))
    numbers.push_back(terminal.fill("{} samples/s", static_cast<int64_t>(std::lround(*rate))));
  return numbers;
}

}  // namespace

bool is_training_run(std::string_view scheduler) { return scheduler == "train" || scheduler.starts_with("train: "); }

std::string scheduler_of(const nlohmann::json& row) {
  const nlohmann::json& text = member(member(row, "scheduler"), "text");
  return text.is_string() ? text.get<std::string>() : "";
}

std::string train_runs_text(const std::vector<nlohmann::json>& rows, const Terminal& terminal, int64_t now_ms) {
  if (rows.empty()) return terminal.tr("no runs") + "\n";
  Table table({{.title = terminal.tr("run"), .width_max = 40, .width_min = 16, .cut = Cut::kMiddle},
               {.title = terminal.tr("state")},
               {.title = terminal.tr("workers"), .rank = 3, .width_max = 40, .width_min = 8},
               {.title = terminal.tr("metric"), .rank = 2, .width_max = 20, .cut = Cut::kMiddle},
               {.title = terminal.tr("best"), .align = Align::kRight},
               {.title = terminal.tr("left"), .align = Align::kRight, .rank = 1},
               {.title = terminal.tr("started"), .rank = 4},
               {.title = terminal.tr("tags"), .rank = 5, .width_max = 40, .width_min = 8},
               {.title = terminal.tr("directory"), .rank = 6, .width_max = 60, .width_min = 12, .cut = Cut::kMiddle}});
  for (const nlohmann::json& row : rows) {
    const std::string state = text_member(row, "state"), scheduler = scheduler_of(row);
    std::optional<double> left;
    if (const nlohmann::json& told = member(row, "left"); told.is_object()) {
      const double since_s = (static_cast<double>(now_ms) - number_member(told, "at_ms", 0)) / 1000;
      left = std::max(0.0, number_member(told, "seconds", 0) - std::max(0.0, since_s));
    }
    const double best = number_member(member(row, "best_so_far"), "value", std::nan(""));
    std::vector<std::string> tags;
    for (const nlohmann::json& tag : member(row, "tags")) {
      if (tag.is_string() && tag != "train") tags.push_back(printable(tag.get<std::string>()));
    }
    table.add({text_member(row, "name"), terminal.paint_state(state),
               printable(scheduler.substr(std::min(scheduler.size(), std::string_view("train: ").size()))),
               text_member(row, "metric"), std::isnan(best) ? "" : tune::format_value(best), left_cell(state, left),
               day_and_second(static_cast<int64_t>(number_member(row, "started_ms", 0))),
               fmt::format("{}", fmt::join(tags, ", ")), text_member(row, "directory")});
  }
  return fitted(table, terminal);
}

std::string train_line(const tune::SavedRun& run, const Terminal& terminal, WallTime now, size_t columns) {
  const tune::ExperimentState& state = run.analysis.state();
  std::vector<std::string> parts{printable(state.name)};
  if (std::string bar = bar_text(run); !bar.empty()) parts.push_back(std::move(bar));
  std::vector<std::string> numbers = numbers_of(state, terminal);
  std::move(numbers.begin(), numbers.end(), std::back_inserter(parts));
  if (const auto left = tune::time_left(run, now)) {
    parts.push_back(tune::format_left(left, terminal.language()));
  } else {
    parts.push_back(format_duration(std::max(now - state.started, WallTime::duration(0))));
  }
  std::string line = fmt::format("{}", fmt::join(parts, "  "));
  return columns > 0 ? cut_to_width(line, columns) : line;
}

std::string train_text(const tune::SavedRun& run, const Terminal& terminal, WallTime now) {
  const tune::ExperimentState& state = run.analysis.state();
  const Trial* row = run_row(state);
  const auto ranks = rows_named(state, "rank");
  const std::vector<TrainEvent> events = train_events(state);
  std::string text =
      fmt::format("{} · {}", terminal.paint(Colour::kBold, printable(state.name)), terminal.paint_state(run.state));
  if (state.scheduler.starts_with("train: ")) text += " · " + printable(state.scheduler.substr(7));
  text += "\n";
  if (row != nullptr && run.goes_on() && !row->reason.empty())
    text += "  " + first_line(row->reason.text(terminal.language())) + "\n";
  if (!state.reason.empty())
    text += titled(terminal.tr("ended"), printable_line(state.reason.text(terminal.language())), kTitleColumns);
  if (std::string bar = bar_text(run); !bar.empty())
    text += titled(terminal.tr("left"),
                   fmt::format("{}  {}", bar, tune::format_left(tune::time_left(run, now), terminal.language())),
                   kTitleColumns);
  if (const std::vector<std::string> numbers = numbers_of(state, terminal); !numbers.empty())
    text += titled(terminal.tr("last report"), fmt::format("{}", fmt::join(numbers, " · ")), kTitleColumns);
  if (row != nullptr) {
    for (const auto& [name, value] : row->last_result) {
      if (name.starts_with("val_")) text += titled(printable(name), tune::format_value(value), kTitleColumns);
    }
    const auto summary = row->metrics.find(state.metric);
    if (summary != row->metrics.end() && summary->second.count > 0)
      text +=
          titled(terminal.tr("best"),
                 fmt::format("{} {}", printable(state.metric), tune::format_value(summary->second.best(state.mode))),
                 kTitleColumns);
    if (const std::string parts = parts_text(row->last_result, terminal); !parts.empty())
      text += titled(terminal.tr("a step"), parts, kTitleColumns);
    if (row->config.size() > 0)
      text += titled(terminal.tr("configuration"), printable(row->config.to_json()), kTitleColumns);
  }
  const std::string time = format_duration(state.written - state.started);
  text += titled(terminal.tr("started"),
                 run.goes_on() ? terminal.fill("{}, written after {}", day_and_second(unix_ms(state.started)), time)
                               : terminal.fill("{}, took {}", day_and_second(unix_ms(state.started)), time),
                 kTitleColumns);
  if (!state.origin.arguments.empty())
    text += titled(terminal.tr("command"), printable(fmt::format("{}", fmt::join(state.origin.arguments, " "))),
                   kTitleColumns);
  if (!state.origin.hostname.empty())
    text +=
        titled(terminal.tr("host"),
               terminal.fill("{}, in {}", printable(state.origin.hostname), printable(state.origin.working_directory)),
               kTitleColumns);
  if (!state.tags.empty())
    text += titled(terminal.tr("tags"), printable(fmt::format("{}", fmt::join(state.tags, ", "))), kTitleColumns);
  text += titled(terminal.tr("directory"), tune::display_path(run.analysis.directory()), kTitleColumns);
  if (!ranks.empty()) text += "\n" + ranks_table(ranks, row, terminal);
  if (events.empty()) return text;
  text += "\n";
  const size_t left_out = events.size() - std::min(events.size(), kEventsShown);
  if (left_out > 0) text += terminal.fill("… {} more: --json has all", left_out) + "\n";
  for (size_t i = left_out; i < events.size(); ++i) text += train_event_line(events[i], terminal);
  return text;
}

std::vector<TrainEvent> train_events(const tune::ExperimentState& state) {
  std::vector<TrainEvent> events;
  for (const auto& [number, row] : rows_named(state, "event")) {
    const bool is_fault = text_in(row->config, "event") == "fault";
    const auto rank = integer_in(row->config, "rank");
    const std::string failed = is_fault && rank ? fmt::format("rank {} failed: ", *rank) : "";
    events.push_back(
        {.number = number, .at = row->started, .text = failed + first_line(row->reason), .is_fault = is_fault});
  }
  return events;
}

std::string train_event_line(const TrainEvent& event, const Terminal& terminal) {
  return fmt::format("{}  {}\n", terminal.paint(Colour::kFaint, time_of_day(event.at)),
                     event.is_fault ? terminal.paint(Colour::kRed, event.text) : event.text);
}

}  // namespace volador::cli
