#include "dashboard/downloads.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "dashboard/csv_text.h"

namespace volador::dashboard {
namespace {

// Runs posted functions immediately, on the stack.
void at_once(std::function<void()> function) { function(); }

std::string all_of(BodySource& body, size_t* pieces = nullptr) {
  std::string out;
  for (bool more = true; more;) {
    body.next([&](const Result<std::string>& piece) {
      more = !piece->empty();
      out += *piece;
      if (pieces != nullptr) ++*pieces;
    });
  }
  return out;
}

void add_trial(v1::Changes& changes, const std::string& experiment, const std::string& id, const std::string& config,
               double loss) {
  v1::Trial& trial = *changes.add_trials();
  trial.set_experiment(experiment);
  trial.set_id(id);
  trial.set_status("running");
  trial.set_step(3);
  trial.set_config_json(config);
  (*trial.mutable_metrics())["loss"] = loss;
  trial.set_reason("a, \"b\"");
  v1::TrialPoints& points = *changes.add_points();
  points.set_experiment(experiment);
  points.set_trial(id);
  for (int step = 1; step <= 3; ++step) {
    v1::TrialPoint& point = *points.add_points();
    point.set_step(step);
    (*point.mutable_metrics())["loss"] = loss / step;
    (*point.mutable_metrics())["accuracy"] = step;
  }
}

class DownloadsTest : public testing::Test {
 protected:
  DownloadsTest() : model("i", 0, "a") {
    v1::Changes changes;
    for (const char* name : {"digits", "digits2"}) {
      v1::Experiment& experiment = *changes.add_experiments();
      experiment.set_name(name);
      experiment.set_metric("loss");
      experiment.set_state("running");
      experiment.set_directory("/runs/1");
      experiment.set_machine_id("m1");
    }
    add_trial(changes, "digits", "t1", R"({"lr":0.1,"opt":{"name":"sgd, plain"}})", 0.5);
    add_trial(changes, "digits", "t2", R"({"lr":0.2,"layers":[1,2]})", 0.25);
    add_trial(changes, "digits2", "t3", R"({"other":1})", 1);
    changes.mutable_trials(0)->set_name("wide_1");
    for (const char* tag : {"wide", "keep"}) changes.mutable_trials(0)->add_tags(tag);
    model.set_machine("m1");
    model.apply(changes, 1000);
  }
  LiveModel model;
};

TEST_F(DownloadsTest, TrialsHaveAColumnForEveryParameterAndMetric) {
  EXPECT_EQ(all_of(*trials_csv(model, at_once, "digits")),
            "trial,name,status,node,step,config.layers,config.lr,config.opt.name,metrics.loss,tags,reason,error\r\n"
            "t1,wide_1,running,,3,,0.1,\"sgd, plain\",0.5,wide keep,\"a, \"\"b\"\"\",\r\n"
            "t2,t2,running,,3,\"[1,2]\",0.2,,0.25,,\"a, \"\"b\"\"\",\r\n");
}

TEST_F(DownloadsTest, CurvesAreOnePointARow) {
  EXPECT_EQ(all_of(*curves_csv(model, "digits", "loss")),
            "trial,metric,step,value\r\nt1,loss,1,0.5\r\nt1,loss,2,0.25\r\nt1,loss,3,0.16666667\r\nt2,loss,1,0."
            "25\r\nt2,loss,2,0.125\r\nt2,loss,3,0.083333336\r\n");
  const std::string all = all_of(*curves_csv(model, "digits", ""));
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 1 + 2 * 2 * 3);
  EXPECT_EQ(all_of(*curves_csv(model, "digits", "nothing")), "trial,metric,step,value\r\n");
}

TEST_F(DownloadsTest, ManyRowsComeInPiecesAndInTurns) {
  v1::Changes changes;
  for (int n = 0; n < 3000; ++n) add_trial(changes, "digits", "x" + std::to_string(10'000 + n), R"({"lr":0.1})", n);
  model.apply(changes, 2000);
  size_t turns = 0, pieces = 0;
  const auto body = trials_csv(
      model,
      [&](const std::function<void()>& function) {
        ++turns;
        function();
      },
      "digits");
  const std::string text = all_of(*body, &pieces);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3003);
  EXPECT_GE(turns, 6U);
  EXPECT_GE(pieces, 6U);
}

TEST_F(DownloadsTest, AnExperimentThatGoesMeanwhileEndsItsTable) {
  const auto body = trials_csv(model, at_once, "digits");
  v1::Changes changes;
  changes.add_experiments_gone("digits");
  model.apply(changes, 2000);
  EXPECT_EQ(all_of(*body), "trial,name,status,node,step,tags,reason,error\r\n");
}

TEST_F(DownloadsTest, FilesAreHereWhereTheProgramRunsOnThisMachine) {
  ASSERT_TRUE(model.place_of("digits"));
  EXPECT_EQ(model.place_of("digits")->directory, "/runs/1");
  EXPECT_TRUE(model.place_of("digits")->here);
  EXPECT_EQ(model.place_of("none").error().code, ErrorCode::kNotFound);
  model.set_machine("another");
  ASSERT_TRUE(model.place_of("digits"));
  EXPECT_FALSE(model.place_of("digits")->here);
}

TEST_F(DownloadsTest, WhatActorsOfATrialTookStaysTogether) {
  v1::Changes changes;
  for (const char* actor : {"a1", "a2"}) {
    v1::Changes placed;
    add_trial(placed, "digits", "t1", "{}", 1);
    placed.mutable_trials(0)->set_actor(actor);
    v1::ActorUsage& usage = *placed.add_actor_usage();
    usage.set_id(actor);
    usage.set_cpu_cores(0.5);
    usage.set_memory_bytes(1000);
    model.apply(placed, actor[1] == '1' ? 10'000 : 20'000);
  }
  const TimeSeries* series = model.series_store().find(model.series_of_actor("a2"), "cpu_cores");
  ASSERT_NE(series, nullptr);
  EXPECT_EQ(series->read(0, 100, 10).size(), 2U);
  EXPECT_EQ(model.series_of_actor("a1"), model.series_of_actor("a2"));
  EXPECT_EQ(model.series_of_actor("a3"), "actor/a3");
}

TEST_F(DownloadsTest, WhatIsSaidOfAnEndedRunIsNoNewsOfIt) {
  v1::Changes changes;
  v1::Experiment& ended = *changes.add_experiments();
  ended.set_name("digits");
  ended.set_state("finished");
  model.apply(changes, 5000);
  ended.add_tags("best");
  model.apply(changes, 9000);
  const auto row = nlohmann::json::parse(model.table(Topic::kExperiments).rows().at("digits").text);
  EXPECT_EQ(row["updated_ms"], 5000);
  EXPECT_EQ(row["tags"], nlohmann::json::array({"best"}));
  EXPECT_EQ(row["archived"], false);
}

TEST_F(DownloadsTest, ATrialKnowsWhenItRan) {
  const auto row = [this] {
    return nlohmann::json::parse(model.table(Topic::kTrials).rows().at(trial_key("digits", "t1")).text);
  };
  EXPECT_FALSE(row().contains("started_ms")) << "its program does not know";
  v1::Changes changes;
  add_trial(changes, "digits", "t1", "{}", 1);
  changes.mutable_trials(0)->set_started_ms(1000);
  model.apply(changes, 7000);
  EXPECT_EQ(row()["started_ms"], 1000);
  EXPECT_FALSE(row().contains("ended_ms"));
  changes.mutable_trials(0)->set_ended_ms(6000);
  model.apply(changes, 9000);
  EXPECT_EQ(row()["ended_ms"], 6000);
}

TEST(Csv, NumbersThatJsonCannotSayAreWords) {
  std::string out;
  CsvRow(out).number(0.1).number(std::nan("")).number(-std::numeric_limits<double>::infinity()).number(1.5F).end();
  EXPECT_EQ(out, "0.1,nan,-inf,1.5\r\n");
}

TEST(Yaml, TextsKeepTheirKind) {
  const auto value = nlohmann::ordered_json::parse(
      R"({"lr":0.1,"on":"yes","version":"1.10","name":"a: b","deep":{"layers":[64,32],"none":null,"flag":true}})");
  EXPECT_EQ(yaml_text(value),
            "lr: 0.1\n\"on\": \"yes\"\nversion: \"1.10\"\nname: \"a: b\"\ndeep:\n  layers: [64, 32]\n  none: ~\n  "
            "flag: true\n");
}

TEST(FileNames, KeepWhatEveryFileSystemLikes) {
  EXPECT_EQ(safe_file_name("digits_2026-01-02-trials.csv"), "digits_2026-01-02-trials.csv");
  EXPECT_EQ(safe_file_name("../a b\"\r\n飞"), "_._a_b______");
  EXPECT_EQ(safe_file_name(""), "_");
}

}  // namespace
}  // namespace volador::dashboard
