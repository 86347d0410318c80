// ClusterSession: spawning, finding and killing actors.
#include <fmt/format.h>

#include <utility>

#include "runtime/actor/cluster_remote.h"
#include "runtime/actor/light_home.h"
#include "runtime/protocol/node_affinity.h"
#include "runtime/protocol/resource_map.h"
#include "runtime/standard_streams.h"

namespace volador {

using std::chrono::milliseconds;

bool ClusterSession::is_dead(const Remote& remote) { return remote.info && remote.info->state() == protocol::DEAD; }

void ClusterSession::warn_of_detached(const SpawnRequest& request) {
  if (!options_.is_private || warned_of_detached_.exchange(true)) return;
  write_to_stderr(
      fmt::format("volador: actor {} is detached, but this program's private cluster ends with it, and all its actors "
                  "with that: start a cluster that stays "
                  "with `volador start --head`\n",
                  request.name.empty() ? request.class_name : fmt::format("\"{}\"", request.name)));
}

Result<ActorId> ClusterSession::spawn(const SpawnRequest& request) {
  if (request.detached) warn_of_detached(request);
  if (may_be_light(request)) return spawn_light(request);
  auto id = new_id<ActorId>(*options_.random);
  while (has_light_mark(id)) id = new_id<ActorId>(*options_.random);
  return spawn_as(id, request);
}

Result<ActorId> ClusterSession::spawn_as(const ActorId& id, const SpawnRequest& request) {
  protocol::ClientMessage message;
  auto& spawn = *message.mutable_spawn();
  spawn.set_request_id(raw(id));
  auto& spec = *spawn.mutable_spec();
  spec.set_actor_id(raw(id));
  spec.set_class_name(request.class_name);
  spec.set_arguments(request.arguments);
  *spec.mutable_resources() = to_message(request.resources);
  spec.set_name(request.name);
  spec.set_namespace_(request.actor_namespace);
  spec.set_max_restarts(request.max_restarts);
  spec.set_detached(request.detached);
  spec.set_ends_with_handles(request.ends_with_handles && !request.detached);
  spec.set_priority(request.priority);
  spec.set_wait_if_infeasible(request.wait_if_infeasible);
  spec.set_driver_id(raw(options_.driver));
  spec.set_program_sha256(options_.program_sha256);
  if (!request.wishes.empty()) *spec.mutable_wishes() = to_message(request.wishes);
  if (!request.group.is_nil()) spec.set_group_id(raw(request.group));
  spec.set_bundle(request.bundle);
  for (const auto& [key, value] : request.env) (*spec.mutable_env())[key] = value;
  spec.set_display(request.display);
  spec.set_start_timeout_ms(request.start_timeout.count());
  spec.set_checkpoint_calls(request.checkpoint_calls);
  spec.set_checkpoint_interval_ms(request.checkpoint_interval.count());
  spec.set_max_concurrency(request.max_concurrency);
  spec.set_max_task_retries(request.max_task_retries);
  spec.set_retriable(request.retriable);
  spec.set_isolation(request.isolation == Isolation::kShared ? protocol::ISOLATION_SHARED
                                                             : protocol::ISOLATION_PROCESS);
  if (request.health.method != 0) {
    auto& health = *spec.mutable_health_check();
    health.set_method(request.health.method);
    health.set_tells(request.health.tells);
    health.set_period_ms(request.health.period.count());
    health.set_timeout_ms(request.health.timeout.count());
    health.set_turn_timeout_ms(request.health.turn_timeout.count());
    health.set_failures(request.health.failures);
  }
  for (const SpawnRequest::ConcurrencyGroup& group : request.groups) {
    auto& one = *spec.add_concurrency_groups();
    one.set_name(group.name);
    one.set_threads(group.threads);
    one.mutable_methods()->Add(group.methods.begin(), group.methods.end());
  }
  {
    // Registered before the head answers, so that no update is missed.
    const std::lock_guard hold(mutex_);
    auto& entry = remotes_[id];
    entry = std::make_unique<Remote>();
    entry->id = id;
    entry->pins = request.pins;
    add_opening(*entry, request.opening, spec);
  }
  const auto held = spec.ends_with_handles() ? holds()->hold_new(id) : nullptr;
  auto reply = ask(RequestId(id.bytes()), std::move(message));
  DeferredCallbacks later;
  if (!reply) {
    const std::lock_guard hold(mutex_);
    if (reply.error().code != ErrorCode::kUnknownOutcome) remotes_.erase(id);
    return make_error(std::move(reply).error());
  }
  {
    const std::lock_guard hold(mutex_);
    if (!reply->actor().actor_id().empty()) apply(reply->actor(), later);
  }
  run(later);
  if (options_.asking_host) {  // Its other handles in this process may outlive the requesting actor.
    protocol::ClientMessage again;
    again.mutable_watch()->set_actor_id(raw(id));
    options_.send(std::move(again));
    if (held) holds()->pass_on(id, options_.asking_host());
  }
  return id;
}

// Opening calls are sent with the spawn request and also queue here for the address; the host recognizes them by their
// ids.
void ClusterSession::add_opening(Remote& remote, const std::vector<std::shared_ptr<OutgoingCall>>& calls,
                                 protocol::ActorSpec& spec) {
  if (calls.empty()) return;
  spec.set_opening_caller(raw(caller_));
  for (const auto& call : calls) {
    call->target = call->actor = remote.id;
    call->request_id = next_request_++;
    call->kept = true;
    auto& sent = *spec.add_opening();
    sent.set_request_id(call->request_id);
    sent.set_method(call->method);
    sent.set_arguments(call->arguments);
    wait_again(remote, call);
  }
}

Result<ActorId> ClusterSession::find(const std::string& name, const std::string& actor_namespace,
                                     const std::string& class_name) {
  const auto request = new_id<RequestId>(*options_.random);
  protocol::ClientMessage message;
  message.mutable_find()->set_request_id(raw(request));
  message.mutable_find()->set_name(name);
  message.mutable_find()->set_namespace_(actor_namespace);
  auto reply = ask(request, std::move(message));
  if (!reply) return make_error(std::move(reply).error());
  const auto id = id_from_raw<ActorId>(reply->actor().actor_id());
  if (const std::string& its = reply->actor().class_name(); !class_name.empty() && its != class_name) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("the actor named \"{0}\" is of class {1}, and was asked for as {2}: find it with "
                                  "volador::get_actor<{1}>(\"{0}\"), or give the {2} another name",
                                  name, its, class_name));
  }
  watch(id);
  return id;
}

