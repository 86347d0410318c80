// Division of an optimizer's state among the ranks (ZeRO stage 1: Rajbhandari et al., SC 2020). Each rank steps the
// parameters of its share, has the optimizer's state for these only, and sends them to the others. All ranks then have
// the parameters that an optimizer that is not divided gives, bit for bit on the CPU. A parameter is never divided, so
// that one that is larger than an equal share makes the shares unequal.
//
//   sum of gradients ──▶ take_own_gradients() ──▶ optimizer.step() ──▶ send_parameters()
//
// The state of all parameters together, the whole state, exists where it is needed only: on the ranks that loaded it,
// until the next step, and on rank 0 after gather(), until the next step.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace volador::train {

class Group;

// The rank that each parameter belongs to: the largest parameter first, each to the rank with the fewest bytes, the
// lowest of equal ones. Depends on the arguments only.
std::vector<int> owners_of(const std::vector<int64_t>& bytes, int world);

// Bytes of the tensors in a state; those with one storage count once.
int64_t tensor_bytes(const c10::IValue& state);

class ShardedOptimizer {
 public:
  // kInvalidArgument: a class whose state optimizer_state() does not give for each parameter, such as LBFGS.
  explicit ShardedOptimizer(std::shared_ptr<torch::optim::Optimizer> optimizer);

  // Divides the state anew; first among one rank. kInvalidArgument: another division, but the whole state is not here:
  // load() it before.
  void form(int rank, int world);

  // Takes the gradients of the parameters of other ranks away, before the optimizer's step.
  void take_own_gradients();
  // Collective, after the step: sends the parameters that had a gradient to the other ranks. Throws GroupAborted; the
  // parameters of the ranks differ then.
  void send_parameters(Group& group);

  // Collective: rank 0 gets the whole state, the tensors of other ranks on the CPU. Throws GroupAborted; nothing has
  // changed then.
  void gather(Group& group);
  bool has_whole_state() const;
  // The whole state as optimizer_state(); the tensors of this rank's share are those of the optimizer.
  // kInvalidArgument: it is not here.
  c10::IValue state() const;
  // Takes this rank's share of a whole state. kInvalidArgument: as load_optimizer_state(); nothing has changed.
  void load(const c10::IValue& state);
  // Bytes of all state on this rank, a whole state included.
  int64_t state_bytes() const;

 private:
  c10::IValue part_of(const c10::IValue& state, int owner) const;

  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<torch::Tensor> parameters_;  // Those of all groups, in the order of optimizer_state().
  std::vector<int> owners_;                // One for each parameter.
  std::vector<size_t> changed_;            // Parameters of the running step.
  int rank_ = 0;
  int world_ = 1;
  bool is_partial_ = false;  // The optimizer lacks the state of other ranks' parameters.
  c10::IValue whole_;        // optimizer_state()["state"] of all parameters; None: not here.
};

}  // namespace volador::train
