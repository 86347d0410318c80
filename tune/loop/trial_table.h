// The trials of an experiment with their phases, the queue and the set of paused trials. The loop decides; the table
// stores the state, which is consistent after each call.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tune/loop/phase_clock.h"
#include "tune/loop/trial.h"
#include "tune/loop/trial_counts.h"
#include "tune/loop/trial_index.h"
#include "tune/loop/trial_phase.h"
#include "tune/schedulers/scheduler.h"

namespace volador::tune {

struct Verdict {
  TrialStatus status = TrialStatus::kFinished;
  Reason reason;
};

// A trial that is becoming a copy of another one.
struct Clone {
  CloneOrder order;
  std::optional<Checkpoint> checkpoint;  // The checkpoint being copied; no value: not requested yet.
};

// Internal state of a trial in the loop.
struct Slot {
  Phase phase = Phase::kQueued;
  int64_t saving_step = 0;         // Step of the checkpoint requested last.
  std::optional<Verdict> verdict;  // How the trial ends; in kStopping without a verdict it is paused or retried.
  int64_t verdict_step = 0;
  int64_t pause_step = 0;        // The scheduler pauses it after this step; 0: no pause.
  bool pausing = false;          // In kStopping for a pause: the checkpoint is saved.
  bool yields = false;           // Requeued once paused.
  bool held = false;             // Paused by the user: it must not have an actor.
  bool backs_off = false;        // In kHeld after a failure; retried later.
  int64_t save_step = 0;         // The scheduler wants a checkpoint after this step.
  bool clone_due = false;        // The scheduler decided kClone; the order has not arrived yet.
  std::unique_ptr<Clone> clone;  // Null for most trials.
  double priority = 0;           // Queue order: by priority, then by ticket. Must not change while queued.
  int64_t ticket = 0;
  Reason why;                 // Reason of the scheduler's last stop or pause.
  bool stop_at_once = false;  // StopTrial was emitted with at_once.
  bool save_notice = false;   // The notice about a failed checkpoint was emitted.
};

// Slots by index, with stable addresses.
class Slots {
 public:
  void add() {
    if (size_ % kChunk == 0) chunks_.push_back(std::make_unique<std::array<Slot, kChunk>>());
    ++size_;
  }
  size_t size() const { return size_; }
  Slot& operator[](size_t at) { return (*chunks_[at / kChunk])[at % kChunk]; }
  const Slot& operator[](size_t at) const { return (*chunks_[at / kChunk])[at % kChunk]; }

 private:
  static constexpr size_t kChunk = 64;  // std::deque would hold only one or two slots per chunk and need a division.
  std::vector<std::unique_ptr<std::array<Slot, kChunk>>> chunks_;
  size_t size_ = 0;
};

// All operations are O(1), those on the queue O(log trials).
class TrialTable {
 public:
  // Adds the next trial in phase kQueued, not yet enqueued.
  Trial& add(TrialId id, Config config);

  const std::deque<Trial>& trials() const { return trials_; }
  std::deque<Trial>& trials() { return trials_; }
  int64_t size() const { return static_cast<int64_t>(trials_.size()); }
  Trial& at(int64_t index) { return trials_[static_cast<size_t>(index)]; }
  const Trial& at(int64_t index) const { return trials_[static_cast<size_t>(index)]; }
  const Trial* find(TrialId id) const;
  Trial* find(TrialId id) { return const_cast<Trial*>(std::as_const(*this).find(id)); }
  // Returns the trial if `attempt` is its current attempt, else null.
  Trial* current(TrialId id, int64_t attempt);
  Slot& slot(const Trial& trial) { return slots_[static_cast<size_t>(trial.index)]; }
  const Slot& slot(const Trial& trial) const { return slots_[static_cast<size_t>(trial.index)]; }

  static bool is_live(Phase phase) { return tune::is_live(phase); }
  // Removes the trial from the queue if it is queued.
  void set_phase(Trial& trial, Phase phase);
  // Also records the start and end times of the trial.
  void set_status(Trial& trial, TrialStatus status);

  // Sets kQueued and kWaiting; the trial queues behind all with the same or a smaller priority value.
  void enqueue(Trial& trial);
  bool queue_empty() const { return queue_.empty(); }
  Trial& front() { return at(queue_.begin()->second); }

  int64_t live() const { return live_; }
  int64_t starting() const { return starting_; }
  bool any_paused() const { return !paused_.empty(); }
  bool any_held() const { return held_ > 0; }
  Trial& first_paused() { return at(*paused_.begin()); }

  TrialCounts counts;
  WallTime wall{};  // Time of the current event,
  BootTime now{};   // on the loop's clock.
  PhaseClock clock;

  // Aborts if the state is inconsistent. O(trials × checkpoints).
  void check_invariants() const;

 private:
  using Place = std::pair<double, int64_t>;  // Priority, then order of arrival.

  std::deque<Trial> trials_;
  Slots slots_;  // In the order of trials_.
  TrialIndex by_id_;
  std::map<Place, int64_t> queue_;  // Next to start first.
  int64_t tickets_ = 0;
  std::set<int64_t> paused_;
  int64_t held_ = 0;
  int64_t live_ = 0;
  int64_t starting_ = 0;
};

}  // namespace volador::tune
