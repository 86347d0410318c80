// The output of one cluster event: journal rows, messages, streams to close and log lines.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "head/journal/journal.h"
#include "runtime/ids.h"
#include "runtime/language/reason.h"
#include "runtime/log.h"
#include "runtime/protocol/control.pb.h"

namespace volador::head {

// Session numbers of a Control.Worker stream and of a Control.Client stream; the shell assigns them.
enum class NodeSession : uint64_t {};
enum class ClientSession : uint64_t {};

// One log line; the shell writes it with component "head".
struct Event {
  log::Level level = log::Level::kInfo;
  std::string text;
  std::vector<std::pair<std::string, std::string>> fields;
  Reason why;             // The value of the field "cause" or "why".
  std::string_view kind;  // The kind in v1::Event; points to static storage.
};

// A message to a worker.
struct ToNode {
  NodeSession session;
  protocol::HeadToWorker message;
};
// A message to a client.
struct ToClient {
  ClientSession session;
  protocol::HeadMessage message;
};

// An experiment update from a driver, to be stored.
struct ExperimentNews {
  std::string experiment;
  DriverId driver;
  std::string machine_id;
  std::string update;   // ExperimentUpdate.
  bool open = true;     // The experiment has not ended.
  uint64_t number = 0;  // The number of the ExperimentUpdate; 0: no acknowledgement is expected.
};

// Everything that one event produces, for the shell to apply.
struct Actions {
  std::vector<Mutation> journal;  // One batch, applied atomically.
  std::vector<ToNode> to_nodes;
  std::vector<ToClient> to_clients;
  std::vector<NodeSession> close_nodes;  // Fenced or refused; the worker reconnects and registers again.
  std::vector<ClientSession> close_clients;
  std::vector<Event> events;
  std::vector<ExperimentNews> experiments;  // Filled only if Options::keep_experiments is set.

  bool empty() const;
  void append(Actions&& later);
};

// Journal tables that the core reads and writes; other tables belong to other modules. Keys are raw ids unless noted.
inline constexpr std::string_view kActorsTable =
    "actors";  // ActorRecord that holds only the spec; written at creation and at death.
inline constexpr std::string_view kActorStatesTable = "actor_states";  // ActorRecord without spec.
inline constexpr std::string_view kCheckpointsTable = "checkpoints";   // Checkpoint of an actor that is not dead.
inline constexpr std::string_view kGroupsTable = "groups";  // GroupRecord, while the group holds or requests resources.
inline constexpr std::string_view kNodesTable = "nodes";    // NodeRecord.
inline constexpr std::string_view kDriversTable = "drivers";  // DriverRecord.
inline constexpr std::string_view kProgramsTable =
    "programs";  // A driver's Program, kept while one of its actors is not dead.
// See also kExperimentNotesTable in head/experiments/experiment_notes.h.
inline constexpr std::string_view kHeadTable = "head";  // "generation": the number of head starts on this journal.

}  // namespace volador::head
