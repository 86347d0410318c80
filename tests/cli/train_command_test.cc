#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/render/train_view.h"
#include "tests/cli/command_line_fixture.h"
#include "tune/results/experiment_state.h"

namespace volador::cli {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;
using tune::TrialStatus;

constexpr WallTime kStart(seconds(1'800'000'000));

class TrainCommands : public CommandLineTest {
 protected:
  // A run in the format of train/report/run_report.h: three of twelve reports, two ranks, of which one was lost.
  std::filesystem::path write_run(const std::string& scheduler = "train: 2 workers with cpus 1 each") {
    tune::ExperimentState state{
        .name = "digits", .state = "finished", .metric = "train_loss", .mode = tune::Mode::kMin};
    state.scheduler = scheduler;
    state.stop = {"after 12 steps"};
    state.started = kStart;
    state.written = kStart + seconds(75);
    const auto add = [&](const std::string& name, TrialStatus status, tune::Config config) -> tune::Trial& {
      tune::Trial& trial = state.trials.emplace_back();
      trial.id = tune::TrialId(static_cast<uint32_t>(state.trials.size()));
      trial.name = name;
      trial.status = status;
      trial.config = std::move(config);
      return trial;
    };
    tune::Trial& run = add("train", TrialStatus::kFinished, tune::Config{{"lr", 0.05}});
    run.step = run.step_max = 3;
    run.last_result = {{"train_loss", 0.25},
                       {"val_loss", 0.5},
                       {"epoch", 3},
                       {"step", 120},
                       {"samples_per_s", 963.4},
                       {"mean_data_s", 0.01},
                       {"mean_forward_s", 0.03},
                       {"mean_backward_s", 0.04},
                       {"mean_communication_s", 0.01},
                       {"mean_optimizer_s", 0},
                       {"mean_step_s", 0.1}};
    run.metrics["train_loss"].add(0.2, 2);
    run.metrics["train_loss"].add(0.25, 3);
    tune::Trial& first =
        add("rank 0", TrialStatus::kRunning, tune::Config{{"rank", 0}, {"pid", 4711}, {"device", "cpu"}});
    first.node = "heron";
    first.reason = "barrier; waits for rank 1";
    first.last_result = {{"step", 130}, {"samples_per_s", 480.6}, {"data_wait_s", 0.0125}};
    add("rank 1", TrialStatus::kFailed, tune::Config{{"rank", 1}}).error = "killed by signal 9\nand more";
    tune::Trial& fault =
        add("event 2", TrialStatus::kFinished, tune::Config{{"event", "fault"}, {"rank", 1}, {"workers", 1}});
    fault.started = kStart + seconds(20);
    fault.reason = "killed by signal 9\nand more";
    tune::Trial& group = add("event 1", TrialStatus::kFinished, tune::Config{{"event", "group"}, {"workers", 2}});
    group.started = kStart + seconds(2);
    group.reason = "The run trains with 2 workers.";
    const auto directory = folder_.path() / "digits";
    std::filesystem::create_directories(directory);
    std::ofstream(directory / "experiment_state.json") << tune::to_json(state);
    return directory;
  }
};

TEST_F(TrainCommands, ShowHasNumbersPartsOfAStepRanksAndEvents) {
  const Output output = run({"train", "show", write_run().native()});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_THAT(output.out, HasSubstr("digits · finished · 2 workers with cpus 1 each\n"));
  EXPECT_THAT(output.out, HasSubstr("epoch 3 · step 130 · train_loss 0.25 · 963 samples/s\n"));
  EXPECT_THAT(output.out, HasSubstr("val_loss      0.5\n"));
  EXPECT_THAT(output.out, HasSubstr("best          train_loss 0.2\n"));
  EXPECT_THAT(output.out,
              HasSubstr("100 ms: data wait 10 %, forward 30 %, backward 40 %, communication 10 %, optimizer 0 "
                        "%, other 10 %\n"));
  EXPECT_THAT(output.out,
              HasSubstr("rank  state    node   device  process  step  samples/s  data wait  does\n"
                        "   0  running  heron  cpu        4711   130        481    12.5 ms  barrier; waits for "
                        "rank 1\n"
                        "   1  failed                                                       killed by signal 9\n"));
  EXPECT_THAT(output.out, HasSubstr("The run trains with 2 workers.\n"));
  EXPECT_THAT(output.out, HasSubstr("  rank 1 failed: killed by signal 9\n"));
  EXPECT_LT(output.out.find("The run trains with"), output.out.find("rank 1 failed: ")) << "oldest first";
  EXPECT_THAT(output.out, Not(HasSubstr("█"))) << "it has ended";
  const auto json = nlohmann::json::parse(run({"train", "show", write_run().native(), "--json"}).out);
  EXPECT_EQ(json["trials"].size(), 5U) << "a program gets every row";
}

TEST_F(TrainCommands, ShowFollowsARunToItsEnd) {
  const std::string directory = write_run().native();
  const Output ended = run({"train", "show", directory, "--follow"});
  EXPECT_EQ(ended.code, 0) << ended.error;
  EXPECT_TRUE(ended.out.ends_with("digits · finished\n")) << ended.out;
  EXPECT_EQ(run({"train", "show", directory, "--follow", "--json"}).code, 2);
}

TEST_F(TrainCommands, ShowRefusesARunThatIsNoTrainingRun) {
  const Output output = run({"train", "show", write_run("ASHA").native()});
  EXPECT_NE(output.code, 0);
  EXPECT_THAT(output.error, HasSubstr("volador tune show"));
}

TEST_F(TrainCommands, ALineOfProgressHasABarIfTheEndIsPlanned) {
  auto run = tune::load_run(write_run());
  ASSERT_TRUE(run) << run.error().message;
  const Terminal terminal({});
  const WallTime now = kStart + seconds(80);
  EXPECT_EQ(train_line(*run, terminal, now, 0),
            "digits  epoch 3  step 130  train_loss 0.25  963 samples/s  1 min 20 s");
  run->state = "running";
  EXPECT_THAT(train_line(*run, terminal, now, 0), HasSubstr("digits  ██████░░░░░░░░░░░░░░░░░░  25 %  epoch 3"));
  EXPECT_EQ(train_line(*run, terminal, now, 12), "digits  ███…");
}

TEST_F(TrainCommands, ListHasTheWorkersAndTheTimeLeft) {
  const nlohmann::json rows = nlohmann::json::parse(R"([
    {"name": "digits_1", "state": "running", "metric": "train_loss", "scheduler": {"text": "train: 2 to 4 workers with cpus 1 each"},
     "best_so_far": {"value": 0.125, "step": 3}, "left": {"seconds": 90, "low": 80, "high": 100, "at_ms": 1000}, "tags": ["train", "night"]},
    {"name": "digits_2", "state": "finished", "scheduler": {"text": "train"}}])");
  const std::string text = train_runs_text(rows.get<std::vector<nlohmann::json>>(), Terminal({}), 31'000);
  EXPECT_THAT(text, HasSubstr("digits_1  running   2 to 4 workers with cpus 1 each  train_loss  0.125  1:00"));
  EXPECT_THAT(text, HasSubstr("night"));
  EXPECT_THAT(text, HasSubstr("digits_2  finished"));
  EXPECT_THAT(text, Not(HasSubstr("train,"))) << "the tag that all have";
  EXPECT_EQ(train_runs_text({}, Terminal({}), 0), "no runs\n");
}

}  // namespace
}  // namespace volador::cli
