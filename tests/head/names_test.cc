// User-defined names of actors, trials, runs and nodes, and their resolution by the head.
#include <gmock/gmock.h>

#include "head/experiments/experiment_table.h"
#include "head/experiments/run_names.h"
#include "head/kernel/core.h"
#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(RunNames, AStemIsANameWithoutItsDate) {
  EXPECT_EQ(stem_of_run("digits_2026-11-25_01-23-55"), "digits");
  EXPECT_EQ(stem_of_run("digits_2026-11-25_01-23-55_12"), "digits");
  EXPECT_EQ(stem_of_run("digits_big_2026-11-25_01-23-55"), "digits_big");
  EXPECT_EQ(stem_of_run("digits_2026"), "digits_2026");
  EXPECT_EQ(stem_of_run("digits_7"), "digits_7");
  EXPECT_EQ(stem_of_run("_2026-11-25_01-23-55"), "_2026-11-25_01-23-55") << "a name is never empty";
  EXPECT_EQ(stem_of_run(""), "");
}

TEST(RunNames, TheDateSaysWhichRunIsLaterAndThenTheNumber) {
  const std::vector<std::string> runs{"d_2025-12-31_23-59-59_3", "d_2026-01-01_00-00-00", "d_2026-01-01_00-00-00_2",
                                      "d_2026-01-01_00-00-00_10", "d_2026-01-01_00-00-01"};
  for (size_t i = 0; i < runs.size(); ++i) {
    for (size_t j = 0; j < runs.size(); ++j)
      EXPECT_EQ(is_later_run(runs[i], runs[j]), i > j) << runs[i] << " " << runs[j];
  }
}

TEST(RunNames, ATextNamesTheNewestRunOfItsStem) {
  const auto named = [](std::vector<std::string_view> names, std::string_view text) {
    const auto found = named_run(names, text);
    return found ? names[*found] : std::string_view();
  };
  EXPECT_EQ(named({"d_2026-01-01_00-00-00", "d_2026-01-01_00-00-00_2"}, "d_2026-01-01_00-00-00"),
            "d_2026-01-01_00-00-00");
  EXPECT_EQ(named({"d_2026-01-01_00-00-00", "d_2026-01-01_00-00-00_2", "da_2027-01-01_00-00-00"}, "d"),
            "d_2026-01-01_00-00-00_2");
  EXPECT_EQ(named({"da_2026-01-01_00-00-00", "da_2027-01-01_00-00-00"}, "d"), "da_2027-01-01_00-00-00");
  EXPECT_EQ(named({"da_2026-01-01_00-00-00", "db_2027-01-01_00-00-00"}, "d"), "");
  EXPECT_EQ(named({}, "d"), "");
}

class NamesTest : public CoreFixture {
 protected:
  struct TrialOf {
    std::string id, status = "running", name = "";
    uint8_t actor = 0;
  };
  void run_is(const std::string& experiment, const std::vector<TrialOf>& trials, const std::string& state = "running") {
    protocol::ClientMessage message;
    protocol::ExperimentUpdate& update = *message.mutable_experiment();
    update.set_experiment(experiment);
    update.set_state(state);
    for (const TrialOf& trial : trials) {
      protocol::TrialRow& row = *update.add_trials();
      row.set_trial_id(trial.id);
      row.set_status(trial.status);
      row.set_name(trial.name);
      if (trial.actor > 0) row.set_actor_id(raw(test_id<ActorId>(trial.actor)));
    }
    send(message);
  }
  std::string explained(const std::string& text) {
    const auto said = core->explainer().text(now, text);
    if (said) return *said;
    EXPECT_EQ(said.error().code, ErrorCode::kNotFound) << said.error().message;
    return "error: " + said.error().message;
  }
  std::vector<std::string> listed(const std::string& filter) {
    v1::ListRequest request;
    request.set_filter(filter);
    const auto reply = core->lists().trials(now, request);
    if (!reply) return {std::string(to_string(reply.error().code)), reply.error().message};
    std::vector<std::string> ids;
    for (const v1::Trial& trial : reply->trials()) ids.push_back(trial.experiment() + "/" + trial.id());
    return ids;
  }
  void spawn_named(uint8_t actor, const std::string& name) {
    auto message = spawn_message(actor);
    message.mutable_spawn()->mutable_spec()->set_name(name);
    send(message);
  }
};

