#include "train/optim/optimizers.h"

#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/result.h"

namespace volador::train {
namespace {

using at::Tensor;
using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;
using Tensors = std::vector<Tensor>;

// Two parameters with 10 elements, from formulas that Python repeated for the expected values.
Tensors parameters() {
  Tensor first = torch::empty({2, 3}), second = torch::empty({4});
  for (int i = 0; i < 6; ++i) first.view(-1)[i] = std::sin(1.0 + i);
  for (int i = 0; i < 4; ++i) second[i] = std::cos(static_cast<double>(i));
  return {first.requires_grad_(), second.requires_grad_()};
}

// New gradient tensors: 0.5 parameter + cos(0.7 t + element + index).
void set_gradients(const Tensors& all, int t) {
  for (size_t k = 0; k < all.size(); ++k) {
    Tensor wave = torch::empty({all[k].numel()}, torch::kDouble);
    for (int64_t i = 0; i < all[k].numel(); ++i)
      wave[i] = std::cos(0.7 * t + static_cast<double>(i) + static_cast<double>(k));
    all[k].mutable_grad() =
        (all[k].detach().to(torch::kDouble) * 0.5 + wave.view(all[k].sizes())).to(all[k].scalar_type());
  }
}

void train(Optimizer& optimizer, const Tensors& all, int begin, int end) {
  for (int t = begin; t < end; ++t) {
    set_gradients(all, t);
    optimizer.step();
  }
}

Tensor flat(const Tensors& all) {
  Tensors parts;
  for (const Tensor& one : all) parts.push_back(one.detach().reshape(-1));
  return torch::cat(parts);
}

// Relative to the largest element: those near zero are differences of larger ones, with a rounding that depends on the
// processor.
double relative_error(const Tensor& got, const Tensor& expected) {
  return ((got - expected).abs().max() / expected.abs().max()).item<double>();
}

struct Case {
  const char* name;
  std::function<std::unique_ptr<Optimizer>(Tensors)> make;
  std::vector<float> expected;  // Parameters after 20 steps of PyTorch 2.15 with fused=True, or foreach=True.
};

std::vector<Case> cases() {
  const std::tuple<double, double> faster = {0.8, 0.99};
  return {
      {"SGD",
       [](Tensors p) { return std::make_unique<SGD>(p, SGDOptions(0.05)); },
       {0.426992029F, 0.513144672F, 0.127514496F, -0.375351846F, -0.533121467F, -0.200741664F, 0.567809939F,
        0.368096769F, -0.170042962F, -0.551845908F}},
      {"SGD momentum",
       [](Tensors p) {
         return std::make_unique<SGD>(p, SGDOptions(0.05).momentum(0.9).dampening(0.1).weight_decay(0.01));
       },
       {-0.248402625F, -0.344742477F, -0.124127656F, 0.210609585F, 0.35171327F, 0.169453442F, -0.373928994F,
        -0.252577841F, 0.100992322F, 0.361710519F}},
      {"SGD nesterov",
       [](Tensors p) { return std::make_unique<SGD>(p, SGDOptions(0.05).momentum(0.9).nesterov(true)); },
       {-0.264400899F, -0.383970052F, -0.150518835F, 0.221318603F, 0.389676809F, 0.199767902F, -0.407604307F,
        -0.254533648F, 0.132554084F, 0.397772163F}},
      {"Adam",
       [](Tensors p) { return std::make_unique<Adam>(p, AdamOptions(0.02).weight_decay(0.01)); },
       {0.63138622F, 0.715639532F, 0.200105667F, -0.556396365F, -0.75084877F, -0.309910685F, 0.789150238F, 0.515794933F,
        -0.275417894F, -0.776416957F}},
      {"Adam amsgrad",
       [=](Tensors p) { return std::make_unique<Adam>(p, AdamOptions(0.02).betas(faster).amsgrad(true)); },
       {0.644920886F, 0.713688433F, 0.177651256F, -0.571957231F, -0.751361191F, -0.288962603F, 0.787820339F,
        0.497317523F, -0.290137827F, -0.777104855F}},
      {"AdamW",
       [](Tensors p) { return std::make_unique<AdamW>(p, AdamWOptions(0.02).weight_decay(0.1)); },
       {0.606773078F, 0.688709557F, 0.193234235F, -0.534709334F, -0.722245038F, -0.298954368F, 0.759172559F,
        0.496959269F, -0.264772266F, -0.746748507F}},
      {"Adagrad",
       [](Tensors p) {
         return std::make_unique<Adagrad>(
             p, AdagradOptions(0.1).lr_decay(0.01).weight_decay(0.01).initial_accumulator_value(0.1));
       },
       {0.522426784F, 0.59797287F, 0.22195366F, -0.454801738F, -0.627724349F, -0.304864347F, 0.661609709F, 0.479560286F,
        -0.203779384F, -0.650137007F}},
      {"RMSprop",
       [](Tensors p) { return std::make_unique<RMSprop>(p, RMSpropOptions(0.02).weight_decay(0.01)); },
       {0.249731287F, 0.317531824F, 0.241662711F, -0.203788072F, -0.330503136F, -0.312697828F, 0.357107431F,
        0.424108326F, -0.0382797644F, -0.344883382F}},
      {"RMSprop centered",
       [](Tensors p) { return std::make_unique<RMSprop>(p, RMSpropOptions(0.02).momentum(0.9).centered(true)); },
       {-0.0780713707F, -0.474999636F, -0.552100301F, 0.000899474602F, 0.4333103F, 0.596853971F, -0.508850515F,
        -0.741007328F, -0.165815651F, 0.445676595F}},
      {"Adadelta",
       [](Tensors p) { return std::make_unique<Adadelta>(p, AdadeltaOptions(1).weight_decay(0.01)); },
       {0.814418733F, 0.877764642F, 0.142425284F, -0.731317341F, -0.927305102F, -0.27379179F, 0.966726005F,
        0.522042155F, -0.397837341F, -0.957807899F}},
      {"Adadelta maximize",
       [](Tensors p) {
         return std::make_unique<Adadelta>(p, AdadeltaOptions(0.5).rho(0.8).maximize(true).weight_decay(0.01));
       },
       {0.851937652F, 0.920989037F, 0.140470967F, -0.766639769F, -0.9707883F, -0.28101787F, 1.01238334F, 0.546122789F,
        -0.423191607F, -1.0020771F}},
      {"Adamax",
       [](Tensors p) { return std::make_unique<Adamax>(p, AdamaxOptions(0.02).weight_decay(0.01)); },
       {0.693652391F, 0.783150554F, 0.196368843F, -0.610915363F, -0.824819744F, -0.31365326F, 0.864107966F,
        0.544728041F, -0.306145459F, -0.8528018F}},
      {"NAdam",
       [](Tensors p) { return std::make_unique<NAdam>(p, NAdamOptions(0.02).weight_decay(0.01)); },
       {0.666474044F, 0.725764751F, 0.158042565F, -0.593343616F, -0.766625941F, -0.271011263F, 0.802706778F,
        0.483564794F, -0.303978443F, -0.793275237F}},
      {"NAdam decoupled",
       [](Tensors p) {
         return std::make_unique<NAdam>(
             p, NAdamOptions(0.02).weight_decay(0.1).momentum_decay(0.01).decoupled_weight_decay(true));
       },
       {0.640518427F, 0.697990239F, 0.152478009F, -0.570294857F, -0.737033606F, -0.261215568F, 0.771814525F,
        0.465916723F, -0.292086214F, -0.762600243F}},
      {"RAdam",
       [](Tensors p) { return std::make_unique<RAdam>(p, RAdamOptions(0.02).weight_decay(0.01)); },
       {0.73650676F, 0.860624969F, 0.193816751F, -0.651348531F, -0.897682607F, -0.318472803F, 0.946033239F,
        0.568283975F, -0.33109498F, -0.926944613F}},
      {"RAdam decoupled",
       [](Tensors p) {
         return std::make_unique<RAdam>(p, RAdamOptions(0.02)
                                               .betas(std::make_tuple(0.8, 0.9))
                                               .weight_decay(0.1)
                                               .decoupled_weight_decay(true)
                                               .maximize(true));
       },
       {0.989209354F, 1.00685966F, 0.0995602012F, -0.902184188F, -1.06960106F, -0.260877341F, 1.10495675F, 0.547840178F,
        -0.526736557F, -1.10313809F}},
  };
}

TEST(Optimizers, EqualPyTorchAfterTwentySteps) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Tensors all = parameters();
    const auto optimizer = one.make(all);
    train(*optimizer, all, 0, 20);
    EXPECT_LT(relative_error(flat(all), torch::tensor(one.expected)), 1e-6) << flat(all);
  }
}

