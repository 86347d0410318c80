#include "tune/results/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/files/directory_archive.h"
#include "temporary_directory.h"
#include "tests/tune/odd_values.h"
#include "tune/results/experiment_resume.h"
#include "tune/results/result_logger.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Trial trial(uint32_t id, std::vector<double> values, TrialStatus status = TrialStatus::kFinished) {
  Trial t;
  t.id = TrialId(id);
  t.index = id - 1;
  t.config = Config{{"lr", 0.1 * id}, {"model", {{"width", static_cast<int64_t>(id)}}}};
  t.status = status;
  for (const double value : values) {
    t.step = ++t.step_max;
    t.metrics["accuracy"].add(value, t.step);
    t.metrics["loss"].add(-value, t.step);
    t.last_result = {{"accuracy", value}, {"loss", -value}, {"training_iteration", static_cast<double>(t.step)}};
  }
  return t;
}

class AnalysisTest : public ::testing::Test {
 protected:
  Analysis analysis(std::vector<Trial> trials, std::string metric = "accuracy", Mode mode = Mode::kMax) {
    ExperimentState state;
    state.name = "digits";
    state.state = "finished";
    state.metric = std::move(metric);
    state.mode = mode;
    state.trials = std::move(trials);
    return Analysis(std::move(state), directory_.path());
  }
  static Error error_of(const std::function<void()>& code) {
    try {
      code();
    } catch (const Exception& exception) {
      return exception.error();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
  }
  TemporaryDirectory directory_;
};

TEST_F(AnalysisTest, RanksByTheLastTheBestOrTheMeanValue) {
  const auto a = analysis({trial(1, {0.9, 0.1}), trial(2, {0.4, 0.5}), trial(3, {0.6, 0.45})});
  EXPECT_EQ(a.best_trial().id, TrialId(2));
  EXPECT_EQ(a.best_config().integer("model.width"), 2);
  EXPECT_EQ(a.best_trial({.scope = Scope::kAll}).id, TrialId(1));
  EXPECT_EQ(a.best_trial({.scope = Scope::kAverage}).id, TrialId(3));
  EXPECT_EQ(a.best_trial({.metric = "loss", .mode = Mode::kMin}).id, TrialId(2));
  EXPECT_EQ(a.best_trial({.mode = Mode::kMin}).id, TrialId(1));
}

TEST_F(AnalysisTest, NanRanksLast) {
  const auto a = analysis({trial(1, {kNan}), trial(2, {0.1}), trial(3, {0.9, kNan})});
  EXPECT_EQ(a.best_trial().id, TrialId(2));
  EXPECT_EQ(a.ranking({}).size(), 3U);
  const Error error = error_of([&] { (void)analysis({trial(1, {kNan})}).best_trial(); });
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("NaN"));
}

TEST_F(AnalysisTest, AMetricThatWasNeverReportedNamesThoseThatWere) {
  const Error error = error_of([&] { (void)analysis({trial(1, {0.5})}).best_trial({.metric = "acuracy"}); });
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.message,
            "metric \"acuracy\" was never reported; trials report: accuracy, loss, training_iteration. Did you mean "
            "\"accuracy\"?");
  EXPECT_THAT(error_of([&] { (void)analysis({trial(1, {0.5})}, "").best_trial(); }).message, HasSubstr("no metric"));
}

TEST_F(AnalysisTest, ErrorsAreThoseOfTrialsThatFailedForGood) {
  auto failed = trial(2, {0.5}, TrialStatus::kFailed);
  failed.error = "signal 11";
  const auto a = analysis({trial(1, {0.5}), failed});
  ASSERT_EQ(a.errors().size(), 1U);
  EXPECT_EQ(a.errors()[0].message, "signal 11");
}

TEST_F(AnalysisTest, TheBestCheckpointUnpacksToADirectory) {
  write_text(directory_.path() / "source" / "model", "weights");
  const fs::path stored = directory_.path() / "00000002" / "checkpoint_000001";
  fs::create_directories(stored);
  ASSERT_TRUE(pack_directory(directory_.path() / "source", stored / "archive.vla"));
  auto second = trial(2, {0.5});
  second.checkpoints.push_back({.step = 1, .attempt = 1, .location = "00000002/checkpoint_000001"});
  const auto a = analysis({trial(1, {0.9}), second});
  const auto checkpoint = a.best_checkpoint();  // The best trial has none.
  EXPECT_EQ(checkpoint.step(), 1);
  EXPECT_EQ(read_text(checkpoint.path() / "model"), "weights");
  EXPECT_EQ(checkpoint.path(), checkpoint.path());
  EXPECT_EQ(error_of([&] { (void)analysis({trial(1, {0.9})}).best_checkpoint(); }).code, ErrorCode::kNotFound);
}

TEST_F(AnalysisTest, ResultsAndCsvHoldEveryReport) {
  write_text(directory_.path() / "00000001" / "result.json",
             "{\"accuracy\":0.5,\"training_iteration\":1,\"date\":\"x\"}\n"
             "{\"accuracy\":null,\"training_iteration\":2,\"extra\":7}\n");
  const auto a = analysis({trial(1, {0.5, kNan}), trial(2, {})});
  const auto rows = a.results();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].result.at("accuracy"), 0.5);
  EXPECT_TRUE(std::isnan(rows[1].result.at("accuracy")));
  a.to_csv(directory_.path() / "all.csv");
  EXPECT_EQ(read_text(directory_.path() / "all.csv"),
            "trial_id,config/lr,config/model.width,accuracy,training_iteration,extra\n"
            "00000001,0.1,1,0.5,1,\n"
            "00000001,0.1,1,nan,2,7\n");
}

