// Files of runs that lie on other machines: read there by a node, or by the run's program, and brought a piece at a
// time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/files/remote_file.h"
#include "runtime/files/run_files.h"
#include "runtime/result.h"

namespace volador::head {

class CoreRunner;

// `done` runs on the runner's loop, once. Those that can read them are asked in turn, as HeadCore::find_run_files names
// them, until one can. Errors: as of find_run_files and of RunFiles there; kUnavailable, kTimeout: nobody answered;
// kPermissionDenied: nobody may read them. The message says who refused.
void list_run_files(CoreRunner& runner, std::string experiment, std::string trial,
                    std::function<void(Result<std::vector<RunFiles::Entry>>)> done);
// The runner outlives the file's pieces.
void open_run_file(CoreRunner& runner, std::string experiment, std::string trial, std::string name,
                   std::function<void(Result<RemoteFile>)> done);

}  // namespace volador::head
