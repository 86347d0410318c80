// A host: the process that runs one actor. Started from a template (or as a start of the program) with a control socket to its
// worker and the node's lease page; serves calls on a Unix socket and on connections that the worker passes on.
#pragma once

#include <google/protobuf/map.h>

#include <string>

#include "runtime/net/unique_fd.h"

namespace volador {

// In a process that hosts are forked from, before the first fork: what is the same in all of them and takes no thread. run_host does
// without it.
void prepare_for_hosts();

// Takes over the process and never returns. It ends when the worker says so, at end-of-file of the control socket (the worker is
// gone), or when the constructor throws. Exit codes: 0 told to end · 70 the worker is gone · 71 the constructor threw ·
// 72 the control socket brought nonsense.
// `ahead`: nobody has asked for the actor yet; what needs none of it is done before HostStart is waited for.
[[noreturn]] void run_host(net::UniqueFd control, net::UniqueFd lease_page, bool ahead = false);

// As asked of a host. A directory that cannot be entered is said on stderr. Not while other threads of this process read
// the environment.
void enter_host_environment(const google::protobuf::Map<std::string, std::string>& env, const std::string& cwd);

}  // namespace volador
