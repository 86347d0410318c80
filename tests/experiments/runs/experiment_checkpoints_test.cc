// Metrics and checkpoints that trials report: best ones, warm starts, retention, deletion.
#include <algorithm>

#include "tests/experiments/runs/experiment_harness.h"

namespace volador::experiments {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

void begin_trial(ExperimentHarness& cluster, const std::string& config = single_config()) {
  cluster.create(config);
  cluster.run_job(1);
  ASSERT_TRUE(cluster.start_run(1, 1));
}

std::vector<std::string> ids_in(const std::vector<v1::CheckpointInfo>& all, const std::string& state) {
  std::vector<std::string> ids;
  for (const v1::CheckpointInfo& one : all) {
    if (one.state() == state) ids.push_back(one.id());
  }
  return ids;
}

TEST(ExperimentMetrics, ValidationsNeedTheSearchersMetric) {
  ExperimentHarness cluster;
  begin_trial(cluster);
  const auto refused = cluster.report(1, 1, "validation", 10, R"({"accuracy": 0.5, "top": {"five": 0.9}})");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            "trial 1: the validation metrics lack \"loss\", the searcher's metric; they have: accuracy, top.five");
  EXPECT_TRUE(cluster.report(1, 1, "training", 10, R"({"accuracy": 0.5})")) << "those of training need not have it";
  EXPECT_FALSE(cluster.report(1, 1, "training", 10, "[1]"));
  EXPECT_FALSE(cluster.report(1, 1, "", 10, "{}"));
  EXPECT_FALSE(cluster.report(1, 1, "training", -1, "{}"));
}

TEST(ExperimentMetrics, BestIsThatOfValidations) {
  ExperimentHarness cluster;
  begin_trial(cluster);
  const auto first = cluster.report(1, 1, "validation", 10, R"({"loss": 0.5, "note": "text"})");
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(first->has_experiment_best());
  EXPECT_EQ(cluster.report(1, 1, "validation", 20, R"({"loss": "nan"})")->experiment_best(), 0.5);
  EXPECT_EQ(cluster.report(1, 1, "validation", 30, R"({"loss": 0.75})")->experiment_best(), 0.5);
  EXPECT_EQ(cluster.trial(1).best_metric(), 0.5);
  EXPECT_EQ(cluster.trial(1).latest_metric(), 0.75);
  EXPECT_EQ(cluster.info(1).best_metric(), 0.5);
  ASSERT_EQ(cluster.metrics.size(), 3u);
  EXPECT_THAT(cluster.metrics[0].values, ElementsAre(testing::Pair("loss", 0.5)));
  EXPECT_EQ(cluster.metrics[0].time_ms, cluster.now);
}

TEST(ExperimentOperations, NameWhatTheSearchAsks) {
  ExperimentHarness cluster;
  begin_trial(cluster);
  EXPECT_EQ(cluster.core().operation(1, 1, kAda).value()->length(), 30);
  EXPECT_EQ(cluster.trial(1).searched_length(), 30);
  EXPECT_EQ(cluster.complete(1, 1, 20, 0.5).error().message, "length 20: the search asks trial 1 for 30");
  ASSERT_TRUE(cluster.complete(1, 1, 30, 0.5));
  EXPECT_TRUE(cluster.complete(1, 1, 30, 0.5)) << "a repeated completion";
  EXPECT_TRUE(cluster.core().operation(1, 1, kAda).value()->no_more());
  EXPECT_FALSE(cluster.complete(1, 1, 40, 0.5));
  EXPECT_EQ(cluster.trial(1).state(), "STOPPING_COMPLETED");
}

TEST(ExperimentProgress, IsThatOfTheSearch) {
  ExperimentHarness cluster;
  begin_trial(cluster);
  v1::ReportProgressRequest progress;
  progress.set_trial(1);
  progress.set_run(1);
  progress.set_progress(15);
  ASSERT_TRUE(cluster.core().report_progress(progress, kAda, cluster.now));
  EXPECT_EQ(cluster.info(1).progress(), 0.5);
  EXPECT_EQ(cluster.trial(1).progress(), 0.5);
  progress.set_progress(-1);
  EXPECT_FALSE(cluster.core().report_progress(progress, kAda, cluster.now));
}

