#include "dashboard/live_model.h"
#include "dashboard/row_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace volador::dashboard {
namespace {

using Json = nlohmann::json;

v1::Trial trial_of(const std::string& id, const std::string& status, double loss) {
  v1::Trial trial;
  trial.set_experiment("digits");
  trial.set_id(id);
  trial.set_status(status);
  trial.set_step(2);
  trial.set_started_ms(1'100);
  if (status == "finished") trial.set_ended_ms(4'000);
  (*trial.mutable_metrics())["loss"] = loss;
  return trial;
}

v1::Experiment experiment_of(const std::string& state) {
  v1::Experiment row;
  row.set_name("digits");
  row.set_state(state);
  row.set_metric("loss");
  row.set_mode("min");
  row.mutable_best()->set_trial("a");
  row.mutable_best()->set_value(0.25);
  row.mutable_best()->set_step(2);
  row.mutable_best()->set_config_json(R"({"lr":0.1})");
  row.mutable_best_so_far()->set_trial("b");
  row.mutable_best_so_far()->set_value(0.125);
  row.mutable_best_so_far()->set_step(1);
  return row;
}

PastRun past_run(const std::string& state = "finished") {
  PastRun past{.name = "digits", .rows = {}, .started_ms = 1'000, .updated_ms = 5'000};
  *past.rows.add_experiments() = experiment_of(state);
  double loss = 0.5;
  for (const char* id : {"a", "b"}) {
    *past.rows.add_trials() = trial_of(id, "finished", loss);
    v1::TrialPoints& points = *past.rows.add_points();
    points.set_experiment("digits");
    points.set_trial(id);
    for (int step = 1; step <= 2; ++step) {
      v1::TrialPoint& point = *points.add_points();
      point.set_step(step);
      (*point.mutable_metrics())["loss"] = loss / step;
    }
    loss /= 2;
  }
  return past;
}

// Updates of restored rows from the core, which may come before or after.
v1::Changes from_core(const std::string& state = "finished") {
  v1::Changes changes;
  *changes.add_experiments() = experiment_of(state);
  changes.mutable_experiments(0)->add_tags("best");
  *changes.add_trials() = trial_of("a", "finished", 0.5);
  *changes.add_trials() = trial_of("b", "finished", 0.25);
  return changes;
}

class LiveModelRestoreTest : public ::testing::Test {
 protected:
  Json row(Topic topic, const std::string& id) const { return Json::parse(model_.table(topic).rows().at(id).text); }
  Json experiment() const { return row(Topic::kExperiments, "digits"); }
  Json trial(const std::string& id) const { return row(Topic::kTrials, trial_key("digits", id)); }
  void expect_as_it_was() const {
    EXPECT_EQ(experiment()["started_ms"], 1'000);
    EXPECT_EQ(experiment()["updated_ms"], 5'000);
    EXPECT_EQ(experiment()["best"], (Json{{"trial", "a"}, {"value", 0.25}, {"step", 2}, {"config", {{"lr", 0.1}}}}));
    EXPECT_EQ(experiment()["best_so_far"]["trial"], "b");
    EXPECT_EQ(experiment()["best_so_far"]["value"], 0.125);
    EXPECT_EQ(experiment()["left"], Json());
    EXPECT_EQ(experiment()["metrics"], Json::array({"loss"}));
    EXPECT_EQ(trial("a")["started_ms"], 1'100);
    EXPECT_EQ(trial("a")["ended_ms"], 4'000);
    ASSERT_NE(model_.curves("digits", ""), nullptr);
    EXPECT_EQ(model_.curves("digits", "")->lines().at("b").points.size(), 2u);
  }
  LiveModel model_{"instance", 10'000, "here:1"};
};

TEST_F(LiveModelRestoreTest, WhatEndedStandsAsItDidWhicheverComesFirst) {
  model_.restore(past_run());
  expect_as_it_was();
  model_.apply(from_core(), 20'000);
  expect_as_it_was();
  EXPECT_EQ(experiment()["tags"], Json::array({"best"}));
  const uint64_t seq = model_.seq();
  model_.restore(past_run());
  EXPECT_EQ(model_.seq(), seq) << "a second time it is no news";
}

TEST_F(LiveModelRestoreTest, ARunOnDiskHasItsTimesFromItsFirstRowOn) {
  model_.set_times("digits", 1'000, 5'000);
  model_.apply(from_core(), 20'000);
  EXPECT_EQ(experiment()["started_ms"], 1'000);
  EXPECT_EQ(experiment()["updated_ms"], 5'000);
  v1::Changes anew;
  anew.add_experiments_gone("digits");
  *anew.add_experiments() = experiment_of("running");
  model_.apply(anew, 30'000);
  EXPECT_EQ(experiment()["started_ms"], 1'000) << "read from its beginning again";
  model_.set_times("digits", 1'000, 6'000);
  EXPECT_EQ(experiment()["updated_ms"], 6'000);
}

TEST_F(LiveModelRestoreTest, WhatTheCoreSaidBeforeStays) {
  model_.apply(from_core(), 20'000);
  model_.restore(past_run());
  expect_as_it_was();
  EXPECT_EQ(experiment()["tags"], Json::array({"best"}));
}

TEST_F(LiveModelRestoreTest, TrialsAndTheBestOneHaveNamesAndTags) {
  v1::Changes changes = from_core();
  EXPECT_FALSE(Json::parse(trial_text(changes.trials(1))).contains("name"));
  changes.mutable_trials(1)->set_name("lr=0.1");
  changes.mutable_trials(1)->add_tags("keep");
  changes.mutable_trials(1)->add_tags("\"odd\"");
  changes.mutable_experiments(0)->mutable_best()->set_name("lr=0.1");
  model_.apply(changes, 20'000);
  const Json row = Json::parse(trial_text(changes.trials(1)));
  EXPECT_EQ(row["name"], "lr=0.1");
  EXPECT_EQ(row["tags"], (Json{"keep", "\"odd\""}));
  EXPECT_EQ(experiment()["best"]["trial"], "a");
  EXPECT_EQ(experiment()["best"]["name"], "lr=0.1");
}

TEST_F(LiveModelRestoreTest, TheTimeLeftStandsWithTheTimeOfItsEstimate) {
  v1::Changes changes = from_core("running");
  v1::TimeLeft& left = *changes.mutable_experiments(0)->mutable_left();
  left.set_seconds(30);
  left.set_low(20);
  left.set_high(50);
  left.set_number(7);
  model_.apply(changes, 20'000);
  EXPECT_EQ(experiment()["left"], (Json{{"seconds", 30}, {"low", 20}, {"high", 50}, {"at_ms", 20'000}}));
  changes.mutable_experiments(0)->set_note("somebody wrote a note");
  model_.apply(changes, 24'000);
  EXPECT_EQ(experiment()["left"]["at_ms"], 20'000) << "no other estimate";
  left.set_number(8);
  model_.apply(changes, 25'000);
  EXPECT_EQ(experiment()["left"]["at_ms"], 25'000);
  model_.apply(from_core("finished"), 26'000);
  EXPECT_EQ(experiment()["left"], Json());
}

TEST_F(LiveModelRestoreTest, ARunThatGoesOnGrowsAndRepeatsNothing) {
  model_.restore(past_run("running"));
  v1::Changes changes;
  *changes.add_trials() = trial_of("a", "running", 0.1);
  v1::TrialPoints& points = *changes.add_points();
  points.set_experiment("digits");
  points.set_trial("a");
  for (const int64_t step : {1, 2, 3}) {
    v1::TrialPoint& point = *points.add_points();
    point.set_step(step);
    (*point.mutable_metrics())["loss"] = 0.1;
  }
  model_.apply(changes, 20'000);
  EXPECT_EQ(model_.curves("digits", "loss")->lines().at("a").points.size(), 3u);
  EXPECT_EQ(experiment()["started_ms"], 1'000);
  EXPECT_EQ(experiment()["updated_ms"], 20'000);
  EXPECT_EQ(trial("a")["started_ms"], 1'100);
}

TEST_F(LiveModelRestoreTest, ALaterPieceOfWhatIsGoneIsDropped) {
  PastRun later = past_run();
  later.rows.clear_experiments();
  model_.restore(later);
  EXPECT_TRUE(model_.table(Topic::kTrials).rows().empty());
}

TEST(RowText, AProgramHasItsMachineAndSinceWhenItIsConnected) {
  v1::Driver driver;
  driver.set_id("4f1c");
  driver.set_program("tune_digits");
  driver.set_pid(7);
  driver.set_state("connected");
  EXPECT_EQ(Json::parse(driver_text(driver, 90'000)),
            Json::parse(R"({"id":"4f1c","program":"tune_digits","pid":7,"state":"connected","host":"","owner":""})"));
  driver.set_node("heron");
  driver.set_connected_for_ms(60'000);
  const Json row = Json::parse(driver_text(driver, 90'000));
  EXPECT_EQ(row["host"], "heron");
  EXPECT_EQ(row["connected_ms"], 30'000);
}

TEST(LiveModel, ANodeHasRowMembersAndSeriesOfWhatItsMachineTells) {
  v1::Changes changes;
  v1::Node& node = *changes.add_nodes();
  node.set_id("n1");
  node.set_name("heron");
  node.set_state("alive");
  node.set_network_send_bytes_per_s(1234.4);
  v1::FileSystem& root = *node.add_file_systems();
  root.set_path("/");
  root.set_type("ext4");
  root.add_uses("logs");
  root.set_total_bytes(100);
  root.set_free_bytes(40);
  v1::Gpu& gpu = *node.add_gpus();
  gpu.set_measured(true);
  gpu.set_power_watts(312.5);
  LiveModel model("i", 0, "");
  model.apply(changes, 1000);
  const Json row = Json::parse(model.table(Topic::kNodes).rows().at("n1").text);
  EXPECT_EQ(row["file_systems"], Json::parse(R"([{"path":"/","type":"ext4","uses":["logs"],"total":100,"free":40}])"));
  EXPECT_EQ(row["network_send_bytes_per_s"], 1234);
  EXPECT_FALSE(row.contains("cpu_power_watts"));
  EXPECT_EQ(row["gpus"][0]["power_watts"], 312.5);
  EXPECT_FALSE(row["gpus"][0].contains("temperature_celsius"));
  EXPECT_NE(model.series_store().find("node/heron", "network_send_bytes_per_s"), nullptr);
  EXPECT_NE(model.series_store().find("node/heron", "gpu0_power_watts"), nullptr);
  EXPECT_EQ(model.series_store().find("node/heron", "disk_read_bytes_per_s"), nullptr);
}

TEST(LiveModel, ARowOfTheQueueNamesTheRequestThatBlocksIt) {
  LiveModel model("i", 0, "head:1");
  v1::Changes changes;
  v1::QueueEntry& entry = *changes.add_queue();
  entry.set_id("aa");
  entry.set_kind("trial");
  entry.set_name("lr_0.1");
  entry.set_experiment("digits");
  entry.set_trial("3f2a");
  entry.set_position(2);
  entry.set_waiting_ms(4'000);
  entry.mutable_blocker()->set_kind("group");
  entry.mutable_blocker()->set_id("bb");
  entry.mutable_blocker()->set_name("trainers");
  entry.mutable_blocker()->set_why("reserved");
  entry.mutable_blocker()->set_node("heron");
  (*entry.mutable_blocker()->mutable_resources())["gpus"] = 10'000;
  v1::QueueEntry& first = *changes.add_queue();
  first.set_id("bb");
  first.set_kind("group");
  first.set_bundles(2);
  v1::Reservation& reserved = *first.add_reserved();
  reserved.set_node("heron");
  (*reserved.mutable_resources())["gpus"] = 20'000;
  model.apply(changes, 10'000);
  const auto& rows = model.table(Topic::kQueue).rows();
  const Json row = Json::parse(rows.at("aa").text);
  EXPECT_EQ(row["kind"], "trial");
  EXPECT_EQ(row["name"], "lr_0.1");
  EXPECT_EQ(row["experiment"], "digits");
  EXPECT_EQ(row["trial"], "3f2a");
  EXPECT_EQ(row["position"], 2);
  EXPECT_EQ(row["since_ms"], 6'000);
  EXPECT_EQ(row["reserved"], Json::array());
  EXPECT_EQ(row["blocker"]["kind"], "group");
  EXPECT_EQ(row["blocker"]["id"], "bb");
  EXPECT_EQ(row["blocker"]["name"], "trainers");
  EXPECT_EQ(row["blocker"]["why"], "reserved");
  EXPECT_EQ(row["blocker"]["node"], "heron");
  EXPECT_EQ(row["blocker"]["resources"]["gpus"], 1);
  const Json group = Json::parse(rows.at("bb").text);
  EXPECT_EQ(group["blocker"], nullptr);
  EXPECT_EQ(group["bundles"], 2);
  EXPECT_EQ(group["reserved"][0]["node"], "heron");
  EXPECT_EQ(group["reserved"][0]["resources"]["gpus"], 2);
}

}  // namespace
}  // namespace volador::dashboard