thread_local std::vector<std::string> operations;

TEST(Optimizers, RunOneFusedKernelForAllParameters) {
  const auto record = [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
    operations.emplace_back(function.name());
    return nullptr;
  };
  const auto run = [&](Optimizer& optimizer, const Tensors& all) {
    set_gradients(all, 0);
    optimizer.step();  // Creates the state.
    const auto handle =
        at::addThreadLocalCallback(at::RecordFunctionCallback(record).scopes({at::RecordScope::FUNCTION}));
    operations.clear();
    optimizer.step();
    at::removeCallback(handle);
  };
  const Tensors all = parameters();
  SGD sgd(all, SGDOptions(0.1).momentum(0.9));
  run(sgd, all);
  EXPECT_THAT(operations, testing::Contains("aten::_fused_sgd_"));
  EXPECT_LE(operations.size(), 3U);
  Adam adam(all);
  run(adam, all);
  EXPECT_EQ(std::count(operations.begin(), operations.end(), "aten::_fused_adam_"), 1);
  EXPECT_THAT(operations, testing::Not(testing::Contains("aten::sqrt_")));
  AdamW adamw(all);
  run(adamw, all);
  EXPECT_EQ(std::count(operations.begin(), operations.end(), "aten::_fused_adamw_"), 1);
  EXPECT_THAT(operations, testing::Not(testing::Contains("aten::sqrt_")));
  Adagrad adagrad(all);
  run(adagrad, all);
  EXPECT_EQ(std::count(operations.begin(), operations.end(), "aten::_fused_adagrad_"), 1);
  EXPECT_THAT(operations, testing::Not(testing::Contains("aten::sqrt")));
}

