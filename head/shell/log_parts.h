// Parts of the whole log of an actor or of a node's worker: asked of the node, where the files lie.
#pragma once

#include <functional>

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

}  // namespace volador::head
