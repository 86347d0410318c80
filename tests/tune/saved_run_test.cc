#include "tune/results/saved_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tune/temporary_directory.h"
#include "tune/results/experiment_journal.h"
#include "tune/results/run_comparison.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Trial trial(uint32_t id, double value, TrialStatus status = TrialStatus::kFinished) {
  Trial t;
  t.id = TrialId(id);
  t.index = id % 16;
  t.config = Config{{"lr", 0.1 * (id % 16)}, {"depth", 2}};
  t.status = status;
  t.step = t.step_max = 1;
  t.metrics["accuracy"].add(value, 1);
  t.last_result = {{"accuracy", value}, {"training_iteration", 1.0}};
  return t;
}

const WallTime kNow{std::chrono::seconds(1'700'000'100)};

class SavedRuns : public ::testing::Test {
 protected:
  // A run as left by its program.
  fs::path write_run(const std::string& key, const std::string& state, const std::vector<Trial>& trials,
                     int started_s = 0) {
    const fs::path directory = folder_.path() / key;
    ExperimentState of{
        .name = "digits", .state = state, .metric = "accuracy", .scheduler = "FIFO", .searcher = "random"};
    of.started = WallTime(std::chrono::seconds(1'700'000'000 + started_s));
    of.written = of.started + std::chrono::seconds(90);
    of.trials = trials;
    write_text(directory / "experiment_state.json", to_json(of));
    for (const Trial& one : trials)
      write_text(directory / to_string(one.id) / "result.json",
                 "{\"accuracy\":" + std::to_string(one.last_result.at("accuracy")) + ",\"training_iteration\":1}\n");
    return directory;
  }
  TemporaryDirectory folder_;
};

TEST_F(SavedRuns, AreListedNewestFirstWithTheirBest) {
  write_run("a", "finished", {trial(1, 0.5), trial(2, 0.9), trial(3, 0.1, TrialStatus::kFailed)}, 0);
  write_run("b", "interrupted", {}, 60);
  write_text(folder_.path() / "c" / "experiment_state.json", "{\"version\": 2}");
  write_text(folder_.path() / "other" / "notes.txt", "no run");
  const auto runs = list_runs(folder_.path(), kNow).value();
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0].directory.filename(), "b");
  EXPECT_FALSE(runs[0].best.has_value());
  EXPECT_EQ(runs[1].best, 0.9);
  EXPECT_EQ(runs[1].best_trial, "00000002");
  EXPECT_EQ(runs[1].counts[TrialStatus::kFailed], 1);
  EXPECT_EQ(runs[1].counts.known, 3);
  EXPECT_EQ(runs[2].state, "unreadable");
  EXPECT_THAT(runs[2].problem, HasSubstr("version 2 is not known"));
  EXPECT_EQ(list_runs(folder_.path() / "a", kNow).value().size(), 1U) << "a run itself";
  EXPECT_EQ(list_runs(folder_.path() / "nowhere", kNow).error().code, ErrorCode::kNotFound);
}

TEST_F(SavedRuns, ThatSayRunningAreCrashedWhereNoProgramHoldsTheirJournal) {
  const fs::path directory = write_run("a", "running", {trial(1, 0.5, TrialStatus::kRunning)});
  {
    const auto journal = ExperimentJournal::create(directory, {.name = "digits"}).value();
    EXPECT_TRUE(is_driven(directory));
    EXPECT_EQ(load_run(directory).value().state, "running");
  }
  EXPECT_EQ(load_run(directory).value().state, "crashed");
}

TEST_F(SavedRuns, ThatWereKilledBeforeTheirFirstStateAreListedFromTheJournal) {
  fs::create_directories(folder_.path() / "a");
  (void)ExperimentJournal::create(folder_.path() / "a", {.name = "digits", .metric = "loss"}).value();
  const auto runs = list_runs(folder_.path(), kNow).value();
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].name, "digits");
  EXPECT_EQ(runs[0].state, "crashed");
  const auto run = load_run(folder_.path() / "a");
  EXPECT_EQ(run.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(run.error().message, HasSubstr("volador tune resume"));
}

TEST_F(SavedRuns, DirectoriesThatHoldNoneSayWhatToDo) {
  EXPECT_THAT(load_run(folder_.path() / "nowhere").error().message, HasSubstr("no such directory"));
  fs::create_directories(folder_.path() / "empty");
  const Error error = load_run(folder_.path() / "empty").error();
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("neither experiment_state.json nor journal.vlj"));
}

