#include "experiments/search/searcher_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace volador::experiments {
namespace {

using tune::Config;
using tune::determined::AdaptiveMode;
using tune::determined::Bracket;
using tune::determined::SearchOptions;

tl::unexpected<Error> refuse_searcher(const std::string& key, const std::string& rule) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("searcher.{}: {}", key, rule));
}

const Config* value_of(const Config& section, const std::string& key) {
  const Config* value = section.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

struct UnitLength {
  int64_t units = 0;
  std::string unit;
};

// A number, or one of {"batches": n}, {"records": n} and {"epochs": n}.
Result<UnitLength> length_of(const Config& section, const std::string& key) {
  const Config& value = *value_of(section, key);
  UnitLength out;
  const Config* units = &value;
  if (value.is_map() && value.size() == 1) {
    out.unit = value.entries()[0].name;
    units = &value.entries()[0].value;
  }
  constexpr std::array<std::string_view, 4> kUnits = {"", "batches", "records", "epochs"};
  if (units->kind() != Config::Kind::kInteger || std::find(kUnits.begin(), kUnits.end(), out.unit) == kUnits.end())
    return refuse_searcher(key,
                           fmt::format("expected a whole number, or a map with one of the names batches, records and "
                                       "epochs and a whole number, got {}",
                                       value.to_json()));
  out.units = units->integer();
  return out;
}

Result<AdaptiveMode> mode_of(const std::string& mode, std::vector<std::string>& warnings) {
  if (mode == "conservative") return AdaptiveMode::kConservative;
  if (mode == "standard") return AdaptiveMode::kStandard;
  if (mode == "agressive")
    warnings.push_back("searcher.mode: \"agressive\" was read as \"aggressive\": change the spelling");
  if (mode == "aggressive" || mode == "agressive") return AdaptiveMode::kAggressive;
  return refuse_searcher("mode", fmt::format("expected aggressive, standard or conservative, got \"{}\"", mode));
}

double bracket_units(const std::vector<int64_t>& lengths, double trials, double divisor) {
  double units = 0;
  int64_t before = 0;
  for (const int64_t length : lengths) {
    units += trials * static_cast<double>(length - before);
    before = length;
    trials = std::max(static_cast<double>(static_cast<int64_t>(trials / divisor)), 1.0);
  }
  return units;
}

// The most trials whose expected_units() are at most `budget`, at least 1.
int64_t trials_within(SearchOptions options, double budget) {
  int64_t low = 1, high = 1'000'000;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    options.max_trials = middle;
    if (expected_units(options) <= budget)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

Result<void> read_common(const Config& section, SearcherSettings& settings) {
  SearchOptions& options = settings.options;
  settings.metric = section.get_or("metric", "");
  const auto integer = [&](const char* key, int64_t& to) {
    if (value_of(section, key) != nullptr) to = section.integer(key);
  };
  const auto boolean = [&](const char* key, bool& to) {
    if (value_of(section, key) != nullptr) to = section.boolean(key);
  };
  integer("max_trials", options.max_trials);
  integer("max_concurrent_trials", options.max_concurrent_trials);
  integer("num_rungs", options.num_rungs);
  integer("max_rungs", options.max_rungs);
  boolean("smaller_is_better", options.smaller_is_better);
  boolean("stop_once", options.stop_once);
  if (value_of(section, "divisor") != nullptr) options.divisor = section.real("divisor");
  if (const Config* rungs = value_of(section, "bracket_rungs")) {
    for (const Config& one : rungs->items()) options.bracket_rungs.push_back(one.integer());
  }
  if (value_of(section, "mode") != nullptr) {
    const auto mode = mode_of(section.text("mode"), settings.warnings);
    if (!mode) return make_error(mode.error());
    options.mode = *mode;
  }
  return {};
}

Result<void> read_length(const Config& section, SearcherSettings& settings) {
  SearchOptions& options = settings.options;
  const bool timed = value_of(section, "time_metric") != nullptr;
  const char* key = timed || value_of(section, "max_time") != nullptr ? "max_time" : "max_length";
  if (timed) settings.time_metric = section.text("time_metric");
  options.timed = timed;
  if (options.name == "custom") return {};
  if (!timed && value_of(section, key) == nullptr &&
      (options.name == "single" || options.name == "random" || options.name == "grid")) {
    options.timed = true;
    return {};
  }
  if (value_of(section, key) == nullptr)
    return refuse_searcher(
        key,
        fmt::format("{} needs the length of a full run: set max_length, or time_metric and max_time", settings.name));
  if (std::string_view(key) == "max_time" && !timed)
    return refuse_searcher("time_metric", "max_time is a value of this metric: name it");
  const auto length = length_of(section, key);
  if (!length) return make_error(length.error());
  options.max_length = length->units;
  settings.unit = length->unit;
  return {};
}

// Names that Determined no longer runs.
Result<void> replace_old(const Config& section, SearcherSettings& settings) {
  SearchOptions& options = settings.options;
  const bool sync = settings.name == "sync_halving";
  if (!sync && settings.name != "adaptive" && settings.name != "adaptive_simple") return {};
  options.name = sync ? "async_halving" : "adaptive_asha";
  settings.warnings.push_back(
      fmt::format("searcher.name: {} runs as {}, which does not wait for the slowest trial of a rung: change the name",
                  settings.name, options.name));
  if (value_of(section, "max_trials") != nullptr) return {};
  if (value_of(section, "budget") == nullptr) return refuse_searcher("max_trials", "expected the number of trials");
  const auto budget = length_of(section, "budget");
  if (!budget) return make_error(budget.error());
  if (budget->unit != settings.unit)
    return refuse_searcher(
        "budget", fmt::format("expected the unit of max_length, \"{}\", got \"{}\"", settings.unit, budget->unit));
  options.max_trials = trials_within(options, static_cast<double>(budget->units));
  settings.warnings.push_back(fmt::format("searcher.budget: {} units pay for {} trials: set max_trials to choose",
                                          budget->units, options.max_trials));
  return {};
}

}  // namespace

double expected_units(const SearchOptions& options) {
  using tune::determined::rung_lengths;
  const auto trials = static_cast<double>(options.max_trials), full = static_cast<double>(options.max_length);
  if (options.name == "single") return full;
  if (options.name == "async_halving")
    return bracket_units(rung_lengths(options.num_rungs, options.divisor, options.max_length), trials, options.divisor);
  if (options.name != "adaptive_asha") return full * trials;
  double units = 0;
  for (const Bracket& bracket : adaptive_brackets(options))
    units += bracket_units(bracket.lengths, static_cast<double>(bracket.trials), options.divisor);
  return units;
}

Result<SearcherSettings> searcher_settings(const Config& searcher) {
  try {
    SearcherSettings settings;
    settings.name = searcher.text("name");
    settings.options.name = settings.name;
    VOLADOR_TRY(read_common(searcher, settings));
    VOLADOR_TRY(read_length(searcher, settings));
    for (const char* key : {"random", "adaptive_asha", "async_halving"}) {
      if (settings.name == key && value_of(searcher, "max_trials") == nullptr)
        return refuse_searcher("max_trials", "expected the number of trials");
    }
    if ((settings.name == "async_halving" || settings.name == "sync_halving") &&
        value_of(searcher, "num_rungs") == nullptr)
      return refuse_searcher("num_rungs", "expected the number of rungs");
    // Before the number of trials that a budget pays for is looked for.
    SearchOptions& options = settings.options;
    if (!(options.divisor > 1) || options.max_length < 1 || options.num_rungs < 1 || options.max_rungs < 1)
      return refuse_searcher("divisor, lengths and rungs",
                             "expected a divisor above 1 and lengths and rungs of at least 1");
    VOLADOR_TRY(replace_old(searcher, settings));
    return settings;
  } catch (const Exception& error) {
    return make_error(ErrorCode::kInvalidArgument, "searcher." + error.error().message);
  }
}

}  // namespace volador::experiments
