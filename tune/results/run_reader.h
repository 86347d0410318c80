// Incremental reader of a run's directory: changed trial rows, new reports and rungs. For dashboards that show results
// without a cluster. Single-threaded.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "runtime/actor/session.h"
#include "runtime/clock.h"
#include "runtime/result.h"
#include "tune/results/saved_run.h"

namespace volador::tune {

class RunReader {
 public:
  static constexpr size_t kPointsMax = 20'000;  // Limit per call; the rest follows in the next ones.
  static constexpr size_t kRungMembersShown = 2048;

  RunReader(std::filesystem::path directory, const Clock& clock) : directory_(std::move(directory)), clock_(clock) {}

  struct News {
    ExperimentReport report;  // Named after the directory, which is unique among its siblings.
    bool afresh = false;      // Results were withdrawn, as a resumed run does: discard all earlier updates.
    bool more = false;        // There is more to read: call again at once.
    WallTime started{}, written{};
  };
  // Returns the changes since the last call; no value: none. Errors as load_run(); the next call retries.
  [[nodiscard]] Result<std::optional<News>> look();

  const std::filesystem::path& directory() const { return directory_; }

 private:
  using Stamp = std::array<int64_t, 3>;  // Modification time, size, inode; 0 if there is no file.
  struct Trace {
    std::string row;     // As last returned.
    uint64_t bytes = 0;  // Bytes of result.json that were read.
    bool whole = false;  // The trial has ended and its results were read completely.
    int64_t step = 0;    // Step of the last report.
    std::map<std::string, double> metrics;
    MetricSummary summary;  // Summary of the run's metric over the reports that were read.
  };

  static Stamp stamp_of(const std::filesystem::path& file);
  Result<bool> read_state();
  void read_results(News& news);
  bool read_results_of(const Trial& trial, Trace& trace, News& news, std::vector<TrialPoint>& points);
  void read_rungs(News& news);
  BestReport best_of(Scope scope) const;

  const std::filesystem::path directory_;
  const Clock& clock_;
  std::optional<SavedRun> run_;
  Stamp state_stamp_{}, journal_stamp_{};
  std::map<TrialId, Trace> traces_;
  bool rows_due_ = false;  // The state file has changed since all rows were last read.
  size_t points_ = 0;
  BootTime rungs_due_{};
};

}  // namespace volador::tune
