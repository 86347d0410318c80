#include "experiments/metrics/metric_block.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/crc32c.h"

namespace volador::experiments {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they are in memory");

constexpr size_t kHeadBytesMax = size_t{64} << 20;
constexpr size_t kCoarseFrom = 64;  // Values of a column.
constexpr size_t kNameBytesMax = std::numeric_limits<uint16_t>::max();

template <class Number>
void put(std::string& to, Number number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}
void put_text(std::string& to, std::string_view text) {
  text = text.substr(0, kNameBytesMax);
  put(to, static_cast<uint16_t>(text.size()));
  to += text;
}

template <class Number>
Number number_in(const char* bytes, size_t index) {
  Number number;
  std::memcpy(&number, bytes + index * sizeof number, sizeof number);
  return number;
}

// Reads numbers from the front; after the end it gives zeros and is not ok.
class Front {
 public:
  explicit Front(std::string_view bytes) : left_(bytes) {}

  template <class Number>
  Number take() {
    if (left_.size() < sizeof(Number)) {
      ok_ = false;
      left_ = {};
      return {};
    }
    const auto number = number_in<Number>(left_.data(), 0);
    left_.remove_prefix(sizeof(Number));
    return number;
  }
  std::string_view text() {
    const size_t size = take<uint16_t>();
    if (left_.size() < size) ok_ = false;
    const std::string_view text = left_.substr(0, size);
    left_.remove_prefix(text.size());
    return text;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && left_.empty(); }

