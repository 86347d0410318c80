// What a plain request between two CAF actors of one process costs.
#pragma once

#include <cstddef>

namespace volador::bench {

// Microseconds a request, `outstanding` under way, on two threads.
double caf_request_us(size_t requests, size_t outstanding);
// Bytes of an idle CAF actor with a small state.
double caf_actor_bytes(size_t actors);

}  // namespace volador::bench
