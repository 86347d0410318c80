// Reduces the gradients of one optimizer's parameters over the ranks of a group while the backward pass still runs.
//
// A hook of each parameter moves its gradient, times the weight of this rank, into the parameter's slot of a bucket; a
// full bucket is posted at once. For a loss that is the mean over a rank's samples, the weight (samples of the rank) /
// (samples of the step) makes the sum over the ranks the gradient of the mean over all samples, whatever the division
// among the ranks.
//
// Type and device of a bucket may differ from those of its parameters. Compression changes the type: gradients are cast
// into their slots and the sums are cast back. The group may reduce on another device (Group::reduces_on): a full
// bucket is then copied there while the backward pass goes on, and the sums are copied back. The flags of a step travel
// in float32 or float64 in any case. A group of one rank does not compress.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/core/bucket_plan.h"
#include "train/group/compression.h"
#include "train/group/group.h"

namespace volador::train {

// Numbers that travel with the gradients of every step; each rank gets the sum over the ranks.
struct StepFlags {
  double pause = 0;       // Ranks that want to stop after this step.
  double not_finite = 0;  // Ranks whose loss was NaN or infinite.
  double user = 0;        // Free for the operator.
};

struct ReducerOptions {
  // There are reducers of other optimizers, whose backward passes reach these parameters too.
  bool is_one_of_many = false;
  int64_t bucket_bytes = 4 << 20;  // Limit of a bucket as it travels; a larger parameter has a bucket of its own.
  Compression compression = Compression::kNone;
  PowerSgdOptions power_sgd = {};  // For kPowerSgd.
};

// Throws kInvalidArgument that names the option out of range.
void check_options(const ReducerOptions& options);

class GradientReducer {
 public:
  // Parameters that do not require gradients are left out. Replaces post-accumulate hooks of the parameters.
  // kInvalidArgument (Exception): an option is out of range.
  explicit GradientReducer(std::vector<torch::Tensor> parameters, const ReducerOptions& options = {});
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // The buckets of whole gradients.
  const BucketPlan& plan() const;
  // Memory of its exchanges in a group whose `ranks` ranks of one node share memory.
  int64_t arena_bytes(int ranks) const;
  std::vector<torch::Tensor> parameters() const;
  // Digest of shapes, types and options that must be equal on all ranks.
  uint64_t layout() const;
  // Collective: uses this group from now on. A step that was running is discarded. `step`: steps done before, equal on
  // all ranks; PowerSGD counts on from it and begins without errors.
  void attach(Group& group, int64_t step = 0);

  // Before a backward pass whose gradients count. `last`: its gradients complete the step; otherwise they are added up
  // (gradient accumulation). Passes between are ignored by the hooks.
  void begin_backward(double weight, bool last);
  void end_backward();
  // While true, gradients of backward passes that are another optimizer's are dropped.
  void set_dropping(bool is_dropping);

  // Returns when the sums have arrived; parameters then have them as gradients until clear(), except those that no rank
  // used, which have none. The tensors are shared by the ranks of the node and must be read only, unless `owned`;
  // compressed ones and those of another device than the group's are the rank's own. Throws GroupAborted.
  StepFlags finish(const StepFlags& flags, bool owned);
  // Takes the gradients from the parameters: the state before a step. Also after an exception.
  void clear();

  // Seconds spent in finish() since the last call.
  double take_communication_seconds();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::train
