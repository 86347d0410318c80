#include "cli/process_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/json_text.h"
#include "cli/table.h"
#include "dashboard/process_json.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/quantities.h"

namespace volador::cli {

std::string stack_text(const v1::StackReply& stack) {
  std::string out = fmt::format("actor {} ({}) on node {}, pid {}, {}\n", printable(stack.display()),
                                stack.actor().substr(0, 8), printable(stack.node()), stack.pid(),
                                counted(stack.threads_size(), "thread"));
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
  nlohmann::ordered_json json{{"api_version", "v1"}};
  json.update(dashboard::stack_object(stack));
  return text_of(json);
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
      fmt::format("{} of {} in {}: {}\n", counted(calls, "call"), counted(actors.size(), "actor"),
                  counted(timeline.processes_size(), "process", "processes"), file);
  if (forgotten > 0) out += fmt::format("{} not kept\n", counted(forgotten, "older entry is", "older entries are"));
  return out + "open it in https://ui.perfetto.dev or chrome://tracing\n";
}

}  // namespace volador::cli
