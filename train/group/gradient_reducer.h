// Reduces the gradients of one optimizer's parameters over the ranks of a group while the backward pass still runs.
//
// A hook of each parameter moves its gradient, times the weight of this rank, into the parameter's slot of a bucket; a
// full bucket is posted at once. For a loss that is the mean over a rank's samples, the weight (samples of the rank) /
// (samples of the step) makes the sum over the ranks the gradient of the mean over all samples, whatever the division
// among the ranks.
#pragma once

#include <torch/types.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "train/core/bucket_plan.h"
#include "train/group/group.h"

namespace volador::train {

// Numbers that travel with the gradients of every step; each rank gets the sum over the ranks.
struct StepFlags {
  double pause = 0;       // Ranks that want to stop after this step.
  double not_finite = 0;  // Ranks whose loss was NaN or infinite.
  double user = 0;        // Free for the operator.
};

class GradientReducer {
 public:
  // Parameters that do not require gradients are left out. Replaces post-accumulate hooks of the parameters. `is_one_of_many`:
  // there are reducers of other optimizers, whose backward passes reach these parameters too.
  explicit GradientReducer(std::vector<torch::Tensor> parameters, bool is_one_of_many = false,
                           int64_t bucket_bytes = 4 << 20);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  const BucketPlan& plan() const;
  std::vector<torch::Tensor> parameters() const;
  // Digest of shapes and types.
  uint64_t layout() const;
  // Collective: uses this group from now on. A step that was running is discarded.
  void attach(Group& group);

  // Before a backward pass whose gradients count. `last`: its gradients complete the step; otherwise they are added up
  // (gradient accumulation). Passes between are ignored by the hooks.
  void begin_backward(double weight, bool last);
  void end_backward();
  // While true, gradients of backward passes that are another optimizer's are dropped.
  void set_dropping(bool is_dropping);

  // Returns when the sums have arrived; parameters then have them as gradients, except those that no rank used, which
  // have none. The tensors are shared by the ranks of the node and must be read only, unless `owned`. Throws
  // GroupAborted.
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
