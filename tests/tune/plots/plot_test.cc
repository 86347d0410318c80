#include "tune/plots/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <fstream>

#include "tests/tune/plots/xml_reader.h"
#include "tests/tune/simulated_journal.h"
#include "tests/tune/temporary_directory.h"
#include "tune/plots/journal_plots.h"
#include "tune/plots/parameter_columns.h"

namespace volador::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::XmlReader;

std::vector<Trial> some_trials(size_t count) {
  std::vector<Trial> trials;
  for (size_t i = 0; i < count; ++i) {
    Trial trial;
    trial.id = TrialId(static_cast<uint32_t>(i + 1));
    trial.index = static_cast<int64_t>(i);
    trial.status = TrialStatus::kFinished;
    trial.config = Config{{"lr", 1e-4 * static_cast<double>(1 + i * i)},
                          {"batch", i % 3 == 0 ? 16 : 64},
                          {"act", i % 2 == 0 ? "relu" : "gelu"}};
    if (i % 4 == 0) trial.config.set("momentum", 0.9);
    trial.step = trial.step_max = 3;
    const double loss = 1.0 / static_cast<double>(i + 1);
    trial.metrics["loss"].add(2 * loss, 1);
    trial.metrics["loss"].add(loss, 2);
    trial.last_result = {
        {"loss", loss}, {"seconds", static_cast<double>(i)}, {"training_iteration", 2}, {"time_total_s", 2.0}};
    trials.push_back(std::move(trial));
  }
  return trials;
}

class Plots : public ::testing::Test {
 protected:
  Analysis analysis(std::vector<Trial> trials) {
    for (const Trial& trial : trials) {
      const double loss = trial.last_result.at("loss");
      write_text(folder_.path() / to_string(trial.id) / "result.json",
                 fmt::format("{{\"loss\":{},\"training_iteration\":1,\"time_total_s\":1}}\n{{\"loss\":{},\"training_"
                             "iteration\":2,\"time_total_s\":2}}\n"
                             "{{\"loss\":0.1,\"training_",  // Being written.
                             2 * loss, loss));
    }
    return Analysis(
        {.name = "digits", .state = "running", .metric = "loss", .mode = Mode::kMin, .trials = std::move(trials)},
        folder_.path());
  }
  XmlReader read(const Analysis& of, const PlotOptions& options) {
    XmlReader reader;
    EXPECT_EQ(reader.read(plot(of, options)), "");
    return reader;
  }
  Error refusal(const Analysis& of, const PlotOptions& options) {
    try {
      (void)plot(of, options);
    } catch (const Exception& exception) {
      return exception.error();
    }
    return {ErrorCode::kInternal, "nothing was refused"};
  }
  TemporaryDirectory folder_;
};

TEST_F(Plots, CurvesAreReadFromTheResultsOfARunThatGoesOn) {
  const Analysis run = analysis(some_trials(6));
  const XmlReader svg = read(run, {});
  EXPECT_EQ(svg.count("polyline"), 6U);
  EXPECT_TRUE(svg.has_text("loss over steps"));
  EXPECT_TRUE(svg.has_text("digits · 6 trials · goes on · less is better"));
  EXPECT_TRUE(read(run, {.x = "time_total_s"}).has_text("loss over time_total_s"));
  EXPECT_TRUE(read(run, {.log_y = true}).has_text("loss  (log)"));
}

TEST_F(Plots, CurvesAreGroupedByAParameter) {
  const Analysis run = analysis(some_trials(30));
  EXPECT_EQ(read(run, {.group_by = "act"}).count("polygon", "band"), 2U);
  EXPECT_EQ(read(run, {.group_by = "batch"}).count("polygon", "band"), 2U);
  EXPECT_EQ(read(run, {.group_by = "lr"}).count("polygon", "band"), 5U) << "five of equal size";
  EXPECT_TRUE(read(run, {.group_by = "momentum"}).has_text("none"));
  EXPECT_THAT(refusal(run, {.group_by = "rate"}).message, HasSubstr("those that do: lr, batch, act, momentum"));
}

