// What a trial does next: train, validate, save a checkpoint. The search asks for lengths, and periods, preemption and
// requests to stop come between.
// Pure: no clock, thread, I/O or randomness.
//
//   TrialPlan plan({.scheduling_unit = 100, .validation_period = 500});
//   plan.ask(1000);
//   while (const auto step = plan.next()) plan.done(run(*step));
#pragma once

#include <cstdint>
#include <optional>

namespace volador::experiments {

// What a validation leads to: a checkpoint where it is the best one of the experiment so far, always, or never.
enum class ValidationCheckpoint : uint8_t { kBest, kAll, kNone };

struct TrialPlanOptions {
  int64_t scheduling_unit = 100;    // Batches between reports, at least 1. Preemption is checked there.
  int64_t validation_period = 0;    // Batches between validations; 0: only those the search asks for.
  int64_t checkpoint_period = 0;    // Batches between checkpoints; 0: none for this reason.
  bool initial_validation = false;  // Validates before the first batch.
  ValidationCheckpoint checkpoint_policy = ValidationCheckpoint::kBest;
  bool smaller_is_better = true;
};

// Part of a checkpoint: with it a trial goes on.
struct TrialProgress {
  int64_t batches = 0;          // Trained so far.
  int64_t last_checkpoint = 0;  // Batches at the last checkpoint.
  int64_t last_validation = 0;  // Batches at the last validation.
  bool operator==(const TrialProgress&) const = default;
};

struct TrialStep {
  enum class Kind : uint8_t { kTrain, kValidate, kCheckpoint };
  Kind kind = Kind::kTrain;
  int64_t batches = 0;  // To train, for kTrain.
  int64_t total = 0;    // Trained when the step is done.
  bool operator==(const TrialStep&) const = default;
};

struct StepResult {
  bool invalid_hp = false;                               // The trial calls its hyperparameters invalid, and exits.
  bool stop_requested = false;                           // The trial asks to stop.
  double metric = 0;                                     // That a validation gave.
  std::optional<double> experiment_best = std::nullopt;  // The best validation of the experiment before this one.
};

class TrialPlan {
 public:
  enum class State : uint8_t {
    kRuns,    // next() has a step.
    kWaits,   // For the search: the length is reached.
    kExited,  // Preempted, stopped, invalid or closed; its work is saved.
  };

  // `restored`: of the checkpoint it goes on from, of this trial; one of another trial (warm start) has no progress.
  // `validated_at`: batches at the last validation that was reported, if any, which may be later than the checkpoint.
  explicit TrialPlan(const TrialPlanOptions& options, const TrialProgress& restored = {},
                     std::optional<int64_t> validated_at = std::nullopt);

  // The search asks to validate at `length` batches in total. A length that is reached is validated at once.
  void ask(int64_t length);
  // The search has closed the trial: it exits after what it was asked for.
  void close() { closed_ = true; }
  // It exits at the next check, after a checkpoint if there is something to save.
  void preempt() { preempted_ = true; }

  // Returns the step to execute; the same one until done(). None: state() says why.
  std::optional<TrialStep> next();
  // Returns true if the step completed what the search asked for: its metric goes to the search.
  bool done(const StepResult& result);

  State state() const;
  bool is_invalid() const { return invalid_; }
  bool stop_requested() const { return stop_requested_; }
  const TrialProgress& progress() const { return progress_; }

 private:
  std::optional<TrialStep> decide();
  int64_t to_train() const;
  int64_t until(int64_t last, int64_t period) const;
  void check_preemption() { exiting_ = exiting_ || preempted_; }
  bool is_best(const StepResult& result) const;
  bool is_saved() const { return progress_.last_checkpoint == progress_.batches; }

  const TrialPlanOptions options_;
  TrialProgress progress_;
  std::optional<int64_t> asked_;            // Not completed yet.
  std::optional<TrialStep> step_;           // Decided, not done yet.
  bool initial_ = false;                    // The initial validation is due.
  bool trained_ = false;                    // Since then no training was decided: what the periods ask for is due now.
  bool checkpoint_due_ = false;             // Because of the last validation.
  bool exiting_ = false, unsaved_ = false;  // unsaved_: it exits without a checkpoint.
  bool closed_ = false, preempted_ = false, invalid_ = false, stop_requested_ = false;
};

}  // namespace volador::experiments
