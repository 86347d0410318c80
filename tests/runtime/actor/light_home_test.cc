#include "runtime/actor/light_home.h"

#include <gtest/gtest.h>

#include <set>

#include "runtime/actor/session.h"
#include "runtime/random.h"

namespace volador {
namespace {

TEST(LightHome, AnIdNamesItsHomeAndNoTwoAreTheSame) {
  SeededRandom random(7);
  const ActorId home = new_home_id(random);
  EXPECT_FALSE(is_light(home));
  EXPECT_TRUE(has_light_mark(home));
  std::set<ActorId> ids{home};
  std::set<std::string> shorts;
  for (uint64_t number = 1; number <= 10'000; ++number) {
    const ActorId id = light_id(home, number);
    EXPECT_TRUE(is_light(id));
    EXPECT_EQ(home_of(id), home);
    EXPECT_EQ(number_of(id), number);
    ids.insert(id);
    shorts.insert(short_id(id));
  }
  EXPECT_EQ(ids.size(), 10'001);
  EXPECT_GT(shorts.size(), 9'990) << "people tell them apart by their first digits";
  EXPECT_EQ(home_of(light_id(home, (uint64_t{1} << 48) - 1)), home);
}

TEST(LightHome, HomesDiffer) {
  SeededRandom random(8);
  std::set<ActorId> homes;
  for (int at = 0; at < 1000; ++at) homes.insert(new_home_id(random));
  EXPECT_EQ(homes.size(), 1000);
}

TEST(LightHome, WhatTheHeadMustKnowOfIsNotLight) {
  SpawnRequest plain;
  EXPECT_FALSE(may_be_light(plain)) << "a process of its own";
  plain.isolation = Isolation::kShared;
  EXPECT_TRUE(may_be_light(plain));
  const auto without = [&](auto change) {
    SpawnRequest request = plain;
    change(request);
    return may_be_light(request);
  };
  EXPECT_FALSE(without([](SpawnRequest& request) { request.name = "a"; }));
  EXPECT_FALSE(without([](SpawnRequest& request) { request.max_restarts = 1; }));
  EXPECT_FALSE(without([](SpawnRequest& request) { request.detached = true; }));
  EXPECT_FALSE(without([](SpawnRequest& request) { request.resources.set("cpus", 1); }));
  EXPECT_FALSE(without([](SpawnRequest& request) { request.wishes.labels = {{"zone", "a"}}; }));
  EXPECT_FALSE(without([](SpawnRequest& request) { request.max_task_retries = 1; }));
  EXPECT_FALSE(without([](SpawnRequest& request) { request.health.method = 1; }));
  EXPECT_FALSE(without([](SpawnRequest& request) { request.actor_namespace = "a"; }));
}

TEST(CheckIsolation, RefusesWhatAProcessHasAsAWhole) {
  SpawnRequest request;
  request.resources.set("gpus", kUnit / 2);
  request.env["LANG"] = "C";
  EXPECT_TRUE(check_isolation(request));
  request.isolation = Isolation::kShared;
  EXPECT_EQ(check_isolation(request).error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(check_isolation(request).error().message.find("asks for gpus 0.5"), std::string::npos);
  request.resources = {};
  EXPECT_NE(check_isolation(request).error().message.find("LANG"), std::string::npos);
  request.env.clear();
  EXPECT_TRUE(check_isolation(request));
}

}  // namespace
}  // namespace volador
