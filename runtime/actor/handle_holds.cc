#include "runtime/actor/handle_holds.h"

#include <atomic>
#include <utility>

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

struct HandleHolds::Light final : ActorHold {
  Light(std::weak_ptr<HandleHolds> all, const ActorId& of) : holds(std::move(all)), actor(of) {}
  ~Light() override {
    if (left.load(std::memory_order_relaxed)) return;
    if (const auto all = holds.lock()) all->dropped(actor, true);
  }
  void leaves() const override { left.store(true, std::memory_order_relaxed); }
  const std::weak_ptr<HandleHolds> holds;
  const ActorId actor;
  mutable std::atomic<bool> left{false};
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

std::shared_ptr<const ActorHold> HandleHolds::hold_light(const ActorId& actor) { return std::make_shared<const Light>(weak_from_this(), actor); }

// The process speaks through one of its actors, perhaps this one: its word comes last.
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
  for (const auto& [actor, entry] : entries_) message.add_held(raw(actor));
  tell(std::move(message));
}

size_t HandleHolds::held() const {
  const std::lock_guard<std::mutex> hold(mutex_);
  return entries_.size();
}

void HandleHolds::dropped(const ActorId& actor, bool light) {
  std::unique_lock<std::mutex> hold(mutex_);
  if (light) {
    lights_.push_back(actor);
  } else {
    const auto found = entries_.find(actor);
    if (found == entries_.end() || std::exchange(found->second.dropping, true)) return;
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

void HandleHolds::flush() {
  std::vector<ActorId> dropped, lights;
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    dropped.swap(dropped_);
    lights.swap(lights_);
    waiting_ = false;
  }
  for (const ActorId& light : lights) options_.leave(light);
  // Asked without the lock. A call that comes meanwhile comes through a handle, which the second look sees.
  std::vector<std::pair<ActorId, bool>> busy;
  busy.reserve(dropped.size());
  for (const ActorId& actor : dropped) busy.emplace_back(actor, options_.has_calls(actor));
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
