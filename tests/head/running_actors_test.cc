// Locations of actors for inspecting their processes, and their user-defined metrics.
#include <gmock/gmock.h>

#include <set>

#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

using testing::HasSubstr;

class RunningActors : public CoreFixture {
 protected:
  std::string id(uint8_t actor) { return to_string(test_id<ActorId>(actor)); }
  protocol::WorkerMessage measured(uint8_t actor, const std::string& name, double value = 1) {
    protocol::WorkerMessage message;
    message.mutable_metrics()->set_actor_id(raw(test_id<ActorId>(actor)));
    protocol::MetricSeries& series = *message.mutable_metrics()->add_series();
    series.set_name(name);
    series.set_value(value);
    return message;
  }
  v1::Changes changes() {
    v1::Changes all;
    while (core->change_feed().any(now)) all.MergeFrom(core->change_feed().take(now, 1000));
    return all;
  }
};

TEST_F(RunningActors, OneWithoutAProcessSaysWhy) {
  hello();
  spawn(1);
  EXPECT_THAT(core->lookups().find_running(id(1)).error().message,
              HasSubstr("is pending (no node has joined yet): it has no process to look into"));
  EXPECT_EQ(core->lookups().find_running(id(1)).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(core->lookups().find_running("nobody").error().code, ErrorCode::kNotFound);
  join(kNode1, 1, 1);
  ready(kNode1, last_start());
  const auto running = core->lookups().find_running(id(1));
  ASSERT_TRUE(running) << running.error().message;
  EXPECT_EQ(running->node_name, "n1");
  EXPECT_EQ(running->session, kNode1);
  take(core->on_node_lost(now, kNode1));
  EXPECT_THAT(core->lookups().find_running(id(1)).error().message,
              HasSubstr("runs on node n1, which is not connected now"));
  join(kNode1, 1, 1);
  send(kill_message(1));
  EXPECT_THAT(core->lookups().find_running(id(1)).error().message, HasSubstr("is dead"));
}

TEST_F(RunningActors, MeasuresGoToWhoShowsThemWhileTheActorLives) {
  core->change_feed().watch();
  hello();
  join(kNode1, 1, 1);
  join(kNode2, 2, 1);
  spawn(1);
  const auto start = last_start();
  const NodeSession node = to_nodes.back().session, other = node == kNode1 ? kNode2 : kNode1;
  ready(node, start);
  changes();
  take(core->on_node_message(now, node, measured(1, "rows", 1)));
  take(core->on_node_message(now, node, measured(1, "rows", 2)));
  take(core->on_node_message(now, other, measured(1, "forged")));
  take(core->on_node_message(now, node, measured(9, "of nobody")));
  const auto told = changes();
  ASSERT_EQ(told.actor_metrics_size(), 1);
  EXPECT_EQ(told.actor_metrics(0).id(), id(1));
  ASSERT_EQ(told.actor_metrics(0).series_size(), 1);
  EXPECT_EQ(told.actor_metrics(0).series(0).value(), 2) << "the newest";
  EXPECT_FALSE(core->change_feed().any(now));
  send(kill_message(1));
  take(core->on_node_message(now, node, measured(1, "rows", 3)));
  EXPECT_EQ(changes().actor_metrics_size(), 0);
}

TEST_F(RunningActors, WhatPrometheusWouldNotTakeIsLeftOutAndCounted) {
  core->change_feed().watch();
  hello();
  join(kNode1, 1, 1);
  spawn(1);
  ready(kNode1, last_start());
  auto message = measured(1, "fine");
  protocol::ActorMetrics& all = *message.mutable_metrics();
  all.set_left_out(2);
  all.add_series()->set_name("bad name\n# TYPE x counter");
  protocol::MetricSeries& labelled = *all.add_series();
  labelled.set_name("labelled");
  (*labelled.mutable_labels())["node"] = "forged";
  protocol::MetricSeries& histogram = *all.add_series();
  histogram.set_name("damaged");
  histogram.set_kind(protocol::MetricSeries::HISTOGRAM);
  histogram.add_bounds(1);
  histogram.add_counts(1);  // One is missing.
  take(core->on_node_message(now, kNode1, message));
  const auto told = changes();
  ASSERT_EQ(told.actor_metrics_size(), 1);
  ASSERT_EQ(told.actor_metrics(0).series_size(), 1);
  EXPECT_EQ(told.actor_metrics(0).series(0).name(), "fine");
  EXPECT_EQ(told.actor_metrics(0).left_out(), 5u);
}

TEST_F(RunningActors, OneThatWaitsInADebuggerSaysWhere) {
  core->change_feed().watch();
  hello();
  join(kNode1, 1, 1);
  spawn(1);
  ready(kNode1, last_start());
  changes();
  const auto breakpoint = [&](double value) {
    auto message = measured(1, "breakpoint", value);
    (*message.mutable_metrics()->mutable_series(0)->mutable_labels())["place"] = "train.py:41";
    take(core->on_node_message(now, kNode1, message));
    return changes();
  };
  const auto stopped = breakpoint(1);
  ASSERT_EQ(stopped.actors_size(), 1);
  EXPECT_EQ(stopped.actors(0).reason(),
            "waits in a debugger at train.py:41; volador debug " + id(1).substr(0, 8) + " attaches to it");
  EXPECT_THAT(*core->explainer().text(now, id(1)), HasSubstr("waits in a debugger at train.py:41"));
  EXPECT_EQ(breakpoint(1).actors_size(), 0);
  const auto gone_on = breakpoint(0);
  ASSERT_EQ(gone_on.actors_size(), 1);
  EXPECT_EQ(gone_on.actors(0).reason(), "");
}

TEST_F(RunningActors, OneThatIsNotWellRestartsByItsPolicyWithTheCause) {
  join(kNode1, 1, 1);
  hello();
  spawn(1, 1, 1);
  ready(kNode1, last_start());
  const auto unwell = [&] {
    protocol::WorkerMessage message;
    const auto start = last_start();
    message.mutable_host_ended()->set_host_id(start.host_id());
    message.mutable_host_ended()->set_actor_id(start.spec().actor_id());
    message.mutable_host_ended()->set_epoch(start.epoch());
    message.mutable_host_ended()->mutable_cause()->set_kind(protocol::DeathCause::UNHEALTHY);
    message.mutable_host_ended()->mutable_cause()->set_message("health check Store::alive returned false");
    take(core->on_node_message(now, kNode1, message));
  };
  unwell();
  EXPECT_EQ(info(1).restarts(), 1);
  ready(kNode1, last_start());
  unwell();
  EXPECT_EQ(state(1), protocol::DEAD);
  EXPECT_THAT(*core->explainer().text(now, id(1)),
              HasSubstr("was not well on node n1: health check Store::alive returned false"));
}

}  // namespace
}  // namespace volador::head
