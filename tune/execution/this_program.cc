#include "tune/execution/this_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace volador::tune {

JournalProgram this_program(const std::string& sha256) {
  std::error_code code;
  JournalProgram program;
  program.executable = std::filesystem::read_symlink("/proc/self/exe", code).string();
  program.working_directory = std::filesystem::current_path(code).string();
  std::ifstream arguments("/proc/self/cmdline", std::ios::binary);
  for (std::string argument; std::getline(arguments, argument, '\0');) program.arguments.push_back(argument);
  for (const char byte : sha256) program.sha256 += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  std::array<char, 256> hostname{};
  if (::gethostname(hostname.data(), hostname.size() - 1) == 0) program.hostname = hostname.data();
  return program;
}

}  // namespace volador::tune
