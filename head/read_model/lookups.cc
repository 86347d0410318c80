#include "head/read_model/lookups.h"

#include <fmt/format.h>

#include "head/kernel/wire.h"

namespace volador::head {
namespace {

// The actor itself, or that of the trial; nil: neither.
ActorId actor_of(const Named& named) {
  const bool of_trial = named.trial != nullptr && !named.trial->actor_id().empty();
  return of_trial ? id_from_raw<ActorId>(named.trial->actor_id()) : named.actor;
}

}  // namespace

bool Lookups::shows(ActorId id, const security::Principal& by) const {
  const ActorGuard* const guard = context_.options.guard.get();
  if (guard == nullptr || by.role == security::Role::kOperator) return true;
  const Actor* const actor = tables_.actors.find(id);
  if (actor != nullptr && actor->spec.owner().token_id() != guard->token_id()) return true;
  return guard->shows(id, by).value_or(actor == nullptr);
}

bool Lookups::shows_files_of(std::string_view short_id, const security::Principal& by) const {
  if (context_.options.guard == nullptr || by.role == security::Role::kOperator) return true;
  const auto first = parse_id<ActorId>(fmt::format("{:0<32}", short_id));
  if (!first) return false;
  bool known = false;
  const auto& all = tables_.actors.all();
  for (auto at = all.lower_bound(*first); at != all.end() && to_string(at->first).starts_with(short_id); ++at) {
    if (!shows(at->first, by)) return false;
    known = true;
  }
  return known;
}

Result<void> Lookups::check_shown(std::string_view id, const security::Principal& by) const {
  const auto named = names_.resolve(id);
  if (!named || shows(actor_of(*named), by)) return {};
  return make_error(Names::unknown(id));
}

Result<LogSource> Lookups::find_log_source(std::string_view id, const security::Principal& by) const {
  const auto named = names_.resolve(id);
  if (!named) return make_error(named.error());
  if (!named->group.is_nil()) {
    return make_error(ErrorCode::kNotFound, fmt::format("{} prints nothing itself; ask for an actor or trial in it",
                                                        names_.in_words(*named)));
  }
  if (!named->node.is_nil())
    return LogSource{.node_name = tables_.nodes.find(named->node)->name,
                     .actor = {},
                     .display = names_.in_words(*named),
                     .writers = {}};
  const ActorId actor_id = actor_of(*named);
  if (!shows(actor_id, by)) return make_error(Names::unknown(id));
  std::string node = named->trial == nullptr ? "" : named->trial->node_name();
  const Actor* actor = tables_.actors.find(actor_id);
  if (actor != nullptr) {
    if (actor->incarnation) {
      node = tables_.nodes.name_of(actor->incarnation->node);
    } else if (!actor->cause.node_name().empty()) {
      node = actor->cause.node_name();
    }
  }
  if (node.empty() && actor != nullptr && actor->is_dead()) {
    return make_error(ErrorCode::kNotFound, fmt::format("{} ended before it ran on any node ({}): it has no logs",
                                                        names_.in_words(*named), describe(actor->cause).text()));
  }
  if (node.empty())
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{} has not run on any node yet: it has no logs", names_.in_words(*named)));
  LogSource source{.node_name = node,
                   .actor = actor_id,
                   .display = actor == nullptr ? std::string(id) : actor->display(),
                   .writers = {actor_id}};
  if (actor == nullptr || actor->shared_process.is_nil()) return source;
  // Lines of a shared process carry the name of one of its actors, so all of them count.
  for (const auto& [other, row] : tables_.actors.all()) {
    if (other != actor_id && row.shared_process == actor->shared_process) source.writers.push_back(other);
  }
  return source;
}

Result<RunningActor> Lookups::find_running(std::string_view id, const security::Principal& by) const {
  const auto named = names_.resolve(id);
  if (!named) return make_error(named.error());
  const ActorId actor_id = actor_of(*named);
  if (!shows(actor_id, by)) return make_error(Names::unknown(id));
  const Actor* actor = tables_.actors.find(actor_id);
  if (actor == nullptr && named->trial != nullptr) {
    return make_error(ErrorCode::kUnavailable, fmt::format("{} has no process now", names_.in_words(*named)));
  }
  if (actor == nullptr)
    return make_error(ErrorCode::kNotFound, fmt::format("{} is neither an actor nor a trial", names_.in_words(*named)));
  if (!actor->incarnation || actor->is_dead()) {
    const std::string why =
        (actor->is_dead() ? describe(actor->cause) : reasons_.of_actor(*actor, context_.now)).text();
    return make_error(actor->is_dead() ? ErrorCode::kActorDied : ErrorCode::kUnavailable,
                      fmt::format("actor {} ({}) is {}{}: it has no process to look into", actor->display(),
                                  short_id(actor->id), state_name(actor->state), why.empty() ? "" : " (" + why + ")"));
  }
  const Node* node = tables_.nodes.find(actor->incarnation->node);
  if (node == nullptr || !node->session) {
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("actor {} ({}) runs on node {}, which is not connected now; ask again when it is back",
                    actor->display(), short_id(actor->id), tables_.nodes.name_of(actor->incarnation->node)));
  }
  return RunningActor{
      .actor = actor->id, .display = actor->display(), .node_name = node->name, .session = *node->session};
}

