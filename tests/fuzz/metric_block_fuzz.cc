// Heads of blocks of metrics with a right check sum: what reads the block stays inside of it and ends.
#include "experiments/metrics/metric_block.h"

#include <cstdlib>
#include <limits>
#include <string>

#include "experiments/metrics/metric_thinning.h"
#include "runtime/crc32c.h"
#include "tests/fuzz/driver.h"

using namespace volador;
using namespace volador::experiments;

namespace {

void append_number(std::string& to, uint32_t number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string head(reinterpret_cast<const char*>(data), size);
  std::string bytes(kBlockMagic);
  append_number(bytes, static_cast<uint32_t>(kBlockPrefixBytes + size));
  append_number(bytes, crc32c(head));
  bytes += head;
  const auto block = read_block_head(bytes);
  if (!block) return 0;
  if (block->bytes < bytes.size() || block->rows == 0 || block->rows > kBlockRows) abort();
  constexpr uint64_t kBytesMax = uint64_t{4} << 20;
  if (block->bytes > kBytesMax) return 0;
  // Copies of their own, so that each read behind the end of a part is seen.
  const auto part = [&](const BlockPart& of) { return std::string(of.bytes, static_cast<char>(of.sum)); };
  const std::string rows = part(block->part);
  std::vector<std::string> parts;
  for (const MetricColumn& column : block->columns) parts.push_back(part(column.part));
  std::vector<std::string_view> columns(parts.begin(), parts.end());
  for (size_t i = 0; i < columns.size(); ++i) {
    const MetricColumn& column = block->columns[i];
    const MetricColumnView view(*block, column, rows, columns[i]);
    if (view.lower_bound(column.rows.base) > view.size()) abort();
    MetricThinning thinning(view.size(), 3);
    thinning.add(view, 0, view.size());
    thinning.take();
    if (column.coarse.bytes == 0) continue;
    const std::string coarse = part(column.coarse);
    MetricThinning thinner(view.size(), 1);
    thinner.add(MetricCoarseView(*block, column, rows, coarse));
    thinner.take();
  }
  MetricRows found;
  add_rows(*block, rows, columns, std::numeric_limits<int64_t>::max(), found);
  return 0;
}

std::vector<std::string> volador::fuzz::seeds() {
  std::vector<std::string> seeds;
  for (const int64_t count : {1, 20, 100}) {
    MetricRows rows;
    const auto both = std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"accuracy", "loss"});
    const auto one = std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"loss"});
    for (int64_t i = 0; i < count; ++i) {
      const double value = 1 / static_cast<double>(i + 1);
      const bool has_both = i % 3 == 0 && count < 100;
      rows[i * 100] = {.time_ms = 1'700'000'000'000 + i * i,
                       .names = has_both ? both : one,
                       .values = std::vector<double>(has_both ? 2 : 1, value)};
    }
    std::string bytes;
    append_blocks(bytes, "training", rows);
    seeds.push_back(bytes.substr(kBlockPrefixBytes, block_head_bytes(bytes) - kBlockPrefixBytes));
  }
  return seeds;
}
