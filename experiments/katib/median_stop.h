// Early stopping by the median: a trial whose best objective is worse than the median of the averages of the finished
// trials at the same number of reports stops. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/katib/algorithm_settings.h"
#include "runtime/protocol/katib/v1beta1/api.pb.h"
#include "runtime/result.h"

namespace volador::experiments::katib {

// Values of the objective by name of the trial, in the order of the reports. At least the first start_step of
// each trial that has succeeded; others are ignored.
using ObjectiveLogs = std::map<std::string, std::vector<double>>;

struct MedianStopSettings {
  int64_t min_trials_required = 3;  // Finished trials before there is a rule.
  int64_t start_step = 4;           // Reports of a finished trial that are averaged, and of a trial before it may stop.
  bool mean = false;                // Setting `compatibility: katib`: the mean of the averages, as Katib has it.
};
// kInvalidArgument: an unknown setting or a value out of range.
[[nodiscard]] Result<MedianStopSettings> median_stop_settings(const api::v1::beta1::EarlyStoppingSpec& spec);
const std::vector<SettingRule>& median_stop_setting_rules();

// Limit of the objective for new trials. No value: too few finished trials.
std::optional<double> median_stop_limit(const MedianStopSettings& settings,
                                        const std::vector<std::vector<double>>& logs);

// Rules for a new trial of the experiment: none, or one for its objective.
[[nodiscard]] Result<api::v1::beta1::GetEarlyStoppingRulesReply> median_stop_rules(
    const api::v1::beta1::Experiment& experiment,
    const google::protobuf::RepeatedPtrField<api::v1::beta1::Trial>& trials, const ObjectiveLogs& logs);

}  // namespace volador::experiments::katib
