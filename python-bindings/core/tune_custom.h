// Searchers, schedulers and callbacks of a run that are Python code. Searcher and scheduler are called on the thread of
// the run, callbacks on a thread of their own; each call takes the interpreter lock. volador.tune._custom has the other
// side.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

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

// Puts the parts of a volador.tune._custom.Custom into the options. Null: `custom` is None.
std::shared_ptr<RunFailure> take_custom(const nanobind::object& custom, tune::RunOptions& options);

}  // namespace volador::python
