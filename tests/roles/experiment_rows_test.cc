#include "volador/roles/experiment_rows.h"

#include <gtest/gtest.h>

#include "runtime/ids.h"

namespace volador {
namespace {

v1::ExperimentInfo info_of(const std::string& name, int64_t id = 12) {
  v1::ExperimentInfo info;
  info.set_name(name);
  info.set_id(id);
  return info;
}

experiments::MetricReport report_of(const std::string& group, int64_t batches, const std::string& name, double value) {
  return {.experiment = 1,
          .trial = 2,
          .group = group,
          .batches = batches,
          .time_ms = 1000 * batches,
          .values = {{name, value}}};
}

TEST(ExperimentRows, RunsHaveNamesThatTheHeadTakesAndTheirIdAtTheEnd) {
  EXPECT_EQ(run_name_of(info_of("digits")), "digits-12");
  EXPECT_EQ(run_name_of(info_of("a / b\tc.d-e_f")), "a_b_c.d-e_f-12");
  EXPECT_EQ(run_name_of(info_of("")), "experiment-12");
  EXPECT_EQ(run_name_of(info_of("数字")), "experiment_-12");
  EXPECT_EQ(run_name_of(info_of("--")), "experiment---12");
  v1::ExperimentInfo renamed = info_of("other");
  renamed.set_run("digits-12");
  EXPECT_EQ(run_name_of(renamed), "digits-12");
  for (const char* name : {"digits", "a-3", "", "7"})
    EXPECT_EQ(experiment_of_run(run_name_of(info_of(name))), 12) << name;
  EXPECT_EQ(experiment_of_run("digits"), std::nullopt);
  EXPECT_EQ(experiment_of_run("digits-"), std::nullopt);
  EXPECT_EQ(experiment_of_run("digits-1x"), std::nullopt);
  EXPECT_EQ(trial_of_row(trial_row_id(17)), 17);
  EXPECT_EQ(trial_of_row("17"), std::nullopt);
}

TEST(ExperimentRows, RunsOfTrialsAreRead) {
  const auto run = trial_run_of("17.3");
  ASSERT_TRUE(run);
  EXPECT_EQ(run->trial, 17);
  EXPECT_EQ(run->run, 3);
  for (const char* text : {"", "17", "17.", ".3", "a.3", "17.3.1", "-1.3"}) EXPECT_FALSE(trial_run_of(text)) << text;
}

TEST(ExperimentRows, StatesAreThoseOfTheHeadsList) {
  const auto state_of = [](const char* state) {
    v1::ExperimentInfo info = info_of("a");
    info.set_state(state);
    return experiment_update(info, 0).state();
  };
  EXPECT_EQ(state_of("ACTIVE"), "running");
  EXPECT_EQ(state_of("STOPPING_CANCELED"), "running");
  EXPECT_EQ(state_of("PAUSED"), "paused");
  EXPECT_EQ(state_of("COMPLETED"), "finished");
  EXPECT_EQ(state_of("CANCELED"), "interrupted");
  EXPECT_EQ(state_of("ERROR"), "failed");
  EXPECT_EQ(state_of("DELETING"), "");
}

TEST(ExperimentRows, ATrialHasTheStatusOfItsJob) {
  v1::TrialInfo trial;
  trial.set_id(17);
  trial.set_state("ACTIVE");
  trial.set_hparams(R"({"lr":0.1})");
  trial.set_metrics(R"({"loss":0.5,"note":"good"})");
  EXPECT_EQ(trial_row(trial, nullptr).status(), "waiting");
  v1::Job job;
  job.set_state("queued");
  TrialPlace place = place_of(job, 1);
  EXPECT_EQ(trial_row(trial, &place).status(), "waiting");
  job.set_state("running");
  v1::JobRank& rank = *job.add_ranks();
  rank.set_node("east");
  rank.set_actor("000102030405060708090a0b0c0d0e0f");
  place = place_of(job, 1);
  EXPECT_EQ(trial_row(trial, &place).status(), "starting");
  trial.set_started_ms(5);
  const protocol::TrialRow row = trial_row(trial, &place);
  EXPECT_EQ(row.status(), "running");
  EXPECT_EQ(row.trial_id(), "trial-17");
  EXPECT_EQ(row.node_name(), "east");
  EXPECT_EQ(to_string(id_from_raw<ActorId>(row.actor_id())), rank.actor());
  EXPECT_EQ(row.config_json(), R"({"lr":0.1})");
  ASSERT_EQ(row.metrics().size(), 1U);
  EXPECT_EQ(row.metrics().at("loss"), 0.5);
  trial.set_state("ERROR");
  trial.set_reason("exited with code 1");
  trial.set_ended_ms(9);
  EXPECT_EQ(trial_row(trial, &place).status(), "failed");
  EXPECT_EQ(trial_row(trial, &place).error(), "exited with code 1");
  EXPECT_EQ(trial_row(trial, &place).ended_ms(), 9);
}

TEST(ExperimentRows, PlannedTrialsAreThoseOfTheSearcher) {
  EXPECT_EQ(planned_trials(R"({"searcher":{"name":"random","max_trials":7}})"), 7);
  EXPECT_EQ(planned_trials(R"({"searcher":{"name":"single"}})"), 1);
  EXPECT_EQ(planned_trials(R"({"searcher":{"name":"grid"}})"), 0);
  EXPECT_EQ(planned_trials("{}"), 0);
  EXPECT_EQ(planned_trials(""), 0);
}

TEST(TrialPoints, ReportsOfOneStepMakeOnePoint) {
  TrialPoints points;
  points.add(report_of("training", 100, "loss", 0.5), 1000);
  EXPECT_TRUE(points.take(false).empty()) << "a validation may follow";
  points.add(report_of("validation", 100, "loss", 0.6), 1000);
  const auto both = points.take(false);
  ASSERT_EQ(both.size(), 1U);
  EXPECT_EQ(both[0].step(), 100);
  EXPECT_EQ(both[0].time_s(), 99);
  EXPECT_EQ(both[0].metrics().at("loss"), 0.6);
  EXPECT_EQ(both[0].metrics().at("training_loss"), 0.5);
  points.add(report_of("training", 200, "loss", 0.4), 1000);
  points.add(report_of("training", 300, "loss", 0.3), 1000);
  EXPECT_EQ(points.take(false).size(), 1U);
  EXPECT_EQ(points.take(true).size(), 1U);
  EXPECT_TRUE(points.take(true).empty());
}

TEST(TrialPoints, StepsGrowAndBeginAboveZero) {
  TrialPoints points;
  points.add(report_of("validation", 0, "loss", 1), 0);
  points.add(report_of("training", 200, "loss", 0.4), 0);
  points.add(report_of("training", 100, "loss", 0.4), 0);
  const auto all = points.take(true);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].step(), 200);
}

