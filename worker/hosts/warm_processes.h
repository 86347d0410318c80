// Warm processes of a node: Pythons that have imported what the trials of an experiment import, and fork one for each run
// (volador/compat/determined/_warm.py). Jobs start them, and they outlive these jobs, but not the worker.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace volador::worker {

inline constexpr const char* kWarmFolder = "warm";  // In the node's folder of sockets.

// Whether a file <key>.pid in the folder names this process. Reads small files.
[[nodiscard]] bool is_warm_process(const std::filesystem::path& folder, pid_t pid);

}  // namespace volador::worker
