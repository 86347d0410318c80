#include "tune/plots/gantt_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <queue>

#include "runtime/quantities.h"

namespace volador::tune {
namespace {

using Bar = GanttPlot::Bar;

constexpr size_t kSlotBarsMax = 50'000;
constexpr size_t kTipsMax = 5'000;
constexpr double kRowsMax = 1'600;  // Maximum height of all rows in pixels.

struct Kind {
  TrialStatus status;
  std::string_view style;
};
constexpr std::array kKinds{Kind{TrialStatus::kRunning, "f4"}, Kind{TrialStatus::kFinished, "f2"},
                            Kind{TrialStatus::kStopped, "f0"}, Kind{TrialStatus::kPaused, "f5"},
                            Kind{TrialStatus::kFailed, "f1"},  Kind{TrialStatus::kInterrupted, "f3"},
                            Kind{TrialStatus::kWaiting, "f7"}};

std::string_view style_of(TrialStatus status) {
  for (const Kind& kind : kKinds) {
    if (kind.status == status) return kind.style;
  }
  return "f7";
}

std::vector<LegendEntry> legend_of(const std::vector<Bar>& bars) {
  std::vector<LegendEntry> entries;
  for (const Kind& kind : kKinds) {
    const auto count =
        std::count_if(bars.begin(), bars.end(), [&](const Bar& bar) { return bar.status == kind.status; });
    const std::string_view name = kind.status == TrialStatus::kWaiting ? "tried again" : to_string(kind.status);
    if (count > 0) entries.push_back({fmt::format("{}: {}", name, count), std::string(kind.style), true});
  }
  return entries;
}

// Returns the used fraction of slots × time.
double utilisation(const std::vector<Bar>& bars, size_t slots, double end) {
  double used = 0;
  for (const Bar& bar : bars) used += bar.end_s - bar.begin_s;
  return slots == 0 || end <= 0 ? 0 : used / (static_cast<double>(slots) * end);
}

}  // namespace

SlotPlan plan_slots(const std::vector<Bar>& bars) {
  std::map<std::string, std::vector<size_t>> by_node;
  for (size_t i = 0; i < bars.size(); ++i) by_node[bars[i].node].push_back(i);
  SlotPlan plan{.slot_of = std::vector<size_t>(bars.size())};
  for (auto& [node, members] : by_node) {
    std::stable_sort(members.begin(), members.end(),
                     [&](size_t a, size_t b) { return bars[a].begin_s < bars[b].begin_s; });
    using Busy = std::pair<double, size_t>;  // End time, slot.
    std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy;
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> free;
    const size_t first = plan.slots.size();
    for (const size_t index : members) {
      for (; !busy.empty() && busy.top().first <= bars[index].begin_s; busy.pop()) free.push(busy.top().second);
      if (free.empty()) {
        free.push(plan.slots.size());
        plan.slots.push_back(node);
      }
      const size_t slot = std::max(free.top(), first);
      free.pop();
      plan.slot_of[index] = slot;
      busy.emplace(bars[index].end_s, slot);
    }
  }
  return plan;
}

std::string gantt_svg(const GanttPlot& plot) {
  if (plot.bars.empty()) return empty_plot(plot.size, plot.heading, "no trial has started yet");
  std::vector<Bar> bars = plot.bars;
  Heading heading = plot.heading;
  if (bars.size() > kSlotBarsMax) {
    std::stable_sort(bars.begin(), bars.end(), [](const Bar& a, const Bar& b) { return a.begin_s < b.begin_s; });
    bars.resize(kSlotBarsMax);
    heading.subtitle += fmt::format(" · the first {} of {} attempts are drawn", kSlotBarsMax, plot.bars.size());
  }
  const SlotPlan plan = plan_slots(bars);
  double end = plot.end_s, names = 0;
  for (const Bar& bar : bars) end = std::max(end, bar.end_s);
  heading.subtitle += fmt::format(" · {}, {:.0f} % of the time in use", counted(plan.slots.size(), "slot"),
                                  100 * utilisation(bars, plan.slots.size(), end));
  const double row = std::clamp(kRowsMax / static_cast<double>(plan.slots.size()), 2.0, 24.0);
  const double height = row * static_cast<double>(plan.slots.size());
  SvgPage page({plot.size.width, static_cast<int>(68 + height + 48 + 14)});
  Area area = draw_heading(page, heading);
  const std::vector<LegendEntry> legend = legend_of(bars);
  for (const std::string& node : plan.slots) names = std::max(names, text_width(node.empty() ? "slot" : node, 12) + 28);
  names = std::min(names, 180.0);
  area.left += names;
  area.right -= legend_width(legend, "attempts");
  area.bottom = area.top + height;
  Extent extent;
  extent.add(0, false);
  extent.add(end, false);
  const Scale across(extent, false, area.left, area.right);
  for (const AxisTick& tick : across.ticks(static_cast<int>(area.width() / 90), Unit::kSeconds)) {
    page.line({across.at(tick.value), area.top}, {across.at(tick.value), area.bottom}, "grid");
    page.text({across.at(tick.value), area.bottom + 19}, tick.label, "soft", Anchor::kMiddle);
  }
  page.text({(area.left + area.right) / 2, area.bottom + 40}, "time since the start", "ink", Anchor::kMiddle);
  std::map<std::string, int> numbers;
  for (size_t slot = 0; slot < plan.slots.size(); ++slot) {
    const double y = area.top + row * static_cast<double>(slot);
    const int number = ++numbers[plan.slots[slot]];
    const std::string& node = plan.slots[slot];
    if (row >= 11)
      page.text({area.left - 8, y + row / 2 + 4},
                fit_text(fmt::format("{} {}", node.empty() ? "slot" : node, number), names, 12), "soft", Anchor::kEnd);
  }
  const double gap = row > 6 ? 2 : 0;
  for (size_t i = 0; i < bars.size(); ++i) {
    const double left = across.at(bars[i].begin_s), y = area.top + row * static_cast<double>(plan.slot_of[i]);
    page.rect({left, y + gap}, std::max(across.at(bars[i].end_s) - left - 0.5, 0.7), row - 2 * gap,
              style_of(bars[i].status), i < kTipsMax ? std::string_view(bars[i].tip) : std::string_view());
  }
  page.line({area.left, area.bottom}, {area.right, area.bottom}, "axis");
  draw_legend(page, {area.right + 20, area.top}, page.size().height - area.top - 20, "attempts", legend);
  return page.finish(plot.heading.title,
                     fmt::format("{} on {} over {}", counted(bars.size(), "attempt"),
                                 counted(plan.slots.size(), "slot"), value_text(end, Unit::kSeconds)));
}

}  // namespace volador::tune
