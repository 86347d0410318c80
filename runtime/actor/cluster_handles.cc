// ClusterSession: reports this process's actor handles (handle_holds.h) to the head.
#include "runtime/actor/cluster_session.h"
#include "runtime/actor/handle_holds.h"
#include "runtime/actor/light_home.h"
#include "runtime/serialize/codec.h"

namespace volador {

std::shared_ptr<HandleHolds> ClusterSession::holds() {
  const std::lock_guard<std::mutex> hold(holds_mutex_);
  if (holds_) return holds_;
  HandleHolds::Options options;
  options.tell = [send = options_.send](const protocol::HoldActors& holds, const std::string& from) {
    protocol::ClientMessage message;
    *message.mutable_holds() = holds;
    message.set_from_host(from);
    send(std::move(message));
  };
  options.has_calls = [weak = weak_from_this()](const ActorId& actor) {
    const auto self = weak.lock();
    return self && self->has_calls(actor);
  };
  options.leave = [weak = weak_from_this()](const ActorId& light) {
    if (const auto self = weak.lock())
      self->call(light, LightMethods::leave(), to_bytes(), std::chrono::nanoseconds(0),
                 [](const Result<std::string>&) {});
  };
  // The host answers this call at once, so that earlier calls are known to have arrived.
  options.deliver = [weak = weak_from_this()](const ActorId& light, std::function<void()> done) {
    const auto self = weak.lock();
    if (!self) return;
    self->call(light, LightMethods::look(), to_bytes(), std::chrono::nanoseconds(0),
               [done = std::move(done), loop = self->options_.loop](const Result<std::string>&) { loop->post(done); });
  };
  options.later = [loop = options_.loop, clock = options_.clock](std::function<void()> run) {
    loop->add_timer(clock->now() + HandleHolds::kBatchTime, std::move(run));
  };
  holds_ = std::make_shared<HandleHolds>(std::move(options));
  return holds_;
}

std::shared_ptr<const ActorHold> ClusterSession::hold(const ActorId& actor, HandleFrom from) {
  if (is_light(actor)) {
    if (from == HandleFrom::kSpawn) return holds()->hold_light(actor);
    watch(actor);
    return holds()->hold(actor, from);
  }
  return follow(actor) ? holds()->hold(actor, from) : nullptr;
}

void ClusterSession::lend(const ActorId& actor) { holds()->lend(actor); }

void ClusterSession::end_lights(const protocol::EndLights& message) {
  const auto known = holds();
  for (const std::string& light : message.actors()) known->end(id_from_raw<ActorId>(light));
}

}  // namespace volador
