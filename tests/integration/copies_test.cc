// Objects nested in a copied object, after the node that put them has died. Two workers started by the command line.
#include <gtest/gtest.h>
#include <volador/volador.h>

#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/cluster_main.h"
#include "tests/integration/two_workers.h"

namespace {

using namespace std::chrono_literals;
using volador::ActorHandle;
using volador::Isolation;
using Numbers = std::vector<int64_t>;
using NumbersRef = volador::Ref<Numbers>;

constexpr int64_t kCount = 50'000;

class Cell {
 public:
  explicit Cell(int value) : value_(value) {}
  int value() { return value_; }

 private:
  int value_;
};
VOLADOR_ACTOR(Cell, &Cell::value);

struct Parcel {
  NumbersRef numbers;
  std::vector<ActorHandle<Cell>> cells;
};
VOLADOR_FIELDS(Parcel, numbers, cells);
using ParcelRef = volador::Ref<Parcel>;

// Puts its argument on its own node.
class Packer {
 public:
  ParcelRef pack(NumbersRef numbers, std::vector<ActorHandle<Cell>> cells) {
    return volador::put(Parcel{std::move(numbers), std::move(cells)});
  }
};
VOLADOR_ACTOR(Packer, &Packer::pack);

volador::testing::TwoWorkers* workers = nullptr;

volador::NodeId home_of(const auto& ref) { return ref.any().stored()->key().node; }

TEST(Copies, WhatIsInOneOutlivesTheNodeThatPutIt) {
  Numbers counted(kCount);
  std::iota(counted.begin(), counted.end(), 7);
  auto numbers = volador::put(counted);
  const auto probe = volador::actor<Packer>().node("second").spawn();
  const bool second_is_other =
      home_of(probe.call<&Packer::pack>(numbers, std::vector<ActorHandle<Cell>>{}).get(60s)) != home_of(numbers);
  const std::string other = second_is_other ? "second" : "first";
  const std::string here = second_is_other ? "first" : "second";
  const auto packer = volador::actor<Packer>().node(other).spawn();
  std::vector<ActorHandle<Cell>> cells;
  for (const Isolation isolation : {Isolation::kProcess, Isolation::kShared})
    cells.push_back(volador::actor<Cell>(20).isolation(isolation).node(here).spawn());
  ParcelRef parcel = packer.call<&Packer::pack>(numbers, cells).get(60s);
  ASSERT_NE(home_of(parcel), home_of(numbers));
  EXPECT_EQ(parcel.get(60s).cells.size(), 2u);  // It has been copied here now.
  numbers = {};
  const std::vector<ActorHandle<Cell>> seen{ActorHandle<Cell>(cells[0].id()), ActorHandle<Cell>(cells[1].id())};
  cells.clear();
  ASSERT_EQ(::kill(workers->pid_of(other), SIGKILL), 0);
  std::this_thread::sleep_for(8s);  // Longer than the timeout for a disconnected node.
  {
    const Parcel kept = parcel.get(60s);
    EXPECT_EQ(kept.numbers.get(60s), counted);
    for (const auto& cell : kept.cells) EXPECT_EQ(cell.call<&Cell::value>().get(60s), 20);
  }
  parcel = {};
  for (const auto& cell : seen) {
    bool ended = false;
    for (int i = 0; i < 200 && !ended; ++i) {
      ended = !cell.call<&Cell::value>().result(60s);
      std::this_thread::sleep_for(100ms);
    }
    EXPECT_TRUE(ended) << "nobody has a handle on it any more";
  }
}

}  // namespace

int main(int argc, char** argv) { return volador::testing::run_tests_on(workers, argc, argv); }
