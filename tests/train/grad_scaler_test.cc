#include "train/optim/grad_scaler.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "runtime/result.h"
#include "train/optim/clip.h"
#include "train/optim/state_dict.h"

namespace volador::train {
namespace {

using at::Tensor;
using testing::HasSubstr;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

Tensor parameter() { return torch::tensor({1.0F, 2.0F}).requires_grad_(); }
Tensor loss_of(const Tensor& weight, double factor = 1) {
  return (weight * torch::tensor({1.0F, 0.5F})).sum() * factor;
}

TEST(GradScaler, FollowsPyTorchThroughInfiniteGradients) {
  struct Row {
    double scale;
    int64_t tracker;
    std::vector<float> weight;
  };
  const std::vector<Row> rows = {
      // torch.amp.GradScaler("cpu", init_scale=1024, growth_interval=3)
      {1024, 1, {0.899999976F, 1.95000005F}}, {1024, 2, {0.799999952F, 1.9000001F}},
      {512, 0, {0.799999952F, 1.9000001F}},   {256, 0, {0.799999952F, 1.9000001F}},
      {256, 1, {0.699999928F, 1.85000014F}},  {256, 2, {0.599999905F, 1.80000019F}},
      {512, 0, {0.499999911F, 1.75000024F}},  {512, 1, {0.399999917F, 1.70000029F}},
      {512, 2, {0.299999923F, 1.65000033F}},
  };
  const Tensor weight = parameter();
  torch::optim::SGD optimizer({weight}, torch::optim::SGDOptions(0.1));
  GradScaler scaler({.init_scale = 1024, .growth_interval = 3});
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool infinite = i == 2 || i == 3;
    optimizer.zero_grad();
    scaler.scale(loss_of(weight, infinite ? kInfinity : 1)).backward();
    EXPECT_EQ(scaler.step(optimizer), !infinite) << i;
    scaler.update();
    EXPECT_EQ(scaler.current_scale(), rows[i].scale) << i;
    EXPECT_EQ(scaler.state().toGenericDict().at("_growth_tracker").toInt(), rows[i].tracker) << i;
    EXPECT_TRUE(torch::allclose(weight, torch::tensor(rows[i].weight), 1e-6, 0)) << i;
    if (i == 4) {  // The state continues in another scaler.
      GradScaler other;
      other.load_state(from_bytes(to_bytes(scaler.state())));
      scaler = other;
    }
  }
}

TEST(GradScaler, UnscaledGradientsAreThoseOfTheLoss) {
  const Tensor weight = parameter();
  torch::optim::SGD optimizer({weight}, torch::optim::SGDOptions(1));
  GradScaler scaler;
  scaler.scale(loss_of(weight)).backward();
  EXPECT_EQ(weight.grad()[1].item<float>(), 32768);
  scaler.unscale_(optimizer);
  EXPECT_TRUE(weight.grad().equal(torch::tensor({1.0F, 0.5F})));
  clip_grad_value_({weight}, 0.25);
  EXPECT_TRUE(scaler.step(optimizer));  // Does not unscale again.
  EXPECT_TRUE(weight.equal(torch::tensor({0.75F, 1.75F})));
}

TEST(GradScaler, NanInOneOfTwoOptimizersSkipsOnlyItsStepAndLowersTheScale) {
  const Tensor good = parameter(), bad = parameter();
  torch::optim::SGD first({good}, torch::optim::SGDOptions(1)), second({bad}, torch::optim::SGDOptions(1));
  GradScaler scaler({.init_scale = 8});
  (scaler.scale(loss_of(good)) + scaler.scale(loss_of(bad))).backward();
  bad.mutable_grad()[1] = std::nan("");
  EXPECT_TRUE(scaler.step(first));
  EXPECT_FALSE(scaler.step(second));
  scaler.update();
  EXPECT_EQ(scaler.current_scale(), 4);
  EXPECT_TRUE(bad.equal(parameter()));
}

TEST(GradScaler, RefusesCallsOutOfOrder) {
  const Tensor weight = parameter();
  torch::optim::SGD optimizer({weight}, torch::optim::SGDOptions(1));
  GradScaler scaler;
  EXPECT_THAT(message([&] { scaler.unscale_(optimizer); }), HasSubstr("call scale(loss).backward()"));
  EXPECT_THAT(message([&] { scaler.step(optimizer); }), HasSubstr("call scale(loss).backward()"));
  const Tensor loss = scaler.scale(loss_of(weight));
  EXPECT_THAT(message([&] { scaler.update(); }), HasSubstr("call step(optimizer)"));
  GradScaler idle;
  (void)idle.scale(loss);
  EXPECT_THAT(message([&] { idle.step(optimizer); }), HasSubstr("no parameter of the optimizer has a gradient"));
  loss.backward();
  scaler.unscale_(optimizer);
  EXPECT_THAT(message([&] { scaler.unscale_(optimizer); }), HasSubstr("called twice"));
  EXPECT_TRUE(scaler.step(optimizer));
  EXPECT_THAT(message([&] { scaler.step(optimizer); }), HasSubstr("called twice"));
  EXPECT_THAT(message([&] { scaler.unscale_(optimizer); }), HasSubstr("after step()"));
  scaler.update();
  EXPECT_TRUE(scaler.step(optimizer));
}

TEST(GradScaler, RefusesHalfGradientsOptionsAndStates) {
  const Tensor half = torch::ones(2, torch::kHalf).requires_grad_();
  half.mutable_grad() = torch::ones(2, torch::kHalf);
  torch::optim::SGD optimizer({half}, torch::optim::SGDOptions(1));
  GradScaler scaler;
  (void)scaler.scale(torch::ones({}));
  EXPECT_THAT(message([&] { scaler.step(optimizer); }), HasSubstr("float16"));
  EXPECT_THAT(message([] { GradScaler({.growth_factor = 1}); }), HasSubstr("growth_factor: expected a number above 1"));
  EXPECT_THAT(message([] { GradScaler({.backoff_factor = 1}); }), HasSubstr("backoff_factor"));
  EXPECT_THAT(message([] { GradScaler({.growth_interval = 0}); }), HasSubstr("growth_interval"));
  EXPECT_THAT(message([] { GradScaler({.init_scale = 0}); }), HasSubstr("init_scale"));
  EXPECT_THAT(message([&] { scaler.load_state(GradScaler({.enabled = false}).state()); }), HasSubstr("is empty"));
  auto state = scaler.state().toGenericDict().copy();
  (void)state.erase("growth_factor");
  state.insert_or_assign("scale", 2.0);
  EXPECT_THAT(message([&] { scaler.load_state(state); }), HasSubstr("\"growth_factor\" is missing"));
  EXPECT_EQ(scaler.current_scale(), 65536);
}

TEST(GradScaler, DisabledPassesEverythingOn) {
  const Tensor weight = parameter();
  torch::optim::SGD optimizer({weight}, torch::optim::SGDOptions(1));
  GradScaler scaler({.enabled = false});
  const Tensor loss = loss_of(weight, kInfinity);
  EXPECT_TRUE(scaler.scale(loss).is_same(loss));
  loss.backward();
  scaler.unscale_(optimizer);
  EXPECT_TRUE(scaler.step(optimizer));
  scaler.update();
  EXPECT_EQ(scaler.current_scale(), 1);
  EXPECT_EQ(weight[0].item<double>(), -kInfinity);
}

TEST(AutocastGuard, LowersMatrixProductsAndRestoresTheStateBefore) {
  const Tensor a = torch::ones({2, 2});
  ASSERT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  const auto type_before = at::autocast::get_autocast_dtype(at::kCPU);
  {
    const AutocastGuard outer(at::kCPU);
    EXPECT_EQ(torch::mm(a, a).scalar_type(), at::kBFloat16);
    {
      const AutocastGuard inner(at::kCPU, at::kHalf);
      EXPECT_EQ(torch::mm(a, a).scalar_type(), at::kHalf);
      const AutocastGuard off(at::kCPU, at::kHalf, false);
      EXPECT_EQ(torch::mm(a, a).scalar_type(), at::kFloat);
    }
    EXPECT_EQ(torch::mm(a, a).scalar_type(), at::kBFloat16);
  }
  EXPECT_EQ(torch::mm(a, a).scalar_type(), at::kFloat);
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), type_before);
  EXPECT_THAT(message([] { AutocastGuard(at::kCPU, at::kInt); }), HasSubstr("kBFloat16 or kHalf"));
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

