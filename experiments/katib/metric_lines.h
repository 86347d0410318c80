// Metrics in the lines of a text: "loss=0.5" in the output of a program, or a JSON object on each line of a file.
// Pure: no clock, thread, I/O or randomness.
//
// The rules are those of Katib's collectors, without their faults: "loss=nan" is a number, empty values do not count,
// numbers of JSON count as its texts do, a JSON time stamp with a fraction is read as such, and a line that is no JSON
// does not end the collection. With `as_katib` the points are those of Katib, faults included.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/katib/metric_point.h"
#include "runtime/result.h"

namespace volador::experiments::katib {

inline constexpr size_t kMetricLineBytesMax = 1 << 20;  // The rest of a longer line is not looked at.

// Checks a format of text lines, a regular expression: its first two groups are the name and the value of a metric.
// kInvalidArgument: it is none, or has fewer groups.
[[nodiscard]] Result<void> check_metric_format(const std::string& format);

struct MetricLinesOptions {
  std::vector<std::string> metrics;  // Names that count.
  std::vector<std::string> formats;  // For text lines; empty: "name=value".
  bool is_json = false;
  bool as_katib = false;
};

class MetricLines {
 public:
  // The points of one line, in their order in it; at least one. A line of JSON has them in the order of `metrics`.
  using Found = std::function<void(std::vector<MetricPoint> points)>;

  // Errors as check_metric_format().
  static Result<std::unique_ptr<MetricLines>> create(MetricLinesOptions options);
  ~MetricLines();
  MetricLines(const MetricLines&) = delete;
  MetricLines& operator=(const MetricLines&) = delete;

  // The next bytes of the text.
  void feed(std::string_view bytes, const Found& found);
  // The text has ended: its last line may lack the line feed. Another text may follow.
  void end(const Found& found);
  // Lines so far that should have been JSON objects and were not.
  int64_t broken_lines() const { return broken_lines_; }

 private:
  struct Formats;
  explicit MetricLines(MetricLinesOptions options);
  void line(std::string_view line, const Found& found);
  std::vector<MetricPoint> points_of_text(std::string_view line) const;
  std::vector<MetricPoint> points_of_json(std::string_view line);

  MetricLinesOptions options_;
  std::unique_ptr<Formats> formats_;
  std::string rest_;  // Begin of a line whose end has not come.
  int64_t broken_lines_ = 0;
};

}  // namespace volador::experiments::katib
