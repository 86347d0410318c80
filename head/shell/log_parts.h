// Reads parts of the complete log of an actor or of a node's worker from the node with the files.
#pragma once

#include <functional>

#include "head/kernel/core.h"
#include "runtime/result.h"
#include "runtime/security/principal.h"

namespace volador::protocol {
class LogTails;
class ReadLogs;
}  // namespace volador::protocol

namespace volador::v1 {
class ReadLogReply;
class ReadLogRequest;
}  // namespace volador::v1

namespace volador::head {

class CoreRunner;

// `done` runs once on the runner's loop, unless the head stops. kInvalidArgument: invalid request; kNotFound: no such
// actor, trial or node that `by` may see (ActorGuard), or it has no log; kUnavailable: its node is not connected or did
// not reply.
void read_log(CoreRunner& runner, v1::ReadLogRequest request, const security::Principal& by,
              std::function<void(Result<v1::ReadLogReply>)> done);

// Same for a known actor; ignores the id and node of the request.
void read_log_of(CoreRunner& runner, const LogSource& source, v1::ReadLogRequest request,
                 std::function<void(Result<v1::ReadLogReply>)> done);
// The source of an actor or trial; kNotFound for a node, whose log is requested by its name.
[[nodiscard]] Result<LogSource> actor_log_source(const HeadCore& core, std::string_view id,
                                                 const security::Principal& by);
// As CoreRunner::read_logs(), without the files of actors that `by` may not see.
void read_shown_logs(CoreRunner& runner, NodeSession session, protocol::ReadLogs request, const security::Principal& by,
                     std::function<void(Result<protocol::LogTails>)> done);

}  // namespace volador::head
