// Runs a trial as a child of its experiment's warm process (docs/architecture.md) instead of a new Python.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace volador::cli {

// The folder that the worker of this job's node has made for its warm processes; empty: there is none, or it is not this
// user's alone.
std::filesystem::path warm_folder();

struct WarmTrial {
  std::string experiment;                        // Only its runs share a warm process.
  std::vector<std::string> words;                // experiments::warm_words().
  std::map<std::string, std::string> variables;  // All that the trial gets.
};

// Starts the warm process if there is none, has it fork the trial, and stays until the trial has ended: signals that this
// process gets are passed on, and the standard streams are the trial's. Returns the exit code, 128 + N after signal N.
//
// None: nothing of the trial has run; start it in a new process. The reasons: the node has no place for warm processes,
// as in a sandbox; Python cannot import the package; or the warm process found something in the code that it would do
// differently.
[[nodiscard]] std::optional<int> run_warm(const WarmTrial& trial);

}  // namespace volador::cli
