// What all plots share: title, axes with grid and marks, a legend, and what is shown instead where there is nothing to
// draw. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tune/plots/scale.h"
#include "tune/plots/svg.h"

namespace volador::tune {

struct Area {
  double left = 0, top = 0, right = 0, bottom = 0;
  double width() const { return right - left; }
  double height() const { return bottom - top; }
};

struct Heading {
  std::string title;
  std::string subtitle;
  bool operator==(const Heading&) const = default;
};

struct LegendEntry {
  std::string label;
  std::string style;  // Of the sample.
  bool area = false;  // The sample is a square, else a line.
};

// Title and subtitle; gives the area below, without margins for axes.
Area draw_heading(SvgPage& page, const Heading& heading);

// At the right of the area, at most as many entries as fit, the rest counted. Gives the width it took.
double legend_width(const std::vector<LegendEntry>& entries, std::string_view title);
void draw_legend(SvgPage& page, PlotPoint corner, double height, std::string_view title,
                 const std::vector<LegendEntry>& entries);

struct AxisLabel {
  std::string title;
  Unit unit = Unit::kNumber;
};
// Grid, marks and titles around the area.
void draw_axes(SvgPage& page, const Area& area, const Scale& x, const AxisLabel& x_label, const Scale& y,
               const AxisLabel& y_label);
void draw_y_axis(SvgPage& page, const Area& area, const Scale& y, const AxisLabel& label);
// The room that the marks of a vertical axis take, with its title.
double y_axis_width(const Scale& y, const AxisLabel& label);

// A page with the heading and, in its middle, why there is no plot.
std::string empty_plot(PlotSize size, const Heading& heading, std::string_view why);

}  // namespace volador::tune
