// Calls and tasks of a Python program. Their arguments may include futures: such a call is sent once these have ended.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "python-bindings/core/value.h"
#include "runtime/actor/future.h"
#include "runtime/task/task.h"

namespace volador::python {

using ValueFuture = Future<Value>;

// Id of a Python method in call frames.
uint64_t method_id(std::string_view name);

// Calls a method. Calls of this process on one actor run in the order of this function's calls, also where arguments
// are futures: later calls on the actor wait for those of earlier ones. The error of a failed future ends the call.
ValueFuture call(const Handle& actor, std::string_view method, Value arguments, std::vector<ValueFuture> futures,
                 std::chrono::nanoseconds timeout);

// Calls a generator; its items arrive while it runs. Futures among the arguments must have ended.
std::shared_ptr<internal::StreamReader> stream(const Handle& actor, std::string_view method, const Value& arguments,
                                               const std::vector<ValueFuture>& futures,
                                               std::chrono::nanoseconds timeout);

// A task: runs the pickled function `code`.
struct TaskOptions {
  std::string name;
  Resources resources;
  int max_retries = 3;
  bool retry_exceptions = false;  // Also retries when the function raises.
  NodeAffinity place;
  GroupId group;
  int bundle = kAnyBundle;
};
ValueFuture submit(Value code, Value arguments, std::vector<ValueFuture> futures, const TaskOptions& options);

}  // namespace volador::python
