// Experiments from before the head's start, and the core's messages about current ones for persistence.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "head/experiments/experiment_table.h"
#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

const DriverId kFormer{{7}}, kOther{{8}};

protocol::ExperimentUpdate update_of(const std::string& name, const std::string& state,
                                     std::initializer_list<const char*> trials = {}) {
  protocol::ExperimentUpdate update;
  update.set_experiment(name);
  update.set_state(state);
  for (const char* trial : trials) {
    protocol::TrialRow& row = *update.add_trials();
    row.set_trial_id(trial);
    row.set_status("finished");
  }
  return update;
}

TEST(ExperimentTableRestoreTest, PartsComeTogetherAndNothingNewerGivesWay) {
  Limits limits;
  limits.experiments = 2;
  ExperimentTable table{limits};
  EXPECT_TRUE(table.restore(kFormer, "m1", update_of("a", "finished", {"t1"}), 1));
  EXPECT_TRUE(table.restore(kFormer, "m1", update_of("a", "", {"t2"}), 1));
  EXPECT_EQ(table.all().at("a").trials.size(), 2u);
  EXPECT_EQ(table.all().at("a").state, "finished");
  EXPECT_EQ(table.all().at("a").machine_id, "m1");
  EXPECT_FALSE(table.restore(kOther, "m1", update_of("a", "failed", {"t3"}), 2)) << "the name is another run's";
  table.update(kOther, update_of("b", "running"));
  EXPECT_FALSE(table.restore(kFormer, "m1", update_of("c", "finished"), 3)) << "no room";
  EXPECT_FALSE(table.restore(kOther, "m1", update_of("b", "finished"), 3)) << "its driver has spoken since";
  table.update(kOther, update_of("d", "running"));
  EXPECT_FALSE(table.all().contains("a")) << "what was restored goes before what runs";
  EXPECT_TRUE(table.all().contains("b"));
  table.check_invariants();
}

TEST(ExperimentTableTest, KeepsWhatRunsAndRefusesOneMoreWhereAllRun) {
  Limits limits;
  limits.experiments = 2;
  ExperimentTable table{limits};
  ASSERT_TRUE(table.update(kOther, update_of("long", "running", {"t1"})));
  ASSERT_TRUE(table.update(kOther, update_of("short", "running")));
  EXPECT_FALSE(table.update(kOther, update_of("third", "running"))) << "all run";
  ASSERT_TRUE(table.update(kOther, update_of("short", "finished")));
  ASSERT_TRUE(table.update(kOther, update_of("third", "running")));
  EXPECT_FALSE(table.all().contains("short")) << "it had ended";
  EXPECT_EQ(table.all().at("long").trials.size(), 1u) << "though it was updated longest ago";
  table.check_invariants();
}

TEST(ExperimentTableTest, KeepsTheBestTrialsUntilOthersAreTold) {
  ExperimentTable table{Limits{}};
  protocol::ExperimentUpdate update = update_of("a", "running", {"t1", "t2"});
  update.mutable_best()->set_trial("t2");
  update.mutable_best()->set_value(0.5);
  update.mutable_best_so_far()->set_trial("t1");
  update.mutable_left()->set_seconds(30);
  update.set_trials_total(10);
  update.set_trials_planned(10);
  table.update(kFormer, update);
  EXPECT_EQ(table.all().at("a").left->seconds(), 30);
  table.update(kFormer, update_of("a", "running", {"t3"}));
  const Experiment& of = table.all().at("a");
  EXPECT_EQ(of.best.trial(), "t2");
  EXPECT_EQ(of.best.value(), 0.5);
  EXPECT_EQ(of.best_so_far.trial(), "t1");
  EXPECT_FALSE(of.left) << "an estimate that is not told again does not hold any more";
  EXPECT_EQ(of.trials_total, 10);
  protocol::ExperimentUpdate none = update_of("a", "running");
  none.mutable_best();
  none.set_trials_total(3);
  table.update(kFormer, none);
  EXPECT_EQ(of.best.trial(), "") << "all of them report NaN by now";
  EXPECT_EQ(of.best_so_far.trial(), "t1");
  EXPECT_EQ(of.trials_total, 3);
}

