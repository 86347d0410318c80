// The operations of volador.v1.Jobs that run commands in the surroundings of a rank: from the head to the rank's actor.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
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
    std::function<Result<RankCalls*>()> calls;
  };

  explicit JobCommands(Parts parts) : parts_(std::move(parts)) {}

  // Registers StartCommand, ReadCommand and WriteCommand; any thread.
  void serve_on(operations::Registry& registry);

 private:
  template <class Request, class Reply, class Handle>
  void serve(operations::Registry& registry, const char* name, Handle handle);

  const Parts parts_;
};

}  // namespace volador
