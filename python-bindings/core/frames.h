// Python frames of this process's threads, for `volador stack`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/stacks/program_frames.h"

namespace volador::python {

// Lets this process answer with Python frames. Call before there are threads.
void install_frames();

// The text that faulthandler writes: lines of the form `Thread 0x7f3a (most recent call first):`, each followed by those
// of its frames, of the form `  File "train.py", line 7 in epoch`. Other lines are left out.
std::map<uintptr_t, std::vector<std::string>> frames_of_dump(std::string_view text);

}  // namespace volador::python
