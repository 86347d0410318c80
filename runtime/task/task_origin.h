// Tasks that take or bring references: run again where an object among their arguments is lost, and able to make their own again.
//
// What is kept of a task whose results are referred to: its request, and of each reference among its arguments what made that one. The
// arguments' objects themselves are not kept. At most kRebuildDepthMax tasks, one behind the other, are run again for one object.
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
inline constexpr size_t kRebuildArgumentsMax = size_t{1} << 20;  // Bytes; a task with more is not run again for its results.

// How a task is run and what its answer brings. Copied; thread safe.
struct TaskWays {
  // `done` once, on a thread that it must not block.
  std::function<void(TaskRequest request, std::function<void(Result<std::string>)> done)> submit;
  std::string owner = {};  // Session::name_as_owner() of who submits.
  // Claims the references in an answer: what keeps them, and what they refer to, in their order.
  std::shared_ptr<const void> (*claim)(const Result<std::string>& answer, std::vector<std::shared_ptr<const StoredObject>>* objects) = nullptr;
};

using TaskDone = std::function<void(Result<std::string> result, std::shared_ptr<const void> references)>;

// Submits a task among whose arguments are `arguments` (each once), and runs it again, as its max_retries allow, where one of them is lost
// and can be made again. Its results get it as their origin.
void run_with_origin(TaskWays ways, TaskRequest request, std::vector<std::shared_ptr<const StoredObject>> arguments, TaskDone done, int depth = 0);

}  // namespace volador::internal
