#include "train/report/run_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "runtime/actor/session.h"
#include "runtime/random.h"
#include "tests/tune/temporary_directory.h"
#include "tune/execution/experiment_request.h"
#include "tune/results/experiment_journal.h"
#include "tune/results/saved_run.h"

namespace volador::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<json> lines_of(const fs::path& path) {
  std::istringstream in(tune::read_text(path));
  std::vector<json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

// Records reports and passes on requests. Can be held up like a session whose reports block, or fail.
class RecordingSession final : public Session {
 public:
  void report(const ExperimentReport& report) override {
    std::unique_lock<std::mutex> hold(mutex_);
    ++entered_;
    changed_.notify_all();
    changed_.wait(hold, [this] { return !held_up_; });
    if (fails_) throw std::runtime_error("the head is away");
    reports_.push_back(report);
  }
  void on_request(const std::string& experiment, std::function<void(const ExperimentRequest&)> function) override {
    const std::lock_guard<std::mutex> hold(mutex_);
    receivers_[experiment] = std::move(function);
  }
  void ask(const std::string& experiment, const ExperimentRequest& request) { receivers_.at(experiment)(request); }
  bool listens(const std::string& experiment) const { return receivers_.at(experiment) != nullptr; }
  void fail() { fails_ = true; }
  void hold_up(bool held_up) {
    const std::lock_guard<std::mutex> hold(mutex_);
    held_up_ = held_up;
    changed_.notify_all();
  }
  void await_report() {
    std::unique_lock<std::mutex> hold(mutex_);
    changed_.wait(hold, [this] { return entered_ > 0; });
  }
  std::vector<ExperimentReport> reports() const {
    const std::lock_guard<std::mutex> hold(mutex_);
    return reports_;
  }
  // The last row reported under this name.
  TrialReport row(const std::string& name) const {
    TrialReport last;
    for (const ExperimentReport& report : reports()) {
      for (const TrialReport& trial : report.trials) {
        if (trial.name == name) last = trial;
      }
    }
    return last;
  }
  std::vector<TrialPoint> points(const std::string& name) const {
    std::vector<TrialPoint> all;
    for (const ExperimentReport& report : reports()) {
      for (const TrialReport& trial : report.trials) {
        if (trial.name == name) all.insert(all.end(), trial.points.begin(), trial.points.end());
      }
    }
    return all;
  }

