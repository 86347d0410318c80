// The template: a user's program, started once a worker and held inside init() before any thread exists. Hosts are forks of it.
#pragma once

#include "runtime/net/unique_fd.h"

namespace volador {

// Serves fork requests (host.proto) until the worker closes its end; never returns, except as a host, which does not return either.
[[noreturn]] void run_template(net::UniqueFd control);

// Tasks in /proc/self/task; above 1 the process cannot be forked.
int count_threads();

}  // namespace volador