 private:
  std::string_view left_;
  bool ok_ = true;
};

uint64_t offset_at(const PackedIntegers& packed, const char* offsets, size_t i) {
  switch (packed.width) {
    case 1:
      return number_in<uint8_t>(offsets, i);
    case 2:
      return number_in<uint16_t>(offsets, i);
    case 4:
      return number_in<uint32_t>(offsets, i);
    case 8:
      return number_in<uint64_t>(offsets, i);
    default:
      return 0;
  }
}

int64_t integer_at(const PackedIntegers& packed, const char* offsets, size_t i) {
  return static_cast<int64_t>(static_cast<uint64_t>(packed.base) + static_cast<uint64_t>(packed.slope) * i +
                              offset_at(packed, offsets, i));
}

// Appends the offsets to `to`.
PackedIntegers pack(const std::vector<int64_t>& integers, std::string& to) {
  PackedIntegers packed;
  if (integers.empty()) return packed;
  const auto distance =
      static_cast<int64_t>(static_cast<uint64_t>(integers.back()) - static_cast<uint64_t>(integers.front()));
  if (integers.size() > 1) packed.slope = distance / static_cast<int64_t>(integers.size() - 1);
  const auto above_line = [&](size_t i) {
    return static_cast<int64_t>(static_cast<uint64_t>(integers[i]) - static_cast<uint64_t>(packed.slope) * i);
  };
  packed.base = above_line(0);
  for (size_t i = 1; i < integers.size(); ++i) packed.base = std::min(packed.base, above_line(i));
  uint64_t most = 0;
  const auto offset = [&](size_t i) {
    return static_cast<uint64_t>(above_line(i)) - static_cast<uint64_t>(packed.base);
  };
  for (size_t i = 0; i < integers.size(); ++i) most = std::max(most, offset(i));
  packed.width = most == 0 ? 0 : most <= UINT8_MAX ? 1 : most <= UINT16_MAX ? 2 : most <= UINT32_MAX ? 4 : 8;
  for (size_t i = 0; i < integers.size(); ++i) {
    const uint64_t number = offset(i);
    to.append(reinterpret_cast<const char*>(&number), packed.width);
  }
  return packed;
}

bool fits_float(double value) {
  if (!std::isfinite(value)) return true;
  return std::fabs(value) <= FLT_MAX && static_cast<double>(static_cast<float>(value)) == value;
}

struct ColumnRows {
  std::vector<int64_t> rows;
  std::vector<MetricPoint> points;
};

MetricExtremes extremes_of(const std::vector<MetricPoint>& points) {
  MetricExtremes found;
  for (const MetricPoint& point : points) {
    if (!std::isfinite(point.value)) {
      if (!found.odd) found.odd = point;
      continue;
    }
    if (!found.low || point.value < found.low->value) found.low = point;
    if (!found.high || point.value > found.high->value) found.high = point;
  }
  return found;
}

void put(std::string& to, const PackedIntegers& packed) {
  put(to, packed.base);
  put(to, packed.slope);
  put(to, packed.width);
}

void put(std::string& to, const std::optional<MetricPoint>& point) {
  put(to, static_cast<uint8_t>(point ? 1 : 0));
  if (!point) return;
  put(to, point->batches);
  put(to, point->time_ms);
  put(to, point->value);
}

PackedIntegers take_packed(Front& from) {
  PackedIntegers packed;
  packed.base = from.take<int64_t>();
  packed.slope = from.take<int64_t>();
  packed.width = from.take<uint8_t>();
  return packed;
}

std::optional<MetricPoint> take_point(Front& from) {
  if (from.take<uint8_t>() == 0) return std::nullopt;
  MetricPoint point;
  point.batches = from.take<int64_t>();
  point.time_ms = from.take<int64_t>();
  point.value = from.take<double>();
  return point;
}

void put_value(std::string& to, double value, bool as_float) {
  if (as_float) {
    put(to, static_cast<float>(value));
  } else {
    put(to, value);
  }
}

size_t coarse_parts(size_t count) { return (count + kCoarseValues - 1) / kCoarseValues; }

std::string coarse_of(const std::vector<MetricPoint>& points, bool floats) {
  std::string places, values;
  for (size_t begin = 0; begin < points.size(); begin += kCoarseValues) {
    const auto from = points.begin() + static_cast<ptrdiff_t>(begin);
    const auto to = points.begin() + static_cast<ptrdiff_t>(std::min(points.size(), begin + kCoarseValues));
    const auto [low, high] =
        std::minmax_element(from, to, [](const MetricPoint& a, const MetricPoint& b) { return a.value < b.value; });
    put(places, static_cast<uint8_t>((low - from) | (high - from) << 4));
    put_value(values, low->value, floats);
    put_value(values, high->value, floats);
  }
  return places + values;
}

void append_block(std::string& to, std::string_view group, MetricRows::const_iterator begin,
                  MetricRows::const_iterator end) {
  std::vector<int64_t> batches, times;
  std::map<std::string_view, ColumnRows> columns;
  for (auto row = begin; row != end; ++row) {
    for (size_t i = 0; i < row->second.values.size(); ++i) {
      ColumnRows& column = columns[(*row->second.names)[i]];
      column.rows.push_back(static_cast<int64_t>(batches.size()));
      column.points.push_back({row->first, row->second.time_ms, row->second.values[i]});
    }
    batches.push_back(row->first);
    times.push_back(row->second.time_ms);
  }

  std::string head, parts;
  put_text(head, group);
  put(head, static_cast<uint32_t>(batches.size()));
  put(head, batches.front());
  put(head, batches.back());
  put(head, pack(batches, parts));
  put(head, pack(times, parts));
  put(head, crc32c(parts));
  put(head, static_cast<uint32_t>(columns.size()));
  std::string part;
  for (const auto& [name, column] : columns) {
    part.clear();
    put_text(head, name);
    put(head, static_cast<uint32_t>(column.points.size()));
    const PackedIntegers rows = pack(column.rows, part);
    put(head, rows);
    const bool floats = std::all_of(column.points.begin(), column.points.end(),
                                    [](const MetricPoint& point) { return fits_float(point.value); });
    put(head, static_cast<uint8_t>(floats ? sizeof(float) : sizeof(double)));
    for (const MetricPoint& point : column.points) put_value(part, point.value, floats);
    put(head, column.points.front().value);
    put(head, column.points.back().value);
    const MetricExtremes extremes = extremes_of(column.points);
    put(head, extremes.low);
    put(head, extremes.high);
    put(head, extremes.odd);
    std::string coarse;
    if (!extremes.odd && rows.width == 0 && column.points.size() >= kCoarseFrom)
      coarse = coarse_of(column.points, floats);
    put(head, static_cast<uint32_t>(coarse.size()));
    put(head, crc32c(coarse));
    parts += coarse;
    put(head, crc32c(part));
    parts += part;
  }
  to += kBlockMagic;
  put(to, static_cast<uint32_t>(kBlockPrefixBytes + head.size()));
  put(to, crc32c(head));
  to += head;
  to += parts;
}

}  // namespace

