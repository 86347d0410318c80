// Conversion of driver-reported experiments to API rows. Pure.
#pragma once

#include <string>

#include "head/experiments/experiment_notes.h"
#include "head/experiments/experiment_table.h"

namespace volador::v1 {
class Experiment;
class Trial;
class TrialPoint;
}  // namespace volador::v1

namespace volador::head {

// Without tags, note and archive flag.
void fill_experiment_row(const Experiment& experiment, v1::Experiment& out);
// With tags, note and archive flag.
void fill_experiment(const Experiment& experiment, const ExperimentNotes& notes, v1::Experiment& out);
// With node and reason as known to the driver.
void fill_trial_row(const std::string& experiment, const protocol::TrialRow& trial, v1::Trial& out);
void fill_point(const protocol::TrialPoint& point, v1::TrialPoint& out);

}  // namespace volador::head
