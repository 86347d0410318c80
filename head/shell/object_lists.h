// Which objects lie in the nodes' stores: asked of every node, since only they know.
#pragma once

#include <functional>
#include <memory>

#include "runtime/result.h"

namespace volador::v1 {
class ListObjectsReply;
}

namespace volador::head {

class CoreRunner;

// The largest `limit` of all nodes into *reply, then `done` on the runner's loop; both must last until then. A node that does not answer
// is listed with its reason.
void list_objects(CoreRunner& runner, int limit, v1::ListObjectsReply* reply, std::function<void(const Result<void>&)> done);

}  // namespace volador::head
