// Copies of datasets on a node's own disk, for jobs that read a slow shared folder more than once. A copy is made once, is
// shared by jobs, and is removed when no job has used it for some days (jobs/store/shared_store.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "jobs/store/shared_store.h"
#include "runtime/result.h"

namespace volador::jobs {

// Limits of a node's copies if the environment variables VOLADOR_DATA_DAYS and VOLADOR_DATA_SIZE do not set them.
inline constexpr StoreLimits kDataLimits{.unused_ms = int64_t{7} * 24 * 3'600'000, .bytes_max = int64_t{1} << 50};

// What a file or folder contains, without reading the files: the hash of the paths, sizes, times of change and modes.
struct DataListing {
  std::string hash;   // 32 hex digits.
  int64_t bytes = 0;  // Sizes of the files.
  int64_t files = 0;
};
// kNotFound: there is no such path. kUnavailable: a folder in it cannot be read.
Result<DataListing> list_data(const std::filesystem::path& source);

class DataCopies {
 public:
  explicit DataCopies(SharedStore& store) : store_(store) {}

  struct Copy {
    std::filesystem::path path;  // The copy, or the source itself if it does not fit on the disk.
    SharedFolder hold;
  };
  // Blocks until the copy is complete. A source that changed since has a new copy. A source that would fill the disk
  // beyond 95 % is used as it is, which the output of the job says. kNotFound, kUnavailable: the source cannot be read,
  // or it changed while it was copied. kCancelled: the store was cancelled. `node`: name for messages.
  Result<Copy> prepare(const std::filesystem::path& source, const std::vector<std::string>& variables,
                       const std::string& node);

 private:
  SharedStore& store_;
};

}  // namespace volador::jobs
