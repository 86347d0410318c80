// The whole life of one experiment, folded from the records on the head's disk, and convertible into summary records.
// Bounded. Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"

namespace volador::head {

// Limits of one experiment's history.
struct HistoryLimits {
  size_t trials = 20'000;                  // Further trials are dropped.
  size_t rows_bytes = size_t{64} << 20;    // Beyond it rows of further trials are dropped.
  size_t trial_points = 1'000;             // Per trial; beyond it every second point of the older half is dropped.
  size_t points_bytes = size_t{64} << 20;  // Beyond it all trials keep half as many points.
};

class ExperimentHistory {
 public:
  struct Trial {
    protocol::TrialRow row;           // Without points.
    std::vector<std::string> points;  // Serialized TrialPoints by growing step.
    int64_t last_step = 0;            // Step of the last point; the first step is above 0.
  };

  explicit ExperimentHistory(const HistoryLimits& limits = {}) : limits_(limits), trial_points_(limits.trial_points) {}

  // Folds an ExperimentRecord. A repeated record only changes the time of the last one. A record of another driver is a
  // later run with the same name and replaces all earlier data. Returns false, without effect, if it cannot be read.
  bool add(std::string_view record);

  const std::string& name() const { return head_.experiment(); }  // Empty: no record was added.
  bool is_open() const { return head_.state() == "running" || head_.state() == "paused"; }
  const DriverId& driver() const { return driver_; }
  const std::string& machine_id() const { return machine_id_; }
  int64_t started_ms() const { return started_ms_; }
  int64_t updated_ms() const { return updated_ms_; }
  const protocol::ExperimentUpdate& head() const { return head_; }  // Without trials.
  const std::map<std::string, Trial>& trials() const { return trials_; }
  size_t points_bytes() const { return points_bytes_; }

  // Splits into parts of about bytes_max, with trials ordered by id; the first part has the data that belongs to no
  // trial. Includes points only if with_points is set.
  void for_each_part(size_t bytes_max, bool with_points,
                     const std::function<void(const protocol::ExperimentUpdate&)>& take) const;
  // Same as records; folding them gives this history.
  void for_each_record(size_t bytes_max, const std::function<void(std::string)>& take) const;

 private:
  void add_trial(const protocol::TrialRow& row);
  void add_points(Trial& trial, const protocol::TrialRow& row);
  void thin(Trial& trial);
  void begin_anew();

  HistoryLimits limits_;
  DriverId driver_;
  std::string machine_id_;
  int64_t started_ms_ = 0, updated_ms_ = 0;
  protocol::ExperimentUpdate head_;
  std::map<std::string, Trial> trials_;
  size_t rows_bytes_ = 0, points_bytes_ = 0;
  size_t trial_points_;  // Current limit of points per trial.
};

}  // namespace volador::head
