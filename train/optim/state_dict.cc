#include "train/optim/state_dict.h"

#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/torch.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "runtime/result.h"
#include "train/optim/optimizers.h"
#include "train/optim/torch_archive.h"
#include "train/optim/torch_pickle.h"

namespace volador::train {
namespace {

namespace fs = std::filesystem;
using at::Tensor;
using c10::IValue;
using torch::optim::Optimizer;
using GenericDict = c10::impl::GenericDict;
using GenericList = c10::impl::GenericList;

[[noreturn]] void fail(std::string message) { throw Exception({ErrorCode::kInvalidArgument, std::move(message)}); }

GenericDict new_dict() { return GenericDict(c10::AnyType::get(), c10::AnyType::get()); }
GenericList new_list() { return GenericList(c10::AnyType::get()); }

std::optional<IValue> find(const GenericDict& dict, const IValue& key) {
  const auto found = dict.find(key);
  if (found == dict.end()) return std::nullopt;
  return found->value();
}

// Differences between a state and the object that loads it.
class Problems {
 public:
  void add(std::string problem) { problems_.push_back(std::move(problem)); }
  bool empty() const { return problems_.empty(); }
  // Throws all problems as one error.
  void raise(std::string_view subject) const {
    if (problems_.empty()) return;
    constexpr size_t kShown = 20;
    const size_t shown = std::min(problems_.size(), kShown);
    std::string text = fmt::format(
        "{}: {}", subject, fmt::join(problems_.begin(), problems_.begin() + static_cast<std::ptrdiff_t>(shown), "; "));
    if (shown < problems_.size()) text += fmt::format("; and {} more", problems_.size() - shown);
    fail(text + "; nothing was loaded");
  }

