// What an event of the cluster brings about: rows of the journal, messages, streams to close, lines of the log.
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

// One Control.Worker stream, one Control.Client stream. Numbers of the shell.
enum class NodeSession : uint64_t {};
enum class ClientSession : uint64_t {};

// One line for the log: the shell writes it with component "head".
struct Event {
  log::Level level = log::Level::kInfo;
  std::string text;
  std::vector<std::pair<std::string, std::string>> fields;
  Reason why;  // What "cause" or "why" of the fields says.
  std::string_view kind;  // As of v1::Event; lives as long as the program.
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
  std::string update;   // ExperimentUpdate.
  bool open = true;     // It has not ended.
  uint64_t number = 0;  // As ExperimentUpdate; 0: nobody waits until it is kept.
};

struct Actions {
  std::vector<Mutation> journal;  // One batch: all of it or nothing.
  std::vector<ToNode> to_nodes;
  std::vector<ToClient> to_clients;
  std::vector<NodeSession> close_nodes;  // Fenced or refused: a worker connects anew and registers.
  std::vector<ClientSession> close_clients;
  std::vector<Event> events;
  std::vector<ExperimentNews> experiments;  // Where Options::keep_experiments is set.

  bool empty() const;
  void append(Actions&& later);
};

// Tables of the journal that the core reads and writes; others are left to their owners. Keys are raw ids unless said.
inline constexpr std::string_view kActorsTable =
    "actors";  // ActorRecord with its spec only; written once, and at death.
inline constexpr std::string_view kActorStatesTable = "actor_states";  // ActorRecord without spec.
inline constexpr std::string_view kCheckpointsTable = "checkpoints";   // Checkpoint of an actor that is not dead.
inline constexpr std::string_view kGroupsTable =
    "groups";  // GroupRecord, while anything of the group is held or asked for.
inline constexpr std::string_view kNodesTable = "nodes";      // NodeRecord.
inline constexpr std::string_view kDriversTable = "drivers";  // DriverRecord.
inline constexpr std::string_view kProgramsTable =
    "programs";  // Program of a driver; kept while one of its actors is not dead.
// Besides: kExperimentNotesTable of head/experiments/experiment_notes.h.
inline constexpr std::string_view kHeadTable = "head";  // "generation": how often a head started on this journal.

}  // namespace volador::head
