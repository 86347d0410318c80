// Transfer of the user's program, driver → head → workers, in chunks of 1 MiB, verified by its SHA-256.
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
// Limit of a program's size for driver, head and workers. See docs/cluster-and-security.md.
inline constexpr int64_t kProgramBytesMax = int64_t{2} << 30;

// Returns the SHA-256 of a file. kNotFound, or kUnavailable if it cannot be read.
[[nodiscard]] Result<security::Digest> sha256_of_file(const std::filesystem::path& path);

// Sends the file to the head. Blocks until done, or until `stop` is requested. Idempotent. kInvalidArgument: the file
// does not match `sha256` (it was rebuilt meanwhile), or exceeds kProgramBytesMax.
[[nodiscard]] Result<void> upload_program(const Channel& channel, const std::filesystem::path& path,
                                          const security::Digest& sha256, std::chrono::milliseconds timeout,
                                          const std::stop_token& stop = {});

// Downloads to `destination` (mode 0700) through a temporary file next to it and a rename. Blocks. kNotFound: the head
// has no copy. kUnavailable: the connection (lost, and not back within 10 s), or no space; nothing is left behind. kInvalidArgument: the data does not
// match `sha256`, or exceeds bytes_max.
[[nodiscard]] Result<void> download_program(const Channel& channel, const security::Digest& sha256,
                                            const std::filesystem::path& destination, std::chrono::milliseconds timeout,
                                            int64_t bytes_max = kProgramBytesMax);

}  // namespace volador::control
