// What a run's directory tells as it grows: rows of trials that changed, further reports, rungs. For pages that show results without a
// cluster. One thread.
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
  static constexpr size_t kPointsMax = 20'000;       // Of one look; the rest comes with the next ones.
  static constexpr size_t kRungMembersShown = 2048;

  RunReader(std::filesystem::path directory, const Clock& clock) : directory_(std::move(directory)), clock_(clock) {}

  struct News {
    ExperimentReport report;  // Named after the directory, which is unique beside its neighbours.
    bool afresh = false;      // Results were taken back, as a resumed run does: all that was told before does not count.
    bool more = false;        // Something is left: look again at once.
    WallTime started{}, written{};
  };
  // What is new since the last look; no value: nothing. Errors as of load_run(); the next look tries again.
  [[nodiscard]] Result<std::optional<News>> look();

  const std::filesystem::path& directory() const { return directory_; }

 private:
  using Stamp = std::array<int64_t, 3>;  // Time of change, size, inode; 0 where there is no file.
  struct Trace {
    std::string row;       // As it was told.
    uint64_t bytes = 0;    // Of result.json that were read.
    bool whole = false;    // It has ended, and all of it was read.
    int64_t step = 0;      // Of the last report.
    std::map<std::string, double> metrics;
    MetricSummary summary;   // Of the run's metric, over the reports that were read.
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
  bool rows_due_ = false;  // The state file says something else than when all rows were looked at last.
  size_t points_ = 0;
  BootTime rungs_due_{};
};

}  // namespace volador::tune
