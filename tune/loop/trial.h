// One trial of an experiment: its configuration and state.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/clock.h"
#include "runtime/language/reason.h"
#include "runtime/resources.h"
#include "runtime/result.h"
#include "tune/loop/metrics.h"
#include "tune/space/config.h"

namespace volador::tune {

inline constexpr int64_t kTrialsMax = int64_t{1} << 32;  // Per experiment: trial ids have 32 bits.

// Eight hex digits; a function of the run's key and the trial's index only. No two trials of a run have the same id.
// Each run draws its key at random, even if it repeats the seed of another run, and stores it in its journal, so that a
// resumed run keeps its ids.
class TrialId {
 public:
  constexpr TrialId() = default;
  explicit constexpr TrialId(uint32_t value) : value_(value) {}
  // Requires index < 2^32; different indices give different ids.
  static TrialId of(uint64_t run_key, int64_t index);
  static Result<TrialId> parse(std::string_view text);  // kInvalidArgument: not eight hex digits.

  uint32_t value() const { return value_; }
  auto operator<=>(const TrialId&) const = default;

 private:
  uint32_t value_ = 0;
};
std::string to_string(TrialId id);  // "3f2a90c1"

//              start                 done, or stop conditions
//   kWaiting ─────────▶ kRunning ─────────────────────────────────────────▶ kFinished
//    ▲  ▲                │ │  │  └── scheduler ──▶ kStopped (from kPaused too); kUnstarted: from kWaiting, by time budget or stop conditions
//    │  └─── failure, ───┘ │  └───── failures used up ──▶ kFailed
//    │       tries left    │         interrupt, time budget ──▶ kInterrupted (from kWaiting and kPaused too)
//    └─ resumed ─ kPaused ◀┘ scheduler, once its checkpoint is saved
enum class TrialStatus : uint8_t {
  kWaiting,
  kRunning,
  kPaused,
  kFinished,
  kStopped,
  kFailed,
  kInterrupted,
  kUnstarted
};
inline constexpr int kTrialStatuses = 8;
std::string_view to_string(TrialStatus status);  // "waiting", "running", …
inline bool has_ended(TrialStatus status) { return status >= TrialStatus::kFinished; }

// One metric of one trial over its steps; each step counts once. min, max and mean ignore NaN.
struct MetricSummary {
  double last = std::numeric_limits<double>::quiet_NaN();
  double min = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
  double mean = std::numeric_limits<double>::quiet_NaN();
  int64_t count = 0;  // Number of values other than NaN.
  int64_t nan_count = 0;
  int64_t last_step = 0;               // Step of the last report
  int64_t min_step = 0, max_step = 0;  // and the first steps with the minimum and the maximum.

  void add(double value, int64_t step);
  int64_t reports() const { return count + nan_count; }
  double best(Mode mode) const { return mode == Mode::kMax ? max : min; }
};

// A valid checkpoint: complete and durable in the storage path.
struct Checkpoint {
  int64_t step = 0;
  int64_t attempt = 0;   // The attempt that wrote it.
  std::string location;  // As named by the storage.
  double score =
      std::numeric_limits<double>::quiet_NaN();  // Value of the score attribute at that step; NaN if it was not
                                                 // reported.
  double time_total_s = 0;                       // Total time of the trial up to that step.

  bool operator==(const Checkpoint& other) const {
    return step == other.step && attempt == other.attempt && location == other.location;
  }
};

struct Trial {
  TrialId id;
  std::string name;               // From .trial_name; empty: the id. See name_of().
  std::string folder;             // Folder of its files in the run's directory; empty: the id. See folder_of().
  std::vector<std::string> tags;  // From tune::tag(), in the order added.
  int64_t index = 0;              // From 0, in the order suggested.
  Config config;
  std::optional<TrialId> cloned_from = std::nullopt;  // Trial that a user derived the configuration from.
  TrialStatus status = TrialStatus::kWaiting;
  int64_t step = 0;      // training_iteration of the last result that counts; a failure resets it to the checkpoint.
  int64_t step_max = 0;  // Highest step ever counted.
  Metrics last_result;   // With training_iteration, time_this_iter_s, time_total_s.
  std::map<std::string, MetricSummary, std::less<>> metrics;
  int64_t attempt = 0;                  // Starts so far; events of older attempts are ignored.
  int64_t failures = 0;                 // Failures that count towards max_failures.
  int64_t losses = 0;                   // Attempts that ended through no fault of the trial, such as a lost node.
  std::vector<Checkpoint> checkpoints;  // Retained checkpoints, by step.
  double time_total_s = 0;
  WallTime started{}, ended{};  // First start, and end; the epoch: not yet, or unknown.
  ResourceSet resources = {};   // Resources of the next start, if the scheduler changed them; empty: those of the run.
  std::string node;             // Node of the running or the last attempt.
  Reason error;                 // Error of the last failure, even if a later attempt succeeded.
  Reason reason;                // Why it waits, or why it ended.

  const Checkpoint* last_checkpoint() const { return checkpoints.empty() ? nullptr : &checkpoints.back(); }
  // The checkpoint with the best score (attribute of num_to_keep) in this direction; without scores the last one. Null:
  // there are no checkpoints.
  const Checkpoint* best_checkpoint(Mode mode) const;
};

// The id by default, or the result of the template.
inline std::string name_of(const Trial& trial) { return trial.name.empty() ? to_string(trial.id) : trial.name; }
inline std::string folder_of(const Trial& trial) { return trial.folder.empty() ? to_string(trial.id) : trial.folder; }

}  // namespace volador::tune

template <>
struct std::hash<volador::tune::TrialId> {
  size_t operator()(volador::tune::TrialId id) const noexcept { return id.value() * 0x9e3779b97f4a7c15ULL; }
};