TEST_F(NamesTest, ATrialIsNamedByItsRunAndItsId) {
  hello();
  run_is("digits_2026-11-24_10-00-00", {{"57017eb7", "interrupted"}, {"aa000000"}});
  run_is("digits_2026-11-25_10-00-00", {{"57017eb7", "finished"}, {"aa111111"}});
  EXPECT_THAT(explained("57017eb7"),
              AllOf(HasSubstr("2 match"), HasSubstr("trial digits_2026-11-24_10-00-00/57017eb7 (interrupted)"),
                    HasSubstr("trial digits_2026-11-25_10-00-00/57017eb7 (finished)")));
  EXPECT_THAT(explained("digits_2026-11-24_10-00-00/57017eb7"),
              HasSubstr("trial 57017eb7 of digits_2026-11-24_10-00-00: interrupted"));
  EXPECT_THAT(explained("digits_2026-11-24/5701"), HasSubstr("of digits_2026-11-24_10-00-00: interrupted"));
  EXPECT_THAT(explained("digits/57017eb7"), HasSubstr("of digits_2026-11-25_10-00-00: finished"))
      << "the newest run of this stem";
  EXPECT_THAT(explained("aa"), AllOf(HasSubstr("2 match"), HasSubstr("/aa000000"), HasSubstr("/aa111111")));
  EXPECT_THAT(explained("aa0"), HasSubstr("trial aa000000"));
  EXPECT_THAT(explained("digits/bb"), HasSubstr("has no trial \"bb\""));
  EXPECT_THAT(explained("moon/bb"), HasSubstr("knows no experiment \"moon\""));
  EXPECT_THAT(explained(""), HasSubstr("got nothing"));
}

TEST_F(NamesTest, ARunsStemStandsForTheNewestRun) {
  hello();
  run_is("digits_2026-11-24_10-00-00", {{"aa000000"}});
  run_is("digits_2026-11-25_10-00-00", {{"bb000000"}});
  run_is("digits_big_2026-11-26_10-00-00", {{"cc000000"}});
  using Ids = std::vector<std::string>;
  EXPECT_EQ(listed("digits"), Ids{"digits_2026-11-25_10-00-00/bb000000"});
  EXPECT_EQ(listed("digits_2026-11-24_10-00-00"), Ids{"digits_2026-11-24_10-00-00/aa000000"});
  EXPECT_EQ(listed("digits_b"), Ids{"digits_big_2026-11-26_10-00-00/cc000000"});
  EXPECT_THAT(listed("dig"), testing::ElementsAre("kNotFound", AllOf(HasSubstr("3 experiments start so"),
                                                                     HasSubstr("digits_big_2026-11-26_10-00-00"))));
  EXPECT_THAT(listed("nope"), testing::ElementsAre("kNotFound", HasSubstr("knows no experiment \"nope\"")));
  EXPECT_EQ(listed("").size(), 3u);
}

TEST_F(NamesTest, AWholeNameComesBeforeTheStartOfAnId) {
  hello();
  auto registration_of_ab = registration(0x11, 4);
  registration_of_ab.mutable_register_()->set_name("ab");
  take(core->on_node_message(now, kNode1, registration_of_ab));
  spawn(0xab);
  run_is("digits", {{"ab000000"}});
  EXPECT_THAT(explained("ab"), HasSubstr("node ab ("));
  EXPECT_EQ(core->lookups().find_log_source("ab")->node_name, "ab");
  EXPECT_TRUE(core->lookups().find_log_source("ab")->actor.is_nil());
  EXPECT_THAT(explained("ab0"),
              AllOf(HasSubstr("2 match"), HasSubstr("actor ab000000 (Counter"), HasSubstr("trial digits/ab000000")))
      << "kinds do not hide each other";
  spawn_named(0xcd, "ab");
  EXPECT_THAT(explained("ab"),
              AllOf(HasSubstr("2 match"), HasSubstr("actor cd000000 (Counter, ab"), HasSubstr("node ab (11000000")));
  EXPECT_THAT(explained("default/ab"), HasSubstr("actor cd000000"));
}

