// The end of a process in words and as protocol data. Pure.
#pragma once

#include <string>

#include "runtime/protocol/control.pb.h"

namespace volador::worker {

// How a host's process ended, as the node saw it.
struct HostExit {
  int exit_code = 0;
  int signal = 0;                // 0: it exited.
  bool out_of_memory = false;    // The kernel's memory killer was seen at work.
  std::string stderr_tail = {};  // Last lines, at most 4 KiB.
  size_t shared_by = 0;          // Actors that it held, where it was a shared host.
};

// EXITED, SIGNALED or OUT_OF_MEMORY, for an end that nobody here asked for. The message is what kind, code and signal
// do not say by themselves; often nothing.
[[nodiscard]] protocol::DeathCause cause_of_exit(const HostExit& exit);

}  // namespace volador::worker
