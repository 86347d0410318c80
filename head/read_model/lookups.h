// Locates things: the node of an actor's logs, its process, an experiment's files, an actor's program.
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
#include "runtime/security/principal.h"

namespace volador::head {

// The node that runs or ran an actor or trial, for its logs; for a node, actor and writers are empty.
struct LogSource {
  std::string node_name;
  ActorId actor;
  std::string display;
  // Actors under whose names its process writes: itself, or all actors of its shared process.
  std::vector<ActorId> writers;
};

// The current location of an actor, or of a trial's actor.
struct RunningActor {
  ActorId actor;
  std::string display;
  std::string node_name;
  NodeSession session;
};

// A connected program, and the node on its machine; empty: none.
struct ConnectedProgram {
  std::string name;
  int32_t pid = 0;
  std::string node;
};

// The location of an experiment's files and the connected readers, in order: nodes on its program's machine, then the
// program itself.
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

  // Errors as for Names::resolve(), also for an actor that the guard hides from `by`; kNotFound: it has never run. The
  // default of `by` here and below is a caller to whom the guard shows nothing.
  Result<LogSource> find_log_source(std::string_view id, const security::Principal& by = {}) const;
  // kUnavailable: it has no process; the message says why. Other errors as for Names::resolve(), also for an actor that
  // the guard hides from `by`.
  Result<RunningActor> find_running(std::string_view id, const security::Principal& by = {}) const;
  // Whether `by` may look into the actor: see ActorGuard. An actor that neither head nor guard knows is shown.
  bool shows(ActorId actor, const security::Principal& by) const;
  // The same for all actors whose ids start with these digits, as log files are named: files of actors that the head has
  // forgotten are shown to operators only, if there is a guard.
  bool shows_files_of(std::string_view short_id, const security::Principal& by) const;
  // kNotFound as for a name of nothing: the guard hides the named actor, or the trial's actor, from `by`.
  Result<void> check_shown(std::string_view id, const security::Principal& by) const;
  // kNotFound: no such experiment, or it has no files; kInfeasible: no reader is connected; the message says where the
  // files are.
  Result<RunFilesPlace> find_run_files(std::string_view experiment) const;
  // Checks whether the named node may get a certificate for the host: the head placed it there as the newest
  // incarnation of its actor (a host id stands for one actor at one epoch). kPermissionDenied otherwise.
  Result<void> may_certify(std::string_view node_name, HostId host) const;
  // The session of the named node; kUnavailable while it is disconnected.
  Result<NodeSession> node_session(std::string_view name) const;
  // The node on the machine; empty: none.
  std::string node_on(const std::string& machine_id) const { return tables_.nodes.node_on(machine_id); }
  std::vector<ConnectedProgram> connected_programs() const;
  // The name of an actor's program; empty: no such actor, or unknown program.
  std::string program_of(ActorId actor) const;

 private:
  const Context& context_;
  const Tables& tables_;
  const WaitReasons& reasons_;
  const Names& names_;
};

}  // namespace volador::head
