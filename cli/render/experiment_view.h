// Experiments, trials, checkpoints and metrics as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/render/terminal.h"

namespace volador::v1 {
class CheckpointInfo;
class ExperimentInfo;
class GetMetricsReply;
class ListCheckpointsReply;
class ListExperimentsReply;
class ListTrialInfosReply;
class TrialInfo;
}  // namespace volador::v1

namespace volador::cli {

// States in which nothing goes on any more: "COMPLETED", "CANCELED", "ERROR".
bool is_final_state(std::string_view state);

// "0.25"; empty where there is none.
std::string metric_text(bool has, double value);
// A JSON object in one line: "lr=0.1 layers.n=2".
std::string values_text(const std::string& json);

// `now_ms`: Unix time.
// One line: "experiment 3 (digits): ACTIVE, RUNNING, 40%; 8 trials".
std::string experiment_line(const v1::ExperimentInfo& experiment, const Terminal& terminal);
std::string experiments_text(const v1::ListExperimentsReply& reply, int64_t now_ms, const Terminal& terminal);
// With its newest trials, and the main parts of its configuration.
std::string experiment_text(const v1::ExperimentInfo& experiment, const v1::ListTrialInfosReply& trials, int64_t now_ms,
                            const Terminal& terminal);

std::string trial_line(const v1::TrialInfo& trial, const Terminal& terminal);
std::string trial_infos_text(const v1::ListTrialInfosReply& reply, int64_t now_ms, const Terminal& terminal);
std::string trial_text(const v1::TrialInfo& trial, int64_t now_ms, const Terminal& terminal);

std::string checkpoints_text(const v1::ListCheckpointsReply& reply, int64_t now_ms, const Terminal& terminal);
std::string checkpoint_text(const v1::CheckpointInfo& checkpoint, int64_t now_ms, const Terminal& terminal);

// One row for each series: its points, last value and extremes.
std::string metrics_text(const v1::GetMetricsReply& reply, const Terminal& terminal);
// All points: trial,group,metric,batches,value,time_ms.
std::string metrics_csv(const v1::GetMetricsReply& reply);

}  // namespace volador::cli
