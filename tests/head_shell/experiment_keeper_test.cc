#include "head/shell/experiment_keeper.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/temporary_directory.h"

namespace volador::head {
namespace {

const DriverId kDriver{{1}};

class ExperimentKeeperTest : public ::testing::Test {
 protected:
  std::unique_ptr<ExperimentKeeper> open() {
    auto opened = ExperimentKeeper::open(options_, clock_);
    EXPECT_TRUE(opened.has_value());
    return std::move(*opened);
  }
  ExperimentNews news(const std::string& experiment, const std::string& state, int trials, int64_t step = 1) {
    protocol::ExperimentUpdate update;
    update.set_experiment(experiment);
    update.set_state(state);
    for (int trial = 0; trial < trials; ++trial) {
      protocol::TrialRow& row = *update.add_trials();
      row.set_trial_id("t" + std::to_string(trial));
      row.set_status("running");
      row.set_step(step);
      row.add_points()->set_step(step);
    }
    return {.experiment = experiment,
            .driver = kDriver,
            .machine_id = "m",
            .update = update.SerializeAsString(),
            .open = state == "running"};
  }
  void keep(const std::vector<ExperimentNews>& all) {
    auto keeper = open();
    keeper->start([](const ExperimentKeeper::Kept&) { return true; });
    for (const ExperimentNews& one : all) keeper->keep(one);
    keeper->stop();
  }
  // Names of the ended experiments that are restored.
  std::vector<std::string> ended(std::vector<ExperimentHistory>* histories = nullptr) {
    std::vector<std::string> names;
    auto keeper = open();
    keeper->start([&](const ExperimentKeeper::Kept& kept) {
      names.push_back(kept.history.name());
      if (histories != nullptr) histories->push_back(kept.history);
      return true;
    });
    keeper->stop();
    return names;
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::directory_iterator(options_.directory)) all.push_back(entry.path());
    return all;
  }
  // Simulates that it was written long ago.
  void age(const std::string& experiment, int hours) {
    for (const auto& file : files()) {
      std::ifstream in(file, std::ios::binary);
      const std::string bytes(std::istreambuf_iterator<char>(in), {});
      if (bytes.find(experiment) != std::string::npos)
        std::filesystem::last_write_time(file,
                                         std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours));
    }
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
  ExperimentKeeperOptions options_{.directory = std::filesystem::path(directory_.path()) / "experiments"};
};

TEST_F(ExperimentKeeperTest, WhatRanAndWhatHadEndedComeBack) {
  keep({news("runs", "running", 2), news("ended", "running", 3), news("runs", "running", 2, 2),
        news("ended", "finished", 3, 2)});
  auto keeper = open();
  const auto ran = keeper->read_open();
  ASSERT_EQ(ran.size(), 1u);
  EXPECT_EQ(ran[0].history.name(), "runs");
  EXPECT_EQ(ran[0].history.trials().at("t1").points.size(), 2u);
  EXPECT_EQ(ran[0].history.driver(), kDriver);
  keeper.reset();
  std::vector<ExperimentHistory> histories;
  EXPECT_EQ(ended(&histories), std::vector<std::string>{"ended"});
  EXPECT_EQ(histories[0].head().state(), "finished");
  EXPECT_EQ(histories[0].trials().size(), 3u);
  EXPECT_EQ(histories[0].trials().at("t2").last_step, 2);
}

TEST_F(ExperimentKeeperTest, SaysWhatIsOnTheDisk) {
  std::map<std::string, uint64_t> written;
  auto keeper = open();
  keeper->start(nullptr, [&](DriverId driver, const std::string& experiment, uint64_t number) {
    EXPECT_EQ(driver, kDriver);
    EXPECT_GT(number, written[experiment]);
    written[experiment] = number;
  });
  for (uint64_t number = 1; number <= 5; ++number) {
    for (const char* name : {"a", "b"}) {
      ExperimentNews one = news(name, "running", 1, static_cast<int64_t>(number));
      one.number = number;
      keeper->keep(std::move(one));
    }
  }
  keeper->keep(news("unnumbered", "running", 1));
  keeper->stop();
  EXPECT_EQ(written, (std::map<std::string, uint64_t>{{"a", 5}, {"b", 5}}));
}

TEST_F(ExperimentKeeperTest, ATornEndIsLeftOutAndWrittenOver) {
  keep({news("runs", "running", 1, 1)});
  const auto file = files().at(0);
  const auto whole = std::filesystem::file_size(file);
  keep({news("runs", "running", 1, 2)});
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 3);
  auto keeper = open();
  auto ran = keeper->read_open();
  ASSERT_EQ(ran.size(), 1u);
  EXPECT_EQ(ran[0].history.trials().at("t0").last_step, 1);
  keeper->start([](const auto&) { return true; });
  keeper->keep(news("runs", "running", 1, 3));
  keeper->stop();
  EXPECT_GT(std::filesystem::file_size(file), whole);
  ran = open()->read_open();
  EXPECT_EQ(ran.at(0).history.trials().at("t0").points.size(), 2u);
  EXPECT_EQ(ran.at(0).history.trials().at("t0").last_step, 3);
}

