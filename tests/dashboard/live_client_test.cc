#include "dashboard/live_client.h"

#include <gmock/gmock.h>
#include <cmath>

#include <nlohmann/json.hpp>

namespace volador::dashboard {
namespace {

using Json = nlohmann::json;
constexpr int64_t kNow = 1'795'000'000'000;

class LiveClientTest : public ::testing::Test {
 protected:
  v1::Changes changes() {
    v1::Changes changes;
    changes.mutable_cluster()->set_cluster_name("heron");
    return changes;
  }
  static void add_experiment(v1::Changes& to, const std::string& name = "digits") {
    v1::Experiment& row = *to.add_experiments();
    row.set_name(name);
    row.set_state("running");
    row.set_metric("accuracy");
    row.set_mode("max");
  }
  static void add_trial(v1::Changes& to, const std::string& id, int64_t step, double accuracy,
                        const std::string& experiment = "digits") {
    v1::Trial& row = *to.add_trials();
    row.set_id(id);
    row.set_experiment(experiment);
    row.set_step(step);
    row.set_config_json(R"({"lr":0.1})");
    (*row.mutable_metrics())["accuracy"] = accuracy;
    v1::TrialPoints& points = *to.add_points();
    points.set_experiment(experiment);
    points.set_trial(id);
    v1::TrialPoint& point = *points.add_points();
    point.set_step(step);
    (*point.mutable_metrics())["accuracy"] = accuracy;
  }
  LiveClient client() {
    return LiveClient(model_, kNow, [this](const LiveClient::LogsWanted& wanted) { asked_.push_back(wanted); });
  }
  static std::vector<Json> all(LiveClient& client) {
    std::vector<Json> out;
    while (auto text = client.next()) out.push_back(Json::parse(*text));
    return out;
  }

  LiveModel model_{"instance", kNow, "127.0.0.1:6380"};
  std::vector<LiveClient::LogsWanted> asked_;
};

TEST_F(LiveClientTest, HelloComesFirst) {
  LiveClient one = client();
  const auto messages = all(one);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0]["type"], "hello");
  EXPECT_EQ(messages[0]["instance"], "instance");
  EXPECT_EQ(messages[0]["server_time_ms"], kNow);
}

TEST_F(LiveClientTest, ATopicIsASnapshotAndThenWhatChanges) {
  v1::Changes first = changes();
  add_experiment(first);
  add_trial(first, "t1", 1, 0.5);
  model_.apply(first, kNow);
  LiveClient one = client();
  all(one);
  ASSERT_TRUE(one.on_text(R"({"op":"sub","id":7,"topic":"trials","filter":{"experiment":"digits"}})"));
  auto messages = all(one);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0]["type"], "snap");
  EXPECT_EQ(messages[0]["id"], 7);
  EXPECT_EQ(messages[0]["rows"][0]["id"], "t1");
  EXPECT_EQ(messages[0]["rows"][0]["config"]["lr"], 0.1);
  const uint64_t seq = messages[0]["seq"];

  for (int step = 2; step < 50; ++step) {
    v1::Changes next = changes();
    add_trial(next, "t1", step, 0.5 + step / 100.0);
    model_.apply(next, kNow);
  }
  messages = all(one);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0]["type"], "delta");
  ASSERT_EQ(messages[0]["upserts"].size(), 1U);
  EXPECT_EQ(messages[0]["upserts"][0]["step"], 49);
  EXPECT_GT(messages[0]["seq"], seq);
}

TEST_F(LiveClientTest, ARunThatTakesTheNameTakesTheRowsOfTheEarlierOneAway) {
  v1::Changes first = changes();
  add_experiment(first);
  add_trial(first, "t1", 1, 0.5);
  model_.apply(first, kNow);
  LiveClient one = client();
  one.on_text(R"({"op":"sub","id":1,"topic":"trials","filter":{"experiment":"digits"}})");
  all(one);
  v1::Changes second = changes();
  second.add_experiments_gone("digits");
  add_experiment(second);
  add_trial(second, "t2", 1, 0.5);
  model_.apply(second, kNow);
  const auto messages = all(one);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0]["deletes"], Json::array({"t1"}));
  EXPECT_EQ(messages[0]["upserts"][0]["id"], "t2");
}

TEST_F(LiveClientTest, CurvesAreCompleteThoughRowsCoalesce) {
  LiveClient one = client();
  one.on_text(R"({"op":"sub","id":1,"topic":"curves","filter":{"experiment":"digits"}})");
  auto messages = all(one);
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[1]["rows"], Json::array());
  v1::Changes all_at_once = changes();
  add_experiment(all_at_once);
  for (int step = 1; step <= 20; ++step) add_trial(all_at_once, "t1", step, step / 100.0);
  model_.apply(all_at_once, kNow);
  messages = all(one);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0]["upserts"][0]["x"].size(), 20U);
}

