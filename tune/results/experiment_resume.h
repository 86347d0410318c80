// How a journal is told to the loop of a resumed experiment. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"
#include "tune/loop/loop_options.h"
#include "tune/loop/stopper.h"
#include "tune/results/experiment_journal.h"
#include "tune/space/space.h"

namespace volador::tune {

// What varies and what does not, a line each: "lr loguniform(0.0001, 0.1)".
std::string space_text(const Space& space);
// Its rules in words, one each: "accuracy 0.995", "after 81 steps".
std::vector<std::string> stop_texts(const Stop& stop);
// The first line in which two such texts differ: "\"lr …\", now it is \"lr …\"".
std::string difference_text(const std::string& before, const std::string& now);
// kInvalidArgument: the trials of the journal ran another class or function. One of an earlier Volador does not say what they ran.
[[nodiscard]] Result<void> check_same_trainable(const std::vector<JournalRecord>& records, std::string_view trainable);
// What of the options changes decisions: "max_failures 3 · checkpoint every 5 · stop accuracy 0.99".
std::string limits_text(const LoopOptions& options);

// kInvalidArgument: the run is not the one of the journal; names the option and both values. More trials than before are no difference.
[[nodiscard]] Result<void> check_same_run(const JournalHeader& journal, const JournalHeader& run);

// The events to replay, in order: an interrupt or an error that ended the run is left out, and of what came after it until a resume, results and
// checkpoints alone are told.
std::vector<JournalEvent> effective_events(const std::vector<JournalRecord>& records);
// Suggestions by index; they stop where one is missing.
std::vector<Config> recorded_suggestions(const std::vector<JournalRecord>& records);

}  // namespace volador::tune
