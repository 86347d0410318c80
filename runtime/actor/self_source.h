// The actor that runs on this thread, in a process with several actors.
#pragma once

#include "runtime/actor/self.h"

namespace volador::internal {

// Provides Self for the actor on this thread.
class SelfSource {
 public:
  virtual ~SelfSource() = default;
  virtual const Self& self() const = 0;
};

inline thread_local const SelfSource* current_self = nullptr;  // Null: none, or the only actor of the process.

}  // namespace volador::internal
