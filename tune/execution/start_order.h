// What `volador tune resume` and `replay` ask of a program that they start again: to go on with a run instead of
// beginning one, or to ask its searcher and scheduler again and run nothing.
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
  std::filesystem::path directory;  // Of the run.
  std::filesystem::path report;     // kReplay: where the ReplayReport goes.
  // kResume: what becomes of trials that had failed, besides what the program says itself.
  enum class Failed : uint8_t { kAsTheProgramSays, kResume, kRestart };
  Failed failed = Failed::kAsTheProgramSays;
};

// The variables by which the other process is told.
std::map<std::string, std::string> environment_of(const StartOrder& order);
// That of this process's environment for the experiment of this name. A resume is given once, to the first such
// experiment; other experiments of the program are run as always. In a replay every other experiment is refused:
// kCancelled.
[[nodiscard]] Result<StartOrder> take_start_order(const std::string& experiment);

// The program that wrote the journal last. kNotFound: an earlier Volador wrote it; the message says what to do instead.
[[nodiscard]] Result<JournalProgram> program_of(const JournalContents& journal, const std::filesystem::path& directory);
// kNotFound: the executable or its folder is not there any more; names it, and the machine where it was.
[[nodiscard]] Result<void> check_startable(const JournalProgram& program);

// Becomes that program, in its folder, with its arguments and this environment besides that of this process. Returns
// only where it cannot.
[[nodiscard]] Error become(const JournalProgram& program, const std::map<std::string, std::string>& environment);
// Starts it beside this process, both its streams into the file `output`, and waits. Its exit status as of waitpid(2).
[[nodiscard]] Result<int> start_and_wait(const JournalProgram& program,
                                         const std::map<std::string, std::string>& environment,
                                         const std::filesystem::path& output);

}  // namespace volador::tune
