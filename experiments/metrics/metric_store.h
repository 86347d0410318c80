// Metrics of trials at full resolution on disk, 6 to 11 bytes a value. A batch of reports is one write to a log; once
// the log has log_bytes, a thread moves its reports to one file for each trial, in blocks of columns with their extremes,
// and reports go to a new log meanwhile.
//
//   <folder>/log                                  reports, rewinds and removals since the last flush
//   <folder>/log.old                              the log before it, until all of it is in the files
//   <folder>/trials/<experiment>/<trial>.metrics  blocks (metric_block.h)
//
// Damage is logged and skipped: a torn end of the log after a crash, blocks whose check sum is wrong.
// Used by one thread. Single writer: the caller has locked the folder, or one above it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/metrics/metric_report.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/result.h"

namespace volador::experiments {

struct MetricStoreOptions {
  std::filesystem::path folder;        // Created if it does not exist.
  bool sync = false;                   // Every change survives a power failure: one disk flush for each call.
  size_t log_bytes = size_t{8} << 20;  // Also limits the memory: about ten times as much, three times that at most.
};

class MetricStore {
 public:
  // kUnavailable, kPermissionDenied: the folder cannot be read or written; the message names the file.
  [[nodiscard]] static Result<MetricStore> open(const MetricStoreOptions& options);
  MetricStore(MetricStore&&) noexcept;
  MetricStore& operator=(MetricStore&&) noexcept;
  ~MetricStore();

  // Changes are kept when the call returns; on an error nothing of the call is kept, and it can be repeated.
  // kUnavailable: no space, or another disk error; the message names the file.

  // The rules of MetricReport. The last one of equal names in one report counts.
  [[nodiscard]] Result<void> append(std::span<const MetricReport> reports);
  [[nodiscard]] Result<void> rewind(const MetricRewind& rewind);
  // Removes all metrics of an experiment; later reports for it are kept again.
  [[nodiscard]] Result<void> remove(int64_t experiment);
  // Moves everything from the log to the trials' files. append() begins it in a thread when the log is full.
  [[nodiscard]] Result<void> flush();

  // The experiment of a trial; none: the trial is left out.
  using ExperimentOf = std::function<std::optional<int64_t>(int64_t trial)>;
  // Series in the order of request.trials, then by name, each by batches. A series with more than max_points points is
  // thinned: it keeps the first and the last point and those with the lowest, highest and first value that is not
  // finite of equal stretches. Small values of max_points count as 5. kInvalidArgument: too many trials.
  // kUnavailable: a file cannot be read.
  [[nodiscard]] Result<v1::GetMetricsReply> query(const v1::GetMetricsRequest& request,
                                                  const ExperimentOf& experiment_of) const;

  struct Name {
    std::string group;
    std::string metric;

    auto operator<=>(const Name&) const = default;
  };
  // Names of all series of a trial, sorted.
  [[nodiscard]] Result<std::vector<Name>> names(int64_t experiment, int64_t trial) const;

 private:
  struct Impl;
  explicit MetricStore(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::experiments
