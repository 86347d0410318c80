#include "experiments/core/trial_plan.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace volador::experiments {
namespace {

using json = nlohmann::json;

ValidationCheckpoint policy_from(const std::string& name) {
  return name == "best"  ? ValidationCheckpoint::kBest
         : name == "all" ? ValidationCheckpoint::kAll
                         : ValidationCheckpoint::kNone;
}

// A trial whose steps are interrupted by events at their numbers; it resumes from its checkpoint after a preemption.
class PlannedTrial {
 public:
  explicit PlannedTrial(const json& one)
      : options_{.scheduling_unit = one[1],
                 .validation_period = one[2],
                 .checkpoint_period = one[3],
                 .initial_validation = one[4],
                 .checkpoint_policy = policy_from(one[0])},
        lengths_(one[5].get<std::vector<int64_t>>()),
        metrics_(one[6].get<std::vector<double>>()) {
    for (const auto& [step, event] : one[7].items()) events_[std::stoi(step)] = event;
  }

  std::string run() {
    for (int runs = 1;; ++runs) {
      const std::string ended = run_once();
      steps_ += ended.empty() ? "E" : "X";
      if (ended != "preempt" || runs == 6) return steps_;
      steps_ += " ";
    }
  }

 private:
  std::string run_once() {
    TrialPlan plan(options_, saved_, reported_);
    std::string ended;
    const auto asks = [&] {
      if (next_ < lengths_.size())
        plan.ask(lengths_[next_]);
      else
        plan.close();
    };
    asks();
    while (const auto step = plan.next()) {
      EXPECT_EQ(plan.next(), step);
      EXPECT_EQ(plan.state(), TrialPlan::State::kRuns);
      const auto event = events_.find(step_++);
      const std::string kind = event == events_.end() ? "" : event->second;
      if (!kind.empty()) ended = kind;
      if (kind == "preempt") plan.preempt();
      StepResult result{.invalid_hp = kind == "invalid", .stop_requested = kind == "stop", .experiment_best = best_};
      if (step->kind == TrialStep::Kind::kTrain) steps_ += "T" + std::to_string(step->batches) + " ";
      if (step->kind == TrialStep::Kind::kCheckpoint) steps_ += "C ";
      if (step->kind == TrialStep::Kind::kValidate) {
        steps_ += "V ";
        result.metric = metrics_[validations_++ % metrics_.size()];
      }
      const bool completed = plan.done(result);
      if (step->kind == TrialStep::Kind::kCheckpoint) saved_ = plan.progress();
      if (step->kind == TrialStep::Kind::kValidate && !result.invalid_hp) {
        reported_ = plan.progress().batches;
        best_ = best_ ? std::min(*best_, result.metric) : result.metric;
      }
      if (!completed) continue;
      ++next_;
      asks();
    }
    EXPECT_EQ(plan.state(), TrialPlan::State::kExited);
    return ended;
  }

  const TrialPlanOptions options_;
  const std::vector<int64_t> lengths_;
  const std::vector<double> metrics_;
  std::map<int, std::string> events_;
  size_t next_ = 0, validations_ = 0;
  int step_ = 0;
  TrialProgress saved_;
  std::optional<int64_t> reported_;
  std::optional<double> best_;
  std::string steps_;
};

// T100: trains 100 batches, V: validates, C: saves a checkpoint, X: exits early, E: ends.
TEST(TrialPlans, AreThoseOfEveryCase) {
  std::ifstream in("tests/experiments/core/data/trial_plans.json");
  const json cases = json::parse(in);
  size_t checked = 0;
  for (const json& one : cases) {
    ASSERT_EQ(PlannedTrial(one).run(), one[8].get<std::string>()) << one.dump();
    ++checked;
  }
  EXPECT_EQ(checked, 162U);
}

TEST(TrialPlans, ReportEverySchedulingUnit) {
  TrialPlan plan({.scheduling_unit = 100});
  plan.ask(1000);
  int reports = 0;
  for (; plan.next() && plan.next()->kind == TrialStep::Kind::kTrain; plan.done({})) ++reports;
  EXPECT_EQ(reports, 10);
  EXPECT_EQ(plan.next(), (TrialStep{TrialStep::Kind::kCheckpoint, 0, 1000}));
  plan.done({});
  EXPECT_EQ(plan.next(), (TrialStep{TrialStep::Kind::kValidate, 0, 1000}));
  EXPECT_TRUE(plan.done({.metric = 1})) << "the length is complete";
  EXPECT_FALSE(plan.next());
  EXPECT_EQ(plan.state(), TrialPlan::State::kWaits);
  EXPECT_FALSE(plan.done({})) << "there is no step";
  plan.ask(1000);  // The same length again: only a validation.
  EXPECT_EQ(plan.next()->kind, TrialStep::Kind::kValidate);
  EXPECT_TRUE(plan.done({}));
  plan.close();
  EXPECT_FALSE(plan.next());
  EXPECT_EQ(plan.state(), TrialPlan::State::kExited);
}

TEST(TrialPlans, AWaitingTrialIsPreemptedAtOnce) {
  TrialPlan plan({});
  EXPECT_EQ(plan.state(), TrialPlan::State::kWaits);
  plan.preempt();
  EXPECT_FALSE(plan.next());
  EXPECT_EQ(plan.state(), TrialPlan::State::kExited);
}

TEST(TrialPlans, AValidationAfterTheCheckpointIsDoneAgain) {
  // Preempted at 150 with a checkpoint at 100; the validation at 150 is lost with the work.
  TrialPlan plan({.scheduling_unit = 50, .validation_period = 150}, {.batches = 100, .last_checkpoint = 100}, 150);
  plan.ask(300);
  std::string steps;
  while (const auto step = plan.next()) {
    steps += step->kind == TrialStep::Kind::kTrain ? 'T' : step->kind == TrialStep::Kind::kValidate ? 'V' : 'C';
    plan.done({.metric = 1, .experiment_best = 0.5});
  }
  EXPECT_EQ(steps, "TVTTTVC");
}

}  // namespace
}  // namespace volador::experiments
