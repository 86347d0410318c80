// Cluster state machine: membership, leases, placement, actors and drivers of one cluster. Events in, actions out.
// Pure: `now` comes with the event; no clock, thread or I/O; randomness (ids of hosts) is handed in.
//
// The shell
//   - loads the journal's rows, calls start(), then feeds messages in the order of their streams and on_tick() every
//   200 ms;
//   - gives every stream a session number that it never uses again;
//   - carries out Actions in the order in which it got them: first `journal` becomes durable, then the messages leave,
//     then the sessions in `close_*` are closed (what was sent before still goes out).
// Every handler may be called twice or late: what repeats a known fact changes nothing.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "head/actors/actor_hosts.h"
#include "head/actors/actor_life.h"
#include "head/actors/actor_requests.h"
#include "head/actors/actor_restore.h"
#include "head/actors/handle_module.h"
#include "head/clients/client_module.h"
#include "head/clients/object_rebuilds.h"
#include "head/experiments/experiment_module.h"
#include "head/groups/group_module.h"
#include "head/kernel/actions.h"
#include "head/kernel/context.h"
#include "head/kernel/module.h"
#include "head/kernel/tables.h"
#include "head/nodes/node_module.h"
#include "head/read_model/change_feed.h"
#include "head/read_model/explainer.h"
#include "head/read_model/lists.h"
#include "head/read_model/lookups.h"
#include "head/read_model/names.h"
#include "runtime/security/principal.h"
#include "head/read_model/rows.h"
#include "head/read_model/wait_reasons.h"

namespace volador::head {

// Dispatches events to the modules that own the tables (head/nodes, actors, groups, clients, experiments), and settles
// what they changed: places, journal rows, messages to watchers.
class HeadCore {
 public:
  HeadCore(const Options& options, Random& random);
  HeadCore(const HeadCore&) = delete;
  HeadCore& operator=(const HeadCore&) = delete;

  // Takes a module besides the kernel's own, before load(); it outlives the core. Modules stand on context() and
  // tables().
  void add_module(Module& module) { modules_.push_back(&module); }
  Context& context() { return context_; }
  const Tables& tables() const { return tables_; }

  // One row of the journal, before start(); rows of other tables are ignored. A row that cannot be read is left out and
  // start() says so: one bad row never keeps a cluster down.
  void load(std::string_view table, std::string_view key, std::string_view value);
  // Once, before any event. Nothing that ran under an earlier head is placed again before Times::reconnect_window has
  // passed, unless its worker reports its end.
  Actions start(BootTime now);
  // Drivers whose stream is open.
  size_t connected_drivers() const;
  // Whether the request is one that was accepted before, and comes again: to make an actor or a placement group that
  // exists.
  bool has_accepted(const protocol::ClientMessage& request) const;
  // Actions::experiments of up to this number are on the disk: the driver is told.
  Actions on_experiment_kept(BootTime now, DriverId driver, const std::string& experiment, uint64_t number);
  // Rows that an earlier head kept, a part of an experiment's at a time, before start() or later. `rank`: from 1, the
  // newest experiment has the greatest; all count as older than what drivers say now. False: a later run has the name,
  // or there are newer ones up to the limit. What it says is told to watchers as any change.
  bool restore_experiment(DriverId driver, const std::string& machine_id, const protocol::ExperimentUpdate& part,
                          uint64_t rank);

  Actions on_node_message(BootTime now, NodeSession session, const protocol::WorkerMessage& message);
  Actions on_node_lost(BootTime now,
                       NodeSession session);  // The stream ended, for whatever reason. Unknown: no effect.
  // `by`: the principal of the session's stream; what its driver creates belongs to it.
  Actions on_client_message(BootTime now, ClientSession session, const protocol::ClientMessage& message, const security::Principal& by = {});
  Actions on_client_lost(BootTime now, ClientSession session);
  Actions on_tick(BootTime now);

  // The program of this hash, or null: its size is the limit of an upload.
  const protocol::Program* program(std::string_view sha256) const;
  // Whether any driver or actor may still need it: the shell's store may drop the others.
  bool program_in_use(std::string_view sha256) const { return program(sha256) != nullptr; }

  // Runs a request that changes the cluster by one of the modules below, as core.act(now, [&] { return
  // core.nodes().drain(…); }). The handler returns Result<void>; what a refused request brought about goes out with the
  // next event.
  template <class Handler>
  Result<Actions> act(BootTime now, Handler&& handler) {
    Result<void> result;
    Actions actions = run(now, [&] { result = handler(); });
    if (result) return actions;
    context_.actions = std::move(actions);
    return make_error(result.error());
  }
  NodeModule& nodes() { return nodes_; }
  ClientModule& clients() { return clients_; }
  ActorRequests& actor_requests() { return actor_requests_; }
  ExperimentModule& experiments() { return experiments_; }

  // The read model. Its queries change nothing.
  const Lists& lists() const { return lists_; }
  const Lookups& lookups() const { return lookups_; }
  const Explainer& explainer() const { return explainer_; }
  ChangeFeed& change_feed() { return change_feed_; }

  // Aborts where the parts disagree: grants and sums, one incarnation an actor, names, queue, watchers. O(everything).
  void check_invariants() const;

 private:
  // Runs an event to its end.
  template <class Handler>
  Actions run(BootTime now, Handler&& handler) {
    begin(now);
    handler();
    settle();
    return std::exchange(context_.actions, {});
  }
  void begin(BootTime now);
  void settle();
  void restore();
  void dispatch(const ClientRef& client, DriverId driver, const Actor* owner, const protocol::ClientMessage& message);
  void check_actor(const Actor& actor) const;
  void check_group(const Group& group) const;

  Context context_;
  Tables tables_;

  WaitReasons reasons_{context_, tables_};
  Rows rows_{context_, tables_, reasons_};
  Names names_{tables_};
  Lists lists_{tables_, rows_};
  Lookups lookups_{context_, tables_, reasons_, names_};
  Explainer explainer_{context_, tables_, reasons_, names_};
  ChangeFeed change_feed_{context_, tables_, rows_};

  ExperimentModule experiments_{context_, tables_};
  ActorLife actor_life_{context_, tables_, groups_, clients_, reasons_};
  ActorHosts actor_hosts_{context_, tables_, actor_life_};
  HandleModule handles_{context_, tables_, actor_life_};
  NodeModule nodes_{context_, tables_, actor_hosts_, groups_, handles_};
  GroupModule groups_{context_, tables_, actor_life_, nodes_, clients_, reasons_};
  ClientModule clients_{context_, tables_, actor_life_, groups_, handles_, experiments_};
  ActorRequests actor_requests_{context_, tables_, actor_life_, groups_, clients_, names_};
  ActorRestore actor_restore_{context_, tables_, actor_life_, nodes_, groups_, clients_};
  ObjectRebuilds rebuilds_{context_, tables_};

  std::vector<Module*> modules_;
  bool started_ = false;
  uint64_t generation_ = 0;  // How often a head started on this journal.
};

}  // namespace volador::head
