#include "volador/program.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string_view>

#include "runtime/control/program_transfer.h"
#include "runtime/machine.h"
#include "volador/embedding.h"

namespace volador {
namespace {

// Variables sent to actors on other machines; all others are specific to a machine.
bool travels(std::string_view name) {
  for (const std::string_view prefix : {"OMP_", "MKL_", "TORCH_", "CUDA_LAUNCH_", "NCCL_", "GLOO_", "KMP_"}) {
    if (name.starts_with(prefix)) return true;
  }
  return name == "TZ" || name == "LANG" || name == "LC_ALL" || name == "PYTHONPATH";
}

}  // namespace

std::vector<std::string> command_line(const Embedding* embedding) {
  if (embedding != nullptr) return embedding->argv;
  std::vector<std::string> arguments;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

Result<ProgramDescription> describe_program(const Embedding* embedding) {
  std::error_code failed;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return make_error(ErrorCode::kUnavailable, "cannot read /proc/self/exe: is /proc mounted?");
  auto machine = machine_id();
  if (!machine) return make_error(std::move(machine).error());
  auto sha256 = control::sha256_of_file("/proc/self/exe");
  if (!sha256) return make_error(std::move(sha256).error());
  ProgramDescription program;
  program.name = embedding != nullptr ? embedding->name : path.filename().string();
  auto& description = program.description;
  description.set_sha256(std::string(sha256->begin(), sha256->end()));
  description.set_path(path);
  description.set_size_bytes(static_cast<int64_t>(std::filesystem::file_size("/proc/self/exe", failed)));
  description.set_cwd(std::filesystem::current_path(failed));
  description.set_machine_id(*machine);
  for (const std::string& argument : command_line(embedding)) description.add_argv(argument);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view pair = *entry;
    const size_t equals = pair.find('=');
    if (equals != std::string_view::npos && travels(pair.substr(0, equals))) {
      (*description.mutable_env())[std::string(pair.substr(0, equals))] = std::string(pair.substr(equals + 1));
    }
  }
  if (embedding != nullptr) {
    for (const auto& [name, value] : embedding->env) (*description.mutable_env())[name] = value;
  }
  return program;
}

}  // namespace volador