bool is_intact(const BlockPart& part, std::string_view bytes) {
  return bytes.size() == part.bytes && crc32c(bytes) == part.sum;
}

const MetricColumn* MetricBlock::find(std::string_view name) const {
  const auto found = std::lower_bound(columns.begin(), columns.end(), name,
                                      [](const MetricColumn& column, std::string_view of) { return column.name < of; });
  return found == columns.end() || found->name != name ? nullptr : &*found;
}

void append_blocks(std::string& to, std::string_view group, const MetricRows& rows) {
  // All of about the same size, so that no small one is left over.
  const size_t blocks = (rows.size() + kBlockRows - 1) / kBlockRows;
  auto begin = rows.begin();
  for (size_t i = 0; i < blocks; ++i) {
    const auto end =
        std::next(begin, static_cast<ptrdiff_t>(rows.size() * (i + 1) / blocks - rows.size() * i / blocks));
    append_block(to, group, begin, end);
    begin = end;
  }
}

size_t block_head_bytes(std::string_view prefix) {
  if (prefix.size() < kBlockPrefixBytes || !prefix.starts_with(kBlockMagic)) return 0;
  const size_t bytes = number_in<uint32_t>(prefix.data() + kBlockMagic.size(), 0);
  return bytes < kBlockPrefixBytes || bytes > kHeadBytesMax ? 0 : bytes;
}

std::optional<MetricBlock> read_block_head(std::string_view bytes) {
  const size_t head_bytes = block_head_bytes(bytes);
  if (head_bytes == 0 || bytes.size() < head_bytes) return std::nullopt;
  const std::string_view head = bytes.substr(kBlockPrefixBytes, head_bytes - kBlockPrefixBytes);
  if (crc32c(head) != number_in<uint32_t>(bytes.data() + kBlockMagic.size(), 1)) return std::nullopt;

  Front from(head);
  MetricBlock block;
  block.group = from.text();
  block.rows = from.take<uint32_t>();
  block.first = from.take<int64_t>();
  block.last = from.take<int64_t>();
  block.batches = take_packed(from);
  block.times = take_packed(from);
  const auto sum = from.take<uint32_t>();
  if (block.rows == 0 || block.rows > kBlockRows) return std::nullopt;
  block.part = {head_bytes, block.rows * (uint32_t{block.batches.width} + block.times.width), sum};
  block.bytes = head_bytes + block.part.bytes;
  const auto columns = from.take<uint32_t>();
  for (uint32_t i = 0; i < columns && from.ok(); ++i) {
    MetricColumn& column = block.columns.emplace_back();
    column.name = from.text();
    column.count = from.take<uint32_t>();
    column.rows = take_packed(from);
    column.value_bytes = from.take<uint8_t>();
    column.first = from.take<double>();
    column.last = from.take<double>();
    column.extremes.low = take_point(from);
    column.extremes.high = take_point(from);
    column.extremes.odd = take_point(from);
    const auto coarse_bytes = from.take<uint32_t>(), coarse_sum = from.take<uint32_t>();
    const auto column_sum = from.take<uint32_t>();
    if (column.count == 0 || column.count > block.rows) return std::nullopt;
    if (column.value_bytes != sizeof(float) && column.value_bytes != sizeof(double)) return std::nullopt;
    if (coarse_bytes != 0 &&
        (coarse_bytes != coarse_parts(column.count) * (1 + 2 * size_t{column.value_bytes}) || column.rows.width != 0))
      return std::nullopt;
    column.coarse = {block.bytes, coarse_bytes, coarse_sum};
    block.bytes += coarse_bytes;
    column.part = {block.bytes, column.count * (uint32_t{column.rows.width} + column.value_bytes), column_sum};
    block.bytes += column.part.bytes;
  }
  if (!from.at_end()) return std::nullopt;
  return block;
}