 private:
  std::vector<std::string> problems_;
};

std::string shape_text(at::IntArrayRef sizes) { return fmt::format("[{}]", fmt::join(sizes, ", ")); }

// Names of all keys, for messages.
std::string key_text(const IValue& key) {
  if (key.isString()) return '"' + key.toStringRef() + '"';
  if (key.isInt()) return std::to_string(key.toInt());
  return key.tagKind();
}

void collect(const torch::nn::Module& module, const std::string& prefix,
             std::vector<std::pair<std::string, Tensor>>& out) {
  for (const auto& item : module.named_parameters(/*recurse=*/false))
    out.emplace_back(prefix + item.key(), item.value());
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    if (item.value().defined()) out.emplace_back(prefix + item.key(), item.value());
  }
  for (const auto& child : module.named_children()) collect(*child.value(), prefix + child.key() + ".", out);
}

// A number that Python may have stored as int, bool, float or tensor with one element.
std::optional<double> number(const IValue& value) {
  if (value.isDouble()) return value.toDouble();
  if (value.isInt()) return static_cast<double>(value.toInt());
  if (value.isBool()) return value.toBool() ? 1 : 0;
  if (value.isTensor() && value.toTensor().defined() && value.toTensor().numel() == 1) {
    return value.toTensor().item<double>();
  }
  return std::nullopt;
}

std::optional<bool> truth(const IValue& value) {
  if (value.isNone()) return false;
  const auto given = number(value);
  if (!given) return std::nullopt;
  return *given != 0;
}

// The fields of LibTorch's options and state under Python's names.
template <class Visitor>
void visit(SGDOptions& options, Visitor&& visitor) {
  visitor("lr", options.lr());
  visitor("momentum", options.momentum());
  visitor("dampening", options.dampening());
  visitor("weight_decay", options.weight_decay());
  visitor("nesterov", options.nesterov());
}
template <class Visitor>
void visit(torch::optim::SGDParamState& state, Visitor&& visitor) {
  visitor("momentum_buffer", state.momentum_buffer());
}

template <class Options, class Visitor>
void visit_adam_options(Options& options, Visitor&& visitor) {
  visitor("lr", options.lr());
  visitor("betas", options.betas());
  visitor("eps", options.eps());
  visitor("weight_decay", options.weight_decay());
  visitor("amsgrad", options.amsgrad());
}
template <class State, class Visitor>
void visit_adam_state(State& state, Visitor&& visitor) {
  visitor("step", state.step());
  visitor("exp_avg", state.exp_avg());
  visitor("exp_avg_sq", state.exp_avg_sq());
  visitor("max_exp_avg_sq", state.max_exp_avg_sq());
}
template <class Visitor>
void visit(AdamOptions& options, Visitor&& visitor) {
  visit_adam_options(options, visitor);
}
template <class Visitor>
void visit(torch::optim::AdamParamState& state, Visitor&& visitor) {
  visit_adam_state(state, visitor);
}
template <class Visitor>
void visit(AdamWOptions& options, Visitor&& visitor) {
  visit_adam_options(options, visitor);
}
template <class Visitor>
void visit(torch::optim::AdamWParamState& state, Visitor&& visitor) {
  visit_adam_state(state, visitor);
}

template <class Visitor>
void visit(AdagradOptions& options, Visitor&& visitor) {
  visitor("lr", options.lr());
  visitor("lr_decay", options.lr_decay());
  visitor("eps", options.eps());
  visitor("weight_decay", options.weight_decay());
  visitor("initial_accumulator_value", options.initial_accumulator_value());
}
template <class Visitor>
void visit(torch::optim::AdagradParamState& state, Visitor&& visitor) {
  visitor("step", state.step());
  visitor("sum", state.sum());
}

template <class Visitor>
void visit(RMSpropOptions& options, Visitor&& visitor) {
  visitor("lr", options.lr());
  visitor("momentum", options.momentum());
  visitor("alpha", options.alpha());
  visitor("eps", options.eps());
  visitor("centered", options.centered());
  visitor("weight_decay", options.weight_decay());
}
template <class Visitor>
void visit(torch::optim::RMSpropParamState& state, Visitor&& visitor) {
  visitor("step", state.step());
  visitor("square_avg", state.square_avg());
  visitor("momentum_buffer", state.momentum_buffer());
  visitor("grad_avg", state.grad_avg());
}

template <class Fields, class Visitor>
auto visit(Fields& fields, Visitor&& visitor) -> decltype(fields.visit(visitor)) {
  fields.visit(visitor);
}

// State tensors that exist only with some options.
bool is_optional(std::string_view name) {
  return name == "max_exp_avg_sq" || name == "grad_avg" || name == "momentum_buffer";
}

// What optimizer_state() needs to know of a class beside its fields.
struct Kind {
  std::string_view name;                 // Python's class.
  std::vector<const char*> python_only;  // Options of Python that LibTorch lacks: False or None.
  std::optional<bool> decoupled;         // Constant decoupled_weight_decay: distinguishes AdamW from Adam.
};

IValue scalar(double value) { return at::scalar_tensor(value, at::TensorOptions().dtype(at::kFloat)); }

template <class Options, class State>
class Codec {
 public:
  Codec(Optimizer& optimizer, Kind kind) : optimizer_(optimizer), kind_(std::move(kind)) {}

  IValue save() const {
    GenericDict states = new_dict();
    GenericList groups = new_list();
    int64_t index = 0;
    for (auto& group : optimizer_.param_groups()) {
      GenericList indices = new_list();
      for (const Tensor& parameter : group.params()) {
        const auto found = optimizer_.state().find(parameter.unsafeGetTensorImpl());
        if (found != optimizer_.state().end() && found->second) {
          states.insert(index, save_state(static_cast<State&>(*found->second)));
        }
        indices.emplace_back(index++);
      }
      GenericDict saved = save_options(static_cast<Options&>(group.options()));
      saved.insert("params", indices);
      groups.emplace_back(saved);
    }
    GenericDict all = new_dict();
    all.insert("optimizer", std::string(kind_.name));
    all.insert("state", states);
    all.insert("param_groups", groups);
    return all;
  }

