#include "tune/plots/curves_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/quantities.h"
#include "tune/plots/scale.h"

namespace volador::tune {
namespace {

using Curve = CurvesPlot::Curve;

constexpr size_t kCurvesMax = 5'000;
constexpr size_t kPointsMax = 200'000;
constexpr size_t kBestShown = 5;
constexpr int kStations = 160;  // Number of x positions at which medians are computed.

double last_of(const Curve& curve) {
  for (auto point = curve.points.rbegin(); point != curve.points.rend(); ++point) {
    if (std::isfinite(point->y)) return point->y;
  }
  return kNoValue;
}

// Worst first, so that the best are drawn on top.
std::vector<const Curve*> worst_first(const CurvesPlot& plot) {
  std::vector<const Curve*> order;
  for (const Curve& curve : plot.curves) order.push_back(&curve);
  std::stable_sort(order.begin(), order.end(),
                   [&](const Curve* a, const Curve* b) { return better(last_of(*b), last_of(*a), plot.mode); });
  if (order.size() > kCurvesMax) order.erase(order.begin(), order.end() - static_cast<std::ptrdiff_t>(kCurvesMax));
  return order;
}

// Returns the curve's interpolated value at x; NaN outside its range.
double value_at(const Curve& curve, double x) {
  const auto after = std::lower_bound(curve.points.begin(), curve.points.end(), x,
                                      [](const PlotPoint& point, double at) { return point.x < at; });
  if (after == curve.points.end()) return kNoValue;
  if (after->x == x) return after->y;
  if (after == curve.points.begin()) return kNoValue;
  const PlotPoint& a = *(after - 1);
  return a.y + (after->y - a.y) * (x - a.x) / (after->x - a.x);
}

double quantile(const std::vector<double>& sorted, double part) {
  const double at = part * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const double above = low + 1 < sorted.size() ? sorted[low + 1] : sorted[low];
  return sorted[low] + (above - sorted[low]) * (at - static_cast<double>(low));
}

class CurvesDrawing {
 public:
  explicit CurvesDrawing(const CurvesPlot& plot) : plot_(plot), page_(plot.size), order_(worst_first(plot)) {}

  std::string draw() {
    Extent x, y;
    for (const Curve* curve : order_) {
      for (const PlotPoint& point : curve->points) {
        if (!std::isfinite(point.y) || (plot_.log_y && point.y <= 0) || (plot_.log_x && point.x <= 0)) continue;
        x.add(point.x, plot_.log_x);
        y.add(point.y, plot_.log_y);
      }
    }
    if (y.empty) return empty_plot(plot_.size, plot_.heading, nothing());
    const std::vector<LegendEntry> legend = legend_entries();
    Heading heading = plot_.heading;
    if (order_.size() < plot_.curves.size()) heading.subtitle += fmt::format(" · the best {} are drawn", order_.size());
    Area area = draw_heading(page_, heading);
    const std::string title = grouped() ? plot_.group_title : plot_.curves.size() > kColours ? "best" : "trials";
    const double legend_room = legend_width(legend, title);
    area.bottom -= 48;
    area.right -= legend_room;
    area.left += y_axis_width(Scale(y, plot_.log_y, area.bottom, area.top, 0.04), plot_.y);
    const Scale across(x, plot_.log_x, area.left, area.right, 0.01), up(y, plot_.log_y, area.bottom, area.top, 0.04);
    draw_axes(page_, area, across, plot_.x, up, plot_.y);
    page_.begin_clip({area.left, area.top - 3}, area.width() + 3, area.height() + 6);
    draw_curves(across, up);
    if (grouped()) draw_medians(across, up);
    page_.end_clip();
    draw_legend(page_, {area.right + 20, area.top}, area.height(), title, legend);
    return page_.finish(plot_.heading.title, fmt::format("{} of {} over {}", plot_.y.title,
                                                         counted(plot_.curves.size(), "trial"), plot_.x.title));
  }

 private:
  bool grouped() const { return !plot_.groups.empty(); }
  std::string nothing() const {
    if (plot_.curves.empty()) return fmt::format("no trial has reported {} yet", plot_.y.title);
    return plot_.log_y || plot_.log_x ? "no value is above 0, as a logarithmic axis needs"
                                      : fmt::format("{} was never a finite number", plot_.y.title);
  }

  std::string colour(size_t group) const {
    if (!plot_.groups_ordered) return std::to_string(std::min(group, kColours - 1));
    const size_t count = plot_.groups.size();
    return std::to_string(count < 2 ? kShades - 1 : 2 + group * (kShades - 3) / (count - 1));
  }
  std::string stroke(size_t group) const { return (plot_.groups_ordered ? "t" : "s") + colour(group); }
  std::string area_of(size_t group) const { return (plot_.groups_ordered ? "u" : "f") + colour(group); }

