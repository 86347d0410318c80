#include "runtime/actor/unacked_updates.h"

#include <gtest/gtest.h>

namespace volador {
namespace {

protocol::ExperimentUpdate update_of(const std::string& experiment, size_t points = 1) {
  protocol::ExperimentUpdate update;
  update.set_experiment(experiment);
  protocol::TrialRow& row = *update.add_trials();
  row.set_trial_id("t1");
  row.set_config_json(std::string(40, 'c'));
  for (size_t at = 0; at < points; ++at) row.add_points()->set_step(static_cast<int64_t>(at) + 1);
  return update;
}

std::vector<uint64_t> numbers(const UnackedUpdates& updates) {
  std::vector<uint64_t> all;
  for (const auto& one : updates.all()) all.push_back(one.number());
  return all;
}

TEST(UnackedUpdatesTest, ThoseOfAnExperimentGoUpToTheirNumber) {
  UnackedUpdates updates;
  for (const char* name : {"a", "b", "a", "b", "a"}) {
    auto update = update_of(name);
    updates.add(update);
    EXPECT_EQ(update.number(), updates.all().back().number());
  }
  EXPECT_EQ(numbers(updates), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  updates.kept("a", 3);
  EXPECT_EQ(numbers(updates), (std::vector<uint64_t>{2, 4, 5}));
  updates.kept("a", 3);
  updates.kept("none", 9);
  EXPECT_EQ(numbers(updates), (std::vector<uint64_t>{2, 4, 5}));
  updates.kept("b", 4);
  updates.kept("a", 5);
  EXPECT_TRUE(updates.all().empty());
  EXPECT_EQ(updates.bytes(), 0u);
}

TEST(UnackedUpdatesTest, WhereThereAreTooManyPointsGoFirstAndRowsLast) {
  UnackedUpdates updates(2'000);
  for (int at = 0; at < 20; ++at) {
    auto update = update_of("a", 50);
    updates.add(update);
    EXPECT_LE(updates.bytes(), 2'000u);
  }
  EXPECT_EQ(updates.all().size(), 20u) << "every row is there";
  EXPECT_EQ(updates.all().front().trials(0).points_size(), 0);
  EXPECT_EQ(updates.all().front().trials(0).trial_id(), "t1");
  for (int at = 0; at < 100; ++at) {
    auto update = update_of("a", 0);
    updates.add(update);
    EXPECT_LE(updates.bytes(), 2'000u);
  }
  EXPECT_LT(updates.all().size(), 60u);
  EXPECT_EQ(updates.all().back().number(), 120u);
}

}  // namespace
}  // namespace volador
