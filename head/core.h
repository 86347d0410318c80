// The head's mind: membership, leases, placement, actors and drivers of one cluster. Events in, actions out.
// Pure: `now` comes with the event; no clock, thread or I/O; randomness (ids of hosts) is handed in.
//
// The shell
//   - loads the journal's rows, calls start(), then feeds messages in the order of their streams and on_tick() every 200 ms;
//   - gives every stream a session number that it never uses again;
//   - carries out Actions in the order in which it got them: first `journal` becomes durable, then the messages leave,
//     then the sessions in `close_*` are closed (what was sent before still goes out).
// Every handler may be called twice or late: what repeats a known fact changes nothing.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "head/journal/journal.h"
#include "head/options.h"
#include "runtime/clock.h"
#include "runtime/language/reason.h"
#include "runtime/log.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"

namespace volador {
class Random;
}
namespace volador::v1 {
class KillRequest;
class KillReply;
class ControlExperimentRequest;
class ControlExperimentReply;
class AnnotateExperimentRequest;
class AnnotateExperimentReply;
class StatusReply;
class ListRequest;
class ListNodesReply;
class ListActorsReply;
class ListGroupsReply;
class ListQueueReply;
class ListTrialsReply;
class Changes;
class ExplainReply;
}  // namespace volador::v1

namespace volador::head {

// One Control.Worker stream, one Control.Client stream. Numbers of the shell.
enum class NodeSession : uint64_t {};
enum class ClientSession : uint64_t {};

// One line for the log: the shell writes it with component "head".
struct Event {
  log::Level level = log::Level::kInfo;
  std::string text;
  std::vector<std::pair<std::string, std::string>> fields;
  Reason why;  // What "cause" or "why" of the fields says.
};

struct ToNode {
  NodeSession session;
  protocol::HeadToWorker message;
};
struct ToClient {
  ClientSession session;
  protocol::HeadMessage message;
};

// What a driver says of its experiment, for who keeps it.
struct ExperimentNews {
  std::string experiment;
  DriverId driver;
  std::string machine_id;
  std::string update;  // ExperimentUpdate.
  bool open = true;    // It has not ended.
  uint64_t number = 0;  // As ExperimentUpdate; 0: nobody waits until it is kept.
};

struct Actions {
  std::vector<Mutation> journal;  // One batch: all of it or nothing.
  std::vector<ToNode> to_nodes;
  std::vector<ToClient> to_clients;
  std::vector<NodeSession> close_nodes;      // Fenced or refused: a worker connects anew and registers.
  std::vector<ClientSession> close_clients;
  std::vector<Event> events;
  std::vector<ExperimentNews> experiments;  // Where Options::keep_experiments is set.

  bool empty() const;
  void append(Actions&& later);
};

// Tables of the journal that the core reads and writes; others are left to their owners. Keys are raw ids unless said.
inline constexpr std::string_view kActorsTable = "actors";          // ActorRecord with its spec only; written once, and at death.
inline constexpr std::string_view kActorStatesTable = "actor_states";  // ActorRecord without spec.
inline constexpr std::string_view kCheckpointsTable = "checkpoints";  // Checkpoint of an actor that is not dead.
inline constexpr std::string_view kGroupsTable = "groups";          // GroupRecord, while anything of the group is held or asked for.
inline constexpr std::string_view kNodesTable = "nodes";            // NodeRecord.
inline constexpr std::string_view kDriversTable = "drivers";        // DriverRecord.
inline constexpr std::string_view kProgramsTable = "programs";      // Program of a driver; kept while one of its actors is not dead.
// Besides: kExperimentNotesTable of head/experiment_notes.h.
inline constexpr std::string_view kHeadTable = "head";              // "generation": how often a head started on this journal.

class HeadCore {
 public:
  HeadCore(const Options& options, Random& random);
  ~HeadCore();
  HeadCore(const HeadCore&) = delete;
  HeadCore& operator=(const HeadCore&) = delete;

  // One row of the journal, before start(); rows of other tables are ignored. A row that cannot be read is left out and
  // start() says so: one bad row never keeps a cluster down.
  void load(std::string_view table, std::string_view key, std::string_view value);
  // Once, before any event. Nothing that ran under an earlier head is placed again before Times::reconnect_window has passed,
  // unless its worker reports its end.
  Actions start(BootTime now);
  // Drivers whose stream is open.
  size_t connected_drivers() const;
  // Whether the request is one that was accepted before, and comes again: to make an actor or a placement group that exists.
  bool has_accepted(const protocol::ClientMessage& request) const;
  // Actions::experiments of up to this number are on the disk: the driver is told.
  Actions on_experiment_kept(BootTime now, DriverId driver, const std::string& experiment, uint64_t number);
  // Rows that an earlier head kept, a part of an experiment's at a time, before start() or later. `rank`: from 1, the newest experiment has the
  // greatest; all count as older than what drivers say now. False: a later run has the name, or there are newer ones up to the limit.
  // What it says is told to watchers as any change.
  bool restore_experiment(DriverId driver, const std::string& machine_id, const protocol::ExperimentUpdate& part, uint64_t rank);

  Actions on_node_message(BootTime now, NodeSession session, const protocol::WorkerMessage& message);
  Actions on_node_lost(BootTime now, NodeSession session);  // The stream ended, for whatever reason. Unknown: no effect.
  Actions on_client_message(BootTime now, ClientSession session, const protocol::ClientMessage& message);
  Actions on_client_lost(BootTime now, ClientSession session);
  Actions on_tick(BootTime now);

