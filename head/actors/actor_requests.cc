#include "head/actors/actor_requests.h"

#include <fmt/format.h>

#include <algorithm>

#include "head/actors/actor_life.h"
#include "head/actors/handle_module.h"
#include "head/clients/client_module.h"
#include "head/groups/group_module.h"
#include "head/kernel/ownership.h"
#include "head/kernel/wire.h"
#include "head/read_model/names.h"
#include "runtime/paths.h"
#include "runtime/protocol/node_affinity.h"
#include "runtime/quantities.h"

namespace volador::head {
namespace {

constexpr size_t kKillsRemembered = 10'000;
constexpr int kOpeningCallsMax = 16;
constexpr int64_t kStartTimeoutMaxMs = int64_t{1000} * 3600 * 24;
constexpr int64_t kGraceMaxMs = 60'000;

}  // namespace

void ActorRequests::on_spawn(const ClientRef& client, DriverId driver, const Actor* owner,
                             const protocol::SpawnActor& message) {
  const auto id = id_from_raw<ActorId>(message.spec().actor_id());
  if (id.is_nil() || message.request_id() != message.spec().actor_id()) {
    context_.reply_error(
        client, message.request_id(),
        {ErrorCode::kInvalidArgument, "SpawnActor: request_id and spec.actor_id must be the same 16 bytes"});
    return;
  }
  if (const Actor* known = actors_.find(id); known == nullptr) {
    if (const auto spawned = spawn(driver, owner, message); !spawned) {
      context_.reply_error(client, message.request_id(), spawned.error());
      return;
    }
    if (message.spec().ends_with_handles() && !message.spec().detached()) {
      handles_.add(context_.now, id);
      handles_.hold(id, HandleModule::holder_of(client, driver));
    }
  } else if (known->driver != driver) {
    context_.reply_error(
        client, message.request_id(),
        {ErrorCode::kPermissionDenied,
         fmt::format("actor {} belongs to another driver; make a new id for a new actor", short_id(id))});
    return;
  }
  if (client_module_.watch(client, id)) life_.reply_when_settled(client, message.request_id(), id);
}

Result<void> ActorRequests::spawn(DriverId driver, const Actor* owner, const protocol::SpawnActor& message) {
  protocol::ActorSpec spec = message.spec();
  const auto program = programs_.find(driver);
  const std::string sha256 = program == programs_.end() ? "" : program->second.sha256();
  VOLADOR_TRY(check_spec(spec, sha256));
  auto resources = resources_from(spec.resources(), context_.options.limits);
  if (!resources) return make_error(resources.error());
  spec.set_driver_id(raw(driver));
  assign_owner(spec, requester(clients_, driver, owner));
  spec.set_program_sha256(sha256);
  if (spec.namespace_().empty()) spec.set_namespace_(own_namespace(driver, owner));
  VOLADOR_TRY(actors_.check_room(spec));
  VOLADOR_TRY(check_place(spec, *resources));
  Actor& actor = actors_.create(std::move(spec), std::move(*resources), driver,
                                owner == nullptr ? ActorId{} : owner->id, context_.next_sequence());
  life_.remember(actor);
  if (const GroupId group = actor.group(); !group.is_nil()) group_module_.join(group, actor.id);
  life_.maybe_submit(actor);
  return {};
}

Result<void> ActorRequests::check_spec(const protocol::ActorSpec& spec, const std::string& program) const {
  const Limits& limits = context_.options.limits;
  const auto invalid = [](std::string text) { return make_error(ErrorCode::kInvalidArgument, std::move(text)); };
  if (spec.class_name().empty() || spec.class_name().size() > 4 * limits.name_bytes) {
    return invalid(fmt::format("actor class: expected a name of 1 to {} bytes, got {}", 4 * limits.name_bytes,
                               spec.class_name().size()));
  }
  if (spec.name().size() > limits.name_bytes || spec.display().size() > limits.name_bytes) {
    return invalid(fmt::format("actor name: expected at most {} bytes, got {}", limits.name_bytes,
                               std::max(spec.name().size(), spec.display().size())));
  }
  VOLADOR_TRY(check_name("namespace", namespace_of(spec)));
  size_t argument_bytes = spec.arguments().size();
  for (const protocol::OpeningCall& call : spec.opening()) argument_bytes += call.arguments().size();
  if (argument_bytes > limits.argument_bytes) {
    return invalid(fmt::format("arguments of {}: at most {}, got {}; pass large values in calls", spec.class_name(),
                               format_bytes(static_cast<int64_t>(limits.argument_bytes)),
                               format_bytes(static_cast<int64_t>(argument_bytes))));
  }
  if (const size_t other_bytes = spec.ByteSizeLong() - argument_bytes; other_bytes > limits.description_bytes) {
    return invalid(
        fmt::format("the description of {} without its arguments: at most {}, got {}; name fewer concurrency groups, "
                    "methods and labels",
                    spec.class_name(), format_bytes(static_cast<int64_t>(limits.description_bytes)),
                    format_bytes(static_cast<int64_t>(other_bytes))));
  }
  if (!spec.opening().empty() && (spec.opening_size() > kOpeningCallsMax || spec.max_restarts() != 0 ||
                                  spec.isolation() == protocol::ISOLATION_SHARED)) {
    return invalid(fmt::format(
        "opening calls of {}: expected at most {}, of an actor with a process of its own and without restarts; got {}",
        spec.class_name(), kOpeningCallsMax, spec.opening_size()));
  }
  if (spec.max_restarts() < -1)
    return invalid(fmt::format("max_restarts: expected -1 (without limit) or more, got {}", spec.max_restarts()));
  if (static_cast<size_t>(spec.wishes().labels_size()) > limits.labels ||
      spec.wishes().ByteSizeLong() > limits.labels * limits.name_bytes) {
    return invalid(fmt::format("node, labels and apart: expected at most {} and {} in all, got {} and {}",
                               counted(limits.labels, "label"), counted(limits.labels * limits.name_bytes, "byte"),
                               spec.wishes().labels_size(), spec.wishes().ByteSizeLong()));
  }
  VOLADOR_TRY(check(wishes_of(spec.wishes())));
  if (bytes_of(spec.env()) > limits.env_bytes) {
    return invalid(
        fmt::format("env of {}: at most {} bytes, got {}", spec.class_name(), limits.env_bytes, bytes_of(spec.env())));
  }
  if (spec.checkpoint_calls() < 0 || spec.checkpoint_interval_ms() < 0) {
    return invalid(fmt::format("checkpoint_every: expected a number of calls or an interval above 0, got {}, {} ms",
                               counted(spec.checkpoint_calls(), "call"), spec.checkpoint_interval_ms()));
  }
  if (const protocol::HealthCheck& health = spec.health_check();
      spec.has_health_check() &&
      (health.period_ms() < 1 || health.timeout_ms() < 1 || health.turn_timeout_ms() < 0 || health.failures() < 1)) {
    return invalid(
        fmt::format("health_check of {}: expected a period and a timeout above 0 ms, and 1 failure or more; got {} ms, "
                    "{} ms and {}",
                    spec.class_name(), health.period_ms(), health.timeout_ms(), health.failures()));
  }
  if (spec.start_timeout_ms() < 0 || spec.start_timeout_ms() > kStartTimeoutMaxMs) {
    return invalid(
        fmt::format("start_timeout: expected 0 to {} ms, got {}", kStartTimeoutMaxMs, spec.start_timeout_ms()));
  }
  if (spec.isolation() == protocol::ISOLATION_SHARED &&
      (spec.resources().amounts().contains("gpus") || !spec.env().empty())) {
    return invalid(
        fmt::format("{}: isolation shared goes with neither GPUs nor an environment of its own, which a process has as "
                    "a whole; ask for process isolation",
                    spec.class_name()));
  }
  if (!spec.program_sha256().empty() && spec.program_sha256() != program) {
    return invalid("program_sha256: an actor runs the program of the driver that spawns it; this spec names another");
  }
  if (!spec.group_id().empty() && spec.has_wishes()) {
    return invalid(
        fmt::format("{}: an actor in a placement group goes where its bundle is; ask for labels when the group is "
                    "made, and leave out node and apart",
                    spec.class_name()));
  }
  return {};
}

Result<void> ActorRequests::check_place(const protocol::ActorSpec& spec, const ResourceSet& resources) {
  const std::string who = spec.display().empty() ? fmt::format("actor {}", spec.class_name()) : spec.display();
  if (!spec.group_id().empty())
    return groups_.check_actor(id_from_raw<GroupId>(spec.group_id()), spec.bundle(), resources, who);
  const PlacementRequest request{.actor = id_from_raw<ActorId>(spec.actor_id()),
                                 .resources = resources,
                                 .wishes = wishes_of(spec.wishes()),
                                 .program = spec.program_sha256()};
  auto feasible = placement_.check_feasible(request, who);
  // Feasibility is unknown while nodes may still reconnect.
  const bool may_wait = !feasible && feasible.error().code == ErrorCode::kInfeasible &&
                        (spec.wait_if_infeasible() || nodes_.awaited() > 0);
  if (may_wait) return {};
  return feasible;
}

void ActorRequests::on_kill(const ClientRef& client, DriverId driver, const Actor* owner,
                            const protocol::KillActor& message) {
  Actor* actor = actors_.find(id_from_raw<ActorId>(message.actor_id()));
  if (actor == nullptr) {
    context_.reply_error(
        client, message.request_id(),
        {ErrorCode::kNotFound, fmt::format("there is no actor {} (dead ones are forgotten after a while)",
                                           short_id(id_from_raw<ActorId>(message.actor_id())))});
    return;
  }
  if (const auto may = check_owner(requester(clients_, driver, owner), actor->spec.owner(), "kill",
                                   fmt::format("actor {} ({})", actor->display(), short_id(actor->id)));
      !may) {
    context_.reply_error(client, message.request_id(), may.error());
    return;
  }
  const std::chrono::milliseconds grace(std::clamp<int64_t>(message.grace_ms(), 0, kGraceMaxMs));
  const Driver* by = clients_.find(driver);
  const Cause cause = make_cause(Cause::KILLED, by == nullptr ? Reason() : reason("cause.by", by->name));
  if (message.no_restart() || !actor->may_restart()) {
    life_.die(actor->id, cause, grace);
  } else if (kills_.insert(message.request_id() + message.actor_id()).second) {
    kill_order_.push_back(message.request_id() + message.actor_id());
    if (kill_order_.size() > kKillsRemembered) {
      kills_.erase(kill_order_.front());
      kill_order_.pop_front();
    }
    life_.kill_incarnation(*actor, cause, grace);
  }
  life_.reply_when_settled(client, message.request_id(), actor->id);
}

std::string ActorRequests::own_namespace(DriverId driver, const Actor* owner) const {
  if (owner != nullptr) return namespace_of(owner->spec);
  const Driver* known = clients_.find(driver);
  return known == nullptr || known->actor_namespace.empty() ? std::string(kDefaultNamespace) : known->actor_namespace;
}

void ActorRequests::on_find(const ClientRef& client, DriverId driver, const Actor* owner,
                            const protocol::FindActor& message) {
  const std::string where = message.namespace_().empty() ? own_namespace(driver, owner) : message.namespace_();
  const Actor* actor = actors_.named(where, message.name());
  if (actor == nullptr) {
    context_.reply_error(client, message.request_id(),
                         {ErrorCode::kNotFound,
                          fmt::format("no living actor is named \"{}\" in namespace \"{}\"; see volador list actors",
                                      message.name(), where)});
    return;
  }
  life_.reply_when_settled(client, message.request_id(), actor->id);
}

void ActorRequests::on_watch(const ClientRef& client, DriverId driver, const Actor* owner,
                             const protocol::WatchActor& message) {
  const auto id = id_from_raw<ActorId>(message.actor_id());
  if (message.unwatch()) {
    client_module_.unwatch(client, id);
    return;
  }
  if (find_for(driver, owner, id) != nullptr && !client_module_.watch(client, id)) return;
  tell(client, driver, owner, id);
}

void ActorRequests::on_checkpoint(const ClientRef& client, const Actor* actor,
                                  const protocol::KeepCheckpoint& message) {
  if (actor == nullptr || message.checkpoint().epoch() != actor->epoch) {
    context_.reply_error(
        client, message.request_id(),
        {ErrorCode::kPermissionDenied, "KeepCheckpoint: only an actor's own newest incarnation keeps its checkpoints"});
    return;
  }
  const auto kept = checkpoints_.keep(actor->id, message.checkpoint());
  if (!kept) {
    context_.reply_error(client, message.request_id(), kept.error());
    return;
  }
  if (*kept) context_.journal(kCheckpointsTable, raw(actor->id), message.checkpoint().SerializeAsString());
  protocol::HeadMessage reply;
  reply.mutable_reply()->set_request_id(message.request_id());
  context_.send(client, std::move(reply));
}

void ActorRequests::on_waits(const Actor* actor, bool waits) {
  if (actor == nullptr) return;
  if (!actor->group().is_nil()) return group_module_.lend_cpus(actor->id, waits);
  const bool moved = waits ? placement_.lend_cpus(actor->id) : placement_.take_back_cpus(actor->id);
  if (moved) context_.changes.node(actor->incarnation->node);
}

const Actor* ActorRequests::find_for(DriverId driver, const Actor* owner, ActorId id) const {
  const Actor* actor = actors_.find(id);
  const ActorGuard* guard = context_.options.guard.get();
  if (actor == nullptr || guard == nullptr || actor->spec.owner().token_id() != guard->token_id()) return actor;
  return check_owner(requester(clients_, driver, owner), actor->spec.owner(), "call", actor->display()) ? actor
                                                                                                        : nullptr;
}

void ActorRequests::tell(const ClientRef& client, DriverId driver, const Actor* owner, ActorId id) {
  protocol::HeadMessage message;
  if (const Actor* actor = find_for(driver, owner, id)) {
    *message.mutable_actor() = life_.info_of(*actor);
  } else {
    message.mutable_actor()->set_actor_id(raw(id));
    message.mutable_actor()->set_state(protocol::DEAD);
    message.mutable_actor()->set_version(context_.version);
    *message.mutable_actor()->mutable_cause() = make_cause(Cause::KIND_UNSPECIFIED, reason("cause.unknown_actor"));
  }
  context_.send(client, std::move(message));
}

Result<ActorRequests::Killed> ActorRequests::kill(std::string_view name, bool restart, std::string_view by) {
  const auto named = names_.resolve(name);
  if (!named) return make_error(named.error());
  Actor* actor = actors_.find(named->actor);
  if (actor == nullptr) {
    const std::string instead = named->trial != nullptr ? fmt::format("volador tune stop {} {} stops it",
                                                                      named->experiment->name, named->trial->trial_id())
                                : !named->node.is_nil() ? "volador drain keeps further actors off it"
                                                        : "it ends with the program or actor that made it";
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} is not an actor; {}", names_.in_words(*named), instead));
  }
  if (actor->is_dead()) {
    return make_error(ErrorCode::kNotFound, fmt::format("{} has ended ({}); there is nothing to kill",
                                                        names_.in_words(*named), describe(actor->cause).text()));
  }
  const Killed killed{.actor = actor->id, .display = actor->display(), .restarts = restart && actor->may_restart()};
  const Cause cause = make_cause(Cause::KILLED, by.empty() ? Reason() : reason("cause.by", by));
  if (killed.restarts) {
    life_.kill_incarnation(*actor, cause, {});
  } else {
    life_.die(actor->id, cause, {});
  }
  return killed;
}

}  // namespace volador::head
