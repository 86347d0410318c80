// Health problems of nodes and GPUs in the head's core.
#include <gmock/gmock.h>

#include "runtime/node_health.h"
#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

protocol::HealthProblem problem(std::string_view code, int gpu = -1, const std::string& subject = {},
                                const std::string& detail = {}) {
  protocol::HealthProblem out;
  out.set_code(std::string(code));
  if (gpu >= 0) out.set_gpu(gpu);
  out.set_subject(subject);
  out.set_detail(detail);
  return out;
}
const protocol::HealthProblem kBadCard = problem(health::kGpuMemory, 0, {}, "3");
const protocol::HealthProblem kBadNetwork = problem(health::kNetworkDown, -1, "eth0");

class HealthTest : public CoreFixture {
 protected:
  using Problems = std::vector<protocol::HealthProblem>;

  // A heartbeat with these problems.
  void report(NodeSession session, const Problems& problems) {
    protocol::WorkerMessage message;
    message.mutable_heartbeat()->set_sent_boot_ns(now.time_since_epoch().count());
    message.mutable_heartbeat()->mutable_usage()->mutable_problems()->Assign(problems.begin(), problems.end());
    take_events(core->on_node_message(now, session, message));
  }
  void take_events(Actions actions) {
    for (const Event& event : actions.events) {
      std::string text = event.text;
      for (const auto& [name, value] : event.fields) text += " " + name + "=" + value;
      events_.push_back(std::move(text));
    }
    take(std::move(actions));
  }
  void spawn_gpu(uint8_t actor, double gpus = 1) {
    auto message = spawn_message(actor, 1);
    (*message.mutable_spawn()->mutable_spec()->mutable_resources()->mutable_amounts())["gpus"] =
        static_cast<int64_t>(gpus * kUnit);
    send(message);
  }
  v1::Node row(const std::string& name) {
    const v1::ListNodesReply all = core->lists().nodes(now, {});
    for (const v1::Node& node : all.nodes()) {
      if (node.name() == name) return node;
    }
    return {};
  }
  std::vector<int> gpus_of(uint8_t actor) {
    const protocol::ActorInfo shown = info(actor);
    return {shown.gpus().begin(), shown.gpus().end()};
  }
  void register_with(NodeSession session, uint8_t node, int gpus, const Problems& problems) {
    auto message = registration(node, 4, gpus);
    message.mutable_register_()->mutable_problems()->Assign(problems.begin(), problems.end());
    take_events(core->on_node_message(now, session, message));
  }

  std::vector<std::string> events_;
};

TEST_F(HealthTest, NothingNewIsPlacedOnANodeWithAProblem) {
  join(kNode1, 1, 4);
  hello();
  spawn(1);
  ASSERT_EQ(info(1).node_name(), "n1");
  report(kNode1, {kBadNetwork});
  spawn(2);
  EXPECT_EQ(info(2).reason(), "node n1 has a problem (network card eth0 is down); no other could hold it");
  EXPECT_THAT(ends(), IsEmpty()) << "what runs there goes on";
  join(kNode2, 2, 4);
  EXPECT_EQ(info(2).node_name(), "n2");
  EXPECT_THAT(row("n1").problems(), SizeIs(1));
  EXPECT_EQ(row("n1").state(), "alive");
}

TEST_F(HealthTest, ANodeIsUsedAgainWhenItsProblemIsOver) {
  join(kNode1, 1, 4);
  hello();
  report(kNode1, {kBadNetwork});
  report(kNode1, {kBadNetwork});
  spawn(1);
  EXPECT_THAT(starts(), IsEmpty());
  report(kNode1, {});
  EXPECT_EQ(info(1).node_name(), "n1");
  EXPECT_THAT(row("n1").problems(), SizeIs(0));
  EXPECT_THAT(
      events_,
      ElementsAre("node has a health problem, nothing new is placed there node=n1 why=network card eth0 is down",
                  "a health problem is over node=n1 why=network card eth0 is down"));
}

