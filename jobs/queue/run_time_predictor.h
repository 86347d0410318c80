// Expected run times of jobs: the mean of the last two jobs of the same owner (Tsafrir, Etsion, Feitelson, TPDS 2007).
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace volador::jobs {

// Raises a prediction by half until it exceeds the time for which the job already runs. All times are in milliseconds.
// Returns at most limit_ms, unless that is 0 (unlimited); 0 if predicted_ms is 0 (no prediction).
int64_t raised_prediction(int64_t predicted_ms, int64_t elapsed_ms, int64_t limit_ms);

class RunTimePredictor {
 public:
  // Records a job that ended by itself or at its limit. limit_ms is 0 for a job without a limit. Ignores a negative
  // run time. A job that was stopped by a user says nothing about its run time: do not record it.
  void record(std::string_view owner, std::string_view project, int64_t run_ms, int64_t limit_ms);

  // Returns the expected run time of a new job in milliseconds: from the last two jobs of the owner; if there are none,
  // from those of the project; 0 if there are none either. If the new job and the recorded ones have limits, users who
  // ask for k times what they need keep doing so: the result is the limit times the mean used fraction. Otherwise it is
  // the mean run time. The result is at least 1 and at most the limit.
  int64_t predict(std::string_view owner, std::string_view project, int64_t limit_ms) const;

 private:
  struct Run {
    int64_t run_ms = 0;
    int64_t limit_ms = 0;
  };
  struct LastRuns {
    std::array<Run, 2> runs;
    int count = 0;  // 0 to 2.
    void add(Run run);
    int64_t mean(int64_t limit_ms) const;
  };

  std::map<std::string, LastRuns, std::less<>> by_owner_;
  std::map<std::string, LastRuns, std::less<>> by_project_;
};

}  // namespace volador::jobs
