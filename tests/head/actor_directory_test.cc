#include "head/actors/actor_directory.h"

#include <gmock/gmock.h>

#include "head/kernel/wire.h"

namespace volador::head {
namespace {

using namespace std::chrono_literals;

constexpr BootTime kNow{1000s};
const NodeId kNode{{1}};

class ActorDirectoryTest : public testing::Test {
 protected:
  ~ActorDirectoryTest() override { directory.check_invariants(); }

  Actor& create(uint8_t number, const std::string& name = "", bool detached = false, ActorId owner = {}) {
    protocol::ActorSpec spec;
    spec.set_actor_id(raw(ActorId{{number}}));
    spec.set_class_name("Counter");
    spec.set_name(name);
    spec.set_arguments("arguments");
    spec.set_detached(detached);
    return directory.create(spec, {}, DriverId{{1}}, owner, number);
  }
  void place(Actor& actor, uint8_t host) {
    directory.place(actor, {.node = kNode, .worker = "w", .host = HostId{{host}}, .gpus = {}, .since = kNow});
  }

  Limits limits = [] {
    Limits made;
    made.actors = 3;
    made.dead_actors = 2;
    return made;
  }();
  ActorDirectory directory{limits};
};

TEST_F(ActorDirectoryTest, EpochsGrowWithEachIncarnation) {
  Actor& actor = create(1);
  place(actor, 1);
  EXPECT_EQ(actor.epoch, 1u);
  EXPECT_TRUE(directory.ready(actor, {}, 7, kNow));
  EXPECT_FALSE(directory.ready(actor, {}, 7, kNow));
  directory.over(actor);
  directory.over(actor);
  actor.spec.set_max_restarts(1);
  directory.restart(actor, {}, true);
  place(actor, 2);
  EXPECT_EQ(actor.epoch, 2u);
  EXPECT_EQ(directory.find_host(HostId{{1}}), nullptr);
  EXPECT_EQ(directory.find_host(HostId{{2}}), &actor);
  EXPECT_FALSE(actor.may_restart());
}

TEST_F(ActorDirectoryTest, ANameIsFreeAtDeathButItsHostLingers) {
  Actor& actor = create(1, "hits");
  place(actor, 1);
  protocol::ActorSpec twin;
  twin.set_name("hits");
  EXPECT_EQ(directory.check_room(twin).error().code, ErrorCode::kInvalidArgument);
  directory.die(actor, make_cause(protocol::DeathCause::KILLED, {}));
  directory.die(actor, make_cause(protocol::DeathCause::EXITED, {}));
  EXPECT_EQ(actor.cause.kind(), protocol::DeathCause::KILLED);
  EXPECT_TRUE(directory.check_room(twin));
  EXPECT_EQ(directory.lingering(actor), &actor);
  directory.over(actor);
  EXPECT_EQ(directory.lingering(actor), nullptr);
  EXPECT_TRUE(actor.spec.arguments().empty());
}

TEST_F(ActorDirectoryTest, OwnersKnowWhatEndsWithThem) {
  create(1);
  create(2, "", true);
  create(3, "", false, ActorId{{1}});
  EXPECT_EQ(directory.of_driver(DriverId{{1}}), std::vector{(ActorId{{1}})});
  EXPECT_EQ(directory.children(ActorId{{1}}), std::vector{(ActorId{{3}})});
  EXPECT_TRUE(directory.any_of_program(DriverId{{1}}));
}

TEST_F(ActorDirectoryTest, LimitsAreSaidInASentence) {
  for (uint8_t number = 1; number <= 3; ++number) create(number);
  EXPECT_EQ(directory.check_room({}).error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(directory.check_room({}).error().message, testing::HasSubstr("3 actors are not dead, the limit"));
}

TEST_F(ActorDirectoryTest, TheOldestDeadAreForgottenOnceNothingOfThemRuns) {
  for (uint8_t number = 1; number <= 3; ++number) {
    Actor& actor = create(number);
    if (number == 1) place(actor, 1);
    directory.die(actor, {});
  }
  directory.take_touched();
  EXPECT_EQ(directory.forget_oldest(), std::vector{(ActorId{{2}})});  // The first still has a host.
  EXPECT_TRUE(directory.forget_oldest().empty());
}

TEST_F(ActorDirectoryTest, ANameIsUniqueInItsNamespaceOnly) {
  Actor& hits = create(1, "hits");
  protocol::ActorSpec elsewhere;
  elsewhere.set_actor_id(raw(ActorId{{2}}));
  elsewhere.set_name("hits");
  elsewhere.set_namespace_("team-a");
  ASSERT_TRUE(directory.check_room(elsewhere));
  Actor& theirs = directory.create(elsewhere, {}, DriverId{{1}}, {}, 2);
  EXPECT_EQ(directory.named("default", "hits"), &hits);
  EXPECT_EQ(directory.named("team-a", "hits"), &theirs);
  EXPECT_EQ(directory.named("team-b", "hits"), nullptr);
  elsewhere.set_actor_id(raw(ActorId{{3}}));
  EXPECT_THAT(directory.check_room(elsewhere).error().message,
              testing::HasSubstr("is held by actor 02000000 (, pending) in namespace \"team-a\""));
  place(hits, 1);
  directory.die(hits, {});
  EXPECT_EQ(directory.named("default", "hits"), nullptr);
  EXPECT_EQ(directory.lingering(theirs), nullptr) << "the one that ends has another namespace";
  EXPECT_EQ(directory.named("team-a", "hits"), &theirs);
}

TEST_F(ActorDirectoryTest, TouchedIsToldOnce) {
  Actor& actor = create(1);
  directory.touch(actor);
  EXPECT_EQ(directory.take_touched().size(), 1u);
  EXPECT_TRUE(directory.take_touched().empty());
}

// Each end of a host triggers a search for actors to forget, which must not iterate over all whose hosts still exist.
TEST(ManyDeadActors, WhoseHostsEndOneByOneAreForgotten) {
  constexpr uint32_t kActors = 100'000;
  Limits limits;
  limits.dead_actors = 1000;
  ActorDirectory directory(limits);
  const auto id_of = [](uint32_t number, uint8_t kind) {
    std::array<uint8_t, 16> bytes{kind};
    for (size_t at = 0; at < 4; ++at) bytes[12 + at] = static_cast<uint8_t>(number >> (24 - 8 * at));
    return bytes;
  };
  for (uint32_t number = 0; number < kActors; ++number) {
    protocol::ActorSpec spec;
    spec.set_actor_id(raw(ActorId(id_of(number, 1))));
    Actor& actor = directory.create(spec, {}, DriverId{{1}}, {}, number);
    directory.place(actor, {.node = kNode, .worker = "w", .host = HostId(id_of(number, 2)), .gpus = {}, .since = kNow});
    directory.die(actor, make_cause(protocol::DeathCause::DRIVER_GONE, {}));
  }
  directory.take_touched();
  size_t forgotten = 0;
  for (uint32_t number = kActors; number-- > 0;) {
    directory.over(*directory.find(ActorId(id_of(number, 1))));
    directory.take_touched();
    forgotten += directory.forget_oldest().size();
  }
  EXPECT_EQ(forgotten, kActors - limits.dead_actors);
  EXPECT_EQ(directory.all().size(), limits.dead_actors);
  directory.check_invariants();
}

}  // namespace
}  // namespace volador::head
