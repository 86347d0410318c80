#include "tests/bench/figure.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/bench/busy_processes.h"

namespace volador::bench {

namespace {

// Returns the ratio of the worst run; 0: runs and baselines are not paired.
double worst_ratio(const Figure& figure, const Measured& measured) {
  if (measured.values.size() != measured.baselines.size()) return 0;
  std::vector<double> ratios;
  for (size_t i = 0; i < measured.values.size(); ++i) ratios.push_back(measured.values[i] / measured.baselines[i]);
  return figure.higher_is_better ? *std::min_element(ratios.begin(), ratios.end())
                                 : *std::max_element(ratios.begin(), ratios.end());
}

}  // namespace

int run_figures(int argc, char** argv, const std::vector<Figure>& figures) {
  bool json = false;
  int busy = 0;
  std::set<std::string> only;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--json") {
      json = true;
    } else if (argument == "--list") {
      for (const Figure& figure : figures) fmt::print("{}\n", figure.name);
      return 0;
    } else if (argument.starts_with("--busy=")) {
      const char* end = argument.data() + argument.size();
      const auto [stop, error] = std::from_chars(argument.data() + 7, end, busy);
      if (error != std::errc() || stop != end || busy < 0 || busy > kBusyMax) {
        fmt::print(stderr, "error: --busy: expected a number of processes from 0 to {}, got \"{}\"\n", kBusyMax,
                   argument.substr(7));
        return 2;
      }
    } else if (argument.starts_with("--only=")) {
      for (size_t at = 7; at <= argument.size();) {
        const size_t end = std::min(argument.find(',', at), argument.size());
        only.insert(argument.substr(at, end - at));
        at = end + 1;
      }
    } else {
      fmt::print(stderr, "usage: volador_bench [--only=NAME,…] [--busy=N] [--json] [--list]\n");
      return 2;
    }
  }
  for (const std::string& name : only) {
    if (std::none_of(figures.begin(), figures.end(), [&](const Figure& figure) { return figure.name == name; })) {
      fmt::print(stderr, "error: there is no figure \"{}\"; volador_bench --list names them\n", name);
      return 2;
    }
  }

  if (!json)
    fmt::print("{:<22} {:>12} {:<10} {:>12} {:>7} {:>7}  {}\n", "figure", "value", "unit", "limit", "ratio", "worst",
               "the limit");
  std::fflush(stdout);  // Figures fork.
  for (const Figure& figure : figures) {
    if (!only.empty() && !only.contains(figure.name)) continue;
    Measured measured;
    {
      const BusyProcesses beside(busy);
      measured = figure.measure();
    }
    if (measured.values.empty()) {  // The note explains why.
      if (json)
        fmt::print("{}\n",
                   nlohmann::json(
                       {{"name", figure.name}, {"value", nullptr}, {"unit", figure.unit}, {"not_run", measured.note}})
                       .dump());
      else
        fmt::print("{:<22} {:>12} {:<10} {:>12} {:>7} {:>7}  {}\n", figure.name, "-", figure.unit, "-", "-", "-",
                   measured.note);
      continue;
    }
    const double value = median(measured.values);
    const double baseline = median(measured.baselines);
    const double ratio = baseline > 0 ? value / baseline : 0;
    if (json) {
      fmt::print("{}\n",
                 nlohmann::json({{"name", figure.name},
                                 {"value", value},
                                 {"unit", figure.unit},
                                 {"baseline", measured.baselines.empty() ? nlohmann::json() : nlohmann::json(baseline)},
                                 {"ratio", measured.baselines.empty() ? nlohmann::json() : nlohmann::json(ratio)},
                                 {"runs", measured.values},
                                 {"baseline_runs", measured.baselines},
                                 {"busy", busy}})
                     .dump());
    } else if (measured.baselines.empty()) {
      fmt::print("{:<22} {:>12.4g} {:<10} {:>12} {:>7} {:>7}  {}\n", figure.name, value, figure.unit, "-", "-", "-",
                 measured.note);
    } else {
      const double worst = worst_ratio(figure, measured);
      fmt::print("{:<22} {:>12.4g} {:<10} {:>12.4g} {:>7.2f} {:>7}  {}\n", figure.name, value, figure.unit, baseline,
                 ratio, worst > 0 ? fmt::format("{:.2f}", worst) : "-", measured.note);
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace volador::bench