TEST_F(AnalysisTest, InfinitiesAreExportedAsSuch) {
  ResultLogger logger({.directory = directory_.path(), .tensorboard = false});
  const double infinity = std::numeric_limits<double>::infinity();
  int64_t step = 0;
  logger.start_trial(TrialId(1), {}, {}, "00000001");
  for (const double value : {0.5, infinity, -infinity, kNan}) {
    ResultRow row;
    row.trial = TrialId(1);
    row.metrics = {{"accuracy", value}};
    row.step = ++step;
    row.hostname = "inf";  // A machine may have this name.
    logger.log(std::move(row));
  }
  ASSERT_FALSE(logger.flush().error);
  const auto a = analysis({trial(1, {0.5, infinity, -infinity, kNan})});
  std::vector<std::string> column;
  std::istringstream csv(a.as_csv());
  for (std::string line; std::getline(csv, line);)
    column.push_back(line.substr(0, line.find(',', line.find(",1,") + 3)));
  EXPECT_THAT(column, ::testing::ElementsAre(::testing::_, "00000001,0.1,1,0.5", "00000001,0.1,1,inf",
                                             "00000001,0.1,1,-inf", "00000001,0.1,1,nan"));
  const auto results = nlohmann::json::parse(a.as_json())["trials"][0]["results"];
  EXPECT_EQ(results[1]["accuracy"], "inf") << "as in experiment_state.json";
  EXPECT_EQ(results[2]["accuracy"], "-inf");
  EXPECT_FALSE(results[0].contains("hostname"));
}

TEST_F(AnalysisTest, TheStateComesBackFromItsFile) {
  auto first = trial(1, {0.25, kNan}, TrialStatus::kFailed);
  first.error = "quote \" and\nline";
  first.resources.set("cpus", 2 * kUnit);
  first.resources.set("gpus", kUnit / 4);
  first.checkpoints.push_back({.step = 1, .attempt = 2, .location = "00000001/checkpoint_000001", .score = kNan});
  const auto a = analysis({first, trial(2, {std::numeric_limits<double>::infinity(), 0.5})});
  write_text(directory_.path() / "experiment_state.json", to_json(a.state()));
  const auto b = Analysis::load(directory_.path());
  ASSERT_EQ(b.trials().size(), 2U);
  EXPECT_EQ(b.trials()[0].config, first.config);
  EXPECT_EQ(b.trials()[0].last_result, first.last_result);
  EXPECT_EQ(b.trials()[0].checkpoints, first.checkpoints);
  EXPECT_EQ(b.trials()[0].resources, first.resources);
  EXPECT_TRUE(b.trials()[1].resources.empty());
  EXPECT_EQ(b.trials()[0].metrics.at("accuracy").max, 0.25);
  EXPECT_EQ(b.errors()[0].message, first.error);
  EXPECT_EQ(b.best_trial().id, TrialId(2));
  EXPECT_EQ(to_json(b.state()), to_json(a.state()));
}

TEST_F(AnalysisTest, TheStateSaysWhatWasSearchedAndWhenTrialsStop) {
  ExperimentState state = analysis({trial(1, {0.5})}).state();
  state.space = space_text({{"lr", loguniform(1e-4, 0.1)}, {"act", choice({"relu", "tanh"})}});
  state.stop = stop_texts(Stop{{"accuracy", 0.995}});
  const auto read = experiment_state_from_json(to_json(state));
  ASSERT_TRUE(read);
  EXPECT_THAT(read->space, AllOf(HasSubstr("lr loguniform(0.0001, 0.1)\n"), HasSubstr("act[1] \"tanh\"\n")));
  EXPECT_EQ(read->stop, std::vector<std::string>{"accuracy 0.995"});
  // A state file of an earlier Volador has neither.
  auto before = nlohmann::ordered_json::parse(to_json(state));
  before.erase("space");
  before.erase("stop");
  const auto old = experiment_state_from_json(before.dump());
  ASSERT_TRUE(old);
  EXPECT_EQ(old->space, "");
  EXPECT_TRUE(old->stop.empty());
}

TEST_F(AnalysisTest, ADamagedStateIsAnErrorThatNamesTheField) {
  EXPECT_FALSE(experiment_state_from_json("{"));
  EXPECT_FALSE(experiment_state_from_json("[]"));
  const std::string whole = to_json(analysis({trial(1, {0.5})}).state());
  EXPECT_TRUE(experiment_state_from_json(whole));
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    return experiment_state_from_json(text);
  };
  EXPECT_THAT(replaced("\"version\": 1", "\"version\": 2").error().message, HasSubstr("version 2"));
  EXPECT_THAT(replaced("\"status\": \"finished\"", "\"status\": \"odd\"").error().message, HasSubstr("status"));
  EXPECT_THAT(replaced("\"attempt\"", "\"attemp\"").error().message, HasSubstr("attempt"));
}

}  // namespace
}  // namespace volador::tune
