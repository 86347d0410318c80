#include "experiments/katib/median_stop.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/nearest_word.h"
#include "tune/space/config.h"

namespace volador::experiments::katib {

using api::v1::beta1::TrialStatus;

Result<MedianStopSettings> median_stop_settings(const api::v1::beta1::EarlyStoppingSpec& spec) {
  static const std::vector<std::string> kKnown = {"min_trials_required", "start_step", "compatibility"};
  const auto refuse = [](std::string what) { return make_error(ErrorCode::kInvalidArgument, std::move(what)); };
  if (spec.algorithm_name() != "medianstop") {
    return make_error(
        ErrorCode::kNotFound,
        fmt::format("unknown early stopping algorithm \"{}\"{}; there is medianstop. Register an external "
                    "service in the setting katib.early_stopping: {{\"{}\": {{\"command\": [\"python3\", "
                    "\"service.py\"]}}}}",
                    spec.algorithm_name(), did_you_mean(spec.algorithm_name(), std::vector<std::string>{"medianstop"}),
                    spec.algorithm_name()));
  }
  MedianStopSettings settings;
  for (const auto& one : spec.algorithm_settings()) {
    const std::string &name = one.name(), &value = one.value();
    if (name == "compatibility") {
      if (value != "katib" && value != "none") {
        return refuse(fmt::format(
            "setting compatibility of algorithm medianstop: expected katib (the mean of the averages) or none (their "
            "median), got \"{}\"",
            value));
      }
      settings.mean = value == "katib";
      continue;
    }
    if (name != "min_trials_required" && name != "start_step")
      return refuse(fmt::format("unknown setting {} for algorithm medianstop{}", name, did_you_mean(name, kKnown)));
    int64_t number = 0;
    const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (value.empty() || failed != std::errc() || end != value.data() + value.size()) {
      return refuse(fmt::format("setting {} of algorithm medianstop: expected an integer, got \"{}\"", name, value));
    }
    if (name == "min_trials_required" && number < 1)
      return refuse("min_trials_required must be greater than zero (>0)");
    if (name == "start_step" && number < 1) return refuse("start_step must be greater or equal than one (>=1)");
    if (name == "start_step" && number > std::numeric_limits<int32_t>::max())
      return refuse(
          fmt::format("setting start_step of algorithm medianstop: expected at most 2^31 - 1, got {}", number));
    (name == "start_step" ? settings.start_step : settings.min_trials_required) = number;
  }
  return settings;
}

const std::vector<SettingRule>& median_stop_setting_rules() {
  static const std::vector<SettingRule> rules = {
      {.name = "min_trials_required", .form = SettingForm::kInteger, .low = 1},
      {.name = "start_step", .form = SettingForm::kInteger, .low = 1, .high = std::numeric_limits<int32_t>::max()},
      {.name = "compatibility", .form = SettingForm::kWord, .words = {"none", "katib"}}};
  return rules;
}

std::optional<double> median_stop_limit(const MedianStopSettings& settings,
                                        const std::vector<std::vector<double>>& logs) {
  std::vector<double> averages;
  for (const std::vector<double>& log : logs) {
    const size_t count = std::min(log.size(), static_cast<size_t>(settings.start_step));
    if (count == 0) continue;
    const double sum = std::accumulate(log.begin(), log.begin() + static_cast<ptrdiff_t>(count), 0.0);
    if (std::isfinite(sum)) averages.push_back(sum / static_cast<double>(count));
  }
  if (averages.empty() || static_cast<int64_t>(averages.size()) < settings.min_trials_required) return std::nullopt;
  if (settings.mean)
    return std::accumulate(averages.begin(), averages.end(), 0.0) / static_cast<double>(averages.size());
  std::sort(averages.begin(), averages.end());
  const size_t middle = averages.size() / 2;
  return averages.size() % 2 == 1 ? averages[middle] : (averages[middle - 1] + averages[middle]) / 2;
}

Result<api::v1::beta1::GetEarlyStoppingRulesReply> median_stop_rules(
    const api::v1::beta1::Experiment& experiment,
    const google::protobuf::RepeatedPtrField<api::v1::beta1::Trial>& trials, const ObjectiveLogs& logs) {
  const auto settings = median_stop_settings(experiment.spec().early_stopping());
  if (!settings) return make_error(settings.error());
  std::vector<std::vector<double>> finished;
  for (const auto& trial : trials) {
    const auto log = logs.find(trial.name());
    if (trial.status().condition() == TrialStatus::SUCCEEDED && log != logs.end()) finished.push_back(log->second);
  }
  api::v1::beta1::GetEarlyStoppingRulesReply reply;
  const auto limit = median_stop_limit(*settings, finished);
  if (!limit) return reply;
  auto& rule = *reply.add_early_stopping_rules();
  rule.set_name(experiment.spec().objective().objective_metric_name());
  rule.set_value(tune::format_real(*limit));
  const bool maximize = experiment.spec().objective().type() == api::v1::beta1::MAXIMIZE;
  rule.set_comparison(maximize ? api::v1::beta1::LESS : api::v1::beta1::GREATER);
  rule.set_start_step(static_cast<int32_t>(settings->start_step));
  return reply;
}

}  // namespace volador::experiments::katib
