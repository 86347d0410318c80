// Contents of experiment_state.json: everything about an experiment except for its individual results, for users and
// Analysis; a resume reads the journal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/session.h"
#include "runtime/clock.h"
#include "runtime/result.h"
#include "tune/loop/objectives.h"
#include "tune/loop/trial.h"

namespace volador::tune {

// Origin of the program that runs the experiment.
struct RunOrigin {
  std::vector<std::string> arguments;  // Including the program's name.
  std::string working_directory;
  std::string hostname;
  std::string git_commit;    // Commit of the working directory; empty: no repository.
  std::string git_branch;    // Empty: detached HEAD.
  bool git_changed = false;  // Tracked files differed from the commit; see source.diff beside this file.
};

struct ExperimentState {
  std::string name;
  std::string state;   // "running", "paused" (by the user), "finished", "interrupted", "failed".
  Reason reason;       // Why it ended.
  std::string metric;  // Empty: none.
  Mode mode = Mode::kMax;
  std::vector<std::string> tags = {};
  Goals goals;  // Several objectives and constraints.
  uint64_t seed = 0;
  std::string scheduler;  // Description.
  std::string searcher;
  std::string space;                   // Result of space_text(); empty in runs of an earlier Volador.
  std::vector<std::string> stop = {};  // Result of stop_texts().
  RunOrigin origin;                    // The last program, if the run was resumed.
  WallTime started{};
  WallTime written{};
  std::vector<Trial> trials;          // By index.
  int64_t trials_planned = 0;         // 0: unlimited, or unknown.
  std::optional<TimeLeft> left = {};  // Estimate at the time of writing; no value: unknown.
  std::vector<Reason> notices;        // Notices shown to the user.
};

std::string to_json(const ExperimentState& state);
// One of the trials, as it is in there.
std::string trial_to_json(const Trial& trial);
// kInvalidArgument: corrupt, or of a newer version; names the field.
[[nodiscard]] Result<ExperimentState> experiment_state_from_json(std::string_view json);

}  // namespace volador::tune