  // The best has the first colour. Empty: grey.
  std::string stroke_of(size_t place) const {
    const size_t rank = order_.size() - 1 - place;
    return rank < (order_.size() <= kColours ? kColours : kBestShown) ? fmt::format("s{}", rank) : "";
  }

  std::vector<LegendEntry> legend_entries() const {
    std::vector<LegendEntry> entries;
    if (grouped()) {
      for (size_t i = 0; i < plot_.groups.size(); ++i) entries.push_back({plot_.groups[i], stroke(i) + " thick"});
      return entries;
    }
    for (size_t place = order_.size(); place-- > 0;) {
      if (const std::string style = stroke_of(place); !style.empty())
        entries.push_back(
            {fmt::format("{}  {}", order_[place]->label, value_text(last_of(*order_[place]))), style + " thick"});
    }
    if (order_.size() > entries.size())
      entries.push_back({fmt::format("{} more", order_.size() - entries.size()), "faint o7 thin"});
    return entries;
  }

  void draw_curves(const Scale& across, const Scale& up) {
    const size_t each =
        std::min<size_t>(2 * static_cast<size_t>(plot_.size.width), std::max<size_t>(8, kPointsMax / order_.size()));
    const std::string_view faint = order_.size() > 400 ? "o1" : order_.size() > 60 ? "o2" : "o4";
    for (size_t i = 0; i < order_.size(); ++i) {
      std::vector<PlotPoint> points;
      for (const PlotPoint& point : order_[i]->points) points.push_back({across.at(point.x), up.at(point.y)});
      points = thinned(points, each);
      const std::string own = grouped() ? "" : stroke_of(i);
      const std::string style = grouped()     ? fmt::format("{} thin {}", stroke(order_[i]->group), faint)
                                : own.empty() ? fmt::format("faint thin {}", faint)
                                              : own + " mid";
      page_.polyline(points, style, order_[i]->tip);
      if (points.size() == 1)
        page_.circle(points[0], 3,
                     grouped()     ? area_of(order_[i]->group)
                     : own.empty() ? "wash"
                                   : "f" + own.substr(1),
                     order_[i]->tip);
    }
  }

  void draw_medians(const Scale& across, const Scale& up) {
    Extent x;
    for (const Curve* curve : order_) {
      for (const PlotPoint& point : curve->points) x.add(point.x, plot_.log_x);
    }
    for (size_t group = 0; group < plot_.groups.size(); ++group) {
      std::vector<PlotPoint> median, low, high;
      for (const double at : stations(x)) {
        std::vector<double> values;
        for (const Curve* curve : order_) {
          if (curve->group != group) continue;
          if (const double value = value_at(*curve, at); std::isfinite(value)) values.push_back(value);
        }
        if (values.size() < 2) continue;
        std::sort(values.begin(), values.end());
        median.push_back({across.at(at), up.at(quantile(values, 0.5))});
        low.push_back({across.at(at), up.at(quantile(values, 0.25))});
        high.push_back({across.at(at), up.at(quantile(values, 0.75))});
      }
      low.insert(low.end(), high.rbegin(), high.rend());
      page_.polygon(low, area_of(group) + " band");
      page_.polyline(median, stroke(group) + " thick",
                     fmt::format("median of {} {}", plot_.group_title, plot_.groups[group]));
    }
  }

  // Every reported x if there are few, as with steps; otherwise evenly spaced ones.
  std::vector<double> stations(const Extent& x) const {
    std::vector<double> all;
    for (const Curve* curve : order_) {
      for (const PlotPoint& point : curve->points) {
        if (all.size() > 4 * kPointsMax) break;
        all.push_back(point.x);
      }
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (all.size() <= kStations) return all;
    std::vector<double> even;
    for (int i = 0; i <= kStations; ++i) {
      const double part = static_cast<double>(i) / kStations;
      even.push_back(plot_.log_x ? x.lo * std::pow(x.hi / x.lo, part) : x.lo + (x.hi - x.lo) * part);
    }
    return even;
  }

  const CurvesPlot& plot_;
  SvgPage page_;
  const std::vector<const Curve*> order_;
};

}  // namespace

std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points, size_t count) {
  if (points.size() <= count) return points;
  const size_t stretches = std::max<size_t>(1, count / 4);
  std::vector<PlotPoint> out;
  for (size_t i = 0; i < stretches; ++i) {
    const size_t begin = points.size() * i / stretches, end = points.size() * (i + 1) / stretches;
    if (begin >= end) continue;
    std::vector<size_t> kept{begin, end - 1};
    size_t low = begin, high = begin;
    for (size_t at = begin; at < end; ++at) {
      if (!(points[at].y >= points[low].y)) low = at;
      if (!(points[at].y <= points[high].y)) high = at;
    }
    kept.push_back(low);
    kept.push_back(high);
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    for (const size_t at : kept) out.push_back(points[at]);
  }
  return out;
}

std::string curves_svg(const CurvesPlot& plot) { return CurvesDrawing(plot).draw(); }

}  // namespace volador::tune
