// Actors that nobody has a handle on any more. Real processes on a private cluster.
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

int ask(ActorHandle<Cell> cell) {
  std::this_thread::sleep_for(1500ms);
  return cell.call<&Cell::value>().get();
}

// One that keeps nothing alive.
ActorHandle<Cell> look_at(const ActorHandle<Cell>& cell) { return ActorHandle<Cell>(cell.id()); }

volador::ActorStatus wait_dead(const ActorHandle<Cell>& cell) {
  const auto end = std::chrono::steady_clock::now() + 30s;
  auto status = cell.status();
  for (; status.state != ActorState::kDead && std::chrono::steady_clock::now() < end; status = cell.status()) std::this_thread::sleep_for(10ms);
  return status;
}
void expect_unheld(const ActorHandle<Cell>& cell) {
  const auto status = wait_dead(cell);
  EXPECT_EQ(status.state, ActorState::kDead);
  EXPECT_THAT(status.death.message, HasSubstr("had a handle on it any more"));
}
// Longer than it takes to end one.
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
  // Named: of a shared host, but in the head's book.
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
  expect_unheld(named);  // What a name found does not keep it.
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

TEST(HandlesOfLightActors, OneThatWasPassedOnLivesAsLongAsItsCreator) {
  const auto keeper = volador::actor<Keeper>().spawn();
  auto mine = volador::actor<Cell>(11).isolation(Isolation::kShared).spawn();
  keeper.call<&Keeper::keep>(std::exchange(mine, {})).get(60s);
  let_others_end();
  EXPECT_EQ(keeper.call<&Keeper::value>().get(60s), 11);
}

}  // namespace

int main(int argc, char** argv) {
  auto cluster = volador::init(argc, argv, {.address = "local", .num_cpus = 4});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
