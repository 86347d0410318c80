// Several store state machines and the messages between them, in any order that connections allow: referenced objects
// stay, also when nodes die, and unreferenced ones are freed everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/random.h"
#include "runtime/store/object_name.h"
#include "worker/store/store_table.h"

namespace volador::worker {
namespace {

using namespace std::chrono_literals;

// Each node has one process, which follows the protocol. Time advances only in pass_time().
class Cluster {
 public:
  explicit Cluster(uint64_t seed, size_t nodes) : random_(seed) {
    for (size_t i = 0; i < nodes; ++i) {
      Node& node = *nodes_.emplace_back(std::make_unique<Node>(i));
      node.table.on_connected(kProcess, kWriter);
      protocol::ToStore message;
      message.mutable_hello();
      tell(node, kProcess, message);
      message.mutable_reserve()->set_bytes(1 << 16);
      tell(node, kProcess, message);
      message.mutable_add_arena()->set_arena(1);
      message.mutable_add_arena()->set_bytes(1 << 16);
      tell(node, kProcess, message);
    }
  }

  void step() {
    const uint64_t dice = random_.below(40);
    Node& node = any_node();
    if (dice < 24) return static_cast<void>(deliver());
    if (dice < 27) return put(node);
    if (dice < 29) return say_contents(node);
    if (dice < 33) return acquire_passed_on(node);
    if (dice < 36) return acquire_inner(node);
    drop_one(node);
  }

  // Other nodes keep only what the node had put. References inside must be counted for them by now, and are read.
  void kill_one() {
    Node& dead = any_node();
    kill(dead);
    for (const auto& node : nodes_) {
      if (node->dead) continue;
      for (const ObjectKey& key : std::set<ObjectKey>(node->keeps)) {
        if (home_of(key) != dead.index) drop(*node, key);
      }
    }
    pass_time();
    for (const auto& node : nodes_) {
      if (node->dead) continue;
      for (const ObjectKey& outer : std::set<ObjectKey>(node->keeps)) {
        for (const ObjectKey& inner : inside_.at(outer).objects) acquire_inner(*node, outer, inner);
      }
    }
  }
  // Number of reads of contents of an object of a dead node.
  int outlived() const { return outlived_; }

  // Delivers all messages and releases everything.
  void settle() {
    for (const auto& node : nodes_) {
      if (node->dead) continue;
      while (!node->to_say.empty()) say_contents(*node);
    }
    while (deliver()) {
    }
    for (const auto& node : nodes_) {
      while (!node->dead && !node->keeps.empty()) drop_one(*node);
    }
    pass_time();
    for (const auto& node : nodes_) {
      if (node->dead) continue;
      EXPECT_EQ(node->table.objects(), 0u) << "node " << node->index;
      EXPECT_TRUE(node->table.actors().empty());
    }
  }

 private:
  static constexpr StoreSession kProcess{1};
  static constexpr uint64_t kWriter = 77;
  static StoreSession session_of(size_t node) { return StoreSession{100 + node}; }
  static NodeId id_of(size_t node) { return NodeId{{static_cast<uint8_t>(node + 1)}}; }

  struct Inside {
    std::vector<ObjectKey> objects;
    std::vector<ActorId> actors;
  };
  using Answer = std::function<void(const protocol::Located*)>;  // Null: it was lost.
  struct Question {
    size_t from;
    Answer done;
  };
  struct Node {
    explicit Node(size_t its) : index(its), table(id_of(its), "heron", {.bytes_max = 1 << 22, .spare_patience = 0s}) {}
    size_t index;
    StoreTable table;
    bool dead = false;
    std::set<size_t> attached;  // Nodes that it serves.
    uint64_t next_number = 1;
    uint64_t next_request = 1;
    std::map<ObjectKey, int64_t> refers;  // References of the process, kept or in use.
    std::set<ObjectKey> keeps;
    std::set<ObjectKey> located;                                              // Objects it can read.
    std::map<uint64_t, std::function<void(const protocol::Located&)>> asked;  // From the process.
    std::map<std::pair<StoreSession, uint64_t>, Question> questions;          // Requests of other nodes.
    std::deque<std::pair<ObjectKey, Inside>> to_say;
  };
  struct Message {
    size_t from, to;
    std::function<void()> arrive;
    std::function<void()> lost;  // May be null.
  };

  Node& any_node() {
    while (true) {
      Node& node = *nodes_[random_.below(nodes_.size())];
      if (!node.dead) return node;
    }
  }
  template <class Map>
  typename Map::const_iterator any(const Map& from) {
    auto one = from.begin();
    std::advance(one, static_cast<long>(random_.below(from.size())));
    return one;
  }
  size_t home_of(const ObjectKey& key) const {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (id_of(i) == key.node) return i;
    }
    ADD_FAILURE();
    return 0;
  }
  static protocol::ObjectName name_of(const ObjectKey& key, size_t home) {
    protocol::ObjectName name = to_message(key);
    name.set_address(std::to_string(home));
    return name;
  }

  // ---- messages ----