  // `states` and `groups` were checked: one dictionary each group, with the right number of parameters.
  void load(const GenericDict& states, const std::vector<GenericDict>& groups, Problems& problems) {
    std::vector<std::unique_ptr<Options>> new_options;
    std::vector<std::pair<void*, std::unique_ptr<State>>> new_states;
    for (size_t i = 0; i < groups.size(); ++i) {
      auto& group = optimizer_.param_groups()[i];
      new_options.push_back(std::make_unique<Options>(static_cast<const Options&>(group.options())));
      load_options(*new_options.back(), groups[i], fmt::format("param_groups[{}]", i), problems);
      const auto params = find(groups[i], "params")->toList();
      for (size_t j = 0; j < params.size(); ++j) {
        const Tensor& parameter = group.params()[j];
        const auto saved = find(states, params.get(j));
        std::unique_ptr<State> state;
        if (saved) state = load_state(*saved, parameter, params.get(j), problems);
        new_states.emplace_back(parameter.unsafeGetTensorImpl(), std::move(state));
      }
    }
    problems.raise(subject());
    for (size_t i = 0; i < groups.size(); ++i) {
      static_cast<Options&>(optimizer_.param_groups()[i].options()) = *new_options[i];
    }
    for (auto& [key, state] : new_states) {
      if (state) {
        optimizer_.state()[key] = std::move(state);
      } else {
        optimizer_.state().erase(key);
      }
    }
  }

  std::string subject() const { return fmt::format("state of optimizer {}", kind_.name); }
  const Kind& kind() const { return kind_; }

 private:
  GenericDict save_options(Options& options) const {
    GenericDict saved = new_dict();
    visit(options, [&](const char* name, auto& field) {
      using Field = std::decay_t<decltype(field)>;
      if constexpr (std::is_same_v<Field, std::tuple<double, double>>) {
        saved.insert(name, c10::ivalue::Tuple::create(std::get<0>(field), std::get<1>(field)));
      } else {
        saved.insert(name, field);
      }
    });
    for (const char* name : kind_.python_only) {
      const std::string_view text = name;
      saved.insert(name, text == "foreach" || text == "fused" ? IValue() : IValue(false));
    }
    if (kind_.decoupled) saved.insert("decoupled_weight_decay", *kind_.decoupled);
    return saved;
  }

  GenericDict save_state(State& state) const {
    GenericDict saved = new_dict();
    visit(state, [&](const char* name, auto& field) {
      if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Tensor>) {
        if (field.defined()) saved.insert(name, field.detach());
      } else {
        saved.insert(name, scalar(static_cast<double>(field)));  // "step", "mu_product": float32 tensors in Python.
      }
    });
    return saved;
  }

  void load_options(Options& options, const GenericDict& saved, const std::string& where, Problems& problems) const {
    visit(options, [&](const char* name, auto& field) {
      using Field = std::decay_t<decltype(field)>;
      const auto value = find(saved, name);
      if (!value) return problems.add(fmt::format("{} lacks \"{}\"", where, name));
      bool good = false;
      if constexpr (std::is_same_v<Field, bool>) {
        const auto given = truth(*value);
        good = given.has_value();
        if (good) field = *given;
      } else if constexpr (std::is_same_v<Field, double>) {
        const auto given = number(*value);
        good = given.has_value();
        if (good) field = *given;
      } else {
        std::vector<IValue> pair;
        if (value->isTuple()) pair = value->toTupleRef().elements().vec();
        if (value->isList()) pair = value->toList().vec();
        const auto first = pair.size() == 2 ? number(pair[0]) : std::nullopt;
        const auto second = pair.size() == 2 ? number(pair[1]) : std::nullopt;
        good = first && second;
        if (good) field = {*first, *second};
      }
      if (!good) problems.add(fmt::format("{}[\"{}\"] has the wrong type {}", where, name, value->tagKind()));
    });
    for (const char* name : kind_.python_only) {
      const auto value = find(saved, name);
      if (std::string_view(name) == "maximize" && value && truth(*value) != false) {
        problems.add(fmt::format("{}[\"maximize\"] is set, which this class lacks; negate the loss", where));
      }
    }
    const auto decoupled = find(saved, "decoupled_weight_decay");
    if (kind_.decoupled && decoupled && truth(*decoupled) != *kind_.decoupled) {
      problems.add(fmt::format("{} belongs to {}", where, *kind_.decoupled ? "Adam" : "AdamW"));
    }
  }

