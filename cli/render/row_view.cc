#include "cli/render/row_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/render/cluster_view.h"
#include "cli/render/row_json.h"
#include "cli/render/table.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/quantities.h"
#include "runtime/resources.h"

namespace volador::cli {
namespace {

using RowJson = nlohmann::json;

int64_t integer_member(const RowJson& row, const char* name) {
  const RowJson& value = member(row, name);
  return value.is_number() ? value.get<int64_t>() : 0;
}

std::string number_text(const RowJson& value) {
  return value.is_number() ? fmt::format("{:.4g}", value.get<double>()) : "";
}

// {"cpus": 1, "memory": 1073741824} → "cpus 1, memory 1 GiB".
std::string amounts_of(const RowJson& amounts) {
  std::string text;
  if (!amounts.is_object()) return text;
  for (const auto& [name, amount] : amounts.items()) {
    if (!amount.is_number()) continue;
    text += fmt::format(
        "{}{} {}", text.empty() ? "" : ", ", printable(name),
        name == "memory" ? format_bytes(amount.get<int64_t>()) : fmt::format("{:.4g}", amount.get<double>()));
  }
  return text;
}

std::vector<RowJson> rows_of(const RowJson& page) {
  const RowJson& rows = member(page, "rows");
  return rows.is_array() ? rows.get<std::vector<RowJson>>() : std::vector<RowJson>();
}

std::string finished_table(const Table& table, const RowJson& page, size_t shown, const Terminal& terminal) {
  std::string out = fitted(table, terminal);
  const auto total = static_cast<size_t>(std::max<int64_t>(0, integer_member(page, "total")));
  if (total > shown) out += terminal.fill("… {} more: --limit={}", total - shown, total) + "\n";
  return out;
}

std::string reason_of(const RowJson& row, const Terminal& terminal) {
  const RowJson& why = member(row, "why");
  return printable(terminal.reason(text_member(row, "reason"), why.is_array() ? why.dump() : ""));
}

// The name given by the user, by default the cluster's name for it.
std::string name_or_display(const RowJson& row) {
  const std::string name = text_member(row, "name");
  return name.empty() ? text_member(row, "display") : name;
}

// "vit-sweep (3f2a90c1)": the single reason that prevents a request from starting, if there is one.
std::string blocker_text(const RowJson& row, const Terminal& terminal) {
  const RowJson& blocker = member(row, "blocker");
  if (!blocker.is_object()) return "";
  return fmt::format("{} {} ({})", terminal.word(text_member(blocker, "kind")), name_or_display(blocker),
                     text_member(blocker, "id").substr(0, 8));
}

}  // namespace

std::string day_and_second(int64_t unix_ms) {
  if (unix_ms <= 0) return "";
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char buffer[32];
  return std::string(buffer, std::strftime(buffer, sizeof buffer, "%m-%d %H:%M:%S", &parts));
}

std::string queue_text(const nlohmann::json& page, const Terminal& terminal, int64_t now_ms) {
  const std::vector<RowJson> rows = rows_of(page);
  if (rows.empty()) return terminal.tr("nothing waits for resources") + "\n";
  Table table({{.title = "#", .align = Align::kRight},
               {.title = terminal.tr("name"), .width_max = kNameColumns, .width_min = 12, .cut = Cut::kMiddle},
               {.title = terminal.tr("id"), .rank = 7},
               {.title = terminal.tr("kind"), .rank = 4, .width_max = 20, .cut = Cut::kMiddle},
               {.title = terminal.tr("asks for"), .width_max = 30, .width_min = 10},
               {.title = terminal.tr("waits"), .align = Align::kRight},
               {.title = terminal.tr("priority"), .align = Align::kRight, .rank = 5},
               {.title = terminal.tr("blocked by"), .rank = 3, .width_max = 50, .width_min = 12, .cut = Cut::kMiddle},
               {.title = terminal.tr("reason"), .rank = 2, .width_max = 100, .width_min = 36, .first = true},
               {.title = terminal.tr("experiment"), .rank = 6, .width_max = 32, .width_min = 10, .cut = Cut::kMiddle},
               {.title = terminal.tr("program"), .rank = 8, .width_max = 32, .width_min = 10, .cut = Cut::kMiddle}});
  int64_t place = 0;
  for (const RowJson& row : rows) {
    ++place;
    const int64_t since = integer_member(row, "since_ms");
    const int64_t position = integer_member(row, "position");
    table.add({std::to_string(position > 0 ? position : place), name_or_display(row),
               text_member(row, "id").substr(0, 8), terminal.word(text_member(row, "kind")),
               amounts_of(member(row, "resources")),
               since == 0 ? "" : format_duration(std::chrono::seconds(std::max<int64_t>(0, now_ms - since) / 1000)),
               integer_member(row, "priority") == 0 ? "" : std::to_string(integer_member(row, "priority")),
               blocker_text(row, terminal), reason_of(row, terminal), text_member(row, "experiment"),
               text_member(row, "driver")});
  }
  return finished_table(table, page, rows.size(), terminal);
}

std::string experiments_text(const nlohmann::json& page, const Terminal& terminal) {
  std::vector<RowJson> rows = rows_of(page);
  if (rows.empty()) return terminal.tr("no experiments") + "\n";
  Table table({{.title = terminal.tr("experiment"), .width_max = 32, .width_min = 16, .cut = Cut::kMiddle},
               {.title = terminal.tr("state")},
               {.title = terminal.tr("trials"), .align = Align::kRight},
               {.title = terminal.tr("metric"), .rank = 3, .width_max = 20, .cut = Cut::kMiddle},
               {.title = terminal.tr("best"), .align = Align::kRight, .rank = 1},
               {.title = terminal.tr("best trial"), .rank = 2, .width_max = 20, .cut = Cut::kMiddle},
               {.title = terminal.tr("started"), .rank = 4},
               {.title = terminal.tr("tags"), .rank = 5, .width_max = 40, .width_min = 8},
               {.title = terminal.tr("directory"), .rank = 6, .width_max = 60, .width_min = 12, .cut = Cut::kMiddle}});
  std::stable_sort(rows.begin(), rows.end(), [](const RowJson& a, const RowJson& b) {
    const int first = state_rank(text_member(a, "state")), second = state_rank(text_member(b, "state"));
    const bool first_open = first <= state_rank("paused"), second_open = second <= state_rank("paused");
    if (first_open != second_open) return first_open;  // Open ones first; the others newest first, in any final state.
    return integer_member(a, "started_ms") > integer_member(b, "started_ms");
  });
  for (const RowJson& row : rows) {
    int64_t ended = 0;
    const RowJson& by_status = member(row, "trials_by_status");
    for (const char* status : {"finished", "stopped", "failed", "interrupted"})
      ended += integer_member(by_status, status);
    const RowJson& best = member(row, "best");
    std::string tags;
    for (const RowJson& tag : member(row, "tags")) {
      if (tag.is_string()) tags += (tags.empty() ? "" : ", ") + printable(tag.get<std::string>());
    }
    table.add({text_member(row, "name"), terminal.paint_state(text_member(row, "state")),
               fmt::format("{}/{}", ended, integer_member(row, "trials_total")), text_member(row, "metric"),
               number_text(member(best, "value")),
               text_member(best, "name").empty() ? text_member(best, "trial") : text_member(best, "name"),
               day_and_second(integer_member(row, "started_ms")), tags, text_member(row, "directory")});
  }
  return finished_table(table, page, rows.size(), terminal);
}

std::string events_text(const nlohmann::json& page, const Terminal& terminal) {
  const std::vector<RowJson> rows = rows_of(page);
  if (rows.empty()) return terminal.tr("no events") + "\n";
  Table table({{.title = terminal.tr("time")},
               {.title = terminal.tr("level"), .rank = 2},
               {.title = terminal.tr("event"), .width_max = 60, .width_min = 20},
               {.title = terminal.tr("of"), .rank = 1, .width_max = 100, .width_min = 16}});
  for (const RowJson& row : rows) {
    std::string of;
    const RowJson& fields = member(row, "fields");
    if (fields.is_object()) {
      for (const auto& [name, value] : fields.items()) {
        const bool has_data = name == "cause" || name == "why";
        const std::string text = has_data && member(row, "why").is_array()
                                     ? terminal.reason(text_member(fields, name.c_str()), member(row, "why").dump())
                                 : value.is_string() ? value.get<std::string>()
                                                     : value.dump(-1, ' ', false, RowJson::error_handler_t::replace);
        if (!text.empty()) of += fmt::format("{}{}={}", of.empty() ? "" : " ", printable(name), printable(text));
      }
    }
    table.add({day_and_second(integer_member(row, "time_ms")), terminal.word(text_member(row, "level")),
               terminal.tr(text_member(row, "text")), of});
  }
  return finished_table(table, page, rows.size(), terminal);
}

std::string study_rows_text(const nlohmann::json& page, const Terminal& terminal) {
  const std::vector<RowJson> rows = rows_of(page);
  if (rows.empty()) return terminal.tr("no studies; volador study create makes one") + "\n";
  Table table({{.title = terminal.tr("study"), .width_max = 40, .width_min = 16, .cut = Cut::kMiddle},
               {.title = terminal.tr("trials"), .align = Align::kRight},
               {.title = terminal.tr("running"), .align = Align::kRight},
               {.title = terminal.tr("objective"), .width_max = 40, .width_min = 10},
               {.title = terminal.tr("best"), .align = Align::kRight, .rank = 1},
               {.title = terminal.tr("searcher"), .rank = 2, .width_max = 30, .width_min = 8},
               {.title = terminal.tr("created"), .rank = 3}});
  for (const RowJson& row : rows) {
    std::string objectives;
    for (const RowJson& one : member(row, "objectives"))
      objectives +=
          fmt::format("{}{} {}", objectives.empty() ? "" : ", ", text_member(one, "metric"), text_member(one, "mode"));
    const RowJson& best = member(row, "best");
    std::string values;
    if (best.is_array() && !best.empty()) {
      for (const RowJson& value : member(best.front(), "values"))
        values += (values.empty() ? "" : ", ") + number_text(value);
    }
    table.add({text_member(row, "name"), std::to_string(integer_member(row, "trials_total")),
               std::to_string(integer_member(member(row, "trials_by_state"), "running")), objectives, values,
               text_member(row, "searcher"), day_and_second(integer_member(row, "created_ms"))});
  }
  return finished_table(table, page, rows.size(), terminal);
}

std::vector<FunctionCounts> count_functions(const v1::TimelineReply& timeline, const nlohmann::json& runners) {
  std::set<std::string> ids;
  for (const RowJson& row : rows_of(runners)) ids.insert(text_member(row, "id"));
  std::map<std::string, FunctionCounts> functions;
  for (const v1::TimelineProcess& process : timeline.processes()) {
    for (const v1::TimelineEvent& event : process.events()) {
      const auto actor = static_cast<int>(event.actor()), name = static_cast<int>(event.name());
      if (actor >= process.actors_size() || name >= process.names_size() || !ids.contains(process.actors(actor)))
        continue;
      FunctionCounts& counts = functions[printable(process.names(name))];
      if (event.running()) {
        ++counts.running;
        continue;
      }
      const int64_t calls = std::max<int64_t>(1, event.calls());
      counts.ended += calls;
      counts.failed += event.failed() ? calls : 0;
      counts.time += std::chrono::nanoseconds(event.span_ns());
    }
  }
  std::vector<FunctionCounts> sorted;
  for (auto& [name, counts] : functions) {
    counts.name = name;
    sorted.push_back(counts);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const FunctionCounts& a, const FunctionCounts& b) {
    return std::pair(a.running, a.ended) > std::pair(b.running, b.ended);
  });
  return sorted;
}

