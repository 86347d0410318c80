// State of modules and optimizers in the layout of PyTorch's state_dict(), and files that torch.save and torch.load
// exchange with Python. Files contain dictionaries, lists, tuples, numbers, strings and tensors only, so that
// torch.load reads them with weights_only=True, its default.
//
// All functions throw volador::Exception.
#pragma once

#include <ATen/core/ivalue.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/files/durable_file.h"
#include "train/optim/torch_archive.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace volador::train {

// Returns a dictionary name -> tensor of parameters and buffers, in Python's order and with its names ("0.weight"). The
// tensors share memory with the module: write or clone_tensors() before the next step.
[[nodiscard]] c10::IValue module_state(const torch::nn::Module& module);

// Copies a module_state(), or a state_dict() of Python, into the tensors of the module.
// kInvalidArgument: `state` is no such dictionary; names are missing or unexpected, or shapes differ. The message lists
// them, and the module is unchanged.
void load_module_state(torch::nn::Module& module, const c10::IValue& state);

// Returns {"optimizer": name, "state": {index: {"step": …}}, "param_groups": [{"lr": …, "params": [index…]}]}, which
// Python's load_state_dict() accepts, for SGD, Adam, AdamW, Adagrad, RMSprop (of LibTorch or volador::train), Adadelta,
// Adamax, NAdam and RAdam. Indices count the parameters over all groups. All other classes, also subclasses of these,
// give {"optimizer", "archive": bytes of Optimizer::save(), "param_groups"}, which Python cannot load. The tensors
// share memory with the optimizer.
[[nodiscard]] c10::IValue optimizer_state(torch::optim::Optimizer& optimizer);

// Replaces options and state of the optimizer by those of an optimizer_state(), or of a state_dict() of Python. Tensors
// are copied to the type, device and memory layout of their parameter. A parameter without saved state has none
// afterwards.
// kInvalidArgument: another kind of optimizer, other groups, parameters or shapes, or an option that LibTorch's class
// lacks (maximize). The message lists them, and the optimizer is unchanged.
void load_optimizer_state(torch::optim::Optimizer& optimizer, const c10::IValue& state);

// Returns the value with copies of all tensors, which later steps do not change.
[[nodiscard]] c10::IValue clone_tensors(const c10::IValue& value);
// As above, but tensors for which `is_shared` returns true stay those of the value.
[[nodiscard]] c10::IValue clone_tensors(const c10::IValue& value,
                                        const std::function<bool(const at::Tensor&)>& is_shared);

// A state as to_bytes(), of a size that is known before the bytes are written. The value's tensors must not change
// until then.
class PackedState {
 public:
  // kInvalidArgument: as to_bytes().
  explicit PackedState(const c10::IValue& value);
  ~PackedState();
  PackedState(const PackedState&) = delete;
  PackedState& operator=(const PackedState&) = delete;

  size_t size() const;
  // `out` has size() bytes.
  void write(std::span<char> out) const;

  // As write() in two parts: copy the data of each place to its offset in `out`, in any order and by any threads, then
  // write_around(). The tensors may change between the parts.
  std::vector<ArchivePlace> places() const;
  void write_around(std::span<char> out) const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

// Bytes as torch.save writes them. Tensors are stored as CPU tensors, views with their own elements only; tensors with
// one storage stay tied.
// kInvalidArgument: a value that is none of those above.
[[nodiscard]] std::string to_bytes(const c10::IValue& value);
// Reads to_bytes() or a torch.save() of Python (protocol of PyTorch 1.6 and later). All tensors are on the CPU.
// Dictionaries have any key and value type. No code of the file is executed, and checksums are compared.
// kInvalidArgument: another kind of file, truncated or corrupt, or it contains objects of Python classes.
[[nodiscard]] c10::IValue from_bytes(std::string_view bytes);

// Writes to_bytes() to a file without the bytes in memory. Readers see either the old or the new contents; the
// temporary name is "<path>.partial": one writer per path. Errors also as write_file_atomically; the old contents
// remain.
void save_file(const std::filesystem::path& path, const c10::IValue& value, Durability durability = Durability::kPower);
// As from_bytes. kNotFound, kPermissionDenied, kUnavailable: errors of the file system.
[[nodiscard]] c10::IValue load_file(const std::filesystem::path& path);

}  // namespace volador::train
