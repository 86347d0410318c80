// System calls that an isolated job may not make: those that change the machine, reach keys of the user outside, or open
// parts of the kernel that training does not need. They fail with EPERM.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <string>

namespace volador::jobs {

// A program for bwrap's --seccomp: an array of struct sock_filter. Empty: there is none for this processor.
std::string system_call_filter();

}  // namespace volador::jobs