TEST_F(ExperimentKeeperTest, FilesOfOtherThingsAndHalvesAreNoExperiments) {
  keep({news("ended", "finished", 1)});
  const auto file = files().at(0);
  std::ofstream(options_.directory / "README.ended") << "x";
  std::ofstream(options_.directory / (std::string(32, 'a') + ".half")) << "x";
  std::ofstream(options_.directory / (std::string(32, 'b') + ".ended")) << "not of ours";
  std::ofstream(options_.directory / (std::string(32, 'c') + ".open"));
  EXPECT_TRUE(open()->read_open().empty());
  EXPECT_EQ(ended(), std::vector<std::string>{"ended"});
  EXPECT_FALSE(std::filesystem::exists(options_.directory / (std::string(32, 'a') + ".half")));
}

TEST_F(ExperimentKeeperTest, ALongFileIsSummedUp) {
  options_.summary_bytes = 4'000;
  auto keeper = open();
  keeper->start(nullptr);
  for (int64_t step = 1; step <= 500; ++step) keeper->keep(news("runs", "running", 4, step));
  keeper->stop();
  keeper.reset();
  const auto unsummed = std::filesystem::file_size(files().at(0));
  options_.limits.trial_points = 20;
  keep({news("runs", "running", 4, 501)});
  const auto summed = std::filesystem::file_size(files().at(0));
  EXPECT_LT(summed, unsummed / 5);
  const auto ran = open()->read_open();
  ASSERT_EQ(ran.size(), 1u);
  EXPECT_EQ(ran[0].history.trials().at("t3").last_step, 501);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(ExperimentKeeperTest, TheOldestMakeRoomThoseThatEndedFirst) {
  keep({news("runs", "running", 1), news("first", "finished", 1), news("second", "finished", 1),
        news("third", "failed", 1)});
  age("runs", 9), age("first", 7), age("third", 5), age("second", 3);
  options_.files_max = 3;
  EXPECT_EQ(ended(), (std::vector<std::string>{"third", "second"}));
  options_.restored_max = 2;
  EXPECT_EQ(ended(), std::vector<std::string>{"second"}) << "with the one that runs";
  options_.restored_max = 100;
  uint64_t bytes = 0;
  for (const auto& file : files()) bytes += std::filesystem::file_size(file);
  options_.bytes_max = bytes - 1;
  EXPECT_EQ(ended(), std::vector<std::string>{"second"});
  options_.bytes_max = 1;
  EXPECT_TRUE(ended().empty());
  EXPECT_TRUE(files().empty());
}

TEST_F(ExperimentKeeperTest, ALaterRunOpensItAgain) {
  keep({news("digits", "finished", 3)});
  ExperimentNews later = news("digits", "running", 1);
  later.driver = DriverId{{2}};
  keep({later});
  EXPECT_EQ(files().size(), 1u);
  const auto ran = open()->read_open();
  ASSERT_EQ(ran.size(), 1u);
  EXPECT_EQ(ran[0].history.driver(), (DriverId{{2}}));
  EXPECT_EQ(ran[0].history.trials().size(), 1u);
}

TEST_F(ExperimentKeeperTest, WhatComesTooFastIsNotKeptAndNobodyWaits) {
  options_.queue_bytes_max = 1'000;
  auto keeper = open();
  for (int64_t step = 1; step <= 100; ++step) keeper->keep(news("runs", "running", 1, step));
  keeper->start(nullptr);
  keeper->stop();
  const auto ran = open()->read_open();
  ASSERT_EQ(ran.size(), 1u);
  EXPECT_GE(ran[0].history.trials().at("t0").points.size(), 1u);
  EXPECT_LT(ran[0].history.trials().at("t0").points.size(), 100u);
}

TEST_F(ExperimentKeeperTest, AFullDiskIsSaidAndTheRunGoesOn) {
  auto keeper = open();
  keeper->start(nullptr);
  std::filesystem::remove_all(options_.directory);
  std::ofstream(options_.directory) << "in the way";
  keeper->keep(news("runs", "running", 1));
  keeper->stop();
  std::filesystem::remove(options_.directory);
  EXPECT_TRUE(open()->read_open().empty());
}

}  // namespace
}  // namespace volador::head
