#include "tune/results/replay_audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_directory.h"
#include "tests/tune/simulated_journal.h"
#include "tune/execution/start_order.h"
#include "tune/results/experiment_resume.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

ReplayReport audited(const JournalContents& journal, const AshaOptions& options, uint64_t seed = 5) {
  auto recording = std::make_unique<RecordingSearcher>(
      random_search()({.space = testing::kJournalSpace, .num_samples = 12, .seed = seed}).value(),
      recorded_suggestions(journal.records), 12);
  RecordingSearcher& searcher = *recording;
  auto loop =
      TrialLoop::create({.metric = "accuracy", .trial_key = 5, .max_failures = -1, .checkpoint = {.frequency = 1}},
                        std::move(recording), asha(options)({.metric = "accuracy", .seed = 5}).value())
          .value();
  return audit_replay(journal, *loop, searcher);
}

TEST(ReplayAudit, FindsNothingWhereNothingChanged) {
  for (const double crash : {0.0, 0.2}) {
    const ReplayReport report =
        audited(testing::simulated_journal({.crash = crash}), {.max_t = 9, .reduction_factor = 3});
    EXPECT_EQ(report.differences, 0) << (report.shown.empty() ? "" : report.shown.front());
    EXPECT_EQ(report.suggestions, 12);
    EXPECT_GE(report.decisions, 12);
    EXPECT_GT(report.events, 30);
  }
}

TEST(ReplayAudit, NamesTheDecisionsOfAnotherScheduler) {
  const ReplayReport report = audited(testing::simulated_journal({}), {.max_t = 9, .reduction_factor = 2});
  EXPECT_GT(report.differences, 0);
  ASSERT_FALSE(report.shown.empty());
  EXPECT_THAT(report.shown.front(), HasSubstr("; now it would be "));
}

TEST(ReplayAudit, NamesTheSuggestionsOfAnotherSearcher) {
  const ReplayReport report = audited(testing::simulated_journal({}), {.max_t = 9, .reduction_factor = 3}, 6);
  EXPECT_EQ(report.differences, 12) << "each suggestion, and no decision: those are of what ran";
  EXPECT_THAT(report.shown.front(), HasSubstr("number 1: {\"lr\":"));
}

TEST(ReplayAudit, TravelsAsJson) {
  const ReplayReport report{.events = 3, .suggestions = 2, .decisions = 1, .differences = 1, .shown = {"a \"b\""}};
  const auto back = ReplayReport::from_json(report.to_json()).value();
  EXPECT_EQ(back.events, 3);
  EXPECT_EQ(back.shown, report.shown);
  EXPECT_FALSE(ReplayReport::from_json("{\"events\":").has_value());
}

TEST(StartOrders, NameTheProgramThatWroteLast) {
  JournalContents journal;
  EXPECT_THAT(program_of(journal, "/r").error().message, HasSubstr("start the program yourself with .resume = \"/r\""));
  journal.records = {JournalProgram{.executable = "/a"},
                     JournalProgram{.executable = "/b", .working_directory = "/", .hostname = "heron"}};
  EXPECT_EQ(program_of(journal, "/r").value().executable, "/b");
  const Error gone =
      check_startable({.executable = "/nowhere/b", .working_directory = "/", .hostname = "heron"}).error();
  EXPECT_EQ(gone.code, ErrorCode::kNotFound);
  EXPECT_THAT(gone.message, HasSubstr("/nowhere/b on heron"));
}

TEST(StartOrders, StartAProgramInItsFolderWithItsArguments) {
  volador::TemporaryDirectory folder;
  const JournalProgram program{
      .executable = "/bin/sh", .arguments = {"sh", "-c", "pwd; echo $MEANT; exit 3"}, .working_directory = "/"};
  const int status = start_and_wait(program, {{"MEANT", "this run"}}, folder.path() / "output").value();
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_EQ(read_file(folder.path() / "output", 100).value(), "/\nthis run\n");
}

}  // namespace
}  // namespace volador::tune
