// What a search will run: how many trials for how long. Determined calls it `preview-search`.
// Pure: no clock, thread, I/O or randomness but that of a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/search/searcher_settings.h"
#include "runtime/language/language.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"

namespace volador::experiments {

struct PreviewRow {
  int64_t trials = 0;
  std::vector<int64_t> lengths;  // At which each validates for the search, the last one at its end. Empty: unknown.
  bool operator==(const PreviewRow&) const = default;
};

struct SearchPreview {
  std::string searcher;  // The method that runs.
  std::string unit;      // The unit in which lengths are; empty: unnamed.
  uint32_t seed = 0;
  int64_t trials = 0;
  double units = 0;                                 // Trained by all trials together; 0: their programs decide.
  std::vector<PreviewRow> rows;                     // Shortest first.
  std::vector<tune::determined::Bracket> brackets;  // If it is adaptive_asha.
};

// ASHA is simulated: trials answer in random order, with random metrics of the seed. A timed search is counted instead,
// as if each rung passed on its best 1/divisor: Determined's previews are made in these two ways.
// kInvalidArgument: a custom search, which its program decides, or an option out of range. Time is about linear in the
// number of trials, of which there are at most 1,000,000.
[[nodiscard]] Result<SearchPreview> preview_search(const SearcherSettings& settings,
                                                   const HyperparameterSpace& hyperparameters, uint32_t seed = 0);

// A table for a terminal; ends with a new line.
std::string to_text(const SearchPreview& preview, Language language = Language::kEnglish);
// {"searcher", "unit", "seed", "trials", "units", "rows": [{"trials", "lengths"}], "brackets": [{"rungs", "trials",
// "concurrent", "lengths"}]}.
tune::Config to_config(const SearchPreview& preview);

// The reply of Experiments/PreviewSearch for a valid configuration. Errors as preview_search().
[[nodiscard]] Result<v1::PreviewSearchReply> preview_reply(const ExperimentConfig& config, uint32_t seed,
                                                           Language language = Language::kEnglish);

}  // namespace volador::experiments
