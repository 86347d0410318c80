#include "train/trial/script_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/result.h"
#include "tests/train/refusals.h"
#include "train/operator/rank_loop.h"
#include "train/optim/state_dict.h"
#include "train/trial/torch_trial.h"

namespace volador::train {
namespace {

torch::Tensor script_numbers(std::vector<int64_t> sizes, uint64_t seed) {
  return torch::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed)).mul_(0.5);
}

torch::jit::Module linear_script(int64_t inputs, int64_t outputs, uint64_t seed) {
  torch::jit::Module script(fmt::format("Linear{}x{}", inputs, outputs));
  script.register_parameter("weight", script_numbers({outputs, inputs}, seed).requires_grad_(), false);
  script.register_parameter("bias", script_numbers({outputs}, seed + 1).requires_grad_(), false);
  script.define("def forward(self, x):\n  return torch.linear(x, self.weight, self.bias)\n");
  return script;
}

// Two layers with dropout, as torch.jit.script makes them, and a buffer that counts forward passes.
torch::jit::Module net_script() {
  torch::jit::Module script("Net");
  script.register_attribute("training", c10::BoolType::get(), true);
  script.register_module("first", linear_script(6, 8, 1));
  script.register_module("second", linear_script(8, 1, 3));
  script.register_buffer("passes", torch::zeros({}, torch::kLong));
  script.define(R"(
def forward(self, x):
  self.passes.add_(1)
  x = torch.tanh(self.first.forward(x))
  return self.second.forward(torch.dropout(x, 0.5, self.training))
)");
  return script;
}

DatasetPtr script_points() {
  const torch::Tensor x = script_numbers({60, 6}, 9);
  return tensor_dataset({x, x.sum(1, true)});
}

TEST(ScriptModel, HasTheTensorsOfTheScriptUnderTheirNames) {
  ScriptModel model(net_script());
  std::vector<std::string> parameters;
  for (const auto& item : model->named_parameters()) parameters.push_back(item.key());
  EXPECT_THAT(parameters, testing::ElementsAre("first.weight", "first.bias", "second.weight", "second.bias"));
  EXPECT_EQ(model->named_buffers().keys(), std::vector<std::string>{"passes"});

  const torch::Tensor x = torch::ones({2, 6});
  model->eval();
  const torch::Tensor before = model->forward(x);
  {
    const torch::NoGradGuard no_grad;
    model->named_parameters()["second.bias"].add_(1);
  }
  EXPECT_TRUE(model->forward(x).allclose(before + 1));
  EXPECT_EQ(model->named_buffers()["passes"].item<int64_t>(), 2);
  model->forward(x).sum().backward();
  EXPECT_TRUE(model->named_parameters()["first.weight"].grad().defined());
}

TEST(ScriptModel, ChangesTypeWithItsScript) {
  ScriptModel model(net_script());
  model->to(torch::kDouble);
  model->eval();
  EXPECT_EQ(model->forward(torch::ones({2, 6}, torch::kDouble)).scalar_type(), torch::kDouble);
}

TEST(ScriptModel, ModeReachesTheScript) {
  ScriptModel model(net_script());
  const torch::Tensor x = torch::ones({64, 6});
  EXPECT_TRUE(model->is_training());
  EXPECT_FALSE(model->forward(x).equal(model->forward(x)));
  model->eval();
  EXPECT_TRUE(model->forward(x).equal(model->forward(x)));
  EXPECT_FALSE(model->script().is_training());
  model->train();
  EXPECT_TRUE(model->script().is_training());
}

TEST(ScriptModel, StateOfThePythonModelFits) {
  ScriptModel one(net_script()), other(net_script());
  {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : one->parameters()) parameter.fill_(0.25);
  }
  load_module_state(*other, from_bytes(to_bytes(module_state(*one))));
  other->eval();
  one->eval();
  const torch::Tensor x = script_numbers({3, 6}, 5);
  EXPECT_TRUE(one->forward(x).equal(other->forward(x)));
}