TEST_F(SavedRuns, TrialsAreFoundByTheStartOfTheirId) {
  const std::vector<Trial> trials{trial(0x3f2a0001, 1), trial(0x3f2b0002, 1), trial(0x80000003, 1)};
  EXPECT_EQ(find_trial(trials, "3f2a").value(), &trials[0]);
  EXPECT_EQ(find_trial(trials, "80000003").value(), &trials[2]);
  const Error several = find_trial(trials, "3f2").error();
  EXPECT_EQ(several.code, ErrorCode::kNotFound);
  EXPECT_THAT(several.message, HasSubstr("3f2a0001, 3f2b0002"));
  const Error absent = find_trial(trials, "3f2c").error();
  EXPECT_EQ(absent.code, ErrorCode::kNotFound);
  EXPECT_THAT(absent.message, HasSubstr("the nearest: 3f2a0001, 3f2b0002"));
}

TEST_F(SavedRuns, TheLastLineOfAKilledProgramIsLeftOut) {
  const fs::path directory = write_run("a", "running", {trial(1, 0.5), trial(2, 0.6)});
  write_text(directory / "00000001" / "result.json", "{\"accuracy\":0.5,\"training_iteration\":1}\n{\"accuracy\":0.");
  fs::remove(directory / "00000002" / "result.json");
  const auto analysis = load_run(directory).value().analysis;
  EXPECT_EQ(analysis.results().size(), 1U);
  EXPECT_THAT(analysis.as_csv(), HasSubstr("00000001"));
}

TEST_F(SavedRuns, AreExportedAsJsonWithAllResults) {
  const auto analysis = load_run(write_run("a", "finished", {trial(1, 0.5), trial(2, 0.75)})).value().analysis;
  const auto json = nlohmann::json::parse(analysis.as_json());
  EXPECT_EQ(json["api_version"], "v1");
  EXPECT_EQ(json["trials"][1]["trial_id"], "00000002");
  EXPECT_EQ(json["trials"][1]["config"]["depth"], 2);
  ASSERT_EQ(json["trials"][1]["results"].size(), 1U);
  EXPECT_EQ(json["trials"][1]["results"][0]["accuracy"], 0.75);
}

TEST_F(SavedRuns, AreComparedByTheBestOfEach) {
  std::vector<SavedRun> runs;
  runs.push_back(load_run(write_run("a", "finished", {trial(1, 0.5), trial(2, 0.6)})).value());
  runs.push_back(load_run(write_run("b", "finished", {trial(3, 0.8)})).value());
  const auto comparison = compare_runs(runs, {}).value();
  ASSERT_EQ(comparison.rows.size(), 2U);
  EXPECT_EQ(comparison.metric, "accuracy");
  EXPECT_EQ(comparison.rows[0].run, &runs[1]);
  EXPECT_EQ(comparison.rows[0].value, 0.8);
  EXPECT_EQ(comparison.rows[1].best->id, TrialId(2));
  EXPECT_EQ(comparison.rows[1].steps, 2);
  EXPECT_EQ(comparison.rows[1].time, std::chrono::seconds(90));
  EXPECT_THAT(comparison.parameters, ElementsAre("lr"));
  EXPECT_EQ(compare_runs(runs, {.mode = Mode::kMin}).value().rows[0].best->id, TrialId(1));
  const Error error = compare_runs(runs, {.metric = "acuracy"}).error();
  EXPECT_THAT(error.message, HasSubstr("a: metric \"acuracy\" was never reported"));
}

}  // namespace
}  // namespace volador::tune