namespace {

protocol::ClientMessage kill_message(const RequestId& request, const ActorId& actor, bool no_restart,
                                     milliseconds grace) {
  protocol::ClientMessage message;
  auto& kill = *message.mutable_kill();
  kill.set_request_id(raw(request));
  kill.set_actor_id(raw(actor));
  kill.set_no_restart(no_restart);
  kill.set_grace_ms(grace.count());
  return message;
}

}  // namespace

Result<void> ClusterSession::kill(const ActorId& actor, bool no_restart, milliseconds grace) {
  if (is_light(actor)) return kill_light(actor, grace);
  const auto request = new_id<RequestId>(*options_.random);
  return on_kill_reply(ask(request, kill_message(request, actor, no_restart, grace)));
}

void ClusterSession::kill_later(const ActorId& actor, bool no_restart, milliseconds grace,
                                std::function<void(Result<void>)> done) {
  if (is_light(actor)) return done(kill_light(actor, grace));
  const auto request = new_id<RequestId>(*options_.random);
  ask_later(request, kill_message(request, actor, no_restart, grace),
            [weak = weak_from_this(), done = std::move(done)](Result<protocol::Reply> reply) {
              const auto self = weak.lock();
              done(self ? self->on_kill_reply(std::move(reply)) : make_error(ErrorCode::kCancelled, kHasLeft));
            });
}

Result<void> ClusterSession::on_kill_reply(Result<protocol::Reply> reply) {
  if (!reply) return make_error(std::move(reply).error());
  DeferredCallbacks later;
  {
    // The head does not send this watcher again what the reply contains.
    const std::lock_guard hold(mutex_);
    if (!reply->actor().actor_id().empty()) apply(reply->actor(), later);
  }
  run(later);
  return {};
}

}  // namespace volador
