// Terminal output of a run: its table, notices, and the lines that its trials print, which are also written to the
// trials' folders with .log_to_file. On the runner's thread.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/actor/session.h"
#include "tune/display/live_display.h"
#include "tune/execution/run_options.h"
#include "tune/loop/trial_loop.h"
#include "tune/results/result_logger.h"

namespace volador::tune {

class RunOutput {
 public:
  static constexpr int kCostShare = 20;  // Drawing takes at most 1/kCostShare of the time.

  // References must outlive the object.
  RunOutput(const RunOptions& options, LiveDisplayOptions display, const Clock& clock)
      : options_(options), clock_(clock), display_(std::move(display)) {}

  bool shows_lines() const { return options_.progress != Progress::kSilent || options_.log_to_file; }

  // Prints a notice once; it stays in the run's state.
  void say(const Reason& notice);
  const std::vector<Reason>& notices() const { return notices_; }

  // Maps log lines to trials: by the actor, which keeps the name of its first trial when it is reused, and by the name
  // of an actor whose setup has not completed.
  void note_actor(const ActorId& actor, TrialId trial);
  void note_start(const Trial& trial);
  void print(const LogLine& line, const TrialLoop& loop, ResultLogger& logger);

  void draw(BootTime now, const std::function<ProgressSnapshot()>& snapshot);
  void finish(const std::function<ProgressSnapshot()>& snapshot);

 private:
  const RunOptions& options_;
  const Clock& clock_;
  LiveDisplay display_;
  BootTime next_draw_{};
  std::vector<Reason> notices_;
  std::unordered_map<std::string, TrialId> trial_named_;  // By the actor names in log lines; with log_to_file.
  std::unordered_map<ActorId, TrialId> trial_of_;
};

}  // namespace volador::tune
