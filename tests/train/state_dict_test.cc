#include "train/optim/state_dict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/result.h"
#include "tests/temporary_directory.h"
#include "train/optim/optimizers.h"
#include "train/optim/torch_pickle.h"

namespace volador::train {
namespace {

using at::Tensor;
using c10::IValue;
using testing::HasSubstr;
using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;
using GenericDict = c10::impl::GenericDict;

class StateDict : public testing::Test {
 protected:
  // Tiny tensors: threads only wait for each other.
  static void SetUpTestSuite() { torch::set_num_threads(1); }
};

// The model of tests/train/data/pytorch_adamw.pt.
torch::nn::Sequential model(int64_t hidden = 4) {
  return torch::nn::Sequential(torch::nn::Linear(3, hidden), torch::nn::Tanh(), torch::nn::BatchNorm1d(hidden),
                               torch::nn::Linear(hidden, 2));
}

void train(torch::nn::Sequential& net, Optimizer& optimizer, const Tensor& x, const Tensor& y, int steps) {
  for (int i = 0; i < steps; ++i) {
    const auto loss = [&] {
      optimizer.zero_grad();
      Tensor value = torch::mse_loss(net->forward(x), y);
      value.backward();
      return value;
    };
    if (dynamic_cast<torch::optim::LBFGS*>(&optimizer) == nullptr) {
      loss();
      optimizer.step();
    } else {
      optimizer.step(loss);
    }
  }
}

Tensor inputs() { return torch::sin(torch::arange(24) + 1).view({8, 3}); }
Tensor targets() { return torch::cos(torch::arange(16)).view({8, 2}); }

bool equal(const torch::nn::Sequential& a, const torch::nn::Sequential& b) {
  const GenericDict first = module_state(*a).toGenericDict(), second = module_state(*b).toGenericDict();
  if (first.size() != second.size()) return false;
  for (const auto& entry : first) {
    if (!entry.value().toTensor().equal(second.at(entry.key()).toTensor())) return false;
  }
  return true;
}

// Message of the Exception, which must have the code kInvalidArgument.
std::string message(const std::function<void()>& call, ErrorCode code = ErrorCode::kInvalidArgument) {
  try {
    call();
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "accepted";
}

// A class of a user that LibTorch and Volador have no name for.
class SignDescent : public torch::optim::SGD {
 public:
  using torch::optim::SGD::SGD;
  Tensor step(LossClosure) override {
    const at::NoGradGuard no_grad;
    for (auto& group : param_groups()) {
      for (auto& parameter : group.params()) {
        if (parameter.grad().defined()) parameter.add_(parameter.grad().sign(), -group.options().get_lr());
      }
    }
    return {};
  }
};

using Make = std::function<std::unique_ptr<Optimizer>(std::vector<Tensor>)>;

std::vector<std::pair<std::string, Make>> optimizers() {
  const auto sgd = SGDOptions(0.05).momentum(0.9);
  const auto rms = RMSpropOptions(0.01).momentum(0.5).centered(true);
  const auto sums = AdagradOptions(0.05).initial_accumulator_value(0.1);
  return {
      {"SGD plain", [](auto p) { return std::make_unique<SGD>(p, SGDOptions(0.1)); }},
      {"SGD", [=](auto p) { return std::make_unique<SGD>(p, sgd); }},
      {"torch SGD", [=](auto p) { return std::make_unique<torch::optim::SGD>(p, sgd); }},
      {"Adam", [](auto p) { return std::make_unique<Adam>(p, AdamOptions(0.01).amsgrad(true)); }},
      {"torch Adam", [](auto p) { return std::make_unique<torch::optim::Adam>(p, AdamOptions(0.01).amsgrad(true)); }},
      {"AdamW", [](auto p) { return std::make_unique<AdamW>(p, AdamWOptions(0.01)); }},
      {"torch AdamW", [](auto p) { return std::make_unique<torch::optim::AdamW>(p, AdamWOptions(0.01)); }},
      {"Adagrad", [=](auto p) { return std::make_unique<Adagrad>(p, sums); }},
      {"torch Adagrad", [=](auto p) { return std::make_unique<torch::optim::Adagrad>(p, sums); }},
      {"RMSprop", [=](auto p) { return std::make_unique<RMSprop>(p, rms); }},
      {"torch RMSprop", [=](auto p) { return std::make_unique<torch::optim::RMSprop>(p, rms); }},
      {"Adadelta", [](auto p) { return std::make_unique<Adadelta>(p, AdadeltaOptions(1)); }},
      {"Adamax", [](auto p) { return std::make_unique<Adamax>(p, AdamaxOptions(0.01)); }},
      {"NAdam", [](auto p) { return std::make_unique<NAdam>(p, NAdamOptions(0.01)); }},
      {"RAdam", [](auto p) { return std::make_unique<RAdam>(p, RAdamOptions(0.01).decoupled_weight_decay(true)); }},
      {"LBFGS",
       [](auto p) { return std::make_unique<torch::optim::LBFGS>(p, torch::optim::LBFGSOptions(0.1).max_iter(3)); }},
      {"user's class", [](auto p) { return std::make_unique<SignDescent>(p, SGDOptions(0.01)); }},
  };
}

TEST_F(StateDict, TenStepsEqualFiveStepsASavedFileAndFiveMore) {
  const TemporaryDirectory folder;
  for (const auto& [name, make] : optimizers()) {
    SCOPED_TRACE(name);
    torch::manual_seed(5);
    auto whole = model();
    torch::manual_seed(5);
    auto before = model();
    const auto uninterrupted = make(whole->parameters()), first = make(before->parameters());
    train(whole, *uninterrupted, inputs(), targets(), 10);
    train(before, *first, inputs(), targets(), 5);
    GenericDict all(c10::StringType::get(), c10::AnyType::get());
    all.insert("model", module_state(*before));
    all.insert("optimizer", optimizer_state(*first));
    save_file(folder.path() / "state.pt", all, Durability::kProcess);

    torch::manual_seed(6);
    auto after = model();
    const auto second = make(after->parameters());
    second->param_groups()[0].options().set_lr(1e-9);  // Loading restores it.
    ASSERT_FALSE(equal(before, after));
    const auto loaded = load_file(folder.path() / "state.pt").toGenericDict();
    load_module_state(*after, loaded.at("model"));
    load_optimizer_state(*second, loaded.at("optimizer"));
    ASSERT_TRUE(equal(before, after));
    train(after, *second, inputs(), targets(), 5);
    EXPECT_TRUE(equal(after, whole));
  }
}

TEST_F(StateDict, LibTorchsAndOurClassesExchangeTheirState) {
  auto net = model();
  torch::optim::AdamW theirs(net->parameters(), AdamWOptions(0.01));
  train(net, theirs, inputs(), targets(), 3);
  AdamW ours(net->parameters(), AdamWOptions(0.5));
  load_optimizer_state(ours, optimizer_state(theirs));
  EXPECT_EQ(ours.param_groups()[0].options().get_lr(), 0.01);
  EXPECT_EQ(ours.state().size(), theirs.state().size());
}

TEST_F(StateDict, ContinuesATrainingOfPyTorch) {
  const auto file = load_file("tests/train/data/pytorch_adamw.pt").toGenericDict();
  auto net = model();
  const auto all = net->parameters();
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<Tensor>(all.begin(), all.begin() + 2));
  groups.emplace_back(std::vector<Tensor>(all.begin() + 2, all.end()));
  AdamW optimizer(groups, AdamWOptions(1));
  load_module_state(*net, file.at("model"));
  load_optimizer_state(optimizer, file.at("optimizer"));
  EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.02);
  EXPECT_EQ(optimizer.param_groups()[1].options().get_lr(), 0.01);
  EXPECT_EQ(file.at("epoch").toInt(), 5);
  EXPECT_EQ(file.at("metrics").toGenericDict().at("loss").toDouble(), 0.5);