TEST_F(LiveClientTest, AGroupIsARowWithItsBundlesUntilItIsGone) {
  v1::Changes first = changes();
  v1::Group& group = *first.add_groups();
  group.set_id("g1");
  group.set_state("pending");
  (*group.add_bundles()->mutable_total())["cpus"] = 15'000;
  (*group.add_bundles()->mutable_total())["cpus"] = 5'000;
  group.mutable_bundles(1)->set_node("heron");
  model_.apply(first, kNow);
  LiveClient one = client();
  one.on_text(R"({"op":"sub","id":1,"topic":"groups"})");
  auto messages = all(one);
  const Json row = messages[1]["rows"][0];
  EXPECT_EQ(row["bundles_total"], 2);
  EXPECT_EQ(row["bundles_placed"], 1);
  EXPECT_EQ(row["total"]["cpus"], 2.0);
  EXPECT_EQ(row["bundles"][0]["total"]["cpus"], 1.5);
  EXPECT_EQ(row["bundles"][1]["node"], "heron");
  v1::Changes gone = changes();
  gone.add_groups_gone("g1");
  model_.apply(gone, kNow);
  messages = all(one);
  EXPECT_EQ(messages[0]["deletes"], Json::array({"g1"}));
}

TEST_F(LiveClientTest, ObjectsAreSilentUntilTheNodesHaveAnsweredAndThenTheirWholeState) {
  LiveClient one = client();
  EXPECT_FALSE(one.wants_objects());
  one.on_text(R"({"op":"sub","id":1,"topic":"objects"})");
  EXPECT_TRUE(one.wants_objects());
  EXPECT_EQ(all(one).size(), 1U);  // Its hello.

  v1::ListObjectsReply reply;
  reply.add_stores()->set_node("heron");
  for (const char* id : {"a", "b"}) {
    v1::Object& object = *reply.add_objects();
    object.set_id(id);
    object.set_node("heron");
    object.add_held_by("driver \"x\"");
  }
  model_.set_objects(reply);
  auto messages = all(one);
  ASSERT_EQ(messages.size(), 1U);
  ASSERT_EQ(messages[0]["rows"].size(), 2U);
  EXPECT_EQ(messages[0]["rows"][0]["held_by"], Json::array({"driver \"x\""}));
  model_.set_objects(reply);
  EXPECT_TRUE(all(one).empty());
  reply.mutable_objects()->DeleteSubrange(0, 1);
  model_.set_objects(reply);
  messages = all(one);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0]["deletes"], Json::array({"a@heron"}));

  model_.forget_objects();
  LiveClient late = client();
  late.on_text(R"({"op":"sub","id":1,"topic":"objects"})");
  EXPECT_EQ(all(late).size(), 1U);
  one.on_text(R"({"op":"unsub","id":1})");
  EXPECT_FALSE(one.wants_objects());
}

TEST_F(LiveClientTest, ASubscriptionGoesOnWhereAnotherEnded) {
  v1::Changes first = changes();
  add_experiment(first);
  add_trial(first, "t1", 1, 0.5);
  model_.apply(first, kNow);
  LiveClient one = client();
  one.on_text(R"({"op":"sub","id":1,"topic":"trials","filter":{"experiment":"digits"}})");
  const auto seen = all(one);
  EXPECT_FALSE(one.resumable()) << "nothing was left to send";
  const uint64_t seq = seen.back()["seq"];
  v1::Changes next = changes();
  add_trial(next, "t2", 1, 0.6);
  model_.apply(next, kNow);

  const auto resumed = [this](const std::string& instance, uint64_t from) {
    LiveClient other = client();
    other.on_text(R"({"op":"sub","id":1,"topic":"trials","filter":{"experiment":"digits"},"resume":{"instance":")" +
                  instance + R"(","seq":)" + std::to_string(from) + "}}");
    const auto messages = all(other);
    return messages.size() < 2 ? Json() : messages[1];
  };
  const Json delta = resumed("instance", seq);
  EXPECT_EQ(delta["type"], "delta");
  ASSERT_EQ(delta["upserts"].size(), 1U);
  EXPECT_EQ(delta["upserts"][0]["id"], "t2");
  EXPECT_EQ(resumed("another", seq)["type"], "snap");
  EXPECT_EQ(resumed("instance", model_.seq() + 1)["type"], "snap");
  EXPECT_TRUE(resumed("instance", model_.seq()).is_null()) << "nothing has happened since";
}

