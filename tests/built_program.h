// Programs of the build that tests start.
#pragma once

#include <filesystem>
#include <string>

namespace volador::testing {

// The path of a program or library of this name in the folder of the test's own program. No path of the build is compiled in, so that what a
// compiler cache keeps serves every checkout.
inline std::string built_program(const std::string& name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

}  // namespace volador::testing