TEST(ExperimentCheckpoints, HaveTheMetricOfTheirBatches) {
  ExperimentHarness cluster;
  begin_trial(cluster);
  ASSERT_TRUE(cluster.report(1, 1, "validation", 10, R"({"loss": 0.5})"));
  ASSERT_TRUE(cluster.checkpoint(1, 1, "aaaa-1", 10));
  ASSERT_TRUE(cluster.checkpoint(1, 1, "aaaa-2", 20));
  ASSERT_TRUE(cluster.report(1, 1, "validation", 20, R"({"loss": 0.75})"));
  const auto of = [&](const std::string& id) { return cluster.core().checkpoint(id, kBob); };
  EXPECT_EQ(of("aaaa-1")->metric(), 0.5);
  EXPECT_EQ(of("aaaa-2")->metric(), 0.75);
  EXPECT_EQ(of("aaaa-2")->storage(), "/shared/checkpoints/aaaa-2");
  EXPECT_EQ(of("aaaa-2")->bytes(), 1000);
  EXPECT_EQ(cluster.trial(1).best_checkpoint(), "aaaa-1");
  EXPECT_EQ(cluster.trial(1).latest_checkpoint(), "aaaa-2");
  EXPECT_EQ(of("aaaa").error().code, ErrorCode::kNotFound);
  EXPECT_THAT(of("aaaa").error().message, HasSubstr("several checkpoints"));
  ASSERT_TRUE(cluster.checkpoint(1, 1, "bbbb-1", 30));
  EXPECT_EQ(of("bbbb")->id(), "bbbb-1") << "the start is enough";
  EXPECT_FALSE(of("bbb")) << "but not a short one";
  EXPECT_TRUE(cluster.checkpoint(1, 1, "bbbb-1", 30)) << "a repeated report";
  EXPECT_EQ(cluster.info(1).checkpoints(), 3);
  EXPECT_EQ(cluster.info(1).checkpoint_bytes(), 3000);
  EXPECT_FALSE(cluster.checkpoint(1, 1, "../etc", 30));
  // A run that goes on from an earlier checkpoint has other metrics at the same batches.
  EXPECT_THAT(cluster.checkpoints(1).front().id(), "bbbb-1");
}

TEST(ExperimentWarmStart, TrialsBeginWithACheckpointOfAnother) {
  ExperimentHarness cluster;
  begin_trial(cluster);
  ASSERT_TRUE(cluster.checkpoint(1, 1, "source-1", 10));
  ASSERT_TRUE(cluster.checkpoint(1, 1, "source-2", 20));
  cluster.change(1, "kill");
  const auto warm = [](const std::string& source) {
    return "name: warm\nentrypoint: python3 train.py\nhyperparameters: {global_batch_size: 8}\n"
           "searcher: {name: single, metric: loss, max_length: {batches: 30}, " +
           source + "}\n";
  };
  EXPECT_THAT(cluster.refused(warm("source_trial_id: 9")).message,
              HasSubstr("searcher.source_trial_id: there is no trial 9"));
  EXPECT_THAT(cluster.refused(warm("source_checkpoint_uuid: absent")).message,
              HasSubstr("searcher.source_checkpoint_uuid: there is no checkpoint"));
  cluster.create(warm("source_trial_id: 1"));
  EXPECT_EQ(cluster.trial(2).warm_start_trial(), 1);
  EXPECT_EQ(cluster.trial(2).warm_start_checkpoint(), "source-2");
  cluster.run_job(2);
  const auto start = cluster.start_run(2, 1);
  ASSERT_TRUE(start.has_value());
  EXPECT_EQ(start->latest_checkpoint(), "source-2");
  EXPECT_EQ(start->batches(), 0);
  EXPECT_EQ(start->env().at("DET_LATEST_CHECKPOINT"), "source-2");
  EXPECT_EQ(start->env().at("DET_STEPS_COMPLETED"), "0");
  // Its own checkpoint replaces it.
  ASSERT_TRUE(cluster.checkpoint(2, 1, "own-1", 10));
  cluster.end_job(2, "failed", "exited with code 1");
  cluster.run_job(2);
  EXPECT_EQ(cluster.start_run(2, 2)->latest_checkpoint(), "own-1");
  EXPECT_EQ(cluster.rewinds.back().batches, 10);

  // A checkpoint that was in use stays, whatever the policy keeps, and its experiment too.
  EXPECT_THAT(cluster.change(1, "delete").error().message,
              HasSubstr("experiment 2, which is ACTIVE, starts its trials"));
  v1::EditExperimentRequest edit;
  edit.set_id(1);
  edit.set_save_trial_latest(0);
  edit.set_save_trial_best(0);
  ASSERT_TRUE(cluster.core().edit(edit, kAda, cluster.now));
  cluster.settle();
  EXPECT_THAT(ids_in(cluster.checkpoints(1), "DELETING"), ElementsAre("source-1"));
  EXPECT_THAT(ids_in(cluster.checkpoints(1), "COMPLETED"), ElementsAre("source-2"));
}

