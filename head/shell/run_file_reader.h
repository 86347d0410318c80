// Reads files of runs on other machines, through a node or the run's program, one piece at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/files/remote_file.h"
#include "runtime/files/run_files.h"
#include "runtime/result.h"

namespace volador::head {

class CoreRunner;

// `done` runs once on the runner's loop. Tries the readers in the order of Lookups::find_run_files until one succeeds.
// Errors: those of find_run_files and of RunFiles on the reader; kUnavailable, kTimeout: no reader replied;
// kPermissionDenied: no reader has access. The message names the reader that refused.
void list_run_files(CoreRunner& runner, std::string experiment, std::string trial,
                    std::function<void(Result<std::vector<RunFiles::Entry>>)> done);
// The runner must outlive the file's pieces.
void open_run_file(CoreRunner& runner, std::string experiment, std::string trial, std::string name,
                   std::function<void(Result<RemoteFile>)> done);

}  // namespace volador::head
