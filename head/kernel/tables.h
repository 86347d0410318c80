// The tables of the cluster state machine. Each module holds a mutable reference to its own tables and reads the
// others; the read model reads all.
#pragma once

#include <map>

#include "head/actors/actor_directory.h"
#include "head/actors/checkpoint_table.h"
#include "head/actors/handle_table.h"
#include "head/clients/client_table.h"
#include "head/experiments/experiment_notes.h"
#include "head/experiments/experiment_table.h"
#include "head/groups/group_table.h"
#include "head/groups/group_waits.h"
#include "head/kernel/options.h"
#include "head/nodes/lease_table.h"
#include "head/nodes/node_table.h"
#include "head/scheduling/placement.h"

namespace volador::head {

// Programs of drivers, kept while one of their actors is not dead.
using ProgramTable = std::map<DriverId, protocol::Program>;

struct Tables {
  explicit Tables(const Options& options)
      : nodes(options.limits),
        leases(options.times.lease + options.times.lease_margin),
        placement(options.times, options.limits),
        actors(options.limits),
        checkpoints(options.limits),
        handles(options.times.handle_grace, options.times.lent_handle, options.limits.passed_on_lights),
        groups(options.limits),
        clients(options.limits),
        experiments(options.limits) {}

  NodeTable nodes;  // head/nodes
  LeaseTable leases;
  Placement placement;    // head/scheduling: nodes, actors and groups reserve and release resources in it.
  ActorDirectory actors;  // head/actors
  CheckpointTable checkpoints;
  HandleTable handles;
  GroupTable groups;  // head/groups
  GroupWaits group_waits;
  ClientTable clients;  // head/clients
  ProgramTable programs;
  ExperimentTable experiments;  // head/experiments
  ExperimentNotes experiment_notes;
};

}  // namespace volador::head