TEST(ExperimentWarmStart, ContinuesTheTrialOfAnExperiment) {
  ExperimentHarness cluster;
  v1::CreateExperimentRequest request;
  request.set_config(single_config());
  request.set_files_sha256(std::string(64, 'a'));
  cluster.create(request);
  cluster.run_job(1);
  ASSERT_TRUE(cluster.start_run(1, 1));
  ASSERT_TRUE(cluster.checkpoint(1, 1, "source-1", 20));
  cluster.change(1, "kill");
  request.clear_files_sha256();
  request.set_parent(1);
  request.set_continues(true);
  cluster.create(request);
  EXPECT_EQ(cluster.info(2).parent(), 1);
  EXPECT_EQ(cluster.info(2).files_sha256(), std::string(64, 'a')) << "the code of its parent";
  EXPECT_EQ(cluster.job_of(2).shown.spec().files_sha256(), std::string(64, 'a'));
  EXPECT_TRUE(cluster.core().needs_files(std::string(64, 'a')));
  cluster.run_job(2);
  EXPECT_EQ(cluster.start_run(2, 1)->batches(), 20);
  request.set_config(random_config(2));
  EXPECT_THAT(cluster.core().create(request, kAda, {"t", "t"}, cluster.view, cluster.now).error().message,
              HasSubstr("only an experiment with one trial can be continued"));
}

// ---- retention ----

// A trial with three checkpoints, the second of which is the best.
void end_with_three(ExperimentHarness& cluster, const std::string& more = {}) {
  begin_trial(cluster, single_config(more));
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(cluster.checkpoint(1, 1, "keep-" + std::to_string(i), 10 * i));
    ASSERT_TRUE(cluster.report(1, 1, "validation", 10 * i, "{\"loss\": " + std::to_string(i == 2 ? 0.1 : 0.5) + "}"));
  }
  ASSERT_TRUE(cluster.complete(1, 1, 30, 0.5));
  cluster.end_job(1);
  ASSERT_EQ(cluster.info(1).state(), "COMPLETED");
}

TEST(ExperimentRetention, RunsAtTheEnd) {
  ExperimentHarness cluster;
  end_with_three(cluster);
  EXPECT_THAT(cluster.garbage, ElementsAre(1));
  EXPECT_THAT(ids_in(cluster.checkpoints(1), "DELETING"), ElementsAre("keep-1"));
  const auto job = cluster.core().garbage_job(1, {"gc-1", "gc-1-text"});
  ASSERT_TRUE(job.has_value());
  cluster.settle();
  EXPECT_EQ(job->spec.trial(), "garbage-1.1");
  EXPECT_EQ(job->spec.secrets().at("VOLADOR_TOKEN"), "gc-1-text");
  EXPECT_EQ(job->spec.env().at("VOLADOR_EXPERIMENT"), "1");
  EXPECT_EQ(job->as.user, "ada");
  const ExperimentRequester collector{.token_id = "gc-1"};
  EXPECT_FALSE(cluster.core().garbage(1, kBob));
  const auto garbage = cluster.core().garbage(1, collector);
  ASSERT_TRUE(garbage.has_value());
  EXPECT_THAT(garbage->ids(), ElementsAre("keep-1"));
  EXPECT_FALSE(garbage->whole());
  EXPECT_THAT(garbage->storage(), HasSubstr("\"host_path\":\"/shared\""));
  v1::ReportGarbageRequest report;
  report.set_experiment(1);
  report.add_deleted("keep-1");
  ASSERT_TRUE(cluster.core().garbage_collected(report, collector, cluster.now));
  cluster.settle();
  EXPECT_THAT(cluster.revoked, ElementsAre("trials-1", "gc-1"));
  EXPECT_EQ(cluster.checkpoints(1).size(), 2u);
  EXPECT_THAT(ids_in(cluster.checkpoints(1, true), "DELETED"), ElementsAre("keep-1"));
  EXPECT_EQ(cluster.info(1).checkpoints(), 2);
  EXPECT_EQ(cluster.info(1).checkpoint_bytes(), 2000);
  EXPECT_FALSE(cluster.core().garbage(1, collector)) << "its token is over";
  EXPECT_FALSE(cluster.core().garbage_job(1, {"gc-2", "x"})) << "nothing is left";
}