  // Null: Python's empty state, for example {"momentum_buffer": None}.
  std::unique_ptr<State> load_state(const IValue& value, const Tensor& parameter, const IValue& index,
                                    Problems& problems) const {
    const std::string where = fmt::format("state[{}]", key_text(index));
    if (!value.isGenericDict()) {
      problems.add(where + " is not a dictionary");
      return nullptr;
    }
    const GenericDict saved = value.toGenericDict();
    auto state = std::make_unique<State>();
    size_t known = 0;
    bool any = false;
    visit(*state, [&](const char* name, auto& field) {
      using Field = std::decay_t<decltype(field)>;
      const auto given = find(saved, name);
      if (given) ++known;
      if (!given || given->isNone()) {
        if (!is_optional(name)) problems.add(fmt::format("{} lacks \"{}\"", where, name));
        return;
      }
      any = true;
      if constexpr (std::is_same_v<Field, Tensor>) {
        if (!given->isTensor()) return problems.add(fmt::format("{}[\"{}\"] is not a tensor", where, name));
        const Tensor tensor = given->toTensor();
        if (tensor.sizes() != parameter.sizes()) {
          return problems.add(fmt::format("{}[\"{}\"] has shape {}, the parameter has {}", where, name,
                                          shape_text(tensor.sizes()), shape_text(parameter.sizes())));
        }
        const at::NoGradGuard no_grad;
        field = at::empty_like(parameter, at::MemoryFormat::Preserve).copy_(tensor);
      } else {
        const auto as_number = number(*given);
        if (!as_number) return problems.add(fmt::format("{}[\"{}\"] is not a number", where, name));
        field = static_cast<Field>(*as_number);
      }
    });
    if (known < saved.size()) {
      for (const auto& entry : saved) {
        bool expected = false;
        visit(*state, [&](const char* name, auto&) {
          expected = expected || (entry.key().isString() && entry.key().toStringRef() == name);
        });
        if (!expected) problems.add(fmt::format("{} has unexpected {}", where, key_text(entry.key())));
      }
    }
    return any ? std::move(state) : nullptr;
  }

  Optimizer& optimizer_;
  Kind kind_;
};

// Calls function(codec) for the optimizer's class; false: another class. Subclasses of users may hold more state.
template <class Function>
bool with_codec(Optimizer& optimizer, Function function) {
  const std::type_index type = typeid(optimizer);
  const auto is = [&]<class... Classes>() { return ((type == typeid(Classes)) || ...); };
  using namespace torch::optim;
  if (is.template operator()<torch::optim::SGD, train::SGD>()) {
    function(
        Codec<SGDOptions, SGDParamState>(optimizer, {"SGD", {"maximize", "foreach", "differentiable", "fused"}, {}}));
  } else if (is.template operator()<torch::optim::Adam, train::Adam>()) {
    function(Codec<AdamOptions, AdamParamState>(
        optimizer, {"Adam", {"maximize", "foreach", "capturable", "differentiable", "fused"}, false}));
  } else if (is.template operator()<torch::optim::AdamW, train::AdamW>()) {
    function(Codec<AdamWOptions, AdamWParamState>(
        optimizer, {"AdamW", {"maximize", "foreach", "capturable", "differentiable", "fused"}, true}));
  } else if (is.template operator()<torch::optim::Adagrad, train::Adagrad>()) {
    function(Codec<AdagradOptions, AdagradParamState>(
        optimizer, {"Adagrad", {"maximize", "foreach", "differentiable", "fused"}, {}}));
  } else if (is.template operator()<torch::optim::RMSprop, train::RMSprop>()) {
    function(Codec<RMSpropOptions, RMSpropParamState>(
        optimizer, {"RMSprop", {"maximize", "foreach", "capturable", "differentiable"}, {}}));
  } else if (type == typeid(Adadelta)) {
    function(Codec<AdadeltaOptions, AdadeltaParamState>(optimizer,
                                                        {"Adadelta", {"foreach", "capturable", "differentiable"}, {}}));
  } else if (type == typeid(Adamax)) {
    function(
        Codec<AdamaxOptions, AdamaxParamState>(optimizer, {"Adamax", {"foreach", "capturable", "differentiable"}, {}}));
  } else if (type == typeid(NAdam)) {
    function(
        Codec<NAdamOptions, NAdamParamState>(optimizer, {"NAdam", {"foreach", "capturable", "differentiable"}, {}}));
  } else if (type == typeid(RAdam)) {
    function(
        Codec<RAdamOptions, RAdamParamState>(optimizer, {"RAdam", {"foreach", "capturable", "differentiable"}, {}}));
  } else {
    return false;
  }
  return true;
}

