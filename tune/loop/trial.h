// One trial of an experiment: its configuration and everything that is known about it.
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

inline constexpr int64_t kTrialsMax = int64_t{1} << 32;  // Of one experiment: their ids have 32 bits.

// Eight hex digits, a function of the run's key and the trial's index only. No two trials of a run have the same id.
// Each run draws its key at random, also where it repeats the seed of another run, and keeps it in its journal, so that
// a resumed run has its ids again.
class TrialId {
 public:
  constexpr TrialId() = default;
  explicit constexpr TrialId(uint32_t value) : value_(value) {}
  // index < 2^32; different indices give different ids.
  static TrialId of(uint64_t run_key, int64_t index);
  static Result<TrialId> parse(std::string_view text);  // kInvalidArgument: not eight hex digits.

  uint32_t value() const { return value_; }
  auto operator<=>(const TrialId&) const = default;

 private:
  uint32_t value_ = 0;
};
std::string to_string(TrialId id);  // "3f2a90c1"

//              start                 a result says so, or stop conditions
//   kWaiting ─────────▶ kRunning ─────────────────────────────────────────▶ kFinished
//    ▲  ▲                │ │  │  └── scheduler ──▶ kStopped (from kPaused too); kUnstarted: from kWaiting, by time budget or stop conditions
//    │  └─── failure, ───┘ │  └───── failures used up ──▶ kFailed
//    │       tries left    │         interrupt, time budget ──▶ kInterrupted (from kWaiting and kPaused too)
//    └─ resumed ─ kPaused ◀┘ scheduler, once its checkpoint is saved
enum class TrialStatus : uint8_t { kWaiting, kRunning, kPaused, kFinished, kStopped, kFailed, kInterrupted, kUnstarted };
inline constexpr int kTrialStatuses = 8;
std::string_view to_string(TrialStatus status);  // "waiting", "running", …
inline bool has_ended(TrialStatus status) { return status >= TrialStatus::kFinished; }

// One metric of one trial over its steps, each step counted once. min, max and mean leave NaN out.
struct MetricSummary {
  double last = std::numeric_limits<double>::quiet_NaN();
  double min = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
  double mean = std::numeric_limits<double>::quiet_NaN();
  int64_t count = 0;  // Numbers, NaN left out.
  int64_t nan_count = 0;
  int64_t last_step = 0;  // At which it was reported last,
  int64_t min_step = 0, max_step = 0;  // and first as small and as great as that.

  void add(double value, int64_t step);
  int64_t reports() const { return count + nan_count; }
  double best(Mode mode) const { return mode == Mode::kMax ? max : min; }
};

// A checkpoint that counts: complete and durable in the storage path.
struct Checkpoint {
  int64_t step = 0;
  int64_t attempt = 0;   // Which start of the trial wrote it.
  std::string location;  // As the storage named it.
  double score =
      std::numeric_limits<double>::quiet_NaN();  // Of the score attribute at that step; NaN where it was not reported.
  double time_total_s = 0;                       // Of the trial up to that step.

  bool operator==(const Checkpoint& other) const {
    return step == other.step && attempt == other.attempt && location == other.location;
  }
};

struct Trial {
  TrialId id;
  std::string name;    // By .trial_name; empty: its id. See name_of().
  std::string folder;  // Of its files below the run's directory, by .trial_folder; empty: its id. See folder_of().
  std::vector<std::string> tags;  // By tune::tag(), in the order given.
  int64_t index = 0;  // From 0, in the order suggested.
  Config config;
  std::optional<TrialId> cloned_from = std::nullopt;  // Whose values a person had it begin with, some of them changed.
  TrialStatus status = TrialStatus::kWaiting;
  int64_t step = 0;  // training_iteration of the last result that counts; goes back to the checkpoint after a failure.
  int64_t step_max = 0;  // Highest step ever counted.
  Metrics last_result;   // With training_iteration, time_this_iter_s, time_total_s.
  std::map<std::string, MetricSummary, std::less<>> metrics;
  int64_t attempt = 0;                  // Starts so far; every event of an older one is ignored.
  int64_t failures = 0;                 // That count against max_failures.
  int64_t losses = 0;                   // Attempts that ended through no fault of the trial (its node was lost).
  std::vector<Checkpoint> checkpoints;  // Kept ones, by step.
  double time_total_s = 0;
  WallTime started{}, ended{};          // Its first start, and its end; the epoch: not yet, or not known.
  ResourceSet resources = {};  // Of its next start, where its scheduler changed them; empty: those of the run.
  std::string node;    // Of the running or the last attempt.
  Reason error;        // Of the last failure, also where a later attempt succeeded.
  Reason reason;       // Why it waits, or why it ended.

  const Checkpoint* last_checkpoint() const { return checkpoints.empty() ? nullptr : &checkpoints.back(); }
  // By score (num_to_keep's attribute) in this direction; without scores the last one. Null without checkpoints.
  const Checkpoint* best_checkpoint(Mode mode) const;
};

// "3f2a90c1" where no template says otherwise.
inline std::string name_of(const Trial& trial) { return trial.name.empty() ? to_string(trial.id) : trial.name; }
inline std::string folder_of(const Trial& trial) { return trial.folder.empty() ? to_string(trial.id) : trial.folder; }

}  // namespace volador::tune

template <>
struct std::hash<volador::tune::TrialId> {
  size_t operator()(volador::tune::TrialId id) const noexcept { return id.value() * 0x9e3779b97f4a7c15ULL; }
};