TEST_F(HealthTest, AGpuWithAProblemIsNotGranted) {
  join(kNode1, 1, 8, 2);
  hello();
  report(kNode1, {kBadCard});
  spawn_gpu(1);
  EXPECT_THAT(gpus_of(1), ElementsAre(1));
  spawn_gpu(2);
  EXPECT_EQ(info(2).reason(),
            "waits for gpus 1: 1 of 2 in use on the only node; node n1 does not offer a GPU that has a problem (GPU 0: "
            "memory errors that could not be corrected: 3)");
  spawn(3);
  EXPECT_EQ(info(3).node_name(), "n1") << "the node itself is sound";
  report(kNode1, {});
  EXPECT_THAT(gpus_of(2), ElementsAre(0));
  EXPECT_THAT(events_, SizeIs(2));
}

TEST_F(HealthTest, AFractionIsNotGrantedOnABadGpuEither) {
  join(kNode1, 1, 8, 2);
  hello();
  spawn_gpu(1, 0.5);
  ASSERT_THAT(gpus_of(1), ElementsAre(0));
  report(kNode1, {kBadCard});
  spawn_gpu(2, 0.5);
  EXPECT_THAT(gpus_of(2), ElementsAre(1)) << "although GPU 0 is the fullest with room";
  ended(kNode1, starts()[0]);
  spawn_gpu(3, 1);
  EXPECT_FALSE(info(3).has_address()) << "what was returned on the bad GPU is not free";
  EXPECT_EQ(info(3).node_name(), "");
  report(kNode1, {});
  EXPECT_THAT(gpus_of(3), ElementsAre(0));
}

TEST_F(HealthTest, WhatOnlyABadGpuCouldRunWaitsAndIsNotRefused) {
  join(kNode1, 1, 8, 2);
  hello();
  report(kNode1, {kBadCard, problem(health::kGpuLost, 1, {}, "GPU is lost")});
  spawn_gpu(1, 2);
  EXPECT_NE(state(1), protocol::DEAD) << info(1).cause().message();
  EXPECT_THAT(info(1).reason(), HasSubstr("GPU 1: the driver does not reach it (GPU is lost)"));
  report(kNode1, {});
  EXPECT_THAT(gpus_of(1), ElementsAre(0, 1));
}

TEST_F(HealthTest, WatchersSeeProblemsOfTheNodeAndOfTheirOwnGpus) {
  join(kNode1, 1, 8, 2);
  hello();
  spawn_gpu(1);
  spawn_gpu(2);
  ASSERT_THAT(gpus_of(1), ElementsAre(0));
  report(kNode1, {kBadCard});
  EXPECT_THAT(info(1).problems(), SizeIs(1));
  EXPECT_THAT(info(2).problems(), SizeIs(0));
  report(kNode1, {kBadCard, kBadNetwork});
  EXPECT_THAT(info(1).problems(), SizeIs(2));
  EXPECT_THAT(info(2).problems(), SizeIs(1));
  EXPECT_FALSE(info(1).node_leaves());
  report(kNode1, {});
  EXPECT_THAT(info(1).problems(), SizeIs(0));
}

TEST_F(HealthTest, AChangedDetailIsTheSameProblem) {
  join(kNode1, 1, 8, 1);
  report(kNode1, {problem(health::kGpuHot, 0, {}, "91 °C")});
  report(kNode1, {problem(health::kGpuHot, 0, {}, "93 °C")});
  EXPECT_EQ(row("n1").problems(0).detail(), "93 °C");
  EXPECT_THAT(events_, SizeIs(1));
}

TEST_F(HealthTest, ProblemsSurviveARestartOfTheHead) {
  join(kNode1, 1, 8, 2);
  hello();
  spawn_gpu(1);
  ASSERT_THAT(gpus_of(1), ElementsAre(0));
  ready(kNode1, last_start());
  report(kNode1, {kBadCard});
  restart_head();
  auto message = registration(1, 8, 2);
  fill_report(*message.mutable_register_()->add_hosts(), last_start());
  *message.mutable_register_()->add_problems() = kBadCard;
  take(core->on_node_message(now, NodeSession{5}, message));
  hello(ClientSession{7});
  protocol::ClientMessage watch;
  watch.mutable_watch()->set_actor_id(raw(test_id<ActorId>(1)));
  send(watch, ClientSession{7});
  EXPECT_THAT(gpus_of(1), ElementsAre(0)) << "it still holds its GPU";
  EXPECT_THAT(info(1).problems(), SizeIs(1));
  EXPECT_THAT(row("n1").problems(), SizeIs(1));
}

