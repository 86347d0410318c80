// Retry of tasks whose arguments were lost, and reconstruction of lost task results.
//
// For a task with live results, its request and the origins of its argument references are kept, but not the arguments'
// objects. At most kRebuildDepthMax chained tasks are run again for one object.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/store/object_store.h"
#include "runtime/task/task_pool.h"

namespace volador::internal {

inline constexpr int kRebuildDepthMax = 10;
inline constexpr size_t kRebuildArgumentsMax = size_t{1} << 20;  // Larger tasks do not reconstruct results.

// Operations to run a task and to accept its results. Copied; thread safe.
struct TaskWays {
  // `done` runs once, on a thread that it must not block.
  std::function<void(TaskRequest request, std::function<void(Result<std::string>)> done)> submit;
  std::string owner = {};  // Session::name_as_owner() of the submitter.
  // Accepts the references in a reply: returns their holder and adds the referenced objects in order.
  std::shared_ptr<const void> (*claim)(const Result<std::string>& answer,
                                       std::vector<std::shared_ptr<const StoredObject>>* objects) = nullptr;
};

using TaskDone = std::function<void(Result<std::string> result, std::shared_ptr<const void> references)>;

// Submits a task with the objects `arguments` (without duplicates) among its arguments. If one of them is lost and can
// be reconstructed, runs the task again within its max_retries. Its results get the task as their origin.
void run_with_origin(TaskWays ways, TaskRequest request, std::vector<std::shared_ptr<const StoredObject>> arguments,
                     TaskDone done, int depth = 0);

}  // namespace volador::internal
