// Parts of the whole log of an actor or of a node's worker: asked of the node, where the files lie.
#pragma once

#include <functional>

#include "head/kernel/core.h"
#include "runtime/result.h"

namespace volador::v1 {
class ReadLogReply;
class ReadLogRequest;
}  // namespace volador::v1

namespace volador::head {

class CoreRunner;

// `done` runs on the runner's loop, once, unless the head stops. kInvalidArgument: what was asked for cannot be; kNotFound: no such
// actor, trial or node, or it has no log; kUnavailable: its node is not connected or did not answer.
void read_log(CoreRunner& runner, v1::ReadLogRequest request, std::function<void(Result<v1::ReadLogReply>)> done);

// The same of an actor that was found; the request's id and node are not looked at.
void read_log_of(CoreRunner& runner, const LogSource& source, v1::ReadLogRequest request,
                 std::function<void(Result<v1::ReadLogReply>)> done);
// The source of an actor or trial; kNotFound of a node, whose log is asked for by its name.
[[nodiscard]] Result<LogSource> actor_log_source(const HeadCore& core, std::string_view id);

}  // namespace volador::head
