#include "experiments/katib/algorithm_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "runtime/nearest_word.h"

namespace volador::experiments::katib {
namespace {

SettingRule integer_from(std::string name, double low) {
  return {.name = std::move(name),
          .form = SettingForm::kInteger,
          .low = low,
          .range = fmt::format("an integer from {}", low)};
}
SettingRule above_zero(std::string name) {
  return {.name = std::move(name), .form = SettingForm::kReal, .low = 0, .range = "a number above 0", .open_low = true};
}
SettingRule between_zero_and_one(std::string name) {
  return {.name = std::move(name),
          .form = SettingForm::kReal,
          .low = 0,
          .high = 1,
          .range = "a number in (0, 1)",
          .open_low = true,
          .open_high = true};
}
SettingRule one_of(std::string name, std::vector<std::string> words) {
  return {.name = std::move(name),
          .form = SettingForm::kWord,
          .range = fmt::format("one of {}", fmt::join(words, ", ")),
          .words = std::move(words)};
}
SettingRule text(std::string name) { return {.name = std::move(name), .range = "a text"}; }

const std::map<std::string, std::vector<SettingRule>, std::less<>>& rules() {
  static const std::map<std::string, std::vector<SettingRule>, std::less<>> all = {
      {"random", {integer_from("random_state", 0)}},
      {"grid", {}},
      {"tpe",
       {between_zero_and_one("gamma"), above_zero("prior_weight"), integer_from("n_EI_candidates", 1),
        integer_from("random_state", 0)}},
      {"multivariate-tpe",
       {integer_from("n_startup_trials", 1), integer_from("n_ei_candidates", 1), integer_from("random_state", 0)}},
      {"bayesianoptimization",
       {one_of("base_estimator", {"GP", "RF", "ET", "GBRT"}), integer_from("n_initial_points", 1),
        one_of("acq_func", {"gp_hedge", "LCB", "EI", "PI", "EIps", "PIps"}),
        one_of("acq_optimizer", {"auto", "sampling", "lbfgs"}), integer_from("random_state", 0)}},
      {"cmaes",
       {integer_from("random_state", 0),
        {.name = "sigma",
         .form = SettingForm::kReal,
         .low = 0,
         .high = 1,
         .range = "a number above 0, at most 1",
         .open_low = true},
        one_of("restart_strategy", {"none", "ipop", "bipop"})}},
      {"sobol", {integer_from("random_state", 0)}},
      {"hyperband",
       {{.name = "r_l", .form = SettingForm::kReal, .low = 1, .high = 1e9, .range = "a number from 1 to 10^9"},
        {.name = "eta",
         .form = SettingForm::kReal,
         .low = 1,
         .high = 1e6,
         .range = "a number above 1",
         .open_low = true},
        text("resource_name"),
        integer_from("random_state", 0)}},
      {"pbt",
       {text("suggestion_trial_dir"),
        {.name = "n_population",
         .form = SettingForm::kInteger,
         .low = 5,
         .high = 100'000,
         .range = "an integer from 5"},
        {.name = "truncation_threshold",
         .form = SettingForm::kReal,
         .low = 0,
         .high = 1,
         .range = "a number from 0 to 1"},
        {.name = "resample_probability",
         .form = SettingForm::kReal,
         .low = 0,
         .high = 1,
         .range = "a number from 0 to 1"},
        integer_from("random_state", 0)}}};
  return all;
}

template <class T>
std::optional<T> read_number(const std::string& text) {
  T value{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool fits(const SettingRule& rule, const std::string& value) {
  switch (rule.form) {
    case SettingForm::kText:
      return !value.empty();
    case SettingForm::kWord:
      return std::find(rule.words.begin(), rule.words.end(), value) != rule.words.end();
    case SettingForm::kInteger:
      if (!read_number<int64_t>(value)) return false;
      break;
    case SettingForm::kReal:
      break;
  }
  const auto number = read_number<double>(value);
  if (!number || std::isnan(*number)) return false;
  return (rule.open_low ? *number > rule.low : *number >= rule.low) &&
         (rule.open_high ? *number < rule.high : *number <= rule.high);
}

std::string_view name_of(SettingForm form) {
  switch (form) {
    case SettingForm::kText:
      return "text";
    case SettingForm::kWord:
      return "word";
    case SettingForm::kInteger:
      return "integer";
    case SettingForm::kReal:
      return "number";
  }
  return "";
}

}  // namespace

v1::KatibSetting to_wire(const SettingRule& rule) {
  v1::KatibSetting out;
  out.set_name(rule.name);
  out.set_form(std::string(name_of(rule.form)));
  for (const std::string& word : rule.words) out.add_words(word);
  if (std::isfinite(rule.low)) out.set_low(rule.low);
  if (std::isfinite(rule.high)) out.set_high(rule.high);
  out.set_above_low(rule.open_low);
  out.set_below_high(rule.open_high);
  return out;
}

const std::vector<SettingRule>& settings_of(std::string_view algorithm) {
  static const std::vector<SettingRule> none;
  const auto found = rules().find(algorithm);
  return found == rules().end() ? none : found->second;
}

const std::vector<std::string>& own_algorithms() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const auto& [name, settings] : rules()) out.push_back(name);
    return out;
  }();
  return names;
}

