// Follows the output of a job's ranks across restarts, until the job has ended.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"

namespace volador::control {
class ClusterApi;
}

namespace volador::jobs {

class JobOutput {
 public:
  struct Line {
    int rank = 0;
    std::string node;
    bool is_stderr = false;
    std::string text;
  };
  using Print = std::function<void(const Line& line)>;

  // `rank`: only this one; -1: all. `tail`: of each stream only so many of the lines that exist at the start; 0: all.
  JobOutput(control::ClusterApi& api, int rank, int tail, Print print)
      : api_(api), rank_(rank), tail_(tail), print_(std::move(print)) {}

  // Prints the lines of the job's ranks that are new since the last call. Nodes that do not answer are skipped and asked
  // again by the next call. Returns whether there were any.
  Result<bool> read(const v1::Job& job);

 private:
  struct Place {
    int64_t next = 0;  // The next line; 0: not read yet.
  };
  bool read_stream(const v1::JobRank& rank, bool is_stderr);

  control::ClusterApi& api_;
  const int rank_;
  const int tail_;
  const Print print_;
  std::map<std::pair<std::string, bool>, Place> places_;  // By actor and stream.
  std::set<std::string> ended_;                           // Actors that were read after their end.
};

}  // namespace volador::jobs
