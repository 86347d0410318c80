#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/files/directory_archive.h"
#include "tests/cli/command_line_fixture.h"
#include "tune/execution/checkpoint_store.h"
#include "tune/results/experiment_state.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class TuneCommands : public CommandLineTest {
 protected:
  fs::path write_run(const std::string& key, std::vector<double> values) {
    const fs::path directory = folder_.path() / "results" / key;
    fs::create_directories(directory);
    tune::ExperimentState state{
        .name = "digits", .state = "finished", .reason = "all trials ended", .metric = "accuracy"};
    for (const double value : values) {
      tune::Trial trial;
      trial.index = static_cast<int64_t>(state.trials.size());
      trial.id = tune::TrialId(static_cast<uint32_t>(trial.index + 1));
      trial.config = tune::Config{{"lr", value / 2}, {"model", {{"width", 8}}}};
      trial.status = tune::TrialStatus::kStopped;
      trial.reason = "others do better";
      trial.step = trial.step_max = 1;
      trial.metrics["accuracy"].add(value, 1);
      trial.last_result = {{"accuracy", value}};
      fs::create_directories(directory / to_string(trial.id));
      std::ofstream(directory / to_string(trial.id) / "result.json")
          << "{\"accuracy\":" << value << ",\"training_iteration\":1}\n";
      state.trials.push_back(std::move(trial));
    }
    std::ofstream(directory / "experiment_state.json") << tune::to_json(state);
    return directory;
  }
};

TEST_F(TuneCommands, CheckpointsAreListedAndUnpacked) {
  const fs::path directory = write_run("a", {0.25, 0.5});
  tune::CheckpointStore store(directory);
  for (const int64_t step : {3, 6}) {
    const fs::path source = folder_.path() / "source", archive = folder_.path() / "packed.vla";
    fs::create_directories(source);
    std::ofstream(source / "model") << "weights of step " << step;
    fs::remove(archive);
    const auto packed = pack_directory(source, archive);
    ASSERT_TRUE(packed);
    std::ifstream in(archive, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    auto writer = store.begin("00000002", step, 1);
    ASSERT_TRUE(writer && writer->begin_part({packed->sha256, static_cast<int64_t>(bytes.size())}) &&
                writer->append(bytes) && writer->end_part());
    ASSERT_TRUE(writer->commit(WallTime(std::chrono::seconds(5))));
  }
  const Output listed = run({"tune", "checkpoint", "list", directory.native(), "--json"});
  EXPECT_EQ(listed.code, 0) << listed.error;
  const auto rows = nlohmann::json::parse(listed.out)["checkpoints"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1]["step"], 6);
  EXPECT_EQ(rows[1]["trial_id"], "00000002");
  EXPECT_EQ(run({"tune", "checkpoint", "list", directory.native(), "00000001"}).out, "no checkpoints\n");
  const auto contents = [](const fs::path& file) {
    std::ifstream in(file);
    return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  };
  const fs::path out = folder_.path() / "out" / "last", other = folder_.path() / "third";
  const Output last = run({"tune", "checkpoint", "extract", directory.native(), "00000002", "--out=" + out.native()});
  EXPECT_EQ(last.code, 0) << last.error;
  EXPECT_EQ(contents(out / "model"), "weights of step 6");
  fs::create_directories(other);
  EXPECT_EQ(
      run({"tune", "checkpoint", "extract", directory.native(), "00000002", "--step=3", "--out=" + other.native()})
          .code,
      0);
  EXPECT_EQ(contents(other / "model"), "weights of step 3");
  EXPECT_EQ(run({"tune", "checkpoint", "extract", directory.native(), "00000002", "--out=" + out.native()}).code, 2)
      << "nothing is overwritten";
  const Output absent = run({"tune", "checkpoint", "extract", directory.native(), "00000002", "--step=4",
                             "--out=" + (folder_.path() / "x").native()});
  EXPECT_EQ(absent.code, 6);
  EXPECT_THAT(absent.error, HasSubstr("it has those of 3, 6"));
  const Output no_number =
      run({"tune", "checkpoint", "extract", directory.native(), "00000002", "--step=last", "--out=x"});
  EXPECT_EQ(no_number.code, 2);
  EXPECT_THAT(no_number.error, HasSubstr("--step: expected a number above 0, got \"last\""));
  EXPECT_THAT(run({"tune", "simulate", "--speed=-1"}).error,
              HasSubstr("--speed: expected a number of at least 0, got \"-1\""));
}

