// Searchers, schedulers, callbacks, stop conditions and functions of the space of a run that are Python code. Callbacks
// are called on a thread of their own, the others on the threads of the run; each call takes the interpreter lock.
// volador.tune._custom has the other side.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "python-bindings/core/held.h"
#include "tune/tune.h"

namespace volador::python {

// The first exception of a run's Python code, which ends the run.
class RunFailure {
 public:
  void note(const nanobind::python_error& raised);  // With the lock.
  std::optional<Error> error() const;               // On any thread.
  // Raises the exception again, with its own traceback; returns if there is none. With the lock.
  void raise();

 private:
  std::atomic<bool> failed_ = false;
  mutable std::mutex mutex_;
  Error error_;
  std::unique_ptr<Held> exception_;
};

// The functions of a volador.tune._custom.Functions, or none if it is None, for tune::space_with_functions(). The first
// exception goes to `failure`.
std::vector<tune::FunctionDomain> functions_of(const nanobind::object& functions,
                                               const std::shared_ptr<RunFailure>& failure);

// Puts the parts of a volador.tune._custom.Custom, which is not None, into the options, apart from its functions.
void take_custom(const nanobind::object& custom, const std::shared_ptr<RunFailure>& failure, tune::RunOptions& options);

}  // namespace volador::python
