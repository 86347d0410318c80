#include "experiments/search/search_preview.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>

namespace volador::experiments {
namespace {

namespace determined = tune::determined;
using tune::Config;

using Rows = std::map<std::vector<int64_t>, int64_t>;  // Number of trials by their lengths.

// Each rung of a bracket passes on its best 1/divisor, at least one.
void count_bracket(const std::vector<int64_t>& lengths, int64_t trials, double divisor, Rows& rows) {
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int64_t go_on = std::max<int64_t>(static_cast<int64_t>(static_cast<double>(trials) / divisor), 1);
    const int64_t stay = i + 1 == lengths.size() ? trials : trials - go_on;
    if (stay > 0) rows[{lengths[i]}] += stay;
    trials = go_on;
  }
}

int64_t last_of(const std::vector<int64_t>& lengths) { return lengths.empty() ? 0 : lengths.back(); }

// Trials with operations, executed one at a time in random order.
class SearchSimulation {
 public:
  SearchSimulation(determined::Search& search, uint32_t seed) : search_(search), random_(seed) {}

  Rows run() {
    take(search_.initial_operations());
    while (!ready_.empty()) {
      const auto pick = static_cast<size_t>(random_.below(static_cast<int64_t>(ready_.size())));
      const size_t number = ready_[pick];
      const determined::Operation operation = std::move(trials_[number].operations.front());
      trials_[number].operations.pop_front();
      if (trials_[number].operations.empty()) {
        std::swap(ready_[pick], ready_.back());
        ready_.pop_back();
      }
      execute(number, operation);
    }
    Rows rows;
    for (const Trial& trial : trials_) ++rows[trial.lengths];
    return rows;
  }

 private:
  struct Trial {
    determined::RequestId request;
    std::deque<determined::Operation> operations;
    std::vector<int64_t> lengths;
  };

  void execute(size_t number, const determined::Operation& operation) {
    const determined::RequestId request = trials_[number].request;
    if (std::holds_alternative<determined::Create>(operation)) return take(search_.created(request));
    if (std::holds_alternative<determined::Close>(operation)) return take(search_.closed(request));
    trials_[number].lengths.push_back(std::get<determined::ValidateAfter>(operation).length);
    take(search_.validated(request, random_.unit()));
  }

  void take(determined::Operations operations) {
    for (determined::Operation& operation : operations) {
      if (auto* create = std::get_if<determined::Create>(&operation)) {
        numbers_[create->request] = trials_.size();
        trials_.push_back({.request = create->request});
        create->hyperparameters = {};
        add(trials_.size() - 1, std::move(operation));
      } else if (const auto* validate = std::get_if<determined::ValidateAfter>(&operation)) {
        add(numbers_.at(validate->request), operation);
      } else if (const auto* close = std::get_if<determined::Close>(&operation)) {
        add(numbers_.at(close->request), operation);
      }
    }
  }
  void add(size_t number, determined::Operation operation) {
    if (trials_[number].operations.empty()) ready_.push_back(number);
    trials_[number].operations.push_back(std::move(operation));
  }

  determined::Search& search_;
  determined::Random random_;
  std::vector<Trial> trials_;
  std::vector<size_t> ready_;  // Trials with operations.
  std::unordered_map<determined::RequestId, size_t> numbers_;
};

}  // namespace

