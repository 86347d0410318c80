// The limit of a call between two processes with a hand-off on both sides: a plain Unix socket, on each side a thread that waits in
// epoll and a thread that works. The waiting thread cuts what it read into messages by their length headers and hands them over,
// those of one read together; the working thread answers each, those of one hand-over in one write. No checks, no flow control.
#pragma once

#include <cstddef>

namespace volador::bench {

// Mean time of one round trip, in microseconds, over `calls` calls made one after another.
double raw_echo_sync_us(size_t calls);
// Round trips a second with `outstanding` of them under way.
double raw_echo_pipelined_per_s(size_t calls, size_t outstanding);

}  // namespace volador::bench