TEST(ExperimentRetention, RunsAgainWhenItIsEdited) {
  ExperimentHarness cluster;
  end_with_three(cluster);
  cluster.garbage.clear();
  v1::EditExperimentRequest edit;
  edit.set_id(1);
  edit.set_save_trial_latest(0);
  ASSERT_TRUE(cluster.core().edit(edit, kAda, cluster.now));
  cluster.settle();
  EXPECT_THAT(cluster.garbage, ElementsAre(1));
  EXPECT_THAT(ids_in(cluster.checkpoints(1), "DELETING"), UnorderedElementsAre("keep-1", "keep-3"));
  EXPECT_EQ(cluster.trial(1).latest_checkpoint(), "keep-2");
  // A restart of the head forgets no garbage.
  cluster.garbage.clear();
  cluster.restart();
  EXPECT_THAT(cluster.garbage, ElementsAre(1));
}

TEST(ExperimentRetention, JobWithoutAReportIsFollowedByAnother) {
  ExperimentHarness cluster;
  end_with_three(cluster);
  const auto job = cluster.core().garbage_job(1, {"gc-1", "x"});
  cluster.settle();
  v1::Job ended;
  ended.set_id("job-9");
  ended.mutable_spec()->set_trial(job->spec.trial());
  ended.set_state("failed");
  ended.set_reason("exited with code 1");
  cluster.core().on_job(ended, cluster.now);
  cluster.settle();
  EXPECT_THAT(ids_in(cluster.checkpoints(1), "DELETING"), ElementsAre("keep-1"));
  EXPECT_THAT(cluster.events_named("experiment cannot delete its checkpoints"),
              ElementsAre(HasSubstr("job-9: exited with code 1")));
  EXPECT_THAT(cluster.revoked, ElementsAre("trials-1", "gc-1"));
  const auto next = cluster.core().garbage_job(1, {"gc-2", "x"});
  ASSERT_TRUE(next.has_value());
  cluster.settle();
  EXPECT_EQ(next->spec.trial(), "garbage-1.2");
  // Late words of the first job have no effect.
  cluster.core().on_job(ended, cluster.now);
  cluster.settle();
  EXPECT_TRUE(cluster.core().garbage(1, {.token_id = "gc-2"}));
}

TEST(ExperimentRetention, StorageMayRefuse) {
  ExperimentHarness cluster;
  end_with_three(cluster);
  ASSERT_TRUE(cluster.core().garbage_job(1, {"gc-1", "x"}));
  cluster.settle();
  v1::ReportGarbageRequest report;
  report.set_experiment(1);
  report.add_failed("keep-1");
  report.set_error("access denied");
  ASSERT_TRUE(cluster.core().garbage_collected(report, {.token_id = "gc-1"}, cluster.now));
  cluster.settle();
  EXPECT_THAT(ids_in(cluster.checkpoints(1), "ERROR"), ElementsAre("keep-1"));
  // A user may try again.
  cluster.garbage.clear();
  v1::DeleteCheckpointsRequest request;
  request.add_ids("keep-1");
  ASSERT_TRUE(cluster.core().delete_checkpoints(request, kAda));
  cluster.settle();
  EXPECT_THAT(cluster.garbage, ElementsAre(1));
}

TEST(ExperimentCheckpoints, UsersDeleteThem) {
  ExperimentHarness cluster;
  begin_trial(cluster);
  ASSERT_TRUE(cluster.checkpoint(1, 1, "keep-1", 10));
  ASSERT_TRUE(cluster.checkpoint(1, 1, "keep-2", 20));
  v1::DeleteCheckpointsRequest request;
  EXPECT_FALSE(cluster.core().delete_checkpoints(request, kAda));
  request.add_ids("keep-1");
  EXPECT_EQ(cluster.core().delete_checkpoints(request, kBob).error().code, ErrorCode::kPermissionDenied);
  request.add_ids("keep-2");
  EXPECT_EQ(cluster.core().delete_checkpoints(request, kAda).error().message,
            "checkpoint keep-2: trial 1 goes on from it; kill the trial, or wait for a newer one");
  EXPECT_THAT(cluster.garbage, IsEmpty());
  request.mutable_ids()->RemoveLast();
  ASSERT_TRUE(cluster.core().delete_checkpoints(request, kAda));
  cluster.settle();
  EXPECT_THAT(cluster.garbage, ElementsAre(1));
  EXPECT_THAT(ids_in(cluster.checkpoints(1), "DELETING"), ElementsAre("keep-1"));
}

// ---- deletion of experiments ----

