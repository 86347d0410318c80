#include "cli/commands/query_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/commands/job_command.h"
#include "cli/commands/resource_commands.h"
#include "cli/connection.h"
#include "cli/experiment_calls.h"
#include "cli/render/actor_rows.h"
#include "cli/render/cluster_view.h"
#include "cli/render/json_text.h"
#include "cli/render/json_view.h"
#include "cli/render/process_view.h"
#include "cli/render/resource_view.h"
#include "cli/render/row_view.h"
#include "cli/render/table.h"
#include "experiments/katib/resource_kind.h"
#include "runtime/clock.h"
#include "runtime/control/cluster_api.h"
#include "runtime/nearest_word.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/protocol/volador/v1/live.pb.h"
#include "runtime/quantities.h"

namespace volador::cli {

void ClusterCommand::declare_connection(CLI::App& app, const std::string& timeout) {
  timeout_ = timeout;
  declare_json(app);
  app.add_option("--timeout", timeout_, "How long to wait for the head; " + timeout + " by default")
      ->type_name("DURATION");
  settings_.declare(app, connection_settings());
}

tl::expected<std::chrono::milliseconds, Failure> ClusterCommand::timeout() const {
  auto timeout = parse_duration(timeout_);
  if (!timeout || timeout->count() <= 0)
    return usage_error(fmt::format("--timeout: expected a duration above zero such as 5s, got \"{}\"", timeout_));
  return std::chrono::ceil<std::chrono::milliseconds>(*timeout);
}

tl::expected<Config, Failure> ClusterCommand::settings(const Context& context) const {
  auto config = settings_.resolve(context.paths);
  if (!config) return tl::unexpected(config.error());
  for (const std::string& warning : config->warnings()) context.terminal.note("warning: " + warning);
  return config;
}

tl::expected<std::unique_ptr<control::ClusterApi>, Failure> ClusterCommand::connect(const Context& context) const {
  auto patience = timeout();
  if (!patience) return tl::unexpected(patience.error());
  auto config = settings(context);
  if (!config) return tl::unexpected(config.error());
  auto target = find_target(*config, context.paths);
  if (!target) return tl::unexpected(target.error());
  return cli::connect(*target, context.paths, *patience);
}

namespace {

constexpr int kListedMax = 100'000;  // Maximum rows per request.
constexpr int kLogLines = 100;
constexpr int kResourceLogLinesMax = 1000;

const std::vector<std::string>& list_kinds() {
  static const std::vector<std::string> kinds{"nodes",     "actors",      "groups", "trials",  "objects",
                                              "queue",     "experiments", "events", "studies", "tasks",
                                              "processes", "audit",       "jobs"};
  return kinds;
}

int64_t unix_now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(SystemClock().wall().time_since_epoch()).count();
}

Result<nlohmann::json> page_of(control::ClusterApi& api, v1::ListRowsRequest request) {
  const auto reply = api.call<v1::ListRowsReply>("Live/List", request);
  if (!reply) return make_error(reply.error());
  auto page = nlohmann::json::parse(reply->json(), nullptr, /*allow_exceptions=*/false);
  if (page.is_discarded())
    return make_error(ErrorCode::kInternal,
                      fmt::format("the head answered a list of {} that is no JSON", request.topic()));
  return page;
}

// The states by which a list can be filtered; empty: its rows have none.
std::vector<std::string> states_of(const std::string& kind) {
  if (kind == "nodes") return {"alive", "suspect", "draining", "stopping", "awaited", "dead"};
  if (kind == "actors") return actor_states();
  if (kind == "groups") return {"ready", "pending", "rescheduling", "removed"};
  if (kind == "trials") return {"running", "waiting", "paused", "finished", "stopped", "failed", "interrupted"};
  if (kind == "experiments") return {"running", "paused", "finished", "failed", "interrupted", "crashed"};
  if (kind == "jobs") return {"queued", "running", "succeeded", "failed", "stopped", "expired"};
  if (kind == "objects") return {"memory", "spilled", "both", "freed"};
  return {};
}

// Removes rows with other states, then rows beyond the limit.
template <class Rows, class StateOf>
void keep_state(Rows& rows, const std::string& state, int limit, StateOf state_of) {
  if (!state.empty()) {
    rows.erase(std::remove_if(rows.begin(), rows.end(), [&](const auto& row) { return state_of(row) != state; }),
               rows.end());
  }
  if (rows.size() > limit) rows.DeleteSubrange(limit, rows.size() - limit);
}

// Sorts experiments by start, newest first, if the head reports the times.
void sort_newest_first(control::ClusterApi& api, v1::StatusReply& status) {
  v1::ListRowsRequest request;
  request.set_topic("experiments");
  request.set_page_size(20'000);
  request.add_fields("name");
  request.add_fields("started_ms");
  std::map<std::string, int64_t> started;
  if (const auto page = page_of(api, request)) {
    for (const auto& row : page->value("rows", nlohmann::json::array()))
      started[row.value("name", "")] = row.value("started_ms", int64_t{0});
  }
  auto& experiments = *status.mutable_experiments();
  std::stable_sort(
      experiments.pointer_begin(), experiments.pointer_end(),
      [&](const v1::Experiment* a, const v1::Experiment* b) { return started[a->name()] > started[b->name()]; });
}

}  // namespace

CLI::App* StatusCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("status", "Show the cluster: nodes, resources in use, actors, experiments");
  app->footer(
      "Examples:\n  volador status\n  volador status --json | jq '.nodes[].name'\n"
      "Lines fit the terminal. In a pipe or a file nothing is cut, unless COLUMNS is set.");
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome StatusCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  auto reply = (*api)->call<v1::StatusReply>("Cluster/Status", v1::StatusRequest());
  if (!reply) return fail(reply.error());
  if (wants_json()) {
    context.terminal.print(status_json(*reply));
    return {};
  }
  if (reply->experiments_size() > 1) sort_newest_first(**api, *reply);
  context.terminal.print(status_text(*reply, table_terminal(context)));
  return {};
}

