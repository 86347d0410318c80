// What is known of one experiment over its whole life, folded from the records that the head's disk keeps, and as a summary of them again.
// Bounded; pure: no clock, thread, I/O or randomness.
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

struct HistoryLimits {
  size_t trials = 20'000;              // Further ones are left out.
  size_t rows_bytes = size_t{64} << 20;  // Beyond, rows of further trials are left out.
  size_t trial_points = 1'000;         // Of one trial: every second one of the older half goes.
  size_t points_bytes = size_t{64} << 20;  // Beyond, all trials keep half as many.
};

class ExperimentHistory {
 public:
  struct Trial {
    protocol::TrialRow row;           // Without points.
    std::vector<std::string> points;  // TrialPoint each, by growing step.
    int64_t last_step = 0;            // Of them; the first one's is above 0, or there are none.
  };

  explicit ExperimentHistory(const HistoryLimits& limits = {}) : limits_(limits), trial_points_(limits.trial_points) {}

  // An ExperimentRecord. One that comes twice changes nothing but the time of the last one; one of another driver is a later run of the name,
  // and all before it is forgotten. False: it cannot be read; nothing changed.
  bool add(std::string_view record);

  const std::string& name() const { return head_.experiment(); }  // Empty: there is nothing.
  bool is_open() const { return head_.state() == "running" || head_.state() == "paused"; }
  const DriverId& driver() const { return driver_; }
  const std::string& machine_id() const { return machine_id_; }
  int64_t started_ms() const { return started_ms_; }
  int64_t updated_ms() const { return updated_ms_; }
  const protocol::ExperimentUpdate& head() const { return head_; }  // Without trials.
  const std::map<std::string, Trial>& trials() const { return trials_; }
  size_t points_bytes() const { return points_bytes_; }

  // Parts of at most about bytes_max, trials in the order of their ids: the first one has what is not of a trial. Points only where wanted.
  void for_each_part(size_t bytes_max, bool with_points, const std::function<void(const protocol::ExperimentUpdate&)>& take) const;
  // The parts as records: folded they are this history.
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
  size_t trial_points_;  // That a trial may have now.
};

}  // namespace volador::head
