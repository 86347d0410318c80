// Typical user errors and the resulting messages.
#include <gmock/gmock.h>

#include "run_in_process.h"
#include "tune/results/experiment_journal.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

void goes_up(const Config&) {
  for (int step = 1; step <= 3; ++step) report({{"accuracy", step}, {"loss", 1.0 / step}});
}

class BadInput : public RunInProcess {
 protected:
  // Returns the error before anything starts.
  std::string told(RunOptions options, ErrorCode code = ErrorCode::kInvalidArgument) {
    if (!session_) start_cluster(4);
    const auto spawned = session_->spawned();
    const auto analysis = run(with_parameters<goes_up>(), std::move(options));
    if (analysis) return "not refused";
    EXPECT_EQ(analysis.error().code, code) << analysis.error().message;
    EXPECT_EQ(session_->spawned(), spawned) << analysis.error().message;
    EXPECT_TRUE(fs::is_empty(directory_.path())) << analysis.error().message;
    if (std::getenv("SHOW") != nullptr) std::printf("%s\n", analysis.error().message.c_str());
    return analysis.error().message;
  }
  static Space space() { return {{"lr", uniform(0, 1)}}; }
};

TEST_F(BadInput, AMetricThatIsNotGivenWhereTrialsAreCompared) {
  EXPECT_THAT(told({.space = space(), .scheduler = asha()}), AllOf(HasSubstr("metric"), HasSubstr("asha")));
  EXPECT_THAT(told({.space = space(), .searcher = tpe()}), AllOf(HasSubstr("metric"), HasSubstr("TPE")));
}

TEST_F(BadInput, AMetricThatNoTrialReports) {
  const auto analysis = run(with_parameters<goes_up>(), {.space = space(), .metric = "acuracy", .scheduler = asha()});
  ASSERT_FALSE(analysis);
  EXPECT_THAT(analysis.error().message, AllOf(HasSubstr("\"acuracy\""), HasSubstr("accuracy, loss")));
}

TEST_F(BadInput, ABudgetSmallerThanTheGracePeriod) {
  EXPECT_THAT(told({.space = space(), .metric = "loss", .scheduler = asha({.grace_period = 10, .max_t = 5})}),
              AllOf(HasSubstr("max_t"), HasSubstr("10"), HasSubstr("5")));
  EXPECT_THAT(told({.space = space(), .metric = "loss", .scheduler = asha({.grace_period = 0})}),
              HasSubstr("grace_period"));
  EXPECT_THAT(told({.space = space(), .metric = "loss", .scheduler = hyperband({.max_t = 0})}), HasSubstr("max_t"));
  // Trials that end before the first rung are never compared: the run works, with a notice.
  const auto analysis = run(with_parameters<goes_up>(), {.space = space(),
                                                         .metric = "loss",
                                                         .scheduler = asha({.grace_period = 10, .max_t = 100}),
                                                         .stop = max_steps(2)});
  ASSERT_TRUE(analysis) << analysis.error().message;
  EXPECT_THAT(analysis->notices(), Contains(AllOf(HasSubstr("grace_period 10"), HasSubstr("2"))));
}

TEST_F(BadInput, AParameterThatIsThereTwice) {
  EXPECT_THAT(told({.space = {{"lr", uniform(0, 1)}, {"lr", uniform(0, 2)}}}),
              AllOf(HasSubstr("lr"), HasSubstr("twice")));
  EXPECT_THAT(told({.space = {{"model", {{"width", 1}, {"width", 2}}}}}),
              AllOf(HasSubstr("model.width"), HasSubstr("twice")));
}

TEST_F(BadInput, DomainsThatHaveNothingToDraw) {
  EXPECT_THAT(told({.space = {{"model", {{"kind", choice(std::vector<SpaceNode>{})}}}}}),
              AllOf(HasSubstr("model.kind"), HasSubstr("choice")));
  EXPECT_THAT(told({.space = {{"kind", grid_search(std::vector<SpaceNode>{})}}}),
              AllOf(HasSubstr("kind"), HasSubstr("grid_search")));
  EXPECT_THAT(told({.space = {{"lr", loguniform(0, 1)}}}), AllOf(HasSubstr("lr"), HasSubstr("0")));
  EXPECT_THAT(told({.space = {{"lr", uniform(1, 0)}}}), AllOf(HasSubstr("lr"), HasSubstr("1"), HasSubstr("0")));
  EXPECT_THAT(told({.space = {{"n", lograndint(0, 10)}}}), HasSubstr("n"));
  EXPECT_THAT(told({.space = {{"n", quniform(0, 1, 0.3)}}}), AllOf(HasSubstr("n"), HasSubstr("0.3")));
  EXPECT_THAT(told({.space = {{"n", quniform(0, 1, 0)}}}), HasSubstr("n"));
}

