// A host: the process that runs one actor or several. Forked from a template (or started as the program) with a control
// socket to its worker and the node's lease page; serves calls on a Unix socket and on connections that the worker
// passes on.
#pragma once

#include <google/protobuf/map.h>

#include <string>

#include "runtime/net/unique_fd.h"

namespace volador {

// Prepares a template before its first fork: state that all hosts share and that needs no thread. Optional for
// run_host.
void prepare_for_hosts();

// Takes over the process and never returns. It ends on request of the worker, at end-of-file of the control socket (the
// worker is gone), or when the constructor throws. Exit codes: 0 requested · 70 the worker is gone · 71 the constructor
// threw · 72 invalid message on the control socket. `ahead`: prestarted; work that needs no actor is done before
// waiting for HostStart.
[[noreturn]] void run_host(net::UniqueFd control, net::UniqueFd lease_page, bool ahead = false);

// Applies environment and directory of a host. A directory that cannot be entered is reported on stderr. Not while
// other threads of this process read the environment.
void enter_host_environment(const google::protobuf::Map<std::string, std::string>& env, const std::string& cwd);

}  // namespace volador