TEST_F(TuneCommands, ListShowsEveryRun) {
  write_run("a", {0.25, 0.5});
  const Output output = run({"tune", "list", (folder_.path() / "results").native()});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_THAT(output.out, HasSubstr("finished"));
  EXPECT_THAT(output.out, HasSubstr("0.5"));
  const auto json = nlohmann::json::parse(run({"tune", "list", (folder_.path() / "results").native(), "--json"}).out);
  EXPECT_EQ(json["api_version"], "v1");
  EXPECT_EQ(json["runs"][0]["trials"], 2);
  EXPECT_EQ(json["runs"][0]["best_trial"], "00000002");
}

TEST_F(TuneCommands, ShowHasTheBestTrialAndWhyOthersEnded) {
  const fs::path directory = write_run("a", {0.25, 0.5});
  const Output output = run({"tune", "show", directory.native()});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_THAT(output.out, HasSubstr("2 trials: 2 stopped"));
  EXPECT_THAT(output.out, HasSubstr("best        00000002  accuracy 0.5 at step 1"));
  EXPECT_THAT(output.out, HasSubstr("others do better"));
  EXPECT_THAT(run({"tune", "show", directory.native(), "--limit=1"}).out, HasSubstr("1 more: --limit=2"));
  const auto json = nlohmann::json::parse(run({"tune", "show", directory.native(), "--json"}).out);
  EXPECT_EQ(json["best"]["config"]["model"]["width"], 8);
  EXPECT_EQ(json["trials"].size(), 2U);
}

TEST_F(TuneCommands, ExportWritesWhereItIsToldTo) {
  const fs::path directory = write_run("a", {0.25, 0.5});
  const fs::path file = folder_.path() / "out.csv";
  EXPECT_EQ(run({"tune", "export", directory.native(), "--csv=" + file.native()}).code, 0);
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  EXPECT_EQ(line, "trial_id,config/lr,config/model.width,accuracy,training_iteration");
  const auto json = nlohmann::json::parse(run({"tune", "export", directory.native(), "--json", "-"}).out);
  EXPECT_EQ(json["trials"][0]["results"][0]["accuracy"], 0.25);
  EXPECT_EQ(run({"tune", "export", directory.native()}).code, 2);
  EXPECT_EQ(run({"tune", "export", directory.native(), "--csv=/proc/nowhere/x"}).code, 1);
}

TEST_F(TuneCommands, CompareRanksRuns) {
  const fs::path a = write_run("a", {0.25}), b = write_run("b", {0.75});
  const auto json = nlohmann::json::parse(run({"tune", "compare", a.native(), b.native(), "--json"}).out);
  EXPECT_EQ(json["runs"][0]["value"], 0.75);
  EXPECT_EQ(json["runs"][0]["best"]["config"]["lr"], 0.375);
  EXPECT_THAT(run({"tune", "compare", a.native(), b.native()}).out, HasSubstr("by accuracy (max), best first"));
  ::setenv("VOLADOR_LANG", "zh", 1);
  const std::string chinese = run({"tune", "compare", a.native(), b.native()}).out;
  const std::string shown = run({"tune", "show", a.native()}).out;
  ::unsetenv("VOLADOR_LANG");
  EXPECT_THAT(chinese, ::testing::AllOf(HasSubstr("按 accuracy（越高越好）排序，最好的在前"), HasSubstr("运行"),
                                        HasSubstr("步数"), HasSubstr("已完成")));
  EXPECT_THAT(shown, HasSubstr("others do better")) << "a run of an earlier Volador has texts alone";
  EXPECT_THAT(run({"tune", "compare", a.native(), "--mode=least"}).error,
              HasSubstr("expected max, min, got \"least\""));
  EXPECT_EQ(run({"tune", "compare", a.native(), "--metric=acuracy"}).code, 2);
}

