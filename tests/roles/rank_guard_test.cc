// Who may see what the ranks of jobs print.
#include "volador/roles/rank_guard.h"

#include <gtest/gtest.h>

namespace volador {
namespace {

using security::principal_of_token;
using security::TokenRole;

ActorId actor(uint8_t number) {
  std::array<uint8_t, 16> bytes{};
  bytes[0] = number;
  return ActorId(bytes);
}

security::Principal user(const std::string& name, const std::string& token, TokenRole role = TokenRole::kDriver) {
  security::Principal by = principal_of_token(token, role);
  by.user = name;
  return by;
}

class RankGuardTest : public testing::Test {
 protected:
  RankGuardTest() { guard.set_loaded(); }

  void has(int64_t number, const std::string& access, const std::string& project, std::vector<ActorId> actors) {
    jobs::JobActors job{.number = number, .access = {}, .actors = std::move(actors)};
    job.access.set_owner("t-mei");
    job.access.set_user("mei");
    job.access.mutable_spec()->set_access(access);
    job.access.mutable_spec()->set_project(project);
    guard.set_actors(job);
  }
  std::optional<bool> shows(uint8_t rank, const security::Principal& by) const { return guard.shows(actor(rank), by); }

  RankGuard guard;
  const security::Principal mei = user("mei", "t-other-of-mei"), kim = user("kim", "t-kim"),
                            eve = user("eve", "t-eve", TokenRole::kViewer),
                            ops = user("ops", "t-ops", TokenRole::kOperator),
                            program = principal_of_token("t-mei", TokenRole::kDriver);
};

TEST_F(RankGuardTest, RanksAreShownToThoseWhoMaySeeTheJob) {
  has(1, "none", "default", {actor(1), actor(2)});
  has(2, "read", "default", {actor(3)});
  for (const uint8_t rank : {uint8_t{1}, uint8_t{2}}) {
    EXPECT_EQ(shows(rank, mei), true);
    EXPECT_EQ(shows(rank, ops), true);
    EXPECT_EQ(shows(rank, kim), false);
    EXPECT_EQ(shows(rank, eve), false);
    EXPECT_EQ(shows(rank, program), false) << "the job belongs to the user, not to the token";
  }
  EXPECT_EQ(shows(3, kim), true);
  EXPECT_EQ(shows(3, eve), true);
}

TEST_F(RankGuardTest, SettingsCountFromTheMomentTheyAreSet) {
  has(1, "read", "vision", {actor(1)});
  EXPECT_EQ(shows(1, kim), true);
  v1::QueueSettings settings;
  v1::Project& vision = *settings.add_projects();
  vision.set_name("vision");
  vision.add_members("mei");
  guard.set_settings(settings);
  EXPECT_EQ(shows(1, kim), false);
  settings.mutable_projects(0)->add_members("kim");
  guard.set_settings(settings);
  EXPECT_EQ(shows(1, kim), true);
  settings.set_private_jobs(true);
  guard.set_settings(settings);
  EXPECT_EQ(shows(1, kim), false);
  EXPECT_EQ(shows(1, mei), true);
}

TEST_F(RankGuardTest, MembersOfAGroupAreThoseOfTheMoment) {
  has(1, "read", "vision", {actor(1)});
  v1::QueueSettings settings;
  settings.add_projects()->set_name("vision");
  settings.mutable_projects(0)->add_members("@eyes");
  guard.set_settings(settings);
  EXPECT_EQ(shows(1, kim), false) << "no groups are known";
  std::vector<std::string> groups;
  guard.set_groups([&groups](const std::string& user) { return user == "kim" ? groups : std::vector<std::string>(); });
  EXPECT_EQ(shows(1, kim), false);
  groups = {"eyes"};
  EXPECT_EQ(shows(1, kim), true);
  EXPECT_EQ(shows(1, eve), false);
}

TEST_F(RankGuardTest, ActorsOfLaterAttemptsReplaceEarlierOnesAndDroppedJobsAreForgotten) {
  has(1, "none", "default", {actor(1)});
  has(1, "none", "default", {actor(1), actor(2)});
  EXPECT_EQ(shows(1, kim), false);
  EXPECT_EQ(shows(2, kim), false);
  has(1, "none", "default", {actor(2)});
  EXPECT_EQ(shows(1, mei), std::nullopt);
  has(1, "none", "default", {});
  EXPECT_EQ(shows(2, mei), std::nullopt);
}

TEST(RankGuardLoadTest, NothingIsShownBeforeTheJobsAreLoaded) {
  RankGuard guard;
  EXPECT_EQ(guard.shows(actor(1), user("kim", "t-kim")), false);
  guard.set_loaded();
  EXPECT_EQ(guard.shows(actor(1), user("kim", "t-kim")), std::nullopt);
}

TEST_F(RankGuardTest, TheDriverOfTheJobsIsKnownOnceTheyAreLoaded) {
  const DriverId driver(std::array<uint8_t, 16>{7});
  EXPECT_FALSE(guard.owns(driver));
  EXPECT_FALSE(guard.owns(DriverId()));
  guard.set_loaded(driver);
  EXPECT_TRUE(guard.owns(driver));
  EXPECT_FALSE(guard.owns(DriverId(std::array<uint8_t, 16>{8})));
}

}  // namespace
}  // namespace volador