TEST_F(NamesTest, ANameAloneIsThatOfTheOneThatLives) {
  hello();
  join(kNode1, 1, 4);
  spawn_named(0xa1, "hits");
  send(kill_message(0xa1));
  EXPECT_THAT(explained("hits"), HasSubstr("actor a1000000"));
  spawn_named(0xa2, "hits");
  EXPECT_THAT(explained("hits"), HasSubstr("actor a2000000"));
  send(kill_message(0xa2));
  EXPECT_THAT(explained("hits"), AllOf(HasSubstr("2 match"), HasSubstr("a1000000"), HasSubstr("a2000000")));
  EXPECT_THAT(explained("a1"), HasSubstr("actor a1000000"));
  EXPECT_THAT(explained("nobody"), HasSubstr("no actor, trial, placement group or node has this name or id"));
}

TEST_F(NamesTest, AnotherNamespaceIsNamed) {
  hello(kDriver1, 1);
  hello(ClientSession{2}, 2, "team-a");
  spawn_named(0xa1, "hits");
  auto theirs = spawn_message(0xa2);
  theirs.mutable_spawn()->mutable_spec()->set_name("hits");
  send(theirs, ClientSession{2});
  EXPECT_THAT(explained("hits"), HasSubstr("actor a1000000")) << "that of the default namespace";
  EXPECT_THAT(explained("team-a/hits"), HasSubstr("actor a2000000"));
}

TEST_F(NamesTest, TheLogOfAnActorThatWasKilledLiesWhereItRan) {
  hello();
  join(kNode1, 1, 4);
  spawn_named(0xa1, "hits");
  const auto start = to_nodes.back().message.start_host();
  ready(kNode1, start);
  send(kill_message(0xa1));
  ended(kNode1, start, protocol::DeathCause::KILLED);
  const auto source = core->lookups().find_log_source("hits");
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(source->node_name, "n1");
  EXPECT_THAT(explained("hits"), AllOf(HasSubstr("killed on request"), Not(HasSubstr("killed on request on node"))));
  restart_head();
  ASSERT_TRUE(core->lookups().find_log_source("hits"));
  EXPECT_EQ(core->lookups().find_log_source("hits")->node_name, "n1") << "a restarted head knows it too";
}

TEST_F(NamesTest, AnActorThatNeverRanHasNoLogAndThatIsSaid) {
  hello();
  spawn_named(0xa1, "hits");
  EXPECT_THAT(core->lookups().find_log_source("hits").error().message,
              HasSubstr("actor a1000000 (Counter, hits, pending) has not run on any node yet"));
  send(kill_message(0xa1));
  EXPECT_THAT(core->lookups().find_log_source("hits").error().message,
              HasSubstr("ended before it ran on any node (killed on request"));
}

TEST_F(NamesTest, ATrialsProcessIsFoundByItsRun) {
  hello();
  join(kNode1, 1, 4);
  spawn(0xa1);
  ready(kNode1, to_nodes.back().message.start_host());
  run_is("digits_2026-11-25_10-00-00", {{"57017eb7", "running", "wide", 0xa1}, {"58000000", "waiting"}});
  EXPECT_EQ(core->lookups().find_running("digits/5701")->actor, test_id<ActorId>(0xa1));
  EXPECT_EQ(core->lookups().find_running("wide")->actor, test_id<ActorId>(0xa1));
  EXPECT_THAT(core->lookups().find_running("digits/58").error().message,
              HasSubstr("trial digits_2026-11-25_10-00-00/58000000 (waiting) has no process now"));
  EXPECT_THAT(core->lookups().find_running("n1").error().message,
              HasSubstr("node n1 (01000000, alive) is neither an actor nor a trial"));
}

}  // namespace
}  // namespace volador::head
