// Schedules of the operations between nodes, carried out on vectors.
#include "train/core/wire_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace volador::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Values = std::vector<int64_t>;

// Nodes that carry out one schedule each. A link stores at most `capacity` transfers; 0: sender and receiver meet.
class LinkedNodes {
 public:
  LinkedNodes(std::vector<WireSchedule> schedules, std::vector<Values> before)
      : memories(std::move(before)), schedules_(std::move(schedules)), positions_(schedules_.size()) {}

  // Makes transfers in an order that depends on the seed. False: the nodes wait for one another.
  bool run(size_t capacity, unsigned seed) {
    std::mt19937 random(seed);
    while (!is_complete()) {
      std::vector<std::function<void()>> possible;
      for (int node = 0; node < static_cast<int>(schedules_.size()); ++node) {
        if (can_send(node)) {
          const int peer = next_send(node).peer;
          const bool meets = can_receive_from(peer, node) && links_[{node, peer}].empty();
          if (links_[{node, peer}].size() < capacity) {
            possible.emplace_back([this, node] { send(node); });
          } else if (capacity == 0 && meets) {
            possible.emplace_back([this, node, peer] {
              send(node);
              receive(peer);
            });
          }
        }
        if (capacity > 0 && can_receive(node)) possible.emplace_back([this, node] { receive(node); });
      }
      if (possible.empty()) return false;
      possible[random() % possible.size()]();
    }
    return true;
  }

  std::vector<Values> memories;

 private:
  struct Position {
    size_t sent = 0;
    size_t received = 0;
  };

  bool is_complete() const {
    for (size_t i = 0; i < schedules_.size(); ++i) {
      if (positions_[i].sent < schedules_[i].sends.size()) return false;
      if (positions_[i].received < schedules_[i].receives.size()) return false;
    }
    return true;
  }
  const Transfer& next_send(int node) const {
    const auto i = static_cast<size_t>(node);
    return schedules_[i].sends[positions_[i].sent];
  }
  const Transfer& next_receive(int node) const {
    const auto i = static_cast<size_t>(node);
    return schedules_[i].receives[positions_[i].received];
  }
  bool can_send(int node) const {
    const auto i = static_cast<size_t>(node);
    return positions_[i].sent < schedules_[i].sends.size() &&
           next_send(node).after <= static_cast<int64_t>(positions_[i].received);
  }
  bool can_receive_from(int node, int peer) const {
    const auto i = static_cast<size_t>(node);
    return positions_[i].received < schedules_[i].receives.size() && next_receive(node).peer == peer;
  }
  bool can_receive(int node) {
    const auto i = static_cast<size_t>(node);
    return positions_[i].received < schedules_[i].receives.size() && !links_[{next_receive(node).peer, node}].empty();
  }
  void send(int node) {
    const Transfer next = next_send(node);
    const auto from = memories[static_cast<size_t>(node)].begin() + next.from;
    links_[{node, next.peer}].emplace_back(from, from + next.count);
    ++positions_[static_cast<size_t>(node)].sent;
  }
  void receive(int node) {
    const Transfer next = next_receive(node);
    auto& link = links_[{next.peer, node}];
    ASSERT_EQ(static_cast<int64_t>(link.front().size()), next.count);
    for (int64_t i = 0; i < next.count; ++i) {
      int64_t& value = memories[static_cast<size_t>(node)][static_cast<size_t>(next.from + i)];
      value = link.front()[static_cast<size_t>(i)] + (next.is_added ? value : 0);
    }
    link.pop_front();
    ++positions_[static_cast<size_t>(node)].received;
  }

  std::vector<WireSchedule> schedules_;
  std::vector<Position> positions_;
  std::map<std::pair<int, int>, std::deque<Values>> links_;
};

int64_t value_of(int node, int64_t element) { return (node + 1) * 1'000'003 + element * 7; }

Values values_of(int node, int64_t elements) {
  Values values;
  for (int64_t i = 0; i < elements; ++i) values.push_back(value_of(node, i));
  return values;
}

// Calls check(nodes, elements, chunk) for many of each.
void for_each_case(const std::function<void(int, int64_t, int64_t)>& check) {
  for (int nodes = 1; nodes <= 9; ++nodes) {
    for (const int64_t elements : {0, 1, 5, 64, 129, 300}) {
      for (const int64_t chunk : {7, 64, 1000}) {
        SCOPED_TRACE(std::to_string(nodes) + " nodes, " + std::to_string(elements) + " elements, chunks of " +
                     std::to_string(chunk));
        check(nodes, elements, chunk);
      }
    }
  }
}

// With links that store nothing, little and much.
void expect_memories(const std::vector<WireSchedule>& schedules, const std::vector<Values>& before,
                     const std::vector<Values>& after) {
  for (const size_t capacity : {0, 1, 1000}) {
    for (unsigned seed = 0; seed < 2; ++seed) {
      LinkedNodes nodes(schedules, before);
      ASSERT_TRUE(nodes.run(capacity, seed)) << "the nodes wait for one another, capacity " << capacity;
      ASSERT_EQ(nodes.memories, after) << "capacity " << capacity << ", seed " << seed;
    }
  }
}