TEST_F(LiveClientTest, TheBestTrialIsTheOneThatTheProgramNames) {
  v1::Changes first = changes();
  add_experiment(first);
  add_trial(first, "t1", 1, 0.9);
  add_trial(first, "t2", 1, 0.7);
  model_.apply(first, kNow);
  const auto row = [this] { return Json::parse(model_.table(Topic::kExperiments).rows().at("digits").text); };
  EXPECT_TRUE(row()["best"].is_null()) << "the model computes none of its own";
  v1::Changes told = changes();
  add_experiment(told);
  told.mutable_experiments(0)->mutable_best()->set_trial("t2");
  told.mutable_experiments(0)->mutable_best()->set_value(0.7);
  model_.apply(told, kNow);
  EXPECT_EQ(row()["best"]["trial"], "t2");
  EXPECT_EQ(row()["best"]["value"], 0.7);
  EXPECT_EQ(row()["metrics"], Json::array({"accuracy"}));
}

TEST_F(LiveClientTest, TenThousandTrialsComeInPartsOfBoundedSize) {
  v1::Changes first = changes();
  add_experiment(first);
  for (int n = 0; n < 10'000; ++n) add_trial(first, "trial" + std::to_string(n), 1, 0.5);
  model_.apply(first, kNow);
  LiveClient one = client();
  one.on_text(R"({"op":"sub","id":1,"topic":"trials","filter":{"experiment":"digits"}})");
  size_t rows = 0, parts = 0, last_parts = 0;
  while (auto text = one.next()) {
    EXPECT_LT(text->size(), LiveClient::kMessageBytes + 4096);
    const Json message = Json::parse(*text);
    if (message["type"] != "snap") continue;
    ++parts;
    rows += message["rows"].size();
    if (!message.value("more", false)) ++last_parts;
  }
  EXPECT_EQ(rows, 10'000U);
  EXPECT_GT(parts, 5U);
  EXPECT_EQ(last_parts, 1U);
}

TEST_F(LiveClientTest, OneWithMuchToSayHoldsUpNoOther) {
  v1::Changes first = changes();
  add_experiment(first);
  for (int n = 0; n < 10'000; ++n) add_trial(first, "trial" + std::to_string(n), 1, 0.5);
  model_.apply(first, kNow);
  LiveClient one = client();
  one.on_text(R"({"op":"sub","id":1,"topic":"trials"})");
  one.on_text(R"({"op":"sub","id":2,"topic":"experiments"})");
  one.next();
  EXPECT_EQ(Json::parse(*one.next())["id"], 1);
  EXPECT_EQ(Json::parse(*one.next())["id"], 2);
}

TEST_F(LiveClientTest, WrongMessagesAreAnsweredOrEndTheConnection) {
  LiveClient one = client();
  all(one);
  EXPECT_TRUE(one.on_text(R"({"op":"sub","id":1,"topic":"moon"})"));
  EXPECT_TRUE(one.on_text(R"({"op":"sub","id":2,"topic":"curves"})"));
  EXPECT_TRUE(one.on_text(R"({"op":"sub","id":3,"topic":"logs"})"));
  EXPECT_TRUE(one.on_text(R"({"op":7,"id":"x","topic":[]})"));
  EXPECT_TRUE(one.on_text(R"({"op":"unsub","id":99})"));
  for (const Json& message : all(one)) EXPECT_EQ(message["type"], "error");
  EXPECT_TRUE(one.on_text(R"({"op":"ping"})"));
  EXPECT_EQ(all(one)[0]["type"], "pong");
  EXPECT_FALSE(one.on_text("nonsense"));
  EXPECT_FALSE(one.on_text("[]"));
}

TEST_F(LiveClientTest, SubscriptionsAndWaitingAnswersAreBounded) {
  LiveClient one = client();
  all(one);
  for (size_t id = 0; id < LiveClient::kSubscriptionsMax; ++id)
    one.on_text(R"({"op":"sub","id":)" + std::to_string(id) + R"(,"topic":"nodes"})");
  one.on_text(R"({"op":"sub","id":1000,"topic":"nodes"})");
  EXPECT_EQ(all(one)[0]["code"], "kUnavailable");
  bool alive = true;
  for (size_t n = 0; n < 2 * LiveClient::kRepliesMax && alive; ++n) alive = one.on_text(R"({"op":"ping"})");
  EXPECT_FALSE(alive);
}

TEST_F(LiveClientTest, LogsBeginWithTheirTailAndFollowOnlyTheirActor) {
  LiveClient one = client();
  all(one);
  one.on_text(R"({"op":"sub","id":1,"topic":"logs","filter":{"id":"3f2a"}})");
  ASSERT_EQ(asked_.size(), 1U);
  EXPECT_EQ(asked_[0].id, "3f2a");
  EXPECT_TRUE(one.follows_logs());
  v1::LogLine line;
  line.set_text("old");
  model_.add_log_lines("aa", {line});  // Part of the following tail.
  one.give_logs(1, LiveClient::FoundLogs{.actor = "aa", .lines = {line}});
  line.set_text("new");
  model_.add_log_lines("aa", {line});
  model_.add_log_lines("bb", {line});
  const auto messages = all(one);
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0]["rows"].size(), 1U);
  ASSERT_EQ(messages[1]["upserts"].size(), 1U);
  EXPECT_EQ(messages[1]["upserts"][0]["text"], "new");
  one.on_text(R"({"op":"unsub","id":1})");
  EXPECT_FALSE(one.follows_logs());
}

TEST_F(LiveClientTest, LogsOfNothingAreAnError) {
  LiveClient one = client();
  all(one);
  one.on_text(R"({"op":"sub","id":1,"topic":"logs","filter":{"id":"3f2a"}})");
  one.give_logs(1, make_error(ErrorCode::kNotFound, "no such thing"));
  const auto messages = all(one);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0]["code"], "kNotFound");
}

