// Actors whose last handle is dropped. Real processes on a private cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <volador/volador.h>

#include <csignal>
#include <optional>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using volador::ActorHandle;
using volador::ActorState;
using volador::Isolation;

class Cell {
 public:
  explicit Cell(int value) : value_(value) {}
  int value() { return value_; }
  int slow(int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    return ++value_;
  }

 private:
  int value_;
};
VOLADOR_ACTOR(Cell, &Cell::value, &Cell::slow);

class Keeper {
 public:
  void keep(ActorHandle<Cell> cell) { cell_ = std::move(cell); }
  int value() { return cell_->call<&Cell::value>().get(); }
  void drop() { cell_.reset(); }
  ActorHandle<Cell> make(int value) { return volador::actor<Cell>(value).spawn(); }
  ActorHandle<Cell> give() { return *std::exchange(cell_, std::nullopt); }

 private:
  std::optional<ActorHandle<Cell>> cell_;
};
VOLADOR_ACTOR(Keeper, &Keeper::keep, &Keeper::value, &Keeper::drop, &Keeper::make, &Keeper::give);

// Handles stored in an object.
struct Team {
  std::string name;
  std::vector<ActorHandle<Cell>> cells;
};
VOLADOR_FIELDS(Team, name, cells);
using TeamRef = volador::Ref<Team>;

class Shelf {
 public:
  void keep(TeamRef team) { team_ = std::move(team); }
  int value() { return team_->get().cells.at(0).call<&Cell::value>().get(); }
  void drop() { team_.reset(); }

 private:
  std::optional<TeamRef> team_;
};
VOLADOR_ACTOR(Shelf, &Shelf::keep, &Shelf::value, &Shelf::drop);

TeamRef put_team(ActorHandle<Cell> cell) { return volador::put(Team{"put by a task", {std::move(cell)}}); }
volador::Ref<std::vector<TeamRef>> put_teams(ActorHandle<Cell> cell) {
  return volador::put(std::vector<TeamRef>{put_team(std::move(cell))});
}

int ask(ActorHandle<Cell> cell) {
  std::this_thread::sleep_for(1500ms);
  return cell.call<&Cell::value>().get();
}

// A handle that does not keep the actor alive.
ActorHandle<Cell> look_at(const ActorHandle<Cell>& cell) { return ActorHandle<Cell>(cell.id()); }

volador::ActorStatus wait_dead(const ActorHandle<Cell>& cell) {
  const auto end = std::chrono::steady_clock::now() + 30s;
  auto status = cell.status();
  for (; status.state != ActorState::kDead && std::chrono::steady_clock::now() < end; status = cell.status())
    std::this_thread::sleep_for(10ms);
  return status;
}
void expect_unheld(const ActorHandle<Cell>& cell) {
  const auto status = wait_dead(cell);
  EXPECT_EQ(status.state, ActorState::kDead);
  EXPECT_THAT(status.death.message, HasSubstr("had a handle on it any more"));
}
// Waits longer than it takes to end an actor.
void let_others_end() {
  auto other = volador::actor<Cell>(0).spawn();
  const auto seen = look_at(other);
  other.call<&Cell::value>().get(60s);
  other = {};
  expect_unheld(seen);
  std::this_thread::sleep_for(500ms);
}

class Handles : public testing::TestWithParam<Isolation> {
 protected:
  // Named: in a shared host, but registered at the head.
  static volador::ActorBuilder<Cell> cell(int value) {
    return volador::actor<Cell>(value).isolation(GetParam()).name(a_name());
  }
  static std::string a_name() {
    static int number = 0;
    return "one-" + std::to_string(++number);
  }
};
INSTANTIATE_TEST_SUITE_P(Isolations, Handles, testing::Values(Isolation::kProcess, Isolation::kShared),
                         [](const auto& one) { return std::string(to_string(one.param)); });

TEST_P(Handles, AnActorEndsWithItsLastHandleAndAfterTheCallsThatWereMade) {
  auto first = cell(1).spawn();
  const auto seen = look_at(first);
  auto second = first;
  first = {};
  let_others_end();
  EXPECT_EQ(second.call<&Cell::value>().get(60s), 1);
  auto slow = second.call<&Cell::slow>(2500);
  auto slower = second.call<&Cell::slow>(10);
  second = {};
  EXPECT_EQ(slow.get(60s), 2);
  EXPECT_EQ(slower.get(60s), 3);
  expect_unheld(seen);
}