  void post(size_t from, size_t to, std::function<void()> arrive, std::function<void()> lost = {}) {
    links_[{from, to}].push_back({from, to, std::move(arrive), std::move(lost)});
  }
  bool deliver() {
    std::erase_if(links_, [](const auto& link) { return link.second.empty(); });
    if (links_.empty()) return false;
    auto& link = links_.at(any(links_)->first);
    const Message message = std::move(link.front());
    link.pop_front();
    message.arrive();
    return true;
  }
  void tell(Node& node, StoreSession client, const protocol::ToStore& message) {
    take(node, node.table.on_message(now_, client, message));
  }
  void take(Node& node, StoreActions actions) {
    node.table.check_invariants();
    for (const StoreActions::Cut& cut : actions.cut) ADD_FAILURE() << cut.why;
    for (const StoreActions::Send& send : actions.send) {
      if (send.message.kind_case() != protocol::FromStore::kLocated) continue;
      const protocol::Located& located = send.message.located();
      if (send.to == kProcess) {
        if (auto asked = node.asked.extract(located.request()); !asked.empty()) asked.mapped()(located);
      } else if (auto question = node.questions.extract({send.to, located.request()}); !question.empty()) {
        const auto [from, done] = question.mapped();
        post(
            node.index, from, [done, located] { done(located.error_code() != 0 ? nullptr : &located); },
            [done] { done(nullptr); });
      }
    }
    for (const StoreActions::Home& home : actions.home) ask_home(node, home);
  }
  void ask_home(Node& node, const StoreActions::Home& home) {
    using What = StoreActions::Home::What;
    Node& to = *nodes_[static_cast<size_t>(std::stoi(home.address))];
    const ObjectKey key = home.key;
    const size_t from = node.index;
    if (home.what == What::kRelease) {
      if (to.dead) return;
      return post(from, to.index, [this, &to, from, key] {
        protocol::ToStore message;
        *message.mutable_release()->mutable_name() = to_message(key);
        if (to.attached.contains(from)) tell(to, session_of(from), message);
      });
    }
    ASSERT_TRUE(home.what == What::kFetch || home.what == What::kRefer);
    Answer done = [](const protocol::Located*) {};
    if (home.what == What::kFetch)
      done = [this, &node, key](const protocol::Located* place) { fetched(node, key, place); };
    if (to.dead) return post(from, from, [done] { done(nullptr); });
    post(
        from, to.index,
        [this, &node, &to, key, done] {
          if (to.attached.insert(node.index).second) {
            to.table.on_connected(session_of(node.index), kOwnWriter);
            protocol::ToStore hello;
            hello.mutable_hello();
            tell(to, session_of(node.index), hello);
          }
          const uint64_t request = to.next_request++;
          to.questions[{session_of(node.index), request}] = {node.index, done};
          protocol::ToStore message;
          message.mutable_acquire()->set_request(request);
          *message.mutable_acquire()->mutable_name() = to_message(key);
          tell(to, session_of(node.index), message);
        },
        [done] { done(nullptr); });
  }
  void fetched(Node& node, const ObjectKey& key, const protocol::Located* place) {
    if (node.dead) return;
    if (place == nullptr)
      return take(node, node.table.on_fetched(now_, key, make_error(ErrorCode::kObjectLost, "gone")));
    take(node, node.table.set_contents(now_, key, *place));
    take(node, node.table.reserve_copy(now_, key, place->bytes()));
    for (auto& [which, room] : node.table.take_rooms()) {
      ASSERT_TRUE(room);
      node.table.set_copy(which, *room, 8);
      take(node, node.table.on_fetched(now_, which, {}));
    }
  }

  // ---- the processes ----

