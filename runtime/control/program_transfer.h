// The user's program on its way: driver → head → workers, by chunks of 1 MiB, checked by its SHA-256 before it counts.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stop_token>

#include "runtime/control/channel.h"
#include "runtime/result.h"
#include "runtime/security/digest.h"

namespace volador::control {

inline constexpr int64_t kProgramChunkBytes = 1 << 20;
// The limit of a program's size, for driver, head and workers. See docs/cluster-and-security.md.
inline constexpr int64_t kProgramBytesMax = int64_t{2} << 30;

// SHA-256 of a file. kNotFound, or kUnavailable where it cannot be read.
[[nodiscard]] Result<security::Digest> sha256_of_file(const std::filesystem::path& path);

// Sends the file to the head. Blocks, until `stop` is asked for at most. Repeating it is harmless.
// kInvalidArgument: the file is not what `sha256` says (it was rebuilt meanwhile), or above kProgramBytesMax.
[[nodiscard]] Result<void> upload_program(const Channel& channel, const std::filesystem::path& path, const security::Digest& sha256,
                                          std::chrono::milliseconds timeout, const std::stop_token& stop = {});

// Fetches it to `destination` (mode 0700) by way of a temporary file beside it and a rename. Blocks.
// kNotFound: the head has no copy. kUnavailable: the connection, or no space; nothing is left behind. kInvalidArgument: what came is
// not what `sha256` says, or above bytes_max.
[[nodiscard]] Result<void> download_program(const Channel& channel, const security::Digest& sha256,
                                            const std::filesystem::path& destination, std::chrono::milliseconds timeout,
                                            int64_t bytes_max = kProgramBytesMax);

}  // namespace volador::control
