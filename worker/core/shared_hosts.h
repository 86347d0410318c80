// Which actor lives in which shared host of the node. Pure: no clock, I/O or randomness.
//
// A shared host serves one driver and one program only, bears the id of the first actor that came to it, and takes
// others up to a limit. One actor is its speaker: requests of the process to the head that belong to no actor in
// particular go in its name.
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

class SharedHosts {
 public:
  static constexpr size_t kActorsMax = 10'000;  // Of one host; further ones get another.

  explicit SharedHosts(size_t actors_max = kActorsMax) : actors_max_(actors_max) {}

  struct Place {
    HostId process;
    bool fresh = false;  // It is to be made.
  };
  // A place for the actor. Repeated: the same one.
  Place add(HostId actor, const protocol::StartHost& start);
  // The host in which the actor is; none: unknown.
  [[nodiscard]] std::optional<HostId> process_of(HostId actor) const;
  // Takes no more actors: it ends.
  void close(HostId process);
  // The actor speaks for the process no longer, if it did.
  void silence(HostId actor);
  // It is gone.
  void remove(HostId actor);
  // The host is gone, with the actors that it returns.
  std::vector<HostId> remove_process(HostId process);

  [[nodiscard]] size_t actors(HostId process) const;
  [[nodiscard]] std::vector<HostId> actors_of(HostId process) const;
  // In whose name the process asks; none: it has no actor that lives on.
  [[nodiscard]] std::optional<HostId> speaker(HostId process) const;

  void check_invariants() const;

 private:
  using Key = std::pair<std::string, std::string>;  // Driver, program.
  struct Process {
    Key key;
    std::set<HostId> actors;
    std::set<HostId> speakers;  // Of them: those that live on.
    std::optional<HostId> speaker;
    bool closed = false;
  };

  size_t actors_max_;
  std::map<HostId, Process> processes_;
  std::map<HostId, HostId> process_of_;
  std::map<Key, HostId> open_;  // The one that takes actors.
};

}  // namespace volador::worker
