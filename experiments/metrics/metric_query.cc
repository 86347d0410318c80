#include "experiments/metrics/metric_query.h"

#include <algorithm>
#include <optional>

#include "experiments/metrics/metric_thinning.h"

namespace volador::experiments {
namespace {

// Consecutive points of a series: of a block, or a list.
struct Stretch {
  const MetricFile::Block* block = nullptr;
  const MetricColumn* column = nullptr;
  size_t begin = 0, end = 0;
  std::vector<MetricPoint> points;

  uint64_t size() const { return block != nullptr ? end - begin : points.size(); }
};

std::optional<double> value_of(const MetricRow& row, std::string_view metric) {
  const auto found = std::lower_bound(row.names->begin(), row.names->end(), metric);
  if (found == row.names->end() || *found != metric) return std::nullopt;
  return row.values[static_cast<size_t>(found - row.names->begin())];
}

class SeriesReader {
 public:
  SeriesReader(MetricFile& file, const MetricRows& recent, const MetricQuery& query)
      : file_(file), recent_(recent), query_(query) {
    for (const MetricFile::Block& block : file.blocks()) {
      if (block.head.group == query.group && block.head.last >= query.from && block.head.first <= query.to)
        blocks_.push_back(&block);
    }
  }

  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto* block : blocks_) {
      for (const MetricColumn& column : block->head.columns) names.insert(column.name);
    }
    for (auto row = recent_.lower_bound(query_.from); row != recent_.end() && row->first <= query_.to; ++row)
      names.insert(row->second.names->begin(), row->second.names->end());
    return names;
  }

  std::vector<MetricPoint> read(const std::string& metric) {
    find_stretches(metric);
    uint64_t count = 0;
    for (const Stretch& stretch : stretches_) count += stretch.size();
    if (count > query_.points) {
      // Most series have only finite values: two points for each part.
      auto points = thinned(count, (query_.points - 2) / 2);
      return points.size() <= query_.points ? points : thinned(count, (query_.points - 2) / 3);
    }
    std::vector<MetricPoint> points;
    points.reserve(count);
    for (const Stretch& stretch : stretches_) append(stretch, points);
    return points;
  }

 private:
  std::optional<MetricColumnView> view(const Stretch& stretch) {
    const auto rows = file_.part(*stretch.block, stretch.block->head.part);
    const auto values = file_.part(*stretch.block, stretch.column->part);
    if (!rows || !values) return std::nullopt;
    return MetricColumnView(stretch.block->head, *stretch.column, *rows, *values);
  }

  std::optional<MetricCoarseView> coarse_view(const Stretch& stretch, uint64_t stretch_points) {
    if (stretch_points < kCoarseValues || stretch.size() != stretch.column->count || stretch.column->coarse.bytes == 0)
      return std::nullopt;
    const auto rows = file_.part(*stretch.block, stretch.block->head.part);
    const auto coarse = file_.part(*stretch.block, stretch.column->coarse);
    if (!rows || !coarse) return std::nullopt;
    return MetricCoarseView(stretch.block->head, *stretch.column, *rows, *coarse);
  }

  void append(const Stretch& stretch, std::vector<MetricPoint>& points) {
    if (stretch.block == nullptr) {
      points.insert(points.end(), stretch.points.begin(), stretch.points.end());
    } else if (const auto values = view(stretch)) {
      for (size_t i = stretch.begin; i < stretch.end; ++i) points.push_back(values->point(i));
    }
  }

  void find_stretches(const std::string& metric) {
    stretches_.clear();
    auto row = recent_.lower_bound(query_.from);
    Stretch list;
    const auto take_rows_before = [&](int64_t batches) {
      for (; row != recent_.end() && row->first <= query_.to && row->first < batches; ++row) {
        if (const auto value = value_of(row->second, metric))
          list.points.push_back({row->first, row->second.time_ms, *value});
      }
    };
    const auto end_list = [&] {
      if (!list.points.empty()) stretches_.push_back(std::move(list));
      list = {};
    };
    for (const auto* block : blocks_) {
      take_rows_before(block->head.first);
      Stretch found{.block = block, .column = block->head.find(metric)};
      if (found.column != nullptr) {
        found.end = found.column->count;
        if (block->head.first < query_.from || block->head.last > query_.to) {
          const auto values = view(found);
          if (!values) continue;
          found.begin = values->lower_bound(query_.from);
          if (block->head.last > query_.to) found.end = values->lower_bound(query_.to + 1);
        }
      }
      if (row == recent_.end() || row->first > block->head.last) {
        if (found.column == nullptr || found.begin == found.end) continue;
        end_list();
        stretches_.push_back(std::move(found));
        continue;
      }
      std::vector<MetricPoint> old;
      if (found.column != nullptr) append(found, old);
      for (const MetricPoint& point : old) {
        take_rows_before(point.batches);
        if (!recent_.contains(point.batches)) list.points.push_back(point);
      }
      if (block->head.last < query_.to) take_rows_before(block->head.last + 1);
    }
    for (; row != recent_.end() && row->first <= query_.to; ++row) {
      if (const auto value = value_of(row->second, metric))
        list.points.push_back({row->first, row->second.time_ms, *value});
    }
    end_list();
  }

  std::vector<MetricPoint> thinned(uint64_t count, uint64_t parts) {
    MetricThinning thinning(count, std::max<uint64_t>(parts, 1));
    for (const Stretch& stretch : stretches_) {
      const bool outermost = &stretch == &stretches_.front() || &stretch == &stretches_.back();
      if (stretch.block == nullptr) {
        thinning.add(stretch.points);
      } else if (!outermost && stretch.size() == stretch.column->count && stretch.size() <= thinning.stretch_points()) {
        thinning.add(stretch.column->extremes, stretch.size());
      } else if (const auto coarse = coarse_view(stretch, thinning.stretch_points())) {
        thinning.add(*coarse);
      } else if (const auto values = view(stretch)) {
        thinning.add(*values, stretch.begin, stretch.end);
      }
    }
    return thinning.take();
  }

  MetricFile& file_;
  const MetricRows& recent_;
  const MetricQuery& query_;
  std::vector<const MetricFile::Block*> blocks_;
  std::vector<Stretch> stretches_;
};

}  // namespace

std::vector<MetricSeries> read_series(MetricFile& file, const MetricRows& recent, const MetricQuery& query) {
  SeriesReader reader(file, recent, query);
  std::vector<MetricSeries> found;
  if (query.to < query.from) return found;
  for (const std::string& metric : query.metrics.empty() ? reader.names() : query.metrics) {
    if (auto points = reader.read(metric); !points.empty()) found.push_back({metric, std::move(points)});
  }
  return found;
}

}  // namespace volador::experiments
