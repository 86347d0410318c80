#include "tune/plots/rungs_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/quantities.h"

namespace volador::tune {
namespace {

using Member = RungsPlot::Member;
using Rung = RungsPlot::Rung;

constexpr size_t kRungsMax = 40;
constexpr size_t kRungDotsMax = 20'000;

struct RungKind {
  Act act;
  std::string_view label, style;
};
constexpr RungKind kRungKinds[] = {{Act::kPassed, "went on", "f0"},    {Act::kResumed, "promoted later", "f4"},
                                   {Act::kFinished, "finished", "f2"}, {Act::kStopped, "stopped", "f7"},
                                   {Act::kPaused, "paused", "f5"},     {Act::kCloned, "became a copy", "f3"}};

std::string_view style_of(Act act) {
  for (const RungKind& kind : kRungKinds) {
    if (kind.act == act) return kind.style;
  }
  return "f7";
}
bool went_on(Act act) {
  return act == Act::kPassed || act == Act::kResumed || act == Act::kFinished || act == Act::kCloned;
}

class RungsDrawing {
 public:
  explicit RungsDrawing(const RungsPlot& plot) : plot_(plot), page_(plot.size) {}

  std::string draw() {
    Extent extent;
    size_t dots = 0;
    for (const Rung& rung : plot_.rungs) {
      dots += rung.members.size();
      for (const Member& member : rung.members) extent.add(member.value, plot_.log_y);
    }
    if (dots == 0) return empty_plot(plot_.size, plot_.heading, "no trial has reached a rung yet");
    Heading heading = plot_.heading;
    count_ = std::min(plot_.rungs.size(), kRungsMax);
    if (count_ < plot_.rungs.size())
      heading.subtitle += fmt::format(" · the first {} of {} rungs are drawn", count_, plot_.rungs.size());
    if (dots > kRungDotsMax) heading.subtitle += " · a part of the dots is drawn";
    each_ = dots > kRungDotsMax ? kRungDotsMax / count_ : dots;
    area_ = draw_heading(page_, heading);
    const std::vector<LegendEntry> legend = legend_entries();
    const double legend_room = legend_width(legend, "at the rung");
    area_.top += 10;
    area_.bottom -= 66;
    area_.right -= legend_room;
    area_.left += y_axis_width(Scale(extent, plot_.log_y, area_.bottom, area_.top, 0.04), plot_.y);
    const Scale up(extent, plot_.log_y, area_.bottom, area_.top, 0.04);
    draw_y_axis(page_, area_, up, plot_.y);
    page_.line({area_.left, area_.bottom}, {area_.right, area_.bottom}, "axis");
    for (size_t i = 0; i < count_; ++i) draw_rung(i, up);
    page_.text({(area_.left + area_.right) / 2, area_.bottom + 58}, "rung: reached → went on", "ink", Anchor::kMiddle);
    draw_legend(page_, {area_.right + 20, area_.top}, area_.height(), "at the rung", legend);
    return page_.finish(plot_.heading.title,
                        fmt::format("{}, {} reached the first one", counted(plot_.rungs.size(), "rung"),
                                    plot_.rungs[0].members.size()));
  }

 private:
  bool several_brackets() const { return plot_.rungs.front().bracket != plot_.rungs.back().bracket; }

  std::vector<LegendEntry> legend_entries() const {
    std::vector<LegendEntry> entries;
    bool cut = false;
    for (const RungKind& kind : kRungKinds) {
      size_t found = 0;
      for (const Rung& rung : plot_.rungs)
        found += static_cast<size_t>(std::count_if(rung.members.begin(), rung.members.end(),
                                                   [&](const Member& one) { return one.act == kind.act; }));
      if (found > 0) entries.push_back({std::string(kind.label), std::string(kind.style), true});
    }
    for (const Rung& rung : plot_.rungs) cut = cut || std::isfinite(rung.cutoff);
    if (cut) entries.push_back({"cut-off", "ink-line mid dash"});
    return entries;
  }

  void draw_rung(size_t index, const Scale& up) {
    const Rung& rung = plot_.rungs[index];
    const double width = area_.width() / static_cast<double>(count_);
    const double left = area_.left + width * static_cast<double>(index), middle = left + width / 2;
    if (index > 0) {
      const bool border = plot_.rungs[index - 1].bracket != rung.bracket;
      page_.line({left, area_.top}, {left, area_.bottom}, border ? "axis" : "grid");
    }
    draw_dots(rung, middle, width - 12, up);
    if (const double cut = up.at(rung.cutoff); cut >= area_.top && cut <= area_.bottom)
      page_.line({left + 6, cut}, {left + width - 6, cut}, "ink-line mid dash");
    const auto passed =
        std::count_if(rung.members.begin(), rung.members.end(), [](const Member& one) { return went_on(one.act); });
    const std::string name = fmt::format("{}{}", several_brackets() ? fmt::format("b{} · ", rung.bracket) : "",
                                         counted(value_text(rung.milestone), "step"));
    page_.text({middle, area_.bottom + 19}, fit_text(name, width, 12), "ink", Anchor::kMiddle);
    page_.text({middle, area_.bottom + 36}, fit_text(fmt::format("{} → {}", rung.members.size(), passed), width, 12),
               "soft", Anchor::kMiddle);
  }

  // Draws dots of equal height side by side, from the middle outwards.
  void draw_dots(const Rung& rung, double middle, double width, const Scale& up) {
    const double radius = rung.members.size() > 400 ? 2 : rung.members.size() > 100 ? 3 : 4.5;
    const double step = 2 * radius + 0.5;
    const auto fitting = std::max<size_t>(1, static_cast<size_t>(width / step));
    std::map<int, size_t> taken;  // Number of dots in each band.
    const size_t shown = std::min(rung.members.size(), each_);
    for (size_t i = 0; i < shown; ++i) {
      const Member& member = rung.members[i];
      double y = up.at(member.value);
      if (!std::isfinite(y))
        y = (plot_.mode == Mode::kMax) == !(member.value > 0) ? area_.bottom - radius : area_.top + radius;
      const size_t place = taken[static_cast<int>(y / step)]++ % fitting;
      const double side = (place % 2 == 0 ? 1.0 : -1.0) * static_cast<double>((place + 1) / 2);
      page_.circle({middle + side * step, y}, radius, fmt::format("{} edge", style_of(member.act)),
                   shown > 2000 ? "" : member.tip);
    }
  }

  const RungsPlot& plot_;
  SvgPage page_;
  Area area_;
  size_t count_ = 0, each_ = 0;
};

}  // namespace

std::string rungs_svg(const RungsPlot& plot) { return RungsDrawing(plot).draw(); }

}  // namespace volador::tune