std::string tasks_text(const std::vector<FunctionCounts>& functions, const nlohmann::json& runners,
                       const Terminal& terminal) {
  int64_t ready = 0, waiting = 0;
  std::string reason;  // Reason of the first waiting one.
  for (const RowJson& row : rows_of(runners)) {
    const std::string state = text_member(row, "state");
    if (state == "dead") continue;
    const bool waits = state == "pending" || state == "restarting";
    ++(waits ? waiting : ready);
    if (waits && reason.empty()) reason = reason_of(row, terminal);
  }
  std::string out;
  if (!functions.empty()) {
    Table table({{.title = terminal.tr("function"), .width_max = 40, .width_min = 16, .cut = Cut::kMiddle},
                 {.title = terminal.tr("running"), .align = Align::kRight},
                 {.title = terminal.tr("ended"), .align = Align::kRight},
                 {.title = terminal.tr("failed"), .align = Align::kRight},
                 {.title = terminal.tr("mean time"), .align = Align::kRight, .rank = 1}});
    for (const FunctionCounts& one : functions)
      table.add({one.name, std::to_string(one.running), std::to_string(one.ended), std::to_string(one.failed),
                 one.ended == 0 ? ""
                                : fmt::format("{:.3g} ms", std::chrono::duration<double, std::milli>(one.time).count() /
                                                               static_cast<double>(one.ended))});
    out += finished_table(table, {}, 0, terminal);
  }
  if (ready + waiting == 0) return out.empty() ? terminal.tr("no tasks") + "\n" : out;
  std::vector<std::string> line{terminal.fill("places for tasks: {} ready, {} waiting", ready, waiting)};
  if (!reason.empty()) line.push_back(reason);
  return out + wrapped(line, ": ", terminal.columns(), 2);
}

}  // namespace volador::cli
