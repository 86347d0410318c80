#include "experiments/launch/warm_start.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "runtime/protocol/volador/v1/experiments.pb.h"

namespace volador::experiments {
namespace {

using Words = std::vector<std::string>;

// The characters of a line that bash takes as they are.
constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@% ";

// With them Python starts differently.
constexpr std::array<std::string_view, 6> kPythonModes = {
    "PYTHONSAFEPATH", "PYTHONINSPECT", "PYTHONPROFILEIMPORTTIME", "PYTHONVERBOSE", "PYTHONPLATLIBDIR", "PYTHONHOME"};

// Variables that differ between the runs of an experiment, by their beginnings.
constexpr std::array<std::string_view, 5> kOfOneRun = {"DET_", "VOLADOR_JOB_", "VOLADOR_TRIAL", "VOLADOR_INFO_DIR",
                                                       "VOLADOR_TOKEN"};
constexpr std::array<std::string_view, 5> kOfOneProcess = {"MASTER_PORT", "MASTER_ADDR", "PWD", "OLDPWD", "_"};

std::string value_or_empty(const std::map<std::string, std::string>& variables, std::string_view name) {
  const auto found = variables.find(std::string(name));
  return found == variables.end() ? std::string() : found->second;
}

// A line of bash that is one program with plain words; empty: it is more.
Words plain_words(const std::string& line) {
  if (line.find_first_not_of(kPlain) != std::string::npos) return {};
  std::istringstream in(line);
  Words words;
  for (std::string word; in >> word;) words.push_back(std::move(word));
  return words;
}

// Entries of PYTHONPATH that mean another folder in each working directory.
bool has_relative_entry(const std::string& path) {
  if (path.empty()) return false;
  std::istringstream in(path + ":");  // An empty entry counts too.
  for (std::string entry; std::getline(in, entry, ':');)
    if (!entry.starts_with('/')) return true;
  return false;
}

}  // namespace

std::optional<std::vector<std::string>> warm_words(const v1::StartTrialRunReply& run, const TrialNode& node,
                                                   const TrialLaunch& launch,
                                                   const std::map<std::string, std::string>& variables) {
  if (node.has_startup_hook || node.hosts.size() != 1 || node.shims.empty() || !run.collection().empty())
    return std::nullopt;
  if (value_or_empty(variables, kWarmStartVariable) == "0") return std::nullopt;
  const bool other_start =
      std::ranges::any_of(kPythonModes, [&](std::string_view name) { return variables.contains(std::string(name)); });
  if (other_start || has_relative_entry(value_or_empty(variables, "PYTHONPATH"))) return std::nullopt;
  Words words = launch.command;
  if (words.size() == 3 && words[0] == "bash" && words[1] == "-c") words = plain_words(words[2]);
  if (words.size() < 2 || words.front() != "python3") return std::nullopt;
  words.erase(words.begin());
  if (words == Words{"-m", "volador.determined", "--trial"} && !run.trial_class().empty()) return words;
  if (words.front().starts_with('-') || !words.front().ends_with(".py")) return std::nullopt;
  return words;
}

SharedVariables shared_variables(const std::map<std::string, std::string>& variables) {
  SharedVariables shared;
  for (const auto& [name, value] : variables) {
    const bool of_one_run =
        std::ranges::any_of(kOfOneRun, [&](std::string_view prefix) { return name.starts_with(prefix); });
    if (of_one_run || std::ranges::find(kOfOneProcess, name) != kOfOneProcess.end()) continue;
    shared.emplace(name, value);
  }
  return shared;
}

}  // namespace volador::experiments