TEST_F(BadInput, StoppersThatContradictEachOther) {
  EXPECT_THAT(told({.space = space(), .stop = {{"training_iteration", 3}, {"training_iteration", 5}}}),
              HasSubstr("after 3 steps and after 5 steps"));
  EXPECT_THAT(told({.space = space(), .stop = any_of({max_steps(3), {{"training_iteration", 5}}})}),
              HasSubstr("after 3 steps and after 5 steps"));
  EXPECT_THAT(told({.space = space(), .stop = any_of({at_least("loss", 1), at_least("loss", 2)})}),
              AllOf(HasSubstr("stop.loss"), HasSubstr("always reached first")));
  EXPECT_THAT(told({.space = space(), .stop = any_of({at_least("loss", 1), at_most("loss", 2)})}),
              HasSubstr("each trial would end with its first result"));
  EXPECT_THAT(told({.space = space(), .stop = max_steps(0)}), HasSubstr("steps"));
  EXPECT_TRUE(run(with_parameters<goes_up>(),
                  {.space = space(), .stop = any_of({at_least("loss", 2), at_most("loss", 0.4)})}));  // Outside a band.
}

TEST_F(BadInput, ASearcherThatCannotDoWhatTheSpaceAsks) {
  const auto drawn = sample_from([](const Config&) { return Config(1); });
  for (const SearcherFactory& factory : {tpe(), gp(), cmaes()}) {
    const std::string message = told({.space = {{"lr", uniform(0, 1)}, {"x", randn(0, 1)}, {"drawn", drawn}},
                                      .metric = "loss",
                                      .searcher = factory});
    EXPECT_THAT(message, ::testing::AnyOf("not refused", HasSubstr("x"), HasSubstr("drawn")));
    fs::remove_all(directory_.path());
    fs::create_directories(directory_.path());
  }
  EXPECT_THAT(
      told({.space = space(), .objectives = {{"loss", Mode::kMin}, {"accuracy", Mode::kMax}}, .searcher = cmaes()}),
      HasSubstr("nsga2"));
  EXPECT_THAT(told({.space = {{"lr", grid_search({1, 2})}}, .searcher = points_to_evaluate({{{"lr", 1}}})}),
              HasSubstr("grid_search"));
}

TEST_F(BadInput, AFolderThatIsNoRunOrOfAnotherVersion) {
  const auto message = [&](const fs::path& folder) {
    const auto analysis = run(with_parameters<goes_up>(), {.space = space(), .resume = folder});
    return analysis ? "not refused" : analysis.error().message;
  };
  EXPECT_THAT(message(directory_.path() / "nowhere"), AllOf(HasSubstr("resume"), HasSubstr("nowhere")));
  write_text(directory_.path() / "odd" / "journal.vlj", "this is no journal");
  EXPECT_THAT(message(directory_.path() / "odd"), AllOf(HasSubstr("resume"), HasSubstr("odd")));
  std::string later = "VLJRNL01";
  append_journal_record(later, JournalHeader{.version = 99, .name = "later"});
  write_text(directory_.path() / "later" / "journal.vlj", later);
  EXPECT_THAT(message(directory_.path() / "later"), AllOf(HasSubstr("99"), HasSubstr("version")));
}

void goes_down(const Config&) { report({{"loss", 1}}); }

TEST_F(BadInput, ARunGoesOnWithItsOwnTrainableOnly) {
  const auto first = run(with_parameters<goes_up>(), {.name = "mine"});
  ASSERT_TRUE(first);
  const auto other = run(with_parameters<goes_down>(), {.resume = first->directory()});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(other.error().message,
              AllOf(HasSubstr("goes_up"), HasSubstr("this program runs"), HasSubstr("goes_down")));
}

TEST_F(BadInput, ARunGoesOnWithItsOwnSpaceOnly) {
  const auto first = run(with_parameters<goes_up>(), {.space = {{"lr", uniform(0, 1)}, {"width", 3}}});
  ASSERT_TRUE(first);
  const auto other =
      run(with_parameters<goes_up>(), {.space = {{"lr", uniform(0, 2)}, {"width", 3}}, .resume = first->directory()});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message,
              AllOf(HasSubstr("space"), HasSubstr("it was \"lr uniform(0, 1)\", now it is \"lr uniform(0, 2)\"")));
}

TEST_F(BadInput, OptionsOutOfRange) {
  EXPECT_THAT(told({.num_samples = 0}), AllOf(HasSubstr("num_samples"), HasSubstr("-1 for no end")));
  EXPECT_THAT(told({.max_concurrent_trials = -1}), HasSubstr("max_concurrent_trials"));
  EXPECT_THAT(told({.time_budget = std::chrono::seconds(-1)}), HasSubstr("time_budget"));
  EXPECT_THAT(told({.max_failures = -2}), HasSubstr("max_failures"));
  EXPECT_THAT(told({.retry_backoff = std::chrono::seconds(-1)}), HasSubstr("retry_backoff"));
  EXPECT_THAT(told({.retry_backoff = std::chrono::hours(1)}),
              AllOf(HasSubstr("retry_backoff"), HasSubstr("retry_backoff_max")));
  EXPECT_THAT(told({.checkpoint = {.frequency = -1}}), HasSubstr("checkpoint.frequency"));
  EXPECT_THAT(told({.checkpoint = {.num_to_keep = -1}}), HasSubstr("checkpoint.num_to_keep"));
  EXPECT_THAT(told({.artifact_bytes_max = -1}), HasSubstr("artifact_bytes_max"));
  EXPECT_THAT(told({.name = "a/b"}), HasSubstr("name"));
}

}  // namespace
}  // namespace volador::tune
