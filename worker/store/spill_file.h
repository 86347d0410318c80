// File for spilled objects. It is unnamed: when its process ends in any way, the kernel releases its space. A range is
// written once, read many times, and returned to the disk when discarded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/ids.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"
#include "worker/store/store_table.h"

namespace volador::worker {

inline constexpr int64_t kSpillChunkBytes = int64_t{4} << 20;  // Size covered by one checksum.

// Thread safe: immutable.
class SpillFile {
 public:
  // Creates the folder if needed. kInvalidArgument: it cannot be created or written; names folder and reason.
  [[nodiscard]] static Result<std::unique_ptr<SpillFile>> create(const std::filesystem::path& folder, NodeId node);

  // `progress` is called after every chunk. kUnavailable: the disk is full, a limit was reached, or the disk fails; the
  // written part is discarded.
  [[nodiscard]] Result<SpillSums> write(int64_t offset, std::span<const std::byte> bytes,
                                        const std::function<void()>& progress = {}) const;
  // Reads bytes [from, from + into.size()) of the range of `bytes` bytes written at `offset`. Reads and verifies whole
  // chunks. kObjectLost: checksum mismatch or disk failure; `into` is then unspecified.
  [[nodiscard]] Result<void> read(int64_t offset, int64_t bytes, const std::vector<uint32_t>& sums, int64_t from,
                                  std::span<std::byte> into) const;
  // Best effort: if the file system cannot release it, the next write there reuses the space.
  void discard(int64_t offset, int64_t bytes) const;

  const std::filesystem::path& folder() const { return folder_; }
  bool is_in_memory() const;  // The folder is in a tmpfs: spilling there saves nothing.

 private:
  SpillFile(std::filesystem::path folder, net::UniqueFd fd) : folder_(std::move(folder)), fd_(std::move(fd)) {}
  Result<void> read_chunk(int64_t offset, std::span<std::byte> into, uint32_t sum) const;

  const std::filesystem::path folder_;
  const net::UniqueFd fd_;
};

// Returns `preferred`, created if needed; if it is in memory, the machine's folder for large temporary files
// (/var/tmp).
[[nodiscard]] std::filesystem::path spill_folder(const std::filesystem::path& preferred);
// Free space of the folder's disk for this user; 0: unknown.
[[nodiscard]] int64_t free_bytes_of(const std::filesystem::path& folder);

// Removes files that a killed worker of this node left in `folder` on a file system without O_TMPFILE.
void remove_spill_leftovers(const std::filesystem::path& folder, NodeId node);

}  // namespace volador::worker
