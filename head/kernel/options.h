// Times and limits of the head's core. The defaults suit production; tests shorten them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "head/kernel/actor_guard.h"
#include "runtime/ids.h"
#include "runtime/protocol/checkpoint_limit.h"
#include "runtime/result.h"

namespace volador::head {

// A worker measures its lease from sending a heartbeat, the head from receiving the last acknowledged one, so the lease
// never ends earlier at the head than at the worker. `lease_margin` covers clocks that run at different speeds.
struct Times {
  std::chrono::milliseconds heartbeat{500};       // Interval between heartbeats of a worker.
  std::chrono::milliseconds suspect_after{1500};  // After this silence a node gets no new placements.
  std::chrono::milliseconds lease{
      3500};  // A host may commit for this long after its worker sent an acknowledged heartbeat.
  std::chrono::milliseconds lease_margin{
      500};  // A node is declared dead lease + lease_margin after its last acknowledged heartbeat.
  std::chrono::milliseconds park_max{600'000};         // A parked host ends after this time.
  std::chrono::milliseconds reconnect_window{10'000};  // After a restart of the head; at least lease + lease_margin.
  std::chrono::milliseconds own_pause{1000};  // A longer gap between two events counts as a pause of the head itself.
  std::chrono::milliseconds driver_grace{1500};  // A driver that lost its stream may reconnect within this time.
  std::chrono::milliseconds cluster_state{200};  // Minimum interval between ClusterState messages.
  // EndHost is repeated at this interval until the host's end is reported.
  std::chrono::milliseconds end_retry{1000};
  // A reconnected worker that lacks a host may still report how the host ended within this time.
  std::chrono::milliseconds ended_report{1000};
  std::chrono::milliseconds start_timeout{60'000};  // Default for host start and constructor together.
  std::chrono::milliseconds start_slack{
      120'000};  // Added to the start timeout, which the worker enforces, for the program transfer.
  std::chrono::milliseconds restart_delay_first{
      100};  // Delay before the second consecutive restart of an actor that dies early; doubles each time.
  std::chrono::milliseconds restart_delay_max{10'000};
  std::chrono::milliseconds early_death{10'000};  // A shorter life of an incarnation counts as an early death.
  std::chrono::milliseconds handle_grace{
      1000};  // An actor without handles lives this much longer, since a handle may be in transit.
  // A handle in a reply counts for this long until the receiver claims it.
  std::chrono::milliseconds lent_handle{60'000};
  std::chrono::milliseconds reserve_after{30'000};  // A request that is passed over for this long gets a reservation.
};

// A request that exceeds a limit is refused with an error that names the limit, unless noted.
struct Limits {
  size_t nodes = 20'000;
  size_t drivers = 10'000;
  size_t actors = 200'000;              // Not dead.
  size_t spec_bytes = size_t{1} << 30;  // Total specs of actors that are not dead.
  size_t argument_bytes = 16 << 20;     // Per actor.
  size_t description_bytes = 1 << 20;   // Per actor spec without arguments; both fit into one journal row.
  size_t checkpoint_bytes = kActorCheckpointBytesMax;
  size_t checkpoints_bytes = size_t{1} << 30;  // Total.
  size_t name_bytes = 256;
  size_t env_bytes = 64 << 10;     // Per actor or program.
  size_t labels = 64;              // Per node, or required by one actor.
  size_t resource_names = 64;      // Per node or actor.
  size_t watches = 200'000;        // Per client.
  size_t dead_actors = 10'000;     // Kept for queries; the oldest are dropped.
  size_t dead_nodes = 1'000;       // Kept for queries; the oldest are dropped.
  size_t reservations = 8;         // Requests with a reservation at the same time.
  size_t groups = 20'000;          // Placement groups.
  size_t bundles = 1'000;          // Per group.
  size_t group_bytes = 256 << 10;  // Per group request.
  size_t all_bundles = 200'000;
  size_t removed_groups = 10'000;     // Kept for queries; the oldest are dropped.
  size_t passed_on_lights = 200'000;  // Nested actors with counted handles; others live as long as their owner.
  size_t group_waits = 100'000;       // Clients that wait for a group to become ready.
  size_t experiments =
      100;  // Beyond it the ended experiment with the oldest update is dropped; while all run, a new one is not shown.
  size_t trials = 20'000;          // Rows per experiment; further trials are counted but not stored.
  size_t trial_bytes = 16 << 10;   // Per row; longer texts are truncated.
  size_t space_bytes = 64 << 10;   // Per experiment; a larger search space is not stored.
  size_t config_bytes = 64 << 10;  // Per configuration added to an experiment.
  int starts_lost = 3;             // Failed starts due to node loss that do not count as restarts.
};

// Configuration of the core.
struct Options {
  ClusterId cluster_id;
  std::string cluster_name;
  std::string version;       // "0.1.0", for messages.
  int protocol_version = 1;  // Peers with another version are refused.
  Times times = {};
  Limits limits = {};
  int64_t boot_unix_ms = 0;       // Unix time minus boot time, for times of rows.
  bool keep_experiments = false;  // Whether the shell applies Actions::experiments.
  // Checks whether an experiment may try a configuration. All arguments are JSON: the search space (empty: unknown),
  // the space of the trial that supplies missing values (empty: they are sampled), and the configuration. Must be pure.
  // If unset, the driver's program checks.
  std::function<Result<void>(const std::string& space, const std::string& like, const std::string& config)>
      check_config = {};
  std::shared_ptr<const ActorGuard> guard = {};  // Null: everyone who reads the cluster may look into all actors.
};

}  // namespace volador::head