TEST(Optimizers, SkipParametersWithoutGradient) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Tensors all = parameters();
    const auto optimizer = one.make(all);
    const Tensor before = all[0].detach().clone();
    for (int t = 0; t < 3; ++t) {
      set_gradients(all, t);
      all[0].mutable_grad().reset();
      optimizer->step();
    }
    EXPECT_TRUE(all[0].equal(before));
    EXPECT_FALSE(all[1].equal(parameters()[1]));
  }
}

// A parameter that joins later has another step than the others.
TEST(Optimizers, StepsOfParametersAreCountedSeparately) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Tensors late = parameters(), alone = parameters();
    const auto optimizer = one.make(late), other = one.make({alone[0]});
    for (int t = 0; t < 6; ++t) {
      set_gradients(late, t);
      set_gradients({alone[0]}, t);
      if (t < 2) late[0].mutable_grad().reset();
      if (t >= 2) other->step();
      optimizer->step();
    }
    EXPECT_TRUE(late[0].equal(alone[0]));
  }
}

TEST(Optimizers, ContinueBitForBitFromAnArchive) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Tensors whole = parameters(), first = parameters();
    const auto uninterrupted = one.make(whole), before = one.make(first);
    train(*uninterrupted, whole, 0, 10);
    train(*before, first, 0, 5);
    std::stringstream stream;
    torch::save(*before, stream);

    Tensors second;
    for (const Tensor& tensor : first) second.push_back(tensor.detach().clone().requires_grad_());
    const auto after = one.make(second);
    torch::load(*after, stream);
    train(*after, second, 5, 10);
    EXPECT_TRUE(flat(second).equal(flat(whole)));
  }
}

