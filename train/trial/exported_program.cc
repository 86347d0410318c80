#include "train/trial/exported_program.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <torch/csrc/jit/frontend/schema_matching.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/script.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tune/refusal.h"
#include "tune/space/config.h"

namespace volador::train {
namespace {

using torch::jit::NamedValue;
using torch::jit::Node;
using torch::jit::Value;
using tune::Config;

constexpr const char* kModelFile = "models/model.json";

[[noreturn]] void refuse_construct(const std::string& what) {
  tune::throw_refusal(
      fmt::format("the exported program has {}, which cannot be translated to TorchScript; save the model by "
                  "torch.jit.script(model).save(…) instead",
                  what));
}
[[noreturn]] void refuse_damage(const std::string& what) {
  tune::throw_refusal(fmt::format("the exported program is damaged: {}; export it again by torch.export.save", what));
}

// The type of a number in the file, whose enumeration is torch.export's own.
torch::ScalarType type_of(int64_t number) {
  static const std::map<int64_t, torch::ScalarType> kTypes{
      {1, torch::kByte},        {2, torch::kChar},          {3, torch::kShort},          {4, torch::kInt},
      {5, torch::kLong},        {6, torch::kHalf},          {7, torch::kFloat},          {8, torch::kDouble},
      {9, torch::kComplexHalf}, {10, torch::kComplexFloat}, {11, torch::kComplexDouble}, {12, torch::kBool},
      {13, torch::kBFloat16}};
  const auto found = kTypes.find(number);
  if (found == kTypes.end()) refuse_construct(fmt::format("a tensor of type number {}", number));
  return found->second;
}

// Functions of Python over sizes.
std::optional<const char*> python_function(std::string_view target) {
  static const std::map<std::string_view, const char*> kFunctions{
      {"_operator.add", "aten::add"},       {"_operator.sub", "aten::sub"},
      {"_operator.mul", "aten::mul"},       {"_operator.neg", "aten::neg"},
      {"_operator.truediv", "aten::div"},   {"_operator.floordiv", "aten::floordiv"},
      {"_operator.mod", "aten::remainder"}, {"_operator.pow", "aten::pow"},
      {"_operator.eq", "aten::eq"},         {"_operator.ne", "aten::ne"},
      {"_operator.lt", "aten::lt"},         {"_operator.le", "aten::le"},
      {"_operator.gt", "aten::gt"},         {"_operator.ge", "aten::ge"},
      {"torch.sym_max", "prim::max"},       {"torch.sym_min", "prim::min"},
      {"torch.sym_float", "aten::Float"},   {"torch.sym_not", "aten::__not__"}};
  const auto found = kFunctions.find(target);
  return found == kFunctions.end() ? std::nullopt : std::optional(found->second);
}

// Operations that only test what the export assumed.
bool is_assertion(std::string_view target) {
  return target.starts_with("torch.ops.aten._assert_") || target.starts_with("torch.ops.aten.sym_constrain_range");
}

// An entry of a map, whose name may contain dots; null: there is none.
const Config* find_entry(const Config& map, std::string_view name) {
  for (const auto& entry : map.entries()) {
    if (entry.name == name) return &entry.value;
  }
  return nullptr;
}
const Config& entry_of(const Config& map, std::string_view name) {
  if (const Config* entry = find_entry(map, name)) return *entry;
  refuse_damage(fmt::format("an entry \"{}\" is missing", name));
}
// The only entry of a union.
const tune::ConfigEntry& only_entry(const Config& map) {
  if (map.entries().size() != 1) refuse_damage("a union has not one entry");
  return map.entries().front();
}

std::vector<int64_t> integers_of(const Config& list) {  // [{"as_int": 8}, …]
  std::vector<int64_t> integers;
  for (const Config& item : list.items()) integers.push_back(entry_of(item, "as_int").integer());
  return integers;
}

double real_of(const Config& value) {
  if (value.kind() != Config::Kind::kText) return value.real();
  const std::string text = value.text();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "Infinity") return kInfinity;
  if (text == "-Infinity") return -kInfinity;
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  refuse_damage(fmt::format("the number \"{}\"", text));
}

// The tensors of an archive.
class Tensors {
 public:
  explicit Tensors(caffe2::serialize::PyTorchStreamReader& archive) : archive_(archive) {
    for (const auto& [folder, file] : {std::pair{"data/weights/", "data/weights/model_weights_config.json"},
                                       std::pair{"data/constants/", "data/constants/model_constants_config.json"}}) {
      if (archive.hasRecord(file)) files_.emplace_back(folder, json(file));
    }
  }

