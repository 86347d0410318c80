// Times and limits of the head's core. The defaults are the product's; tests shorten them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/ids.h"
#include "runtime/protocol/checkpoint_limit.h"
#include "runtime/result.h"

namespace volador::head {

// A worker counts its lease from the sending of a heartbeat, the head from the receipt of the last one it acknowledged,
// so the head's end of a lease is never before the worker's; `lease_margin` covers clocks that run at different speeds.
struct Times {
  std::chrono::milliseconds heartbeat{500};       // Between two heartbeats of a worker.
  std::chrono::milliseconds suspect_after{1500};  // Silence after which nothing new is placed on a node.
  std::chrono::milliseconds lease{
      3500};  // A host may commit this long after its worker sent an acknowledged heartbeat.
  std::chrono::milliseconds lease_margin{
      500};  // lease + lease_margin after the last acknowledged heartbeat a node is given up.
  std::chrono::milliseconds park_max{600'000};         // A parked host ends after it.
  std::chrono::milliseconds reconnect_window{10'000};  // After a restart of the head; at least lease + lease_margin.
  std::chrono::milliseconds own_pause{1000};  // A gap between two events of the head beyond it is the head's own pause.
  std::chrono::milliseconds driver_grace{1500};  // A driver whose stream was lost may come back within it.
  std::chrono::milliseconds cluster_state{200};  // ClusterState goes out at most this often.
  std::chrono::milliseconds end_retry{1000};     // EndHost is repeated this often until the host's end is reported.
  std::chrono::milliseconds ended_report{1000};  // A worker that came back without a host may still say how it ended.
  std::chrono::milliseconds start_timeout{60'000};  // Of host and constructor where a spec names none.
  std::chrono::milliseconds start_slack{
      120'000};  // Beyond the start timeout, which the worker keeps: program transfer.
  std::chrono::milliseconds restart_delay_first{
      100};  // Before the second restart in a row of an actor that dies early; doubles.
  std::chrono::milliseconds restart_delay_max{10'000};
  std::chrono::milliseconds early_death{10'000};  // An incarnation that lived less died early.
  std::chrono::milliseconds handle_grace{
      1000};  // An actor on which nobody has a handle is left so long: one may be on its way.
  std::chrono::milliseconds lent_handle{60'000};    // A handle in an answer counts so long, until it is claimed.
  std::chrono::milliseconds reserve_after{30'000};  // A request that was passed by for so long gets a reservation.
};

// At a limit the request is refused with a sentence that names it, unless the line says otherwise.
struct Limits {
  size_t nodes = 20'000;
  size_t drivers = 10'000;
  size_t actors = 200'000;              // Not dead.
  size_t spec_bytes = size_t{1} << 30;  // Specs of actors that are not dead, together.
  size_t argument_bytes = 16 << 20;     // Of one actor.
  size_t description_bytes =
      1 << 20;  // Of one actor's spec without its arguments: both fit into one row of the journal.
  size_t checkpoint_bytes = kActorCheckpointBytesMax;
  size_t checkpoints_bytes = size_t{1} << 30;  // Together.
  size_t name_bytes = 256;
  size_t env_bytes = 64 << 10;     // Of one actor or program.
  size_t labels = 64;              // Of one node, or required by one actor.
  size_t resource_names = 64;      // Of one node or actor.
  size_t watches = 200'000;        // Of one client.
  size_t dead_actors = 10'000;     // Remembered; the oldest are forgotten.
  size_t dead_nodes = 1'000;       // Remembered; the oldest are forgotten.
  size_t reservations = 8;         // Requests with reservations at a time.
  size_t groups = 20'000;          // Placement groups.
  size_t bundles = 1'000;          // Of one group.
  size_t group_bytes = 256 << 10;  // Of one group as it is asked for.
  size_t all_bundles = 200'000;
  size_t removed_groups = 10'000;     // Remembered; the oldest are forgotten.
  size_t passed_on_lights = 200'000;  // Light actors on which handles are counted; others live until their maker ends.
  size_t group_waits = 100'000;       // Clients that wait until a group is ready.
  size_t experiments =
      100;  // The one that ended and was updated longest ago is forgotten; while all run, a new one is not shown.
  size_t trials = 20'000;          // Rows of one experiment; later ones are counted, not kept.
  size_t trial_bytes = 16 << 10;   // Of one row; its texts are cut.
  size_t space_bytes = 64 << 10;   // Of one experiment; a larger one is not kept.
  size_t config_bytes = 64 << 10;  // Of a configuration that is added to one.
  int starts_lost = 3;             // Starts that a node's loss may undo before they count as restarts.
};

struct Options {
  ClusterId cluster_id;
  std::string cluster_name;
  std::string version;       // "0.1.0", for messages.
  int protocol_version = 1;  // Peers of another are refused.
  Times times = {};
  Limits limits = {};
  bool keep_experiments = false;  // Actions::experiments are carried out by somebody.
  // Whether an experiment may try a configuration: its space (empty: not known), that of the trial which has what the
  // configuration leaves out (empty: it is drawn), and the configuration, as JSON. Pure; none: its program says.
  std::function<Result<void>(const std::string& space, const std::string& like, const std::string& config)>
      check_config = {};
};

}  // namespace volador::head
