// Codec of a trial's file of metrics: a sequence of blocks, each with up to kBlockRows reports of one group in columns.
// A column of integers is a line (base + slope * i) and small offsets from it; values that are floats take four bytes.
// The head has the extremes of each column, so that queries of long series need not read the columns.
// Pure. Bytes may be damaged: nothing is read outside of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace volador::experiments {

struct MetricPoint {
  int64_t batches = 0;
  int64_t time_ms = 0;
  double value = 0;
};

// A report without its place.
struct MetricRow {
  int64_t time_ms = 0;
  std::shared_ptr<const std::vector<std::string>> names;  // Sorted, unique. Never null.
  std::vector<double> values;                             // As many.
};
using MetricRows = std::map<int64_t, MetricRow>;  // By batches.

inline constexpr size_t kBlockRows = 4096;

// base + slope * i + the offset i, of `width` bytes (0, 1, 2, 4 or 8). Wraps around.
struct PackedIntegers {
  int64_t base = 0;
  int64_t slope = 0;
  uint8_t width = 0;
};

// Bytes of a block with a check sum of their own.
struct BlockPart {
  uint64_t at = 0;  // From the start of the block.
  uint32_t bytes = 0;
  uint32_t sum = 0;
};
bool is_intact(const BlockPart& part, std::string_view bytes);

struct MetricExtremes {
  std::optional<MetricPoint> low, high;  // Over finite values.
  std::optional<MetricPoint> odd;        // The first that is not finite.
};

// Values of a column that have their extremes in MetricColumn::coarse.
inline constexpr size_t kCoarseValues = 16;

struct MetricColumn {
  std::string name;
  uint32_t count = 0;
  PackedIntegers rows;  // Over its values in the block.
  uint8_t value_bytes = 8;
  double first = 0, last = 0;
  MetricExtremes extremes;
  // For each kCoarseValues values: a byte with the places of the lowest and the highest; then these values. Empty: the
  // column is short, sparse, or has values that are not finite.
  BlockPart coarse;
  BlockPart part;  // Offsets of `rows`, then the values.
};

struct MetricBlock {
  uint64_t bytes = 0;  // Head and parts.
  std::string group;
  uint32_t rows = 0;
  int64_t first = 0, last = 0;  // Batches.
  PackedIntegers batches, times;
  BlockPart part;                     // Offsets of `batches`, then of `times`.
  std::vector<MetricColumn> columns;  // Sorted by name.

  const MetricColumn* find(std::string_view name) const;
};

// Appends blocks with all rows to `to`.
void append_blocks(std::string& to, std::string_view group, const MetricRows& rows);

inline constexpr std::string_view kBlockMagic = "VMB1";
inline constexpr size_t kBlockPrefixBytes = 12;
// Length of the head that starts with these bytes, at least kBlockPrefixBytes; 0: it is no block.
size_t block_head_bytes(std::string_view prefix);
// Reads the head; nullopt: it is incomplete or damaged.
std::optional<MetricBlock> read_block_head(std::string_view bytes);

// The values of a column. Keeps references to its arguments. Requires intact parts.
class MetricColumnView {
 public:
  MetricColumnView(const MetricBlock& block, const MetricColumn& column, std::string_view block_part,
                   std::string_view column_part);

  size_t size() const { return column_.count; }
  int64_t batches(size_t i) const;
  double value(size_t i) const;
  MetricPoint point(size_t i) const;
  // The point of a value that is known.
  MetricPoint point(size_t i, double value) const;
  // Index of the first value whose batches are not below this number.
  size_t lower_bound(int64_t batches) const;

  // Either is null.
  const char* floats() const { return column_.value_bytes == sizeof(float) ? values_ : nullptr; }
  const char* doubles() const { return column_.value_bytes == sizeof(double) ? values_ : nullptr; }

 private:
  size_t row(size_t i) const;

  const MetricBlock& block_;
  const MetricColumn& column_;
  const char* batches_;
  const char* times_;
  const char* rows_;
  const char* values_;
};

// The extremes of each kCoarseValues values of a column. Keeps references to its arguments. Requires intact parts and
// MetricColumn::coarse.
class MetricCoarseView {
 public:
  MetricCoarseView(const MetricBlock& block, const MetricColumn& column, std::string_view block_part,
                   std::string_view coarse_part);

  size_t size() const;  // Number of parts.
  size_t values(size_t part) const;
  MetricPoint low(size_t part) const;
  MetricPoint high(size_t part) const;
  MetricPoint first() const;
  MetricPoint last() const;

 private:
  double extreme(size_t i) const;

  const MetricColumn& column_;
  const MetricColumnView view_;
  const char* places_;
  const char* values_;
};

// Adds the rows of a block to `rows`, but none of a number that is there, or that is above `last`. `columns`: the
// parts of its columns; a damaged one is empty and left out.
void add_rows(const MetricBlock& block, std::string_view block_part, const std::vector<std::string_view>& columns,
              int64_t last, MetricRows& rows);

}  // namespace volador::experiments