TEST(Optimizers, FallBackToLibTorchForComplexParameters) {
  const auto make = [] {
    Tensors all = parameters();
    all.push_back(torch::complex(torch::arange(3) * 1.0, torch::ones(3)).requires_grad_());
    all.push_back(torch::linspace(-1, 1, 5, torch::kDouble).requires_grad_());
    return all;
  };
  const auto train_mixed = [](Optimizer& optimizer, const Tensors& all) {
    for (int t = 0; t < 5; ++t) {
      set_gradients({all[0], all[1], all[3]}, t);
      all[2].mutable_grad() = all[2].detach() * 0.5 + t;
      optimizer.step();
    }
  };
  const Tensors ours = make(), theirs = make();
  AdamW fused(ours, AdamWOptions(0.02));
  torch::optim::AdamW plain(theirs, AdamWOptions(0.02));
  train_mixed(fused, ours);
  train_mixed(plain, theirs);
  EXPECT_EQ(fused.param_groups()[0].params().size(), 4U);
  EXPECT_TRUE(ours[2].equal(theirs[2]));
  for (const size_t i : {0, 1, 3}) EXPECT_LT(relative_error(ours[i].detach(), theirs[i].detach()), 1e-6) << i;
}

TEST(Optimizers, FallBackToLibTorchForSparseGradients) {
  const auto sparse = [](const Tensor& parameter) {
    const Tensor index = torch::tensor({1, 3}).unsqueeze(0);
    return torch::sparse_coo_tensor(index, torch::full({2, 2}, 0.5), parameter.sizes());
  };
  const auto run = [&](Optimizer& optimizer, const Tensors& all) {
    for (int t = 0; t < 4; ++t) {
      set_gradients({all[1]}, t);
      all[0].mutable_grad() = sparse(all[0]);
      optimizer.step();
    }
  };
  const auto make = [] { return Tensors{torch::ones({5, 2}).requires_grad_(), torch::ones({3}).requires_grad_()}; };
  {
    const Tensors ours = make(), theirs = make();
    SGD fused(ours, SGDOptions(0.1));
    torch::optim::SGD plain(theirs, SGDOptions(0.1));
    run(fused, ours);
    run(plain, theirs);
    EXPECT_TRUE(ours[0].equal(theirs[0]));
    EXPECT_NEAR(ours[0][1][0].item<double>(), 0.8, 1e-6);
    EXPECT_TRUE(torch::allclose(ours[1], theirs[1], 1e-6));
  }
  {
    const Tensors ours = make(), theirs = make();
    Adagrad fused(ours, AdagradOptions(0.1));
    torch::optim::Adagrad plain(theirs, AdagradOptions(0.1));
    run(fused, ours);
    run(plain, theirs);
    EXPECT_TRUE(ours[0].equal(theirs[0]));
    EXPECT_TRUE(torch::allclose(ours[1], theirs[1], 1e-6));
  }
  const Tensors all = make();
  RAdam refuses(all);
  all[0].mutable_grad() = sparse(all[0]);
  try {
    refuses.step();
    FAIL() << "a sparse gradient was accepted";
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("RAdam"), testing::HasSubstr("[5, 2]")));
  }
}

// The fused kernels read flat memory.
TEST(Optimizers, GradientsOfAnotherLayoutGiveTheSameResult) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Tensors straight = parameters(), turned = parameters();
    const auto first = one.make(straight), second = one.make(turned);
    for (int t = 0; t < 5; ++t) {
      set_gradients(straight, t);
      set_gradients(turned, t);
      turned[0].mutable_grad() = turned[0].grad().t().contiguous().t();
      ASSERT_FALSE(turned[0].grad().is_contiguous());
      first->step();
      second->step();
    }
    EXPECT_LT(relative_error(flat(turned), flat(straight)), 1e-6);
  }
}

TEST(Optimizers, DenseParametersInAnotherOrderOfDimensionsAreFused) {
  const auto make = [](at::MemoryFormat format) {
    torch::manual_seed(1);
    return torch::randn({2, 3, 4, 4}).contiguous(format).requires_grad_();
  };
  const Tensor plain = make(at::MemoryFormat::Contiguous), last = make(at::MemoryFormat::ChannelsLast);
  AdamW first({plain}, AdamWOptions(0.1)), second({last}, AdamWOptions(0.1));
  for (int t = 0; t < 5; ++t) {
    set_gradients({plain}, t);
    set_gradients({last}, t);
    last.mutable_grad() = last.grad().contiguous(at::MemoryFormat::ChannelsLast);
    first.step();
    second.step();
  }
  EXPECT_LT(relative_error(last.detach().contiguous(), plain.detach()), 1e-6);
}