  Config json(const std::string& file) {
    auto [data, size] = archive_.getRecord(file);
    auto config = Config::from_json(std::string_view(static_cast<const char*>(data.get()), size));
    if (!config) refuse_damage(fmt::format("{}: {}", file, config.error().message));
    return std::move(*config);
  }

  torch::Tensor read(const std::string& name) {
    for (const auto& [folder, config] : files_) {
      if (const Config* entry = find_entry(entry_of(config, "config"), name)) return read(folder, name, *entry);
    }
    refuse_damage(fmt::format("it has no tensor {}", name));
  }

 private:
  torch::Tensor read(const std::string& folder, const std::string& name, const Config& entry) {
    if (entry_of(entry, "use_pickle").boolean()) refuse_construct(fmt::format("a tensor of a subclass, {}", name));
    const std::string file = folder + entry_of(entry, "path_name").text();
    torch::Tensor& tensor = read_[file];  // Names that share a file share the tensor.
    if (tensor.defined()) return tensor;
    const Config& meta = entry_of(entry, "tensor_meta");
    const auto sizes = integers_of(entry_of(meta, "sizes")), strides = integers_of(entry_of(meta, "strides"));
    const int64_t offset = entry_of(entry_of(meta, "storage_offset"), "as_int").integer();
    const auto type = type_of(entry_of(meta, "dtype").integer());
    auto [data, bytes] = archive_.getRecord(file);
    const auto elements = static_cast<int64_t>(bytes / c10::elementSize(type));
    int64_t last = offset;
    bool is_empty = false, is_valid = offset >= 0 && strides.size() == sizes.size();
    for (size_t i = 0; is_valid && i < sizes.size(); ++i) {
      is_valid =
          sizes[i] >= 0 && strides[i] >= 0 && sizes[i] <= elements && strides[i] <= std::max<int64_t>(1, elements);
      is_empty = is_empty || sizes[i] == 0;
      last += std::max<int64_t>(0, sizes[i] - 1) * strides[i];
    }
    if (!is_valid || (!is_empty && last >= elements))
      refuse_damage(fmt::format("tensor {} does not fit into {} bytes", name, bytes));
    tensor = is_empty ? torch::empty(sizes, type)
                      : torch::from_blob(static_cast<char*>(data.get()) + offset * c10::elementSize(type), sizes,
                                         strides, type)
                            .clone();
    if (const Config* gradients = find_entry(meta, "requires_grad"); gradients != nullptr && gradients->boolean())
      tensor.requires_grad_();
    return tensor;
  }

  caffe2::serialize::PyTorchStreamReader& archive_;
  std::vector<std::pair<std::string, Config>> files_;  // Folder, and the table of its tensors.
  std::map<std::string, torch::Tensor> read_;          // By file.
};

class Translation {
 public:
  explicit Translation(caffe2::serialize::PyTorchStreamReader& archive) : tensors_(archive) {}