std::string class_name(const Optimizer& optimizer) { return c10::demangle(typeid(optimizer).name()); }

IValue shape_list(at::IntArrayRef sizes) {
  GenericList list = new_list();
  for (const int64_t size : sizes) list.emplace_back(size);
  return list;
}

IValue save_archive(Optimizer& optimizer) {
  // LibTorch cannot write the undefined tensors in this scratch list, which LBFGS::step creates when it is absent.
  for (auto& [key, state] : optimizer.state()) {
    if (auto* lbfgs = dynamic_cast<torch::optim::LBFGSParamState*>(state.get())) lbfgs->al().reset();
  }
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  const std::string bytes = std::move(stream).str();
  Tensor packed = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(packed.data_ptr(), bytes.data(), bytes.size());
  GenericList groups = new_list();
  int64_t index = 0;
  for (auto& group : optimizer.param_groups()) {
    GenericList indices = new_list(), shapes = new_list();
    for (const Tensor& parameter : group.params()) {
      indices.emplace_back(index++);
      shapes.emplace_back(shape_list(parameter.sizes()));
    }
    GenericDict saved = new_dict();
    saved.insert("params", indices);
    saved.insert("shapes", shapes);
    groups.emplace_back(saved);
  }
  GenericDict all = new_dict();
  all.insert("optimizer", class_name(optimizer));
  all.insert("archive", packed);
  all.insert("param_groups", groups);
  return all;
}

void load_archive(Optimizer& optimizer, const GenericDict& all, const std::vector<GenericDict>& groups,
                  Problems& problems) {
  const std::string subject = "state of optimizer " + class_name(optimizer);
  const auto packed = find(all, "archive");
  if (!packed || !packed->isTensor() || packed->toTensor().scalar_type() != at::kByte) {
    problems.add("it lacks the bytes \"archive\"");
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto& params = optimizer.param_groups()[i].params();
    const auto shapes = find(groups[i], "shapes");
    if (!shapes || !shapes->isList() || shapes->toList().size() != params.size()) {
      problems.add(fmt::format("param_groups[{}] lacks \"shapes\"", i));
      continue;
    }
    for (size_t j = 0; j < params.size(); ++j) {
      const IValue shape = shapes->toList().get(j);
      if (shape != shape_list(params[j].sizes())) {
        problems.add(fmt::format("param_groups[{}], parameter {}: the shape differs from {}", i, j,
                                 shape_text(params[j].sizes())));
      }
    }
  }
  problems.raise(subject);
  const Tensor bytes = packed->toTensor().contiguous();
  try {
    torch::serialize::InputArchive archive;
    archive.load_from(static_cast<const char*>(bytes.data_ptr()), static_cast<size_t>(bytes.numel()));
    optimizer.load(archive);
  } catch (const c10::Error& error) {
    fail(fmt::format("{}: the archive cannot be loaded: {}", subject, error.what_without_backtrace()));
  }
}

// The value with all tensors replaced by function(tensor), and with containers of any type.
IValue mapped(const IValue& value, const std::function<Tensor(const Tensor&)>& function) {
  if (value.isTensor()) return value.toTensor().defined() ? IValue(function(value.toTensor())) : IValue();
  if (value.isGenericDict()) {
    GenericDict out = new_dict();
    for (const auto& entry : value.toGenericDict()) out.insert(entry.key(), mapped(entry.value(), function));
    return out;
  }
  if (value.isTuple()) {
    std::vector<IValue> out;
    for (const IValue& element : value.toTupleRef().elements()) out.push_back(mapped(element, function));
    return c10::ivalue::Tuple::create(std::move(out));
  }
  if (value.isList()) {
    GenericList out = new_list();
    for (const IValue& element : value.toList().vec()) out.emplace_back(mapped(element, function));
    return out;
  }
  if (!(value.isNone() || value.isBool() || value.isInt() || value.isDouble() || value.isString())) {
    fail(fmt::format("a state cannot contain a {}; store tensors, numbers, strings, lists, tuples and dictionaries",
                     value.tagKind()));
  }
  return value;
}