  train(net, optimizer, file.at("x").toTensor(), file.at("y").toTensor(), 3);
  const auto expected = file.at("after").toGenericDict();
  std::vector<std::string> names;
  for (const auto& entry : module_state(*net).toGenericDict()) {
    names.push_back(entry.key().toStringRef());
    EXPECT_TRUE(torch::allclose(entry.value().toTensor(), expected.at(entry.key()).toTensor(), 1e-5, 1e-6))
        << names.back();
  }
  std::vector<std::string> python_names;
  for (const auto& entry : expected) python_names.push_back(entry.key().toStringRef());
  EXPECT_EQ(names, python_names);  // In Python's order too.
}

TEST_F(StateDict, LoadModuleNamesAllDifferencesAndChangesNothing) {
  auto net = model();
  auto state = module_state(*model(5)).toGenericDict();
  (void)state.erase("3.bias");
  state.insert("extra", torch::ones(1));
  state.insert_or_assign("2.bias", 3);
  const IValue before = clone_tensors(module_state(*net));
  const std::string text = message([&] { load_module_state(*net, state); });
  EXPECT_THAT(text, HasSubstr("\"0.weight\" has shape [5, 3], the module has [4, 3]"));
  EXPECT_THAT(text, HasSubstr("\"3.bias\" is missing"));
  EXPECT_THAT(text, HasSubstr("\"2.bias\" is not a tensor"));
  EXPECT_THAT(text, HasSubstr("\"extra\" is unexpected"));
  for (const auto& entry : before.toGenericDict()) {
    EXPECT_TRUE(entry.value().toTensor().equal(module_state(*net).toGenericDict().at(entry.key()).toTensor()));
  }
  EXPECT_THAT(message([&] { load_module_state(*net, 3); }), HasSubstr("expected a dictionary, got Int"));
}

TEST_F(StateDict, LoadModuleCopiesIntoTheTensorsOfTheModule) {
  auto net = model(), other = model();
  const Tensor weight = net->parameters()[0];
  const void* storage = weight.data_ptr();
  load_module_state(*net, module_state(*other));
  EXPECT_TRUE(weight.equal(other->parameters()[0]));
  EXPECT_EQ(net->parameters()[0].data_ptr(), storage);
  EXPECT_TRUE(net->parameters()[0].requires_grad());
}

TEST_F(StateDict, LoadOptimizerRefusesWhatDoesNotFitAndChangesNothing) {
  auto net = model();
  AdamW optimizer(net->parameters(), AdamWOptions(0.01));
  train(net, optimizer, inputs(), targets(), 2);
  const IValue own = clone_tensors(optimizer_state(optimizer));
  const auto refused = [&](const IValue& state) { return message([&] { load_optimizer_state(optimizer, state); }); };
  const auto without_name = [](const IValue& state) {
    GenericDict copy = clone_tensors(state).toGenericDict();
    (void)copy.erase("optimizer");
    return copy;
  };

  Adam adam(net->parameters(), AdamOptions(0.5));
  EXPECT_THAT(refused(optimizer_state(adam)), HasSubstr("AdamW: it belongs to optimizer Adam"));
  EXPECT_THAT(refused(without_name(optimizer_state(adam))), HasSubstr("param_groups[0] belongs to Adam"));
  SGD sgd(net->parameters(), SGDOptions(0.5).momentum(0.9));
  train(net, sgd, inputs(), targets(), 1);
  const std::string from_sgd = refused(without_name(optimizer_state(sgd)));
  EXPECT_THAT(from_sgd, HasSubstr("param_groups[0] lacks \"betas\""));
  EXPECT_THAT(from_sgd, HasSubstr("state[0] lacks \"exp_avg\""));
  EXPECT_THAT(from_sgd, HasSubstr("state[0] has unexpected \"momentum_buffer\""));

  auto wide = model(5);
  AdamW other(wide->parameters(), AdamWOptions(0.5));
  train(wide, other, inputs(), targets(), 1);
  EXPECT_THAT(refused(optimizer_state(other)),
              HasSubstr("state[0][\"exp_avg\"] has shape [5, 3], the parameter has [4, 3]"));
  AdamW fewer({net->parameters()[0]}, AdamWOptions(0.5));
  EXPECT_THAT(refused(optimizer_state(fewer)), HasSubstr("param_groups[0] has 1 parameters, the optimizer has 6"));
  fewer.add_param_group(OptimizerParamGroup({net->parameters()[1]}));
  EXPECT_THAT(refused(optimizer_state(fewer)), HasSubstr("it has 2 parameter groups, the optimizer has 1"));

  GenericDict ascending = clone_tensors(own).toGenericDict();
  ascending.at("param_groups").toList().get(0).toGenericDict().insert_or_assign("maximize", true);
  EXPECT_THAT(refused(ascending), HasSubstr("maximize"));
  EXPECT_THAT(refused(1), HasSubstr("expected a dictionary"));

  EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.01);
  EXPECT_EQ(to_bytes(optimizer_state(optimizer)), to_bytes(own));

