#include "cli/own_folder.h"

#include <sched.h>
#include <sys/mount.h>

namespace volador::cli {

bool show_in_place(const std::filesystem::path& own, const std::filesystem::path& folder) {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount(own.c_str(), folder.c_str(), nullptr, MS_BIND, nullptr) == 0;
}

}  // namespace volador::cli
