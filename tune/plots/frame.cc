#include "tune/plots/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace volador::tune {
namespace {

constexpr double kMargin = 20;
constexpr double kFont = 12;
constexpr double kLegendLine = 19;
constexpr double kLegendMax = 230;  // Maximum width of a label in pixels.
constexpr double kSample = 18;

int tick_count(double pixels, double each) { return std::clamp(static_cast<int>(pixels / each), 2, 12); }

std::string title_of(const AxisLabel& label, const Scale& scale) {
  return label.title + (scale.log() ? "  (log)" : "");
}

// Breaks text into lines of this width.
std::vector<std::string> wrapped(std::string_view text, double width, double font) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string word(text.substr(0, space));
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    const std::string joined = lines.back().empty() ? word : lines.back() + " " + word;
    if (text_width(joined, font) > width && !lines.back().empty()) {
      lines.push_back(word);
    } else {
      lines.back() = joined;
    }
  }
  return lines;
}

}  // namespace

Area draw_heading(SvgPage& page, const Heading& heading) {
  const double width = page.size().width - 2 * kMargin;
  page.text({kMargin, 30}, fit_text(heading.title, width, 16), "ink title");
  if (!heading.subtitle.empty()) page.text({kMargin, 50}, fit_text(heading.subtitle, width, kFont), "soft");
  return {kMargin, heading.subtitle.empty() ? 50.0 : 68.0, page.size().width - kMargin, page.size().height - 14.0};
}

double legend_width(const std::vector<LegendEntry>& entries, std::string_view title) {
  if (entries.empty()) return 0;
  double widest = text_width(title, kFont) - kSample - 8;
  for (const LegendEntry& entry : entries) widest = std::max(widest, text_width(entry.label, kFont));
  return std::min(widest, kLegendMax) + kSample + 8 + 24;
}

void draw_legend(SvgPage& page, PlotPoint corner, double height, std::string_view title,
                 const std::vector<LegendEntry>& entries) {
  double y = corner.y + 10;
  if (!title.empty()) {
    page.text({corner.x, y}, fit_text(title, kLegendMax + kSample, kFont), "ink bold");
    y += kLegendLine + 2;
  }
  const auto fitting = static_cast<size_t>(std::max(1.0, (corner.y + height - y) / kLegendLine));
  const size_t shown = entries.size() <= fitting ? entries.size() : fitting - 1;
  for (size_t i = 0; i < shown; ++i, y += kLegendLine) {
    if (entries[i].area) {
      page.rect({corner.x + 3, y - 9}, 10, 10, entries[i].style);
    } else {
      page.line({corner.x, y - 4}, {corner.x + kSample, y - 4}, entries[i].style);
    }
    page.text({corner.x + kSample + 8, y}, fit_text(entries[i].label, kLegendMax, kFont), "ink");
  }
  if (shown < entries.size()) page.text({corner.x, y}, fmt::format("… {} more", entries.size() - shown), "soft");
}

double y_axis_width(const Scale& y, const AxisLabel& label) {
  double widest = 0;
  for (const AxisTick& tick : y.ticks(8, label.unit)) widest = std::max(widest, text_width(tick.label, kFont));
  return widest + 14 + (label.title.empty() ? 0 : 18);
}

void draw_y_axis(SvgPage& page, const Area& area, const Scale& y, const AxisLabel& label) {
  double widest = 0;
  for (const AxisTick& tick : y.ticks(tick_count(area.height(), 46), label.unit)) {
    const double at = y.at(tick.value);
    if (!std::isfinite(at)) continue;
    if (!tick.label.empty()) page.line({area.left, at}, {area.right, at}, "grid");
    page.text({area.left - 8, at + 4}, tick.label, "soft", Anchor::kEnd);
    widest = std::max(widest, text_width(tick.label, kFont));
  }
  if (label.title.empty()) return;
  page.text({area.left - widest - 20, (area.top + area.bottom) / 2}, fit_text(title_of(label, y), area.height(), kFont),
            "ink", Anchor::kMiddle, -90);
}

void draw_axes(SvgPage& page, const Area& area, const Scale& x, const AxisLabel& x_label, const Scale& y,
               const AxisLabel& y_label) {
  draw_y_axis(page, area, y, y_label);
  for (const AxisTick& tick : x.ticks(tick_count(area.width(), 85), x_label.unit)) {
    const double at = x.at(tick.value);
    if (!std::isfinite(at)) continue;
    if (!tick.label.empty()) page.line({at, area.top}, {at, area.bottom}, "grid");
    page.line({at, area.bottom}, {at, area.bottom + (tick.label.empty() ? 3 : 5)}, "axis");
    page.text({at, area.bottom + 19}, tick.label, "soft", Anchor::kMiddle);
  }
  page.line({area.left, area.bottom}, {area.right, area.bottom}, "axis");
  page.text({(area.left + area.right) / 2, area.bottom + 40}, fit_text(title_of(x_label, x), area.width(), kFont),
            "ink", Anchor::kMiddle);
}

std::string empty_plot(PlotSize size, const Heading& heading, std::string_view why) {
  SvgPage page(size);
  const Area area = draw_heading(page, heading);
  page.rect({area.left, area.top}, area.width(), area.height() - 10, "wash");
  const std::vector<std::string> lines = wrapped(why, area.width() * 0.8, kFont);
  double y = (area.top + area.bottom) / 2 - 9 * static_cast<double>(lines.size() - 1);
  for (const std::string& line : lines) {
    page.text({(area.left + area.right) / 2, y}, line, "soft", Anchor::kMiddle);
    y += 18;
  }
  return page.finish(heading.title, why);
}

}  // namespace volador::tune