// A tensor as it is stored: on the CPU, and the only contents of its storage.
Tensor compact(const Tensor& tensor) {
  const at::NoGradGuard no_grad;
  Tensor out = tensor.detach();
  if (!out.is_cpu()) out = out.cpu();
  if (out.layout() != at::kStrided) return out;
  out = out.resolve_conj().resolve_neg();
  if (out.storage().nbytes() != out.nbytes()) out = out.clone(at::MemoryFormat::Contiguous);
  return out;
}

}  // namespace

// As torch::pickle_save, without type tags, which torch.load(weights_only=True) refuses.
struct PackedState::Impl {
  explicit Impl(const IValue& value) : stored(mapped(value, compact)) {
    torch::jit::Pickler pickler([this](const char* data, size_t size) { pickled.append(data, size); }, nullptr, nullptr,
                                nullptr, nullptr, /*tag_aggregates=*/false);
    pickler.protocol();
    pickler.pushIValue(stored);
    pickler.stop();
    tensors = pickler.tensorData();
    std::vector<ArchiveRecord> records{{"data.pkl", pickled}};
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto& storage = tensors[i].storage();
      const auto* data = static_cast<const char*>(storage.nbytes() == 0 ? "" : storage.data());
      records.push_back({fmt::format("data/{}", i), {data, storage.nbytes()}});
    }
    archive = std::make_unique<TorchArchive>(std::move(records));
  }
  IValue stored;  // Owns the tensors until they are written.
  std::string pickled;
  std::vector<Tensor> tensors;
  std::unique_ptr<TorchArchive> archive;
};

PackedState::PackedState(const c10::IValue& value) : impl_(std::make_unique<Impl>(value)) {}
PackedState::~PackedState() = default;
size_t PackedState::size() const { return impl_->archive->size(); }
void PackedState::write(std::span<char> out) const {
  VOLADOR_CHECK(out.size() == size());
  for (const auto& [data, offset] : places()) std::memcpy(out.data() + offset, data.data(), data.size());
  write_around(out);
}
std::vector<ArchivePlace> PackedState::places() const { return impl_->archive->places(); }
void PackedState::write_around(std::span<char> out) const {
  VOLADOR_CHECK(out.size() == size());
  impl_->archive->write_around(out);
}

namespace {

// Bytes of a file or in memory.
class MemorySource : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  size_t size() const override { return bytes_.size(); }
  size_t read(uint64_t position, void* out, size_t size, const char*) const override {
    if (position >= bytes_.size()) return 0;
    const size_t count = std::min(size, bytes_.size() - position);
    std::memcpy(out, bytes_.data() + position, count);
    return count;
  }

 private:
  std::string_view bytes_;
};

class FileSource : public caffe2::serialize::ReadAdapterInterface {
 public:
  FileSource(FileHandle file, size_t size) : file_(std::move(file)), size_(size) {}
  size_t size() const override { return size_; }
  size_t read(uint64_t position, void* out, size_t size, const char*) const override {
    size_t total = 0;
    while (total < size) {
      const ssize_t count =
          ::pread(file_.get(), static_cast<char*>(out) + total, size - total, static_cast<off_t>(position + total));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      total += static_cast<size_t>(count);
    }
    return total;
  }

 private:
  FileHandle file_;
  size_t size_;
};

