// Replay of a journal into the loop of a resumed experiment. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"
#include "tune/loop/loop_options.h"
#include "tune/loop/stopper.h"
#include "tune/results/experiment_journal.h"
#include "tune/searchers/recording_searcher.h"
#include "tune/space/space.h"

namespace volador::tune {

// Returns the space as text, one line per parameter: "lr loguniform(0.0001, 0.1)".
std::string space_text(const Space& space);
// Returns one text per condition: "accuracy 0.995", "after 81 steps".
std::vector<std::string> stop_texts(const Stop& stop);
// Returns the first line that differs: "\"lr …\", now it is \"lr …\"".
std::string difference_text(const std::string& before, const std::string& now);
// kInvalidArgument: the trials of the journal ran another class or function. Journals of earlier Volador versions do
// not record it and pass.
[[nodiscard]] Result<void> check_same_trainable(const std::vector<JournalRecord>& records, std::string_view trainable);
// Returns the options that influence decisions: "max_failures 3 · checkpoint every 5 · stop accuracy 0.99".
std::string limits_text(const LoopOptions& options);

// kInvalidArgument: the run differs from that of the journal; names the option and both values. A larger number of
// trials is allowed.
[[nodiscard]] Result<void> check_same_run(const JournalHeader& journal, const JournalHeader& run);

// Returns the events to replay, in order. Leaves out an interrupt or error that ended the run, and everything but
// results and checkpoints from there to the next resume.
std::vector<JournalEvent> effective_events(const std::vector<JournalRecord>& records);
// Returns the suggestions by index, up to the first missing one.
std::vector<RecordedSuggestion> recorded_suggestions(const std::vector<JournalRecord>& records);

}  // namespace volador::tune
