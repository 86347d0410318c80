// States of training runs in files and in the object store.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <train/train.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <string>

#include "runtime/storage/storage_url.h"
#include "tests/temporary_directory.h"

namespace {

using testing::HasSubstr;
using train::Config;

// The state is larger than a message between actors can be (64 MiB).
class Wide : public train::TrainingOperator {
 public:
  void setup(const Config&) override {
    register_all(torch::nn::Linear(8, 2'200'000), train::sgd({.lr = 0.1}), train::mse_loss());
    register_data(
        {.train = train::tensor_dataset({torch::ones({12, 8}), torch::zeros({12, 2'200'000})}), .batch_size = 2});
  }
};
VOLADOR_TRAINING_OPERATOR(Wide);

// Each rank has the optimizer's state of its own share of the parameters.
class Divided : public train::TrainingOperator {
 public:
  void setup(const Config&) override {
    torch::manual_seed(3);
    register_all(torch::nn::Sequential(torch::nn::Linear(6, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1)),
                 train::adamw({.lr = 0.01, .weight_decay = 0.01}), train::mse_loss(), {.shard = true});
    const torch::Tensor x = torch::randn({120, 6});
    register_data({.train = train::tensor_dataset({x, x.sum(1, true)}), .batch_size = 12});
  }
};
VOLADOR_TRAINING_OPERATOR(Divided);

torch::Tensor bias_of(const c10::IValue& state) {
  return state.toGenericDict().at("models_state_dict").toList().get(0).toGenericDict().at("bias").toTensor();
}
int64_t step_of(const c10::IValue& state) {
  return state.toGenericDict().at("volador").toGenericDict().at("step").toInt();
}

class TrainerState : public testing::Test {
 protected:
  std::string file(const char* name) const { return folder_.path() / name; }
  train::TrainerOptions options_ = {.num_workers = 2, .seed = 7, .report = false, .storage = "none"};
  volador::TemporaryDirectory folder_;
};

TEST_F(TrainerState, IsSavedAndLoadedAlthoughItIsLarge) {
  train::TorchTrainer<Wide> trainer(options_);
  trainer.train({.num_steps = 2});
  trainer.save(file("wide.pt"));
  const c10::IValue saved = train::load_file(file("wide.pt"));
  EXPECT_EQ(step_of(saved), 2);

  train::TorchTrainer<Wide> other(options_);
  other.load(file("wide.pt"));
  EXPECT_EQ(other.step(), 2);
  EXPECT_TRUE(torch::equal(bias_of(train::from_bytes(other.state())), bias_of(saved)));
}

// VOLADOR_TEST_STORAGE: the address of an empty place; default: a folder.
TEST_F(TrainerState, IsSavedToAStorageAndLoadedFromIt) {
  const char* named = std::getenv("VOLADOR_TEST_STORAGE");
  const auto url = volador::storage::parse_storage_url(named != nullptr ? named : "file://" + file("store"));
  ASSERT_TRUE(url) << url.error().message;
  const std::string scheme = url->kind == volador::storage::StorageKind::kFolder ? "file://" : "";
  const auto at = [&](const char* name) { return scheme + url->below(name).text(); };
  train::TorchTrainer<Wide> trainer(options_);
  trainer.train({.num_steps = 1});
  trainer.save(at("wide.pt"));
  trainer.train({.num_steps = 1});
  trainer.save_async(at("second.pt")).get();
  const torch::Tensor now = bias_of(train::from_bytes(trainer.state())).clone();
  train::TorchTrainer<Wide> other(options_);
  other.load(at("second.pt"));
  EXPECT_EQ(other.step(), 2);
  EXPECT_TRUE(torch::equal(bias_of(train::from_bytes(other.state())), now));
  other.load(at("wide.pt"));
  EXPECT_EQ(other.step(), 1);
  try {
    other.load(at("third.pt"));
    FAIL();
  } catch (const volador::Exception& exception) {
    EXPECT_EQ(exception.error().code, volador::ErrorCode::kNotFound) << exception.what();
    EXPECT_THAT(exception.what(), HasSubstr("third.pt"));
  }
}

TEST_F(TrainerState, NeedsTheNameOfAnObjectInAnAddress) {
  train::TorchTrainer<Divided> trainer(options_);
  try {
    trainer.load("s3://models");
    FAIL();
  } catch (const volador::Exception& exception) {
    EXPECT_THAT(exception.what(), HasSubstr("s3://models: expected the name of a file behind the bucket"));
  }
}

TEST_F(TrainerState, OfAMomentIsWrittenWhileTrainingGoesOn) {
  train::TorchTrainer<Wide> trainer(options_);
  trainer.train({.num_steps = 1});
  const torch::Tensor before = bias_of(train::from_bytes(trainer.state())).clone();
  std::future<void> first = trainer.save_async(file("first.pt"));
  trainer.train({.num_steps = 1});
  std::future<void> second = trainer.save_async(file("second.pt"));
  trainer.train({.num_steps = 1});
  first.get();
  second.get();
  const c10::IValue saved = train::load_file(file("first.pt"));
  EXPECT_EQ(step_of(saved), 1);
  EXPECT_TRUE(torch::equal(bias_of(saved), before));
  EXPECT_EQ(step_of(train::load_file(file("second.pt"))), 2);
}

TEST_F(TrainerState, OfAKilledWorkerIsWrittenOrIsAnErrorOfTheFuture) {
  train::TorchTrainer<Wide> trainer(options_);
  trainer.train({.num_steps = 1});
  const std::string before = trainer.state();
  std::future<void> written = trainer.save_async(file("killed.pt"));
  for (const int pid : trainer.worker_pids()) ::kill(pid, SIGKILL);
  trainer.train({.num_steps = 1});
  EXPECT_GE(trainer.step(), 1);
  try {
    written.get();
    const c10::IValue saved = train::load_file(file("killed.pt"));
    EXPECT_EQ(step_of(saved), 1);
    EXPECT_TRUE(torch::equal(bias_of(saved), bias_of(train::from_bytes(before))));
  } catch (const volador::Exception&) {
    EXPECT_FALSE(std::filesystem::exists(file("killed.pt")));
  }
}

TEST_F(TrainerState, IsCompleteInItsFileWhenTheTrainerHasEnded) {
  {
    train::TorchTrainer<Wide> trainer(options_);
    trainer.train({.num_steps = 1});
    trainer.save_async(file("last.pt"));
  }
  EXPECT_EQ(step_of(train::load_file(file("last.pt"))), 1);
}

TEST_F(TrainerState, ThatCannotBeWrittenIsAnErrorOfTheFuture) {
  train::TorchTrainer<Wide> trainer(options_);
  std::future<void> written = trainer.save_async(file("no_such_folder/wide.pt"));
  try {
    written.get();
    ADD_FAILURE() << "no exception";
  } catch (const volador::Exception& exception) {
    EXPECT_THAT(exception.error().message, HasSubstr("no_such_folder"));
  }
  trainer.train({.num_steps = 1});
}

TEST_F(TrainerState, OfAShardedOptimizerSurvivesTheLossOfAShare) {
  options_.copy_every_steps = 4;
  std::string undisturbed;
  {
    train::TorchTrainer<Divided> trainer(options_);
    for (int epoch = 0; epoch < 4; ++epoch) trainer.train();
    undisturbed = trainer.state();
  }
  train::TorchTrainer<Divided> trainer(options_);
  for (int epoch = 0; epoch < 4; ++epoch) {
    if (epoch > 0) ::kill(trainer.worker_pids().at(static_cast<size_t>(epoch % 2)), SIGKILL);
    trainer.train();
  }
  EXPECT_EQ(trainer.failures(), 3);
  EXPECT_EQ(trainer.step(), 40);
  EXPECT_EQ(trainer.state(), undisturbed);
}

TEST_F(TrainerState, OfAShardedOptimizerNeedsCopies) {
  options_.copy_state = false;
  train::TorchTrainer<Divided> trainer(options_);
  try {
    trainer.train();
    ADD_FAILURE() << "no exception";
  } catch (const volador::Exception& exception) {
    EXPECT_THAT(exception.error().message, HasSubstr(".copy_state = true"));
  }
}

TEST_F(TrainerState, OfADamagedFileIsRefusedWithItsName) {
  std::ofstream(file("damaged.pt")) << "PK, but no archive";
  train::TorchTrainer<Wide> trainer(options_);
  try {
    trainer.load(file("damaged.pt"));
    ADD_FAILURE() << "no exception";
  } catch (const volador::Exception& exception) {
    EXPECT_EQ(exception.code(), volador::ErrorCode::kInvalidArgument);
    EXPECT_THAT(exception.error().message, HasSubstr("damaged.pt"));
  }
}

}  // namespace
