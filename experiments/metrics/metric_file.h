// Reads the blocks of a trial's file. Damaged parts are skipped and logged once for each file.
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/metrics/metric_block.h"
#include "runtime/files/durable_file.h"
#include "runtime/result.h"

namespace volador::experiments {

class MetricFile {
 public:
  struct Block {
    uint64_t at = 0;
    MetricBlock head;
  };

  explicit MetricFile(std::filesystem::path path) : path_(std::move(path)) {}
  MetricFile(const MetricFile&) = delete;
  MetricFile& operator=(const MetricFile&) = delete;

  // Reads the heads of all blocks. A file that does not exist has none. kUnavailable, kPermissionDenied: it cannot be
  // read.
  [[nodiscard]] Result<void> open();

  bool exists() const { return file_.valid(); }
  int fd() const { return file_.get(); }
  const std::vector<Block>& blocks() const { return blocks_; }
  // End of the last block.
  uint64_t end() const { return blocks_.empty() ? 0 : blocks_.back().at + blocks_.back().head.bytes; }
  uint64_t size() const { return size_; }

  // Bytes of a part of a block, valid as long as this object; nullopt: damaged. Each part is read once.
  std::optional<std::string_view> part(const Block& block, const BlockPart& part);
  // Frees the memory of parts that were read.
  void forget_parts();
  // Adds the rows of a block as volador::experiments::add_rows() does.
  void add_rows(const Block& block, int64_t last, MetricRows& rows);

 private:
  Result<void> find_blocks();
  // Up to `size` bytes at `at`, valid until the next call.
  Result<std::string_view> look(uint64_t at, size_t size);
  // The next place from `at` on that may be a block; size() if there is none.
  Result<uint64_t> next_magic(uint64_t at);
  void report_damage(uint64_t at) const;

  const std::filesystem::path path_;
  FileHandle file_;
  uint64_t size_ = 0;
  std::string whole_;  // For a small file.
  std::string window_;
  uint64_t window_at_ = 0;
  std::vector<Block> blocks_;
  std::map<uint64_t, std::optional<std::string_view>> parts_;  // By offset in the file.
  std::deque<std::string> read_;
};

}  // namespace volador::experiments
