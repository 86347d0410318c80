// What processes of actors do now, and did lately: asked of their nodes, since only they know.
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

// Of the process in which an actor runs. `done` runs on the runner's loop, once, unless the head stops. kNotFound: no
// such actor; kUnavailable: it has no process, or its node is not connected; kTimeout: the process or its node did not
// answer.
void read_stack(CoreRunner& runner, std::string id, std::function<void(Result<v1::StackReply>)> done);
// Of the whole cluster, or of one actor. A node that does not answer is named in the reply. Errors, of one actor, as
// above.
void read_timeline(CoreRunner& runner, v1::TimelineRequest request,
                   std::function<void(Result<v1::TimelineReply>)> done);

// The processes of the cluster on a node, or on all (empty), where nodes that do not answer are named in the reply. One node: kNotFound: no
// such node; kUnavailable: it is not connected; kTimeout: it did not answer.
void read_processes(CoreRunner& runner, std::string node, std::function<void(Result<v1::NodeProcesses>)> done);

}  // namespace volador::head
