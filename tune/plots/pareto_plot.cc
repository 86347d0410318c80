#include "tune/plots/pareto_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/quantities.h"

namespace volador::tune {
namespace {

using Dot = ParetoPlot::Dot;

constexpr size_t kFrontDotsMax = 20'000;

std::string objective_title(const AxisLabel& label, Mode mode) {
  return fmt::format("{}  ({} is better)", label.title, mode == Mode::kMin ? "less" : "more");
}

// Draws the front as a staircase: between two of its points nothing better than their worse values is known.
std::vector<PlotPoint> staircase(std::vector<const Dot*> front, const ParetoPlot& plot, const Scale& across,
                                 const Scale& up) {
  std::sort(front.begin(), front.end(),
            [](const Dot* a, const Dot* b) { return a->x != b->x ? a->x < b->x : a->y < b->y; });
  std::vector<PlotPoint> points;
  for (const Dot* dot : front) {
    const PlotPoint at{across.at(dot->x), up.at(dot->y)};
    if (!points.empty())
      points.push_back(plot.mode_x == Mode::kMin ? PlotPoint{at.x, points.back().y} : PlotPoint{points.back().x, at.y});
    points.push_back(at);
  }
  return points;
}

}  // namespace

std::string pareto_svg(const ParetoPlot& plot) {
  Extent x, y;
  std::vector<const Dot*> front, others, violating;
  for (const Dot& dot : plot.dots) {
    const bool drawable =
        std::isfinite(dot.x) && std::isfinite(dot.y) && !(plot.log_x && dot.x <= 0) && !(plot.log_y && dot.y <= 0);
    if (!drawable) continue;
    x.add(dot.x, plot.log_x);
    y.add(dot.y, plot.log_y);
    (dot.front ? front : dot.feasible ? others : violating).push_back(&dot);
  }
  if (x.empty)
    return empty_plot(plot.size, plot.heading,
                      fmt::format("no trial has finite values of both {} and {} yet", plot.x.title, plot.y.title));
  Heading heading = plot.heading;
  if (front.size() + others.size() + violating.size() > kFrontDotsMax) {
    heading.subtitle += fmt::format(" · {} dots are drawn", kFrontDotsMax);
    others.resize(std::min(others.size(), kFrontDotsMax - std::min(kFrontDotsMax, front.size())));
    violating.resize(std::min(violating.size(), kFrontDotsMax - std::min(kFrontDotsMax, front.size() + others.size())));
  }
  SvgPage page(plot.size);
  Area area = draw_heading(page, heading);
  std::vector<LegendEntry> legend{{fmt::format("front: {}", front.size()), "f1", true},
                                  {fmt::format("others: {}", others.size()), "f0", true}};
  if (!violating.empty()) legend.push_back({fmt::format("violate a constraint: {}", violating.size()), "f7", true});
  const AxisLabel x_label{objective_title(plot.x, plot.mode_x), plot.x.unit},
      y_label{objective_title(plot.y, plot.mode_y), plot.y.unit};
  area.bottom -= 48;
  area.right -= legend_width(legend, "trials");
  area.left += y_axis_width(Scale(y, plot.log_y, area.bottom, area.top, 0.04), y_label);
  const Scale across(x, plot.log_x, area.left, area.right, 0.04), up(y, plot.log_y, area.bottom, area.top, 0.05);
  draw_axes(page, area, across, x_label, up, y_label);
  const auto dot_of = [&](const Dot& dot, double radius, std::string_view style) {
    page.circle({across.at(dot.x), up.at(dot.y)}, radius, style, dot.tip);
  };
  for (const Dot* dot : violating) dot_of(*dot, 3, "f7 o4");
  for (const Dot* dot : others) dot_of(*dot, 3.5, others.size() > 1000 ? "f0 o4" : "f0 o7");
  page.polyline(staircase(front, plot, across, up), "s1 mid");
  for (const Dot* dot : front) dot_of(*dot, 5, "f1 edge");
  draw_legend(page, {area.right + 20, area.top}, area.height(), "trials", legend);
  return page.finish(plot.heading.title,
                     fmt::format("{}, {} of them on the front", counted(plot.dots.size(), "trial"), front.size()));
}

}  // namespace volador::tune
