#include "tests/bench/figure.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

namespace volador::bench {

int run_figures(int argc, char** argv, const std::vector<Figure>& figures) {
  bool json = false;
  std::set<std::string> only;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--json") {
      json = true;
    } else if (argument == "--list") {
      for (const Figure& figure : figures) fmt::print("{}\n", figure.name);
      return 0;
    } else if (argument.starts_with("--only=")) {
      for (size_t at = 7; at <= argument.size();) {
        const size_t end = std::min(argument.find(',', at), argument.size());
        only.insert(argument.substr(at, end - at));
        at = end + 1;
      }
    } else {
      fmt::print(stderr, "usage: volador_bench [--only=NAME,…] [--json] [--list]\n");
      return 2;
    }
  }
  for (const std::string& name : only) {
    if (std::none_of(figures.begin(), figures.end(), [&](const Figure& figure) { return figure.name == name; })) {
      fmt::print(stderr, "error: there is no figure \"{}\"; volador_bench --list names them\n", name);
      return 2;
    }
  }

  if (!json) fmt::print("{:<22} {:>12} {:<10} {:>12} {:>7}  {}\n", "figure", "value", "unit", "limit", "ratio", "the limit");
  std::fflush(stdout);  // Figures fork.
  for (const Figure& figure : figures) {
    if (!only.empty() && !only.contains(figure.name)) continue;
    const auto measured = figure.measure();
    if (measured.values.empty()) {  // The note says why.
      if (json) fmt::print("{}\n", nlohmann::json({{"name", figure.name}, {"value", nullptr}, {"unit", figure.unit}, {"not_run", measured.note}}).dump());
      else fmt::print("{:<22} {:>12} {:<10} {:>12} {:>7}  {}\n", figure.name, "-", figure.unit, "-", "-", measured.note);
      continue;
    }
    const double value = median(measured.values);
    const double baseline = median(measured.baselines);
    const double ratio = baseline > 0 ? value / baseline : 0;
    if (json) {
      fmt::print("{}\n", nlohmann::json({{"name", figure.name},
                                         {"value", value},
                                         {"unit", figure.unit},
                                         {"baseline", measured.baselines.empty() ? nlohmann::json() : nlohmann::json(baseline)},
                                         {"ratio", measured.baselines.empty() ? nlohmann::json() : nlohmann::json(ratio)},
                                         {"runs", measured.values}})
                             .dump());
    } else if (measured.baselines.empty()) {
      fmt::print("{:<22} {:>12.4g} {:<10} {:>12} {:>7}  {}\n", figure.name, value, figure.unit, "-", "-", measured.note);
    } else {
      fmt::print("{:<22} {:>12.4g} {:<10} {:>12.4g} {:>7.2f}  {}\n", figure.name, value, figure.unit, baseline, ratio, measured.note);
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace volador::bench