  Result<ActorId> spawn(const SpawnRequest&) override { return make_error(ErrorCode::kUnavailable, ""); }
  Result<ActorId> find(const std::string& name, const std::string&, const std::string&) override {
    return make_error(ErrorCode::kNotFound, name);
  }
  void start(std::shared_ptr<OutgoingCall>) override {}
  void cancel(const ActorId&, uint64_t) override {}
  Result<void> kill(const ActorId&, bool, std::chrono::milliseconds) override { return {}; }
  void watch(const ActorId&) override {}
  Result<ActorStatus> status(const ActorId&) override { return make_error(ErrorCode::kNotFound, ""); }
  std::shared_ptr<void> on_status(const ActorId&, std::function<void(const ActorStatus&)>) override { return nullptr; }
  ClusterTotals totals() override { return {}; }
  std::string cluster_name() override { return "test"; }
  std::string node_name() override { return "heron"; }
  void on_log(std::function<void(const LogLine&)>) override {}

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ExperimentReport> reports_;
  std::map<std::string, std::function<void(const ExperimentRequest&)>> receivers_;
  int entered_ = 0;
  bool held_up_ = false, fails_ = false;
};

class RunReportTest : public ::testing::Test {
 protected:
  RunReportOptions options() const {
    return {.name = "digits",
            .config = {{"lr", 0.1}, {"model", {{"width", 32}}}},
            .planned = 10,
            .resources = "2 ranks",
            .tags = {"night"},
            .directory = storage_.path().string(),
            .interval = std::chrono::hours(1)};  // Passes happen at flush() and at the end only, after the first.
  }
  static fs::path results_of(const RunReport& report) {
    for (const auto& entry : fs::directory_iterator(report.directory())) {
      if (entry.path().filename().string().starts_with("train-")) return entry.path();
    }
    return {};
  }
  TemporaryDirectory storage_;
  const std::shared_ptr<RecordingSession> session_ = std::make_shared<RecordingSession>();
};

TEST_F(RunReportTest, ReportsARunningExperimentThatIsMarkedAsTraining) {
  RunReport report(session_, options());
  report.flush();
  const ExperimentReport first = session_->reports().at(0);
  EXPECT_EQ(first.experiment, report.experiment());
  EXPECT_EQ(first.experiment, report.directory().filename().string());
  EXPECT_EQ(first.state, "running");
  EXPECT_EQ(first.metric, "train_loss");
  EXPECT_EQ(first.mode, "min");
  EXPECT_EQ(first.directory, report.directory().string());
  EXPECT_EQ(first.scheduler, "train: 2 ranks");
  EXPECT_TRUE(is_training_run(first.scheduler));
  EXPECT_FALSE(is_training_run("trained"));
  EXPECT_THAT(first.tags, ElementsAre("train", "night"));
  ASSERT_THAT(first.trials, SizeIs(1));
  EXPECT_EQ(first.trials[0].name, "train");
  EXPECT_EQ(first.trials[0].status, "running");
  EXPECT_EQ(first.trials[0].node_name, "heron");
  EXPECT_EQ(json::parse(first.trials[0].config_json), json({{"lr", 0.1}, {"model", {{"width", 32}}}}));
}

TEST_F(RunReportTest, ReportsEachIterationAsAPointAndTheLastOneAsTheRow) {
  RunReport report(session_, options());
  report.metrics(1, {{"train_loss", 2.0}, {"samples_per_s", 100}});
  report.metrics(2, {{"train_loss", 1.0}, {"samples_per_s", 120}});
  report.metrics(4, {{"train_loss", 1.5}, {"samples_per_s", 110}});
  report.flush();
  const TrialReport row = session_->row("train");
  EXPECT_EQ(row.step, 4);
  EXPECT_EQ(row.metrics.at("train_loss"), 1.5);
  EXPECT_EQ(row.metrics.at("training_iteration"), 4);
  EXPECT_FALSE(row.metrics.contains("faults"));
  EXPECT_EQ(row.metrics.at("planned_iterations"), 10);
  const std::vector<TrialPoint> points = session_->points("train");
  ASSERT_THAT(points, SizeIs(3));
  EXPECT_FALSE(points[1].metrics.contains("planned_iterations")) << "it is no curve";
  EXPECT_EQ(points[1].step, 2);
  EXPECT_EQ(points[1].metrics.at("samples_per_s"), 120);
  EXPECT_GE(points[2].time_s, points[1].time_s);
  const ExperimentReport last = session_->reports().back();
  EXPECT_EQ(last.best->value, 1.5);
  EXPECT_EQ(last.best_so_far->value, 1.0);
  EXPECT_EQ(last.best_so_far->step, 2);
  ASSERT_TRUE(last.left);
  EXPECT_GE(last.left->seconds, last.left->low);
  EXPECT_LE(last.left->seconds, last.left->high);
}

TEST_F(RunReportTest, IgnoresAnIterationThatIsDoneAgain) {
  RunReport report(session_, options());
  for (const int64_t iteration : {1, 2, 2, 1, 3}) report.metrics(iteration, {{"train_loss", 1.0}});
  report.flush();
  EXPECT_THAT(session_->points("train"), SizeIs(3));
  EXPECT_EQ(session_->row("train").step, 3);
}

TEST_F(RunReportTest, WritesTheFilesOfATuneRun) {
  RunReport report(session_, options());
  for (int64_t i = 1; i <= 3; ++i) report.metrics(i, {{"train_loss", 1.0 / static_cast<double>(i)}, {"workers", 2}});
  report.end(RunOutcome::kFinished);
  const fs::path trial = results_of(report);
  const std::vector<json> rows = lines_of(trial / "result.json");
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[1]["train_loss"], 0.5);
  EXPECT_EQ(rows[1]["training_iteration"], 2);
  EXPECT_EQ(rows[1]["done"], false);
  EXPECT_EQ(rows[2]["done"], true);
  EXPECT_EQ(rows[0]["node"], "heron");
  EXPECT_EQ(json::parse(tune::read_text(trial / "params.json"))["lr"], 0.1);
  EXPECT_THAT(tune::read_text(trial / "progress.csv"), HasSubstr("train_loss,workers"));
  EXPECT_TRUE(std::any_of(fs::directory_iterator(trial), fs::directory_iterator(), [](const auto& entry) {
    return entry.path().filename().string().starts_with("events.out.tfevents.");
  }));
  const auto run = tune::load_run(report.directory());
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->state, "finished");
  EXPECT_TRUE(is_training_run(run->analysis.state().scheduler));
  EXPECT_EQ(run->analysis.best_trial().metrics.at("train_loss").min_step, 3);
  EXPECT_THAT(run->analysis.state().stop, ElementsAre("after 10 steps"));
}

