// Log of the exploit steps of population based training, in the format of Ray Tune:
//
//   <experiment>/pbt_global.txt                     every copy
//   <experiment>/<trial id>/pbt_policy_<id>.txt     origin of this trial: the log of the copied trial, and the copy
//
// Each line: ["<trial>", "<copied trial>", <step of the trial>, <step of the copied checkpoint>, {configuration
// before}, {after}]
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/result.h"
#include "tune/loop/loop_messages.h"
#include "tune/space/config.h"

namespace volador::tune {

struct ClonedTrial {
  TrialCloned cloned;
  Config before;  // Configuration of the copied trial.
  Config after;
  std::string folder;       // Folder of the trial in the run's directory
  std::string from_folder;  // and that of the copied trial.
};
// kUnavailable, kPermissionDenied: writing the files failed; names the path.
[[nodiscard]] Result<void> log_clone(const std::filesystem::path& experiment, const ClonedTrial& clone);

// Configurations that one trial went through, reconstructed from its log.
struct PbtPolicy {
  Config initial;
  struct Change {
    int64_t step = 0;  // The new configuration applies after this step.
    Config config;
  };
  std::vector<Change> changes;  // By step.
};
// Parses pbt_policy_<id>.txt. kInvalidArgument: invalid file; names the line.
[[nodiscard]] Result<PbtPolicy> parse_pbt_policy(std::string_view text);

}  // namespace volador::tune