TEST(WireSchedule, LinksLeadToNodesAtPowersOfTwo) {
  EXPECT_THAT(nodes_sent_to({.node = 5, .nodes = 6}), ElementsAre(0, 1, 3));
  EXPECT_THAT(nodes_received_from({.node = 0, .nodes = 6}), ElementsAre(5, 4, 2));
  EXPECT_THAT(nodes_sent_to({.node = 1, .nodes = 2}), ElementsAre(0));
  EXPECT_THAT(nodes_sent_to({.node = 0, .nodes = 1}), IsEmpty());
}

TEST(WireSchedule, SumReachesAllNodes) {
  for_each_case([](int nodes, int64_t elements, int64_t chunk) {
    std::vector<WireSchedule> schedules;
    std::vector<Values> before;
    Values sum(static_cast<size_t>(elements));
    for (int node = 0; node < nodes; ++node) {
      schedules.push_back(sum_schedule({.node = node, .nodes = nodes}, elements, chunk));
      before.push_back(values_of(node, elements));
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += before.back()[i];
    }
    expect_memories(schedules, before, std::vector<Values>(static_cast<size_t>(nodes), sum));
  });
}

TEST(WireSchedule, SumSendsNoMoreThanTheBound) {
  for (int nodes = 2; nodes <= 9; ++nodes) {
    const int64_t elements = 100'000, bound = 2 * (nodes - 1) * (elements / nodes + 128);
    for (int node = 0; node < nodes; ++node) {
      int64_t sent = 0;
      for (const Transfer& transfer : sum_schedule({.node = node, .nodes = nodes}, elements, 1000).sends) {
        sent += transfer.count;
        EXPECT_EQ(transfer.peer, (node + 1) % nodes);
      }
      EXPECT_LE(sent, bound);
    }
  }
}

TEST(WireSchedule, SumPassesOnAChunkAsSoonAsItIsThere) {
  const WireSchedule schedule = sum_schedule({.node = 0, .nodes = 3}, 3 * 640, 64);
  for (size_t i = 0; i < schedule.sends.size(); ++i) {
    EXPECT_EQ(schedule.sends[i].after, i < 10 ? 0 : static_cast<int64_t>(i) - 9);
  }
}

TEST(WireSchedule, GatherBringsAllBlocksInFewSteps) {
  for (int nodes = 1; nodes <= 9; ++nodes) {
    for (const int64_t block : {0, 1, 6}) {
      SCOPED_TRACE(std::to_string(nodes) + " nodes, blocks of " + std::to_string(block));
      std::vector<WireSchedule> schedules;
      std::vector<Values> before, after;
      for (int node = 0; node < nodes; ++node) {
        schedules.push_back(gather_schedule({.node = node, .nodes = nodes}, block));
        before.push_back(values_of(node, block));
        before.back().resize(static_cast<size_t>(nodes * block));
        after.emplace_back();
        for (int place = 0; place < nodes; ++place) {
          const Values values = values_of((node - place + nodes) % nodes, block);
          after.back().insert(after.back().end(), values.begin(), values.end());
        }
        size_t steps = 0;
        for (int reached = 1; reached < nodes && block > 0; reached *= 2) ++steps;
        EXPECT_EQ(schedules.back().sends.size(), steps);
      }
      expect_memories(schedules, before, after);
    }
  }
}

TEST(WireSchedule, BroadcastReachesAllNodesFromEveryRoot) {
  for_each_case([](int nodes, int64_t elements, int64_t chunk) {
    for (int root = 0; root < nodes; ++root) {
      std::vector<WireSchedule> schedules;
      std::vector<Values> before;
      for (int node = 0; node < nodes; ++node) {
        schedules.push_back(broadcast_schedule({.node = node, .nodes = nodes}, root, elements, chunk));
        before.push_back(values_of(node, elements));
      }
      expect_memories(schedules, before, std::vector<Values>(static_cast<size_t>(nodes), values_of(root, elements)));
    }
  });
}

TEST(WireSchedule, TransfersUseTheLinksOnly) {
  for (int nodes = 1; nodes <= 9; ++nodes) {
    for (int node = 0; node < nodes; ++node) {
      const NodePlace place{.node = node, .nodes = nodes};
      const std::vector<int> to = nodes_sent_to(place), from = nodes_received_from(place);
      std::vector<WireSchedule> schedules{gather_schedule(place, 3), sum_schedule(place, 500, 64)};
      for (const int64_t chunk : {10, 1000}) schedules.push_back(broadcast_schedule(place, nodes / 2, 500, chunk));
      for (const WireSchedule& schedule : schedules) {
        for (const Transfer& send : schedule.sends) EXPECT_THAT(to, ::testing::Contains(send.peer));
        for (const Transfer& receive : schedule.receives) EXPECT_THAT(from, ::testing::Contains(receive.peer));
      }
    }
  }
}

}  // namespace
}  // namespace volador::train