TEST_F(HealthTest, ARegistrationMayBringProblemsAndEndThem) {
  register_with(kNode1, 1, 2, {kBadCard});
  hello();
  spawn_gpu(1, 2);
  EXPECT_THAT(starts(), IsEmpty());
  register_with(NodeSession{5}, 1, 2, {});
  EXPECT_THAT(starts(), SizeIs(1));
  EXPECT_THAT(row("n1").problems(), SizeIs(0));
}

TEST_F(HealthTest, ANodeThatReconnectsKeepsItsGpusClosed) {
  register_with(kNode1, 1, 2, {kBadCard});
  hello();
  register_with(NodeSession{5}, 1, 2, {kBadCard});
  spawn_gpu(1);
  EXPECT_THAT(gpus_of(1), ElementsAre(1));
  EXPECT_EQ(std::count_if(events_.begin(), events_.end(),
                          [](const std::string& text) { return text.find("health") != std::string::npos; }),
            1);
}

TEST_F(HealthTest, ExplainAndTheListNameTheProblem) {
  join(kNode1, 1, 4, 1);
  report(kNode1, {kBadCard, kBadNetwork});
  now += 5s;
  const std::string text = *core->explainer().text(now, "n1");
  EXPECT_THAT(text, HasSubstr("has a problem for 5.0 s: network card eth0 is down; nothing new is placed there"));
  EXPECT_THAT(text, HasSubstr("GPU 0: memory errors that could not be corrected: 3; the GPU is not granted"));
  const v1::Node shown = row("n1");
  ASSERT_THAT(shown.problems(), SizeIs(2));
  EXPECT_EQ(shown.problems(0).gpu(), 0);
  EXPECT_EQ(shown.problems(0).detail(), "3");
  EXPECT_FALSE(shown.problems(1).has_gpu());
  EXPECT_GT(shown.problems(0).since_ms(), 0);
}

TEST_F(HealthTest, BundlesLeaveABadGpuUnlessTheyAreInUse) {
  join(kNode1, 1, 8, 2);
  hello();
  for (uint8_t number = 1; number <= 2; ++number) {
    protocol::ClientMessage message;
    protocol::GroupSpec& spec = *message.mutable_create_group()->mutable_spec();
    spec.set_group_id(raw(test_id<GroupId>(static_cast<uint8_t>(0xa0 + number))));
    message.mutable_create_group()->set_request_id(spec.group_id());
    (*spec.add_bundles()->mutable_amounts())["gpus"] = kUnit;
    send(message);
  }
  auto inside = spawn_message(1, 0);
  inside.mutable_spawn()->mutable_spec()->set_group_id(raw(test_id<GroupId>(0xa1)));
  (*inside.mutable_spawn()->mutable_spec()->mutable_resources()->mutable_amounts())["gpus"] = kUnit;
  send(inside);
  ASSERT_THAT(gpus_of(1), ElementsAre(0));
  report(kNode1, {kBadCard, problem(health::kGpuLost, 1, {}, "gone")});
  const v1::ListGroupsReply groups = core->lists().groups({});
  EXPECT_EQ(groups.groups(0).bundles(0).node(), "n1") << "an actor runs in it";
  EXPECT_EQ(groups.groups(1).bundles(0).node(), "");
  report(kNode1, {kBadCard});
  EXPECT_EQ(core->lists().groups({}).groups(1).bundles(0).node(), "n1");
  EXPECT_THAT(core->lists().groups({}).groups(1).bundles(0).gpus(), ElementsAre(1));
}

TEST_F(HealthTest, AForgedReportIsBounded) {
  join(kNode1, 1, 4, 1);
  Problems many;
  for (int i = 0; i < 1000; ++i) many.push_back(problem("odd" + std::to_string(i), i, std::string(100'000, 'x')));
  report(kNode1, many);
  EXPECT_LE(row("n1").problems_size(), 64);
  EXPECT_LE(row("n1").ByteSizeLong(), size_t{1} << 20);
}

}  // namespace
}  // namespace volador::head
