// Describes this process in a run's journal, so that the run can be restarted.
#pragma once

#include <string>

#include "tune/results/experiment_journal.h"

namespace volador::tune {

// `sha256`: that of the executable if the session already has it; raw bytes, or empty.
JournalProgram this_program(const std::string& sha256);

}  // namespace volador::tune
