// Whether a run of a trial can be a child of a warm process, and what those that share one have in common.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/launch/trial_launch.h"

namespace volador::experiments {

// Variable of a trial that turns warm starts off, if its value is "0".
inline constexpr std::string_view kWarmStartVariable = "VOLADOR_WARM_START";

// A variable of a process without those of one run: runs share a warm process only if all these are equal. Secrets that
// belong to one trial are not among them.
using SharedVariables = std::map<std::string, std::string>;

// The words after "python3" of a trial that a warm process can start: {"train.py", "--fast"}, or {"-m",
// "volador.determined", "--trial"}. None: the trial needs a new process, because it has a startup hook, several nodes or
// processes, collects metrics of its output, or starts anything but one script or trial class.
// `variables`: all that the trial gets.
[[nodiscard]] std::optional<std::vector<std::string>> warm_words(const v1::StartTrialRunReply& run,
                                                                 const TrialNode& node, const TrialLaunch& launch,
                                                                 const std::map<std::string, std::string>& variables);

[[nodiscard]] SharedVariables shared_variables(const std::map<std::string, std::string>& variables);

}  // namespace volador::experiments