TEST_F(RunReportTest, ItsDirectoryIsARunningOneUntilItsEnd) {
  RunReport report(session_, options());
  EXPECT_TRUE(tune::is_driven(report.directory()));
  EXPECT_EQ(tune::load_run(report.directory())->state, "running");
}

TEST_F(RunReportTest, KeepsEventsAsNoticesAndTheLastAsReason) {
  RunReport report(session_, options());
  report.event("The run goes on with 3 ranks.");
  report.event("It\nhas 4 again.");
  report.flush();
  EXPECT_EQ(session_->row("train").reason.text(), "It?has 4 again.");
  const auto run = tune::load_run(report.directory());
  EXPECT_THAT(run->analysis.state().notices,
              ElementsAre(Reason("The run goes on with 3 ranks."), Reason("It?has 4 again.")));
}

TEST_F(RunReportTest, BoundsItsNoticesAndKeepsTheNewest) {
  RunReport report(session_, options());
  for (size_t i = 0; i <= RunReport::kNoticesMax; ++i) report.event(std::to_string(i));
  report.end(RunOutcome::kFinished);
  const auto run = tune::load_run(report.directory());
  ASSERT_THAT(run->analysis.state().notices, SizeIs(RunReport::kNoticesMax));
  EXPECT_EQ(run->analysis.state().notices.front().text(), "1");
}

TEST_F(RunReportTest, ReportsEachRankWithItsActorAndMetrics) {
  RunReport report(session_, options());
  SystemRandom random;
  const auto actor = new_id<ActorId>(random);
  report.metrics(1, {{"train_loss", 1.0}});
  report.ranks({{.rank = 0, .actor = actor, .node = "a", .metrics = {{"forward_s", 0.25}}}, {.rank = 1, .node = "b"}});
  report.flush();
  const TrialReport rank = session_->row("rank 0");
  EXPECT_EQ(rank.status, "running");
  EXPECT_EQ(rank.actor, actor);
  EXPECT_EQ(rank.node_name, "a");
  EXPECT_EQ(rank.metrics.at("forward_s"), 0.25);
  EXPECT_EQ(json::parse(rank.config_json), json({{"rank", 0}}));
  EXPECT_THAT(session_->points("rank 0"), SizeIs(1));
  EXPECT_THAT(session_->points("rank 1"), IsEmpty());
  EXPECT_EQ(session_->reports().back().trials_total, 4) << "the run, its ranks and the event that they train";
}