TEST_P(Handles, AnArgumentKeepsItWhereItWentUntilItIsDroppedThere) {
  const auto keeper = volador::actor<Keeper>().isolation(GetParam()).name(a_name()).spawn();
  auto mine = cell(2).spawn();
  const auto seen = look_at(mine);
  keeper.call<&Keeper::keep>(mine).get(60s);
  mine = {};
  let_others_end();
  EXPECT_EQ(keeper.call<&Keeper::value>().get(60s), 2);
  keeper.call<&Keeper::drop>().get(60s);
  expect_unheld(seen);
}

TEST_P(Handles, AnAnswerBringsAHandleThatKeepsIt) {
  const auto keeper = volador::actor<Keeper>().isolation(GetParam()).name(a_name()).spawn();
  auto made = keeper.call<&Keeper::make>(3).get(60s);
  const auto seen = look_at(made);
  let_others_end();
  EXPECT_EQ(made.call<&Cell::value>().get(60s), 3);
  keeper.call<&Keeper::keep>(std::exchange(made, {})).get(60s);
  auto future = keeper.call<&Keeper::give>();  // Read only later.
  let_others_end();
  EXPECT_EQ(future.get(60s).call<&Cell::value>().get(60s), 3);
  { const auto dropped = std::move(future); }
  expect_unheld(seen);
}

TEST_P(Handles, AHolderThatIsKilledHoldsNothing) {
  auto keeper = volador::actor<Keeper>().spawn();
  auto mine = cell(4).spawn();
  const auto seen = look_at(mine);
  keeper.call<&Keeper::keep>(mine).get(60s);
  mine = {};
  ASSERT_EQ(::kill(keeper.status().pid, SIGKILL), 0);
  expect_unheld(seen);
}

TEST_P(Handles, DetachedActorsAndThoseOfTheirCreatorNeedNoHandle) {
  const auto detached = look_at(cell(5).detached().spawn());
  const auto mine = look_at(cell(6).with_creator().spawn());
  const auto named = look_at(cell(7).name("by-name-only").spawn());
  const auto found = volador::get_actor<Cell>("by-name-only");
  expect_unheld(named);  // A handle found by name does not keep it alive.
  EXPECT_EQ(found.call<&Cell::value>().result(60s).error().code, volador::ErrorCode::kActorDied);
  EXPECT_EQ(detached.call<&Cell::value>().get(60s), 5);
  EXPECT_EQ(mine.call<&Cell::value>().get(60s), 6);
  detached.kill();
}

TEST(HandlesOfTasks, ATasksArgumentKeepsItUntilTheTaskIsDone) {
  auto mine = volador::actor<Cell>(8).spawn();
  const auto seen = look_at(mine);
  auto asked = volador::task<&ask>(std::exchange(mine, {})).submit();
  EXPECT_EQ(asked.get(60s), 8);
  expect_unheld(seen);
}

TEST(HandlesOfLightActors, OneThatNobodyElseKnewEndsAfterItsCalls) {
  auto mine = volador::actor<Cell>(9).isolation(Isolation::kShared).spawn();
  const auto seen = look_at(mine);
  auto slow = mine.call<&Cell::slow>(500);
  mine = {};
  EXPECT_EQ(slow.get(60s), 10);
  EXPECT_EQ(wait_dead(seen).state, ActorState::kDead);
  EXPECT_THAT(seen.call<&Cell::value>().result(60s).error().message, HasSubstr("nobody had a handle on it any more"));
}

TEST(HandlesOfLightActors, OneThatWasPassedOnEndsWithItsLastHandleAndAfterItsCalls) {
  const auto keeper = volador::actor<Keeper>().spawn();
  auto mine = volador::actor<Cell>(11).isolation(Isolation::kShared).spawn();
  const auto seen = look_at(mine);
  keeper.call<&Keeper::keep>(mine).get(60s);
  auto slow = mine.call<&Cell::slow>(2500);
  mine = {};
  keeper.call<&Keeper::drop>().get(60s);
  EXPECT_EQ(slow.get(60s), 12);
  EXPECT_EQ(wait_dead(seen).state, ActorState::kDead);
  EXPECT_THAT(seen.call<&Cell::value>().result(60s).error().message, HasSubstr("nobody had a handle on it any more"));
}

