// Instructions from `volador tune resume` and `replay` to the program that they restart: resume a run instead of
// starting one, or replay the decisions of searcher and scheduler without running trials.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "runtime/result.h"
#include "tune/results/experiment_journal.h"

namespace volador::tune {

struct StartOrder {
  enum class Kind : uint8_t { kNone, kResume, kReplay };
  Kind kind = Kind::kNone;
  std::filesystem::path directory;  // Directory of the run.
  std::filesystem::path report;     // kReplay: file for the ReplayReport.
  // kResume: handling of failed trials, overriding the program's options.
  enum class Failed : uint8_t { kAsTheProgramSays, kResume, kRestart };
  Failed failed = Failed::kAsTheProgramSays;
};

// Environment variables that carry the order to the program.
std::map<std::string, std::string> environment_of(const StartOrder& order);
// Returns the order in this process's environment for the experiment of this name. A resume is returned once, to the
// first such experiment; other experiments of the program run normally. In a replay every other experiment is rejected:
// kCancelled.
[[nodiscard]] Result<StartOrder> take_start_order(const std::string& experiment);

// Returns the program that last wrote the journal. kNotFound: an earlier Volador wrote it; the message describes the
// alternative.
[[nodiscard]] Result<JournalProgram> program_of(const JournalContents& journal, const std::filesystem::path& directory);
// kNotFound: the executable or its folder no longer exists; names it and its machine.
[[nodiscard]] Result<void> check_startable(const JournalProgram& program);

// Replaces this process by that program, in its folder, with its arguments and with this environment added to that of
// the process. Returns only on failure.
[[nodiscard]] Error become(const JournalProgram& program, const std::map<std::string, std::string>& environment);
// Starts it as a child process, both output streams redirected to the file `output`, and waits. Returns its exit status
// as waitpid(2) does.
[[nodiscard]] Result<int> start_and_wait(const JournalProgram& program,
                                         const std::map<std::string, std::string>& environment,
                                         const std::filesystem::path& output);

}  // namespace volador::tune
