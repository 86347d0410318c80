// What users, programs and nodes do to experiments and their trials.
#include <algorithm>

#include "jobs/job_spec.h"
#include "tests/experiments/runs/experiment_harness.h"

namespace volador::experiments {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A trial of a single experiment whose program has begun.
void begin_single(ExperimentHarness& cluster, const std::string& more = {}) {
  cluster.create(single_config(more));
  cluster.run_job(1);
  ASSERT_TRUE(cluster.start_run(1, 1));
}

// ---- pause, activate, cancel, kill ----

TEST(ExperimentPause, RunningTrialSavesAndGoesOnLater) {
  ExperimentHarness cluster;
  begin_single(cluster);
  EXPECT_FALSE(cluster.core().should_preempt(1, 1, kAda).value());
  cluster.changed_trials.clear();
  ASSERT_TRUE(cluster.change(1, "pause"));
  EXPECT_TRUE(cluster.changed_trials.contains(1));
  EXPECT_EQ(cluster.info(1).state(), "PAUSED");
  EXPECT_EQ(cluster.info(1).reason(), "paused by user ada");
  EXPECT_EQ(cluster.trial(1).state(), "PAUSED");
  EXPECT_TRUE(cluster.core().should_preempt(1, 1, kAda).value());
  EXPECT_THAT(cluster.stops, IsEmpty());
  ASSERT_TRUE(cluster.checkpoint(1, 1, "saved-1", 20));
  ASSERT_TRUE(cluster.core().acknowledge_preemption(1, 1, kAda, cluster.now));
  cluster.end_job(1);
  EXPECT_EQ(cluster.trial(1).state(), "PAUSED");
  EXPECT_EQ(cluster.jobs.size(), 1u);

  ASSERT_TRUE(cluster.change(1, "activate"));
  ASSERT_EQ(cluster.jobs.size(), 2u);
  cluster.run_job(1);
  const auto start = cluster.start_run(1, 2);
  ASSERT_TRUE(start.has_value());
  EXPECT_EQ(start->latest_checkpoint(), "saved-1");
  EXPECT_EQ(start->batches(), 20);
  EXPECT_EQ(start->env().at("DET_LATEST_CHECKPOINT"), "saved-1");
  EXPECT_EQ(start->env().at("DET_STEPS_COMPLETED"), "20");
  ASSERT_EQ(cluster.rewinds.size(), 1u);
  EXPECT_EQ(cluster.rewinds[0].batches, 20);
  EXPECT_EQ(cluster.trial(1).restarts(), 0);
  EXPECT_FALSE(cluster.core().should_preempt(1, 2, kAda).value());
}

TEST(ExperimentPause, ActivationBeforeTheProgramEndedStartsItAgain) {
  ExperimentHarness cluster;
  begin_single(cluster);
  ASSERT_TRUE(cluster.change(1, "pause"));
  ASSERT_TRUE(cluster.change(1, "activate"));
  EXPECT_EQ(cluster.jobs.size(), 1u);
  cluster.end_job(1);
  EXPECT_EQ(cluster.trial(1).state(), "ACTIVE");
  EXPECT_EQ(cluster.jobs.size(), 2u);
}

TEST(ExperimentPause, QueuedJobLeavesTheQueue) {
  ExperimentHarness cluster;
  cluster.create(single_config());
  ASSERT_TRUE(cluster.change(1, "pause"));
  ASSERT_EQ(cluster.stops.size(), 1u);
  EXPECT_EQ(cluster.stops[0].job, "job-1.1");
  EXPECT_FALSE(cluster.stops[0].now);
  EXPECT_EQ(cluster.trial(1).state(), "PAUSED");
  ASSERT_TRUE(cluster.change(1, "activate"));
  EXPECT_EQ(cluster.trial(1).run(), 2);
}

TEST(ExperimentPause, PausedFromTheBeginning) {
  ExperimentHarness cluster;
  EXPECT_EQ(cluster.create(random_config(3, 2), kAda, true).state(), "PAUSED");
  EXPECT_THAT(cluster.jobs, IsEmpty());
  ASSERT_TRUE(cluster.change(1, "activate"));
  cluster.run_all();
  EXPECT_EQ(cluster.info(1).state(), "COMPLETED");
}

TEST(ExperimentPause, ProgramThatDoesNotEndIsKilledAtItsDeadline) {
  ExperimentHarness cluster;
  begin_single(cluster, "preemption_timeout: 60\n");
  ASSERT_TRUE(cluster.change(1, "pause"));
  EXPECT_EQ(cluster.core().deadline_ms(), cluster.now + 60'000);
  cluster.tick(59'000);
  EXPECT_THAT(cluster.stops, IsEmpty());
  cluster.tick(1000);
  ASSERT_EQ(cluster.stops.size(), 1u);
  EXPECT_TRUE(cluster.stops[0].now);
  EXPECT_EQ(cluster.trial(1).state(), "PAUSED");
  EXPECT_EQ(cluster.trial(1).restarts(), 0);
  EXPECT_EQ(cluster.core().deadline_ms(), std::nullopt);
}

TEST(ExperimentCancel, ProgramSavesAndEnds) {
  ExperimentHarness cluster;
  begin_single(cluster);
  ASSERT_TRUE(cluster.change(1, "cancel"));
  EXPECT_EQ(cluster.info(1).state(), "STOPPING_CANCELED");
  EXPECT_TRUE(cluster.core().should_preempt(1, 1, kAda).value());
  cluster.end_job(1);
  EXPECT_EQ(cluster.trial(1).state(), "CANCELED");
  EXPECT_EQ(cluster.trial(1).reason(), "canceled by user ada");
  EXPECT_EQ(cluster.info(1).state(), "CANCELED");
  EXPECT_EQ(cluster.info(1).reason(), "canceled by user ada");
  EXPECT_TRUE(cluster.change(1, "cancel")) << "without effect";
}

TEST(ExperimentCancel, EndsAtOnceWithoutProcesses) {
  ExperimentHarness cluster;
  cluster.create(random_config(5, 2), kAda, true);
  ASSERT_TRUE(cluster.change(1, "cancel"));
  EXPECT_EQ(cluster.info(1).state(), "CANCELED");
  EXPECT_EQ(cluster.trials(1).size(), 2u);
}

TEST(ExperimentKill, EndsProcessesNow) {
  for (const std::string before : {"", "pause", "cancel"}) {
    ExperimentHarness cluster;
    begin_single(cluster);
    if (!before.empty()) {
      ASSERT_TRUE(cluster.change(1, before));
    }
    ASSERT_TRUE(cluster.change(1, "kill", kOperator));
    ASSERT_EQ(cluster.stops.size(), 1u) << before;
    EXPECT_TRUE(cluster.stops[0].now);
    EXPECT_EQ(cluster.info(1).state(), "CANCELED");
    EXPECT_EQ(cluster.info(1).reason(), "killed by user root");
  }
}

TEST(ExperimentKill, OneTrialOnly) {
  ExperimentHarness cluster;
  cluster.create(random_config(2, 2));
  cluster.run_job(1);
  ASSERT_TRUE(cluster.core().kill_trial(1, kAda, cluster.now));
  cluster.settle();
  EXPECT_EQ(cluster.trial(1).state(), "CANCELED");
  EXPECT_EQ(cluster.trial(1).reason(), "killed by user ada");
  EXPECT_EQ(cluster.info(1).state(), "ACTIVE");
  cluster.run_all();
  EXPECT_EQ(cluster.info(1).state(), "COMPLETED");
}

// The only trial was killed: the experiment was canceled too.
TEST(ExperimentKill, TheOnlyTrial) {
  ExperimentHarness cluster;
  begin_single(cluster);
  ASSERT_TRUE(cluster.core().kill_trial(1, kAda, cluster.now));
  cluster.settle();
  EXPECT_EQ(cluster.info(1).state(), "CANCELED");
  EXPECT_EQ(cluster.info(1).reason(), "all of its trials were canceled");
}

TEST(ExperimentCommands, NameTheState) {
  ExperimentHarness cluster;
  cluster.create(single_config());
  const auto refused = [&](const std::string& command) {
    const auto changed = cluster.change(1, command);
    return changed ? "" : changed.error().message;
  };
  EXPECT_THAT(refused("archive"), HasSubstr("experiment 1: archive: the experiment is ACTIVE"));
  EXPECT_THAT(refused("delete"), HasSubstr("cancel or kill it first"));
  EXPECT_THAT(refused("stop"), HasSubstr("expected activate, pause, cancel, kill, archive, unarchive or delete"));
  cluster.run_all();
  EXPECT_THAT(refused("pause"), HasSubstr("COMPLETED"));
  EXPECT_TRUE(cluster.change(1, "archive"));
  EXPECT_TRUE(cluster.info(1).archived());
  EXPECT_EQ(cluster.core().list({}, kAda).total(), 0);
  EXPECT_TRUE(cluster.change(1, "unarchive"));
  EXPECT_EQ(cluster.core().list({}, kAda).total(), 1);
  EXPECT_EQ(cluster.change(7, "pause").error().code, ErrorCode::kNotFound);
}

// ---- ends of processes ----

TEST(ExperimentFailures, OnlyThoseOfTheProgramCount) {
  ExperimentHarness cluster;
  cluster.create(single_config("max_restarts: 2\n"));
  for (int i = 0; i < 5; ++i) cluster.end_job(1, "failed", "on node n1: lost", kNodeLost);
  cluster.end_job(1, "stopped", "stopped by user bob");
  EXPECT_EQ(cluster.trial(1).restarts(), 0);
  EXPECT_EQ(cluster.trial(1).run(), 7);
  for (int i = 0; i < 2; ++i) cluster.end_job(1, "failed", "exited with code 1");
  EXPECT_EQ(cluster.trial(1).restarts(), 2);
  EXPECT_EQ(cluster.trial(1).state(), "ACTIVE");
  EXPECT_THAT(cluster.events_named("trial of an experiment starts again"), testing::SizeIs(8));
  cluster.end_job(1, "failed", "exited with code 1");
  EXPECT_EQ(cluster.trial(1).state(), "ERROR");
  EXPECT_EQ(cluster.trial(1).restarts(), 2) << "the last failure was followed by none";
  EXPECT_EQ(cluster.trial(1).reason(), "it has started again 2 times, as often as it may: exited with code 1");
  EXPECT_EQ(cluster.info(1).state(), "ERROR");
  EXPECT_THAT(cluster.info(1).reason(), HasSubstr("all of its trials failed; trial 1, the last one: it has started"));
}

TEST(ExperimentFailures, OneGoodTrialIsEnough) {
  ExperimentHarness cluster;
  cluster.create(random_config(3, 3, "max_restarts: 0\n"));
  cluster.end_job(1, "failed", "exited with code 1");
  cluster.end_job(2, "failed", "exited with code 1");
  EXPECT_EQ(cluster.info(1).trials_by_state().at("ERROR"), 2);
  cluster.run_all();
  EXPECT_EQ(cluster.info(1).state(), "COMPLETED");
}

TEST(ExperimentFailures, LostTooOften) {
  ExperimentHarness cluster({.losses = 2});
  cluster.create(single_config());
  for (int i = 0; i < 3; ++i) cluster.end_job(1, "failed", "on node n1: lost", kNodeLost);
  EXPECT_EQ(cluster.trial(1).state(), "ERROR");
  EXPECT_EQ(cluster.trial(1).reason(), "3 of its runs were lost: on node n1: node n1: its worker does not answer");
}

TEST(ExperimentFailures, LogPolicyCancelsRetries) {
  ExperimentHarness cluster;
  cluster.create(single_config("log_policies: [{name: bad data, pattern: corrupt, action: cancel_retries}]\n"));
  ASSERT_EQ(cluster.job_of(1).shown.spec().log_policies(0).action(), "cancel_retries");
  cluster.job_of(1).shown.add_labels("bad data");
  cluster.end_job(1, "failed", "exited with code 1");
  EXPECT_EQ(cluster.trial(1).state(), "ERROR");
  EXPECT_EQ(cluster.trial(1).reason(), "the log policy bad data cancels further runs: exited with code 1");
  EXPECT_EQ(cluster.jobs.size(), 1u);
}

TEST(ExperimentFailures, RefusedJob) {
  ExperimentHarness cluster;
  cluster.refuse_jobs = 1;
  cluster.create(single_config());
  EXPECT_EQ(cluster.trial(1).state(), "ERROR");
  EXPECT_EQ(cluster.trial(1).reason(), "the queue does not take its job: no");
  EXPECT_EQ(cluster.info(1).state(), "ERROR");
}

TEST(ExperimentFailures, BusyQueueIsAskedAgain) {
  ExperimentHarness cluster;
  cluster.refuse_jobs = 2;
  cluster.refuse_with = ErrorCode::kUnavailable;
  cluster.create(single_config());
  EXPECT_EQ(cluster.trial(1).state(), "ACTIVE");
  EXPECT_THAT(cluster.core().open_jobs(), IsEmpty());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(cluster.core().deadline_ms().has_value());
    EXPECT_THAT(cluster.jobs, IsEmpty());
    cluster.tick(*cluster.core().deadline_ms() - cluster.now);
  }
  EXPECT_EQ(cluster.jobs.size(), 1u);
  EXPECT_EQ(cluster.trial(1).run(), 1);
  // Paused meanwhile: nothing waits for a job.
  cluster.refuse_jobs = 1;
  cluster.create(single_config());
  ASSERT_TRUE(cluster.change(2, "pause"));
  EXPECT_EQ(cluster.trial(2).state(), "PAUSED");
  EXPECT_EQ(cluster.core().deadline_ms(), std::nullopt);
  ASSERT_TRUE(cluster.change(2, "activate"));
  EXPECT_EQ(cluster.trial(2).run(), 2);
}

TEST(ExperimentExits, InvalidHyperparameters) {
  ExperimentHarness cluster;
  cluster.create(random_config(2, 1));
  cluster.run_job(1);
  ASSERT_TRUE(cluster.start_run(1, 1));
  EXPECT_THAT(cluster.exit_early(1, 1, "bored").error().message, HasSubstr("invalid_hp, init_invalid_hp"));
  ASSERT_TRUE(cluster.exit_early(1, 1, "invalid_hp"));
  cluster.tick(9'000);
  EXPECT_THAT(cluster.stops, IsEmpty());
  cluster.tick(1'000);
  ASSERT_EQ(cluster.stops.size(), 1u);
  EXPECT_TRUE(cluster.stops[0].now);
  EXPECT_EQ(cluster.trial(1).state(), "COMPLETED");
  EXPECT_EQ(cluster.trial(1).reason(), "its program calls its hyperparameters invalid");
  cluster.run_all();
  EXPECT_EQ(cluster.info(1).state(), "COMPLETED");
  // A trial with invalid hyperparameters is replaced.
  EXPECT_EQ(cluster.trials(1).size(), 3u);
}

TEST(ExperimentExits, ProgramAskedToStop) {
  ExperimentHarness cluster;
  begin_single(cluster);
  ASSERT_TRUE(cluster.exit_early(1, 1, "user_requested_stop"));
  cluster.end_job(1);
  EXPECT_EQ(cluster.trial(1).state(), "COMPLETED");
  EXPECT_EQ(cluster.trial(1).reason(), "its program asked to stop");
  EXPECT_EQ(cluster.info(1).state(), "COMPLETED");
}

TEST(ExperimentRuns, QueueStartsTheSameJobAgain) {
  ExperimentHarness cluster;
  begin_single(cluster);
  ASSERT_TRUE(cluster.checkpoint(1, 1, "saved-1", 10));
  cluster.set_job(cluster.job_of(1), "queued", "made room for job-9");
  EXPECT_EQ(cluster.info(1).phase(), "QUEUED");
  EXPECT_EQ(cluster.info(1).reason(), "made room for job-9");
  cluster.run_job(1);
  const auto start = cluster.start_run(1, 1);
  ASSERT_TRUE(start.has_value());
  EXPECT_EQ(start->batches(), 10);
  ASSERT_EQ(cluster.rewinds.size(), 1u);
  EXPECT_EQ(cluster.trial(1).run(), 1);
}

TEST(ExperimentRuns, EarlierRunsAreToldToEnd) {
  ExperimentHarness cluster;
  begin_single(cluster);
  cluster.end_job(1, "failed", "exited with code 1");
  const auto stale = cluster.report(1, 1, "training", 5, "{}");
  ASSERT_FALSE(stale.has_value());
  EXPECT_EQ(stale.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(stale.error().message, HasSubstr("run 1 is over, the newest run is 2"));
  ASSERT_TRUE(cluster.change(1, "kill"));
  EXPECT_EQ(cluster.core().operation(1, 2, kAda).error().code, ErrorCode::kCancelled);
  // A late word about its job changes nothing.
  v1::Job late;
  late.mutable_spec()->set_trial("1.1");
  late.set_state("running");
  cluster.core().on_job(late, cluster.now);
  cluster.settle();
  EXPECT_EQ(cluster.trial(1).state(), "CANCELED");
}

TEST(ExperimentRuns, JobThatIsGone) {
  ExperimentHarness cluster;
  begin_single(cluster);
  ASSERT_EQ(cluster.core().open_jobs().size(), 1u);
  EXPECT_EQ(cluster.core().open_jobs()[0].job, "job-1.1");
  cluster.core().on_job_gone(1, 1, cluster.now);
  cluster.settle();
  EXPECT_EQ(cluster.trial(1).run(), 2);
  EXPECT_EQ(cluster.trial(1).restarts(), 0);
}

// ---- slots ----

TEST(ExperimentSlots, SoManyAtOnce) {
  ExperimentHarness cluster;
  cluster.create(random_config(6, 6, "resources: {slots_per_trial: 2, max_slots: 5}\n"));
  EXPECT_EQ(cluster.jobs.size(), 2u);
  EXPECT_EQ(cluster.job_of(1).shown.spec().cpus(), 2);
  EXPECT_EQ(cluster.trial(3).reason(), "its experiment uses all of the 5 slots that it may use at once");
  v1::EditExperimentRequest edit;
  edit.set_id(1);
  edit.set_max_slots(6);
  ASSERT_TRUE(cluster.core().edit(edit, kAda, cluster.now));
  cluster.settle();
  EXPECT_EQ(cluster.jobs.size(), 3u);
  edit.set_max_slots(1);
  EXPECT_THAT(cluster.core().edit(edit, kAda, cluster.now).error().message, HasSubstr("at least 2"));
  // A trial that waits for slots is paused at once.
  ASSERT_TRUE(cluster.change(1, "pause"));
  EXPECT_EQ(cluster.info(1).trials_by_state().at("PAUSED"), 6);
  ASSERT_TRUE(cluster.change(1, "activate"));
  cluster.run_all();
  EXPECT_EQ(cluster.info(1).state(), "COMPLETED");
  EXPECT_THAT(cluster.refused(random_config(2, 2, "resources: {slots_per_trial: 2, max_slots: 1}\n")).message,
              HasSubstr("must not be above max_slots"));
}

TEST(ExperimentSlots, ALowerLimitPreemptsTheNewestTrials) {
  for (const bool restarts : {false, true}) {
    ExperimentHarness cluster;
    cluster.restarts_always = restarts;
    cluster.create(random_config(4, 4));
    for (int trial = 1; trial <= 3; ++trial) {
      cluster.run_job(trial);
      ASSERT_TRUE(cluster.start_run(trial, 1));
    }
    const auto preempted = [&](int64_t trial) {
      return cluster.core().should_preempt(trial, 1, cluster.process_of(trial)).value();
    };
    v1::EditExperimentRequest edit;
    edit.set_id(1);
    edit.set_max_slots(2);
    ASSERT_TRUE(cluster.core().edit(edit, kAda, cluster.now));
    cluster.settle();
    EXPECT_EQ(cluster.job_of(4).shown.state(), "stopped") << "it was queued";
    EXPECT_EQ(cluster.trial(4).reason(), "its experiment uses all of the 2 slots that it may use at once");
    EXPECT_FALSE(preempted(1));
    EXPECT_FALSE(preempted(2));
    EXPECT_TRUE(preempted(3));
    ASSERT_TRUE(cluster.core().edit(edit, kAda, cluster.now));
    cluster.settle();
    EXPECT_FALSE(preempted(2)) << "trial 3 leaves already";
    ASSERT_TRUE(cluster.checkpoint(3, 1, "saved-3", 20));
    cluster.end_job(3);
    EXPECT_EQ(cluster.trial(3).state(), "ACTIVE");
    EXPECT_EQ(cluster.trial(3).restarts(), 0);
    EXPECT_EQ(cluster.jobs.size(), 4u) << "there is no room for its next run";
    cluster.run_all();
    EXPECT_EQ(cluster.info(1).state(), "COMPLETED");
    EXPECT_EQ(cluster.trial(3).run(), 2);
    EXPECT_EQ(cluster.trial(4).run(), 2);
  }
}

TEST(ExperimentSlots, AreSpreadOverNodes) {
  const auto node = [](double cpus, double gpus, const std::string& pool = "default") {
    return SlotsView::Node{.cpus = cpus, .gpus = gpus, .pool = pool};
  };
  const SlotsView view{.nodes = {node(64, 8), node(64, 8), node(32, 4), node(16, 0, "cpus"), node(16, 0, "cpus")}};
  const auto plan = [&](int64_t slots, bool single = false, const std::string& pool = "") {
    const auto planned = plan_slots(slots, single, pool, view);
    return planned ? std::tuple(planned->nodes, planned->slots_on_node, planned->gpus) : std::tuple(0, 0, false);
  };
  EXPECT_EQ(plan(0), std::tuple(1, 0, false));
  EXPECT_EQ(plan(3), std::tuple(1, 3, true));
  EXPECT_EQ(plan(8), std::tuple(1, 8, true));
  EXPECT_EQ(plan(16), std::tuple(2, 8, true));
  EXPECT_EQ(plan(12), std::tuple(3, 4, true));
  EXPECT_EQ(plan(32, false, "cpus"), std::tuple(2, 16, false));
  EXPECT_EQ(plan(16, true), std::tuple(0, 0, false));
  const auto refused = [&](int64_t slots, const std::string& pool) {
    return plan_slots(slots, false, pool, view).error();
  };
  EXPECT_EQ(refused(20, "default").code, ErrorCode::kInfeasible);
  EXPECT_THAT(refused(20, "default").message, HasSubstr("it has 2 nodes with 8 GPUs, 1 node with 4 GPUs"));
  EXPECT_THAT(refused(1, "absent").message, HasSubstr("pool absent: it has no nodes"));
}

// ---- who may do what ----

TEST(ExperimentAccess, OwnersAndOperatorsChange) {
  ExperimentHarness cluster;
  cluster.create(single_config());
  cluster.create(single_config(), kNamelessRequester);
  EXPECT_TRUE(cluster.core().get(1, kBob)) << "all users see it";
  const auto refused = cluster.change(1, "pause", kBob);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(refused.error().message,
            "pause experiment 1: experiment 1 was created by user ada, this request comes with a token of user bob; "
            "only its owner and operators may change it");
  // Another token of the same user is the owner; without a user the token is.
  EXPECT_TRUE(cluster.change(1, "pause", {.token_id = "another", .user = "ada"}));
  EXPECT_TRUE(cluster.change(1, "activate", kOperator));
  EXPECT_FALSE(cluster.change(2, "pause", kAda));
  EXPECT_FALSE(cluster.change(2, "pause", {.token_id = "another"}));
  EXPECT_TRUE(cluster.change(2, "pause", kNamelessRequester));
  EXPECT_EQ(cluster.core().kill_trial(1, kBob, cluster.now).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(cluster.core().edit({}, kBob, cluster.now).error().code, ErrorCode::kNotFound);
  v1::EditExperimentRequest edit;
  edit.set_id(1);
  EXPECT_EQ(cluster.core().edit(edit, kBob, cluster.now).error().code, ErrorCode::kPermissionDenied);
}

TEST(ExperimentAccess, ProcessesHaveTheirExperimentsToken) {
  ExperimentHarness cluster;
  cluster.create(single_config());
  cluster.create(single_config());
  cluster.run_job(1);
  v1::StartTrialRunRequest start;
  start.set_trial(1);
  start.set_run(1);
  const auto with = [&](const ExperimentRequester& by) { return cluster.core().start_run(start, by, cluster.now); };
  EXPECT_TRUE(with({.token_id = "trials-1"}));
  EXPECT_TRUE(with(kAda));
  EXPECT_TRUE(with(kOperator));
  EXPECT_EQ(with({.token_id = "trials-2"}).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(with(kBob).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(with({}).error().code, ErrorCode::kPermissionDenied);
  // It does not change the experiment.
  EXPECT_FALSE(cluster.change(1, "kill", {.token_id = "trials-1"}));
}

// ---- creation and editing ----

TEST(ExperimentCreation, ReportsAllErrorsWithTheirPlaces) {
  ExperimentHarness cluster;
  const Error error = cluster.refused("name: x\nsearcher: {name: random, metric: loss, max_length: {batches: 1}}\n");
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("searcher.max_trials"));
  EXPECT_THAT(error.message, HasSubstr("entrypoint"));
  EXPECT_EQ(std::ranges::count(error.message, '\n'), 1);
  EXPECT_THAT(cluster.refused("a: [").message, HasSubstr("config"));
  EXPECT_THAT(cluster.rows, IsEmpty());
}

TEST(ExperimentCreation, ValidatesOnly) {
  ExperimentHarness cluster;
  v1::CreateExperimentRequest request;
  request.set_config(single_config());
  request.set_validate_only(true);
  const auto reply = cluster.core().create(request, kAda, {"", ""}, cluster.view, cluster.now);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->experiment().id(), 0);
  EXPECT_THAT(reply->experiment().config(), HasSubstr("\"checkpoint_storage\""));
  cluster.settle();
  EXPECT_THAT(cluster.rows, IsEmpty());
  EXPECT_TRUE(cluster.core().check(request, kAda, cluster.view));
}

TEST(ExperimentCreation, HidesSecretsAndPassesThemOn) {
  ExperimentHarness cluster;
  cluster.create(single_config("environment: {environment_variables: [API_TOKEN=hidden, LEVEL=3, LEVEL=4]}\n"));
  const v1::ExperimentInfo shown = cluster.info(1);
  EXPECT_THAT(shown.config(), testing::Not(HasSubstr("API_TOKEN=hidden")));
  EXPECT_THAT(shown.original_config(), testing::Not(HasSubstr("API_TOKEN=hidden")));
  const v1::JobSpec spec = cluster.job_of(1).shown.spec();
  EXPECT_EQ(spec.secrets().at("API_TOKEN"), "hidden");
  EXPECT_EQ(spec.secrets().at("VOLADOR_TOKEN"), "trials-1-text");
  EXPECT_EQ(spec.env().at("LEVEL"), "4");
  EXPECT_FALSE(spec.env().contains("API_TOKEN"));
  cluster.run_job(1);
  EXPECT_THAT(cluster.start_run(1, 1)->config(), HasSubstr("API_TOKEN=hidden"));
}

TEST(ExperimentCreation, LimitsOpenExperiments) {
  ExperimentHarness cluster({.open = 1});
  cluster.create(single_config());
  EXPECT_EQ(cluster.refused(single_config()).code, ErrorCode::kUnavailable);
  cluster.change(1, "kill");
  cluster.create(single_config());
}

TEST(ExperimentCreation, MountsMakeTheJobIsolated) {
  ExperimentHarness cluster;
  cluster.create(
      single_config("bind_mounts: [{host_path: /data, container_path: /data, read_only: true}]\n"
                    "resources: {shm_size: 1 gb, priority: 10}\n"));
  const v1::JobSpec spec = cluster.job_of(1).shown.spec();
  EXPECT_TRUE(spec.isolated());
  EXPECT_THAT(spec.mounts(), ElementsAre("/data:/data:ro", "/shared:/shared"));
  EXPECT_EQ(spec.shm_bytes(), int64_t{1} << 30);
  EXPECT_EQ(spec.priority(), "urgent");
}

TEST(ExperimentCreation, ARepeatedRequestGetsTheSameExperiment) {
  ExperimentHarness cluster;
  v1::CreateExperimentRequest request;
  request.set_config(single_config());
  request.set_request_id("first");
  EXPECT_EQ(cluster.create(request).id(), 1);
  for (const bool restarts : {false, true}) {
    if (restarts) cluster.restart();
    EXPECT_EQ(cluster.create(request).id(), 1);
    EXPECT_EQ(cluster.create(request, {.token_id = "another token", .user = "ada"}).id(), 1);
  }
  EXPECT_EQ(cluster.jobs.size(), 1u);
  EXPECT_THAT(cluster.revoked, ElementsAre("trials-2", "trials-3", "trials-4", "trials-5"));
  EXPECT_EQ(cluster.create(request, kBob).id(), 2) << "of another user";
  EXPECT_EQ(cluster.create(request, kNamelessRequester).id(), 3) << "of a token without a user";
  EXPECT_EQ(cluster.create(request, kNamelessRequester).id(), 3);
  EXPECT_EQ(cluster.create(request, {.token_id = "token-ada"}).id(), 4) << "of a token without a user";
  request.set_request_id("second");
  EXPECT_EQ(cluster.create(request).id(), 5);
  request.clear_request_id();
  EXPECT_EQ(cluster.create(request).id(), 6);
  EXPECT_EQ(cluster.create(request).id(), 7);
}

TEST(ExperimentCreation, SecretsAreTakenOverFromTheParent) {
  ExperimentHarness cluster;
  const std::string secrets =
      "checkpoint_storage: {type: s3, bucket: b, access_key: AKEY, secret_key: s3cret}\n"
      "environment: {environment_variables: [PLAIN=1, API_TOKEN=t0ken, INDEX=https://me:pass@host/simple]}\n"
      "data: {secrets: {mail: sesame}, url: x}\n";
  cluster.create(single_config(secrets));
  const auto secret_texts = [&](int64_t id) {
    const std::string text = cluster.rows.at({"experiments", std::string(7, '\0') + static_cast<char>(id)});
    protocol::ExperimentDefinition row;
    EXPECT_TRUE(row.ParseFromString(text));
    EXPECT_THAT(row.config(), testing::Not(HasSubstr("********")));
    EXPECT_THAT(row.original_config(), testing::Not(HasSubstr("********")));
    for (const std::string& config : {row.config(), row.original_config()}) {
      for (const char* each : {"AKEY", "s3cret", "t0ken", "https://me:pass@host/simple", "sesame"})
        EXPECT_THAT(config, HasSubstr(each)) << "experiment " << id;
    }
  };
  v1::CreateExperimentRequest request;
  request.set_parent(1);
  cluster.create(request);
  secret_texts(2);
  const v1::ExperimentInfo shown = cluster.info(1);
  EXPECT_THAT(shown.original_config(), HasSubstr("********"));
  request.set_config(shown.original_config());
  cluster.create(request);
  secret_texts(3);
  request.set_config(shown.config());  // As `volador experiment reproduce` sends it.
  cluster.create(request, kOperator);
  secret_texts(4);
  EXPECT_EQ(cluster.job_of(4).shown.spec().secrets().at("API_TOKEN"), "t0ken");
  std::string config = shown.original_config();
  config.replace(config.find("name: one"), 9, "name: two");
  config.replace(config.find("PLAIN=1"), 7, "PLAIN=2");
  request.set_config(config);
  cluster.create(request);
  secret_texts(5);
  EXPECT_EQ(cluster.info(5).name(), "two");
  EXPECT_EQ(cluster.job_of(5).shown.spec().env().at("PLAIN"), "2");

  const auto refused = [&](const ExperimentRequester& by) {
    return cluster.core().create(request, by, {"t", "t"}, cluster.view, cluster.now).error();
  };
  EXPECT_EQ(refused(kBob).code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(refused(kBob).message, HasSubstr("take over the secrets of experiment 1"));
  request.clear_config();
  EXPECT_EQ(refused(kBob).code, ErrorCode::kPermissionDenied);
  request.set_config(single_config());
  cluster.create(request, kBob);
  request.set_config(single_config("data: {secrets: {other: \"********\"}}\n"));
  EXPECT_EQ(refused(kAda).message,
            "data.secrets.other: it is ********, which stands for a secret, and experiment 1 has none there; give the "
            "value");
}

// The queue takes what the core submits.
TEST(ExperimentCreation, JobsAreValid) {
  const std::vector<std::string> configs = {
      single_config(),
      single_config("name: \"two\\nlines\"\n"),
      single_config("environment: {image: \"determinedai/environments:cuda-11.3\"}\n"),
      single_config("bind_mounts: [{host_path: /data, container_path: inputs}]\npreemption_timeout: 100000\n"),
      single_config("log_policies: [{pattern: a.*b, action: exclude_node}, {name: bad, pattern: corrupt, action: "
                    "cancel_retries}]\n"),
      single_config("resources: {slots_per_trial: 16}\n"),
      single_config("resources: {slots_per_trial: 0}\n")};
  for (std::string config : configs) {
    if (config.find("lines") != std::string::npos) config.erase(0, config.find('\n') + 1);
    ExperimentHarness cluster;
    cluster.create(config);
    const auto checked = jobs::checked_spec(cluster.job_of(1).shown.spec());
    ASSERT_TRUE(checked.has_value()) << config << checked.error().message;
    EXPECT_LE(checked->name().size(), 128u);
  }
  ExperimentHarness cluster;
  cluster.view.nodes = {{.cpus = 64, .gpus = 8, .pool = "default"}, {.cpus = 64, .gpus = 8, .pool = "default"}};
  cluster.create(single_config("name: " + std::string(200, 'n') + "\nresources: {slots_per_trial: 16}\n").substr(10));
  const auto checked = jobs::checked_spec(cluster.job_of(1).shown.spec());
  ASSERT_TRUE(checked.has_value()) << checked.error().message;
  EXPECT_EQ(checked->nodes(), 2);
  EXPECT_EQ(checked->gpus(), 8);
  EXPECT_TRUE(checked->name().ends_with("-trial-1"));
  cluster.run_job(1);
  const auto start = cluster.start_run(1, 1);
  EXPECT_EQ(start->slots(), 16);
  EXPECT_EQ(start->slots_on_node(), 8);
  EXPECT_TRUE(start->gpu());
}

TEST(ExperimentEditing, ChangesWhatIsGiven) {
  ExperimentHarness cluster;
  cluster.create(single_config("labels: [old, kept]\ndescription: first\n"));
  v1::EditExperimentRequest edit;
  edit.set_id(1);
  edit.set_name("two");
  edit.set_notes("line\nline");
  edit.add_add_labels("new");
  edit.add_remove_labels("old");
  edit.set_priority("urgent");
  ASSERT_TRUE(cluster.core().edit(edit, kAda, cluster.now));
  cluster.settle();
  cluster.restart();
  const v1::ExperimentInfo shown = cluster.info(1);
  EXPECT_EQ(shown.name(), "two");
  EXPECT_EQ(shown.description(), "first");
  EXPECT_EQ(shown.notes(), "line\nline");
  EXPECT_THAT(shown.labels(), ElementsAre("kept", "new"));
  ASSERT_EQ(cluster.priorities.size(), 1u);
  EXPECT_EQ(cluster.priorities[0].job, "job-1.1");
  edit.set_priority("very_urgent");
  EXPECT_EQ(cluster.core().edit(edit, kAda, cluster.now).error().code, ErrorCode::kPermissionDenied);
  EXPECT_TRUE(cluster.core().edit(edit, kOperator, cluster.now));
  cluster.settle();
  edit.clear_priority();
  edit.set_workspace("vision");
  EXPECT_THAT(cluster.core().edit(edit, kAda, cluster.now).error().message, HasSubstr("given together"));
}

TEST(ExperimentLists, Filter) {
  ExperimentHarness cluster;
  for (int i = 0; i < 5; ++i) cluster.create(single_config(i % 2 == 0 ? "labels: [even]\n" : ""));
  cluster.change(2, "kill");
  v1::ListExperimentsRequest request;
  request.set_label("even");
  EXPECT_EQ(cluster.core().list(request, kBob).total(), 3);
  request.set_limit(2);
  EXPECT_EQ(cluster.core().list(request, kBob).experiments_size(), 2);
  EXPECT_EQ(cluster.core().list(request, kBob).experiments(0).id(), 5);
  request.set_before(3);
  EXPECT_EQ(cluster.core().list(request, kBob).experiments(0).id(), 1);
  request.Clear();
  request.add_states("CANCELED");
  EXPECT_EQ(cluster.core().list(request, kBob).total(), 1);
}

}  // namespace
}  // namespace volador::experiments
