// This process as a run's journal keeps it, so that the run can be started again.
#pragma once

#include <string>

#include "tune/results/experiment_journal.h"

namespace volador::tune {

// `sha256`: of the executable, as the session knows it already; raw bytes or empty.
JournalProgram this_program(const std::string& sha256);

}  // namespace volador::tune