TEST(ScriptModel, ParameterWithTwoNamesIsTrainedOnce) {
  torch::jit::Module script("Tied");
  const torch::jit::Module layer = linear_script(4, 4, 1);
  script.register_module("inner", layer);
  script.register_module("out", layer);
  script.define("def forward(self, x):\n  return self.out.forward(self.inner.forward(x))\n");
  ScriptModel model(script);
  EXPECT_EQ(model->parameters().size(), 2u);
  EXPECT_THAT(model->named_buffers().keys(), testing::ElementsAre("out.weight", "out.bias"));
  EXPECT_EQ(module_state(*model).toGenericDict().size(), 4u);
}

// Trains a script, or the same layers in C++.
class ScriptTrial : public TorchTrial {
 public:
  explicit ScriptTrial(TorchTrialContext& context) : context_(context) {
    if (context.get_hparam("script").boolean()) {
      script_ = context.wrap_model(net_script());
      optimizer_ = context.wrap_optimizer(script_, adam({.lr = 0.01}));
    } else {
      torch::nn::Linear first(6, 8), second(8, 1);
      layers_ = context.wrap_model(torch::nn::Sequential(first, torch::nn::Tanh(), torch::nn::Dropout(0.5), second));
      load_module_state(*first, module_state(*ScriptModel(linear_script(6, 8, 1))));
      load_module_state(*second, module_state(*ScriptModel(linear_script(8, 1, 3))));
      optimizer_ = context.wrap_optimizer(layers_, adam({.lr = 0.01}));
    }
  }
  TrainingDataLoader build_training_data_loader() override { return {.dataset = script_points(), .batch_size = 10}; }
  ValidationDataLoader build_validation_data_loader() override { return {.dataset = script_points()}; }
  Metrics train_batch(const Batch& batch, int64_t, int64_t) override {
    const torch::Tensor loss = mse_loss()(output_of(batch), batch.target());
    context_.backward(loss);
    context_.step_optimizer(optimizer_);
    return {{"train_loss", loss.item<double>()}};
  }
  Metrics evaluate_batch(const Batch& batch) override {
    return {{"val_loss", mse_loss()(output_of(batch), batch.target()).item<double>()}};
  }

 private:
  torch::Tensor output_of(const Batch& batch) {
    return script_.is_empty() ? layers_->forward(batch.features()) : script_->forward(batch.features());
  }
  TorchTrialContext& context_;
  ScriptModel script_{nullptr};
  torch::nn::Sequential layers_{nullptr};
  OptimizerPtr optimizer_;
};
VOLADOR_TORCH_TRIAL(ScriptTrial);

std::unique_ptr<RankLoop> script_loop(bool script) {
  torch::set_num_threads(1);
  auto loop = std::make_unique<RankLoop>(RankOptions{.operator_name = OperatorEntry<ScriptTrial>::name, .seed = 2},
                                         Config{{"script", script}});
  loop->form(single_rank_group());
  return loop;
}
double loss_of(RankLoop& loop, const SegmentRequest& request) {
  return loop.run(request).metrics.means(false).at(request.is_training ? "train_loss" : "val_loss");
}

TEST(ScriptModel, TrainsAsTheSameLayersInCpp) {
  const auto script = script_loop(true), layers = script_loop(false);
  const double first = loss_of(*script, {.is_training = false});
  for (int64_t epoch = 0; epoch < 10; ++epoch) {
    EXPECT_NEAR(loss_of(*script, {.epoch = epoch}), loss_of(*layers, {.epoch = epoch}), 1e-5) << epoch;
  }
  const double last = loss_of(*script, {.is_training = false});
  EXPECT_NEAR(last, loss_of(*layers, {.is_training = false}), 1e-5);
  EXPECT_LT(last, 0.7 * first);
}