template <class Number>
Number number_at(const char* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

// Reads a record and compares its checksum, which PyTorchStreamReader ignores. PyTorch writes 0 for none.
std::tuple<at::DataPtr, size_t> checked_record(caffe2::serialize::PyTorchStreamReader& reader,
                                               const caffe2::serialize::ReadAdapterInterface& source,
                                               const std::string& name) {
  auto [data, size] = reader.getRecord(name);
  char header[30] = {};  // Local file header of the zip format: flags at 6, method at 8, CRC-32 at 14.
  if (source.read(reader.getRecordHeaderOffset(name), header, sizeof header, "") != sizeof header) {
    fail("it is truncated or corrupt: a record has no header");
  }
  uint32_t expected = number_at<uint32_t>(header + 14);
  if ((number_at<uint16_t>(header + 6) & 8) != 0) {  // The checksum follows the data, after a signature.
    char after[8] = {};
    const size_t count = source.read(reader.getRecordOffset(name) + size, after, sizeof after, "");
    expected = std::string_view(after, count).starts_with("PK\x07\x08") ? number_at<uint32_t>(after + 4) : 0;
  }
  const bool stored = number_at<uint16_t>(header + 8) == 0;
  if (stored && expected != 0 && ::crc32_z(0, static_cast<const Bytef*>(data.get()), size) != expected) {
    fail(fmt::format("it is truncated or corrupt: the checksum of record {} is wrong", name));
  }
  return {std::move(data), size};
}

IValue read_from(std::shared_ptr<caffe2::serialize::ReadAdapterInterface> source, const std::string& what) {
  char magic[4] = {};
  const size_t count = source->read(0, magic, sizeof magic, "");
  if (std::string_view(magic, count) != std::string_view("PK\x03\x04", 4)) {
    const bool pickle = count > 1 && magic[0] == '\x80';
    fail(fmt::format("{}: not a file of torch.save or volador::train::save_file{}", what,
                     count == 0 ? " (it is empty)"
                     : pickle   ? " in the current format; save it again with PyTorch 1.6 or later"
                                : ""));
  }
  try {
    caffe2::serialize::PyTorchStreamReader reader(source);
    if (reader.hasRecord("byteorder")) {
      const auto [order, size] = reader.getRecord("byteorder");
      if (std::string_view(static_cast<const char*>(order.get()), size) != "little") {
        fail("it was written on a big-endian machine");
      }
    }
    const auto [pickle, size] = checked_record(reader, *source, "data.pkl");
    return read_pickle({static_cast<const char*>(pickle.get()), size}, [&](const std::string& key, size_t) {
      auto [data, bytes] = checked_record(reader, *source, "data/" + key);
      return c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(data), nullptr, /*resizable=*/false);
    });
  } catch (const Exception& error) {
    throw Exception({error.code(), what + ": " + error.error().message});
  } catch (const c10::Error& error) {
    fail(fmt::format("{}: it is truncated or corrupt: {}", what, error.what_without_backtrace()));
  } catch (const std::exception& error) {
    fail(fmt::format("{}: it is truncated or corrupt: {}", what, error.what()));
  }
}

}  // namespace

IValue module_state(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  collect(module, "", tensors);
  GenericDict state = new_dict();
  for (const auto& [name, tensor] : tensors) state.insert(name, tensor.detach());
  return state;
}

void load_module_state(torch::nn::Module& module, const IValue& state) {
  constexpr std::string_view kSubject = "state of the module";
  if (!state.isGenericDict()) fail(fmt::format("{}: expected a dictionary, got {}", kSubject, state.tagKind()));
  const GenericDict saved = state.toGenericDict();
  std::vector<std::pair<std::string, Tensor>> tensors;
  collect(module, "", tensors);

  Problems problems;
  std::vector<Tensor> sources;
  size_t known = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto given = find(saved, name);
    if (!given) {
      problems.add(fmt::format("\"{}\" is missing", name));
      continue;
    }
    ++known;
    if (!given->isTensor() || !given->toTensor().defined()) {
      problems.add(fmt::format("\"{}\" is not a tensor", name));
    } else if (given->toTensor().sizes() != tensor.sizes()) {
      problems.add(fmt::format("\"{}\" has shape {}, the module has {}", name, shape_text(given->toTensor().sizes()),
                               shape_text(tensor.sizes())));
    } else {
      sources.push_back(given->toTensor());
    }
  }
  if (known < saved.size()) {
    for (const auto& entry : saved) {
      const bool expected = std::any_of(tensors.begin(), tensors.end(), [&](const auto& item) {
        return entry.key().isString() && entry.key().toStringRef() == item.first;
      });
      if (!expected) problems.add(key_text(entry.key()) + " is unexpected");
    }
  }
  problems.raise(kSubject);
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].second.copy_(sources[i]);
}

IValue optimizer_state(Optimizer& optimizer) {
  IValue state;
  if (!with_codec(optimizer, [&](const auto& codec) { state = codec.save(); })) state = save_archive(optimizer);
  return state;
}

