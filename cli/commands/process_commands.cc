#include "cli/commands/process_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/job_session.h"
#include "cli/render/json_text.h"
#include "cli/render/process_view.h"
#include "cli/render/row_view.h"
#include "cli/render/table.h"
#include "dashboard/process_json.h"
#include "runtime/control/cluster_api.h"
#include "runtime/debugging.h"
#include "runtime/files/durable_file.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::cli {
namespace {

constexpr int kDebuggedMax = 1'000'000;
constexpr int kPlaceColumns = 60;
// Less than the timeout of an operation.
constexpr std::chrono::milliseconds kDebuggerWait{10'000};

// Where the actor waits in a debugger; empty: nowhere.
std::string debugger_place(const v1::Actor& actor) {
  const auto why = nlohmann::json::parse(actor.why(), nullptr, false);
  const bool is_known = why.is_array() && why.size() > 1 && why[0] == "waits.debugger" && why[1].is_string();
  return is_known ? why[1].get<std::string>() : std::string();
}

}  // namespace

CLI::App* StackCommand::declare(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("stack", "Show the stack of every thread of a running actor, even of one that hangs");
  app->footer(
      "Examples:\n  volador stack 3f2a\n  volador stack hits             the actor named \"hits\"\n"
      "The threads of its process are interrupted for a moment and go on; of an actor with shared isolation those of "
      "the whole process\n"
      "are shown. Functions of your program have names where it was not stripped; what was inlined stands in its "
      "caller.");
  app->add_option("id", id_, "Id of an actor or trial, the start of an id, or a name")->required();
  declare_connection(*app, "15s");
  return app;
}

Outcome StackCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::StackRequest request;
  request.set_id(id_);
  auto reply = (*api)->call<v1::StackReply>("Cluster/Stack", request);
  if (!reply) return fail(reply.error());
  context.terminal.print(wants_json() ? stack_json(*reply) : stack_text(*reply));
  return {};
}

CLI::App* DebugCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("debug", "Attach to the debugger (pdb) in which a Python actor or task waits");
  app->footer(
      "Examples:\n  volador debug                  lists what waits at a breakpoint\n"
      "  volador debug trainer          the actor named \"trainer\"\n  volador debug 3f2a\n"
      "An actor or task waits at breakpoint() in its code, and after an exception if its program has "
      "VOLADOR_POST_MORTEM=1.\n"
      "In the debugger c continues the call and q ends it with bdb.BdbQuit; Ctrl-D detaches and leaves it waiting.");
  app->add_option("id", id_, "Name of an actor, or the start of the id of an actor or task; none: list what waits");
  declare_connection(*app, "30s");
  return app;
}

Outcome DebugCommand::list(control::ClusterApi& api, const Context& context) const {
  v1::ListRequest request;
  request.set_limit(kDebuggedMax);
  const auto actors = api.call<v1::ListActorsReply>("Cluster/ListActors", request);
  if (!actors) return fail(actors.error());
  const Terminal& terminal = context.terminal;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  Table table({{.title = terminal.tr("id")},
               {.title = terminal.tr("name"), .width_max = kNameColumns, .width_min = 8, .cut = Cut::kMiddle},
               {.title = terminal.tr("node"), .width_max = kNameColumns, .width_min = 8, .cut = Cut::kMiddle},
               {.title = terminal.tr("place"), .width_max = kPlaceColumns, .width_min = 8, .cut = Cut::kMiddle}});
  for (const v1::Actor& actor : actors->actors()) {
    const std::string place = debugger_place(actor);
    if (place.empty()) continue;
    const std::string& name = actor.name().empty() ? actor.display() : actor.name();
    rows.push_back({{"id", actor.id()}, {"name", name}, {"node", actor.node()}, {"place", place}});
    table.add({actor.id().substr(0, 8), printable(name), printable(actor.node()), printable(place)});
  }
  if (wants_json()) {
    terminal.print(text_of({{"api_version", "v1"}, {"waiting", rows}}));
    return {};
  }
  if (rows.empty()) {
    terminal.note(terminal.tr("nothing waits in a debugger"));
    return {};
  }
  terminal.print(fitted(table, terminal));
  terminal.note(terminal.tr("attach with volador debug ID"));
  return {};
}

Outcome DebugCommand::run(const Context& context) {
  if (!id_.empty() && (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0))
    return usage_error(
        "debug: it needs a terminal as standard input and output; `volador debug` alone lists what waits");
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  if (id_.empty()) return list(**api, context);
  return run_job_session(**api,
                         {.job = std::string(kDebuggedActor) + id_,
                          .command = {},
                          .terminal = true,
                          .input = true,
                          .wait = std::min(kDebuggerWait, *timeout() / 2)},
                         context.terminal);
}

CLI::App* TimelineCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "timeline", "Save the recent calls of actors and tasks as a trace for ui.perfetto.dev or chrome://tracing");
  app->footer(
      "Examples:\n  volador timeline                       writes volador-timeline.json\n  volador timeline --id=hits "
      "--output=hits.json\n"
      "Each process keeps the last 4096 calls of a thread; short ones of one method, one right after another, count as "
      "one. What a\n"
      "process ran goes with it.");
  app->add_option("--id", id_, "Only calls of this actor: its id, the start of its id, or its name")
      ->type_name("ACTOR");
  app->add_option("-o,--output", output_, "File to write, - for stdout; volador-timeline.json by default")
      ->type_name("FILE");
  app->add_option("--limit", limit_,
                  "Only the newest calls of each thread, at most this many; by default all that are kept")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("INTEGER");
  declare_connection(*app, "15s");
  return app;
}

Outcome TimelineCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::TimelineRequest request;
  request.set_id(id_);
  request.set_limit(limit_);
  auto reply = (*api)->call<v1::TimelineReply>("Cluster/Timeline", request);
  if (!reply) return fail(reply.error());
  for (const std::string& missing : reply->missing()) context.terminal.note("warning: " + missing);
  const std::string trace = dashboard::chrome_trace(*reply);
  if (output_ == "-" || wants_json()) {
    context.terminal.print(trace + "\n");
    return {};
  }
  if (const auto written = write_file_atomically(output_, trace, Durability::kProcess); !written)
    return fail(written.error());
  context.terminal.print(timeline_text(*reply, output_));
  return {};
}

}  // namespace volador::cli
