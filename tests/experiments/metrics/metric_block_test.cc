#include "experiments/metrics/metric_block.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace volador::experiments {
namespace {

using Names = std::vector<std::string>;

std::shared_ptr<const Names> list(Names names) { return std::make_shared<const Names>(std::move(names)); }

MetricRows decoded(std::string_view bytes) {
  MetricRows rows;
  while (!bytes.empty()) {
    const auto block = read_block_head(bytes);
    EXPECT_TRUE(block.has_value());
    if (!block) break;
    const std::string_view part = bytes.substr(block->part.at, block->part.bytes);
    EXPECT_TRUE(is_intact(block->part, part));
    std::vector<std::string_view> columns;
    for (const MetricColumn& column : block->columns) {
      columns.push_back(bytes.substr(column.part.at, column.part.bytes));
      EXPECT_TRUE(is_intact(column.part, columns.back()));
    }
    add_rows(*block, part, columns, std::numeric_limits<int64_t>::max(), rows);
    bytes.remove_prefix(block->bytes);
  }
  return rows;
}

void expect_equal(const MetricRows& rows, const MetricRows& expected) {
  ASSERT_EQ(rows.size(), expected.size());
  for (auto a = rows.begin(), b = expected.begin(); a != rows.end(); ++a, ++b) {
    EXPECT_EQ(a->first, b->first);
    EXPECT_EQ(a->second.time_ms, b->second.time_ms);
    EXPECT_EQ(*a->second.names, *b->second.names);
    ASSERT_EQ(a->second.values.size(), b->second.values.size());
    for (size_t i = 0; i < a->second.values.size(); ++i) {
      const double one = a->second.values[i], other = b->second.values[i];
      EXPECT_TRUE(std::bit_cast<uint64_t>(one) == std::bit_cast<uint64_t>(other) ||
                  (std::isnan(one) && std::isnan(other)))
          << one << " " << other;
    }
  }
}

std::string encoded(const MetricRows& rows) {
  std::string bytes;
  append_blocks(bytes, "training", rows);
  return bytes;
}

TEST(MetricBlocks, KeepEveryValue) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  MetricRows rows;
  const std::vector<double> values{0.0,          -0.0, 0.1,       1e300,      1e-310, kInfinity, -kInfinity,
                                   std::nan(""), 0.5F, 16777217., 3.4028e38F, -7,     1.0 / 3};
  for (size_t i = 0; i < values.size(); ++i) {
    // Some have more names than others, and one has none.
    Names names = i % 3 == 0 ? Names{"loss"} : Names{"accuracy", "loss"};
    if (i == 4) names = {};
    rows[static_cast<int64_t>(i * i)] = {.time_ms = 1'700'000'000'000 + static_cast<int64_t>(i) * 7,
                                         .names = list(names),
                                         .values = std::vector<double>(names.size(), values[i])};
  }
  expect_equal(decoded(encoded(rows)), rows);
}

TEST(MetricBlocks, KeepNumbersAtTheEndsOfTheirRange) {
  MetricRows rows;
  for (const int64_t batches : {std::numeric_limits<int64_t>::min(), int64_t{-1}, int64_t{0}, int64_t{1} << 40,
                                std::numeric_limits<int64_t>::max()})
    rows[batches] = {.time_ms = ~batches, .names = list({"loss"}), .values = {1}};
  expect_equal(decoded(encoded(rows)), rows);
}

TEST(MetricBlocks, TakeFewBytes) {
  MetricRows rows;
  const auto names = list({"loss"});
  for (int64_t i = 0; i < 10'000; ++i)
    rows[i * 100] = {
        .time_ms = 1'700'000'000'000 + i * 250 + i % 7, .names = names, .values = {1 / (1.0 + static_cast<double>(i))}};
  EXPECT_LE(encoded(rows).size(), 11 * rows.size());
  for (auto& [batches, row] : rows) row.values[0] = static_cast<float>(row.values[0]);
  EXPECT_LE(encoded(rows).size(), 7 * rows.size());
  expect_equal(decoded(encoded(rows)), rows);
}

TEST(MetricBlocks, HaveTheirExtremes) {
  MetricRows rows;
  for (int64_t i = 0; i < 10; ++i)
    rows[i] = {.time_ms = i,
               .names = list({"loss"}),
               .values = {i == 3 ? std::nan("") : std::abs(5.0 - static_cast<double>(i))}};
  const auto block = read_block_head(encoded(rows));
  ASSERT_TRUE(block.has_value());
  const MetricColumn* column = block->find("loss");
  ASSERT_NE(column, nullptr);
  EXPECT_EQ(column->extremes.low->batches, 5);
  EXPECT_EQ(column->extremes.high->batches, 0);
  EXPECT_EQ(column->extremes.odd->batches, 3);
  EXPECT_EQ(block->find("accuracy"), nullptr);
}

TEST(MetricBlocks, AreReadWithinTheirBytes) {
  MetricRows rows;
  for (int64_t i = 0; i < 20; ++i)
    rows[i * i] = {.time_ms = i * 31, .names = list({"a", "b"}), .values = {0.1 * static_cast<double>(i), 1}};
  const std::string bytes = encoded(rows);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto block = read_block_head(std::string_view(bytes).substr(0, size));
    EXPECT_TRUE(!block || block->bytes > size);
  }
  const size_t head = block_head_bytes(bytes);
  for (size_t at = 0; at < head; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      EXPECT_FALSE(read_block_head(damaged).has_value()) << at;
    }
  }
}

}  // namespace
}  // namespace volador::experiments
