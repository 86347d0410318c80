// Describes the end of a process as protocol data. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/protocol/control.pb.h"

namespace volador::worker {

// How a host's process ended, as seen by the node.
struct HostExit {
  int exit_code = 0;
  int signal = 0;                  // 0: it exited.
  bool out_of_memory = false;      // The kernel's OOM killer was active.
  int64_t memory_limit_bytes = 0;  // Its own limit made the kernel do so; 0: the node's memory did.
  std::string stderr_tail = {};    // Last lines, at most 4 KiB.
  size_t shared_by = 0;            // Number of its actors, for a shared host.
};

// Returns EXITED, SIGNALED or OUT_OF_MEMORY, for an end that was not requested. The message adds what kind, code and
// signal do not show; often empty.
[[nodiscard]] protocol::DeathCause cause_of_exit(const HostExit& exit);

}  // namespace volador::worker
