// Handles of this process on actors (handle_holds.h), as a session tells the head of them.
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
    if (const auto self = weak.lock()) self->call(light, LightMethods::leave(), to_bytes(), std::chrono::nanoseconds(0), [](const Result<std::string>&) {});
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
    return nullptr;
  }
  return follow(actor) ? holds()->hold(actor, from) : nullptr;
}

void ClusterSession::lend(const ActorId& actor) {
  if (!is_light(actor)) holds()->lend(actor);
}

}  // namespace volador
