// Reading a run's directory while it grows.
#include "tune/results/run_reader.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "tests/tune/temporary_directory.h"
#include "tune/results/experiment_journal.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class RunReaderTest : public ::testing::Test {
 protected:
  static Trial at_step(uint32_t id, int64_t step, TrialStatus status) {
    Trial trial;
    trial.id = TrialId(id);
    trial.index = id;
    trial.config = Config{{"lr", 0.1}};
    trial.status = status;
    trial.step = trial.step_max = step;
    trial.last_result = {{"accuracy", 0.1 * static_cast<double>(step)},
                         {"training_iteration", static_cast<double>(step)}};
    return trial;
  }
  void write_state(const std::string& state, const std::vector<Trial>& trials) {
    ExperimentState of{
        .name = "digits", .state = state, .metric = "accuracy", .scheduler = "FIFO", .searcher = "random"};
    of.started = WallTime(std::chrono::seconds(1'700'000'000));
    of.written = of.started + std::chrono::seconds(++writes_);
    of.trials = trials;
    write_text(directory_ / "experiment_state.json", to_json(of));
  }
  fs::path results_of(uint32_t id) const { return directory_ / to_string(TrialId(id)) / "result.json"; }
  void append(uint32_t id, const std::string& text) {
    fs::create_directories(results_of(id).parent_path());
    std::ofstream(results_of(id), std::ios::binary | std::ios::app) << text;
  }
  static std::string line(int64_t step) {
    return "{\"accuracy\":" + std::to_string(0.1 * static_cast<double>(step)) +
           ",\"training_iteration\":" + std::to_string(step) + ",\"date\":\"x\"}\n";
  }
  RunReader::News look() {
    auto news = reader_.look();
    EXPECT_TRUE(news.has_value()) << (news ? "" : news.error().message);
    return news && *news ? std::move(**news) : RunReader::News{};
  }
  bool silent() {
    const auto news = reader_.look();
    return news && !*news;
  }

  TemporaryDirectory folder_;
  const fs::path directory_ = folder_.path() / "digits_2026-11-21_10-02-11";
  FakeClock clock_;
  RunReader reader_{directory_, clock_};
  int writes_ = 0;
};

TEST_F(RunReaderTest, ARunIsToldOnceAndThenWhatIsAdded) {
  EXPECT_EQ(reader_.look().error().code, ErrorCode::kNotFound);
  write_state("finished", {at_step(1, 2, TrialStatus::kFinished), at_step(2, 1, TrialStatus::kStopped)});
  append(1, line(1) + line(2));
  append(2, line(1));
  const auto first = look();
  EXPECT_EQ(first.report.experiment, "digits_2026-11-21_10-02-11");
  EXPECT_EQ(first.report.state, "finished");
  EXPECT_EQ(first.report.trials_total, 2);
  ASSERT_EQ(first.report.trials.size(), 2U);
  EXPECT_EQ(first.report.trials[0].points.size(), 2U);
  EXPECT_EQ(first.report.trials[0].points[1].metrics.at("accuracy"), 0.2);
  EXPECT_EQ(first.report.trials[1].status, "stopped");
  EXPECT_FALSE(first.more);
  EXPECT_TRUE(silent());

  write_state("finished", {at_step(1, 2, TrialStatus::kFinished), at_step(2, 2, TrialStatus::kFinished)});
  append(2, line(2));
  const auto next = look();
  ASSERT_EQ(next.report.trials.size(), 1U);
  EXPECT_EQ(next.report.trials[0].trial_id, "00000002");
  EXPECT_EQ(next.report.trials[0].points.size(), 1U);
  EXPECT_TRUE(silent());
}

TEST_F(RunReaderTest, TrialsHaveTheirNamesAndANewTagIsTold) {
  Trial trial = at_step(1, 2, TrialStatus::kFinished);
  trial.name = "lr=0.1";
  write_state("finished", {trial});
  const auto first = look();
  ASSERT_EQ(first.report.trials.size(), 1U);
  EXPECT_EQ(first.report.trials[0].name, "lr=0.1");
  EXPECT_TRUE(first.report.trials[0].tags.empty());
  EXPECT_TRUE(silent());
  trial.tags = {"keep"};
  write_state("finished", {trial});
  const auto next = look();
  ASSERT_EQ(next.report.trials.size(), 1U);
  EXPECT_EQ(next.report.trials[0].tags, std::vector<std::string>{"keep"});
  EXPECT_TRUE(silent());
}

TEST_F(RunReaderTest, ResultsAreAheadOfTheStateAndALineInTheMakingWaits) {
  const auto journal = [&] {
    fs::create_directories(directory_);
    return ExperimentJournal::create(directory_, {.name = "digits"}).value();
  }();
  write_state("running", {at_step(1, 1, TrialStatus::kRunning)});
  append(1, line(1) + line(2) + "{\"accuracy\":0.3,\"train");
  auto news = look();
  EXPECT_EQ(news.report.state, "running");
  ASSERT_EQ(news.report.trials.size(), 1U);
  EXPECT_EQ(news.report.trials[0].step, 2);
  EXPECT_EQ(news.report.trials[0].metrics.at("accuracy"), 0.2);
  EXPECT_EQ(news.report.trials[0].points.size(), 2U);
  EXPECT_TRUE(silent());
  append(1, "ing_iteration\":3}\nno json\n{\"accuracy\":null,\"training_iteration\":4}\n");
  news = look();
  ASSERT_EQ(news.report.trials.size(), 1U);
  ASSERT_EQ(news.report.trials[0].points.size(), 2U);
  EXPECT_EQ(news.report.trials[0].points[0].step, 3);
  EXPECT_TRUE(std::isnan(news.report.trials[0].points[1].metrics.at("accuracy")));
}

TEST_F(RunReaderTest, AProgramThatDiesLeavesACrashedRun) {
  fs::create_directories(directory_);
  auto journal = ExperimentJournal::create(directory_, {.name = "digits"}).value();
  write_state("running", {at_step(1, 1, TrialStatus::kRunning)});
  EXPECT_EQ(look().report.state, "running");
  EXPECT_TRUE(silent());
  journal.reset();
  EXPECT_EQ(look().report.state, "crashed");
}

TEST_F(RunReaderTest, ResultsThatWereTakenBackAreToldAfresh) {
  write_state("finished", {at_step(1, 3, TrialStatus::kFinished)});
  append(1, line(1) + line(2) + line(3));
  look();
  fs::remove(results_of(1));
  append(1, line(1));
  write_state("finished", {at_step(1, 1, TrialStatus::kFinished)});
  auto news = look();
  EXPECT_TRUE(news.afresh);
  EXPECT_TRUE(news.more);
  EXPECT_TRUE(news.report.trials.empty());
  news = look();
  EXPECT_FALSE(news.afresh);
  ASSERT_EQ(news.report.trials.size(), 1U);
  EXPECT_EQ(news.report.trials[0].points.size(), 1U);
}

TEST_F(RunReaderTest, ALookIsBoundedAndNothingIsLost) {
  std::string text;
  for (int64_t step = 1; step <= 15'000; ++step) text += line(step);
  write_state("finished", {at_step(1, 15'000, TrialStatus::kFinished), at_step(2, 15'000, TrialStatus::kFinished)});
  append(1, text);
  append(2, text);
  size_t points = 0, looks = 0;
  for (bool more = true; more && looks < 10; ++looks) {
    const auto news = look();
    size_t once = 0;
    for (const TrialReport& row : news.report.trials) once += row.points.size();
    EXPECT_LE(once, RunReader::kPointsMax);
    points += once;
    more = news.more;
  }
  EXPECT_EQ(points, 30'000U);
  EXPECT_LE(looks, 3U);
  EXPECT_TRUE(silent());
}

}  // namespace
}  // namespace volador::tune
