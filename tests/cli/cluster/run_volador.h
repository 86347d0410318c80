// Runs the real binary as a user would, with a state folder of its own.
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

// A machine's user: everything that is started ends with this object.
class VoladorUser {
 public:
  VoladorUser() = default;
  ~VoladorUser();
  const std::filesystem::path& home() const { return folder_.path(); }
  // The binary with these arguments, VOLADOR_HOME and `environment`.
  Finished run(std::vector<std::string> arguments, const std::map<std::string, std::string>& environment = {}) const;
  // The same in a terminal of that many columns and 40 rows, with `input` typed into it. Stdout and stderr come together, in `out`, with lines that end
  // in "\r\n".
  Finished run_in_terminal(std::vector<std::string> arguments, int columns, const std::map<std::string, std::string>& environment = {},
                           const std::string& input = "") const;
  // Another program in the background, with the same environment; its output is thrown away. Its parent is the caller.
  pid_t start(const std::string& program, std::vector<std::string> arguments);

 private:
  std::vector<std::string> variables() const;
  TemporaryDirectory folder_;
  std::vector<pid_t> started_;
};

// Whether the process exists and has not ended.
bool is_alive(pid_t pid);
// Command lines of every process whose environment names this folder as VOLADOR_HOME.
std::vector<std::string> processes_of(const std::filesystem::path& home);

}  // namespace volador::testing
