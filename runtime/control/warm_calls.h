// Calls to a head from the forks of one process.
#pragma once

namespace volador::control {

// What each fork would do for its first call: descriptions of messages, tables of OpenSSL. Starts no thread.
void prepare_calls_of_forks();

}  // namespace volador::control
