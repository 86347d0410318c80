// The log of who became a copy of whom, as Ray Tune's users know it:
//
//   <experiment>/pbt_global.txt                     every copy
//   <experiment>/<trial id>/pbt_policy_<id>.txt     those that made this trial what it is: the log of the trial it is a copy of, and that copy
//
// A line each: ["<trial>", "<copied trial>", <step it had done>, <step of the copied checkpoint>, {configuration before}, {after}]
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
  Config before;  // Of the copied trial.
  Config after;
  std::string folder;       // Of the trial below the run's directory,
  std::string from_folder;  // and of the copied one.
};
// kUnavailable, kPermissionDenied: the files; names the path.
[[nodiscard]] Result<void> log_clone(const std::filesystem::path& experiment, const ClonedTrial& clone);

// What one trial went through in the end.
struct PbtPolicy {
  Config initial;
  struct Change {
    int64_t step = 0;  // After it the configuration becomes this one.
    Config config;
  };
  std::vector<Change> changes;  // By step.
};
// Of pbt_policy_<id>.txt. kInvalidArgument: not such a file; names the line.
[[nodiscard]] Result<PbtPolicy> parse_pbt_policy(std::string_view text);

}  // namespace volador::tune
