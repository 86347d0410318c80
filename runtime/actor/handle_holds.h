// The handles on actors that this process has, so that the head can end an actor that nobody can reach any more.
//
// The head is told of an actor, not of its handles: once when the first handle on it comes, once when the last one has gone and the calls
// made through it have ended. What goes is collected for kBatchTime first. So copies cost nothing beyond a shared pointer, and calls nothing.
// Thread safe. Handles may be destroyed anywhere, also while others' locks are held.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/actor/session.h"
#include "runtime/ids.h"

namespace volador {

namespace protocol {
class HoldActors;
}

class HandleHolds : public std::enable_shared_from_this<HandleHolds> {
 public:
  static constexpr std::chrono::milliseconds kBatchTime{100};

  struct Options {
    // The head; called under a lock, so that all come in order. `from`: raw HostId of the actor of a shared host that says it; empty: the process.
    std::function<void(const protocol::HoldActors&, const std::string& from)> tell;
    std::function<bool(const ActorId&)> has_calls;          // Whether calls of this process on it have not ended.
    std::function<void(const ActorId&)> leave;              // Of a light actor that only this process ever knew: end it after its calls.
    // Of another light actor: calls once, in no caller's frame, when all calls that this process made are with it, or it has ended.
    std::function<void(const ActorId&, std::function<void()>)> deliver;
    std::function<void(std::function<void()>)> later;       // Runs it once, after kBatchTime, in no caller's frame.
  };
  explicit HandleHolds(Options options) : options_(std::move(options)) {}

  // What the process's handles on the actor share.
  std::shared_ptr<const ActorHold> hold(const ActorId& actor, Session::HandleFrom from);
  // Of one that is being spawned, from before the head hears of it: then it counts this process by itself.
  std::shared_ptr<const ActorHold> hold_new(const ActorId& actor);
  // Of a light actor, of which the head hears when the first handle on it leaves this process.
  std::shared_ptr<const ActorHold> hold_light(const ActorId& actor);
  // One of hold_new(), that an actor of a shared host asked for: the head counts that one as its holder; from now on it counts the process,
  // which outlives it.
  void pass_on(const ActorId& actor, const std::string& asked);
  void lend(const ActorId& actor);
  // The head says that nobody has a handle on this light actor, whose home is in this process.
  void end(const ActorId& light) { options_.leave(light); }
  // After a new connection: nothing that was told before need have arrived.
  void tell_all();
  size_t held() const;

 private:
  struct Shared;
  struct Light;
  struct Entry {
    std::weak_ptr<const ActorHold> hold;
    bool dropping = false;  // In dropped_, or being delivered.
    bool made_here = false;  // A light actor of this process.
    uint64_t drops = 0;      // How often the last handle went.
  };

  std::shared_ptr<const ActorHold> make(const ActorId& actor, Entry& entry);
  void dropped(const ActorId& actor, bool own_light);
  void pass_on_light(const Light& light);
  void delivered(const ActorId& light, uint64_t drops);
  void tell(protocol::HoldActors message, const std::string& from = {});
  void wait(std::unique_lock<std::mutex>& hold);
  void flush();

  const Options options_;
  mutable std::mutex mutex_;
  std::unordered_map<ActorId, Entry> entries_;  // As the head has been told.
  std::vector<ActorId> dropped_;
  std::vector<ActorId> lights_;  // That no other process ever knew, left by their last handle.
  bool waiting_ = false;
  uint64_t sequence_ = 0;
};

}  // namespace volador