TEST_F(RunReportTest, ARankHasItsProcessAndDeviceAndWhatItDoes) {
  RunReport report(session_, options());
  report.ranks({{.rank = 0, .pid = 4711, .device = "cuda:0"}, {.rank = 1}});
  report.rank_activity({.rank = 0, .step = 7, .in_step_s = 0.1, .activity = "forward pass"});
  report.rank_activity({.rank = 1, .step = 7, .in_step_s = 4.24, .activity = "barrier", .waiting_for = {0, 3}});
  report.rank_activity({.rank = 9, .step = 7, .activity = "forward pass"});  // It has not joined.
  report.flush();
  EXPECT_EQ(json::parse(session_->row("rank 0").config_json), json({{"rank", 0}, {"pid", 4711}, {"device", "cuda:0"}}));
  EXPECT_EQ(json::parse(session_->row("rank 1").config_json), json({{"rank", 1}}));
  EXPECT_EQ(session_->row("rank 0").reason.text(), "forward pass");
  EXPECT_EQ(session_->row("rank 0").metrics.at("step"), 7);
  EXPECT_EQ(session_->row("rank 1").reason.text(), "barrier for 4.2 s; waits for ranks 0, 3");

  report.ranks({{.rank = 0, .metrics = {{"data_wait_s", 0.5}}, .pid = 4711}, {.rank = 1}});
  report.rank_activity({.rank = 1, .step = 8});
  report.flush();
  EXPECT_EQ(session_->row("rank 0").metrics.at("data_wait_s"), 0.5);
  EXPECT_EQ(session_->row("rank 0").metrics.at("step"), 7);
  EXPECT_TRUE(session_->row("rank 1").reason.empty());
  EXPECT_THAT(session_->row("event 2").name, IsEmpty()) << "new metrics of the same ranks are no event";
}

TEST_F(RunReportTest, WhatTheRunDoesIsItsReasonUntilItsEnd) {
  RunReport report(session_, options());
  report.event("Rank 1 is slow.");
  report.activity("The run trains.");
  report.activity("The run waits for workers.");
  report.flush();
  EXPECT_EQ(session_->row("train").reason.text(), "The run waits for workers.");
  report.fault(1, "it was killed");
  report.flush();
  EXPECT_EQ(session_->row("train").reason.text(), "The run waits for workers.");
  report.end(RunOutcome::kStopped, "a user stopped it");
  EXPECT_EQ(session_->row("train").reason.text(), "a user stopped it");
}

TEST_F(RunReportTest, FaultsAndChangesOfTheGroupAreRowsWithTheirTimes) {
  RunReport report(session_, options());
  const auto begin = std::chrono::floor<std::chrono::milliseconds>(SystemClock().wall());
  report.ranks({{.rank = 0}, {.rank = 1}, {.rank = 2}}, 0);
  report.metrics(1, {{"train_loss", 1.0}, {"step", 40}});
  report.fault(1, "killed by signal 9\nrank 0: barrier");
  report.ranks({{.rank = 0}, {.rank = 1}}, 42);
  report.event("Rank 0 is slow.");
  report.fault(-1, "a worker did not start");
  report.ranks({{.rank = 0}, {.rank = 1}});  // The same group: no event.
  report.flush();
  const auto config = [&](const char* name) { return json::parse(session_->row(name).config_json); };
  EXPECT_EQ(config("event 1"), json({{"event", "group"}, {"workers", 3}, {"step", 0}}));
  EXPECT_EQ(session_->row("event 1").reason.text(), "The run trains with 3 workers.");
  EXPECT_EQ(config("event 2"), json({{"event", "fault"}, {"rank", 1}, {"workers", 2}, {"step", 40}}));
  EXPECT_EQ(session_->row("event 2").reason.text(), "killed by signal 9\nrank 0: barrier");
  EXPECT_EQ(config("event 3"), json({{"event", "group"}, {"workers", 2}, {"step", 42}}));
  EXPECT_EQ(session_->row("event 3").reason.text(), "The run goes on with 2 workers from step 42.");
  EXPECT_EQ(config("event 4"), json({{"event", "note"}, {"workers", 2}, {"step", 42}}));
  EXPECT_EQ(config("event 5"), json({{"event", "fault"}, {"workers", 2}, {"step", 42}}));
  EXPECT_THAT(session_->row("event 6").name, IsEmpty());
  for (const char* name : {"event 1", "event 2", "event 3", "event 4", "event 5"}) {
    const TrialReport row = session_->row(name);
    EXPECT_GE(row.started_ms, unix_ms(begin)) << name;
    EXPECT_EQ(row.ended_ms, row.started_ms) << name;
    EXPECT_EQ(row.status, "finished") << name;
  }
  EXPECT_THAT(tune::load_run(report.directory())->analysis.state().notices,
              ElementsAre(Reason("rank 1 failed: killed by signal 9\nrank 0: barrier"),
                          Reason("The run goes on with 2 workers from step 42."), Reason("Rank 0 is slow."),
                          Reason("a worker did not start")));
}

