// The trials of an experiment and where each of them stands: its phase, its place in the queue, who is paused. The loop
// decides, this keeps the books; they agree after each call.
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

// A trial that becomes a copy of another one.
struct Clone {
  CloneOrder order;
  std::optional<Checkpoint> checkpoint;  // Being copied; none: it was not asked for yet.
};

// What the loop alone knows of a trial.
struct Slot {
  Phase phase = Phase::kQueued;
  int64_t saving_step = 0;         // Of the checkpoint asked for last.
  std::optional<Verdict> verdict;  // How it ends; in kStopping without one it is paused or tried again.
  int64_t verdict_step = 0;
  int64_t pause_step = 0;  // Its scheduler wants it paused after this step; 0: it does not.
  bool pausing = false;    // In kStopping: its checkpoint is saved.
  bool yields = false;     // Once paused it waits for a place again.
  bool held = false;       // Its user wants it paused: it is to have no actor.
  bool backs_off = false;  // In kHeld: it failed, and is tried again later.
  int64_t save_step = 0;   // Its scheduler wants a checkpoint after this step.
  bool clone_due = false;  // Its scheduler said kClone; the order is yet to come.
  std::unique_ptr<Clone> clone;  // Mostly none.
  double priority = 0;  // Its place in the queue: by this, then by the ticket. Not to be changed while it stands there.
  int64_t ticket = 0;
  Reason why;  // What its scheduler said of its last stop or pause.
  bool stop_at_once = false;  // StopTrial was said so.
  bool save_notice = false;   // A failed checkpoint was said already.
};

// Slots by index, which stay where they are.
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
  static constexpr size_t kChunk = 64;  // A std::deque has one or two of them a chunk, and divides.
  std::vector<std::unique_ptr<std::array<Slot, kChunk>>> chunks_;
  size_t size_ = 0;
};

// Everything costs O(1), what touches the queue O(log trials).
class TrialTable {
 public:
  // The next trial, in kQueued but in no place of the queue yet.
  Trial& add(TrialId id, Config config);

  const std::deque<Trial>& trials() const { return trials_; }
  std::deque<Trial>& trials() { return trials_; }
  int64_t size() const { return static_cast<int64_t>(trials_.size()); }
  Trial& at(int64_t index) { return trials_[static_cast<size_t>(index)]; }
  const Trial& at(int64_t index) const { return trials_[static_cast<size_t>(index)]; }
  const Trial* find(TrialId id) const;
  Trial* find(TrialId id) { return const_cast<Trial*>(std::as_const(*this).find(id)); }
  // The trial, if this is its current attempt.
  Trial* current(TrialId id, int64_t attempt);
  Slot& slot(const Trial& trial) { return slots_[static_cast<size_t>(trial.index)]; }
  const Slot& slot(const Trial& trial) const { return slots_[static_cast<size_t>(trial.index)]; }

  static bool is_live(Phase phase) { return tune::is_live(phase); }
  // Out of the queue, where it stands in it.
  void set_phase(Trial& trial, Phase phase);
  // Notes when a trial started and ended.
  void set_status(Trial& trial, TrialStatus status);

  // kQueued and kWaiting, behind all of the same and of a smaller priority.
  void enqueue(Trial& trial);
  bool queue_empty() const { return queue_.empty(); }
  Trial& front() { return at(queue_.begin()->second); }

  int64_t live() const { return live_; }
  int64_t starting() const { return starting_; }
  bool any_paused() const { return !paused_.empty(); }
  bool any_held() const { return held_ > 0; }
  Trial& first_paused() { return at(*paused_.begin()); }

  TrialCounts counts;
  WallTime wall{};  // Of what happens now,
  BootTime now{};   // in the loop's time.
  PhaseClock clock;

  // Aborts where the books disagree. O(trials × checkpoints).
  void check_invariants() const;

 private:
  using Place = std::pair<double, int64_t>;  // Priority, then the order of arrival.

  std::deque<Trial> trials_;
  Slots slots_;  // Beside the trials.
  TrialIndex by_id_;
  std::map<Place, int64_t> queue_;  // First to start first.
  int64_t tickets_ = 0;
  std::set<int64_t> paused_;
  int64_t held_ = 0;
  int64_t live_ = 0;
  int64_t starting_ = 0;
};

}  // namespace volador::tune
