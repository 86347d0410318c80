#include "tune/plots/importance_plot.h"

#include <fmt/format.h>

#include <algorithm>

namespace volador::tune {
namespace {

constexpr size_t kBarsMax = 30;
constexpr double kRow = 30;

}  // namespace

std::string importance_svg(const ImportancePlot& plot) {
  if (plot.bars.empty()) return empty_plot(plot.size, plot.heading, "nothing to show yet");
  const size_t count = std::min(plot.bars.size(), kBarsMax);
  SvgPage page({plot.size.width, static_cast<int>(68 + 48 + 14 + kRow * static_cast<double>(count))});
  Area area = draw_heading(page, plot.heading);
  area.bottom -= 48;
  double widest = 0, largest = 0;
  bool pairs = false;
  for (size_t i = 0; i < count; ++i) {
    widest = std::max(widest, text_width(plot.bars[i].name, 12));
    largest = std::max(largest, 100 * (plot.bars[i].share + plot.bars[i].deviation));
    pairs = pairs || plot.bars[i].pair;
  }
  const std::vector<LegendEntry> legend{{"alone", "f0", true}, {"two together", "f5", true}};
  if (pairs) area.right -= legend_width(legend, "");
  const double names = std::min(widest, area.width() * 0.4);
  area.left += names + 12;
  area.right -= 56;
  Extent extent;
  extent.add(0, false);
  extent.add(std::clamp(largest, 5.0, 100.0), false);
  const Scale across(extent, false, area.left, area.right);
  for (const AxisTick& tick : across.ticks(8)) {
    page.line({across.at(tick.value), area.top}, {across.at(tick.value), area.bottom}, "grid");
    page.text({across.at(tick.value), area.bottom + 19}, tick.label + " %", "soft", Anchor::kMiddle);
  }
  page.text({(area.left + area.right) / 2, area.bottom + 40}, "explains of the variance over the whole space", "ink",
            Anchor::kMiddle);
  for (size_t i = 0; i < count; ++i) {
    const ImportancePlot::Bar& bar = plot.bars[i];
    const double y = area.top + kRow * static_cast<double>(i);
    const double share = 100 * bar.share, deviation = 100 * bar.deviation, middle = y + kRow / 2;
    const std::string tip = fmt::format("{}: {:.1f} % ± {:.1f}", bar.name, share, deviation);
    page.text({area.left - 8, middle + 4}, fit_text(bar.name, names, 12), "ink", Anchor::kEnd);
    page.rect({area.left, y + 5}, across.at(share) - area.left, kRow - 10, bar.pair ? "f5" : "f0", tip);
    const double low = std::max(0.0, share - deviation), high = std::min(100.0, share + deviation);
    page.line({across.at(low), middle}, {across.at(high), middle}, "ink-line thin o7");
    page.text({across.at(std::max(share, high)) + 7, middle + 4}, fmt::format("{:.1f} %", share), "soft");
  }
  page.line({area.left, area.top}, {area.left, area.bottom}, "axis");
  if (pairs) draw_legend(page, {area.right + 66, area.top}, area.height(), "", legend);
  return page.finish(plot.heading.title,
                     fmt::format("{} explains {:.0f} % of the variance", plot.bars[0].name, 100 * plot.bars[0].share));
}

}  // namespace volador::tune
