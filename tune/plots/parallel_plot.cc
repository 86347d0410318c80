#include "tune/plots/parallel_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "runtime/quantities.h"

namespace volador::tune {
namespace {

using Axis = ParallelPlot::Axis;
using Line = ParallelPlot::Line;

constexpr size_t kLinesMax = 10'000;
constexpr size_t kAxesMax = 12;
constexpr size_t kCategoriesLabelled = 24;
constexpr double kNoneRoom = 26;

class ParallelDrawing {
 public:
  explicit ParallelDrawing(const ParallelPlot& plot) : plot_(plot), page_(plot.size) {
    for (size_t i = 0; i < plot.axes.size(); ++i) {
      if (i + 1 == plot.axes.size() || i + 1 < kAxesMax) shown_.push_back(i);
    }
    for (const Line& line : plot.lines) {
      if (std::isfinite(line.values.back())) order_.push_back(&line);
    }
    std::stable_sort(order_.begin(), order_.end(), [&](const Line* a, const Line* b) {
      return better(b->values.back(), a->values.back(), plot_.mode);
    });
    if (order_.size() > kLinesMax) order_.erase(order_.begin(), order_.end() - static_cast<std::ptrdiff_t>(kLinesMax));
  }

  std::string draw() {
    Heading heading = plot_.heading;
    if (order_.empty() || shown_.size() < 2) {
      return empty_plot(plot_.size, heading,
                        order_.empty() ? fmt::format("no trial has a finite {} yet",
                                                     plot_.axes.empty() ? "value" : plot_.axes.back().name)
                                       : "no parameter varies among the trials");
    }
    if (order_.size() == kLinesMax) heading.subtitle += fmt::format(" · the best {} are drawn", kLinesMax);
    if (shown_.size() < plot_.axes.size())
      heading.subtitle +=
          fmt::format(" · {} left out", counted(plot_.axes.size() - shown_.size(), "parameter is", "parameters are"));
    area_ = draw_heading(page_, heading);
    area_.top += 34;
    area_.left += 42;
    area_.right -= 58;
    area_.bottom -= 10;
    if (any_absent()) area_.bottom -= kNoneRoom;
    for (const size_t axis : shown_) scales_.push_back(scale_of(axis));
    draw_lines();
    for (size_t i = 0; i < shown_.size(); ++i) draw_axis(i);
    return page_.finish(plot_.heading.title, fmt::format("{}, {}", counted(order_.size(), "trial"),
                                                         counted(plot_.axes.size() - 1, "parameter")));
  }

 private:
  double x_of(size_t place) const {
    return area_.left + area_.width() * static_cast<double>(place) / static_cast<double>(shown_.size() - 1);
  }
  double none_at() const { return area_.bottom + kNoneRoom - 6; }

  bool absent(const Line& line, size_t axis) const {
    return !std::isfinite(line.values[axis]) || (plot_.axes[axis].log && line.values[axis] <= 0);
  }
  bool any_absent() const {
    return std::any_of(order_.begin(), order_.end(), [this](const Line* line) {
      return std::any_of(shown_.begin(), shown_.end(), [&](size_t axis) { return absent(*line, axis); });
    });
  }

  Scale scale_of(size_t index) const {
    const Axis& axis = plot_.axes[index];
    Extent extent;
    for (size_t i = 0; i < axis.categories.size(); ++i) extent.add(static_cast<double>(i), false);
    for (const Line* line : order_) extent.add(line->values[index], axis.log);
    return Scale(extent, axis.log, area_.bottom, area_.top, axis.categories.empty() ? 0 : 0.06);
  }

  void draw_lines() {
    const std::string_view faint = order_.size() > 2000 ? "o2" : order_.size() > 300 ? "o4" : "o8";
    for (size_t i = 0; i < order_.size(); ++i) {
      const Line& line = *order_[i];
      std::vector<PlotPoint> points;
      for (size_t place = 0; place < shown_.size(); ++place)
        points.push_back(
            {x_of(place), absent(line, shown_[place]) ? none_at() : scales_[place].at(line.values[shown_[place]])});
      const bool best = i + 1 == order_.size();
      const size_t shade = order_.size() < 2 ? kShades - 1 : 1 + i * (kShades - 2) / (order_.size() - 1);
      page_.polyline(points,
                     best ? std::string("s1 thick")
                          : fmt::format("t{} {} {}", shade, i * 4 > order_.size() * 3 ? "mid" : "thin", faint),
                     line.tip);
    }
  }

  void draw_axis(size_t place) {
    const Axis& axis = plot_.axes[shown_[place]];
    const double x = x_of(place);
    const bool last = place + 1 == shown_.size();
    page_.line({x, area_.top}, {x, area_.bottom}, last ? "ink-line mid" : "axis");
    const double room = area_.width() / static_cast<double>(shown_.size() - 1);
    const double title = last ? std::min(room, 120.0) : std::min(room - 8, 200.0);
    page_.text({x, area_.top - 20}, fit_text(axis.name, title, 12), "ink bold", Anchor::kMiddle);
    if (axis.log) page_.text({x, area_.top - 7}, "log", "soft small", Anchor::kMiddle);
    for (const AxisTick& tick : marks_of(place)) {
      const double y = scales_[place].at(tick.value);
      page_.line({x - 3, y}, {x + 3, y}, "axis");
      if (tick.label.empty()) continue;
      const std::string label = fit_text(tick.label, last ? 46 : room * 0.6, 11);
      // A background keeps the label readable over lines.
      page_.rect({x + 5, y - 8}, text_width(label, 11) + 4, 15, "page o7");
      page_.text({x + 7, y + 4}, label, "ink small");
    }
    if (any_absent()) page_.text({x + 7, none_at() + 4}, "none", "soft small");
  }

  std::vector<AxisTick> marks_of(size_t place) const {
    const Axis& axis = plot_.axes[shown_[place]];
    if (axis.categories.empty()) return scales_[place].ticks(6);
    std::vector<AxisTick> ticks;
    for (size_t i = 0; i < std::min(axis.categories.size(), kCategoriesLabelled); ++i)
      ticks.push_back({static_cast<double>(i), axis.categories[i]});
    return ticks;
  }

  const ParallelPlot& plot_;
  SvgPage page_;
  std::vector<size_t> shown_;       // Indices of axes.
  std::vector<const Line*> order_;  // Worst first.
  std::vector<Scale> scales_;
  Area area_;
};

}  // namespace

std::string parallel_svg(const ParallelPlot& plot) { return ParallelDrawing(plot).draw(); }

}  // namespace volador::tune
