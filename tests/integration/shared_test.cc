// Actors that share a process: same API, one crash ends all of them. Real processes on a private cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <volador/volador.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <set>
#include <thread>

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using volador::Isolation;

class Cell {
 public:
  explicit Cell(int start) : value_(start) {
    if (start < 0) throw std::invalid_argument("start must not be negative");
  }
  int add(int amount) { return value_ += amount; }
  int pid() { return ::getpid(); }
  std::string who() {
    return volador::self().name + " " + volador::self().class_name + " " + std::to_string(volador::self().restarts);
  }
  std::string folder() {
    std::ofstream(volador::self().scratch_directory() / "file") << "x";
    return volador::self().scratch_directory();
  }
  void crash() { std::abort(); }
  int slow(int milliseconds) {
    for (int waited = 0; waited < milliseconds; ++waited) {
      if (volador::cancel_requested()) return -1;
      std::this_thread::sleep_for(1ms);
    }
    return value_;
  }
  int leave() { volador::exit_actor(); }
  int fail() { throw std::runtime_error("on purpose"); }
  void rows(int count, volador::Sink<int>& sink) {
    for (int row = 0; row < count; ++row) sink.push(row);
  }
  // Calls the next one, which calls the next one: the chain blocks one thread per link.
  int chain(std::vector<volador::ActorHandle<Cell>> others);
  volador::ActorHandle<Cell> child(int start);

 private:
  int value_;
};
VOLADOR_ACTOR(Cell, &Cell::add, &Cell::pid, &Cell::who, &Cell::folder, &Cell::crash, &Cell::slow, &Cell::leave,
              &Cell::fail, &Cell::rows, &Cell::chain, &Cell::child);

int Cell::chain(std::vector<volador::ActorHandle<Cell>> others) {
  if (others.empty()) return value_;
  const auto next = others.back();
  others.pop_back();
  return value_ + next.call<&Cell::chain>(others).get(60s);
}
volador::ActorHandle<Cell> Cell::child(int start) {
  return volador::actor<Cell>(start).isolation(Isolation::kShared).spawn();
}

class Saved {
 public:
  int add(int amount) { return value_ += amount; }
  void save_checkpoint(const std::filesystem::path& directory) const { std::ofstream(directory / "value") << value_; }
  void load_checkpoint(const std::filesystem::path& directory) { std::ifstream(directory / "value") >> value_; }

 private:
  int value_ = 0;
};
VOLADOR_ACTOR(Saved, &Saved::add);

auto shared(int start) { return volador::actor<Cell>(start).isolation(Isolation::kShared); }

// An actor registered at the head, like one with a name or restarts.
template <class T>
void wait_dead(const volador::ActorHandle<T>& actor) {
  while (actor.status().state != volador::ActorState::kDead) std::this_thread::sleep_for(5ms);
}

TEST(Shared, ManyActorsLiveInOneProcessAndAnswerInOrder) {
  std::vector<volador::ActorHandle<Cell>> cells;
  for (int at = 0; at < 20; ++at) cells.push_back(shared(at).max_restarts(1).spawn());
  std::set<int> pids;
  for (const auto& cell : cells) pids.insert(cell.call<&Cell::pid>().get(60s));
  EXPECT_EQ(pids.size(), 1);
  EXPECT_FALSE(pids.contains(::getpid()));
  std::vector<std::vector<volador::Future<int>>> sums(cells.size());
  for (int round = 0; round < 200; ++round) {
    for (size_t at = 0; at < cells.size(); ++at) sums[at].push_back(cells[at].call<&Cell::add>(1));
  }
  for (size_t at = 0; at < cells.size(); ++at) {
    for (int round = 0; round < 200; ++round)
      ASSERT_EQ(sums[at][static_cast<size_t>(round)].get(60s), static_cast<int>(at) + round + 1);
  }
  for (const auto& cell : cells) cell.kill();
}

