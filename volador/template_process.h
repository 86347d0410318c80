// The template: a user's program, started once per worker and stopped inside init() before any thread exists. Hosts are
// forked from it.
#pragma once

#include "runtime/net/unique_fd.h"

namespace volador {

struct Embedding;

// Serves fork requests (host.proto) until the worker closes its end. Never returns, neither in the template nor in a
// host. `embedding`: null unless the executable is an interpreter.
[[noreturn]] void run_template(net::UniqueFd control, const Embedding* embedding);

// Number of threads, from /proc/self/task; a process with more than one cannot be forked.
int count_threads();

}  // namespace volador
