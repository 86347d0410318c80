// Plots of a run as SVG text, for finished and for running experiments, from the data in the run's directory.
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
  kCurves,      // The metric of each trial over steps or time.
  kParallel,    // Parallel coordinates: parameters and the metric of each trial.
  kImportance,  // Fraction of the metric's variance that each parameter explains: fANOVA.
  kRungs,       // Trials that reached each rung of a halving search.
  kPareto,      // Two objectives against each other, with their Pareto front.
  kGantt,       // Trials by slot and time.
};
inline constexpr std::array kPlotKinds{PlotKind::kCurves, PlotKind::kParallel, PlotKind::kImportance,
                                       PlotKind::kRungs,  PlotKind::kPareto,   PlotKind::kGantt};
std::string_view to_string(PlotKind kind);  // "curves", "parallel", "importance", "rungs", "pareto", "gantt".

struct PlotOptions {
  PlotKind kind = PlotKind::kCurves;
  std::string metric = {};                  // Empty: the run's.
  std::optional<Mode> mode = std::nullopt;  // No value: the run's.
  Scope scope = Scope::kLast;               // Value that ranks a trial in parallel coordinates and importance.
  std::string group_by =
      {};  // Curves: path of a parameter. A number with many values is split into five groups of equal size.
  std::string x = "training_iteration";  // Curves: or "time_total_s", or any reported number that never decreases.
  std::string versus = {};               // Pareto: the metric on the other axis; empty: the run's first two objectives.
  std::optional<Mode> versus_mode = std::nullopt;  // Direction of `versus`; no value: kMin.
  bool log_x = false,
       log_y = false;  // Logarithmic axes of curves, rungs (y) and the front. Values that are not above 0 are dropped.
  PlotSize size = {};  // At least 320 × 240.
};

// Returns one SVG document. If there is no data yet, for example no report, it contains a message. Throws
// volador::Exception: kInvalidArgument (a metric that no trial reports, an unknown parameter, a size), kNotFound (rungs
// and Gantt need the run's journal), kUnavailable (its files).
std::string plot(const Analysis& analysis, const PlotOptions& options = {});
// Writes the plot to a file, atomically.
void save_plot(const Analysis& analysis, const PlotOptions& options, const std::filesystem::path& path);

}  // namespace volador::tune