TEST(ScriptModel, ResumesBitForBit) {
  const auto whole = script_loop(true), first = script_loop(true), second = script_loop(true);
  loss_of(*whole, {.epoch = 0, .until_step = 5});
  loss_of(*whole, {.epoch = 0});
  loss_of(*whole, {.epoch = 1, .until_step = 10});
  loss_of(*first, {.epoch = 0, .until_step = 5});
  second->load(from_bytes(to_bytes(first->state())));
  loss_of(*second, {.epoch = 0});
  loss_of(*second, {.epoch = 1, .until_step = 10});
  EXPECT_TRUE(to_bytes(second->state()) == to_bytes(whole->state()));
}

// The default train_batch() with a script of two inputs.
class ScriptOperator : public TrainingOperator {
  void setup(const Config&) override {
    torch::jit::Module script("TwoInputs");
    script.register_parameter("scale", torch::ones({}).requires_grad_(), false);
    script.define("def forward(self, a, b, sign: float = 1.0):\n  return sign * self.scale * (a + 2 * b)\n");
    register_all(ScriptModel(script), sgd({.lr = 0.01}), mse_loss());
    const torch::Tensor ones = torch::ones({4, 1});
    register_data({.train = tensor_dataset({ones, ones, 3 * ones}), .batch_size = 4});
  }
};
VOLADOR_TRAINING_OPERATOR(ScriptOperator);

TEST(ScriptModel, DefaultTrainBatchGivesTheInputsThatForwardNeeds) {
  RankLoop loop(RankOptions{.operator_name = OperatorEntry<ScriptOperator>::name}, Config::map());
  loop.form(single_rank_group());
  EXPECT_EQ(loss_of(loop, {.epoch = 0}), 0);
}

class ScriptFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path file(const std::string& name) const { return folder_ / name; }
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("volador_script_model_{}", ::getpid());
};

TEST_F(ScriptFile, HoldsTheTrainedModel) {
  ScriptModel model(net_script());
  {
    const torch::NoGradGuard no_grad;
    model->named_parameters()["second.bias"].fill_(7);
  }
  model->eval();
  model->save_script(file("model.pt"));
  ScriptModel loaded = load_script_model(file("model.pt"));
  EXPECT_FALSE(loaded->is_training());
  const torch::Tensor x = script_numbers({3, 6}, 5);
  EXPECT_TRUE(loaded->forward(x).equal(model->forward(x)));
  EXPECT_EQ(loaded->parameters().size(), 4u);
}

TEST_F(ScriptFile, OfAnotherKindIsRefusedWithTheNextStep) {
  const auto says = [](const char* text) {
    return testing::Throws<Exception>(testing::Property(&Exception::what, testing::HasSubstr(text)));
  };
  EXPECT_EQ(error_of([&] { load_script_model(file("none.pt")); }).code, ErrorCode::kNotFound);
  std::ofstream(file("text.pt")) << "text";
  EXPECT_THAT([&] { load_script_model(file("text.pt")); }, says("save the model by torch.jit.script(model).save(…)"));
  save_file(file("state.pt"), module_state(*ScriptModel(net_script())));
  EXPECT_THAT([&] { load_script_model(file("state.pt")); }, says("which has tensors without a program"));
}

TEST(ScriptModel, ScriptWithoutParametersIsRefused) {
  torch::jit::Module script("Constant");
  script.define("def forward(self, x):\n  return x + 1, x\n");
  EXPECT_EQ(error_of([&] { ScriptModel model(script); }).code, ErrorCode::kInvalidArgument);
  script.register_parameter("unused", torch::ones({1}), false);
  ScriptModel model(script);
  EXPECT_THAT(error_of([&] { model->forward(torch::ones({1})); }).message, testing::HasSubstr("call run()"));
  EXPECT_EQ(model->run({torch::ones({1})}).toTuple()->elements().size(), 2u);
}

}  // namespace
}  // namespace volador::train
