#include "dashboard/process_json.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "dashboard/json_text.h"
#include "dashboard/row_text.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::dashboard {

nlohmann::ordered_json stack_object(const v1::StackReply& stack) {
  using Json = nlohmann::ordered_json;
  Json json{{"actor", stack.actor()}, {"display", stack.display()}, {"node", stack.node()}, {"pid", stack.pid()}};
  json["threads"] = Json::array();
  for (const v1::ThreadStack& thread : stack.threads()) {
    json["threads"].push_back({{"thread", thread.thread()},
                               {"name", thread.name()},
                               {"state", thread.state()},
                               {"runs", thread.runs()},
                               {"actor", thread.actor()},
                               {"runs_ms", thread.runs_ms()},
                               {"frames", std::vector<std::string>(thread.frames().begin(), thread.frames().end())},
                               {"note", thread.note()}});
  }
  return json;
}

std::string chrome_trace(const v1::TimelineReply& timeline) {
  using Json = nlohmann::ordered_json;
  Json events = Json::array();
  int process_number = 0;  // Process ids are per machine and may repeat, so they are replaced.
  for (const v1::TimelineProcess& process : timeline.processes()) {
    const int pid = ++process_number;
    events.push_back({{"name", "process_name"},
                      {"ph", "M"},
                      {"pid", pid},
                      {"args", {{"name", fmt::format("node {}, pid {}", process.node(), process.pid())}}}});
    for (const v1::TimelineThread& thread : process.threads()) {
      events.push_back({{"name", "thread_name"},
                        {"ph", "M"},
                        {"pid", pid},
                        {"tid", thread.id()},
                        {"args", {{"name", thread.name()}}}});
    }
    for (const v1::TimelineEvent& event : process.events()) {
      const auto known = [](uint32_t index, int size) { return index < static_cast<uint32_t>(size); };
      if (!known(event.name(), process.names_size()) || !known(event.actor(), process.actors_size()) ||
          !known(event.thread(), process.threads_size()))
        continue;
      Json arguments{{"actor", process.actors(static_cast<int>(event.actor()))}};
      if (event.calls() > 1) arguments["calls"] = event.calls();
      if (event.running()) arguments["running"] = true;
      if (event.failed()) arguments["failed"] = true;
      events.push_back({{"name", process.names(static_cast<int>(event.name()))},
                        {"cat", "call"},
                        {"ph", "X"},
                        {"pid", pid},
                        {"tid", process.threads(static_cast<int>(event.thread())).id()},
                        {"ts", event.start_us()},
                        {"dur", static_cast<double>(event.span_ns()) / 1000},
                        {"args", std::move(arguments)}});
    }
  }
  Json trace{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  if (timeline.missing_size() > 0)
    trace["missing"] = std::vector<std::string>(timeline.missing().begin(), timeline.missing().end());
  return trace.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string process_rows_text(const v1::NodeProcesses& found) {
  std::string rows = "[";
  for (const v1::NodeProcess& one : found.processes()) {
    if (rows.size() > 1) rows += ',';
    JsonObject row(rows);
    row.integer("pid", one.pid());
    row.text("kind", one.kind());
    row.raw("actors", list_text(one.actors()));
    if (one.has_cpu_cores()) row.number("cpu_cores", std::round(one.cpu_cores() * 1000) / 1000);
    row.integer("memory_bytes", one.memory_bytes());
    row.text("node", one.node());
    row.text("program", one.program());
    if (one.started_ms() > 0) row.integer("started_ms", one.started_ms());
    if (one.has_ends_in_ms()) row.integer("ends_in_s", one.ends_in_ms() / 1000);
    row.end();
  }
  return rows + "]";
}

std::string processes_text(const v1::NodeProcesses& found) {
  std::string text;
  JsonObject answer(text);
  answer.raw("processes", process_rows_text(found));
  answer.end();
  return text;
}

}  // namespace volador::dashboard
