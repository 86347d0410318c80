// ClusterSession: nested actors (light_home.h), spawned, ended and inspected by calls on their owner actor's process.
#include <fmt/format.h>

#include <future>

#include "runtime/actor/blocking.h"
#include "runtime/actor/cluster_session.h"
#include "runtime/actor/light_home.h"
#include "runtime/serialize/codec.h"

namespace volador {

// Returns the owner actor for nested actors created by the actor `owner` of this process; empty: by no actor.
Result<ActorId> ClusterSession::home_for(const std::string& owner) {
  Home& home = homes_[owner];
  if (!home.id.is_nil() && home.next < kLightsOfOneHome) {
    const std::lock_guard hold(mutex_);
    const auto known = remotes_.find(home.id);
    if (known != remotes_.end() && !is_dead(*known->second)) return light_id(home.id, home.next++);
  }
  SpawnRequest request;
  request.class_name = light_home_class();
  request.arguments = light_home_arguments();
  request.display = "light actors";
  request.isolation = Isolation::kShared;
  auto made = spawn_as(new_home_id(*options_.random), request);
  if (!made) return make_error(std::move(made).error());
  home = {.id = *made, .next = 1};
  return light_id(home.id, home.next++);
}

Result<ActorId> ClusterSession::spawn_light(const SpawnRequest& request) {
  {
    const internal::Blocking blocking;
    std::unique_lock<std::mutex> hold(lights_mutex_);
    lights_changed_.wait(hold, [this] { return lights_starting_ < kLightsStartingMax; });
    ++lights_starting_;
  }
  const auto started = [weak = weak_from_this(), pins = request.pins](const Result<std::string>&) {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard<std::mutex> hold(self->lights_mutex_);
    --self->lights_starting_;
    self->lights_changed_.notify_one();
  };
  const std::lock_guard<std::mutex> hold(homes_mutex_);
  auto id = home_for(options_.asking_host ? options_.asking_host() : std::string());
  if (!id) {
    started(make_error(id.error()));
    return id;
  }
  // Constructor exceptions are reported to the actor's calls.
  call(*id, LightMethods::make(), to_bytes(request.class_name, Bytes{request.arguments}), std::chrono::nanoseconds(0),
       started);
  return id;
}

// Calls the owner actor and waits for its reply.
Result<std::string> ClusterSession::ask_home(const ActorId& light, uint64_t method, std::string arguments) {
  auto answer = std::make_shared<std::promise<Result<std::string>>>();
  auto future = answer->get_future();
  call(light, method, std::move(arguments), options_.head_patience,
       [answer](Result<std::string> result) { answer->set_value(std::move(result)); });
  const internal::Blocking blocking;
  return future.get();
}

Result<void> ClusterSession::kill_light(const ActorId& light, std::chrono::milliseconds grace) {
  auto ended = ask_home(light, LightMethods::end(), to_bytes<int64_t>(grace.count()));
  if (ended || ended.error().code == ErrorCode::kActorDied) return {};
  return make_error(std::move(ended).error());
}

Result<ActorStatus> ClusterSession::status_of_light(const ActorId& light) {
  auto known = status(home_of(light));
  if (!known) return known;
  ActorStatus& seen = *known;
  seen.id = light;
  seen.class_name.clear();
  if (seen.state == ActorState::kDead) return known;
  const auto answer = ask_home(light, LightMethods::look(), to_bytes());
  if (answer) {
    auto class_name = from_bytes<std::string>(*answer);
    if (class_name) seen.class_name = std::move(*class_name);
    return known;
  }
  if (answer.error().code != ErrorCode::kActorDied) return make_error(answer.error());
  seen.state = ActorState::kDead;
  seen.death = answer.error();
  seen.why = Reason(seen.death.message);
  return known;
}

}  // namespace volador
