// Rows of experiments as the API shows them, as far as they come from what drivers say. Pure.
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

// Without tags, note and archive.
void fill_experiment_row(const Experiment& experiment, v1::Experiment& out);
// With them.
void fill_experiment(const Experiment& experiment, const ExperimentNotes& notes, v1::Experiment& out);
// With node and reason as the driver knew them.
void fill_trial_row(const std::string& experiment, const protocol::TrialRow& trial, v1::Trial& out);
void fill_point(const protocol::TrialPoint& point, v1::TrialPoint& out);

}  // namespace volador::head
