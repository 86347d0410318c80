// Runs the real binary with its own state folder.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/temporary_directory.h"

namespace volador::testing {

struct Finished {
  int code = -1;
  std::string out;
  std::string error;
  double seconds = 0;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

// A user of a machine: everything started ends with this object.
class VoladorUser {
 public:
  VoladorUser() = default;
  ~VoladorUser();
  const std::filesystem::path& home() const { return folder_.path(); }
  // Runs the binary with these arguments, VOLADOR_HOME and `environment`.
  Finished run(std::vector<std::string> arguments, const std::map<std::string, std::string>& environment = {}) const;
  // As run(), in a terminal with that many columns and 40 rows, with `input` typed into it. Stdout and stderr are
  // combined in `out`, with lines that end in "\r\n".
  Finished run_in_terminal(std::vector<std::string> arguments, int columns,
                           const std::map<std::string, std::string>& environment = {},
                           const std::string& input = "") const;
  // Starts another program in the background with the same environment; its output is discarded. Its parent is the
  // caller.
  pid_t start(const std::string& program, std::vector<std::string> arguments);

 private:
  std::vector<std::string> variables() const;
  TemporaryDirectory folder_;
  std::vector<pid_t> started_;
};

// Whether the process exists and has not ended.
bool is_alive(pid_t pid);
// Command lines of all processes whose VOLADOR_HOME is this folder.
std::vector<std::string> processes_of(const std::filesystem::path& home);

}  // namespace volador::testing