Result<RunFilesPlace> Lookups::find_run_files(std::string_view name) const {
  const auto found = tables_.experiments.resolve(name);
  if (!found) return make_error(found.error());
  const Experiment& experiment = **found;
  if (experiment.directory.empty())
    return make_error(ErrorCode::kNotFound, fmt::format("experiment \"{}\" keeps no files", experiment.name));
  RunFilesPlace place{.directory = experiment.directory, .readers = {}};
  for (const auto& [id, node] : tables_.nodes.all()) {
    const bool is_there = !experiment.machine_id.empty() && node.machine_id == experiment.machine_id;
    if (is_there && node.is_member() && node.session) place.readers.push_back({*node.session, "node " + node.name});
  }
  const Driver* const driver = tables_.clients.find(experiment.driver);
  if (driver != nullptr && driver->session && driver->machine_id == experiment.machine_id)
    place.readers.push_back({*driver->session, "the program"});
  if (!place.readers.empty()) return place;
  return make_error(ErrorCode::kInfeasible, fmt::format("the files of experiment \"{}\" lie in {} on the machine where "
                                                        "its program was started, where neither the program nor a "
                                                        "node of this cluster is connected now; start a node there "
                                                        "(volador start --address=…), or copy them from there",
                                                        experiment.name, experiment.directory));
}

Result<void> Lookups::may_certify(std::string_view asking, HostId host) const {
  const Actor* actor = tables_.actors.find_host(host);
  const Node* node = actor == nullptr ? nullptr : tables_.nodes.find(actor->incarnation->node);
  if (node != nullptr && node->is_member() && node->name == asking) return {};
  if (const auto asks = tables_.nodes.resolve(asking);
      actor == nullptr && asks) {  // A shared host that outlived the actor with its id.
    for (const ActorId id : tables_.actors.on_node(*asks)) {
      if (tables_.actors.find(id)->address.host_id() == raw(host)) return {};
    }
  }
  return make_error(ErrorCode::kPermissionDenied,
                    fmt::format("host {}: node {} asks for its certificate, but {}; a node gets certificates only for "
                                "hosts that the head placed there",
                                short_id(host), asking,
                                actor == nullptr ? "no actor has it now"
                                                 : fmt::format("it was placed on {}",
                                                               tables_.nodes.name_of(actor->incarnation->node))));
}

Result<NodeSession> Lookups::node_session(std::string_view name) const {
  const auto id = tables_.nodes.resolve(name);
  if (!id) return make_error(id.error());
  const Node& node = *tables_.nodes.find(*id);
  if (node.session) return *node.session;
  return make_error(ErrorCode::kUnavailable, fmt::format("node {} is {} and not connected; try again when it is back",
                                                         node.name, to_string(node.state)));
}

std::vector<ConnectedProgram> Lookups::connected_programs() const {
  std::vector<ConnectedProgram> found;
  for (const auto& [id, driver] : tables_.clients.all()) {
    if (driver.session)
      found.push_back({.name = driver.name, .pid = driver.pid, .node = tables_.nodes.node_on(driver.machine_id)});
  }
  return found;
}

std::string Lookups::program_of(ActorId actor) const {
  const Actor* const known = tables_.actors.find(actor);
  const Driver* const driver = known == nullptr ? nullptr : tables_.clients.find(known->driver);
  return driver == nullptr ? "" : driver->name;
}

}  // namespace volador::head
