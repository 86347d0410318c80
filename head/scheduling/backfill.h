// Backfill: what a node reserves for a waiting request, and what it leaves to the requests behind it.
// Pure: no clock, thread, I/O or randomness.
//
// The waiting request lacks some resources of the node and starts when occupants that hold them have ended, at an
// unknown time. A request behind it must not delay it, whichever occupants end and whenever: so the node keeps as much
// of each resource as the waiting request asks for, less what every occupant that must end first gives back. The rest
// is free for all. The scheduler has no expected end times; with such times, requests that end before the occupants
// could also use what is kept, and that rule would belong here.
//
// GPUs are kept as devices: whole GPUs on the devices with the least use, a fraction on the fullest device that has
// room.
#pragma once

#include <cstdint>
#include <vector>

#include "head/scheduling/resource_pool.h"
#include "runtime/resources.h"

namespace volador::head {

// A holder on the node.
struct Occupant {
  ResourceSet held;
};

struct Backfill {
  ResourcePool left;  // For the requests behind the waiting one.
  // For the waiting one: at most what it asks for; if it asks for more than one GPU, rounded up to whole devices.
  ResourceSet kept;
};

// `asked` waits on a node on which `pool` is free for it. `occupants`: holders certain to end before its start; if
// empty, everything it asks for is kept. `lent_cpus`: free CPUs that their holders take back later; available to all
// requests.
Backfill backfill(const ResourceSet& asked, const ResourcePool& pool, const std::vector<Occupant>& occupants,
                  Amount lent_cpus);

}  // namespace volador::head