TEST(HandlesOfLightActors, OneThatWasPassedOnLivesOnWhereItWent) {
  const auto keeper = volador::actor<Keeper>().spawn();
  auto mine = volador::actor<Cell>(11).isolation(Isolation::kShared).spawn();
  const auto seen = look_at(mine);
  keeper.call<&Keeper::keep>(std::exchange(mine, {})).get(60s);
  let_others_end();
  EXPECT_EQ(keeper.call<&Keeper::value>().get(60s), 11);
  auto back = keeper.call<&Keeper::give>().get(60s);
  let_others_end();
  EXPECT_EQ(back.call<&Cell::value>().get(60s), 11);
  back = {};
  EXPECT_EQ(wait_dead(seen).state, ActorState::kDead);
}

TEST(HandlesOfLightActors, AHolderThatIsKilledHoldsNothing) {
  auto keeper = volador::actor<Keeper>().spawn();
  auto mine = volador::actor<Cell>(12).isolation(Isolation::kShared).spawn();
  const auto seen = look_at(mine);
  keeper.call<&Keeper::keep>(std::exchange(mine, {})).get(60s);
  ASSERT_EQ(::kill(keeper.status().pid, SIGKILL), 0);
  EXPECT_EQ(wait_dead(seen).state, ActorState::kDead);
}

// A nested actor returns the reason in its calls.
void expect_ended(const ActorHandle<Cell>& cell) {
  EXPECT_EQ(wait_dead(cell).state, ActorState::kDead);
  EXPECT_THAT(cell.call<&Cell::value>().result(60s).error().message, HasSubstr("had a handle on it any more"));
}

class HandlesInObjects : public testing::TestWithParam<Isolation> {
 protected:
  static ActorHandle<Cell> cell(int value) { return volador::actor<Cell>(value).isolation(GetParam()).spawn(); }
};
INSTANTIATE_TEST_SUITE_P(Isolations, HandlesInObjects, testing::Values(Isolation::kProcess, Isolation::kShared),
                         [](const auto& one) { return std::string(to_string(one.param)); });

TEST_P(HandlesInObjects, AnActorLivesAsLongAsAnObjectWithAHandleOnIt) {
  auto mine = cell(20);
  const auto seen = look_at(mine);
  auto ref = volador::put(Team{"small", {std::exchange(mine, {})}});
  EXPECT_TRUE(ref.any().is_stored()) << "small as it is: somebody has to count";
  let_others_end();
  EXPECT_EQ(ref.get().cells.at(0).call<&Cell::value>().get(60s), 20);
  let_others_end();
  EXPECT_EQ(ref.get().cells.at(0).call<&Cell::value>().get(60s), 20);
  ref = {};
  expect_ended(seen);
}

TEST_P(HandlesInObjects, ItsHolderMayBeAnotherProcessAndCrash) {
  auto shelf = volador::actor<Shelf>().spawn();
  auto mine = cell(21);
  const auto seen = look_at(mine);
  shelf.call<&Shelf::keep>(volador::put(Team{"passed on", {std::exchange(mine, {})}})).get(60s);
  let_others_end();
  EXPECT_EQ(shelf.call<&Shelf::value>().get(60s), 21);
  ASSERT_EQ(::kill(shelf.status().pid, SIGKILL), 0);
  expect_ended(seen);
}

TEST_P(HandlesInObjects, WhoPutItMayEnd) {
  auto mine = cell(22);
  const auto seen = look_at(mine);
  auto teams = volador::task<&put_teams>(std::exchange(mine, {})).submit().get(60s);
  let_others_end();  // The task's process has ended too: idle ones end after half a second.
  EXPECT_EQ(teams.get().at(0).get().cells.at(0).call<&Cell::value>().get(60s), 22);
  auto inner = teams.get().at(0);
  teams = {};
  let_others_end();
  EXPECT_EQ(inner.get().cells.at(0).call<&Cell::value>().get(60s), 22);
  volador::free(inner);
  expect_ended(seen);
}

}  // namespace

int main(int argc, char** argv) {
  auto cluster = volador::init(argc, argv, {.address = "local", .num_cpus = 4});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
