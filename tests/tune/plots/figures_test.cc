// Plots: contents for given data, and well-formedness for any data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/tune/odd_values.h"
#include "tests/tune/plots/xml_reader.h"
#include "tune/plots/curves_plot.h"
#include "tune/plots/gantt_plot.h"
#include "tune/plots/importance_plot.h"
#include "tune/plots/parallel_plot.h"
#include "tune/plots/pareto_plot.h"
#include "tune/plots/rungs_plot.h"

namespace volador::tune {
namespace {

using ::testing::ElementsAre;
using testing::XmlReader;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr const char* kNasty = "a<b & \"c\" \x01\xff 飞鱼 ]]>";

XmlReader read(const std::string& svg) {
  XmlReader reader;
  EXPECT_EQ(reader.read(svg), "");
  EXPECT_EQ(svg.find("nan,"), std::string::npos) << "a coordinate that is no number";
  return reader;
}

TEST(SvgPage, EscapesWhateverTextsHold) {
  EXPECT_EQ(xml_text("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
  EXPECT_EQ(xml_text("飞鱼"), "飞鱼");
  EXPECT_EQ(xml_text(std::string_view("\0\x01\xff", 3)), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(xml_text("\xED\xA0\x80\xC0\xAF\xE9"),
            std::string("\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"))
      << "surrogate, overlong, cut";
}

CurvesPlot some_curves(size_t count, size_t points) {
  CurvesPlot plot{.heading = {kNasty, kNasty}, .x = {"step", Unit::kCount}, .y = {kNasty}};
  for (size_t i = 0; i < count; ++i) {
    CurvesPlot::Curve curve{.label = std::to_string(i), .tip = kNasty};
    for (size_t p = 1; p <= points; ++p)
      curve.points.push_back({static_cast<double>(p), static_cast<double>(i) - 1.0 / static_cast<double>(p)});
    plot.curves.push_back(std::move(curve));
  }
  return plot;
}

TEST(CurvesPlot, FewCurvesHaveAColourEach) {
  const XmlReader svg = read(curves_svg(some_curves(3, 10)));
  EXPECT_EQ(svg.count("polyline"), 3U);
  for (const char* colour : {"s0", "s1", "s2"}) EXPECT_EQ(svg.count("polyline", colour), 1U);
  EXPECT_TRUE(svg.has_text("2  1.9")) << "the best one's last value in the legend";
}

TEST(CurvesPlot, OfManyTheBestFiveAreInColour) {
  const XmlReader svg = read(curves_svg(some_curves(40, 5)));
  EXPECT_EQ(svg.count("polyline", "faint"), 35U);
  EXPECT_EQ(svg.count("polyline", "s4"), 1U);
  EXPECT_TRUE(svg.has_text("35 more"));
}

TEST(CurvesPlot, GroupsHaveTheirMedianAndHalfOfTheirCurvesInABand) {
  CurvesPlot plot = some_curves(12, 6);
  plot.group_title = "batch";
  plot.groups = {"16", "32"};
  for (size_t i = 0; i < 12; ++i) plot.curves[i].group = i % 2;
  const XmlReader svg = read(curves_svg(plot));
  EXPECT_EQ(svg.count("polygon", "band"), 2U);
  EXPECT_EQ(svg.count("polyline", "thick"), 2U);
  EXPECT_EQ(svg.count("polyline", "thin"), 12U);
  plot.groups_ordered = true;
  EXPECT_EQ(read(curves_svg(plot)).count("polyline", "s0"), 0U) << "shades";
}

TEST(CurvesPlot, SaysWhereThereIsNothingToDraw) {
  CurvesPlot plot = some_curves(0, 0);
  plot.y.title = "loss";
  EXPECT_TRUE(read(curves_svg(plot)).has_text("no trial has reported loss yet"));
  plot = some_curves(2, 3);
  for (auto& curve : plot.curves) {
    for (PlotPoint& point : curve.points) point.y = kNan;
  }
  EXPECT_TRUE(read(curves_svg(plot)).has_text("was never a finite number"));
  for (auto& curve : plot.curves) {
    for (PlotPoint& point : curve.points) point.y = -1;
  }
  plot.log_y = true;
  EXPECT_TRUE(read(curves_svg(plot)).has_text("no value is above 0"));
}

TEST(CurvesPlot, GapsAndInfinitiesAreNoPoints) {
  CurvesPlot plot = some_curves(1, 7);
  plot.curves[0].points[3].y = kNan;
  EXPECT_EQ(read(curves_svg(plot)).count("polyline"), 2U) << "a gap";
  plot.curves[0].points[3].y = kInfinity;
  plot.curves[0].points[5].y = -kInfinity;
  read(curves_svg(plot));
  plot.curves[0].points.resize(1);
  EXPECT_EQ(read(curves_svg(plot)).count("circle"), 1U) << "a point alone is a dot";
}

TEST(CurvesPlot, ThinnedCurvesKeepTheirPeaks) {
  std::vector<PlotPoint> points;
  for (int i = 0; i < 10'000; ++i)
    points.push_back({static_cast<double>(i), i == 4321 ? 100.0 : i == 777 ? -5.0 : 0.0});
  const std::vector<PlotPoint> thin = thinned(points, 200);
  EXPECT_LE(thin.size(), 200U);
  const auto has = [&](double y) {
    return std::any_of(thin.begin(), thin.end(), [y](const PlotPoint& point) { return point.y == y; });
  };
  EXPECT_TRUE(has(100));
  EXPECT_TRUE(has(-5));
  EXPECT_EQ(thin.front().x, 0);
  EXPECT_EQ(thin.back().x, 9999);
  EXPECT_LT(curves_svg(some_curves(6'000, 2)).size(), 3'000'000U) << "of too many curves the worst are left out";
}

TEST(ParallelPlot, DrawsALineATrialAndTheBestOnTop) {
  ParallelPlot plot{.heading = {kNasty, ""},
                    .axes = {{"lr", true, {}}, {kNasty, false, {"relu", kNasty}}, {"loss", false, {}}},
                    .mode = Mode::kMin};
  for (int i = 1; i <= 20; ++i)
    plot.lines.push_back({.tip = kNasty, .values = {1e-4 * i, static_cast<double>(i % 2), 1.0 / i}});
  plot.lines[4].values[0] = kNan;      // Has none.
  plot.lines[5].values.back() = kNan;  // Not drawn.
  const XmlReader svg = read(parallel_svg(plot));
  EXPECT_EQ(svg.count("polyline"), 19U);
  EXPECT_EQ(svg.count("polyline", "s1"), 1U);
  EXPECT_TRUE(svg.has_text("relu"));
  EXPECT_TRUE(svg.has_text("none"));
  EXPECT_TRUE(svg.has_text("log"));
  plot.lines.clear();
  EXPECT_TRUE(read(parallel_svg(plot)).has_text("no trial has a finite loss yet"));
}

TEST(ImportancePlot, DrawsABarAParameterAndTellsPairsApart) {
  const XmlReader svg = read(importance_svg(
      {.heading = {"What", ""}, .bars = {{kNasty, 0.7, 0.1}, {"lr × wd", 0.2, 0.05, true}, {"wd", 0.004, 0.01}}}));
  EXPECT_EQ(svg.count("rect", "f0"), 3U) << "two bars, and the legend";
  EXPECT_EQ(svg.count("rect", "f5"), 2U);
  EXPECT_TRUE(svg.has_text("70.0 %"));
}

TEST(RungsPlot, CountsWhoReachedARungAndWhoWentOn) {
  RungsPlot plot{.heading = {"Rungs", kNasty}, .y = {"loss"}, .mode = Mode::kMin};
  plot.rungs.push_back({.bracket = 0, .milestone = 1, .cutoff = 0.4});
  for (int i = 0; i < 9; ++i)
    plot.rungs[0].members.push_back({.tip = kNasty, .value = 0.1 * i, .act = i < 3 ? Act::kPassed : Act::kStopped});
  plot.rungs[0].members.push_back({.value = kNan, .act = Act::kStopped});
  plot.rungs.push_back({.bracket = 0,
                        .milestone = 3,
                        .members = {{.value = 0.05, .act = Act::kPassed}, {.value = kInfinity, .act = Act::kPaused}}});
  const XmlReader svg = read(rungs_svg(plot));
  EXPECT_EQ(svg.count("circle"), 12U);
  EXPECT_EQ(svg.count("circle", "f7"), 7U);
  EXPECT_TRUE(svg.has_text("10 → 3"));
  EXPECT_TRUE(svg.has_text("3 steps"));
  EXPECT_EQ(svg.count("line", "dash"), 2U) << "the cut-off, and the legend";
  plot.rungs.clear();
  EXPECT_TRUE(read(rungs_svg(plot)).has_text("no trial has reached a rung yet"));
}

TEST(ParetoPlot, TheFrontIsAStaircase) {
  ParetoPlot plot{.heading = {"Front", ""}, .x = {"error"}, .y = {kNasty}, .mode_x = Mode::kMin, .mode_y = Mode::kMax};
  plot.dots = {{.x = 1, .y = 1, .front = true},
               {.x = 2, .y = 5, .front = true},
               {.x = 3, .y = 2},
               {.x = 0.5, .y = 9, .feasible = false},
               {.x = kNan, .y = 1}};
  const XmlReader svg = read(pareto_svg(plot));
  EXPECT_EQ(svg.count("circle", "f1"), 2U);
  EXPECT_EQ(svg.count("circle"), 4U);
  EXPECT_EQ(svg.count("polyline", "s1"), 1U);
  EXPECT_TRUE(svg.has_text("(less is better)"));
  plot.dots.clear();
  EXPECT_TRUE(read(pareto_svg(plot)).has_text("no trial has finite values"));
}

TEST(GanttPlot, TheLowestFreeSlotOfANodeIsTaken) {
  const SlotPlan plan = plan_slots({{"b", 0, 5}, {"a", 0, 2}, {"a", 1, 4}, {"a", 2, 3}, {"b", 5, 6}, {"a", 3.5, 9}});
  EXPECT_THAT(plan.slots, ElementsAre("a", "a", "b"));
  EXPECT_THAT(plan.slot_of, ElementsAre(2, 0, 1, 0, 2, 0));
}

TEST(GanttPlot, DrawsABarAnAttempt) {
  GanttPlot plot{.heading = {"Slots", "x"}};
  for (int i = 0; i < 8; ++i)
    plot.bars.push_back({kNasty, i * 1.0, i + 1.5,
                         i == 7   ? TrialStatus::kRunning
                         : i == 2 ? TrialStatus::kFailed
                                  : TrialStatus::kFinished,
                         kNasty});
  const XmlReader svg = read(gantt_svg(plot));
  EXPECT_EQ(svg.count("rect", "f2"), 7U) << "six, and the legend";
  EXPECT_EQ(svg.count("rect", "f1"), 2U);
  EXPECT_TRUE(svg.has_text("2 slots"));
  for (int i = 0; i < 3000; ++i) plot.bars.push_back({"n", 0, 1, TrialStatus::kFinished, ""});
  read(gantt_svg(plot));
  EXPECT_TRUE(read(gantt_svg({.heading = {"Slots", ""}})).has_text("no trial has started yet"));
}

}  // namespace
}  // namespace volador::tune