  torch::optim::LBFGS lbfgs(net->parameters());
  EXPECT_THAT(message([&] { load_optimizer_state(lbfgs, own); }), HasSubstr("LBFGS: it belongs to optimizer AdamW"));
  torch::optim::LBFGS wide_lbfgs(wide->parameters());
  EXPECT_THAT(message([&] { load_optimizer_state(lbfgs, optimizer_state(wide_lbfgs)); }),
              HasSubstr("parameter 0: the shape differs from [4, 3]"));
}

TEST_F(StateDict, ParametersWithoutSavedStateHaveNoneAfterLoading) {
  auto net = model();
  AdamW fresh(net->parameters()), used(net->parameters());
  train(net, used, inputs(), targets(), 1);
  ASSERT_EQ(used.state().size(), 6U);
  load_optimizer_state(used, optimizer_state(fresh));
  EXPECT_EQ(used.state().size(), 0U);
}

TEST_F(StateDict, LoadedStateHasTypeAndLayoutOfItsParameter) {
  Tensor weight = torch::ones({2, 3, 2, 2}, torch::kDouble).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  Tensor plain = torch::ones({2, 3, 2, 2}).requires_grad_();
  plain.mutable_grad() = torch::arange(24).view({2, 3, 2, 2}) * 1.0;
  AdamW from({plain}), to({weight});
  from.step();
  load_optimizer_state(to, from_bytes(to_bytes(optimizer_state(from))));
  const auto& state = static_cast<const torch::optim::AdamWParamState&>(*to.state().at(weight.unsafeGetTensorImpl()));
  EXPECT_EQ(state.exp_avg().scalar_type(), torch::kDouble);
  EXPECT_EQ(state.exp_avg().strides(), weight.strides());
  EXPECT_EQ(state.step(), 1);
  EXPECT_TRUE(torch::allclose(state.exp_avg().to(torch::kFloat), plain.grad() * 0.1));
}