  // A worker asked for a program of which the head has no copy: NeedProgram goes to a driver that runs it.
  // kNotFound: no connected driver has it; the message says what to do.
  Result<Actions> need_program(BootTime now, std::string_view sha256);
  // The program of this hash, or null: its size is the limit of an upload.
  const protocol::Program* program(std::string_view sha256) const;
  // Whether any driver or actor may still need it: the shell's store may drop the others.
  bool program_in_use(std::string_view sha256) const;

  // Nothing new is placed on the node; what runs there goes on. Survives a restart of the head. By name or id (or its start).
  // kNotFound: names the nodes that exist. `by`, here and below: who asked, for the event; may be empty.
  Result<Actions> drain(BootTime now, std::string_view node, bool undo, std::string_view by = {});

  // Ends an actor, or its present incarnation where it is to start again and may. kNotFound: nothing has this id or name, several do, or
  // the actor has ended; kInvalidArgument: it is a trial, a group or a node; the message names the command for it.
  Result<Actions> kill(BootTime now, const v1::KillRequest& request, v1::KillReply& reply, std::string_view by = {});

  // The request goes to the driver that runs the experiment; `reply` has whole names. kNotFound: no such experiment or
  // trial, it has ended, or several start so; kInvalidArgument: no such act; kUnavailable: its driver is not connected
  // now.
  Result<Actions> control_experiment(BootTime now, const v1::ControlExperimentRequest& request, v1::ControlExperimentReply& reply, std::string_view by = {});
  // Tags, note, archive. Survives a restart of the head. kNotFound: no such experiment; errors of ExperimentNotes::annotate().
  Result<Actions> annotate_experiment(BootTime now, const v1::AnnotateExperimentRequest& request, v1::AnnotateExperimentReply& reply, std::string_view by = {});

  // For people and the API. Sizes are bounded by ListRequest.limit (0: 1000). StatusReply: all but address and uptime_ms.
  v1::StatusReply status(BootTime now) const;
  v1::ListNodesReply list_nodes(BootTime now, const v1::ListRequest& request) const;
  v1::ListActorsReply list_actors(BootTime now, const v1::ListRequest& request) const;  // filter: state, or part of class, name or id.
  v1::ListGroupsReply list_groups(BootTime now, const v1::ListRequest& request) const;  // filter: state, or part of name or id.
  // What waits for a place, in the order in which it is served. filter: kind, experiment, or part of name or id.
  v1::ListQueueReply list_queue(BootTime now, const v1::ListRequest& request) const;
  // filter: an experiment, by its name or the start of it, which stands for the newest run. kNotFound: none, or
  // several; names them.
  Result<v1::ListTrialsReply> list_trials(BootTime now, const v1::ListRequest& request) const;
  // A read copy elsewhere: from watch_changes() on the core notes what changes, and take_changes() gives at most about `rows_max` rows of
  // it, all there is at first. Costs nothing before the first watch_changes(). Heartbeats alone give a node's row once a second.
  void watch_changes();
  bool has_changes(BootTime now) const;
  v1::Changes take_changes(BootTime now, size_t rows_max);
  // Why an actor, trial, placement group or node is as it is, in lines for people. `id`: a name, an id, the start of
  // one, run/trial (the newest run where only the start of its name is given) or namespace/name. A whole name comes
  // before the start of an id. kNotFound: nothing, or several match; the message lists them.
  Result<v1::ExplainReply> explanation(BootTime now, std::string_view id) const;
  Result<std::string> explain(BootTime now, std::string_view id) const;  // Its text.
  // The node that runs or ran an actor or trial, for its logs; a node itself has no actor and no writers. Errors as
  // explain.
  struct LogSource {
    std::string node_name;
    ActorId actor;
    std::string display;
    std::vector<ActorId> writers;  // In whose names its process writes: it alone, or all that share its process.
  };
  Result<LogSource> find_log_source(std::string_view id) const;
  // Where an actor, or the one of a trial, runs now. kUnavailable: it has no process, and why; errors as explain.
  struct RunningActor {
    ActorId actor;
    std::string display;
    std::string node_name;
    NodeSession session;
  };
  Result<RunningActor> find_running(std::string_view id) const;
  // Whether the node of this name may have a certificate for the host: the head placed it there, as the newest incarnation of its
  // actor (a host's id stands for one actor at one epoch). kPermissionDenied otherwise.
  Result<void> may_certify(std::string_view node_name, HostId host) const;
  // The session of a node by its name; kUnavailable while it is not connected.
  Result<NodeSession> node_session(std::string_view name) const;
  // Programs that are connected, with the node on the machine of each; empty: there is none.
  struct Program {
    std::string name;
    int32_t pid = 0;
    std::string node;
  };
  std::vector<Program> connected_programs() const;
  // Its name; empty: no such actor, or the program is not known.
  std::string program_of(ActorId actor) const;
  // Empty: no node of the cluster is on that machine.
  std::string node_on(const std::string& machine_id) const;
  // Where the files of an experiment lie and who, of those that are connected, can read them there: nodes of its program's machine, then
  // the program itself. kNotFound: no such experiment, or it keeps no files; kInfeasible: nobody; says where they lie.
  struct RunFilesPlace {
    std::string directory;
    struct Reader {
      std::variant<NodeSession, ClientSession> session;
      std::string who;  // "node heron", "the program".
    };
    std::vector<Reader> readers;
  };
  Result<RunFilesPlace> find_run_files(std::string_view experiment) const;

  // Aborts where the parts disagree: grants and sums, one incarnation an actor, names, queue, watchers. O(everything).
  void check_invariants() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::head
