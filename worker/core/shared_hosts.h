// Assignment of actors to the node's shared hosts. Pure: no clock, I/O or randomness.
//
// A shared host serves one driver and one program, has the id of its first actor, and takes further actors up to a
// limit. One actor is its speaker: requests of the process to the head that belong to no particular actor carry its id.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"

namespace volador::worker {

// Table of shared hosts and their actors. Not thread safe.
class SharedHosts {
 public:
  static constexpr size_t kActorsMax = 10'000;  // Per host; further actors get another host.

  explicit SharedHosts(size_t actors_max = kActorsMax) : actors_max_(actors_max) {}

  struct Place {
    HostId process;
    bool fresh = false;  // The process must be started.
  };
  // Returns a place for the actor. Idempotent.
  Place add(HostId actor, const protocol::StartHost& start);
  // Returns the host of the actor; nothing if unknown.
  [[nodiscard]] std::optional<HostId> process_of(HostId actor) const;
  // Accepts no more actors because the host ends.
  void close(HostId process);
  // Ends the actor's role as speaker, if it has it.
  void silence(HostId actor);
  // Removes an ended actor.
  void remove(HostId actor);
  // Removes an ended host and returns its actors.
  std::vector<HostId> remove_process(HostId process);

  [[nodiscard]] size_t actors(HostId process) const;
  [[nodiscard]] std::vector<HostId> actors_of(HostId process) const;
  // Returns the actor in whose name the process sends requests; nothing if it has no live actor.
  [[nodiscard]] std::optional<HostId> speaker(HostId process) const;

  void check_invariants() const;

 private:
  using Key = std::pair<std::string, std::string>;  // Driver, program.
  struct Process {
    Key key;
    std::set<HostId> actors;
    std::set<HostId> speakers;  // Live actors.
    std::optional<HostId> speaker;
    bool closed = false;
  };

  size_t actors_max_;
  std::map<HostId, Process> processes_;
  std::map<HostId, HostId> process_of_;
  std::map<Key, HostId> open_;  // Hosts that accept actors.
};

}  // namespace volador::worker
