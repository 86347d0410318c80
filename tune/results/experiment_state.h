// What experiment_state.json holds: everything about an experiment but its single results, for people and Analysis; a resume reads the journal.
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

// How the program that runs it was started.
struct RunOrigin {
  std::vector<std::string> arguments;  // With the program's name.
  std::string working_directory;
  std::string hostname;
  std::string git_commit;    // Of the working directory; empty: it is in no repository.
  std::string git_branch;    // Empty: none.
  bool git_changed = false;  // Tracked files differed from it: source.diff beside this file.
};

struct ExperimentState {
  std::string name;
  std::string state;      // "running", "paused" (on request), "finished", "interrupted", "failed".
  Reason reason;          // Why it ended.
  std::string metric;     // Empty: none.
  Mode mode = Mode::kMax;
  std::vector<std::string> tags = {};
  Goals goals;            // Several objectives, constraints.
  uint64_t seed = 0;
  std::string scheduler;  // As people read it.
  std::string searcher;
  std::string space;      // As space_text(); empty in runs of an earlier Volador.
  std::vector<std::string> stop = {};  // As stop_texts().
  RunOrigin origin;       // Of the last program, where it was resumed.
  WallTime started{};
  WallTime written{};
  std::vector<Trial> trials;         // By index.
  int64_t trials_planned = 0;        // 0: no end of them, or not known.
  std::optional<TimeLeft> left = {};  // When this was written; none: not known.
  std::vector<Reason> notices;  // What was said to the user.
};

std::string to_json(const ExperimentState& state);
// kInvalidArgument: damaged, or of a newer version; names the field.
[[nodiscard]] Result<ExperimentState> experiment_state_from_json(std::string_view json);

}  // namespace volador::tune