  torch::jit::Module run() {
    const Config model = tensors_.json(kModelFile);
    const Config& program = entry_of(model, "graph_module");
    const Config& signature = entry_of(program, "signature");
    root_.register_attribute("training", c10::BoolType::get(), true);
    self_ = graph_->addInput("self");
    self_->setType(root_.type());
    for (const Config& input : entry_of(signature, "input_specs").items()) add_input(input);
    training_ = graph_->insertGetAttr(self_, "training");
    for (const Config& node : entry_of(entry_of(program, "graph"), "nodes").items()) add_node(node);
    std::vector<Value*> outputs;
    for (const Config& output : entry_of(signature, "output_specs").items()) add_output(output, outputs);
    if (outputs.empty()) refuse_construct("no output");
    graph_->registerOutput(outputs.size() == 1 ? outputs[0]
                                               : graph_->insertNode(graph_->createTuple(outputs))->output());
    graph_->lint();
    const auto unit = root_._ivalue()->compilation_unit();
    root_.type()->addMethod(unit->create_function(c10::QualifiedName(*root_.type()->name(), "forward"), graph_));
    return root_;
  }

 private:
  // The script that holds a tensor named "layers.0.weight", its value, and the last part of the name.
  struct Place {
    torch::jit::Module module;
    Value* value = nullptr;
    std::string name;
  };
  Place place_of(const std::string& name) {
    Place place{root_, self_, name};
    for (size_t dot = name.find('.'), from = 0;; dot = name.find('.', from)) {
      place.name = name.substr(from, dot - from);
      if (dot == std::string::npos) return place;
      if (!place.module.hasattr(place.name)) {
        place.module.register_module(place.name,
                                     torch::jit::Module("__torch__.Part", root_._ivalue()->compilation_unit(), true));
      }
      place.module = place.module.attr(place.name).toModule();
      place.value = graph_->insertGetAttr(place.value, place.name);
      from = dot + 1;
    }
  }

  void add_tensor(const std::string& value, const std::string& name, bool is_parameter) {
    const Place place = place_of(name);
    const torch::Tensor tensor = tensors_.read(name);
    if (place.module.hasattr(place.name)) refuse_damage(fmt::format("it has two tensors {}", name));
    place.module._ivalue()->type()->addOrCheckAttribute(place.name, c10::TensorType::get(), is_parameter,
                                                        !is_parameter);
    place.module._ivalue()->setAttr(place.name, tensor);
    values_[value] = graph_->insertGetAttr(place.value, place.name);
    if (device_of_ == nullptr) device_of_ = values_[value];
    if (name.ends_with("num_batches_tracked")) counters_.insert(value);
  }

  void add_input(const Config& spec) {
    const auto& [kind, input] = only_entry(spec);
    const Config& argument = entry_of(input, "arg");
    if (kind == "user_input") {
      const auto& [what, value] = only_entry(argument);
      if (what != "as_tensor") refuse_construct("an input that is no tensor");
      const std::string name = entry_of(value, "name").text();
      values_[name] = graph_->addInput(name);
      return;
    }
    const std::string value = find_entry(argument, "name") != nullptr ? argument.text("name") : std::string();
    if (kind == "parameter") return add_tensor(value, entry_of(input, "parameter_name").text(), true);
    if (kind == "buffer") return add_tensor(value, entry_of(input, "buffer_name").text(), false);
    if (kind == "tensor_constant") return add_tensor(value, entry_of(input, "tensor_constant_name").text(), false);
    refuse_construct(fmt::format("an input of kind {}", kind));
  }

  void add_output(const Config& spec, std::vector<Value*>& outputs) {
    const auto& [kind, output] = only_entry(spec);
    const Config& argument = entry_of(output, "arg");
    if (kind == "user_output") {
      outputs.push_back(value_of(argument));
    } else if (kind == "buffer_mutation") {
      tune::throw_refusal(
          "the exported program is one of run_decompositions(), whose batch norm has no gradients; save the program of "
          "torch.export.export() as it is");
    } else {
      refuse_construct(fmt::format("an output of kind {}", kind));
    }
  }

  // Inserts what `insert` inserts under a test of the mode.
  template <class Insert>
  void in_training(Insert insert) {
    Node* condition = graph_->insertNode(graph_->create(torch::jit::prim::If, {training_}, 0));
    torch::jit::Block* then = condition->addBlock();
    condition->addBlock();
    const torch::jit::WithInsertPoint guard(then);
    insert();
  }

