// Whether a program can run on this node, before it is run for the first time.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/result.h"
#include "worker/hosts/spawn.h"

namespace volador::worker {

// What the dynamic loader could not find, from its --list output: "libfoo.so.1 => not found", and "version `X' not
// found" lines. Pure.
[[nodiscard]] std::vector<std::string> missing_libraries(std::string_view loader_output);

// What the first bytes of an ELF file say. Pure.
struct ElfHead {
  bool elf = false;
  int bits = 0;        // 32 or 64.
  int machine = 0;     // EM_X86_64 = 62, EM_AARCH64 = 183.
  std::string loader;  // Empty: static.
};
[[nodiscard]] ElfHead parse_elf_head(std::string_view bytes);

// Executable, of this machine's kind, all shared libraries found; asks the dynamic loader to list them (it runs none of
// the program's code). Blocks. Scripts (#!) pass. `node` is for the message. kInvalidArgument: it cannot run here; the
// message names program, what is missing, node and next step. kUnavailable: could not be tried.
[[nodiscard]] Result<void> check_program(const std::filesystem::path& path, const Environment& env,
                                         const std::string& cwd, const std::string& node,
                                         std::chrono::milliseconds timeout = std::chrono::seconds(30));

}  // namespace volador::worker
