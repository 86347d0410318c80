// Metrics of trials as event files of TensorBoard: one file for each trial, to which new points are appended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/result.h"

namespace volador::control {
class ClusterApi;
}

namespace volador::cli {

class EventExport {
 public:
  // Writes what the head has of the trial beyond the last call into `folder`, which is made where it is absent. Returns
  // whether there was anything. A new run of the trial goes on from its checkpoint: what it reports again is written
  // again. Errors as ClusterApi::call(); kUnavailable: the file cannot be written.
  [[nodiscard]] Result<bool> add(control::ClusterApi& api, const v1::TrialInfo& trial,
                                 const std::filesystem::path& folder);
  // Whether everything of an ended trial is written.
  bool is_complete(int64_t trial) const;
  // Forgets the trial: the next add() writes all of it.
  void forget(int64_t trial) { written_.erase(trial); }

 private:
  struct Written {
    std::string file;  // Name; empty: none yet.
    int64_t run = 0;
    std::map<std::string, int64_t> last;  // Batches of the last point, by group.
    bool complete = false;
  };
  std::map<int64_t, Written> written_;
};

// Appends points as records of an event file: each as "<group>/<metric>" at its batches. Returns the last batches; -1: no
// points.
int64_t append_series(std::string& out, const v1::GetMetricsReply& metrics);

}  // namespace volador::cli
