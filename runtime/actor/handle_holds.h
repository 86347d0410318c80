// Counts this process's actor handles, so that the head can end an actor that is unreachable.
//
// The head receives one message when the first handle on an actor appears and one when the last handle is gone and the
// calls made through it have ended. Releases are batched for kBatchTime. Copies therefore cost only a shared pointer,
// and calls nothing. Thread safe. Handles may be destroyed anywhere, even while other locks are held.
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

// Table of the actors on which this process has handles.
class HandleHolds : public std::enable_shared_from_this<HandleHolds> {
 public:
  static constexpr std::chrono::milliseconds kBatchTime{100};

  struct Options {
    // Sends to the head; called under a lock, which keeps the order. `from`: raw HostId of the sending actor of a
    // shared host; empty: the process.
    std::function<void(const protocol::HoldActors&, const std::string& from)> tell;
    std::function<bool(const ActorId&)> has_calls;  // Whether calls of this process on it are pending.
    std::function<void(const ActorId&)> leave;      // Ends a purely local nested actor after its calls.
    // For other nested actors: calls the function once, asynchronously, when all calls of this process have reached the
    // actor or it has ended.
    std::function<void(const ActorId&, std::function<void()>)> deliver;
    std::function<void(std::function<void()>)> later;  // Runs the function once, asynchronously, after kBatchTime.
  };
  explicit HandleHolds(Options options) : options_(std::move(options)) {}

  // Returns the state shared by the process's handles on the actor.
  std::shared_ptr<const ActorHold> hold(const ActorId& actor, Session::HandleFrom from);
  // For an actor being spawned, before its registration: the head then counts this process without a message.
  std::shared_ptr<const ActorHold> hold_new(const ActorId& actor);
  // For a nested actor; the head is notified when its first handle leaves this process.
  std::shared_ptr<const ActorHold> hold_light(const ActorId& actor);
  // For an actor from hold_new() that an actor of a shared host requested: the head counts that actor as holder; this
  // transfers the count to the process, which outlives it.
  void pass_on(const ActorId& actor, const std::string& asked);
  void lend(const ActorId& actor);
  // Called when the head reports that no handle is left on this nested actor, whose owner is in this process.
  void end(const ActorId& light) { options_.leave(light); }
  // Resends the full state after a reconnect: earlier messages may be lost.
  void tell_all();
  size_t held() const;

 private:
  struct Shared;
  struct Light;
  struct Entry {
    std::weak_ptr<const ActorHold> hold;
    bool dropping = false;   // In dropped_, or being delivered.
    bool made_here = false;  // A nested actor of this process.
    uint64_t drops = 0;      // Number of times the last handle was released.
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
  std::unordered_map<ActorId, Entry> entries_;  // State known to the head.
  std::vector<ActorId> dropped_;
  std::vector<ActorId> lights_;  // Nested actors known only to this process, without handles.
  bool waiting_ = false;
  uint64_t sequence_ = 0;
};

}  // namespace volador
