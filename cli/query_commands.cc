#include "cli/query_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/cluster_view.h"
#include "cli/connection.h"
#include "cli/json_view.h"
#include "cli/table.h"
#include "runtime/control/cluster_api.h"
#include "runtime/nearest_word.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/quantities.h"

namespace volador::cli {

void ClusterCommand::declare_connection(CLI::App& app, const std::string& timeout) {
  timeout_ = timeout;
  declare_json(app);
  app.add_option("--timeout", timeout_, "How long to wait for the head; " + timeout + " where not given")->type_name("DURATION");
  settings_.declare(app, connection_settings());
}

tl::expected<std::unique_ptr<control::ClusterApi>, Failure> ClusterCommand::connect(const Context& context) const {
  auto timeout = parse_duration(timeout_);
  if (!timeout || timeout->count() <= 0)
    return usage_error(fmt::format("--timeout: expected a duration above zero such as 5s, got \"{}\"", timeout_));
  auto config = settings_.resolve(context.paths);
  if (!config) return tl::unexpected(config.error());
  for (const std::string& warning : config->warnings()) context.terminal.note("warning: " + warning);
  auto target = find_target(*config, context.paths);
  if (!target) return tl::unexpected(target.error());
  return cli::connect(*target, context.paths, std::chrono::ceil<std::chrono::milliseconds>(*timeout));
}

CLI::App* StatusCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("status", "Show the cluster: nodes, resources in use, actors, experiments");
  app->footer("Examples:\n  volador status\n  volador status --json | jq '.nodes[].name'");
  declare_connection(*app);
  return app;
}

Outcome StatusCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  auto reply = (*api)->status();
  if (!reply) return fail(reply.error());
  context.terminal.print(wants_json() ? status_json(*reply) : status_text(*reply, context.terminal));
  return {};
}

CLI::App* ListCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("list", "List nodes, actors, placement groups, trials or objects");
  app->footer(
      "Examples:\n  volador list nodes\n  volador list actors --json\n  volador list groups              placement groups and where their bundles are\n  volador list trials digits        the trials "
      "of the experiment \"digits\"\n  volador list trials digits --tag=diverged   those of them that have this tag\n  volador list objects --limit=20   the largest values of volador::put, and who holds them");
  app->add_option("what", kind_, "nodes, actors, groups, trials or objects")->required();
  app->add_option("experiment", filter_, "Of trials: the experiment's name; all where not given");
  app->add_option("--tag", tags_, "Of trials: only those that have it; may be given again")->type_name("TAG");
  app->add_option("--limit", limit_, "At most so many; 1000 where not given")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("INTEGER");
  declare_connection(*app);
  return app;
}

Outcome ListCommand::run(const Context& context) {
  const std::vector<std::string> kinds{"nodes", "actors", "groups", "trials", "objects"};
  if (std::find(kinds.begin(), kinds.end(), kind_) == kinds.end())
    return usage_error(
        fmt::format("list: expected nodes, actors, groups, trials or objects, got \"{}\"{}", kind_, did_you_mean(kind_, kinds)));
  if (!tags_.empty() && kind_ != "trials") return usage_error(fmt::format("--tag: trials have tags, {} have none: volador list trials --tag={}", kind_, tags_.front()));
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::ListRequest request;
  request.set_filter(filter_);
  request.set_limit(limit_);
  for (const std::string& tag : tags_) request.add_tags(tag);
  auto show = [&](const auto& reply, auto json, auto text) -> Outcome {
    if (!reply) return fail(reply.error());
    context.terminal.print(wants_json() ? json(*reply) : text(*reply, context.terminal));
    return {};
  };
  if (kind_ == "nodes") return show((*api)->list_nodes(request), nodes_json, nodes_text);
  if (kind_ == "actors") return show((*api)->list_actors(request), actors_json, actors_text);
  if (kind_ == "groups") return show((*api)->list_groups(request), groups_json, groups_text);
  if (kind_ == "objects") return show((*api)->list_objects(request), objects_json, objects_text);
  return show((*api)->list_trials(request), trials_json, trials_text);
}

