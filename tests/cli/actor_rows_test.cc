#include "cli/render/actor_rows.h"

#include <gtest/gtest.h>

#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::cli {
namespace {

v1::ListActorsReply actors_in(const std::vector<std::string>& states) {
  v1::ListActorsReply reply;
  for (const std::string& state : states) {
    v1::Actor& actor = *reply.add_actors();
    actor.set_state(state);
    actor.set_class_name("shop::Cart");
  }
  reply.set_total(reply.actors_size());
  return reply;
}

TEST(ActorRows, ThoseThatHaveEndedAreListedWhereTheyAreAskedFor) {
  const std::vector<std::string> states{"dead", "alive", "dead", "pending", "restarting", "alive"};
  const auto kept = [&](const std::string& state, int limit) {
    v1::ListActorsReply reply = actors_in(states);
    const int64_t dead = keep_actors(reply, state, limit);
    return std::tuple(reply.actors_size(), reply.total(), dead);
  };
  EXPECT_EQ(kept("live", 100), std::tuple(4, 4, 2));
  EXPECT_EQ(kept("live", 1), std::tuple(1, 4, 2)) << "the limit counts rows that are shown";
  EXPECT_EQ(kept("dead", 100), std::tuple(2, 2, 0));
  EXPECT_EQ(kept("alive", 100), std::tuple(2, 2, 2));
  EXPECT_EQ(kept("all", 3), std::tuple(3, 6, 0));
}

TEST(ActorRows, AClassOfTheRuntimeIsNamedByWhatRunsInIt) {
  v1::ListActorsReply reply = actors_in({"alive", "alive"});
  reply.mutable_actors(0)->set_class_name("volador::TaskRunner");
  reply.mutable_actors(0)->set_display("tasks");
  reply.mutable_actors(1)->set_display("cart of ann");
  name_for_people(reply);
  EXPECT_EQ(reply.actors(0).class_name(), "tasks");
  EXPECT_EQ(reply.actors(1).class_name(), "shop::Cart") << "a program's own class says more than what its actor shows";
}

}  // namespace
}  // namespace volador::cli
