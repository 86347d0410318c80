// Finds where things are: the node of an actor's logs, its process, an experiment's files, the program behind an actor.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "head/kernel/context.h"
#include "head/kernel/tables.h"
#include "head/read_model/names.h"
#include "head/read_model/wait_reasons.h"
#include "runtime/result.h"

namespace volador::head {

// The node that runs or ran an actor or trial, for its logs; a node itself has no actor and no writers.
struct LogSource {
  std::string node_name;
  ActorId actor;
  std::string display;
  std::vector<ActorId> writers;  // In whose names its process writes: it alone, or all that share its process.
};

// Where an actor, or the one of a trial, runs now.
struct RunningActor {
  ActorId actor;
  std::string display;
  std::string node_name;
  NodeSession session;
};

// A program that is connected, with the node on its machine; empty: there is none.
struct ConnectedProgram {
  std::string name;
  int32_t pid = 0;
  std::string node;
};

// Where the files of an experiment lie and who, of those that are connected, can read them there: nodes of its
// program's machine, then the program itself.
struct RunFilesPlace {
  std::string directory;
  struct Reader {
    std::variant<NodeSession, ClientSession> session;
    std::string who;  // "node heron", "the program".
  };
  std::vector<Reader> readers;
};

class Lookups {
 public:
  Lookups(const Context& context, const Tables& tables, const WaitReasons& reasons, const Names& names)
      : context_(context), tables_(tables), reasons_(reasons), names_(names) {}

  // Errors as Names::resolve(). kNotFound besides: it has not run anywhere.
  Result<LogSource> find_log_source(std::string_view id) const;
  // kUnavailable: it has no process, and why; errors as Names::resolve().
  Result<RunningActor> find_running(std::string_view id) const;
  // kNotFound: no such experiment, or it keeps no files; kInfeasible: nobody; says where they lie.
  Result<RunFilesPlace> find_run_files(std::string_view experiment) const;
  // Whether the node of this name may have a certificate for the host: the head placed it there, as the newest
  // incarnation of its actor (a host's id stands for one actor at one epoch). kPermissionDenied otherwise.
  Result<void> may_certify(std::string_view node_name, HostId host) const;
  // The session of a node by its name; kUnavailable while it is not connected.
  Result<NodeSession> node_session(std::string_view name) const;
  // The node on the machine; empty: none.
  std::string node_on(const std::string& machine_id) const { return tables_.nodes.node_on(machine_id); }
  std::vector<ConnectedProgram> connected_programs() const;
  // The name of the program behind an actor; empty: no such actor, or the program is not known.
  std::string program_of(ActorId actor) const;

 private:
  const Context& context_;
  const Tables& tables_;
  const WaitReasons& reasons_;
  const Names& names_;
};

}  // namespace volador::head
