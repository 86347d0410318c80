// Training runs as text. train/report/run_report.h describes their rows.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/render/terminal.h"
#include "runtime/clock.h"
#include "tune/results/saved_run.h"

namespace volador::cli {

// As train::is_training_run(); this binary does not link train/.
bool is_training_run(std::string_view scheduler);
// Scheduler text of a row of the live list of experiments; empty: it has none.
std::string scheduler_of(const nlohmann::json& row);

// Rows of the live list of experiments, training runs only. now_ms: Unix time, for computing the time left.
std::string train_runs_text(const std::vector<nlohmann::json>& rows, const Terminal& terminal, int64_t now_ms);

// What the run does, its last numbers, the parts of a step, its ranks, and its faults and changes.
std::string train_text(const tune::SavedRun& run, const Terminal& terminal, WallTime now);

// "digits  ██████░░░░  53 %  epoch 24  step 973  train_loss 0.1667  963 samples/s  about 3 min left", without a line
// break. Without a planned end there is no bar. `columns`: maximum width; 0: unlimited.
std::string train_line(const tune::SavedRun& run, const Terminal& terminal, WallTime now, size_t columns);

// A fault, a change of the group or a note.
struct TrainEvent {
  int64_t number = 0;  // From 1.
  WallTime at{};
  std::string text;  // One line.
  bool is_fault = false;
};
// Oldest first; those that the run has kept.
std::vector<TrainEvent> train_events(const tune::ExperimentState& state);
// "12:44:21  rank 1 failed: …\n".
std::string train_event_line(const TrainEvent& event, const Terminal& terminal);

}  // namespace volador::cli
