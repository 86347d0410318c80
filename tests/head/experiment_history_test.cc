#include "head/experiments/experiment_history.h"

#include <gtest/gtest.h>

namespace volador::head {
namespace {

const DriverId kDriver{{1}}, kLater{{2}};

std::string record_of(const protocol::ExperimentUpdate& update, int64_t wall_ms, DriverId driver = kDriver) {
  protocol::ExperimentRecord record;
  record.set_driver_id(raw(driver));
  record.set_machine_id("m1");
  record.set_wall_ms(wall_ms);
  record.set_update(update.SerializeAsString());
  return record.SerializeAsString();
}

protocol::ExperimentUpdate update_of(const std::string& trial, const std::string& status,
                                     std::initializer_list<int64_t> steps) {
  protocol::ExperimentUpdate update;
  update.set_experiment("digits");
  update.set_state("running");
  update.set_metric("loss");
  protocol::TrialRow& row = *update.add_trials();
  row.set_trial_id(trial);
  row.set_status(status);
  row.set_ended_ms(status == "stopped" ? 7 : 0);
  for (const int64_t step : steps) {
    row.set_step(step);
    protocol::TrialPoint& point = *row.add_points();
    point.set_step(step);
    (*point.mutable_metrics())["loss"] = 1.0 / static_cast<double>(step);
  }
  return update;
}

std::vector<int64_t> steps_of(const ExperimentHistory& history, const std::string& trial) {
  std::vector<int64_t> steps;
  for (const std::string& bytes : history.trials().at(trial).points) {
    protocol::TrialPoint point;
    EXPECT_TRUE(point.ParseFromString(bytes));
    steps.push_back(point.step());
  }
  return steps;
}

std::vector<std::string> records_of(const ExperimentHistory& history, size_t bytes_max) {
  std::vector<std::string> records;
  history.for_each_record(bytes_max, [&](std::string record) { records.push_back(std::move(record)); });
  return records;
}

TEST(ExperimentHistoryTest, FoldsWhatComesAndWhatComesTwiceCountsOnce) {
  ExperimentHistory history;
  EXPECT_EQ(history.name(), "");
  const std::string first = record_of(update_of("a", "running", {1, 2}), 100);
  const std::string second = record_of(update_of("a", "running", {3, 4}), 200);
  for (const std::string* one : {&first, &second, &second, &first}) EXPECT_TRUE(history.add(*one));
  EXPECT_EQ(steps_of(history, "a"), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_TRUE(history.add(record_of(update_of("a", "finished", {2, 5}), 300)));
  EXPECT_EQ(steps_of(history, "a"), (std::vector<int64_t>{1, 2, 3, 4, 5}))
      << "steps that come again after a checkpoint are those that were there";
  const ExperimentHistory::Trial& trial = history.trials().at("a");
  EXPECT_EQ(trial.row.status(), "finished");
  EXPECT_EQ(trial.row.points_size(), 0);
  EXPECT_EQ(std::pair(history.started_ms(), history.updated_ms()), std::pair(int64_t{100}, int64_t{300}));
  EXPECT_TRUE(history.is_open());
}

TEST(ExperimentHistoryTest, ALaterRunOfTheNameBeginsAnew) {
  ExperimentHistory history;
  EXPECT_TRUE(history.add(record_of(update_of("a", "running", {1}), 100)));
  EXPECT_TRUE(history.add(record_of(update_of("b", "running", {1}), 200, kLater)));
  EXPECT_EQ(history.driver(), kLater);
  EXPECT_EQ(history.started_ms(), 200);
  EXPECT_EQ(history.trials().size(), 1u);
  EXPECT_TRUE(history.trials().contains("b"));
}

TEST(ExperimentHistoryTest, WhatCannotBeReadChangesNothing) {
  ExperimentHistory history;
  EXPECT_TRUE(history.add(record_of(update_of("a", "running", {1}), 100)));
  EXPECT_FALSE(history.add("\xff\xff"));
  EXPECT_FALSE(history.add(""));
  EXPECT_FALSE(history.add(record_of({}, 200)));
  EXPECT_FALSE(history.add(record_of(update_of("a", "running", {2}), 200, {})));
  EXPECT_EQ(history.updated_ms(), 100);
  EXPECT_EQ(steps_of(history, "a"), std::vector<int64_t>{1});
}

TEST(ExperimentHistoryTest, ASummaryIsTheSameHistory) {
  ExperimentHistory history;
  for (int trial = 0; trial < 50; ++trial)
    EXPECT_TRUE(history.add(record_of(
        update_of("t" + std::to_string(trial), trial % 2 == 0 ? "running" : "stopped", {1, 2, 3}), 100 + trial)));
  protocol::ExperimentUpdate end = update_of("t0", "finished", {4});
  end.set_state("finished");
  end.set_directory("/runs/digits");
  end.set_trials_total(50);
  end.set_trials_planned(80);
  end.mutable_best()->set_trial("t1");
  end.mutable_best()->set_config_json("{}");
  end.mutable_best_so_far()->set_trial("t2");
  end.set_scheduler("ASHA");
  end.add_rungs()->set_milestone(9);
  end.set_number(51);
  EXPECT_TRUE(history.add(record_of(end, 900)));
  for (const size_t bytes_max : {size_t{1}, size_t{500}, SIZE_MAX}) {
    ExperimentHistory again;
    const auto records = records_of(history, bytes_max);
    for (const std::string& record : records) EXPECT_TRUE(again.add(record));
    EXPECT_EQ(records.size() == 1, bytes_max == SIZE_MAX);
    EXPECT_EQ(records_of(again, bytes_max), records);
    EXPECT_EQ(again.head().SerializeAsString(), history.head().SerializeAsString());
    EXPECT_FALSE(again.is_open());
    EXPECT_EQ(again.machine_id(), "m1");
    EXPECT_EQ(std::pair(again.started_ms(), again.updated_ms()), std::pair(int64_t{100}, int64_t{900}));
    EXPECT_EQ(again.trials().at("t1").row.ended_ms(), 7);
    EXPECT_EQ(again.head().number(), 51u);
    EXPECT_EQ(again.head().best().trial(), "t1");
    EXPECT_EQ(again.head().best_so_far().trial(), "t2");
    EXPECT_EQ(again.points_bytes(), history.points_bytes());
  }
}

TEST(ExperimentHistoryTest, StaysWithinItsLimits) {
  ExperimentHistory history({.trials = 3, .rows_bytes = 1 << 20, .trial_points = 16, .points_bytes = 600});
  for (int64_t step = 1; step <= 100; ++step)
    EXPECT_TRUE(history.add(record_of(update_of("a", "running", {step}), step)));
  const auto steps = steps_of(history, "a");
  EXPECT_LE(steps.size(), 16u);
  EXPECT_EQ(steps.front(), 1);
  EXPECT_EQ(steps.back(), 100);
  for (const char* trial : {"b", "c", "d", "e"}) {
    for (int64_t step = 1; step <= 16; ++step)
      EXPECT_TRUE(history.add(record_of(update_of(trial, "running", {step}), step)));
  }
  EXPECT_EQ(history.trials().size(), 3u);
  EXPECT_LE(history.points_bytes(), 600u);
  size_t bytes = 0;
  for (const auto& [id, trial] : history.trials()) {
    for (const std::string& point : trial.points) bytes += point.size();
  }
  EXPECT_EQ(history.points_bytes(), bytes);
  EXPECT_EQ(steps_of(history, "c").back(), 16);

  ExperimentHistory rows({.rows_bytes = 10});
  for (const char* trial : {"a", "b", "c"}) EXPECT_TRUE(rows.add(record_of(update_of(trial, "running", {}), 1)));
  EXPECT_LT(rows.trials().size(), 3u);
  EXPECT_TRUE(rows.trials().contains("a"));
}

}  // namespace
}  // namespace volador::head
