// Results of trials and names of runs, with real processes on a private cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <volador/volador.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/temporary_directory.h"

namespace {

namespace fs = std::filesystem;
namespace tune = volador::tune;
using testing::HasSubstr;

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Prints, writes files, and saves when a checkpoint is due.
void speaks(const tune::Config& config) {
  int64_t step = tune::get_checkpoint() ? tune::get_checkpoint()->step() : 0;
  std::printf("at rate %s\n", config["rate"].to_json().c_str());
  std::fflush(stdout);
  while (true) {
    ++step;
    std::fprintf(stderr, "step %lld\n", static_cast<long long>(step));
    std::ofstream(tune::artifacts_directory() / ("step_" + std::to_string(step) + ".txt"))
        << tune::get_context().trial_name;
    tune::report({{"height", config.real("rate") * static_cast<double>(step)}}, [](const fs::path&) {});
  }
}

// Crashes once without a message, after its first checkpoint.
void dies_once(const tune::Config&) {
  int64_t step = tune::get_checkpoint() ? tune::get_checkpoint()->step() : 0;
  while (step < 4) {
    ++step;
    std::ofstream(tune::artifacts_directory() / ("step_" + std::to_string(step))) << getpid();
    if (step == 3 && tune::get_context().attempt == 1) std::raise(SIGKILL);
    tune::report({{"height", step}}, [](const fs::path&) {});
  }
}

// Saves a large unchanged file and a small one. Crashes once, after its second checkpoint.
void carries_weights(const tune::Config&) {
  std::string weights(3 << 20, '\0');  // Incompressible.
  uint64_t state = 1;
  for (char& weight : weights)
    weight = static_cast<char>((state = state * 6364136223846793005ULL + 1442695040888963407ULL) >> 56);
  int64_t step = 0;
  if (const auto checkpoint = tune::get_checkpoint()) {
    step = checkpoint->step();
    if (text_of(checkpoint->path() / "model" / "weights") != weights)
      throw std::runtime_error("other weights came back");
    if (text_of(checkpoint->path() / "step") != std::to_string(step))
      throw std::runtime_error("another step came back");
  }
  while (step < 5) {
    ++step;
    if (step == 3 && tune::get_context().attempt == 1) std::raise(SIGKILL);
    tune::report({{"height", step}}, [&](const fs::path& directory) {
      fs::create_directory(directory / "model");
      std::ofstream(directory / "model" / "weights") << weights;
      std::ofstream(directory / "step") << step;
    });
  }
}

class Trials : public testing::Test {
 protected:
  tune::RunOptions options() const {
    return {.name = "trials",
            .storage_path = folder_.path(),
            .raise_on_failed_trial = false,
            .progress = tune::Progress::kSilent};
  }
  volador::TemporaryDirectory folder_;
};

TEST_F(Trials, WhatTheyPrintAndLeaveComesToTheirFoldersByName) {
  auto asked = options();
  asked.space = {{"rate", tune::grid_search({1.0, 2.0})}};
  asked.stop = tune::max_steps(3);
  asked.log_to_file = true;
  asked.trial_name = "rate{rate}";
  asked.trial_folder = "{rate}_{id}";
  const auto analysis = tune::run<&speaks>(asked);
  ASSERT_EQ(analysis.trials().size(), 2U);
  for (const tune::Trial& trial : analysis.trials()) {
    EXPECT_EQ(trial.status, tune::TrialStatus::kFinished) << trial.error;
    const fs::path folder = analysis.directory() / trial.folder;
    for (int step = 1; step <= 3; ++step)
      EXPECT_EQ(text_of(folder / "artifacts" / ("step_" + std::to_string(step) + ".txt")), trial.name);
    EXPECT_THAT(text_of(folder / "stdout"), HasSubstr("at rate " + trial.config["rate"].to_json()));
    EXPECT_THAT(text_of(folder / "stderr"), HasSubstr("step 1\n"));
  }
}

TEST_F(Trials, ArtifactsOfAProcessThatDiedAreThoseOfItsLastCheckpoint) {
  auto asked = options();
  asked.max_failures = 1;
  asked.retry_backoff = std::chrono::milliseconds(50);
  asked.checkpoint = {.frequency = 2};
  const auto analysis = tune::run<&dies_once>(asked);
  const tune::Trial& trial = analysis.trials()[0];
  EXPECT_EQ(trial.status, tune::TrialStatus::kFinished) << trial.error;
  EXPECT_EQ(trial.failures, 1);
  const fs::path artifacts = analysis.directory() / folder_of(trial) / "artifacts";
  EXPECT_NE(text_of(artifacts / "step_1"), text_of(artifacts / "step_3"));  // From two processes.
  EXPECT_EQ(text_of(artifacts / "step_1"), text_of(artifacts / "step_2"));
  EXPECT_EQ(text_of(artifacts / "step_3"), text_of(artifacts / "step_4"));
}

TEST_F(Trials, AFileOfACheckpointThatStaysAsItIsTravelsOnce) {
  auto asked = options();
  asked.max_failures = 1;
  asked.retry_backoff = std::chrono::milliseconds(50);
  asked.checkpoint = {.frequency = 1, .num_to_keep = 2};
  const auto analysis = tune::run<&carries_weights>(asked);
  const tune::Trial& trial = analysis.trials()[0];
  EXPECT_EQ(trial.status, tune::TrialStatus::kFinished) << trial.error;
  EXPECT_EQ(trial.failures, 1);
  ASSERT_EQ(trial.checkpoints.size(), 2U);
  for (const auto& checkpoint : trial.checkpoints) {
    const fs::path folder = analysis.directory() / checkpoint.location;
    const std::string said = text_of(folder / "checkpoint.json");
    const std::string key = "\"received_bytes\":";
    ASSERT_THAT(said, HasSubstr(key));
    EXPECT_LT(std::stoll(said.substr(said.find(key) + key.size())), 300)
        << "only the small file, also of another process";
  }
  EXPECT_EQ(text_of(analysis.best_checkpoint({.metric = "height", .mode = tune::Mode::kMax}).path() / "step"), "5");
}

TEST_F(Trials, ATunerGoesOnWithItsRunAndIsRestored) {
  auto asked = options();
  asked.space = {{"rate", tune::uniform(1, 2)}};
  asked.metric = "height";
  asked.stop = tune::max_steps(2);
  asked.num_samples = 2;
  auto tuner = tune::Tuner::of<&speaks>(asked);
  EXPECT_THROW((void)tuner.get_results(), volador::Exception);
  const auto first = tuner.fit();
  EXPECT_EQ(first.trials().size(), 2U);
  tuner.options().num_samples = 3;
  EXPECT_EQ(tuner.fit().trials().size(), 3U);
  EXPECT_EQ(tuner.get_results().directory(), first.directory());
  ASSERT_TRUE(tune::Tuner::can_restore(first.directory()));
  asked.num_samples = 4;
  const auto restored = tune::Tuner::restore(first.directory(), tune::with_parameters<&speaks>(), asked).fit();
  ASSERT_EQ(restored.trials().size(), 4U);
  EXPECT_EQ(restored.trials()[0].config, first.trials()[0].config);
}

}  // namespace

int main(int argc, char** argv) {
  auto cluster = volador::init(argc, argv, {.address = "local", .num_cpus = 4});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
