// Collective operations of the ranks of a training run, behind one interface: memory shared by the ranks of a node
// (shared_group.h), or a c10d backend such as Gloo or NCCL (backend_group.h).
#pragma once

#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "train/core/bucket_plan.h"

namespace volador::train {

// A collective operation was given up: a rank has died, or the group is formed again. The step that was running has
// changed neither parameters nor optimizer state and can be repeated.
class GroupAborted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The state of a rank's current collective operation, for diagnoses.
struct CollectiveState {
  std::string operation;              // "gradients, bucket 2"; empty: the rank is not in a collective operation.
  std::vector<int> waiting_for;       // Ranks that have not entered it.
  std::chrono::nanoseconds since{0};  // Time spent in it.
  int64_t operations = 0;             // Number of operations that this rank has completed in this group.
};

// Sums of the gradients of one optimizer's parameters over all ranks, bucket by bucket, while the backward pass still
// runs. Used by one thread.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;

  // Where this rank writes its contribution to a bucket: a flat tensor of the bucket's elements. It may be written from
  // the end of finish() until post().
  virtual torch::Tensor input(size_t bucket) = 0;
  // The sum over all ranks, valid from the return of finish() until the next post(). Ranks of one node may share this
  // memory: it must not be written.
  virtual torch::Tensor result(size_t bucket) = 0;
  // The contribution to the bucket is complete. Once a step for each bucket, in any order. Does not wait.
  virtual void post(size_t bucket) = 0;
  // Does the work that is possible without waiting.
  virtual void progress() = 0;
  // Returns when the results of all buckets are complete; all must have been posted. Throws GroupAborted.
  virtual void finish() = 0;
};

class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;
  // "shared memory", "gloo", "nccl", "shared memory and tls".
  virtual std::string_view transport() const = 0;

  // Each of these is entered by all ranks in the same order with tensors of the same shape and type; they throw
  // GroupAborted, and volador::Exception(kInvalidArgument) where ranks entered different operations.
  virtual void all_reduce(torch::Tensor tensor) = 0;           // Sum, in place, in the order of the ranks.
  virtual void broadcast(torch::Tensor tensor, int root) = 0;  // In place.
  virtual void barrier() = 0;

  // Collective. The plan must be equal on all ranks; `types` gives type and device of each bucket.
  virtual std::unique_ptr<GradientExchange> exchange(const BucketPlan& plan,
                                                     const std::vector<torch::TensorOptions>& types) = 0;

  // Ends the waiting of all ranks; every later operation throws GroupAborted. Any thread.
  virtual void abort(const std::string& reason) = 0;
  virtual CollectiveState state() const = 0;  // Any thread.

  // Device of the buckets that exchange() takes for parameters on this device. By default the same.
  virtual torch::Device reduces_on(torch::Device parameters) const { return parameters; }
};

// A group of one rank: every operation is the identity.
std::unique_ptr<Group> single_rank_group();

}  // namespace volador::train