CLI::App* MemoryCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("memory", "Show what fills the object stores: by program line and process, largest first");
  app->footer(
      "Examples:\n  volador memory                    what each line of a program has put, in memory and on disk\n"
      "  volador memory --json\n  volador list objects --limit=20   the same one by one, with who holds each");
  app->add_option("--limit", limit_, "At most so many lines; 100 where not given")->check(CLI::Range(1, 10'000))->type_name("INTEGER");
  declare_connection(*app);
  return app;
}

Outcome MemoryCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::ListRequest request;
  request.set_limit(1);  // Single objects are of no interest here.
  auto reply = (*api)->list_objects(request);
  if (!reply) return fail(reply.error());
  auto& groups = *reply->mutable_groups();
  if (groups.size() > limit_) groups.DeleteSubrange(limit_, groups.size() - limit_);
  context.terminal.print(wants_json() ? memory_json(*reply) : memory_text(*reply, context.terminal));
  return {};
}

CLI::App* LogsCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("logs", "Print what an actor, trial, worker or the head wrote");
  app->footer(
      "Examples:\n  volador logs 3f2a              output of the actor or trial with this id, or a prefix of it\n"
      "  volador logs gpu-1             log of the worker of node gpu-1\n"
      "  volador logs --node=gpu-1      the same, and what its actors wrote\n  volador logs head --tail=20");
  app->add_option("id", id_, "Id of an actor, host or trial, or a prefix of it; a node's or trial's name; or head");
  app->add_option("--node", node_,
                  "The log of this node's worker and the output of its actors, from its files: at most 2 MiB, the files "
                  "written last")
      ->type_name("NAME");
  app->add_flag("-f,--follow", follow_, "Go on with what comes, until Ctrl-C");
  app->add_option("--tail", tail_, "Begin with the last so many lines, of each file with --node; 100 where not given")
      ->check(CLI::Range(1, 10'000))
      ->type_name("LINES");
  declare_connection(*app);
  return app;
}

Outcome LogsCommand::run(const Context& context) {
  if (id_.empty() == node_.empty()) return usage_error("logs: say what: an id, \"head\", or --node=NAME; one of them");
  if (follow_ && !node_.empty()) return usage_error("logs: --follow goes with an id or \"head\", not with --node");
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::LogsRequest request;
  request.set_id(id_);
  request.set_node(node_);
  request.set_follow(follow_);
  request.set_tail(tail_);
  auto ended = (*api)->logs(request, [&](const v1::LogLine& line) {
    if (wants_json()) {
      context.terminal.print(log_line_json(line));
    } else {
      // Of several files: each line says which, as output does that a driver shows.
      const std::string source = node_.empty() ? "" : fmt::format("({}{}) ", line.source(), line.is_stderr() ? " err" : "");
      context.terminal.print(source + printable_line(line.text()) + "\n");
    }
    return true;
  });
  if (!ended) return fail(ended.error());
  return {};
}

CLI::App* ExplainCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("explain", "Say why an actor, trial or placement group waits, or how it ended");
  app->footer("Examples:\n  volador explain 3f2a\n  volador explain hits           the actor named \"hits\"");
  app->add_option("id", id_, "Id of an actor, trial or placement group, a prefix of it, or a name")->required();
  declare_connection(*app);
  return app;
}

Outcome ExplainCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::ExplainRequest request;
  request.set_id(id_);
  auto reply = (*api)->explain(request);
  if (!reply) return fail(reply.error());
  std::string text = reply->text();
  if (!text.ends_with('\n')) text += '\n';
  context.terminal.print(wants_json() ? explain_json(*reply) : text);
  return {};
}

CLI::App* DrainCommand::declare(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("drain", "Place nothing new on a node, so that it can be stopped when its actors have ended");
  app->footer("Examples:\n  volador drain gpu-1\n  volador drain gpu-1 --undo");
  app->add_option("node", node_, "Name of the node")->required();
  app->add_flag("--undo", undo_, "Use the node again");
  declare_connection(*app);
  return app;
}

Outcome DrainCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::DrainRequest request;
  request.set_node(node_);
  request.set_undo(undo_);
  if (auto reply = (*api)->drain(request); !reply) return fail(reply.error());
  if (wants_json()) {
    context.terminal.print("{\"api_version\": \"v1\"}\n");
  } else {
    context.terminal.print(undo_ ? fmt::format("node {} is used again\n", node_)
                                 : fmt::format("node {} drains: nothing new is placed there\n", node_));
  }
  return {};
}

}  // namespace volador::cli
