// Pictures of a run, as SVG text: of one that has ended, and of one that goes on, as far as its directory tells.
//
//   auto analysis = tune::run<TrainDigits>({…});
//   tune::save_plot(analysis, {.kind = tune::PlotKind::kCurves, .group_by = "batch", .log_y = true}, "curves.svg");
//   std::string svg = tune::plot(tune::Analysis::load(directory), {.kind = tune::PlotKind::kImportance});
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/result.h"
#include "tune/plots/svg.h"
#include "tune/results/analysis.h"

namespace volador::tune {

enum class PlotKind : uint8_t {
  kCurves,      // The metric of each trial over its steps or its time.
  kParallel,    // Parallel coordinates: parameters and the metric of each trial.
  kImportance,  // How much of the metric's variance each parameter explains: fANOVA.
  kRungs,       // Who came how far in a halving search.
  kPareto,      // Two objectives against each other, with their front.
  kGantt,       // When which trial ran in which slot.
};
inline constexpr std::array kPlotKinds{PlotKind::kCurves, PlotKind::kParallel, PlotKind::kImportance,
                                       PlotKind::kRungs,  PlotKind::kPareto,   PlotKind::kGantt};
std::string_view to_string(PlotKind kind);  // "curves", "parallel", "importance", "rungs", "pareto", "gantt".

struct PlotOptions {
  PlotKind kind = PlotKind::kCurves;
  std::string metric = {};                  // Empty: the run's.
  std::optional<Mode> mode = std::nullopt;  // None: the run's.
  Scope scope = Scope::kLast;               // Which value of a trial counts for parallel coordinates and importance.
  std::string group_by =
      {};  // Curves: path of a parameter. Of a number with many values there are five groups of equal size.
  std::string x = "training_iteration";  // Curves: or "time_total_s", or any reported number that never falls.
  std::string versus = {};               // Pareto: the metric on the other axis; empty: the run's first two objectives.
  std::optional<Mode> versus_mode = std::nullopt;  // Of that; none: kMin.
  bool log_x = false,
       log_y =
           false;  // Logarithmic axes; of curves, rungs (y) and the front. Values that are not above 0 are left out.
  PlotSize size = {};  // At least 320 × 240.
};

// One document. Where there is no ground for the picture yet, as without a report, it says so in words. Throws
// volador::Exception: kInvalidArgument (a metric that no trial reports, a parameter that there is not, a size),
// kNotFound (rungs and Gantt need the run's journal), kUnavailable (its files).
std::string plot(const Analysis& analysis, const PlotOptions& options = {});
// To a file, atomically.
void save_plot(const Analysis& analysis, const PlotOptions& options, const std::filesystem::path& path);

}  // namespace volador::tune