  Value* call(const char* name, const std::vector<NamedValue>& named, const std::vector<NamedValue>& positional = {}) {
    const auto symbol = c10::Symbol::fromQualString(name);
    try {
      return torch::jit::emitBuiltinCall(torch::jit::SourceRange(), *graph_, symbol, positional, named);
    } catch (const std::exception& error) {
      const std::string_view why = error.what();
      refuse_construct(fmt::format("the operation {} ({})", name, why.substr(0, why.find('\n'))));
    }
  }

  void add_node(const Config& node) {
    const std::string target = entry_of(node, "target").text();
    if (is_assertion(target)) return;
    const auto function = python_function(target);
    constexpr std::string_view kOperations = "torch.ops.";
    if (!function && (!target.starts_with(kOperations) || target.starts_with("torch.ops.higher_order.")))
      refuse_construct(fmt::format("the operation {}", target));
    std::vector<NamedValue> named, positional;
    bool counts_batches = false;
    for (const Config& input : entry_of(node, "inputs").items()) {
      const std::string name = entry_of(input, "name").text();
      const Config& argument = entry_of(input, "arg");
      counts_batches = counts_batches || is_counter(argument);
      const bool is_mode = (name == "train" || name == "training") && find_entry(argument, "as_bool") != nullptr;
      Value* value = is_mode ? training_ : value_of(argument);
      if (function) {
        positional.emplace_back(value);
      } else {
        named.emplace_back(name, value);
      }
    }
    if (function) return add_outputs(node, call(*function, named, positional));
    // "torch.ops.aten.add.Tensor" → "aten::add"; the arguments' names and types decide on the overload.
    std::string name = target.substr(kOperations.size());
    name = name.substr(0, name.rfind('.'));
    const size_t dot = name.find('.');
    if (dot == std::string::npos) refuse_damage(fmt::format("the operation {}", target));
    name.replace(dot, 1, "::");
    if (counts_batches && name.ends_with('_')) return in_training([&] { call(name.c_str(), named); });
    add_outputs(node, call(name.c_str(), named));
  }

  bool is_counter(const Config& argument) const {
    const Config* tensor = find_entry(argument, "as_tensor");
    return tensor != nullptr && counters_.contains(entry_of(*tensor, "name").text());
  }

  void add_outputs(const Config& node, Value* value) {
    const auto& outputs = entry_of(node, "outputs").items();
    if (outputs.size() == 1) {
      const auto& [kind, output] = only_entry(outputs[0]);
      if (kind != "as_tensors") return name_value(kind, output, value);
      Node* unpack = graph_->insertNode(graph_->createListUnpack(value, output.items().size()));
      for (size_t i = 0; i < output.items().size(); ++i)
        values_[entry_of(output.items()[i], "name").text()] = unpack->outputs()[i];
    } else if (outputs.size() > 1) {
      Node* unpack = graph_->insertNode(graph_->createTupleUnpack(value));
      if (unpack->outputs().size() < outputs.size())
        refuse_damage(fmt::format("the outputs of {}", entry_of(node, "target").text()));
      for (size_t i = 0; i < outputs.size(); ++i) {
        const auto& [kind, output] = only_entry(outputs[i]);
        name_value(kind, output, unpack->outputs()[i]);
      }
    }
  }

  void name_value(const std::string& kind, const Config& output, Value* value) {
    if (kind == "as_tensor") {
      values_[entry_of(output, "name").text()] = value;
    } else if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") {
      values_[entry_of(output, "as_name").text()] = value;
    } else if (kind != "as_none") {
      refuse_construct(fmt::format("a result of kind {}", kind));
    }
  }