  // After all messages have arrived.
  void pass_time() {
    while (deliver()) {
    }
    now_ += kReturnPatience;
    for (const auto& node : nodes_) {
      if (!node->dead) take(*node, node->table.on_tick(now_));
    }
    while (deliver()) {
    }
  }
  void put(Node& node) {
    const ObjectKey key{id_of(node.index), kWriter, node.next_number++};
    Inside& inside = inside_[key];
    for (uint64_t count = random_.below(3); count > 0 && !node.located.empty(); --count) {
      const ObjectKey inner = *any(node.located);
      inside.objects.push_back(inner);
      ++node.refers[inner];  // Until its message was sent. The store counts one reference; this process counts its own.
    }
    if (random_.below(3) == 0) inside.actors.push_back(ActorId{{static_cast<uint8_t>(1 + random_.below(3))}});
    protocol::ToStore message;
    message.mutable_put()->set_number(key.number);
    message.mutable_put()->set_arena(1);
    message.mutable_put()->set_bytes(8);
    message.mutable_put()->set_offset(0);
    message.mutable_put()->set_contents(!inside.objects.empty() || !inside.actors.empty());
    ++node.refers[key];
    node.located.insert(key);
    node.keeps.insert(key);
    if (message.put().contents()) {
      node.to_say.emplace_back(key, inside);
      ++node.refers[key];
    }
    tell(node, kProcess, message);
    passed_on_.push_back(key);
  }
  void say_contents(Node& node) {
    if (node.to_say.empty()) return;
    const auto [key, inside] = node.to_say.front();
    node.to_say.pop_front();
    protocol::ToStore message;
    message.mutable_contents()->set_number(key.number);
    for (const ObjectKey& inner : inside.objects)
      *message.mutable_contents()->add_objects() = name_of(inner, home_of(inner));
    for (const ActorId& actor : inside.actors) message.mutable_contents()->add_actors(raw(actor));
    message.mutable_contents()->set_last(true);
    tell(node, kProcess, message);
    for (const ObjectKey& inner : inside.objects) release(node, inner);
    release(node, key);
  }
  // A reference of any origin: the object may be lost.
  void acquire_passed_on(Node& node) {
    const size_t recent = std::min<size_t>(passed_on_.size(), 6);
    if (recent > 0) acquire(node, passed_on_[passed_on_.size() - 1 - random_.below(recent)], [](bool) {});
  }
  // For an object that it reads and keeps until then: it exists, unless its node died.
  void acquire_inner(Node& node) {
    if (node.located.empty()) return;
    const ObjectKey outer = *any(node.located);
    const Inside& inside = inside_.at(outer);
    if (inside.objects.empty()) return drop_one(node);
    acquire_inner(node, outer, inside.objects[random_.below(inside.objects.size())]);
  }
  void acquire_inner(Node& node, const ObjectKey& outer, const ObjectKey& inner) {
    if (node.refers.contains(inner)) return;
    ++node.refers[outer];
    acquire(node, inner, [this, &node, outer, inner](bool there) {
      if (there && nodes_[home_of(outer)]->dead) ++outlived_;
      EXPECT_TRUE(there || nodes_[home_of(inner)]->dead)
          << to_string(inner) << " inside " << to_string(outer) << " on node " << node.index;
      release(node, outer);
    });
  }
  void acquire(Node& node, const ObjectKey& key, std::function<void(bool)> done) {
    if (node.refers.contains(key)) {
      if (node.located.contains(key) && node.keeps.insert(key).second) ++node.refers[key];
      return done(true);  // Or requested already.
    }
    node.refers[key] = 1;
    const uint64_t request = node.next_request++;
    node.asked[request] = [&node, key, done](const protocol::Located& place) {
      const bool there = place.error_code() == 0;
      if (there) {
        node.located.insert(key);
        node.keeps.insert(key);
      } else {
        node.refers.erase(key);
      }
      done(there);
    };
    protocol::ToStore message;
    message.mutable_acquire()->set_request(request);
    *message.mutable_acquire()->mutable_name() = name_of(key, home_of(key));
    tell(node, kProcess, message);
  }
  void drop_one(Node& node) {
    if (node.keeps.empty()) return;
    drop(node, *any(node.keeps));
  }
  void drop(Node& node, const ObjectKey key) {
    node.keeps.erase(key);
    release(node, key);
  }
  void release(Node& node, const ObjectKey& key) {
    if (node.dead) return;
    if (--node.refers.at(key) > 0) return;
    node.refers.erase(key);
    node.located.erase(key);
    protocol::ToStore message;
    *message.mutable_release()->mutable_name() = name_of(key, home_of(key));
    tell(node, kProcess, message);
  }

  // ---- death ----

  void kill(Node& dead) {
    dead.dead = true;
    std::vector<std::function<void()>> losses;
    for (auto& [ends, link] : links_) {
      if (ends.first != dead.index && ends.second != dead.index) continue;
      for (const Message& message : link) {
        if (message.lost) losses.push_back(message.lost);
      }
      link.clear();
    }
    for (const auto& [id, question] : dead.questions) losses.push_back([done = question.done] { done(nullptr); });
    for (const auto& node : nodes_) {
      if (node->dead) continue;
      std::erase_if(node->questions, [&](const auto& one) { return one.second.from == dead.index; });
      if (node->attached.erase(dead.index) > 0) take(*node, node->table.on_gone(now_, session_of(dead.index)));
      if (node->table.on_home_lost(std::to_string(dead.index)))
        take(*node, node->table.refer_again(std::to_string(dead.index)));
    }
    for (const auto& loss : losses) loss();
  }

  SeededRandom random_;
  int outlived_ = 0;
  BootTime now_ = BootTime{} + 1s;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::pair<size_t, size_t>, std::deque<Message>> links_;  // Each in order.
  std::map<ObjectKey, Inside> inside_;
  std::vector<ObjectKey> passed_on_;
};

TEST(StoreCluster, WhatIsReferredToStaysAndTheRestGoes) {
  for (uint64_t seed = 1; seed <= 100 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Cluster cluster(seed, 4);
    for (int i = 0; i < 1500; ++i) cluster.step();
    cluster.settle();
  }
}

TEST(StoreCluster, WhatOthersReferToStaysWhenANodeDies) {
  int outlived = 0;
  for (uint64_t seed = 1; seed <= 200 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Cluster cluster(seed, 5);
    for (int i = 0; i < 900; ++i) {
      if (i == 300 || i == 600) cluster.kill_one();
      cluster.step();
    }
    cluster.settle();
    outlived += cluster.outlived();
  }
  EXPECT_GT(outlived, 30);
}

}  // namespace
}  // namespace volador::worker
