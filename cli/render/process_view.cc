#include "cli/render/process_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "cli/render/json_text.h"
#include "cli/render/row_view.h"
#include "cli/render/table.h"
#include "dashboard/process_json.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/quantities.h"
#include "runtime/resources.h"

namespace volador::cli {
namespace {

constexpr std::array<std::string_view, 6> kRoles{"head", "worker", "program", "actors", "spare", "template"};

size_t rank_of(const v1::NodeProcess& process) {
  return static_cast<size_t>(std::find(kRoles.begin(), kRoles.end(), process.kind()) - kRoles.begin());
}

std::string role_text(const v1::NodeProcess& process, const Terminal& terminal) {
  const std::string_view kind = process.kind();
  if (kind == "head") return terminal.tr("head");
  if (kind == "worker") return terminal.tr("worker");
  if (kind == "program") return terminal.tr("program");
  if (kind == "actors") return terminal.tr("actors");
  if (kind == "spare") return terminal.tr("spare");
  if (kind == "template") return terminal.tr("template");
  return printable(kind);
}

}  // namespace

void sort_processes(v1::NodeProcesses& found) {
  std::sort(found.mutable_processes()->pointer_begin(), found.mutable_processes()->pointer_end(),
            [](const v1::NodeProcess* a, const v1::NodeProcess* b) {
              return std::tuple(std::string_view(a->node()), rank_of(*a), a->pid()) <
                     std::tuple(std::string_view(b->node()), rank_of(*b), b->pid());
            });
}

std::string processes_text(const v1::NodeProcesses& found, int limit, const Terminal& terminal) {
  if (found.processes().empty()) return terminal.tr("no processes") + "\n";
  Table table({{.title = terminal.tr("node"), .width_max = kNameColumns, .width_min = 8, .cut = Cut::kMiddle},
               {.title = terminal.tr("role")},
               {.title = terminal.tr("program"), .width_max = kNameColumns, .width_min = 8, .cut = Cut::kMiddle},
               {.title = terminal.tr("pid"), .align = Align::kRight},
               {.title = terminal.tr("started"), .rank = 1},
               {.title = terminal.tr("memory"), .align = Align::kRight},
               {.title = terminal.tr("actors"), .align = Align::kRight, .rank = 2},
               {.title = terminal.tr("ends in"), .align = Align::kRight}});
  const int shown = std::min(limit, found.processes_size());
  for (int at = 0; at < shown; ++at) {
    const v1::NodeProcess& one = found.processes(at);
    table.add({printable(one.node()), role_text(one, terminal), printable(one.program()), std::to_string(one.pid()),
               day_and_second(one.started_ms()), one.memory_bytes() > 0 ? format_bytes(one.memory_bytes()) : "",
               one.actors_size() == 0 ? "" : std::to_string(one.actors_size()),
               one.has_ends_in_ms() ? fmt::format("{} s", one.ends_in_ms() / 1000) : ""});
  }
  std::string out = fitted(table, terminal);
  if (found.processes_size() > shown)
    out += terminal.fill("… {} more: --limit={}", found.processes_size() - shown, found.processes_size()) + "\n";
  return out;
}

std::string processes_json(const v1::NodeProcesses& found, int limit) {
  v1::NodeProcesses shown = found;
  if (shown.processes_size() > limit) shown.mutable_processes()->DeleteSubrange(limit, shown.processes_size() - limit);
  nlohmann::ordered_json json{{"api_version", "v1"}, {"total", found.processes_size()}};
  json["processes"] = nlohmann::ordered_json::parse(dashboard::process_rows_text(shown));
  json["missing"] = std::vector<std::string>(found.missing().begin(), found.missing().end());
  return text_of(json);
}

std::string stack_text(const v1::StackReply& stack) {
  std::string out =
      fmt::format("actor {} ({}) on node {}, pid {}, {}\n", printable(stack.display()), stack.actor().substr(0, 8),
                  printable(stack.node()), stack.pid(), counted(stack.threads_size(), "thread"));
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
  std::string out = fmt::format("{} of {} in {}: {}\n", counted(calls, "call"), counted(actors.size(), "actor"),
                                counted(timeline.processes_size(), "process", "processes"), file);
  if (forgotten > 0) out += fmt::format("{} not kept\n", counted(forgotten, "older entry is", "older entries are"));
  return out + "open it in https://ui.perfetto.dev or chrome://tracing\n";
}

}  // namespace volador::cli
