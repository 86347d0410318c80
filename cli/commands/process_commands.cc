#include "cli/commands/process_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/render/process_view.h"
#include "dashboard/process_json.h"
#include "runtime/control/cluster_api.h"
#include "runtime/files/durable_file.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::cli {

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