TEST_F(RunReportTest, BoundsTheRowsOfEventsAndKeepsTheNewest) {
  RunReport report(session_, options());
  for (size_t i = 0; i <= RunReport::kEventsMax; ++i) report.event(std::to_string(i));
  report.end(RunOutcome::kFinished);
  const ExperimentReport last = session_->reports().back();
  ASSERT_THAT(last.trials, SizeIs(1 + RunReport::kEventsMax));
  EXPECT_EQ(last.trials[1].name, "event 201") << "in the place of the first";
  EXPECT_EQ(last.trials[1].reason.text(), "200");
  EXPECT_EQ(last.trials[2].name, "event 2");
}

TEST_F(RunReportTest, AFaultOfARankFailsItsRowUntilItIsBack) {
  RunReport report(session_, options());
  report.ranks({{.rank = 0}, {.rank = 1}, {.rank = 2}});
  report.fault(1, "its process was killed by signal 9");
  report.metrics(1, {{"train_loss", 1.0}});
  report.flush();
  EXPECT_EQ(session_->row("rank 1").status, "failed");
  EXPECT_EQ(session_->row("rank 1").error.text(), "its process was killed by signal 9");
  EXPECT_EQ(session_->row("train").status, "running");
  EXPECT_EQ(session_->row("train").reason.text(), "rank 1 failed: its process was killed by signal 9");
  EXPECT_EQ(session_->points("train").at(0).metrics.at("faults"), 1);
  EXPECT_THAT(tune::read_text(results_of(report) / "error.txt"), HasSubstr("rank 1 failed: its process was killed"));

  report.ranks({{.rank = 0}, {.rank = 1}});
  report.flush();
  EXPECT_EQ(session_->row("rank 1").status, "running");
  EXPECT_TRUE(session_->row("rank 1").error.empty());
  EXPECT_EQ(session_->row("rank 2").status, "stopped");
}

TEST_F(RunReportTest, AFailedRunHasItsErrorInRowAndFiles) {
  RunReport report(session_, options());
  report.ranks({{.rank = 0}});
  report.metrics(7, {{"train_loss", 1.0}});
  report.end(RunOutcome::kFailed, "all ranks died");
  const ExperimentReport last = session_->reports().back();
  EXPECT_EQ(last.state, "failed");
  EXPECT_FALSE(last.left);
  EXPECT_EQ(session_->row("train").status, "failed");
  EXPECT_EQ(session_->row("train").error.text(), "all ranks died");
  EXPECT_EQ(session_->row("rank 0").status, "interrupted");
  EXPECT_THAT(tune::read_text(results_of(report) / "error.txt"), HasSubstr("after step 7: all ranks died"));
  EXPECT_EQ(tune::load_run(report.directory())->analysis.state().reason.text(), "all ranks died");
}

TEST_F(RunReportTest, OnlyTheFirstEndCounts) {
  RunReport report(session_, options());
  report.end(RunOutcome::kFinished);
  const size_t reports = session_->reports().size();
  report.metrics(1, {{"train_loss", 1.0}});
  report.end(RunOutcome::kFailed, "late");
  report.flush();
  EXPECT_EQ(session_->reports().size(), reports);
  EXPECT_EQ(session_->reports().back().state, "finished");
  EXPECT_FALSE(session_->listens(report.experiment()));
}

TEST_F(RunReportTest, DestructionEndsItAsStopped) {
  { const RunReport report(session_, options()); }
  EXPECT_EQ(session_->reports().back().state, "interrupted");
  EXPECT_EQ(session_->row("train").status, "interrupted");
}

