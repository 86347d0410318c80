// Checks whether a program can run on this node before its first run.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/result.h"
#include "worker/hosts/spawn.h"

namespace volador::worker {

// Returns what the dynamic loader could not find, from its --list output: "libfoo.so.1 => not found" and "version `X'
// not found" lines. Pure.
[[nodiscard]] std::vector<std::string> missing_libraries(std::string_view loader_output);

// Header of an ELF file. Pure.
struct ElfHead {
  bool elf = false;
  int bits = 0;        // 32 or 64.
  int machine = 0;     // EM_X86_64 = 62, EM_AARCH64 = 183.
  std::string loader;  // Empty: static.
};
[[nodiscard]] ElfHead parse_elf_head(std::string_view bytes);

// Checks that the file is executable, matches this machine, and finds all shared libraries, by the dynamic loader's
// list (which runs no code of the program). Blocks. Scripts (#!) pass. `node` is used in the message. kInvalidArgument:
// it cannot run here; the message names program, missing part, node and next step. kUnavailable: the check failed.
[[nodiscard]] Result<void> check_program(const std::filesystem::path& path, const Environment& env,
                                         const std::string& cwd, const std::string& node,
                                         std::chrono::milliseconds timeout = std::chrono::seconds(30));

}  // namespace volador::worker