// A stale cast of the parameter would make the second pass use its old values.
TEST(AutocastGuard, OutermostGuardFreesCachedCasts) {
  const Tensor weight = torch::ones({2, 2}).requires_grad_();
  const Tensor x = torch::ones({2, 2});
  const auto forward = [&] {
    const AutocastGuard guard(at::kCPU);
    return torch::mm(x, weight).detach().to(torch::kFloat)[0][0].item<double>();
  };
  EXPECT_EQ(forward(), 2);
  {
    const at::NoGradGuard no_grad;
    weight.fill_(3);
  }
  EXPECT_EQ(forward(), 6);
}

// Gradients of 3 sin(1 + i) and cos(i).
std::vector<Tensor> with_gradients() {
  std::vector<Tensor> all = {torch::zeros({2, 3}).requires_grad_(), torch::zeros(4).requires_grad_(), torch::zeros(1)};
  all[0].mutable_grad() = (torch::sin(torch::arange(6) + 1) * 3).view({2, 3});
  all[1].mutable_grad() = torch::cos(torch::arange(4));
  return all;  // The last one has no gradient.
}
Tensor gradients(const std::vector<Tensor>& all) { return torch::cat({all[0].grad().view(-1), all[1].grad()}); }

TEST(ClipGradNorm, EqualsPyTorch) {
  struct Row {
    double max_norm, norm_type, norm;
    std::vector<float> expected;
  };
  const std::vector<Row> rows = {
      {1,
       2,
       5.52916908F,
       {0.456562698F, 0.493363768F, 0.0765684545F, -0.41062355F, -0.520290196F, -0.151604399F, 0.18085897F,
        0.0977185145F, -0.0752638876F, -0.17904903F}},
      {1,
       1,
       14.6075335F,
       {0.1728158F, 0.186745554F, 0.0289823022F, -0.155427143F, -0.196937606F, -0.0573845245F, 0.0684578195F,
        0.0369879156F, -0.0284885056F, -0.0677727312F}},
      {0.5,
       kInfinity,
       2.87677288F,
       {0.438757598F, 0.474123478F, 0.0735824257F, -0.394609988F, -0.499999821F, -0.145692095F, 0.173805803F,
        0.0939076692F, -0.0723287389F, -0.172066435F}},
      {2,
       3,
       4.21270895F,
       {1.19847465F, 1.2950772F, 0.200991765F, -1.07788455F, -1.3657589F, -0.397960693F, 0.474753797F, 0.256510556F,
        -0.197567299F, -0.470002711F}},
  };
  for (const Row& row : rows) {
    const auto all = with_gradients();
    EXPECT_NEAR(clip_grad_norm_(all, row.max_norm, row.norm_type), row.norm, row.norm * 1e-6);
    EXPECT_TRUE(torch::allclose(gradients(all), torch::tensor(row.expected), 1e-6, 1e-8)) << row.norm_type;
  }
}