TEST_F(RunReportTest, DestructionByAnExceptionEndsItAsFailed) {
  try {
    RunReport report(session_, options());
    throw std::runtime_error("loss is NaN");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(session_->reports().back().state, "failed");
}

TEST_F(RunReportTest, AUsersRequestThroughTheHeadAsksItToStop) {
  RunReport report(session_, options());
  EXPECT_FALSE(report.stop_requested());
  session_->ask(report.experiment(), {.act = "pause", .trial = {}});
  session_->ask(report.experiment(), {.act = "stop", .trial = "00000000"});
  EXPECT_FALSE(report.stop_requested());
  report.flush();
  EXPECT_THAT(session_->row("train").reason.text(), HasSubstr("stop the whole run"));
  session_->ask(report.experiment(), {.act = "stop", .trial = {}});
  EXPECT_TRUE(report.stop_requested());
}

TEST_F(RunReportTest, AUsersRequestInItsDirectoryAsksItToStop) {
  RunReport report(session_, options());
  SystemRandom random;
  const auto pause = tune::ask_of_experiment(report.directory(), tune::RequestAct::kPause, std::nullopt, random);
  report.flush();
  EXPECT_FALSE(report.stop_requested());
  const auto refused = tune::await_request(report.directory(), *pause, std::chrono::seconds(10));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("takes only \"stop\""));
  const auto stop = tune::ask_of_experiment(report.directory(), tune::RequestAct::kStop, std::nullopt, random);
  report.flush();
  EXPECT_TRUE(report.stop_requested());
  EXPECT_FALSE(fs::exists(*stop));
}

TEST_F(RunReportTest, CountsWhatDoesNotFitWhileTheSessionBlocks) {
  session_->hold_up(true);
  RunReport report(session_, options());
  session_->await_report();  // Its thread blocks in the first report from here on.
  constexpr int64_t kTooMany = 5;
  const auto put = static_cast<int64_t>(RunReport::kWaitingMax) + kTooMany;
  for (int64_t i = 1; i <= put; ++i) report.metrics(i, {{"train_loss", 1.0}});
  session_->hold_up(false);
  report.end(RunOutcome::kFinished);
  EXPECT_THAT(session_->points("train"), SizeIs(RunReport::kWaitingMax));
  EXPECT_EQ(session_->reports().back().state, "finished");
  EXPECT_THAT(tune::load_run(report.directory())->analysis.state().notices.at(0).text(),
              HasSubstr("5 reports were left out"));
}

TEST_F(RunReportTest, AnErrorOfTheSessionDoesNotReachTheLoopOrTheFiles) {
  session_->fail();
  RunReport report(session_, options());
  report.metrics(1, {{"train_loss", 1.0}});
  report.flush();
  report.metrics(2, {{"train_loss", 0.5}});
  report.end(RunOutcome::kFinished);
  EXPECT_THAT(lines_of(results_of(report) / "result.json"), SizeIs(2));
}

TEST_F(RunReportTest, WritesNoFilesIfDirectoryIsNone) {
  RunReportOptions without = options();
  without.directory = "none";
  RunReport report(session_, without);
  report.metrics(1, {{"train_loss", 1.0}});
  report.fault(-1, "a message");
  report.end(RunOutcome::kFinished);
  EXPECT_TRUE(report.directory().empty());
  EXPECT_TRUE(fs::is_empty(storage_.path()));
  EXPECT_TRUE(report.experiment().starts_with("digits_2"));
  EXPECT_EQ(session_->reports().back().experiment, report.experiment());
}

TEST_F(RunReportTest, WritesFilesWithoutASession) {
  RunReport report(nullptr, options());
  report.metrics(1, {{"train_loss", 1.0}});
  report.ranks({{.rank = 0, .metrics = {{"forward_s", 1}}}});
  report.end(RunOutcome::kFinished);
  EXPECT_THAT(lines_of(results_of(report) / "result.json"), SizeIs(1));
}

TEST_F(RunReportTest, RejectsBadNamesAndConfigurations) {
  const auto code_of = [&](const RunReportOptions& bad) {
    try {
      RunReport report(session_, bad);
    } catch (const Exception& exception) {
      return exception.code();
    }
    return ErrorCode::kInternal;
  };
  RunReportOptions bad = options();
  bad.name = "a/b";
  EXPECT_EQ(code_of(bad), ErrorCode::kInvalidArgument);
  bad.directory = "none";
  EXPECT_EQ(code_of(bad), ErrorCode::kInvalidArgument);
  bad = options();
  bad.config = tune::Config(3);
  EXPECT_EQ(code_of(bad), ErrorCode::kInvalidArgument);
  EXPECT_THAT(session_->reports(), IsEmpty());
}

}  // namespace
}  // namespace volador::train
