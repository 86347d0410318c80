// Lists the objects in the nodes' stores by querying every node.
#pragma once

#include <functional>
#include <memory>

#include "runtime/result.h"

namespace volador::v1 {
class ListObjectsReply;
}

namespace volador::head {

class CoreRunner;

// Stores the largest `limit` objects of all nodes in *reply, then calls `done` on the runner's loop; both must live
// until then. A node without a reply is listed with its reason.
void list_objects(CoreRunner& runner, int limit, v1::ListObjectsReply* reply,
                  std::function<void(const Result<void>&)> done);

}  // namespace volador::head
