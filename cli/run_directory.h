// The directory of the run that a command names.
#pragma once

#include <filesystem>
#include <string>
#include <tl/expected.hpp>

#include "cli/outcome.h"

namespace volador::cli {

// What commands that read a run say of their argument.
constexpr const char* kRunDirectoryHelp = "Directory of the run, or its name or the start of it below ~/volador_results: the newest run of a name counts";

// A directory as it stands; else a run below default_storage_path(), as named_run() has it (head/experiments/run_names.h). Exit code kNotFound: there is
// none, or runs of several names start so; the error lists them.
tl::expected<std::filesystem::path, Failure> run_directory(const std::string& text);

}  // namespace volador::cli
