// The folder of checkpoints of a trial of population based training. A trial begins with the folder of its parent; the
// folders travel through the checkpoint storage of the experiment, as checkpoints of their trials.
#pragma once

#include <cstdint>
#include <string>

#include "cli/head_calls.h"
#include "cli/outcome.h"

namespace volador::cli {

struct TrialCheckpoints {
  std::string folder;   // As the program names it; a relative one is in its working directory. Empty: it has none.
  int64_t parent = 0;   // Trial with whose folder it begins; 0: with an empty one.
  std::string latest;   // The checkpoint of an earlier run of the trial itself, which comes first; empty: none.
  std::string storage;  // checkpoint_storage of the experiment, JSON.
  int64_t trial = 0, run = 0;
  std::string node;
  std::string info_folder;  // VOLADOR_INFO_DIR of this run, which is two levels below the folder of the job.
};

// Makes the folder before the program starts. Where trials would share it, because its path is absolute or the working
// directory is the user's, each trial sees another folder in its place, which needs the right to mount.
[[nodiscard]] Outcome restore_checkpoints(const TrialCheckpoints& of, HeadCalls& calls);
// Stores the folder, unless it is empty, and tells the head of it.
[[nodiscard]] Outcome keep_checkpoints(const TrialCheckpoints& of, HeadCalls& calls);

}  // namespace volador::cli
