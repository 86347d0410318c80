// The operations of volador.v1.Jobs that run commands in the surroundings of a rank: from the head to the rank's actor.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "head/audit/audit_module.h"
#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"
#include "runtime/security/principal.h"
#include "volador/roles/rank_calls.h"

namespace volador::operations {
class Registry;
}

namespace volador {

// Confined to the thread of the jobs, except where it says otherwise.
class JobCommands {
 public:
  using Principal = security::Principal;
  struct Parts {
    // Runs the function on the thread of the jobs; any thread. False: there are too many, or the jobs stop.
    std::function<bool(std::function<void()> function)> post;
    // The actor of a rank in which the principal may run commands.
    std::function<Result<ActorId>(const std::string& job, int rank, const Principal& by)> rank;
    // The actor of this id or name, in whose debugger the principal may work; `done` runs once, on any thread.
    std::function<void(const std::string& actor, const Principal& by, std::function<void(Result<ActorId>)> done)> actor;
    std::function<Result<RankCalls*>()> calls;
    // Adds an entry to the audit log; any thread.
    std::function<void(const head::AuditRequest& asked, const Result<void>& outcome)> record;
  };

  explicit JobCommands(Parts parts) : parts_(std::move(parts)) {}

  // Registers StartCommand, ReadCommand and WriteCommand; any thread.
  void serve_on(operations::Registry& registry);

 private:
  // Finds the actor of a rank, or of a debugger (runtime/debugging.h); `done` runs on the thread of the jobs.
  void find_actor(const std::string& job, int rank, const Principal& by, std::function<void(Result<ActorId>)> done);
  template <class Request, class Reply, class Handle>
  void serve(operations::Registry& registry, const char* name, Handle handle);

  // `done`, which also adds the request to the audit log: a command always, connections to a port by one token once.
  std::function<void(Result<v1::StartCommandReply>)> recorded(const Principal& by,
                                                              const v1::StartCommandRequest& request,
                                                              std::function<void(Result<v1::StartCommandReply>)> done);

  const Parts parts_;
  std::set<std::string> forwarded_;  // Recorded connections: token, job, rank and port.
};

}  // namespace volador