TEST_F(StateDict, BytesKeepValuesOfAllKinds) {
  GenericDict value(c10::AnyType::get(), c10::AnyType::get());
  value.insert("half", torch::arange(4).to(torch::kHalf));
  value.insert("scalar", torch::tensor(2.5, torch::kDouble));
  value.insert("empty", torch::empty({0, 3}));
  value.insert("flag", true);
  value.insert("none", IValue());
  value.insert(int64_t{7}, c10::ivalue::Tuple::create(1.5, "text"));
  c10::List<int64_t> list({1, 2, 3});
  value.insert("list", list);
  value.insert("undefined", Tensor());
  const auto read = from_bytes(to_bytes(value)).toGenericDict();
  EXPECT_TRUE(read.at("half").toTensor().equal(torch::arange(4).to(torch::kHalf)));
  EXPECT_EQ(read.at("scalar").toTensor().item<double>(), 2.5);
  EXPECT_EQ(read.at("empty").toTensor().sizes(), (std::vector<int64_t>{0, 3}));
  EXPECT_TRUE(read.at("flag").toBool());
  EXPECT_TRUE(read.at("none").isNone());
  EXPECT_EQ(read.at(int64_t{7}).toTupleRef().elements()[1].toStringRef(), "text");
  EXPECT_EQ(read.at("list").toList().get(2).toInt(), 3);
  EXPECT_TRUE(read.at("undefined").isNone());
  EXPECT_THAT(message([] { (void)to_bytes(c10::Device("cpu")); }), HasSubstr("cannot contain a Device"));
}