TEST(ExperimentTableTest, ARunWhoseProgramIsGoneHasTheTrialsThatWereMade) {
  ExperimentTable table{Limits{}};
  protocol::ExperimentUpdate update = update_of("a", "running", {"t1", "t2"});
  update.set_trials_total(4'000);
  update.set_trials_planned(4'000);
  update.mutable_left()->set_seconds(30);
  table.update(kFormer, update);
  EXPECT_THAT(table.on_driver_gone(kFormer), ::testing::ElementsAre("a"));
  const Experiment& of = table.all().at("a");
  EXPECT_EQ(of.state, "crashed");
  EXPECT_EQ(of.trials_total, 2);
  EXPECT_EQ(of.trials_planned, 4'000);
  EXPECT_FALSE(of.left);
}

class ExperimentsTest : public CoreFixture {
 protected:
  ExperimentsTest() {
    options.keep_experiments = true;
    restart_head();
  }
  static constexpr uint8_t kDriverNumber = 1;  // Number of the driver in hello().
  std::vector<ExperimentNews> say(const protocol::ExperimentUpdate& update) {
    protocol::ClientMessage message;
    *message.mutable_experiment() = update;
    Actions actions = core->on_client_message(now, kDriver1, message);
    EXPECT_TRUE(actions.journal.empty());
    return actions.experiments;
  }
};

TEST_F(ExperimentsTest, WhatADriverSaysIsGivenToWhoKeepsIt) {
  hello();
  auto news = say(update_of("digits", "running", {"t1"}));
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].experiment, "digits");
  EXPECT_TRUE(news[0].open);
  protocol::ExperimentUpdate kept;
  ASSERT_TRUE(kept.ParseFromString(news[0].update));
  EXPECT_EQ(kept.trials(0).trial_id(), "t1");
  EXPECT_TRUE(say(update_of("digits", "paused"))[0].open);
  EXPECT_TRUE(say(update_of("digits", ""))[0].open) << "a part of one that is paused";
  EXPECT_FALSE(say(update_of("digits", "finished"))[0].open);
  EXPECT_TRUE(say(update_of("", "running")).empty());
  options.keep_experiments = false;
  restart_head();
  hello();
  EXPECT_TRUE(say(update_of("digits", "running")).empty());
}

TEST_F(ExperimentsTest, TagsOfItsProgramCountWhereNobodyHasSaidAnythingOfTheRun) {
  hello();
  const auto tags = [&] {
    v1::AnnotateExperimentRequest request;
    request.set_experiment("digits");
    v1::AnnotateExperimentReply reply;
    EXPECT_TRUE(annotate(request, reply, "sara"));
    return std::vector<std::string>(reply.experiment().tags().begin(), reply.experiment().tags().end());
  };
  const auto tell = [&](std::vector<std::string> given) {
    protocol::ClientMessage message;
    *message.mutable_experiment() = update_of("digits", "running");
    message.mutable_experiment()->set_directory("/runs/digits_1");
    for (const std::string& tag : given) message.mutable_experiment()->add_tags(tag);
    Actions actions = core->on_client_message(now, kDriver1, message);
    const size_t journaled = actions.journal.size();
    take(std::move(actions));
    return journaled;
  };
  EXPECT_EQ(tell({"paper", "slow"}), 1u);
  EXPECT_THAT(tags(), ::testing::ElementsAre("paper", "slow"));
  EXPECT_EQ(tell({"paper", "slow"}), 0u);
  v1::AnnotateExperimentRequest other;
  other.set_experiment("digits");
  other.add_remove_tags("slow");
  v1::AnnotateExperimentReply reply;
  auto changed = annotate(other, reply, "sara");
  ASSERT_TRUE(changed);
  take(std::move(*changed));
  EXPECT_EQ(tell({"paper", "slow"}), 0u) << "what somebody has said of it stands";
  EXPECT_THAT(tags(), ::testing::ElementsAre("paper"));
  restart_head();  // They are in the journal.
  hello();
  EXPECT_EQ(tell({}), 0u);
  EXPECT_THAT(tags(), ::testing::ElementsAre("paper"));
}

protocol::ExperimentUpdate failed_trials(std::initializer_list<const char*> trials) {
  protocol::ExperimentUpdate update = update_of("digits", "", trials);
  for (protocol::TrialRow& row : *update.mutable_trials()) {
    row.set_status("failed");
    row.set_error("out of memory\nat step 3");
  }
  return update;
}

// Text and fields of an event in one line.
std::vector<std::string> told(const std::vector<Event>& events) {
  std::vector<std::string> found;
  for (const Event& event : events) {
    found.push_back(event.kind.empty() ? event.text : fmt::format("{}: {}", event.kind, event.text));
    for (const auto& [key, value] : event.fields) found.back() += fmt::format(" {}={}", key, value);
  }
  return found;
}

TEST_F(ExperimentsTest, TellsWhenTheyStartPauseFinishAndWhichTrialsFail) {
  hello();
  const auto events = [&](const protocol::ExperimentUpdate& update) {
    protocol::ClientMessage message;
    *message.mutable_experiment() = update;
    return told(core->on_client_message(now, kDriver1, message).events);
  };
  const std::string id = to_string(test_id<DriverId>(kDriverNumber));
  EXPECT_THAT(events(update_of("digits", "running", {"t1"})),
              ::testing::ElementsAre("experiment started experiment=digits driver=program id=" + id));
  EXPECT_THAT(events(update_of("digits", "running", {"t2"})), ::testing::IsEmpty()) << "it ran before";
  EXPECT_THAT(events(update_of("digits", "paused")), ::testing::ElementsAre("experiment paused experiment=digits"));
  EXPECT_THAT(events(update_of("digits", "running")), ::testing::ElementsAre("experiment resumed experiment=digits"));
  EXPECT_THAT(events(failed_trials({"t1"})),
              ::testing::ElementsAre("trial failed experiment=digits trial=t1 error=out of memory"));
  EXPECT_THAT(events(failed_trials({"t1"})), ::testing::IsEmpty()) << "it had failed before";
  protocol::ExperimentUpdate end = update_of("digits", "finished");
  end.set_metric("accuracy");
  end.mutable_best()->set_trial("t2");
  end.mutable_best()->set_value(0.98123);
  EXPECT_THAT(events(end),
              ::testing::ElementsAre(
                  "experiment.finished: experiment finished experiment=digits best=accuracy 0.9812 trial=t2 failed=1"));
  EXPECT_THAT(events(update_of("other", "failed")),
              ::testing::ElementsAre("experiment.failed: experiment failed experiment=other failed=0"));
}

TEST_F(ExperimentsTest, AFloodOfFailedTrialsIsNotToldOneByOne) {
  hello();
  protocol::ExperimentUpdate update = update_of("digits", "running");
  for (int trial = 0; trial < 200; ++trial) {
    protocol::TrialRow& row = *update.add_trials();
    row.set_trial_id(std::to_string(trial));
    row.set_status("failed");
  }
  protocol::ClientMessage message;
  *message.mutable_experiment() = update;
  const auto events = told(core->on_client_message(now, kDriver1, message).events);
  EXPECT_EQ(events.size(), 52u) << "the start, 50 trials and a last word";
  EXPECT_THAT(events, ::testing::Contains(
                          "more trials of an experiment failed, they are not listed one by one experiment=digits"));
  *message.mutable_experiment() = failed_trials({"later"});
  EXPECT_THAT(told(core->on_client_message(now, kDriver1, message).events), ::testing::IsEmpty());
}

TEST_F(ExperimentsTest, TellsThatOneCrashedWithItsProgramAndWhoseItWas) {
  hello();
  say(update_of("digits", "running", {"t1"}));
  EXPECT_EQ(core->lists().status(now).experiments(0).driver_id(), to_string(test_id<DriverId>(kDriverNumber)));
  protocol::ClientMessage goodbye;
  goodbye.mutable_goodbye();
  EXPECT_THAT(
      told(core->on_client_message(now, kDriver1, goodbye).events),
      ::testing::Contains("experiment.crashed: experiment crashed: its program has left experiment=digits failed=0"));
}

TEST_F(ExperimentsTest, ADriverThatIsGoneInterruptsWhatIsKept) {
  hello();
  say(update_of("digits", "running", {"t1"}));
  protocol::ClientMessage goodbye;
  goodbye.mutable_goodbye();
  const auto news = core->on_client_message(now, kDriver1, goodbye).experiments;
  ASSERT_EQ(news.size(), 1u);
  EXPECT_FALSE(news[0].open);
  protocol::ExperimentUpdate kept;
  ASSERT_TRUE(kept.ParseFromString(news[0].update));
  EXPECT_EQ(kept.state(), "crashed");
}

TEST_F(ExperimentsTest, WhatRanUnderADriverThatNobodyWaitsForIsInterruptedAtTheStart) {
  HeadCore later(options, random);
  EXPECT_TRUE(later.restore_experiment(kFormer, "m1", update_of("digits", "running", {"t1"}), 1));
  EXPECT_TRUE(later.restore_experiment(kFormer, "m1", update_of("older", "finished", {"t1"}), 2));
  const auto news = later.start(now).experiments;
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].experiment, "digits");
  const auto status = later.lists().status(now);
  ASSERT_EQ(status.experiments_size(), 2);
  EXPECT_EQ(status.experiments(0).state(), "crashed");
  EXPECT_EQ(status.experiments(1).state(), "finished");
  EXPECT_EQ(later.lists().trials(now, {})->trials_size(), 2);
  later.check_invariants();
}

