#include "train/trial/script_model.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <memory>
#include <set>
#include <utility>

#include "train/trial/exported_program.h"
#include "tune/refusal.h"

namespace volador::train {
namespace {

using Registered = std::set<const c10::TensorImpl*>;

// Registers the tensors and children of a script with a module.
void mirror(const torch::jit::Module& script, torch::nn::Module& module, Registered& registered) {
  for (const auto& parameter : script.named_parameters(/*recurse=*/false)) {
    if (registered.insert(parameter.value.unsafeGetTensorImpl()).second) {
      module.register_parameter(parameter.name, parameter.value, parameter.value.requires_grad());
    } else {
      module.register_buffer(parameter.name, parameter.value);
    }
  }
  for (const auto& buffer : script.named_buffers(/*recurse=*/false)) module.register_buffer(buffer.name, buffer.value);
  for (const auto& child : script.named_children()) {
    mirror(child.value, *module.register_module(child.name, std::make_shared<torch::nn::Module>()), registered);
  }
}

// What a file that is no TorchScript is, and what to do.
std::string explanation_of(const std::filesystem::path& file) {
  try {
    caffe2::serialize::PyTorchStreamReader archive(file.string());
    if (archive.hasRecord("data.pkl") && !archive.hasRecord("constants.pkl")) {
      return "it is a file of torch.save, which has tensors without a program; save the model by "
             "torch.jit.script(model).save(…), or write its class in C++ and use train::load_module_state()";
    }
  } catch (const c10::Error&) {  // No archive.
  }
  return "save the model by torch.jit.script(model).save(…) in Python";
}

}  // namespace

ScriptModelImpl::ScriptModelImpl(torch::jit::Module script)
    : torch::nn::Module("ScriptModel"), script_(std::move(script)) {
  if (script_.parameters().size() == 0) {
    tune::throw_refusal(fmt::format(
        "the script {} has no parameters to train; torch.jit.freeze and optimize_for_inference make them constants: "
        "save the model without these",
        script_.type()->name()->name()));
  }
  Registered registered;
  mirror(script_, *this, registered);
  train(script_.is_training());
}

c10::IValue ScriptModelImpl::run(std::vector<c10::IValue> inputs) {
  // TorchScript's optimizer replaces operations after the first runs, dropout by one with other random numbers: a resumed
  // run would differ from one without interruption.
  const torch::jit::GraphOptimizerEnabledGuard plain(false);
  return script_.forward(std::move(inputs));
}

torch::Tensor ScriptModelImpl::forward(std::vector<c10::IValue> inputs) {
  const c10::IValue output = run(std::move(inputs));
  if (!output.isTensor()) {
    tune::throw_refusal(fmt::format("forward() of the script {} returns {} and no tensor; call run() and take it apart",
                                    script_.type()->name()->name(), output.tagKind()));
  }
  return output.toTensor();
}

size_t ScriptModelImpl::input_count() const {
  size_t count = 0;
  for (const auto& argument : script_.get_method("forward").function().getSchema().arguments()) {
    count += argument.name() != "self" && !argument.default_value();
  }
  return count;
}

void ScriptModelImpl::train(bool on) {
  torch::nn::Module::train(on);
  script_.train(on);
}

void ScriptModelImpl::save_script(const std::filesystem::path& file) const { script_.save(file.string()); }

ScriptModel load_script_model(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) {
    throw Exception(
        Error{ErrorCode::kNotFound, fmt::format("load_script_model(): there is no file {}", file.string())});
  }
  if (is_exported_program(file)) return ScriptModel(script_of_exported_program(file));
  torch::jit::Module script;
  try {
    script = torch::jit::load(file.string());
  } catch (const c10::Error& error) {
    tune::throw_refusal(
        fmt::format("load_script_model(): {} is no TorchScript: {}", file.string(), explanation_of(file)));
  }
  return ScriptModel(std::move(script));
}

namespace models {

template <>
std::function<torch::Tensor(const Batch&)> forward_of(const ScriptModel& model) {
  return [script = ScriptModel(model), count = model->input_count()](const Batch& batch) mutable {
    std::vector<c10::IValue> inputs;
    for (size_t i = 0; i < count; ++i) inputs.emplace_back(batch[i]);
    return script->forward(std::move(inputs));
  };
}

}  // namespace models

}  // namespace volador::train
