// A searcher that communicates over pipes, for comparisons on functions in another language:
// scripts/compare_search_wide.py.
//
//   search_asks
//
// Reads one study per line: {"space": …, "searcher": "tpe:gamma=0.1", "seed": 7, "trials": 200, "modes": ["min"],
// "constraints": 0}; the space as in tune/space/space_json.h, the searcher as in tune/searchers/searcher_spec.h. For
// each trial it writes the configuration as a line of JSON and reads a line with the values and constraints, separated
// by spaces; an empty line is a failed trial. Values are minimised unless "modes" differs.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/result.h"
#include "tune/searchers/searcher_spec.h"
#include "tune/space/space_json.h"
#include "tune/study/study.h"

namespace volador::bench {
namespace {

using tune::Config;

tune::Study study_of(const Config& asked) {
  auto space = tune::space_from_json(asked["space"]);
  if (!space) throw Exception(space.error());
  auto searcher = tune::searcher_of(asked.text("searcher"));
  if (!searcher) throw Exception(searcher.error());
  tune::StudyOptions options{.space = std::move(*space),
                             .searcher = std::move(*searcher),
                             .seed = static_cast<uint64_t>(asked.integer("seed"))};
  if (const Config* modes = asked.find("modes"); modes != nullptr && modes->size() > 1) {
    for (const Config& mode : modes->items())
      options.modes.push_back(mode.text() == "max" ? tune::Mode::kMax : tune::Mode::kMin);
  }
  if (asked.contains("constraints")) options.constraints = asked.integer("constraints");
  return tune::Study(std::move(options));
}

void tell(tune::Study& study, const tune::Study::Trial& trial, const std::string& line, size_t objectives) {
  std::istringstream words(line);
  std::vector<double> values, constraints;
  for (std::string word; words >> word;) (values.size() < objectives ? values : constraints).push_back(std::stod(word));
  if (values.empty()) return study.tell(trial, std::nullopt);
  study.tell(trial, values, constraints);
}

void run(const Config& asked) {
  tune::Study study = study_of(asked);
  const size_t objectives = asked.contains("modes") ? asked["modes"].size() : 1;
  for (int64_t i = 0; i < asked.integer("trials"); ++i) {
    const auto trial = study.ask();
    fmt::print("{}\n", trial.config.to_json());
    std::fflush(stdout);
    std::string line;
    if (!std::getline(std::cin, line)) return;
    tell(study, trial, line, objectives);
  }
}

int serve() {
  for (std::string line; std::getline(std::cin, line);) {
    const auto asked = Config::from_json(line);
    if (!asked) {
      fmt::print(stderr, "search_asks: expected a study as JSON: {}\n", asked.error().message);
      return 2;
    }
    try {
      run(*asked);
    } catch (const Exception& error) {
      fmt::print(stderr, "search_asks: {}\n", error.error().message);
      return 2;
    }
  }
  return 0;
}

}  // namespace
}  // namespace volador::bench

int main() { return volador::bench::serve(); }
