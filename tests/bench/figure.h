// Benchmark figures, each with its limit measured in the same run.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace volador::bench {

constexpr size_t kGigabyte = 1'000'000'000;  // Bytes.

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Measured {
  std::vector<double> values;     // One per run; the median counts.
  std::vector<double> baselines;  // One per run, or none.
  std::string note = {};          // Description of the baseline.
};

struct Figure {
  std::string name;
  std::string unit;
  bool higher_is_better = true;
  std::function<Measured()> measure;
};

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

inline double p99(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() * 99 / 100];
}

inline constexpr int kBusyMax = 1024;

// Runs the program: [--only=NAME,…] [--busy=N] [--json] [--list]. Prints a line for each figure and returns the exit
// code. With --busy, N processes use the CPU during the measurements (busy_processes.h). "worst" is the ratio of the
// worst run.
int run_figures(int argc, char** argv, const std::vector<Figure>& figures);

// Each file of this folder provides its figures.
std::vector<Figure> call_figures();
std::vector<Figure> cluster_figures();
std::vector<Figure> dashboard_figures();
std::vector<Figure> head_memory_figures();
std::vector<Figure> task_figures();
std::vector<Figure> group_figures();
std::vector<Figure> object_figures();
std::vector<Figure> remote_figures();
std::vector<Figure> tune_figures();
std::vector<Figure> search_figures();
std::vector<Figure> schedule_figures();
std::vector<Figure> shared_figures();

}  // namespace volador::bench
