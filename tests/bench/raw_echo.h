// Limit of a call between two processes with a thread hand-off on both sides: a plain Unix socket, and on each side an
// epoll thread and a working thread. The epoll thread splits its input into messages by their length headers and hands
// over those of one read together; the working thread answers each, with one write per hand-over. No checks, no flow
// control.
#pragma once

#include <cstddef>

namespace volador::bench {

// Mean time of a round trip, in microseconds, over `calls` sequential calls.
double raw_echo_sync_us(size_t calls);
// Round trips per second with `outstanding` in flight.
double raw_echo_pipelined_per_s(size_t calls, size_t outstanding);

}  // namespace volador::bench