TEST_F(Plots, ImportanceNeedsSomeTrialsAndParametersThatAllHave) {
  EXPECT_TRUE(read(analysis(some_trials(9)), {.kind = PlotKind::kImportance})
                  .has_text("importance needs 10 trials with a finite loss; there are 9"));
  const XmlReader svg = read(analysis(some_trials(40)), {.kind = PlotKind::kImportance});
  EXPECT_TRUE(svg.has_text("lr"));
  EXPECT_TRUE(svg.has_text("left out, not in every trial: momentum"));
}

TEST_F(Plots, TheFrontIsOfTwoMetrics) {
  const Analysis run = analysis(some_trials(8));
  EXPECT_THAT(refusal(run, {.kind = PlotKind::kPareto}).message, HasSubstr("--versus=B"));
  // Lower loss costs more seconds: all are on the front; if more seconds are better only the last is.
  EXPECT_EQ(read(run, {.kind = PlotKind::kPareto, .versus = "seconds"}).count("circle", "f1"), 8U);
  EXPECT_EQ(
      read(run, {.kind = PlotKind::kPareto, .versus = "seconds", .versus_mode = Mode::kMax}).count("circle", "f1"), 1U);
}

TEST_F(Plots, SayWhatIsWrong) {
  const Analysis run = analysis(some_trials(3));
  EXPECT_THAT(refusal(run, {.metric = "los"}).message, HasSubstr("no trial reported \"los\"; reported: loss, seconds"));
  EXPECT_EQ(refusal(run, {.kind = PlotKind::kGantt}).code, ErrorCode::kNotFound) << "there is no journal";
  EXPECT_THAT(refusal(run, {.size = {.width = 10}}).message, HasSubstr("320"));
  for (const PlotKind kind : {PlotKind::kCurves, PlotKind::kParallel, PlotKind::kImportance})
    EXPECT_EQ(read(analysis({}), {.kind = kind}).count("polyline"), 0U);
}

TEST_F(Plots, AreWrittenToFiles) {
  save_plot(analysis(some_trials(3)), {.kind = PlotKind::kParallel}, folder_.path() / "p.svg");
  std::ifstream file(folder_.path() / "p.svg");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}),
            plot(analysis(some_trials(3)), {.kind = PlotKind::kParallel}));
}

std::vector<const Trial*> pointers(const std::vector<Trial>& trials) {
  std::vector<const Trial*> out;
  for (const Trial& trial : trials) out.push_back(&trial);
  return out;
}

TEST(ParameterColumns, KnowTheirDomainsFromTheSpace) {
  const std::vector<Trial> trials = some_trials(12);
  const auto columns = parameter_columns(
      pointers(trials), "lr loguniform(1e-05, 0.1)\nbatch choice of 2\nbatch[0] 16\nact choice of 2\n");
  ASSERT_EQ(columns.size(), 4U);
  EXPECT_TRUE(columns[0].log);
  EXPECT_EQ(columns[0].lo, 1e-5);
  EXPECT_EQ(columns[0].hi, 0.1);
  EXPECT_THAT(columns[1].categories, ElementsAre("16", "64"));
  EXPECT_THAT(columns[2].categories, ElementsAre("gelu", "relu"));
  EXPECT_TRUE(std::isnan(columns[3].values[1])) << "absent";
  const auto guessed = parameter_columns(pointers(trials), "");
  EXPECT_FALSE(guessed[0].log) << "less than a thousand times";
  EXPECT_TRUE(guessed[1].categories.empty()) << "a number";
}

TEST(JournalPlots, EveryStartedAttemptIsABarAndEveryJudgedTrialADot) {
  const JournalContents journal = testing::simulated_journal({});
  const auto bars = attempts_of(journal);
  EXPECT_EQ(bars.size(), 12U);
  size_t stopped = 0;
  for (const auto& bar : bars) {
    EXPECT_LE(bar.begin_s, bar.end_s);
    stopped += bar.status == TrialStatus::kStopped;
    EXPECT_TRUE(bar.status == TrialStatus::kStopped || bar.status == TrialStatus::kFinished) << bar.tip;
  }
  const auto rungs = rungs_of(journal);
  ASSERT_EQ(rungs.size(), 2U) << "at 1 and at 3 of 9 steps";
  EXPECT_EQ(rungs[0].members.size(), 12U);
  size_t fell = 0;
  for (const auto& rung : rungs) {
    for (const auto& member : rung.members) fell += member.act == Act::kStopped;
  }
  EXPECT_EQ(fell, stopped);
}

}  // namespace
}  // namespace volador::tune
