// What runs in the processes of actors and tasks: Python classes and functions as actor classes of the runtime.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "python-bindings/core/value.h"
#include "runtime/actor/actor_class.h"

namespace volador::python {

// Constructor of every Python class: (class, arguments).
inline constexpr uint64_t kConstructor = 0x5079436c61737301;

// Lets this process run actors of Python classes. Call before the first actor.
void install_classes();

// Takes over what the runtime set in this process, its devices among them, behind the interpreter's back. Before Python
// code of a host, with the interpreter lock.
void prepare_process();

// Raised by a task that may be retried after an exception. what(): the exception's type, text and traceback.
class RaisedByTask : public std::exception {
 public:
  explicit RaisedByTask(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

// Function of every Python task. `awaited`: the values of the futures among the arguments.
Value run_task(const Value& code, const Value& arguments, const std::vector<Value>& awaited);

}  // namespace volador::python
