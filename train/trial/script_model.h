// TorchScript as a model: programs of torch.jit.script and torch.jit.trace are trained like modules written in C++.
//
//   train::ScriptModel model = train::load_script_model("model.pt");   // Python: torch.jit.script(model).save("model.pt")
//   register_model(model);   // or context.wrap_model(model)
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "train/operator/training_operator.h"

namespace volador::train {

// A torch::nn::Module whose parameters, buffers and children are those of a script, under the same names: optimizers,
// checkpoints and devices treat it as any other, and a state_dict() of the Python model fits. A parameter that the
// script has under two names is a parameter under the first one and a buffer under the others.
class ScriptModelImpl : public torch::nn::Module {
 public:
  // Shares the script's tensors. kInvalidArgument: the script has no parameters (torch.jit.freeze makes them constants).
  explicit ScriptModelImpl(torch::jit::Module script);

  // Output of the script's forward(). kInvalidArgument: the output is no tensor; call run().
  template <class... T>
  torch::Tensor forward(const torch::Tensor& first, const T&... others) {
    return forward(std::vector<c10::IValue>{first, others...});
  }
  torch::Tensor forward(std::vector<c10::IValue> inputs);
  // Output of any type.
  c10::IValue run(std::vector<c10::IValue> inputs);
  // Inputs that forward() needs, without those that have a default.
  size_t input_count() const;

  // Also sets the script's own mode, which its dropout and batch norm follow. A trace keeps the mode of its recording.
  void train(bool on = true) override;

  // A file for torch.jit.load of Python and C++.
  void save_script(const std::filesystem::path& file) const;
  const torch::jit::Module& script() const { return script_; }

 private:
  torch::jit::Module script_;
};
TORCH_MODULE(ScriptModel);

// Reads a file of torch.jit.save.
// kNotFound: there is no such file. kInvalidArgument: it is no TorchScript; for a state_dict of torch.save and for a
// program of torch.export the message says what to do.
ScriptModel load_script_model(const std::filesystem::path& file);

namespace models {

// The default train_batch() gives the script as many tensors of the batch as its forward() needs.
template <>
std::function<torch::Tensor(const Batch&)> forward_of(const ScriptModel& model);

}  // namespace models

}  // namespace volador::train
