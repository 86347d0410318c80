// Stacks, timelines and lists of actor processes, read from their nodes.
#pragma once

#include <functional>

#include "runtime/result.h"

namespace volador::v1 {
class NodeProcesses;
class StackReply;
class TimelineReply;
class TimelineRequest;
}  // namespace volador::v1

namespace volador::head {

class CoreRunner;

// Reads the stacks of an actor's process, which `by` must be allowed to see (ActorGuard). `done` runs once on the runner's loop, unless the head stops. kNotFound: no
// such actor; kUnavailable: it has no process, or its node is not connected; kTimeout: the process or its node did not
// reply.
void read_stack(CoreRunner& runner, std::string id, const security::Principal& by,
                std::function<void(Result<v1::StackReply>)> done);
// Reads the timeline of the whole cluster, without processes that `by` may not see, or of one actor. The reply names nodes that did not respond. For one actor,
// errors as above.
void read_timeline(CoreRunner& runner, v1::TimelineRequest request, const security::Principal& by,
                   std::function<void(Result<v1::TimelineReply>)> done);

// Lists the cluster's processes on one node, or on all (empty); for all, the reply names nodes that did not respond.
// For one node, kNotFound: no such node; kUnavailable: it is not connected; kTimeout: it did not reply.
void read_processes(CoreRunner& runner, std::string node, std::function<void(Result<v1::NodeProcesses>)> done);

}  // namespace volador::head
