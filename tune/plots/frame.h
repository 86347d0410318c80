// Common parts of all plots: title, axes with grid and ticks, legend, and the placeholder for an empty plot. Pure.
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
  std::string style;  // Style of the sample.
  bool area = false;  // The sample is a square, else a line.
};

// Draws title and subtitle; returns the area below, without margins for axes.
Area draw_heading(SvgPage& page, const Heading& heading);

// Legend at the right of the area, with as many entries as fit and the number of the others. legend_width() returns its
// width.
double legend_width(const std::vector<LegendEntry>& entries, std::string_view title);
void draw_legend(SvgPage& page, PlotPoint corner, double height, std::string_view title,
                 const std::vector<LegendEntry>& entries);

struct AxisLabel {
  std::string title;
  Unit unit = Unit::kNumber;
};
// Draws grid, ticks and titles around the area.
void draw_axes(SvgPage& page, const Area& area, const Scale& x, const AxisLabel& x_label, const Scale& y,
               const AxisLabel& y_label);
void draw_y_axis(SvgPage& page, const Area& area, const Scale& y, const AxisLabel& label);
// Returns the width of a vertical axis: ticks and title.
double y_axis_width(const Scale& y, const AxisLabel& label);

// Returns a page with the heading and, centred, the reason why there is no plot.
std::string empty_plot(PlotSize size, const Heading& heading, std::string_view why);

}  // namespace volador::tune
