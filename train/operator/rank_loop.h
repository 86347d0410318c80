// The training loop of one rank: an operator, its group, and its place in the run. Knows no actors: unit tests run
// several ranks as threads.
#pragma once

#include <torch/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/serialize/codec.h"
#include "train/group/group.h"
#include "train/operator/training_operator.h"

namespace volador::train {

struct RankOptions {
  std::string operator_name;  // In the registry.
  uint64_t seed = 0;          // For shuffling, initialisation and dropout.
  bool use_gpu = false;       // The first device that the process sees.
};

// The part of the run that a call of train() or validate() asks for.
struct SegmentRequest {
  bool is_training = true;
  int64_t epoch = 0;        // A rank that is in a later epoch has done the segment.
  int64_t until_step = -1;  // Ends before the batch with this number; -1: at the end of the epoch.
  int64_t steps_max = -1;   // For validation: number of batches; -1: all.
  // Sharded optimizers: at the end rank 0 gathers what state() needs from all ranks. A pause always does.
  bool gathers_state = true;
};
VOLADOR_FIELDS(SegmentRequest, is_training, epoch, until_step, steps_max, gathers_state);

enum class SegmentEnd : uint8_t { kFinished, kPaused, kAborted };

// Seconds of a segment on one rank.
struct StepTimes {
  double data = 0, forward = 0, backward = 0, communication = 0, optimizer = 0, total = 0;
};
VOLADOR_FIELDS(StepTimes, data, forward, backward, communication, optimizer, total);

struct SegmentReply {
  SegmentEnd end = SegmentEnd::kFinished;
  int64_t step = 0;   // Batches committed in the run.
  int64_t epoch = 0;  // Place in the data: epoch and samples done in it by all ranks together.
  int64_t position = 0;
  MetricSums metrics;  // Sums over what this call did.
  StepTimes times;
  bool may_differ = false;  // Aborted in a batch after a step of an optimizer: the state may differ between ranks.
  std::string reason;       // Why it was aborted.
  bool is_stopped = false;  // Ended by request_stop() or NanPolicy::kStop, on all ranks.
  bool has_state = false;   // As RankLoop::has_state().
};
VOLADOR_FIELDS(SegmentReply, end, step, epoch, position, metrics, times, may_differ, reason, is_stopped, has_state);

// What the rank does now, for diagnoses.
struct RankStatus {
  int64_t step = 0;
  double in_step_s = 0;          // Since the last batch was committed; 0: no segment runs.
  std::string activity;          // "forward", "all_reduce of …"; empty: idle.
  std::vector<int> waiting_for;  // Ranks that have not entered the collective operation that this rank is in.
};
VOLADOR_FIELDS(RankStatus, step, in_step_s, activity, waiting_for);

class StateCopy;

class RankLoop {
 public:
  // Runs setup(). Throws its exceptions, and kInvalidArgument for what it registered.
  RankLoop(const RankOptions& options, const Config& config);
  ~RankLoop();

  int64_t arena_bytes(int ranks_of_node) const;  // See SharedGroupOptions.
  uint64_t layout() const;                       // Digest of the shapes of all parameters.
  // Names and shapes of the parameters, for a message about a difference.
  std::string describe_parameters() const;
  int64_t batch_size() const;  // 0: no data is registered.
  int64_t batches_per_epoch() const;
  int64_t parameter_count() const;
  int64_t epoch() const;
  bool has_validation() const;  // Whether validation data is registered.
  // Whether an optimizer is sharded. The share of the state of a rank that is lost is lost too: the other ranks cannot
  // go on, and load() a whole state of before.
  bool is_sharded() const;

  // Collective. Replaces the group; throws kInvalidArgument if the batch has fewer samples than the group has ranks, or
  // if the state of sharded optimizers must be divided anew and this rank has neither it nor loaded one (has_state()).
  void form(std::shared_ptr<Group> group);
  // Runs until the segment ends, is paused or aborted. Throws what user code throws; the run cannot go on then.
  SegmentReply run(const SegmentRequest& request);
  // Runs the operator's on_call() while no segment runs. All ranks of the group do so with equal arguments. Throws what
  // it throws, and kUnavailable if a collective operation of it was given up.
  Metrics call(const std::string& name, const Config& arguments);

  // Whether this rank can give the state. With sharded optimizers it is false after a step, except on rank 0 after a
  // segment with gathers_state or a pause.
  bool has_state() const;
  // Models, optimizers, schedules, the operator's own state and the place in the data. Keys as Determined's
  // state_dict.pth, the same with and without sharded optimizers and for every number of ranks. kInvalidArgument:
  // has_state() is false.
  c10::IValue state() const;
  // Copy of the state as it is now. Another thread writes it, while the next batch is computed. Parameters of optimizers
  // and the state of these are copied until the first step of the batch, on the CPU only; all else is copied at once.
  std::shared_ptr<StateCopy> copy_state();
  // Throws kInvalidArgument if it is of other models or optimizers; nothing has changed then.
  void load(const c10::IValue& state);

  // Any thread: all ranks stop after the step in which the request travels with the gradients.
  void request_pause();
  // Any thread: ends a running collective operation.
  void abort(const std::string& reason);
  RankStatus status() const;  // Any thread.

 private:
  std::unique_ptr<TrainingOperator> operator_;
  OperatorImpl* impl_ = nullptr;  // Part of operator_.
};

}  // namespace volador::train
