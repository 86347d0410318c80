// Cost of a plain request between two CAF actors in one process.
#pragma once

#include <cstddef>

namespace volador::bench {

// Microseconds per request with `outstanding` in flight, on two threads.
double caf_request_us(size_t requests, size_t outstanding);
// Bytes of an idle CAF actor with a small state.
double caf_actor_bytes(size_t actors);

}  // namespace volador::bench