TEST(ExperimentRows, UpdatesHaveTheRungsAndTheTimeLeft) {
  protocol::ExperimentUpdate update;
  fill(update, {.rungs = {{.bracket = 1,
                           .length = 16,
                           .trials = 3,
                           .passed = 1,
                           .awaited = 2,
                           .cutoff = 0.5,
                           .members = {{17, 0.25, "passed"}, {18, 0.75, "paused"}}}},
                .left = {{.seconds = 60, .low = 30, .high = 90}}});
  ASSERT_EQ(update.rungs_size(), 1);
  EXPECT_EQ(update.rungs(0).milestone(), 16);
  EXPECT_EQ(update.rungs(0).bracket(), 1);
  EXPECT_EQ(update.rungs(0).trials(), 3);
  EXPECT_EQ(update.rungs(0).awaited(), 2);
  EXPECT_EQ(update.rungs(0).state(), "open");
  EXPECT_EQ(update.rungs(0).members(1).trial(), "trial-18");
  EXPECT_EQ(update.rungs(0).members(1).act(), "paused");
  EXPECT_EQ(update.left().high(), 90);
  protocol::ExperimentUpdate unknown;
  fill(unknown, {});
  EXPECT_FALSE(unknown.has_left());
}

}  // namespace
}  // namespace volador