TEST_F(StateDict, ViewsAreStoredWithTheirOwnElementsAndTiedTensorsOnce) {
  const Tensor flat = torch::arange(100'000).to(torch::kFloat);
  GenericDict views(c10::AnyType::get(), c10::AnyType::get());
  views.insert("a", flat.slice(0, 10, 20));
  views.insert("b", flat.slice(0, 20, 26).view({2, 3}).t());
  std::string bytes = to_bytes(views);
  EXPECT_LT(bytes.size(), 10'000U);
  const auto read = from_bytes(bytes).toGenericDict();
  EXPECT_TRUE(read.at("a").toTensor().equal(flat.slice(0, 10, 20)));
  EXPECT_TRUE(read.at("b").toTensor().equal(flat.slice(0, 20, 26).view({2, 3}).t()));

  GenericDict tied(c10::AnyType::get(), c10::AnyType::get());
  tied.insert("encoder", flat);
  tied.insert("decoder", flat.view({100, 1000}));
  bytes = to_bytes(tied);
  EXPECT_LT(bytes.size(), 410'000U);
  EXPECT_TRUE(from_bytes(bytes).toGenericDict().at("decoder").toTensor().equal(flat.view({100, 1000})));
}

TEST_F(StateDict, RefusesOtherTruncatedAndCorruptFiles) {
  GenericDict value(c10::AnyType::get(), c10::AnyType::get());
  value.insert("weight", torch::ones(50));
  const std::string bytes = to_bytes(value);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string text = message([&] { (void)from_bytes(std::string_view(bytes).substr(0, size)); });
    ASSERT_THAT(text, HasSubstr(size < 4 ? "not a file of torch.save" : "truncated or corrupt")) << size;
  }
  EXPECT_THAT(message([] { (void)from_bytes(""); }), HasSubstr("it is empty"));
  EXPECT_THAT(message([] { (void)from_bytes("{\"json\": 1}"); }), HasSubstr("not a file of torch.save"));
  EXPECT_THAT(message([] { (void)from_bytes("\x80\x02\x8a\x0al\xfc\x9c"); }), HasSubstr("PyTorch 1.6"));
  // One bit of the tensor's contents: 1.0f is 00 00 80 3f.
  std::string flipped = bytes;
  const size_t contents = flipped.find(std::string("\x00\x00\x80\x3f\x00\x00\x80\x3f", 8));
  ASSERT_NE(contents, std::string::npos);
  flipped[contents] ^= 1;
  EXPECT_THAT(message([&] { (void)from_bytes(flipped); }), HasSubstr("truncated or corrupt"));
}

TEST_F(StateDict, ReadsFilesOfLibTorchsPickleSave) {
  GenericDict value(c10::StringType::get(), c10::AnyType::get());
  value.insert("weight", torch::ones({2, 3}));
  value.insert("shape", c10::List<int64_t>({2, 3}));
  const std::vector<char> bytes = torch::pickle_save(value);
  const auto read = from_bytes({bytes.data(), bytes.size()}).toGenericDict();
  EXPECT_TRUE(read.at("weight").toTensor().equal(torch::ones({2, 3})));
  EXPECT_EQ(read.at("shape").toList().get(1).toInt(), 3);
}

c10::Storage zeros(const std::string&, size_t bytes) {
  if (bytes > 1 << 20) throw Exception({ErrorCode::kInvalidArgument, "no such record"});
  return torch::zeros(static_cast<int64_t>(bytes), torch::kByte).storage();
}

TEST_F(StateDict, PickleNamesClassesThatItDoesNotRead) {
  const auto read = [](const std::string& pickle) { return message([&] { (void)read_pickle(pickle, zeros); }); };
  EXPECT_THAT(read("\x80\x02"
                   "cos\nsystem\nX\x02" +
                   std::string(3, '\0') + "ls\x85R."),
              HasSubstr("an object of class os.system"));
  EXPECT_THAT(read("cmodel\nNet\n)\x81."), HasSubstr("an object of class model.Net"));
  EXPECT_THAT(read("cmodel\nNet\n."), HasSubstr("it contains model.Net"));
  EXPECT_THAT(read("}(K\x01K\x02"), HasSubstr("it ends early"));
  EXPECT_THAT(read(std::string(100'000, '(') + "."), HasSubstr("nested too deeply"));
  EXPECT_THAT(read(")" + std::string(100'000, '\x85') + "."), HasSubstr("nested too deeply"));
}

TEST_F(StateDict, PickleOfAnyBytesGivesAValueOrAnError) {
  // (("storage", torch.FloatStorage, "0", "cpu", 6), offset 0, (2, 3), (3, 1), False, None)
  const std::string null(3, '\0');
  const std::string pickle = "\x80\x02}q\x01(X\x01" + null + "wctorch._utils\n_rebuild_tensor_v2\n((X\x07" + null +
                             "storagectorch\nFloatStorage\nX\x01" + null + "0X\x03" + null + "cpuK\x06tQK" +
                             std::string(1, '\0') + "K\x02K\x03\x86K\x03K\x01\x86\x89NtRu.";
  const IValue whole = read_pickle(pickle, zeros);
  ASSERT_TRUE(whole.toGenericDict().at("w").toTensor().equal(torch::zeros({2, 3})));
  size_t values = 0, errors = 0;
  for (size_t i = 0; i < pickle.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = pickle;
      changed[i] = static_cast<char>(byte);
      try {
        const IValue value = read_pickle(changed, zeros);
        if (value.isGenericDict() && value.toGenericDict().contains("w") && value.toGenericDict().at("w").isTensor()) {
          (void)value.toGenericDict().at("w").toTensor().clone();  // Within its storage.
        }
        ++values;
      } catch (const Exception& error) {
        ASSERT_EQ(error.code(), ErrorCode::kInvalidArgument);
        ++errors;
      }
    }
  }
  EXPECT_GT(values, 256U);
  EXPECT_GT(errors, pickle.size() * 100);
}

TEST_F(StateDict, ClonesDoNotChangeWithTheModule) {
  auto net = model();
  const IValue shared = module_state(*net), copy = clone_tensors(shared);
  {
    const at::NoGradGuard no_grad;
    net->parameters()[0].fill_(7);
  }
  EXPECT_EQ(shared.toGenericDict().at("0.weight").toTensor()[0][0].item<double>(), 7);
  EXPECT_NE(copy.toGenericDict().at("0.weight").toTensor()[0][0].item<double>(), 7);
}

TEST_F(StateDict, FailedWriteKeepsTheOldFile) {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "state.pt";
  GenericDict small(c10::AnyType::get(), c10::AnyType::get()), large = small.copy();
  small.insert("epoch", 1);
  large.insert("weight", torch::ones(100'000));
  save_file(path, small);
  EXPECT_EQ(load_file(path).toGenericDict().at("epoch").toInt(), 1);

  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limited = before;
  limited.rlim_cur = 100'000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  std::string text = "accepted";
  ErrorCode code = ErrorCode::kInternal;
  try {
    save_file(path, large);
  } catch (const Exception& error) {
    text = error.what();
    code = error.code();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(code, ErrorCode::kUnavailable);
  EXPECT_THAT(text, HasSubstr(path.string()));
  EXPECT_EQ(load_file(path).toGenericDict().at("epoch").toInt(), 1);
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".partial"));

  EXPECT_EQ(message([&] { save_file(path, c10::Device("cpu")); }).substr(0, 7), "a state");
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".partial"));
  EXPECT_THAT(message([&] { (void)load_file(folder.path() / "absent.pt"); }, ErrorCode::kNotFound),
              HasSubstr("absent.pt"));
  EXPECT_THAT(message([&] { (void)load_file(folder.path()); }), HasSubstr("not a regular file"));
  std::ofstream(folder.path() / "text.pt") << "hello";
  EXPECT_THAT(message([&] { (void)load_file(folder.path() / "text.pt"); }), HasSubstr("text.pt: not a file of"));
}

}  // namespace
}  // namespace volador::train