Error unknown_algorithm(std::string_view name, const std::vector<std::string>& registered) {
  std::vector<std::string> known = own_algorithms();
  known.insert(known.end(), registered.begin(), registered.end());
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  const std::string how = fmt::format(
      "register its service under this name in the setting katib.suggestions: {{\"{}\": {{\"command\": [\"python3\", "
      "\"service.py\"]}}}}",
      name);
  if (name == "enas" || name == "darts") {
    return {ErrorCode::kNotFound,
            fmt::format("algorithm \"{}\" searches neural architectures and is not built in; {}", name, how)};
  }
  return {ErrorCode::kNotFound, fmt::format("unknown algorithm \"{}\"{}; there are {}. For an external service, {}",
                                            name, did_you_mean(name, known), fmt::join(known, ", "), how)};
}

Result<AlgorithmSettings> AlgorithmSettings::read(const api::v1::beta1::AlgorithmSpec& spec) {
  const auto found = rules().find(spec.algorithm_name());
  if (found == rules().end()) return make_error(unknown_algorithm(spec.algorithm_name()));
  AlgorithmSettings settings;
  for (const auto& given : spec.algorithm_settings()) {
    const std::string &name = given.name(), &value = given.value();
    const auto rule = std::find_if(found->second.begin(), found->second.end(),
                                   [&](const SettingRule& one) { return one.name == name; });
    if (rule == found->second.end()) {
      std::vector<std::string> known;
      for (const SettingRule& one : found->second) known.push_back(one.name);
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("unknown setting {} for algorithm {}{}; {}", name, found->first, did_you_mean(name, known),
                      known.empty() ? "it has none" : fmt::format("it has {}", fmt::join(known, ", "))));
    }
    if (!fits(*rule, value)) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("setting {} of algorithm {}: expected {}, got \"{}\"",
                                                                 name, found->first, rule->range, value));
    }
    if (settings.text(name)) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("setting {} of algorithm {} is given twice", name, found->first));
    }
    settings.values_.emplace_back(name, value);
  }
  return settings;
}

std::optional<std::string> AlgorithmSettings::text(std::string_view name) const {
  for (const auto& [known, value] : values_) {
    if (known == name) return value;
  }
  return std::nullopt;
}

std::optional<double> AlgorithmSettings::real(std::string_view name) const {
  const auto given = text(name);
  return given ? read_number<double>(*given) : std::nullopt;
}

std::optional<int64_t> AlgorithmSettings::integer(std::string_view name) const {
  const auto given = text(name);
  return given ? read_number<int64_t>(*given) : std::nullopt;
}

}  // namespace volador::experiments::katib