TEST_F(ExperimentsTest, ADriverThatComesBackGoesOnWithItsRows) {
  hello();
  const auto driver = test_id<DriverId>(kDriverNumber);
  EXPECT_TRUE(core->restore_experiment(driver, "m1", update_of("digits", "running", {"t1", "t2"}), 1));
  say(update_of("digits", "running", {"t2", "t3"}));
  EXPECT_EQ(core->lists().trials(now, {})->trials_size(), 3);
  EXPECT_FALSE(core->restore_experiment(driver, "m1", update_of("digits", "running", {"t4"}), 1))
      << "it has spoken since";
}

protocol::ExperimentUpdate numbered(uint64_t number, const char* trial) {
  protocol::ExperimentUpdate update = update_of("digits", "running", {trial});
  update.set_number(number);
  return update;
}

TEST_F(ExperimentsTest, AnUpdateThatComesAgainIsTakenOnceAndWhatIsKeptIsTold) {
  hello();
  const auto driver = test_id<DriverId>(kDriverNumber);
  EXPECT_EQ(say(numbered(4, "t1")).at(0).number, 4u);
  const auto told = [](const Actions& actions) {
    return actions.to_clients.empty() ? 0 : actions.to_clients.back().message.kept().number();
  };
  EXPECT_EQ(told(core->on_experiment_kept(now, driver, "digits", 4)), 4u);
  EXPECT_EQ(told(core->on_experiment_kept(now, kOther, "digits", 4)), 0u) << "nobody is there";
  EXPECT_EQ(say(numbered(9, "t2")).size(), 1u)
      << "numbers may leave some out: those of the program's other experiments";
  protocol::ClientMessage again;
  *again.mutable_experiment() = numbered(9, "t3");
  const Actions actions = core->on_client_message(now, kDriver1, again);
  EXPECT_TRUE(actions.experiments.empty());
  EXPECT_EQ(told(actions), 9u);
  EXPECT_EQ(core->lists().trials(now, {})->trials_size(), 2);
}