TEST_F(TuneCommands, ARunIsNamedByItsDirectoryItsNameOrTheStartOfIt) {
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  ::setenv("HOME", folder_.path().c_str(), 1);
  fs::create_directories(folder_.path() / "results");
  fs::rename(folder_.path() / "results", folder_.path() / "volador_results");
  fs::create_directory_symlink(folder_.path() / "volador_results", folder_.path() / "results");
  write_run("digits_2026-11-21_10-02-11", {0.25});
  write_run("digits_2026-11-22_10-02-11", {0.5});
  write_run("digits_big_2026-11-23_10-02-11", {0.75});
  write_run("letters_2026-11-20_10-02-11", {0.125});
  const auto best = [&](const std::string& name) {
    const Output output = run({"tune", "show", name, "--json"});
    return output.code == 0 ? nlohmann::json::parse(output.out)["best"]["value"].get<double>() : -output.code;
  };
  EXPECT_EQ(best("digits"), 0.5) << "the newest of the runs whose name it is";
  EXPECT_EQ(best("digits_2026-11-21"), 0.25);
  EXPECT_EQ(best("digits_2026-11-21_10-02-11"), 0.25);
  EXPECT_EQ(best((folder_.path() / "volador_results" / "digits_2026-11-21_10-02-11").native()), 0.25);
  EXPECT_EQ(best("let"), 0.125) << "all that start so have one name";
  EXPECT_EQ(best("dig"), -6);
  EXPECT_THAT(run({"tune", "why", "dig", "1"}).error,
              HasSubstr("\"dig\": 3 runs in ~/volador_results start so: digits_2026-11-21_10-02-11, "));
  EXPECT_THAT(run({"tune", "export", "numbers", "--csv=-"}).error,
              HasSubstr("numbers: there is no such directory, and no run in ~/volador_results starts so"));
  ::setenv("HOME", home.c_str(), 1);
}

TEST_F(TuneCommands, WhatIsNoRunHasItsExitCode) {
  const Output output = run({"tune", "show", (folder_.path() / "nowhere").native()});
  EXPECT_EQ(output.code, 6);
  EXPECT_THAT(output.error, HasSubstr("there is no such directory"));
  fs::create_directories(folder_.path() / "results" / "a");
  std::ofstream(folder_.path() / "results" / "a" / "experiment_state.json") << "{\"version\": 7}";
  const Output newer = run({"tune", "show", (folder_.path() / "results" / "a").native()});
  EXPECT_EQ(newer.code, 1);
  EXPECT_THAT(newer.error, HasSubstr("version 7 is not known, this Volador reads 1"));
  EXPECT_EQ(run({"tune"}).code, 2);
  EXPECT_THAT(run({"tune", "shw", "x"}).error, HasSubstr("did you mean show?"));
}

TEST_F(TuneCommands, PlotWritesWhatThereIsGroundForAndNamesWhatIsWrong) {
  const fs::path directory = write_run("a", {0.25, 0.5});
  const Output all = run({"tune", "plot", directory.native()});
  EXPECT_EQ(all.code, 0) << all.error;
  EXPECT_TRUE(fs::exists(directory / "plots" / "curves.svg"));
  EXPECT_TRUE(fs::exists(directory / "plots" / "parallel.svg"));
  EXPECT_THAT(all.error, HasSubstr("no gantt: "));
  const Output one = run({"tune", "plot", directory.native(), "--kind=curves", "--log=y", "--size=640x400", "--out=-"});
  EXPECT_THAT(one.out, HasSubstr("width=\"640\" height=\"400\""));
  EXPECT_EQ(run({"tune", "plot", directory.native(), "--kind=curve"}).code, 2);
  EXPECT_THAT(run({"tune", "plot", directory.native(), "--kind=curve"}).error, HasSubstr("did you mean curves?"));
  EXPECT_EQ(run({"tune", "plot", directory.native(), "--size=wide"}).code, 2);
  EXPECT_EQ(run({"tune", "plot", directory.native(), "--out=-"}).code, 2) << "stdout takes one kind";
  EXPECT_EQ(run({"tune", "plot", directory.native(), "--kind=curves", "--metric=los"}).code, 2);
  const Output unknown = run({"tune", "plot", directory.native(), "--metric=los"});
  EXPECT_EQ(unknown.code, 2) << "also of every kind, some of which need no metric";
  EXPECT_THAT(unknown.error, HasSubstr("--metric: no trial reported \"los\""));
  EXPECT_EQ(run({"tune", "plot", directory.native(), "--x=los"}).code, 2);
  EXPECT_EQ(run({"tune", "plot", (folder_.path() / "nowhere").native()}).code, 6);
}

}  // namespace
}  // namespace volador::cli
