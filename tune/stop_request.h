// Asking the program that runs an experiment, through the experiment's directory, to stop it or one of its trials. No
// cluster is needed; a request outlives both sides.
//
//   requests/stop-1a2b3c4d.json: {"trial": "3f2a90c1"}; without a trial the whole experiment
//
// The program looks several times a second, writes the request to its journal, and removes the file.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/random.h"
#include "runtime/result.h"
#include "tune/trial.h"

namespace volador::tune {

struct StopAsked {
  std::optional<TrialId> trial;  // None: the whole experiment.
  std::filesystem::path file;
};

// The file that was written: it is gone once the program has taken it. kUnavailable, kPermissionDenied: the disk.
[[nodiscard]] Result<std::filesystem::path> ask_to_stop(const std::filesystem::path& experiment,
                                                        std::optional<TrialId> trial, Random& random);

// What was asked since, at most 1,000 of it at a time, oldest name first; files that are no request are removed. Costs
// next to nothing where nobody ever asked.
std::vector<StopAsked> stop_requests(const std::filesystem::path& experiment);

}  // namespace volador::tune
