// Experiments in the messages of Katib's services, package api.v1.beta1.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <string>

#include "experiments/katib/experiment_spec.h"
#include "runtime/protocol/katib/v1beta1/api.pb.h"
#include "runtime/result.h"

namespace volador::experiments::katib {

// A goal that is not set is 0 in the message, and an absent maximum of trials is 0.
api::v1::beta1::Experiment to_wire(const std::string& name, const ExperimentSpec& spec);
api::v1::beta1::ObjectiveSpec to_wire(const Objective& objective);
api::v1::beta1::AlgorithmSpec to_wire(const Algorithm& algorithm);
api::v1::beta1::EarlyStoppingSpec early_stopping_to_wire(const Algorithm& algorithm);

// What a service needs of an experiment: its objective, algorithms, counts and parameters. Strategies are those of the
// objective's direction; a count of 0 is absent, and so is a goal of 0.
// kInvalidArgument: a type is unknown; the message names the parameter.
[[nodiscard]] Result<ExperimentSpec> from_wire(const api::v1::beta1::ExperimentSpec& spec);

}  // namespace volador::experiments::katib