TEST(Optimizers, GroupsHaveTheirOwnOptions) {
  const Tensors all = parameters(), first = parameters(), second = parameters();
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(Tensors{all[0]}, std::make_unique<NAdamOptions>(NAdamOptions().weight_decay(0.3)));
  groups.emplace_back(Tensors{all[1]});
  NAdam optimizer(groups, NAdamOptions(0.05));
  const auto& own = static_cast<const NAdamOptions&>(optimizer.param_groups()[0].options());
  EXPECT_EQ(own.lr(), 0.05);
  EXPECT_EQ(own.weight_decay(), 0.3);
  optimizer.param_groups()[1].options().set_lr(0.2);
  EXPECT_EQ(optimizer.param_groups()[1].options().get_lr(), 0.2);
  NAdam one({first[0]}, NAdamOptions(0.05).weight_decay(0.3)), other({second[1]}, NAdamOptions(0.2));
  for (int t = 0; t < 4; ++t) {
    for (const Tensors& each : {all, first, second}) set_gradients(each, t);
    optimizer.step();
    one.step();
    other.step();
  }
  EXPECT_TRUE(all[0].equal(first[0]));
  EXPECT_TRUE(all[1].equal(second[1]));
  EXPECT_THROW(
      optimizer.add_param_group(OptimizerParamGroup({torch::ones(2)}, std::make_unique<AdamOptions>(AdamOptions()))),
      Exception);
  EXPECT_EQ(optimizer.param_groups().size(), 2U);
}

TEST(Optimizers, AdagradStepsGroupsThatWereAddedLater) {
  const Tensors all = parameters(), together = parameters();
  Adagrad optimizer({all[0]}, AdagradOptions(0.1).initial_accumulator_value(0.5));
  optimizer.add_param_group(OptimizerParamGroup({all[1]}));
  Adagrad other(together, AdagradOptions(0.1).initial_accumulator_value(0.5));
  train(optimizer, all, 0, 3);
  train(other, together, 0, 3);
  EXPECT_TRUE(flat(all).equal(flat(together)));
}

TEST(Optimizers, StepReturnsTheLossOfTheClosure) {
  const auto check = [](auto&& make) {
    const Tensor weight = torch::ones(2).requires_grad_();
    const auto optimizer = make(weight);
    const at::NoGradGuard no_grad;
    const Tensor loss = optimizer->step([&] {
      optimizer->zero_grad();
      Tensor value = (weight * 3).sum();
      value.backward();
      return value;
    });
    EXPECT_EQ(loss.item<double>(), 6);
    EXPECT_LT(weight.sum().template item<double>(), 2);
  };
  check([](const Tensor& weight) { return std::make_unique<SGD>(Tensors{weight}, SGDOptions(0.1)); });
  check([](const Tensor& weight) { return std::make_unique<Adamax>(Tensors{weight}); });
}

TEST(Optimizers, LoweredTypesAreFusedToo) {
  for (const auto type : {torch::kBFloat16, torch::kHalf, torch::kDouble}) {
    Tensor weight = torch::ones(40, type).requires_grad_();
    weight.mutable_grad() = torch::ones(40, type);
    AdamW optimizer({weight}, AdamWOptions(0.25).weight_decay(0));
    optimizer.step();
    EXPECT_TRUE(torch::allclose(weight.to(torch::kDouble), torch::full(40, 0.75, torch::kDouble), 1e-3)) << type;
  }
}

TEST(Optimizers, RefuseOptionsOutOfRangeByName) {
  const auto message = [](auto make) -> std::string {
    try {
      make();
    } catch (const Exception& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message([] { NAdam(parameters(), NAdamOptions(-1)); }), testing::HasSubstr("NAdam: lr: expected"));
  EXPECT_THAT(message([] { Adadelta(parameters(), AdadeltaOptions().rho(1.5)); }), testing::HasSubstr("rho"));
  EXPECT_THAT(message([] { RAdam(parameters(), RAdamOptions().betas(std::make_tuple(0.9, 1.0))); }),
              testing::HasSubstr("betas"));
  EXPECT_THAT(message([] { Adamax(parameters(), AdamaxOptions().eps(std::numeric_limits<double>::quiet_NaN())); }),
              testing::HasSubstr("eps"));
}

}  // namespace
}  // namespace volador::train
