// Answers of a host to requests about its own threads. Include from .cc files only: it brings protobuf.
#pragma once

#include "runtime/clock.h"
#include "runtime/protocol/control.pb.h"

namespace volador {

// Takes some milliseconds, up to seconds if threads do not answer. Concurrent requests are rejected.
[[nodiscard]] protocol::Stacks read_stacks(const protocol::ReadStacks& asked, const Clock& clock);
[[nodiscard]] protocol::Timeline read_timeline(const protocol::ReadTimeline& asked, const Clock& clock);

}  // namespace volador
