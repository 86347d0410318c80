#include "runtime/actor/handle_holds.h"

#include <atomic>
#include <utility>

#include "runtime/light_id.h"
#include "runtime/protocol/control.pb.h"

namespace volador {

struct HandleHolds::Shared final : ActorHold {
  Shared(std::weak_ptr<HandleHolds> all, const ActorId& of) : holds(std::move(all)), actor(of) {}
  ~Shared() override {
    if (const auto all = holds.lock()) all->dropped(actor, false);
  }
  const std::weak_ptr<HandleHolds> holds;
  const ActorId actor;
};

struct HandleHolds::Light final : ActorHold, std::enable_shared_from_this<Light> {
  enum class State : uint8_t { kOwn, kPassedOn, kEnded };
  Light(std::weak_ptr<HandleHolds> all, const ActorId& of) : holds(std::move(all)), actor(of) {}
  ~Light() override {
    const State now = state.load(std::memory_order_relaxed);
    if (now == State::kEnded) return;
    if (const auto all = holds.lock()) all->dropped(actor, now == State::kOwn);
  }
  void leaves() const override {
    if (state.load(std::memory_order_relaxed) != State::kOwn) return;
    if (const auto all = holds.lock()) all->pass_on_light(*this);
  }
  void ended() const override {
    State own = State::kOwn;
    state.compare_exchange_strong(own, State::kEnded);
  }
  const std::weak_ptr<HandleHolds> holds;
  const ActorId actor;
  mutable std::atomic<State> state{State::kOwn};
};

std::shared_ptr<const ActorHold> HandleHolds::make(const ActorId& actor, Entry& entry) {
  auto made = std::make_shared<const Shared>(weak_from_this(), actor);
  entry.hold = made;
  return made;
}

void HandleHolds::tell(protocol::HoldActors message, const std::string& from) {
  message.set_sequence(++sequence_);
  options_.tell(message, from);
}

std::shared_ptr<const ActorHold> HandleHolds::hold(const ActorId& actor, Session::HandleFrom from) {
  const std::lock_guard<std::mutex> hold(mutex_);
  const auto [found, is_new] = entries_.try_emplace(actor);
  auto there = found->second.hold.lock();
  if (!there) there = make(actor, found->second);
  const bool claims = from == Session::HandleFrom::kAnswer;
  if (is_new || claims) {
    protocol::HoldActors message;
    (claims ? message.add_claimed() : message.add_held())->assign(raw(actor));
    tell(std::move(message));
  }
  return there;
}

std::shared_ptr<const ActorHold> HandleHolds::hold_new(const ActorId& actor) {
  const std::lock_guard<std::mutex> hold(mutex_);
  return make(actor, entries_[actor]);
}

std::shared_ptr<const ActorHold> HandleHolds::hold_light(const ActorId& actor) {
  return std::make_shared<const Light>(weak_from_this(), actor);
}

void HandleHolds::pass_on_light(const Light& light) {
  const std::lock_guard<std::mutex> hold(mutex_);
  Light::State own = Light::State::kOwn;
  if (!light.state.compare_exchange_strong(own, Light::State::kPassedOn)) return;
  Entry& entry = entries_[light.actor];
  entry.made_here = true;
  entry.hold = light.weak_from_this();
  protocol::HoldActors message;
  message.add_passed_on(raw(light.actor));
  tell(std::move(message));
}

// The process reports through one of its actors, possibly this one: its message is sent last.
void HandleHolds::pass_on(const ActorId& actor, const std::string& asked) {
  const std::lock_guard<std::mutex> hold(mutex_);
  if (!asked.empty()) {
    protocol::HoldActors asker;
    asker.add_released(raw(actor));
    tell(std::move(asker), asked);
  }
  protocol::HoldActors process;
  process.add_held(raw(actor));
  tell(std::move(process));
}

void HandleHolds::lend(const ActorId& actor) {
  const std::lock_guard<std::mutex> hold(mutex_);
  protocol::HoldActors message;
  message.add_lent(raw(actor));
  tell(std::move(message));
}

void HandleHolds::tell_all() {
  const std::lock_guard<std::mutex> hold(mutex_);
  protocol::HoldActors message;
  message.set_all(true);
  for (const auto& [actor, entry] : entries_)
    (entry.made_here ? message.add_passed_on() : message.add_held())->assign(raw(actor));
  tell(std::move(message));
}

size_t HandleHolds::held() const {
  const std::lock_guard<std::mutex> hold(mutex_);
  return entries_.size();
}

void HandleHolds::dropped(const ActorId& actor, bool own_light) {
  std::unique_lock<std::mutex> hold(mutex_);
  if (own_light) {
    lights_.push_back(actor);
  } else {
    const auto found = entries_.find(actor);
    if (found == entries_.end()) return;
    ++found->second.drops;
    if (std::exchange(found->second.dropping, true)) return;
    dropped_.push_back(actor);
  }
  wait(hold);
}

void HandleHolds::wait(std::unique_lock<std::mutex>& hold) {
  if (std::exchange(waiting_, true)) return;
  hold.unlock();
  options_.later([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->flush();
  });
}

// A handle acquired meanwhile keeps the actor; if it is gone again there may be later calls.
void HandleHolds::delivered(const ActorId& light, uint64_t drops) {
  std::unique_lock<std::mutex> hold(mutex_);
  const auto found = entries_.find(light);
  if (found == entries_.end()) return;
  if (found->second.drops != drops) {
    dropped_.push_back(light);
    return wait(hold);
  }
  found->second.dropping = false;
  if (!found->second.hold.expired()) return;
  entries_.erase(found);
  protocol::HoldActors message;
  message.add_released(raw(light));
  tell(std::move(message));
}

void HandleHolds::flush() {
  std::vector<ActorId> dropped, lights;
  std::vector<std::pair<ActorId, uint64_t>> passed_on;
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    dropped.swap(dropped_);
    lights.swap(lights_);
    waiting_ = false;
    std::erase_if(dropped, [&](const ActorId& actor) {
      if (!is_light(actor)) return false;
      if (const auto found = entries_.find(actor); found != entries_.end())
        passed_on.emplace_back(actor, found->second.drops);
      return true;
    });
  }
  for (const ActorId& light : lights) options_.leave(light);
  // Queried without the lock. A call made meanwhile uses a handle, which the second check sees.
  std::vector<std::pair<ActorId, bool>> busy;
  busy.reserve(dropped.size());
  for (const ActorId& actor : dropped) busy.emplace_back(actor, options_.has_calls(actor));
  for (const auto& [light, drops] : passed_on) {
    options_.deliver(light, [weak = weak_from_this(), light = light, drops = drops] {
      if (const auto self = weak.lock()) self->delivered(light, drops);
    });
  }
  protocol::HoldActors message;
  std::unique_lock<std::mutex> hold(mutex_);
  for (const auto& [actor, has_calls] : busy) {
    const auto found = entries_.find(actor);
    if (found == entries_.end()) continue;
    found->second.dropping = false;
    if (!found->second.hold.expired()) continue;
    if (has_calls) {
      found->second.dropping = true;
      dropped_.push_back(actor);
      continue;
    }
    message.add_released(raw(actor));
    entries_.erase(found);
  }
  if (message.released_size() > 0) tell(std::move(message));
  if (!dropped_.empty()) wait(hold);
}

}  // namespace volador