TEST(LiveModel, TextsOfOthersCannotBreakItsJson) {
  LiveModel model("i", kNow, "");
  v1::Changes changes;
  v1::Trial& trial = *changes.add_trials();
  trial.set_id("a\"b\\c\n\x1f<script>");
  trial.set_experiment("e");
  trial.set_config_json("{\"lr\":0.1},\"evil\":{");
  trial.set_error("\xff\xfe broken \xe9\xa3\x9e");
  (*trial.mutable_metrics())["nan"] = std::numeric_limits<double>::quiet_NaN();
  model.apply(changes, kNow);
  ASSERT_EQ(model.table(Topic::kTrials).rows().size(), 1U);
  const Json row = Json::parse(model.table(Topic::kTrials).rows().begin()->second.text);
  EXPECT_EQ(row["id"], "a\"b\\c\n\x1f<script>");
  EXPECT_EQ(row["config"], Json::object());
  EXPECT_EQ(row["config_text"], "{\"lr\":0.1},\"evil\":{");
  EXPECT_TRUE(row["metrics"]["nan"].is_null());
  EXPECT_FALSE(row.contains("evil"));
}

TEST(LiveModel, ExperimentsHaveTheirSchedulersRungs) {
  LiveModel model("i", kNow, "");
  v1::Changes changes;
  v1::Experiment& row = *changes.add_experiments();
  row.set_name("digits");
  row.set_scheduler("ASHA max_t 9");
  v1::SchedulerRung& rung = *row.add_rungs();
  rung.set_milestone(3);
  rung.set_trials(4);
  rung.set_passed(1);
  rung.set_cutoff(std::nan(""));
  rung.set_state("open");
  v1::SchedulerRung::Member& member = *rung.add_members();
  member.set_trial("3f2a90c1");
  member.set_value(0.5);
  member.set_act("stopped");
  model.apply(changes, kNow);
  const Json json = Json::parse(model.table(Topic::kExperiments).rows().begin()->second.text);
  EXPECT_EQ(json["scheduler"]["text"], "ASHA max_t 9");
  const auto& first = json["scheduler"]["rungs"][0];
  EXPECT_EQ(first["step"], 3);
  EXPECT_TRUE(first["cutoff"].is_null());
  EXPECT_EQ(first["members"][0], (Json{{"trial", "3f2a90c1"}, {"value", 0.5}, {"act", "stopped"}}));
}

TEST(LiveModel, EventsAndCurvesAreBounded) {
  LiveModel model("i", kNow, "", {.events = 10, .curve_points = 100, .curve_points_all = 500, .curve_metrics = 2});
  for (int n = 0; n < 50; ++n) {
    v1::Changes changes;
    changes.add_events()->set_text("event");
    v1::Experiment& row = *changes.add_experiments();
    row.set_name("e" + std::to_string(n % 3));
    row.set_metric("m0");
    v1::TrialPoints& points = *changes.add_points();
    points.set_experiment(row.name());
    points.set_trial("t" + std::to_string(n));
    for (int step = 1; step <= 60; ++step) {
      v1::TrialPoint& point = *points.add_points();
      point.set_step(step);
      for (const char* metric : {"m0", "m1", "m2"}) (*point.mutable_metrics())[metric] = step;
    }
    model.apply(changes, kNow);
  }
  EXPECT_EQ(model.table(Topic::kEvents).rows().size(), 10U);
  size_t points = 0, metrics = 0;
  for (const char* name : {"e0", "e1", "e2"}) {
    for (const char* metric : {"m0", "m1", "m2"}) {
      if (const LiveCurves* curves = model.curves(name, metric)) points += curves->points(), ++metrics;
    }
  }
  EXPECT_LE(points, 500U);
  EXPECT_GE(metrics, 1U);
  EXPECT_LE(metrics, 6U);
}

}  // namespace
}  // namespace volador::dashboard
