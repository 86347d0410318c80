// What jobs used, by day, project and owner, and what nothing used. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/resources.h"
#include "runtime/result.h"

namespace volador::jobs {

inline constexpr int kUsageDays = 800;  // Days that are kept.

// "2026-11-27" for a Unix time, in UTC.
std::string day_of(int64_t unix_ms);

class UsageLedger {
 public:
  // A run of a job: `held` on all of its nodes together.
  struct Run {
    int64_t from_ms = 0;
    int64_t to_ms = 0;
    std::string project;
    std::string owner;
    ResourceSet held;
  };

  // Loads a row of the journal. Returns false if it cannot be read.
  bool load(std::string_view value);
  // Adds a run that has ended. A run over midnight counts on each of its days. Drops days before the last kUsageDays.
  void add(const Run& run);
  // Adds resources that nothing used from one time to another, on the days' rows without a project and an owner.
  void add_idle(int64_t from_ms, int64_t to_ms, const ResourceSet& idle);
  // The rows from one day to another, inclusive, with the parts of runs that have not ended. kInvalidArgument: a day is
  // not of the form 2026-11-27.
  Result<v1::GetUsageReply> usage(const std::string& from_day, const std::string& to_day,
                                  const std::vector<Run>& running) const;

  // Rows that have changed since the last call: key, and value or nothing for a removed row.
  std::vector<std::pair<std::string, std::string>> take_changed();
  std::vector<std::string> take_removed();

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // Day, project, owner.

  std::map<Key, v1::Usage> rows_;
  std::set<Key> changed_;
  std::vector<std::string> removed_;
};

}  // namespace volador::jobs
