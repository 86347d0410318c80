// ClusterSession: status of actors and the cluster, and experiment reports.
#include <fmt/format.h>

#include <utility>

#include "runtime/actor/cluster_remote.h"
#include "runtime/actor/death_cause.h"
#include "runtime/actor/experiment_update.h"
#include "runtime/actor/light_home.h"

namespace volador {

ActorStatus ClusterSession::status_of(const Remote& remote) const {
  ActorStatus status;
  status.id = remote.id;
  if (!remote.info) {
    status.reason = "the head has not said anything about it yet";
    return status;
  }
  const protocol::ActorInfo& info = *remote.info;
  switch (info.state()) {
    case protocol::STARTING:
      status.state = ActorState::kStarting;
      break;
    case protocol::ALIVE:
      status.state = ActorState::kAlive;
      break;
    case protocol::RESTARTING:
      status.state = ActorState::kRestarting;
      break;
    case protocol::DEAD:
      status.state = ActorState::kDead;
      break;
    default:
      status.state = ActorState::kPending;
      break;
  }
  status.epoch = info.epoch();
  status.node_name = info.node_name();
  status.pid = info.pid();
  status.restarts = info.restarts();
  status.class_name = info.class_name();
  status.name = info.name();
  status.actor_namespace = info.namespace_();
  status.reason = info.reason();
  status.why = reason_of(info);
  status.node_leaves = info.node_leaves() || !info.problems().empty();
  if (info.has_cause() && info.cause().kind() != protocol::DeathCause::KIND_UNSPECIFIED) {
    status.why = death_reason(info);
    status.death = Error{ErrorCode::kActorDied, status.why.text()};
    status.lost = info.cause().kind() == protocol::DeathCause::NODE_LOST ||
                  info.cause().kind() == protocol::DeathCause::LEASE_LOST;
  }
  return status;
}

Result<ActorStatus> ClusterSession::status(const ActorId& actor) {
  if (is_light(actor)) return status_of_light(actor);
  std::unique_lock hold(mutex_);
  if (closed_) return make_error(*closed_);
  remote(actor);
  changed_.wait_for(hold, options_.head_patience, [&] {
    const auto found = remotes_.find(actor);
    return closed_ || found == remotes_.end() || found->second->info.has_value();
  });
  const auto found = remotes_.find(actor);
  if (found == remotes_.end() || !found->second->info) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("the head did not say anything about actor {} within {} s{}", short_id(actor),
                                  options_.head_patience.count() / 1000, lost_ ? " (" + lost_->message + ")" : ""));
  }
  return status_of(*found->second);
}

std::shared_ptr<void> ClusterSession::on_status(const ActorId& actor,
                                                std::function<void(const ActorStatus&)> function) {
  if (is_light(actor)) {  // State as known to the head.
    return on_status(home_of(actor), [actor, function = std::move(function)](ActorStatus status) {
      status.id = actor;
      function(status);
    });
  }
  const std::lock_guard hold(mutex_);
  const uint64_t number = next_listener_++;
  if (!closed_) remote(actor).listeners.emplace(number, std::move(function));
  return std::shared_ptr<void>(nullptr, [weak = weak_from_this(), actor, number](void*) {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard again(self->mutex_);
    if (const auto found = self->remotes_.find(actor); found != self->remotes_.end())
      found->second->listeners.erase(number);
  });
}

ClusterTotals ClusterSession::totals() {
  const std::lock_guard hold(mutex_);
  return totals_;
}

std::string ClusterSession::cluster_name() {
  const std::lock_guard hold(mutex_);
  return cluster_name_;
}

void ClusterSession::on_log(std::function<void(const LogLine&)> function) {
  const std::lock_guard hold(mutex_);
  log_receiver_ = std::move(function);
}

void ClusterSession::on_request(const std::string& experiment, std::function<void(const ExperimentRequest&)> function) {
  const std::lock_guard hold(mutex_);
  if (function) {
    request_receivers_[experiment] = std::move(function);
  } else {
    request_receivers_.erase(experiment);
  }
}

void ClusterSession::report(const ExperimentReport& report) {
  protocol::ClientMessage message;
  *message.mutable_experiment() = to_update(report);
  if (options_.hello) {
    const std::lock_guard hold(mutex_);
    unkept_.add(*message.mutable_experiment());
  }
  options_.send(std::move(message));
}

}  // namespace volador
