// Backfill: what a node keeps for a request that waits there, and what it leaves to the requests behind that one.
// Pure: no clock, thread, I/O or randomness.
//
// The waiting request lacks some resources of the node. It starts when occupants that hold those have ended, and nobody can say when that
// is. A request behind it must not delay it, whichever occupants end and whenever: so the node keeps as much of each resource as the
// waiting request asks for, less what every occupant that has to end first gives back. The rest is for anybody. The scheduler gets no
// expected end times; where it gets some, requests that end before the occupants do may take what is kept too, and this is where
// that rule belongs.
//
// GPUs are kept as devices: for whole ones those with the least in use, for a part of one the fullest device that has it.
#pragma once

#include <cstdint>
#include <vector>

#include "head/scheduling/resource_pool.h"
#include "runtime/resources.h"

namespace volador::head {

// What somebody holds on the node.
struct Occupant {
  ResourceSet held;
};

struct Backfill {
  ResourcePool left;  // For the requests behind the waiting one.
  ResourceSet kept;   // For the waiting one; at most what it asks for, its GPUs rounded up to whole devices if it asks for more than one.
};

// `asked` waits on a node on which `pool` is free for it. `occupants`: those whose end counts as certain to come before its start; none:
// all that it asks for is kept. `lent_cpus`: free CPUs whose holders take them back; these are for anybody.
Backfill backfill(const ResourceSet& asked, const ResourcePool& pool, const std::vector<Occupant>& occupants, Amount lent_cpus);

}  // namespace volador::head
