#include "cli/process_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/json_text.h"
#include "cli/table.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/quantities.h"

namespace volador::cli {

namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string stack_text(const v1::StackReply& stack) {
  std::string out = fmt::format("actor {} ({}) on node {}, pid {}, {} thread{}\n", printable(stack.display()),
                                stack.actor().substr(0, 8), printable(stack.node()), stack.pid(), stack.threads_size(),
                                stack.threads_size() == 1 ? "" : "s");
  for (const v1::ThreadStack& thread : stack.threads()) {
    out += fmt::format("\nthread {} \"{}\" {}", thread.thread(), printable(thread.name()), printable(thread.state()));
    if (!thread.runs().empty()) {
      out += fmt::format(" runs {} for {}", printable(thread.runs()),
                         format_duration(std::chrono::milliseconds(thread.runs_ms())));
      if (thread.actor() != stack.actor()) out += fmt::format(" (of actor {})", thread.actor().substr(0, 8));
    }
    out += '\n';
    for (const std::string& frame : thread.frames()) out += fmt::format("  {}\n", printable(frame));
    if (!thread.note().empty()) out += fmt::format("  ({})\n", printable(thread.note()));
  }
  return out;
}

std::string stack_json(const v1::StackReply& stack) {
  Json json{{"api_version", "v1"}};
  json["actor"] = stack.actor();
  json["display"] = stack.display();
  json["node"] = stack.node();
  json["pid"] = stack.pid();
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
  return text_of(json);
}

std::string chrome_trace(const v1::TimelineReply& timeline) {
  Json events = Json::array();
  int process_number = 0;  // Ids of processes are those of their machines: two may have the same.
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
  const Json trace{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return trace.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string timeline_text(const v1::TimelineReply& timeline, const std::string& file) {
  int64_t calls = 0;
  uint64_t forgotten = 0;
  std::set<std::string> actors;
  for (const v1::TimelineProcess& process : timeline.processes()) {
    forgotten += process.forgotten();
    actors.insert(process.actors().begin(), process.actors().end());
    for (const v1::TimelineEvent& event : process.events()) calls += event.calls();
  }
  std::string out =
      fmt::format("{} calls of {} actors in {} processes: {}\n", calls, actors.size(), timeline.processes_size(), file);
  if (forgotten > 0) out += fmt::format("{} older entries are not kept\n", forgotten);
  return out + "open it in https://ui.perfetto.dev or chrome://tracing\n";
}

}  // namespace volador::cli