MetricColumnView::MetricColumnView(const MetricBlock& block, const MetricColumn& column, std::string_view block_part,
                                   std::string_view column_part)
    : block_(block),
      column_(column),
      batches_(block_part.data()),
      times_(block_part.data() + size_t{block.rows} * block.batches.width),
      rows_(column_part.data()),
      values_(column_part.data() + size_t{column.count} * column.rows.width) {}

size_t MetricColumnView::row(size_t i) const {
  return std::min<uint64_t>(static_cast<uint64_t>(integer_at(column_.rows, rows_, i)), block_.rows - 1);
}

int64_t MetricColumnView::batches(size_t i) const { return integer_at(block_.batches, batches_, row(i)); }

double MetricColumnView::value(size_t i) const {
  return floats() != nullptr ? number_in<float>(values_, i) : number_in<double>(values_, i);
}

MetricPoint MetricColumnView::point(size_t i) const { return point(i, value(i)); }

MetricPoint MetricColumnView::point(size_t i, double value) const {
  const size_t at = row(i);
  return {integer_at(block_.batches, batches_, at), integer_at(block_.times, times_, at), value};
}

size_t MetricColumnView::lower_bound(int64_t wanted) const {
  size_t low = 0, high = size();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (batches(middle) < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

MetricCoarseView::MetricCoarseView(const MetricBlock& block, const MetricColumn& column, std::string_view block_part,
                                   std::string_view coarse_part)
    : column_(column),
      view_(block, column, block_part, {}),
      places_(coarse_part.data()),
      values_(coarse_part.data() + coarse_parts(column.count)) {}

size_t MetricCoarseView::size() const { return coarse_parts(column_.count); }

size_t MetricCoarseView::values(size_t part) const {
  return std::min<size_t>(kCoarseValues, column_.count - part * kCoarseValues);
}

double MetricCoarseView::extreme(size_t i) const {
  return column_.value_bytes == sizeof(float) ? number_in<float>(values_, i) : number_in<double>(values_, i);
}

MetricPoint MetricCoarseView::low(size_t part) const {
  return view_.point(part * kCoarseValues + (number_in<uint8_t>(places_, part) & 0xF), extreme(2 * part));
}

MetricPoint MetricCoarseView::high(size_t part) const {
  return view_.point(part * kCoarseValues + (number_in<uint8_t>(places_, part) >> 4), extreme(2 * part + 1));
}

MetricPoint MetricCoarseView::first() const { return view_.point(0, column_.first); }
MetricPoint MetricCoarseView::last() const { return view_.point(column_.count - 1, column_.last); }

void add_rows(const MetricBlock& block, std::string_view block_part, const std::vector<std::string_view>& columns,
              int64_t last, MetricRows& rows) {
  std::vector<MetricColumnView> views;
  std::vector<size_t> next, used;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].empty()) continue;
    views.emplace_back(block, block.columns[i], block_part, columns[i]);
    used.push_back(i);
  }
  next.resize(views.size());
  std::vector<size_t> present, before;
  std::shared_ptr<const std::vector<std::string>> names;
  for (size_t row = 0; row < block.rows; ++row) {
    const int64_t batches = integer_at(block.batches, block_part.data(), row);
    MetricRow made;
    made.time_ms = integer_at(block.times, block_part.data() + size_t{block.rows} * block.batches.width, row);
    present.clear();
    for (size_t i = 0; i < views.size(); ++i) {
      if (next[i] >= views[i].size() || views[i].batches(next[i]) != batches) continue;
      made.values.push_back(views[i].value(next[i]++));
      present.push_back(used[i]);
    }
    if (!names || present != before) {
      std::vector<std::string> list;
      for (const size_t i : present) list.push_back(block.columns[i].name);
      names = std::make_shared<const std::vector<std::string>>(std::move(list));
      before = present;
    }
    made.names = names;
    if (batches <= last) rows.try_emplace(batches, std::move(made));
  }
}

}  // namespace volador::experiments
