// Cluster state machine: membership, leases, placement, actors and drivers of one cluster. Events in, actions out.
// Pure: `now` is part of each event; no clock, thread or I/O. Host ids come from the injected Random.
//
// The shell
// - loads the journal rows, calls start(), then delivers messages in stream order and calls on_tick() every 200 ms;
// - gives every stream a session number that is never reused;
// - applies Actions in order: first `journal` becomes durable, then the messages are sent, then the sessions in
// `close_*`
// are closed (messages sent before still arrive).
// Handlers are idempotent: repeated and late events have no effect.
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
#include "head/read_model/rows.h"
#include "head/read_model/wait_reasons.h"
#include "runtime/security/principal.h"

namespace volador::head {

// Dispatches events to the modules that own the tables (head/nodes, actors, groups, clients, experiments), then settles
// the changes: placement, journal rows, messages to watchers.
class HeadCore {
 public:
  HeadCore(const Options& options, Random& random);
  HeadCore(const HeadCore&) = delete;
  HeadCore& operator=(const HeadCore&) = delete;

  // Registers an extra module; call it before load(). The module must outlive the core and uses context() and tables().
  void add_module(Module& module) { modules_.push_back(&module); }
  Context& context() { return context_; }
  const Tables& tables() const { return tables_; }

  // Loads one journal row; call it before start(). Rows of unknown tables are ignored. An unreadable row is skipped and
  // start() logs it, so that one bad row cannot keep a cluster down.
  void load(std::string_view table, std::string_view key, std::string_view value);
  // Call once, before any event. Actors that ran under an earlier head are not placed again before
  // Times::reconnect_window has passed, unless their worker reports their end.
  Actions start(BootTime now);
  // Number of drivers with an open stream.
  size_t connected_drivers() const;
  // Whether the request repeats an accepted one that creates an existing actor or placement group.
  bool has_accepted(const protocol::ClientMessage& request) const;
  // Acknowledges to the driver that Actions::experiments up to this number are on disk.
  Actions on_experiment_kept(BootTime now, DriverId driver, const std::string& experiment, uint64_t number);
  // Restores rows stored by an earlier head, one part of an experiment at a time; may be called before or after
  // start(). `rank` starts at 1 and is greatest for the newest experiment; all ranks count as older than current driver
  // updates. Returns false if a later run has the same name or newer experiments fill the limit. Watchers see a normal
  // change.
  bool restore_experiment(DriverId driver, const std::string& machine_id, const protocol::ExperimentUpdate& part,
                          uint64_t rank);

  Actions on_node_message(BootTime now, NodeSession session, const protocol::WorkerMessage& message);
  Actions on_node_lost(BootTime now,
                       NodeSession session);  // The stream ended for any reason. Unknown sessions are ignored.
  // `by`: the principal of the session's stream, which owns what its driver creates.
  Actions on_client_message(BootTime now, ClientSession session, const protocol::ClientMessage& message,
                            const security::Principal& by = {});
  Actions on_client_lost(BootTime now, ClientSession session);
  Actions on_tick(BootTime now);

  // The program with this hash, or null. Its size limits the upload.
  const protocol::Program* program(std::string_view sha256) const;
  // Whether a driver or actor may still need the program; the shell's store may delete it otherwise.
  bool program_in_use(std::string_view sha256) const { return program(sha256) != nullptr; }

  // Runs a request that changes the cluster through one of the modules below: core.act(now, [&] { return
  // core.nodes().drain(…); }). The handler returns Result<void>. Actions of a refused request are emitted with the next
  // event.
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

  // The read model; queries have no side effects.
  const Lists& lists() const { return lists_; }
  const Lookups& lookups() const { return lookups_; }
  const Explainer& explainer() const { return explainer_; }
  ChangeFeed& change_feed() { return change_feed_; }

  // Aborts if the tables are inconsistent: grants and sums, one incarnation per actor, names, queue, watchers.
  // O(everything).
  void check_invariants() const;

 private:
  // Runs one event to completion.
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
  uint64_t generation_ = 0;  // Number of head starts on this journal.
};

}  // namespace volador::head