CLI::App* ListCommand::declare(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("list",
                          "List nodes, actors, tasks, processes, placement groups, jobs, experiments, trials, "
                          "studies, objects, the queue, events or the audit log");
  app->footer(
      "Examples:\n"
      "  volador list nodes --state=dead\n"
      "  volador list actors --json\n"
      "  volador list actors --state=dead  those that have ended, with the cause\n"
      "  volador list queue                what waits for resources, and why\n"
      "  volador list processes            which processes the cluster has on each node, and their memory\n"
      "  volador list groups --wide        placement groups with every column\n"
      "  volador list trials digits --state=running   the running trials of the experiment \"digits\"\n"
      "  volador list trials digits --tag=diverged    those of its trials that have this tag\n"
      "  volador list events --limit=20    what happened last\n"
      "  volador list audit                who asked the cluster to change what: drained nodes, killed actors, new "
      "tokens\n"
      "  volador list objects --limit=20   the largest values of volador::put, and who holds them\n"
      "Rows are sorted by state, then by use. Lines fit the terminal: names are cut to 24 columns, and labels, "
      "addresses and other details are left\n"
      "out first. In a pipe or a file nothing is cut, unless COLUMNS is set.");
  app->add_option(
         "what", kind_,
         "nodes, actors, tasks, processes, groups, jobs, experiments, trials, studies, objects, queue, events or audit")
      ->required();
  app->add_option("experiment", filter_,
                  "For trials: the name of the experiment, for processes: that of the node, for audit: a part of a "
                  "token's id, action, object or outcome; all by default");
  app->add_option("--state", state_,
                  "Only rows of this state; for actors also \"all\", and \"live\", the default: all but dead")
      ->type_name("STATE");
  app->add_option("--tag", tags_, "For trials: only those with this tag; may be given more than once")
      ->type_name("TAG");
  app->add_option("--limit", limit_, "Show at most this many rows; 1000 by default")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("INTEGER");
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome ListCommand::list_rows(control::ClusterApi& api, const Terminal& terminal) const {
  v1::ListRowsRequest request;
  request.set_topic(kind_);
  if (!state_.empty()) request.set_filter("state=" + state_);
  request.set_page_size(std::min(limit_, 20'000));
  if (kind_ == "experiments") request.set_order("-started_ms");
  if (kind_ == "studies") request.set_order("-created_ms");
  const auto page = page_of(api, request);
  if (!page) return fail(page.error());
  if (wants_json()) {
    nlohmann::ordered_json json{{"api_version", "v1"}};
    json["total"] = page->value("total", int64_t{0});
    json[kind_] = page->value("rows", nlohmann::json::array());
    terminal.print(text_of(json));
  } else if (kind_ == "queue") {
    terminal.print(queue_text(*page, terminal, unix_now_ms()));
  } else {
    terminal.print(kind_ == "experiments" ? experiments_text(*page, terminal)
                   : kind_ == "events"    ? events_text(*page, terminal)
                                          : study_rows_text(*page, terminal));
  }
  return {};
}

Outcome ListCommand::list_tasks(control::ClusterApi& api, const Terminal& terminal) const {
  v1::ListRowsRequest request;
  request.set_topic("actors");
  request.set_filter("class_name=volador::TaskRunner");
  request.set_page_size(20'000);
  const auto runners = page_of(api, request);
  if (!runners) return fail(runners.error());
  const auto timeline = api.call<v1::TimelineReply>("Cluster/Timeline", v1::TimelineRequest());
  if (!timeline) return fail(timeline.error());
  for (const std::string& missing : timeline->missing()) terminal.note(terminal.tr("warning: ") + missing);
  std::vector<FunctionCounts> functions = count_functions(*timeline, *runners);
  if (functions.size() > static_cast<size_t>(limit_)) functions.resize(static_cast<size_t>(limit_));
  if (!wants_json()) {
    terminal.print(tasks_text(functions, *runners, terminal));
    return {};
  }
  nlohmann::ordered_json json{{"api_version", "v1"}};
  json["functions"] = nlohmann::ordered_json::array();
  for (const FunctionCounts& one : functions) {
    json["functions"].push_back({{"name", one.name},
                                 {"running", one.running},
                                 {"ended", one.ended},
                                 {"failed", one.failed},
                                 {"seconds", std::chrono::duration<double>(one.time).count()}});
  }
  json["runners"] = runners->value("rows", nlohmann::json::array());
  terminal.print(text_of(json));
  return {};
}

Outcome ListCommand::list_audit(control::ClusterApi& api, const Terminal& terminal) const {
  v1::ListRequest request;
  request.set_filter(filter_);
  request.set_limit(limit_);
  const auto found = api.call<v1::ListAuditReply>("Cluster/ListAudit", request);
  if (!found) return fail(found.error());
  terminal.print(wants_json() ? audit_json(*found) : audit_text(*found, terminal));
  return {};
}

Outcome ListCommand::list_processes(control::ClusterApi& api, const Terminal& terminal) const {
  v1::ListRequest request;
  request.set_filter(filter_);
  auto found = api.call<v1::NodeProcesses>("Cluster/ListProcesses", request);
  if (!found) return fail(found.error());
  for (const std::string& missing : found->missing()) terminal.note(terminal.tr("warning: ") + printable(missing));
  sort_processes(*found);
  terminal.print(wants_json() ? processes_json(*found, limit_) : processes_text(*found, limit_, terminal));
  return {};
}

Outcome ListCommand::list_actors(control::ClusterApi& api, const Terminal& terminal) const {
  v1::ListRequest request;
  request.set_filter(filter_);
  request.set_limit(kListedMax);  // Filtered by state below.
  auto actors = api.call<v1::ListActorsReply>("Cluster/ListActors", request);
  if (!actors) return fail(actors.error());
  const int64_t dead = keep_actors(*actors, state_.empty() ? "live" : state_, limit_);
  if (wants_json()) {
    terminal.print(actors_json(*actors));
    return {};
  }
  name_for_people(*actors);
  terminal.print(actors_text(*actors, terminal));
  if (state_.empty() && dead > 0)
    terminal.note(fmt::format("{} ended: volador list actors --state=dead", counted(dead, "actor has", "actors have")));
  return {};
}

Outcome ListCommand::run(const Context& context) {
  const std::vector<std::string>& kinds = list_kinds();
  if (std::find(kinds.begin(), kinds.end(), kind_) == kinds.end())
    return usage_error(
        fmt::format("list: expected {}, got \"{}\"{}", fmt::join(kinds, ", "), kind_, did_you_mean(kind_, kinds)));
  if (!tags_.empty() && kind_ != "trials")
    return usage_error(
        fmt::format("--tag: only trials have tags, {} have none: volador list trials --tag={}", kind_, tags_.front()));
  if (!state_.empty()) {
    const std::vector<std::string> states = states_of(kind_);
    if (states.empty()) return usage_error(fmt::format("--state: rows of {} have no state", kind_));
    if (std::find(states.begin(), states.end(), state_) == states.end())
      return usage_error(fmt::format("--state: expected {} for {}, got \"{}\"{}", fmt::join(states, ", "), kind_,
                                     state_, did_you_mean(state_, states)));
  }
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const Terminal terminal = table_terminal(context);
  if (kind_ == "tasks") return list_tasks(**api, terminal);
  if (kind_ == "processes") return list_processes(**api, terminal);
  if (kind_ == "queue" || kind_ == "experiments" || kind_ == "events" || kind_ == "studies")
    return list_rows(**api, terminal);
  if (kind_ == "audit") return list_audit(**api, terminal);
  if (kind_ == "jobs") return list_jobs(**api, {.state = state_, .name = filter_, .limit = limit_}, terminal);
  v1::ListRequest request;
  // The head filters some lists; the others are filtered here, so that the limit counts shown rows.
  const bool head_filters = kind_ == "nodes" || kind_ == "groups";
  request.set_filter(head_filters && !state_.empty() ? state_ : filter_);
  request.set_limit(!state_.empty() && !head_filters ? kListedMax : limit_);
  for (const std::string& tag : tags_) request.add_tags(tag);
  const auto show = [&](auto reply, auto rows, auto state_of, auto json, auto text) -> Outcome {
    if (!reply) return fail(reply.error());
    const int before = rows(*reply).size();
    keep_state(rows(*reply), state_, limit_, state_of);
    if constexpr (requires { reply->set_total(0); }) {
      if (!state_.empty() && rows(*reply).size() < before) reply->set_total(rows(*reply).size());
    }
    terminal.print(wants_json() ? json(*reply) : text(*reply, terminal));
    return {};
  };
  const auto state = [](const auto& row) { return row.state(); };
  if (kind_ == "nodes")
    return show((*api)->call<v1::ListNodesReply>("Cluster/ListNodes", request),
                [](auto& reply) -> auto& { return *reply.mutable_nodes(); }, state, nodes_json, nodes_text);
  if (kind_ == "actors") return list_actors(**api, terminal);
  if (kind_ == "groups")
    return show((*api)->call<v1::ListGroupsReply>("Cluster/ListGroups", request),
                [](auto& reply) -> auto& { return *reply.mutable_groups(); }, state, groups_json, groups_text);
  if (kind_ == "objects")
    return show((*api)->call<v1::ListObjectsReply>("Cluster/ListObjects", request),
                [](auto& reply) -> auto& { return *reply.mutable_objects(); }, state, objects_json, objects_text);
  return show((*api)->call<v1::ListTrialsReply>("Cluster/ListTrials", request),
              [](auto& reply) -> auto& { return *reply.mutable_trials(); },
              [](const auto& row) { return row.status(); }, trials_json, trials_text);
}

CLI::App* MemoryCommand::declare(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("memory", "Show what fills the object stores, by program line and process, largest first");
  app->footer(
      "Examples:\n  volador memory                    what each line of a program has put, in memory and on disk\n"
      "  volador memory --json\n  volador list objects --limit=20   the same one by one, with who holds each");
  app->add_option("--limit", limit_, "Show at most this many lines; 100 by default")
      ->check(CLI::Range(1, 10'000))
      ->type_name("INTEGER");
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome MemoryCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::ListRequest request;
  request.set_limit(1);  // Single objects are not needed.
  auto reply = (*api)->call<v1::ListObjectsReply>("Cluster/ListObjects", request);
  if (!reply) return fail(reply.error());
  auto& groups = *reply->mutable_groups();
  if (groups.size() > limit_) groups.DeleteSubrange(limit_, groups.size() - limit_);
  context.terminal.print(wants_json() ? memory_json(*reply) : memory_text(*reply, table_terminal(context)));
  return {};
}

CLI::App* LogsCommand::declare(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("logs", "Print the output of an actor or trial, or the log of a worker or of the head");
  app->footer(
      "Examples:\n  volador logs 3f2a              output of the actor or trial with this id, or a prefix of it\n"
      "  volador logs digits/3f2a       a trial of the newest run of \"digits\"\n"
      "  volador logs gpu-1             log of the worker of node gpu-1\n"
      "  volador logs --node=gpu-1      the same, and what its actors wrote\n  volador logs head --tail=20\n"
      "  volador logs trial/NAME -n kubeflow   a resource of `volador apply`: a trial or a training job");
  app->add_option(
      "id", id_,
      "Id of an actor, host or trial, the start of an id, RUN/TRIAL, the name of a node, actor or trial, \"head\", "
      "or KIND/NAME of a resource");
  app->add_option("-n,--namespace", namespace_, "Namespace of the resource; default by default")
      ->type_name("NAMESPACE");
  app->add_option("--node", node_,
                  "Print the log of this node's worker and the output of its actors from the files written last, at "
                  "most 2 MiB")
      ->type_name("NAME");
  app->add_flag("-f,--follow", follow_, "Print new lines as they are written, until Ctrl-C");
  app->add_option("--tail", tail_, "Start with this many of the last lines (with --node: of each file); 100 by default")
      ->check(CLI::Range(1, 10'000))
      ->type_name("LINES");
  declare_connection(*app);
  return app;
}

Outcome LogsCommand::print_output_of(const Context& context, control::ClusterApi& api,
                                     const v1::KatibResource& resource) const {
  const int tail = std::min(tail_, kResourceLogLinesMax);
  if (resource.trial() != 0) {
    return print_trial_output(context, api, resource.trial(), {.follow = follow_, .rank = -1, .tail = tail},
                              wants_json());
  }
  if (!resource.job().empty()) return print_job_output(context, api, resource.job(), -1, tail, follow_, wants_json());
  const std::string shown = resource_name(resource.kind(), resource.name());
  if (resource.kind() == "Trial" || experiments::katib::is_training_kind(resource.kind()))
    return fail(ExitCode::kNotFound,
                Error{ErrorCode::kNotFound, fmt::format("{} has no job; volador describe {} {} says why", shown,
                                                        resource.kind(), resource.name())});
  return usage_error(
      fmt::format("logs: {} has no output of its own; name one of its trials: volador get trial -l "
                  "katib.kubeflow.org/experiment={}",
                  shown, resource.name()));
}

Outcome LogsCommand::run(const Context& context) {
  if (id_.empty() == node_.empty()) return usage_error("logs: say what: an id, \"head\", or --node=NAME; one of them");
  if (follow_ && !node_.empty()) return usage_error("logs: --follow goes with an id or \"head\", not with --node");
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  if (id_.find('/') != std::string::npos) {
    const auto resource = find_resource(**api, id_, namespace_);
    if (!resource) return tl::unexpected(resource.error());
    if (*resource) return print_output_of(context, **api, **resource);
  }
  v1::LogsRequest request;
  request.set_id(id_);
  request.set_node(node_);
  request.set_follow(follow_);
  request.set_tail(tail_ == 0 ? kLogLines : tail_);
  auto ended = (*api)->logs(request, [&](const v1::LogLine& line) {
    if (wants_json()) {
      context.terminal.print(log_line_json(line));
    } else {
      // With several files each line names its source, like actor output in a driver.
      const std::string source =
          node_.empty() ? "" : fmt::format("({}{}) ", line.source(), line.is_stderr() ? " err" : "");
      context.terminal.print(source + printable_line(line.text()) + "\n");
    }
    return true;
  });
  if (!ended) return fail(ended.error());
  return {};
}

CLI::App* ExplainCommand::declare(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("explain", "Explain why an actor, trial or placement group waits, or how it ended");
  app->footer(
      "Examples:\n  volador explain 3f2a\n  volador explain hits           the actor named \"hits\"\n"
      "  volador explain digits/3f2a    a trial of the newest run of \"digits\"");
  app->add_option(
         "id", id_,
         "Id of an actor, trial or placement group, the start of an id, RUN/TRIAL, or a name, of a node as well")
      ->required();
  declare_connection(*app);
  return app;
}

Outcome ExplainCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::ExplainRequest request;
  request.set_id(id_);
  auto reply = (*api)->call<v1::ExplainReply>("Cluster/Explain", request);
  if (!reply) return fail(reply.error());
  std::string text = context.terminal.explanation(*reply);
  if (!text.ends_with('\n')) text += '\n';
  context.terminal.print(wants_json() ? explain_json(*reply) : text);
  return {};
}

CLI::App* DrainCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "drain", "Stop placing actors on a node, so that it can be stopped once its actors have ended");
  app->footer("Examples:\n  volador drain gpu-1\n  volador drain gpu-1 --undo");
  app->add_option("node", node_, "Name of the node")->required();
  app->add_flag("--undo", undo_, "Place actors on the node again");
  declare_connection(*app);
  return app;
}

Outcome DrainCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::DrainRequest request;
  request.set_node(node_);
  request.set_undo(undo_);
  if (auto reply = (*api)->call<v1::DrainReply>("Cluster/Drain", request); !reply) return fail(reply.error());
  if (wants_json()) {
    context.terminal.print("{\"api_version\": \"v1\"}\n");
  } else {
    context.terminal.print(undo_ ? fmt::format("node {} is used again\n", node_)
                                 : fmt::format("node {} drains: nothing new is placed there\n", node_));
  }
  return {};
}

CLI::App* KillCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("kill", "End an actor at once: what it has under way fails");
  app->footer(
      "Examples:\n  volador kill embedder              by its name\n  volador kill 3f2a90c1              by the start "
      "of its id\n  volador kill embedder --restart    it starts again, from its checkpoint where it has one");
  app->add_option("actor", actor_, "Id of the actor, the start of it, or its name")->required();
  app->add_flag("--restart", restart_, "Start it again where it has restarts left; else it ends for good");
  declare_yes(*app);
  declare_connection(*app);
  return app;
}

Outcome KillCommand::run(const Context& context) {
  if (auto agreed = confirm(context, context.terminal.fill("Kill actor {}?", actor_)); !agreed) return agreed;
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::KillRequest request;
  request.set_actor(actor_);
  request.set_restart(restart_);
  const auto reply = (*api)->call<v1::KillReply>("Cluster/Kill", request);
  if (!reply) return fail(reply.error());
  if (wants_json()) {
    context.terminal.print(fmt::format("{{\"api_version\": \"v1\", \"actor\": \"{}\", \"restarts\": {}}}\n",
                                       reply->actor(), reply->restarts()));
  } else {
    context.terminal.print(fmt::format("actor {} ({}) {}\n", reply->display(), reply->actor().substr(0, 8),
                                       reply->restarts() ? "is killed and starts again"
                                       : restart_        ? "is killed for good: it has no restart left"
                                                         : "is killed"));
  }
  return {};
}

}  // namespace volador::cli
