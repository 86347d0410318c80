// Folders that the processes of a trial see in place of others.
#pragma once

#include <filesystem>

namespace volador::cli {

// From now on this process and those that it starts see `own` at `folder`, both of which exist. False: this process may
// not arrange that; nothing has changed.
[[nodiscard]] bool show_in_place(const std::filesystem::path& own, const std::filesystem::path& folder);

}  // namespace volador::cli
