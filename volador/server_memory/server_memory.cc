// Memory of a head or worker, which runs for months: it is small where little is kept, whatever it took once.
#include "runtime/security/openssl_memory.h"

// Of jemalloc: threads share two arenas, and what is free for a quarter of a second goes back to the system.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "narenas:2,dirty_decay_ms:250,muzzy_decay_ms:0";
}

namespace {

// Before objects of Boost's that use OpenSSL, which are made before main().
[[gnu::constructor(200)]] void keep_connections_small() { volador::security::keep_idle_buffers_small(); }

}  // namespace
