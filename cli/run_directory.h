// Resolves the run directory that a command names.
#pragma once

#include <filesystem>
#include <string>
#include <tl/expected.hpp>

#include "cli/outcome.h"

namespace volador::cli {

// Help text for the argument of commands that read a run.
constexpr const char* kRunDirectoryHelp =
    "Directory of the run, or its name or the start of it below ~/volador_results: the newest run of a name counts";

// Returns the directory itself if it exists; otherwise a run in default_storage_path(), resolved by named_run()
// (head/experiments/run_names.h). Exit code kNotFound: not found, or the prefix matches runs of several names; the
// error lists them.
tl::expected<std::filesystem::path, Failure> run_directory(const std::string& text);

}  // namespace volador::cli
