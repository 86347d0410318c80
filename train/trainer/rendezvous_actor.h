// Rendezvous of the nodes of a run: a table in an actor.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "runtime/actor/actor_class.h"
#include "runtime/actor/deferred.h"
#include "runtime/actor/handle.h"
#include "train/group/rendezvous.h"

namespace volador::train {

class RendezvousActor {
 public:
  void set(std::string key, std::string value);
  std::vector<std::string> get(std::string key);  // The value, or nothing.
  // Replies when all keys have values.
  Deferred<std::vector<std::string>> wait(std::vector<std::string> keys);
  int64_t add(std::string key, int64_t amount);
  void append(std::string key, std::string bytes);
  bool remove(std::string key);

 private:
  struct Waiter {
    std::vector<std::string> keys;
    Deferred<std::vector<std::string>> reply;
  };
  void wake();

  std::map<std::string, std::string> values_;
  std::vector<Waiter> waiters_;
};
VOLADOR_ACTOR(RendezvousActor, &RendezvousActor::set, &RendezvousActor::get, &RendezvousActor::wait,
              &RendezvousActor::add, &RendezvousActor::append, &RendezvousActor::remove);

// The table as the group code sees it. Waiting ends with GroupAborted when `cancelled` becomes true.
class ActorRendezvous final : public Rendezvous {
 public:
  ActorRendezvous(ActorHandle<RendezvousActor> actor, const std::atomic<bool>& cancelled)
      : actor_(std::move(actor)), cancelled_(cancelled) {}
  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;
  std::string wait(const std::string& key, std::chrono::milliseconds timeout) override;
  int64_t add(const std::string& key, int64_t amount) override;
  void append(const std::string& key, const std::string& bytes) override;
  bool remove(const std::string& key) override;
  std::vector<std::string> wait_all(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) override;

 private:
  const ActorHandle<RendezvousActor> actor_;
  const std::atomic<bool>& cancelled_;
};

}  // namespace volador::train