TEST_F(ExperimentsTest, AHeadThatKnowsAnUpdateFromItsDiskTakesItNoSecondTime) {
  const auto driver = test_id<DriverId>(kDriverNumber);
  EXPECT_TRUE(core->restore_experiment(driver, "m1", numbered(5, "t1"), 1));
  hello();
  EXPECT_TRUE(say(numbered(4, "t0")).empty());
  EXPECT_TRUE(say(numbered(5, "t1")).empty());
  EXPECT_EQ(say(numbered(6, "t2")).size(), 1u);
  EXPECT_EQ(core->lists().trials(now, {})->trials_size(), 2);
}

TEST_F(ExperimentsTest, WithoutAKeeperNothingIsWaitedFor) {
  options.keep_experiments = false;
  restart_head();
  hello();
  protocol::ClientMessage message;
  *message.mutable_experiment() = numbered(1, "t1");
  const Actions actions = core->on_client_message(now, kDriver1, message);
  ASSERT_EQ(actions.to_clients.size(), 1u);
  EXPECT_EQ(actions.to_clients[0].message.kept().number(), 1u);
}

TEST_F(ExperimentsTest, WhatIsRestoredLaterIsTold) {
  core->change_feed().watch();
  core->change_feed().take(now, 1000);
  EXPECT_TRUE(core->restore_experiment(kFormer, "m1", update_of("digits", "finished", {"t1", "t2"}), 1));
  ASSERT_TRUE(core->change_feed().any(now));
  const auto changes = core->change_feed().take(now, 1000);
  ASSERT_EQ(changes.experiments_size(), 1);
  EXPECT_EQ(changes.experiments(0).state(), "finished");
  EXPECT_EQ(changes.trials_size(), 2);
  core->check_invariants();
}

}  // namespace
}  // namespace volador::head