  Value* value_named(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) refuse_damage(fmt::format("{} is used before it is computed", name));
    return found->second;
  }

  Value* constant(const c10::IValue& value) { return graph_->insertConstant(value); }

  template <class T, class Read>
  Value* list_of(const Config& items, Read read) {
    c10::List<T> list;
    for (const Config& item : items.items()) list.push_back(read(item));
    return constant(list);
  }
  Value* list_of(const c10::TypePtr& type, const Config& items) {
    std::vector<Value*> values;
    for (const Config& item : items.items()) {
      const Config* name = find_entry(item, "name");
      values.push_back(name != nullptr ? value_named(name->text()) : value_of(item));
    }
    return graph_->insertNode(graph_->createList(type, values))->output();
  }

  Value* value_of(const Config& argument) {
    const auto& [kind, value] = only_entry(argument);
    if (kind == "as_tensor") return value_named(entry_of(value, "name").text());
    if (kind == "as_name") return value_named(value.text());
    if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return value_of(value);
    if (kind == "as_none") return constant({});
    if (kind == "as_int") return constant(value.integer());
    if (kind == "as_bool") return constant(value.boolean());
    if (kind == "as_float") return constant(real_of(value));
    if (kind == "as_string") return constant(value.text());
    if (kind == "as_ints") return list_of<int64_t>(value, [](const Config& item) { return item.integer(); });
    if (kind == "as_bools") return list_of<bool>(value, [](const Config& item) { return item.boolean(); });
    if (kind == "as_floats") return list_of<double>(value, real_of);
    if (kind == "as_tensors") return list_of(c10::TensorType::get(), value);
    if (kind == "as_optional_tensors") return list_of(c10::OptionalType::ofTensor(), value);
    if (kind == "as_sym_ints") return list_of(c10::IntType::get(), value);
    if (kind == "as_scalar_type") return constant(static_cast<int64_t>(type_of(value.integer())));
    if (kind == "as_layout" && value.integer() == 7) return constant(static_cast<int64_t>(c10::Layout::Strided));
    if (kind == "as_memory_format") {
      constexpr std::array kFormats{c10::MemoryFormat::Contiguous, c10::MemoryFormat::ChannelsLast,
                                    c10::MemoryFormat::ChannelsLast3d, c10::MemoryFormat::Preserve};
      const auto number = static_cast<size_t>(value.integer() - 1);
      if (number < kFormats.size()) return constant(static_cast<int64_t>(kFormats[number]));
    }
    // The device of the parameters, which is that of the rank.
    if (kind == "as_device" && device_of_ != nullptr) return call("prim::device", {{"a", device_of_}});
    refuse_construct(fmt::format("an argument of kind {}", kind));
  }

  Tensors tensors_;
  torch::jit::Module root_{"ExportedProgram"};
  const std::shared_ptr<torch::jit::Graph> graph_ = std::make_shared<torch::jit::Graph>();
  Value* self_ = nullptr;
  Value* training_ = nullptr;             // Whether the script is in training mode.
  Value* device_of_ = nullptr;            // A parameter or buffer.
  std::map<std::string, Value*> values_;  // By the program's names.
  std::set<std::string> counters_;        // Batch norm's numbers of batches.
};

}  // namespace

bool is_exported_program(const std::filesystem::path& file) {
  try {
    return caffe2::serialize::PyTorchStreamReader(file.string()).hasRecord("archive_format");
  } catch (const c10::Error&) {  // No archive.
    return false;
  }
}

torch::jit::Module script_of_exported_program(const std::filesystem::path& file) {
  try {
    caffe2::serialize::PyTorchStreamReader archive(file.string());
    if (!archive.hasRecord(kModelFile)) {
      tune::throw_refusal(
          "the file has no graph, as one that AOTInductor has compiled, which has no gradients; write it by "
          "torch.export.save");
    }
    return Translation(archive).run();
  } catch (const Exception& exception) {
    throw Exception(Error{exception.error().code, fmt::format("{}: {}", file.string(), exception.error().message)});
  } catch (const c10::Error& error) {
    tune::throw_refusal(
        fmt::format("{}: the exported program is damaged: {}", file.string(), error.what_without_backtrace()));
  }
}

}  // namespace volador::train
