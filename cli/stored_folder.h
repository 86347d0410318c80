// Folders that commands read from storages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/outcome.h"
#include "runtime/storage/storage.h"

namespace volador::cli {

// A storage and the key in it that a command names.
struct StoredPlace {
  storage::Storage storage;
  std::string key;
};
// `address`: s3://bucket/prefix and so on, or the path of a folder. kUsage: it is none, or the whole of a storage.
[[nodiscard]] tl::expected<StoredPlace, Failure> open_stored_place(const std::string& address);

struct StoredCopy {
  int64_t bytes = 0;
  bool verified = false;  // It has a manifest, and the checksums are right.
};
// Copies a stored folder into `to`, which is absent or empty. Without a manifest it may be a run of tune, or what another
// program wrote: all files as they are, unless `only` chooses some. kNotFound: nothing is stored there.
[[nodiscard]] Result<StoredCopy> copy_stored(StoredPlace& place, const std::filesystem::path& to,
                                             const std::vector<std::string>& only = {});

}  // namespace volador::cli