TEST(ExperimentDeletion, IsNotEndedByAJobThatBeganBeforeIt) {
  for (const bool succeeds : {true, false}) {
    ExperimentHarness cluster;
    end_with_three(cluster);
    ASSERT_TRUE(cluster.core().garbage_job(1, {"gc-1", "x"}));
    cluster.settle();
    ASSERT_TRUE(cluster.change(1, "delete"));
    cluster.garbage.clear();
    v1::ReportGarbageRequest report;
    report.set_experiment(1);
    if (succeeds) {
      report.add_deleted("keep-1");
    } else {
      report.add_failed("keep-1");
      report.set_error("no such host");
    }
    ASSERT_TRUE(cluster.core().garbage_collected(report, {.token_id = "gc-1"}, cluster.now));
    cluster.settle();
    EXPECT_EQ(cluster.info(1).state(), "DELETING");
    EXPECT_THAT(cluster.garbage, ElementsAre(1));

    ASSERT_TRUE(cluster.core().garbage_job(1, {"gc-2", "x"}));
    cluster.settle();
    const auto rest = cluster.core().garbage(1, {.token_id = "gc-2"});
    EXPECT_TRUE(rest->whole());
    report.Clear();
    report.set_experiment(1);
    for (const std::string& id : rest->ids()) report.add_deleted(id);
    ASSERT_TRUE(cluster.core().garbage_collected(report, {.token_id = "gc-2"}, cluster.now));
    cluster.settle();
    EXPECT_THAT(cluster.deleted, ElementsAre(1));
  }
}

TEST(ExperimentDeletion, TakesCheckpointsFirst) {
  ExperimentHarness cluster;
  end_with_three(cluster);
  ASSERT_TRUE(cluster.change(1, "delete"));
  EXPECT_EQ(cluster.info(1).state(), "DELETING");
  ASSERT_TRUE(cluster.core().garbage_job(1, {"gc-1", "x"}));
  cluster.settle();
  const auto garbage = cluster.core().garbage(1, {.token_id = "gc-1"});
  EXPECT_TRUE(garbage->whole());
  EXPECT_THAT(garbage->ids(), UnorderedElementsAre("keep-1", "keep-2", "keep-3"));
  v1::ReportGarbageRequest report;
  report.set_experiment(1);
  report.add_deleted("keep-1");
  report.add_failed("keep-2");
  report.set_error("no such host");
  ASSERT_TRUE(cluster.core().garbage_collected(report, {.token_id = "gc-1"}, cluster.now));
  cluster.settle();
  EXPECT_EQ(cluster.info(1).state(), "DELETE_FAILED");
  EXPECT_EQ(cluster.info(1).reason(), "its checkpoints could not be deleted: no such host");

  ASSERT_TRUE(cluster.change(1, "delete"));
  ASSERT_TRUE(cluster.core().garbage_job(1, {"gc-2", "x"}));
  cluster.settle();
  report.clear_failed();
  report.clear_error();
  ASSERT_TRUE(cluster.core().garbage_collected(report, {.token_id = "gc-2"}, cluster.now));
  cluster.settle();
  EXPECT_THAT(cluster.deleted, ElementsAre(1));
  EXPECT_EQ(cluster.core().get(1, kAda).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(cluster.core().trial(1, kAda).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(cluster.core().checkpoint("keep-1", kAda).error().code, ErrorCode::kNotFound);
  ASSERT_EQ(cluster.rows.size(), 1u);
  EXPECT_EQ(cluster.rows.begin()->first.first, kExperimentsHeadTable);
  // Ids are not given again.
  cluster.restart();
  EXPECT_EQ(cluster.create(single_config()).id(), 2);
  EXPECT_EQ(cluster.trials(2).front().id(), 2);
}

TEST(ExperimentDeletion, IsImmediateWithoutCheckpoints) {
  ExperimentHarness cluster;
  cluster.create(single_config());
  cluster.change(1, "kill");
  const auto deleted = cluster.change(1, "delete");
  ASSERT_TRUE(deleted.has_value());
  EXPECT_EQ(deleted->state(), "DELETED");
  EXPECT_THAT(cluster.deleted, ElementsAre(1));
  EXPECT_EQ(cluster.rows.size(), 1u);
}

TEST(ExperimentDeletion, OutlivesARestart) {
  ExperimentHarness cluster;
  end_with_three(cluster);
  ASSERT_TRUE(cluster.change(1, "delete"));
  cluster.garbage.clear();
  cluster.restart();
  EXPECT_EQ(cluster.info(1).state(), "DELETING");
  EXPECT_THAT(cluster.garbage, ElementsAre(1));
  cluster.core().on_garbage_job_failed(1, "no room in the queue", cluster.now);
  cluster.settle();
  EXPECT_EQ(cluster.info(1).state(), "DELETE_FAILED");
}

}  // namespace
}  // namespace volador::experiments