TEST(Shared, OneHasANameAndItsOwnContext) {
  const auto cell = shared(1).name("the-cell").spawn();
  EXPECT_THAT(cell.call<&Cell::who>().get(60s),
              testing::AllOf(testing::StartsWith("the-cell "), testing::EndsWith("Cell 0")));
  EXPECT_EQ(volador::get_actor<Cell>("the-cell"), cell);
  const std::filesystem::path folder = cell.call<&Cell::folder>().get(60s);
  EXPECT_TRUE(std::filesystem::exists(folder / "file"));
  EXPECT_THAT(cell.call<&Cell::fail>().result(60s).error().message, HasSubstr("std::runtime_error: on purpose"));
  cell.kill(5s);
  wait_dead(cell);
  // It counts as dead from the kill on, while its host is still ending it.
  for (int i = 0; i < 6'000 && std::filesystem::exists(folder); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_THROW(volador::get_actor<Cell>("the-cell"), volador::Exception);
}

TEST(Shared, AKilledOneLeavesTheOthers) {
  const auto first = shared(1).max_restarts(1).spawn();
  const auto second = shared(2).max_restarts(1).spawn();
  const int pid = second.call<&Cell::pid>().get(60s);
  const auto running = first.call<&Cell::slow>(60'000);
  const auto waiting = first.call<&Cell::add>(1);
  EXPECT_EQ(second.call<&Cell::add>(1).get(60s), 3);
  first.kill();
  EXPECT_EQ(running.result(60s).error().code, volador::ErrorCode::kActorDied);
  EXPECT_EQ(waiting.result(60s).error().code, volador::ErrorCode::kActorDied);
  EXPECT_EQ(first.call<&Cell::add>(1).result(60s).error().code, volador::ErrorCode::kActorDied);
  EXPECT_EQ(second.call<&Cell::add>(1).get(60s), 4);
  EXPECT_EQ(second.call<&Cell::pid>().get(60s), pid);
  second.kill();
}

TEST(Shared, ACrashEndsAllAndEachComesBackByItsOwnPolicy) {
  const auto saved = volador::actor<Saved>().isolation(Isolation::kShared).max_restarts(-1).checkpoint_every(1).spawn();
  const auto anew = shared(10).max_restarts(1).spawn();
  const auto once = shared(20).name("once").spawn();
  EXPECT_EQ(saved.call<&Saved::add>(7).get(60s), 7);
  EXPECT_EQ(anew.call<&Cell::add>(1).get(60s), 11);
  const int pid = once.call<&Cell::pid>().get(60s);
  ASSERT_EQ(anew.call<&Cell::pid>().get(60s), pid);
  const auto crashed = once.call<&Cell::crash>().result(60s);
  ASSERT_FALSE(crashed);
  EXPECT_EQ(crashed.error().code, volador::ErrorCode::kActorDied);
  EXPECT_THAT(crashed.error().message, testing::AllOf(HasSubstr("signal 6"), HasSubstr("it was a shared host with")));
  EXPECT_EQ(saved.call<&Saved::add>(1).get(60s), 8);
  EXPECT_EQ(anew.call<&Cell::add>(1).get(60s), 11);
  EXPECT_NE(anew.call<&Cell::pid>().get(60s), pid);
  EXPECT_EQ(anew.status().restarts, 1);
  // Its only restart was used before.
  EXPECT_EQ(anew.call<&Cell::crash>().result(60s).error().code, volador::ErrorCode::kActorDied);
  EXPECT_EQ(saved.call<&Saved::add>(1).get(60s), 9);
  saved.kill();
}

TEST(Shared, WhoWaitsForOthersOfItsHostHoldsUpNobody) {
  // Far more waiting calls than the host's initial threads.
  std::vector<volador::ActorHandle<Cell>> cells;
  for (int at = 0; at < 60; ++at) cells.push_back(shared(1).max_restarts(1).spawn());
  const auto first = cells.back();
  cells.pop_back();
  EXPECT_EQ(first.call<&Cell::chain>(cells).get(60s), 60);
  // An equal number of calls that sleep without declaring that they wait.
  std::vector<volador::Future<int>> slow;
  for (const auto& cell : cells) slow.push_back(cell.call<&Cell::slow>(3'000));
  EXPECT_EQ(first.call<&Cell::add>(1).get(60s), 2);
  EXPECT_FALSE(slow.front().is_ready());
  for (const auto& one : slow) one.cancel();
  for (const auto& cell : cells) cell.kill();
  first.kill();
}

TEST(Shared, CallsEndByTimeoutCancelAndExit) {
  const auto cell = shared(5).max_restarts(1).spawn();
  EXPECT_EQ(cell.call_for<&Cell::slow>(50ms, 60'000).result(60s).error().code, volador::ErrorCode::kTimeout);
  const auto cancelled = cell.call<&Cell::slow>(60'000);
  const auto next = cell.call<&Cell::add>(1);
  cancelled.cancel();
  EXPECT_EQ(cancelled.result(60s).error().code, volador::ErrorCode::kCancelled);
  EXPECT_EQ(next.get(60s), 6);
  std::vector<int> rows;
  for (const int row : cell.stream<&Cell::rows>(1000)) rows.push_back(row);
  EXPECT_EQ(rows.size(), 1000);
  EXPECT_EQ(cell.call<&Cell::leave>().result(60s).error().code, volador::ErrorCode::kActorDied);
  wait_dead(cell);
}

TEST(Shared, AConstructorThatThrowsIsTheEndOfOneActor) {
  const auto good = shared(1).max_restarts(1).spawn();
  const auto bad = shared(-1).max_restarts(5).spawn();
  const auto result = bad.call<&Cell::add>(1).result(60s);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, volador::ErrorCode::kActorDied);
  EXPECT_THAT(result.error().message, HasSubstr("std::invalid_argument: start must not be negative"));
  EXPECT_EQ(good.call<&Cell::add>(1).get(60s), 2);
  good.kill();
}

TEST(Shared, OneEndsWithTheActorThatMadeIt) {
  const auto parent = shared(1).max_restarts(1).spawn();
  const auto child = parent.call<&Cell::child>(7).get(60s);
  EXPECT_EQ(child.call<&Cell::add>(1).get(60s), 8);
  parent.kill();
  EXPECT_EQ(child.call<&Cell::add>(1).result(60s).error().code, volador::ErrorCode::kActorDied);
}

// ---- actors not registered individually at the head: no name, no restarts, no resources ----

class Asker {
 public:
  int ask(volador::ActorHandle<Cell> cell) { return cell.call<&Cell::add>(100).get(60s); }
};
VOLADOR_ACTOR(Asker, &Asker::ask);

TEST(LightActors, ThousandsLiveAndAnswerInOrder) {
  constexpr int kCells = 5'000;
  std::vector<volador::ActorHandle<Cell>> cells;
  std::vector<volador::Future<int>> first, second;
  for (int at = 0; at < kCells; ++at) {
    cells.push_back(shared(at).spawn());
    first.push_back(cells.back().call<&Cell::add>(1));
    second.push_back(cells.back().call<&Cell::add>(1));
  }
  for (int at = 0; at < kCells; ++at) {
    ASSERT_EQ(first[static_cast<size_t>(at)].get(60s), at + 1);
    ASSERT_EQ(second[static_cast<size_t>(at)].get(60s), at + 2);
  }
  EXPECT_EQ(cells.front().call<&Cell::pid>().get(60s), cells.back().call<&Cell::pid>().get(60s));
  for (const auto& cell : cells) cell.kill();
  EXPECT_EQ(cells[7].call<&Cell::add>(1).result(60s).error().code, volador::ErrorCode::kActorDied);
}

TEST(LightActors, AHandleIsGoodInAnotherProcess) {
  const auto cell = shared(5).spawn();
  const auto asker = volador::actor<Asker>().spawn();
  EXPECT_EQ(asker.call<&Asker::ask>(cell).get(60s), 105);
  const auto status = cell.status();
  EXPECT_EQ(status.id, cell.id());
  EXPECT_EQ(status.state, volador::ActorState::kAlive);
  EXPECT_THAT(status.class_name, HasSubstr("Cell"));
  EXPECT_EQ(status.pid, cell.call<&Cell::pid>().get(60s));
  cell.kill();
  asker.kill();
}

TEST(LightActors, EachEndsAlone) {
  const auto other = shared(1).spawn();
  const auto thrown = shared(-1).spawn();
  const auto never = thrown.call<&Cell::add>(1).result(60s);
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().code, volador::ErrorCode::kActorDied);
  EXPECT_THAT(never.error().message, HasSubstr("start must not be negative"));
  EXPECT_EQ(thrown.status().state, volador::ActorState::kDead);

  const auto killed = shared(1).spawn();
  const auto running = killed.call<&Cell::slow>(60'000);
  const auto waiting = killed.call<&Cell::add>(1);
  EXPECT_EQ(other.call<&Cell::add>(1).get(60s), 2);
  killed.kill();
  killed.kill();
  EXPECT_EQ(running.result(60s).error().code, volador::ErrorCode::kActorDied);
  EXPECT_EQ(waiting.result(60s).error().code, volador::ErrorCode::kActorDied);

  const auto left = shared(1).spawn();
  EXPECT_EQ(left.call<&Cell::leave>().result(60s).error().code, volador::ErrorCode::kActorDied);
  EXPECT_THAT(left.call<&Cell::add>(1).result(60s).error().message, HasSubstr("ended itself by exit_actor()"));
  EXPECT_EQ(other.call<&Cell::add>(1).get(60s), 3);
  other.kill();
}

TEST(LightActors, CallsEndByTimeoutAndCancelAndItemsArrive) {
  const auto cell = shared(5).spawn();
  EXPECT_EQ(cell.call_for<&Cell::slow>(50ms, 60'000).result(60s).error().code, volador::ErrorCode::kTimeout);
  const auto cancelled = cell.call<&Cell::slow>(60'000);
  cancelled.cancel();
  EXPECT_EQ(cancelled.result(60s).error().code, volador::ErrorCode::kCancelled);
  int rows = 0;
  for (const int row : cell.stream<&Cell::rows>(1000)) EXPECT_EQ(row, rows++);
  EXPECT_EQ(rows, 1000);
  cell.kill();
}

TEST(LightActors, WhoWaitsForOthersHoldsUpNobody) {
  std::vector<volador::ActorHandle<Cell>> cells;
  for (int at = 0; at < 200; ++at) cells.push_back(shared(1).spawn());
  const auto first = cells.back();
  cells.pop_back();
  EXPECT_EQ(first.call<&Cell::chain>(cells).get(60s), 200);
}

TEST(LightActors, ACrashOfTheirHostSaysWhyAndOthersAreMade) {
  const auto cell = shared(1).spawn();
  const auto witness = shared(2).spawn();
  EXPECT_EQ(witness.call<&Cell::add>(1).get(60s), 3);
  EXPECT_EQ(cell.call<&Cell::crash>().result(60s).error().code, volador::ErrorCode::kActorDied);
  const auto after = witness.call<&Cell::add>(1).result(60s);
  ASSERT_FALSE(after);
  EXPECT_THAT(after.error().message, HasSubstr("signal 6"));
  const auto next = shared(3).spawn();
  EXPECT_EQ(next.call<&Cell::add>(1).get(60s), 4);
  next.kill();
}

TEST(Shared, WhatAProcessHasAsAWholeIsRefused) {
  const auto refused = [](auto spawn) -> std::string {
    try {
      spawn();
    } catch (const volador::Exception& e) {
      return e.code() == volador::ErrorCode::kInvalidArgument ? e.what() : "another code";
    }
    return "it was taken";
  };
  EXPECT_THAT(refused([] { shared(1).resources({.gpus = 1}).spawn(); }), HasSubstr("asks for gpus 1"));
  EXPECT_THAT(refused([] { shared(1).env("LANG", "C").spawn(); }), HasSubstr("sets LANG in its environment"));
}

}  // namespace

int main(int argc, char** argv) {
  auto cluster = volador::init(argc, argv, {.address = "local", .num_cpus = 4});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
