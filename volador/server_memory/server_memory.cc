// Memory settings of heads and workers, which run for months: returns unused memory to the system.
#include "runtime/security/openssl_memory.h"

// jemalloc options: two shared arenas, and freed memory returns to the system after a quarter of a second.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "narenas:2,dirty_decay_ms:250,muzzy_decay_ms:0";
}

namespace {

// Runs before the static initialisation of Boost objects that use OpenSSL.
[[gnu::constructor(200)]] void keep_connections_small() { volador::security::keep_idle_buffers_small(); }

}  // namespace
