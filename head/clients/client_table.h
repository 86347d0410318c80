// The head's clients and their watches: drivers on their own streams, actors through their workers.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "head/clients/client_ref.h"
#include "head/kernel/options.h"
#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"

namespace volador::head {

// A connected or recently disconnected driver.
struct Driver {
  DriverId id;
  std::string name;
  int32_t pid = 0;
  bool wants_logs = false;
  std::string machine_id;
  BootTime connected_at{};  // First connection since the head started; zero: none since.
  // Namespace of its actor names; empty: the default one, or unknown since the head started.
  std::string actor_namespace;
  std::optional<ClientSession> session;
  BootTime gone_at{};  // Deadline while it has no session; then its actors end.
  protocol::Owner owner;
};

// Drivers, their sessions, and the watches of all clients.
class ClientTable {
 public:
  explicit ClientTable(const Limits& limits) : limits_(limits) {}

  // kUnavailable: too many drivers. Returns the replaced stream, which the caller closes.
  Result<std::optional<ClientSession>> connect(ClientSession session, const protocol::Hello& hello);
  Driver& restore(DriverId id, const std::string& name, BootTime gone_at);
  // Returns the driver of the stream; its watches are removed.
  Driver* disconnect(ClientSession session);
  void remove(DriverId id);

  Driver* find(DriverId id);
  const Driver* find(DriverId id) const;
  Driver* find(ClientSession session);
  std::map<DriverId, Driver>& all() { return drivers_; }
  const std::map<DriverId, Driver>& all() const { return drivers_; }

  // Idempotent. Returns false if the client reached its limit of watches.
  bool watch(const ClientRef& client, ActorId actor);
  void unwatch(const ClientRef& client, ActorId actor);
  void unwatch_all(const ClientRef& client);
  void forget(ActorId actor);
  const std::set<ClientRef>& watchers(ActorId actor) const;
  std::vector<ActorId> watched_by(const ClientRef& client) const;

  void check_invariants() const;

 private:
  const Limits limits_;
  std::map<DriverId, Driver> drivers_;
  std::unordered_map<uint64_t, DriverId> sessions_;
  std::unordered_map<ActorId, std::set<ClientRef>> watchers_;
  std::map<ClientRef, std::set<ActorId>> watched_;
};

}  // namespace volador::head
