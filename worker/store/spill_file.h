// The file that objects go to when they leave memory. It has no name: when its process ends, in whatever way, the kernel takes its space
// back. A range is written once, read many times, and given back to the disk when it is discarded.
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

inline constexpr int64_t kSpillChunkBytes = int64_t{4} << 20;  // What one checksum covers.

// Thread safe: nothing in it changes.
class SpillFile {
 public:
  // Makes the folder where it is missing. kInvalidArgument: it cannot be made or written; names folder and reason.
  [[nodiscard]] static Result<std::unique_ptr<SpillFile>> create(const std::filesystem::path& folder, NodeId node);

  // `progress` is called after every chunk. kUnavailable: the disk is full, a limit was reached, or the disk fails; what was written is
  // given back.
  [[nodiscard]] Result<SpillSums> write(int64_t offset, std::span<const std::byte> bytes, const std::function<void()>& progress = {}) const;
  // Bytes [from, from + into.size()) of the range of `bytes` bytes that was written at `offset`. Reads and checks whole chunks.
  // kObjectLost: it is not what was written, or the disk fails; `into` is then unspecified.
  [[nodiscard]] Result<void> read(int64_t offset, int64_t bytes, const std::vector<uint32_t>& sums, int64_t from, std::span<std::byte> into) const;
  // Best effort: where the file system cannot, the space is used again by the next write there.
  void discard(int64_t offset, int64_t bytes) const;

  const std::filesystem::path& folder() const { return folder_; }
  bool is_in_memory() const;  // The folder lies in a tmpfs: spilling there saves nothing.

 private:
  SpillFile(std::filesystem::path folder, net::UniqueFd fd) : folder_(std::move(folder)), fd_(std::move(fd)) {}
  Result<void> read_chunk(int64_t offset, std::span<std::byte> into, uint32_t sum) const;

  const std::filesystem::path folder_;
  const net::UniqueFd fd_;
};

// `preferred`, made where it is missing; where it lies in memory, the machine's folder for large temporary files (/var/tmp).
[[nodiscard]] std::filesystem::path spill_folder(const std::filesystem::path& preferred);
// Of the disk on which `folder` lies, for this user; 0: unknown.
[[nodiscard]] int64_t free_bytes_of(const std::filesystem::path& folder);

// Files that a file system without nameless files left in `folder` when a worker of this node was killed at the wrong moment.
void remove_spill_leftovers(const std::filesystem::path& folder, NodeId node);

}  // namespace volador::worker
