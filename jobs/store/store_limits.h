// What a node keeps on its disk for later jobs, and for how long: the rules of jobs/store/shared_store.h.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::jobs {

struct StoreLimits {
  int64_t unused_ms = 0;  // An entry that no job has used for this time is removed.
  int64_t bytes_max = 0;  // All entries together.
};

// Changes limits by the texts of two environment variables, <prefix>_DAYS and <prefix>_SIZE; empty: the default stays.
// kInvalidArgument: names the variable, the value and the rule.
Result<StoreLimits> store_limits(StoreLimits defaults, std::string_view prefix, std::string_view days,
                                 std::string_view size);

struct StoredEntry {
  std::string key;
  int64_t used_ms = 0;  // Unix time of the last use.
  int64_t bytes = 0;
  bool complete = true;
  bool in_use = false;
};

// Keys of the entries to remove, in this order: those that were left incomplete, those unused for too long, then the
// longest unused until the others fit the size limit. Never one in use.
std::vector<std::string> entries_to_remove(std::vector<StoredEntry> stored, const StoreLimits& limits, int64_t now_ms);

}  // namespace volador::jobs
