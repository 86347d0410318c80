// What a host says of its own threads to who asks through the worker. Include from .cc files only: it brings protobuf.
#pragma once

#include "runtime/clock.h"
#include "runtime/protocol/control.pb.h"

namespace volador {

// Some milliseconds, up to some seconds where threads do not answer. Several at once: the later ones are refused.
[[nodiscard]] protocol::Stacks read_stacks(const protocol::ReadStacks& asked, const Clock& clock);
[[nodiscard]] protocol::Timeline read_timeline(const protocol::ReadTimeline& asked, const Clock& clock);

}  // namespace volador