TEST(ClipGradNorm, LeavesSmallGradientsAsTheyAre) {
  const auto all = with_gradients();
  EXPECT_NEAR(clip_grad_norm_(all, 100), 5.529169, 1e-5);
  EXPECT_TRUE(gradients(all).equal(gradients(with_gradients())));
  EXPECT_EQ(clip_grad_norm_({torch::zeros(3)}, 1), 0);
  EXPECT_EQ(clip_grad_norm_({}, 1), 0);
}

TEST(ClipGradNorm, CountsGradientsOfSeveralTypes) {
  std::vector<Tensor> all = {torch::zeros(1).requires_grad_(), torch::zeros(1, torch::kDouble).requires_grad_()};
  all[0].mutable_grad() = torch::full(1, 3.0F);
  all[1].mutable_grad() = torch::full(1, 4.0, torch::kDouble);
  EXPECT_NEAR(clip_grad_norm_(all, 1), 5, 1e-6);
  EXPECT_NEAR(all[0].grad().item<double>(), 0.6, 1e-6);
  EXPECT_NEAR(all[1].grad().item<double>(), 0.8, 1e-6);
}

TEST(ClipGradNorm, NonFiniteNormRaisesOnRequestOnly) {
  auto all = with_gradients();
  all[1].mutable_grad()[2] = kInfinity;
  const Tensor before = gradients(all).clone();
  EXPECT_THAT(message([&] { clip_grad_norm_(all, 1, 2, /*error_if_nonfinite=*/true); }), HasSubstr("is inf"));
  EXPECT_TRUE(gradients(all).equal(before));
  EXPECT_EQ(clip_grad_norm_(all, 1), kInfinity);
  EXPECT_EQ(all[0].grad()[0][0].item<double>(), 0);
  EXPECT_TRUE(std::isnan(all[1].grad()[2].item<double>()));
  EXPECT_THAT(message([&] { clip_grad_norm_(all, -1); }), HasSubstr("max_norm: expected a number of at least 0"));
}

TEST(ClipGradValue, EqualsPyTorch) {
  const auto all = with_gradients();
  clip_grad_value_(all, 0.6);
  EXPECT_TRUE(torch::allclose(
      gradients(all),
      torch::tensor({0.6F, 0.6F, 0.42335999F, -0.6F, -0.6F, -0.6F, 0.6F, 0.540302277F, -0.416146845F, -0.6F}), 1e-6,
      0));
  EXPECT_THAT(message([&] { clip_grad_value_(all, -1); }), HasSubstr("clip_value"));
}

}  // namespace
}  // namespace volador::train
