#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/render/json_text.h"
#include "cli/render/table.h"
#include "cli/render/tune_view.h"
#include "runtime/csv_text.h"
#include "runtime/quantities.h"
#include "tune/display/progress_table.h"
#include "tune/results/result_text.h"

namespace volador::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string shown(const std::optional<double>& value) { return value ? tune::format_value(*value) : ""; }

}  // namespace

std::string replay_text(const tune::ReplayReport& report) {
  std::string text =
      fmt::format("{}, {} and {} compared: {}\n", counted(report.events, "event"),
                  counted(report.suggestions, "suggestion"), counted(report.decisions, "decision"),
                  report.differences == 0 ? "all the same" : counted(report.differences, "differs", "differ"));
  for (const std::string& line : report.shown) text += "  " + printable(line) + "\n";
  if (report.differences > static_cast<int64_t>(report.shown.size()))
    text += fmt::format("  … {} more\n", report.differences - static_cast<int64_t>(report.shown.size()));
  return text;
}

std::string replay_json(const tune::ReplayReport& report) {
  return text_of({{"api_version", "v1"},
                  {"events", report.events},
                  {"suggestions", report.suggestions},
                  {"decisions", report.decisions},
                  {"differences", report.differences},
                  {"shown", report.shown}});
}

std::string simulation_text(const tune::SchedulerComparison& comparison) {
  Table table({{"scheduler"},
               {"trials", Align::kRight},
               {"finished", Align::kRight},
               {"stopped", Align::kRight},
               {"steps", Align::kRight},
               {"seconds", Align::kRight},
               {"first finished", Align::kRight},
               {"slots busy", Align::kRight},
               {"best", Align::kRight}});
  for (const auto& row : comparison.rows) {
    table.add({printable(row.name), tune::format_value(row.trials), tune::format_value(row.finished),
               tune::format_value(row.stopped), fmt::format("{:.0f}", row.steps), fmt::format("{:.0f}", row.elapsed_s),
               row.first_finished_s ? fmt::format("{:.0f}", *row.first_finished_s) : "",
               fmt::format("{:.0f} %", 100 * row.busy_share), shown(row.best)});
  }
  const int64_t seeds = comparison.rows.empty() ? 0 : comparison.rows.front().seeds;
  return table.text() + (seeds > 1 ? fmt::format("means of {} seeds\n", seeds) : "");
}

std::string simulation_json(const tune::SchedulerComparison& comparison) {
  Json rows = Json::array();
  for (const auto& row : comparison.rows) {
    Json curve = Json::array();
    for (const double value : row.curve) curve.push_back(number(value));
    rows.push_back({{"name", row.name},
                    {"seeds", row.seeds},
                    {"trials", row.trials},
                    {"finished", row.finished},
                    {"stopped", row.stopped},
                    {"steps", row.steps},
                    {"seconds", row.elapsed_s},
                    {"first_finished_s", number(row.first_finished_s)},
                    {"busy_share", row.busy_share},
                    {"best", number(row.best)},
                    {"curve", std::move(curve)}});
  }
  return text_of({{"api_version", "v1"}, {"curve_seconds", comparison.times}, {"schedulers", std::move(rows)}});
}

std::string simulation_csv(const tune::SchedulerComparison& comparison) {
  std::string text = "seconds";
  for (const auto& row : comparison.rows) {
    text += ',';
    append_csv_text(text, row.name);
  }
  text += '\n';
  for (size_t i = 0; i < comparison.times.size(); ++i) {
    text += fmt::format("{}", comparison.times[i]);
    for (const auto& row : comparison.rows) text += std::isnan(row.curve[i]) ? "," : fmt::format(",{}", row.curve[i]);
    text += '\n';
  }
  return text;
}

}  // namespace volador::cli
