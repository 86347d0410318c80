// Health problems of nodes and GPUs: the codes of HealthProblem (runtime/protocol/control.proto). A worker finds them
// (worker/resources/health_rules.h), and health_reason (runtime/language/health_reason.h) has their sentences.
#pragma once

#include <string_view>

namespace volador::health {

// Problems of a GPU. `detail` as described; the others have none.
inline constexpr std::string_view kGpuLost = "gpu_lost";           // Error text of the driver.
inline constexpr std::string_view kGpuSilent = "gpu_silent";       // Time since the driver was asked: "30 s".
inline constexpr std::string_view kGpuMemory = "gpu_memory";       // Number of memory errors that were not corrected.
inline constexpr std::string_view kGpuRemap = "gpu_remap";         // A faulty memory row cannot be replaced.
inline constexpr std::string_view kGpuResetDue = "gpu_reset_due";  // Faulty memory is replaced at the next reset.
inline constexpr std::string_view kGpuXid = "gpu_xid";             // Number of the driver's critical error.
inline constexpr std::string_view kGpuHot = "gpu_hot";             // Temperature: "93 °C".

// Problems of a node.
inline constexpr std::string_view kNetworkDown = "network_down";     // `subject`: the network card.
inline constexpr std::string_view kDiskFull = "disk_full";           // `subject`: mount point; `detail`: free space.
inline constexpr std::string_view kDiskReadOnly = "disk_read_only";  // `subject`: mount point.
inline constexpr std::string_view kDiskSilent = "disk_silent";       // `detail`: time since a file system was asked.

// Problems that the check program of the operator reports, for a node or a GPU. `subject`: the program's file name.
inline constexpr std::string_view kCheckFailed = "check_failed";    // `detail`: a line that it printed.
inline constexpr std::string_view kCheckExit = "check_exit";        // `detail`: how it ended, without a line.
inline constexpr std::string_view kCheckTimeout = "check_timeout";  // `detail`: its time limit.
inline constexpr std::string_view kCheckStart = "check_start";      // `detail`: why it cannot be started.

}  // namespace volador::health