Result<SearchPreview> preview_search(const SearcherSettings& settings, const HyperparameterSpace& hyperparameters,
                                     uint32_t seed) {
  const determined::SearchOptions& options = settings.options;
  auto search = determined::Search::create(options, hyperparameters, seed);
  if (!search) return make_error(search.error());
  if (options.name == "custom")
    return make_error(ErrorCode::kInvalidArgument,
                      "searcher.name is custom: its program decides what runs, so there is no preview");
  const bool adaptive = options.name == "adaptive_asha", halving = options.name == "async_halving";
  SearchPreview preview{.searcher = options.name, .unit = settings.unit, .seed = seed};
  if (adaptive) preview.brackets = adaptive_brackets(options);
  Rows rows;
  if (!adaptive && !halving) {
    const int64_t trials = options.name == "grid"     ? static_cast<int64_t>(hyperparameters.grid()->size())
                           : options.name == "single" ? 1
                                                      : options.max_trials;
    rows[settings.options.timed ? std::vector<int64_t>() : std::vector<int64_t>{options.max_length}] = trials;
  } else if (options.timed && adaptive) {
    for (const determined::Bracket& bracket : preview.brackets)
      count_bracket(bracket.lengths, bracket.trials, options.divisor, rows);
  } else if (options.timed) {
    count_bracket(determined::rung_lengths(options.num_rungs, options.divisor, options.max_length), options.max_trials,
                  options.divisor, rows);
  } else {
    rows = SearchSimulation(**search, seed).run();
  }
  for (const auto& [lengths, trials] : rows) {
    preview.rows.push_back({trials, lengths});
    preview.trials += trials;
    preview.units += static_cast<double>(trials) * static_cast<double>(last_of(lengths));
  }
  std::stable_sort(preview.rows.begin(), preview.rows.end(), [](const PreviewRow& one, const PreviewRow& other) {
    return last_of(one.lengths) < last_of(other.lengths);
  });
  return preview;
}

std::string to_text(const SearchPreview& preview, Language language) {
  const std::string unit(translated(language, preview.unit.empty() ? "units" : preview.unit));
  std::string out = preview.searcher + ": ";
  out += preview.trials == 1 ? std::string(translated(language, "1 trial"))
                             : fill_translated(language, "{} trials", preview.trials);
  if (preview.units > 0)
    out += ", " + fill_translated(language, "{} {} in total", fmt::format("{:.0f}", preview.units), unit);
  out += fmt::format("\n\n{:>8}  {}\n", translated(language, "trials"),
                     fill_translated(language, "validated at ({})", unit));
  for (const PreviewRow& row : preview.rows)
    out += fmt::format("{:>8}  {}\n", row.trials,
                       row.lengths.empty() ? std::string(translated(language, "the end of their programs"))
                                           : fmt::format("{}", fmt::join(row.lengths, ", ")));
  if (preview.brackets.empty()) return out;
  out += fmt::format("\n{:>8}  {:>8}  {:>10}  {}\n", translated(language, "bracket"), translated(language, "trials"),
                     translated(language, "at once"), fill_translated(language, "rungs ({})", unit));
  for (size_t i = 0; i < preview.brackets.size(); ++i) {
    const determined::Bracket& bracket = preview.brackets[i];
    out += fmt::format("{:>8}  {:>8}  {:>10}  {}\n", i + 1, bracket.trials,
                       std::min(bracket.concurrent, bracket.trials), fmt::join(bracket.lengths, ", "));
  }
  return out;
}

Config to_config(const SearchPreview& preview) {
  Config rows = Config::list({}), brackets = Config::list({});
  for (const PreviewRow& row : preview.rows) rows.push_back({{"trials", row.trials}, {"lengths", row.lengths}});
  for (const determined::Bracket& bracket : preview.brackets)
    brackets.push_back({{"rungs", bracket.rungs},
                        {"trials", bracket.trials},
                        {"concurrent", bracket.concurrent},
                        {"lengths", bracket.lengths}});
  return {{"searcher", preview.searcher},   {"unit", preview.unit},   {"seed", preview.seed},
          {"trials", preview.trials},       {"units", preview.units}, {"rows", std::move(rows)},
          {"brackets", std::move(brackets)}};
}

Result<v1::PreviewSearchReply> preview_reply(const ExperimentConfig& config, uint32_t seed, Language language) {
  const auto space = hyperparameter_space(config);
  if (!space) return make_error(space.error());
  const auto preview = preview_search(searcher_settings(config.searcher), *space, seed);
  if (!preview) return make_error(preview.error());
  v1::PreviewSearchReply reply;
  reply.set_preview(to_config(*preview).to_json());
  reply.set_text(to_text(*preview, language));
  return reply;
}

}  // namespace volador::experiments