void load_optimizer_state(Optimizer& optimizer, const IValue& state) {
  std::string name = class_name(optimizer);
  const bool known = with_codec(optimizer, [&](const auto& codec) { name = codec.kind().name; });
  const std::string subject = "state of optimizer " + name;
  if (!state.isGenericDict()) fail(fmt::format("{}: expected a dictionary, got {}", subject, state.tagKind()));
  const GenericDict all = state.toGenericDict();

  if (const auto saved = find(all, "optimizer"); saved && saved->isString() && saved->toStringRef() != name) {
    fail(fmt::format("{}: it belongs to optimizer {}; create that one", subject, saved->toStringRef()));
  }
  const auto groups = find(all, "param_groups");
  if (!groups || !groups->isList()) fail(subject + ": it lacks the list \"param_groups\"");
  const auto list = groups->toList();
  auto& own = optimizer.param_groups();
  if (list.size() != own.size()) {
    fail(fmt::format("{}: it has {} parameter groups, the optimizer has {}", subject, list.size(), own.size()));
  }
  Problems problems;
  std::vector<GenericDict> dicts;
  for (size_t i = 0; i < own.size(); ++i) {
    const IValue group = list.get(i);
    if (!group.isGenericDict()) fail(fmt::format("{}: param_groups[{}] is not a dictionary", subject, i));
    dicts.push_back(group.toGenericDict());
    const auto params = find(dicts.back(), "params");
    if (!params || !params->isList()) fail(fmt::format("{}: param_groups[{}] lacks the list \"params\"", subject, i));
    if (params->toList().size() != own[i].params().size()) {
      problems.add(fmt::format("param_groups[{}] has {} parameters, the optimizer has {}", i, params->toList().size(),
                               own[i].params().size()));
    }
  }
  problems.raise(subject);
  if (!known) return load_archive(optimizer, all, dicts, problems);

  const auto states = find(all, "state");
  if (!states || !states->isGenericDict()) fail(subject + ": it lacks the dictionary \"state\"");
  with_codec(optimizer, [&](auto&& codec) { codec.load(states->toGenericDict(), dicts, problems); });
}

IValue clone_tensors(const IValue& value) {
  return clone_tensors(value, [](const Tensor&) { return false; });
}

IValue clone_tensors(const IValue& value, const std::function<bool(const Tensor&)>& is_shared) {
  return mapped(value, [&](const Tensor& tensor) {
    const at::NoGradGuard no_grad;
    return is_shared(tensor) ? tensor.detach() : tensor.detach().clone();
  });
}

std::string to_bytes(const IValue& value) {
  const PackedState packed(value);
  std::string bytes(packed.size(), '\0');
  packed.write(bytes);
  return bytes;
}

IValue from_bytes(std::string_view bytes) { return read_from(std::make_shared<MemorySource>(bytes), "state"); }

void save_file(const fs::path& path, const IValue& value, Durability durability) {
  fs::path partial = path;
  partial += ".partial";
  const auto write = [&]() -> Result<void> {
    auto file = FileHandle::open(partial, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file) return make_error(file.error());
    Result<void> written;
    PackedState::Impl(value).archive->write([&](std::string_view piece) {
      if (written) written = write_all(file->get(), piece, path);
    });
    VOLADOR_TRY(written);
    if (durability == Durability::kPower) VOLADOR_TRY(sync_file(file->get(), path));
    if (::rename(partial.c_str(), path.c_str()) != 0) return make_error(file_error("write", path, errno));
    return {};
  };
  Result<void> written;
  try {
    written = write();
  } catch (...) {
    ::unlink(partial.c_str());
    throw;
  }
  if (!written) {
    ::unlink(partial.c_str());
    throw Exception(written.error());
  }
  if (durability == Durability::kProcess) return;
  const auto synced = sync_directory(path.has_parent_path() ? path.parent_path() : fs::path("."));
  if (!synced) throw Exception(synced.error());
}

IValue load_file(const fs::path& path) {
  auto file = FileHandle::open(path, O_RDONLY);
  if (!file) throw Exception(file.error());
  struct stat status {};
  if (::fstat(file->get(), &status) != 0) throw Exception(file_error("read", path, errno));
  if (!S_ISREG(status.st_mode)) fail(path.string() + ": not a regular file");
  return read_from(std::make_shared<FileSource>(std::move(*file), static_cast<size_t>(status.st_size)), path.string());
}

}  // namespace volador::train
