#include "worker/store/store_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/random.h"
#include "runtime/store/object_name.h"

namespace volador::worker {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr BootTime at(std::chrono::nanoseconds since) { return BootTime{} + since; }

// One store with clients that follow the protocol; its last messages are in `answers`.
class StoreTableTest : public ::testing::Test {
 protected:
  static constexpr int64_t kLimit = 1000;
  explicit StoreTableTest(const StoreLimits& limits = {.bytes_max = kLimit}) : table(node, "heron", limits) {}
  const NodeId node{{1}};
  StoreTable table;
  std::vector<StoreActions::Send> answers;
  std::vector<StoreActions::Home> home;
  std::vector<ArenaKey> closed;
  std::vector<StoreActions::Cut> cut;
  BootTime now = at(1s);

  void take(StoreActions actions) {
    answers = std::move(actions.send);
    for (auto& one : actions.home) home.push_back(one);
    for (auto& one : actions.close) closed.push_back(one);
    for (auto& one : actions.cut) cut.push_back(one);
    table.check_invariants();
  }
  StoreSession connect(uint64_t number, const std::string& who = "driver a") {
    const StoreSession client{number};
    table.on_connected(client, number * 100);
    protocol::ToStore hello;
    hello.mutable_hello()->set_who(who);
    take(table.on_message(now, client, hello));
    return client;
  }
  void reserve(StoreSession client, int64_t bytes, uint64_t request = 1) {
    protocol::ToStore message;
    message.mutable_reserve()->set_request(request);
    message.mutable_reserve()->set_bytes(bytes);
    take(table.on_message(now, client, message));
  }
  void add_arena(StoreSession client, uint64_t arena, int64_t bytes) {
    protocol::ToStore message;
    message.mutable_add_arena()->set_arena(arena);
    message.mutable_add_arena()->set_bytes(bytes);
    take(table.on_message(now, client, message));
  }
  void drop_arena(StoreSession client, uint64_t arena) {
    protocol::ToStore message;
    message.mutable_drop_arena()->set_arena(arena);
    take(table.on_message(now, client, message));
  }
  ObjectKey put(StoreSession client, uint64_t number, uint64_t arena = 1, int64_t offset = 0, int64_t bytes = 10,
                bool contents = false) {
    protocol::ToStore message;
    auto& put = *message.mutable_put();
    put.set_number(number);
    put.set_arena(arena);
    put.set_offset(offset);
    put.set_bytes(bytes);
    put.set_contents(contents);
    take(table.on_message(now, client, message));
    return {node, static_cast<uint64_t>(client) * 100, number};
  }
  static void name(protocol::ObjectName& out, const ObjectKey& key) {
    out = to_message(key);
    out.set_address("10.0.0.2:7");
  }
  void acquire(StoreSession client, const ObjectKey& key, uint64_t request, bool claim = false) {
    protocol::ToStore message;
    message.mutable_acquire()->set_request(request);
    message.mutable_acquire()->set_claim(claim);
    name(*message.mutable_acquire()->mutable_name(), key);
    take(table.on_message(now, client, message));
  }
  void release(StoreSession client, const ObjectKey& key) {
    protocol::ToStore message;
    name(*message.mutable_release()->mutable_name(), key);
    take(table.on_message(now, client, message));
  }
  void lend(StoreSession client, const ObjectKey& key) {
    protocol::ToStore message;
    name(*message.mutable_lend()->mutable_name(), key);
    take(table.on_message(now, client, message));
  }
  ErrorCode located_code() const {
    return answers.empty() ? ErrorCode::kInternal
                           : error_code_from(int64_t{answers.back().message.located().error_code()});
  }
};

TEST_F(StoreTableTest, AReaderLearnsWhereTheObjectLiesAndGetsTheArenaOnce) {
  const StoreSession writer = connect(1);
  const StoreSession reader = connect(2);
  reserve(writer, 500);
  EXPECT_EQ(answers.at(0).message.reserved().error_code(), 0);
  add_arena(writer, 1, 500);
  const ObjectKey first = put(writer, 1, 1, 0, 10);
  const ObjectKey second = put(writer, 2, 1, 64, 20);
  acquire(reader, first, 7);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].message.located().request(), 7u);
  EXPECT_EQ(answers[0].message.located().bytes(), 10);
  EXPECT_EQ(answers[0].attach, (ArenaKey{100, 1}));
  acquire(reader, second, 8);
  EXPECT_EQ(answers.at(0).message.located().offset(), 64);
  EXPECT_FALSE(answers.at(0).attach) << "it has the descriptor already";
}

TEST_F(StoreTableTest, TheRoomGoesBackWithTheLastReference) {
  const StoreSession writer = connect(1);
  const StoreSession reader = connect(2);
  reserve(writer, 500);
  add_arena(writer, 1, 500);
  const ObjectKey key = put(writer, 1);
  acquire(reader, key, 1);
  release(writer, key);
  EXPECT_TRUE(answers.empty());
  release(reader, key);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].to, writer);
  EXPECT_EQ(answers[0].message.freed().numbers(0), 1u);
  acquire(reader, key, 2);
  EXPECT_EQ(located_code(), ErrorCode::kObjectLost);
}

TEST_F(StoreTableTest, ObjectsOutliveTheirWriterAndItsArenaGoesWithTheLastOne) {
  const StoreSession writer = connect(1);
  const StoreSession reader = connect(2);
  reserve(writer, 500);
  add_arena(writer, 1, 500);
  const ObjectKey key = put(writer, 1);
  put(writer, 2, 1, 64);
  acquire(reader, key, 1);
  take(table.on_gone(now, writer));
  EXPECT_TRUE(closed.empty());
  EXPECT_EQ(table.objects(), 1u) << "the other one had no reader";
  take(table.on_gone(now, reader));
  EXPECT_EQ(closed, (std::vector<ArenaKey>{{100, 1}}));
  EXPECT_EQ(table.bytes_used(), 0);
}

TEST_F(StoreTableTest, AReaderThatIsFasterThanTheWritersMessageWaits) {
  const StoreSession writer = connect(1);
  const StoreSession reader = connect(2);
  reserve(writer, 500);
  add_arena(writer, 1, 500);
  const ObjectKey key{node, 100, 1};
  acquire(reader, key, 1);
  EXPECT_TRUE(answers.empty());
  put(writer, 1);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].message.located().bytes(), 10);
  acquire(reader, {node, 100, 2}, 2);
  EXPECT_TRUE(answers.empty());
  take(table.on_gone(now, writer));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(located_code(), ErrorCode::kObjectLost);
  acquire(reader, {node, 100, 3}, 3);
  EXPECT_EQ(located_code(), ErrorCode::kObjectLost);
}

TEST_F(StoreTableTest, WhatLeavesWithAnAnswerStaysUntilItIsClaimed) {
  const StoreSession writer = connect(1);
  const StoreSession caller = connect(2);
  reserve(writer, 500);
  add_arena(writer, 1, 500);
  const ObjectKey key = put(writer, 1);
  lend(writer, key);
  release(writer, key);
  EXPECT_EQ(table.objects(), 1u);
  acquire(caller, key, 1, true);
  EXPECT_EQ(table.objects(), 1u);
  release(caller, key);
  EXPECT_EQ(table.objects(), 0u);
}

TEST_F(StoreTableTest, AClaimMayComeBeforeTheLending) {
  const StoreSession writer = connect(1);
  const StoreSession caller = connect(2);
  reserve(writer, 500);
  add_arena(writer, 1, 500);
  const ObjectKey key = put(writer, 1);
  acquire(caller, key, 1, true);
  lend(writer, key);
  release(writer, key);
  EXPECT_EQ(table.objects(), 1u);
  release(caller, key);
  EXPECT_EQ(table.objects(), 0u);
}

TEST_F(StoreTableTest, WhatNobodyClaimsGoesAfterAMinute) {
  const StoreSession writer = connect(1);
  reserve(writer, 500);
  add_arena(writer, 1, 500);
  const ObjectKey key = put(writer, 1);
  lend(writer, key);
  release(writer, key);
  ASSERT_EQ(table.next_tick(), now + 60s);
  take(table.on_tick(now + 59s));
  EXPECT_EQ(table.objects(), 1u);
  take(table.on_tick(now + 60s));
  EXPECT_EQ(table.objects(), 0u);
  EXPECT_FALSE(table.next_tick());
}

TEST_F(StoreTableTest, AWriterWaitsForRoomAndIsToldTheLargestHoldersWhenNoneComes) {
  const StoreSession writer = connect(1, "driver big");
  const StoreSession other = connect(2, "driver small");
  reserve(writer, 900);
  add_arena(writer, 1, 900);
  const ObjectKey key = put(writer, 1);
  reserve(other, 200, 5);
  EXPECT_TRUE(answers.empty()) << "its arena holds an object";
  take(table.on_tick(now + 10s));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(error_code_from(int64_t{answers[0].message.reserved().error_code()}), ErrorCode::kStoreFull);
  EXPECT_THAT(answers[0].message.reserved().error(), HasSubstr("driver big 900 B"));
  reserve(other, 200, 6);
  release(writer, key);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0].message.freed().drop()) << "who has an empty arena should give it back where others wait";
  drop_arena(writer, 1);
  bool granted = false;
  for (const auto& answer : answers)
    granted |=
        answer.to == other && answer.message.reserved().request() == 6 && answer.message.reserved().error_code() == 0;
  EXPECT_TRUE(granted);
}

TEST_F(StoreTableTest, WhatCanNeverFitIsRefusedAtOnce) {
  const StoreSession writer = connect(1);
  reserve(writer, kLimit + 1);
  EXPECT_EQ(error_code_from(int64_t{answers.at(0).message.reserved().error_code()}), ErrorCode::kStoreFull);
  EXPECT_THAT(answers[0].message.reserved().error(), HasSubstr("--object-store-memory"));
}

TEST_F(StoreTableTest, AnObjectOfAnotherNodeIsFetchedOnceAndGivenBackAfterItsLastReader) {
  const StoreSession one = connect(1);
  const StoreSession two = connect(2);
  const ObjectKey key{NodeId{{2}}, 9, 1};
  acquire(one, key, 1);
  acquire(two, key, 2);
  ASSERT_EQ(home.size(), 1u);
  EXPECT_EQ(home[0].what, StoreActions::Home::What::kFetch);
  take(table.reserve_copy(now, key, 300));
  auto rooms = table.take_rooms();
  ASSERT_EQ(rooms.size(), 1u);
  table.set_copy(key, *rooms[0].second, 300);
  take(table.on_fetched(now, key, {}));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].message.located().writer(), 0u);
  EXPECT_EQ(table.bytes_used(), 300);
  release(one, key);
  EXPECT_EQ(home.size(), 1u);
  take(table.on_gone(now, two));
  ASSERT_EQ(home.size(), 2u);
  EXPECT_EQ(home[1].what, StoreActions::Home::What::kRelease);
  EXPECT_EQ(table.bytes_used(), 0);
}

// Memory of copies that is kept mapped.
class SpareArenas : public StoreTableTest {
 protected:
  SpareArenas()
      : StoreTableTest({.bytes_max = kLimit, .spare_patience = 10s, .spare_bytes_min = 100, .spares_max = 3}) {}
  // Returns the arena of the copy; 0: no space.
  uint64_t fetch(StoreSession client, const ObjectKey& key, int64_t bytes) {
    acquire(client, key, 1);
    take(table.reserve_copy(now, key, bytes));
    const auto rooms = table.take_rooms();
    if (rooms.empty()) return 0;
    table.set_copy(key, *rooms[0].second, bytes);
    take(table.on_fetched(now, key, {}));
    return *rooms[0].second;
  }
  static ObjectKey theirs(uint64_t number) { return {NodeId{{2}}, 9, number}; }
};

TEST_F(SpareArenas, TheNextCopyOfItsSizeLiesWhereTheLastOneDid) {
  const StoreSession one = connect(1);
  const uint64_t arena = fetch(one, theirs(1), 400);
  ASSERT_TRUE(answers.back().attach);
  release(one, theirs(1));
  EXPECT_TRUE(closed.empty());
  EXPECT_EQ(table.bytes_used(), 400) << "it counts";
  EXPECT_EQ(table.spare_bytes(), 400);
  EXPECT_EQ(fetch(one, theirs(2), 350), arena);
  EXPECT_FALSE(answers.back().attach) << "the reader maps it already";
  EXPECT_EQ(answers.back().message.located().bytes(), 350);
  EXPECT_EQ(answers.back().message.located().arena_bytes(), 400);
  EXPECT_EQ(table.bytes_used(), 400);
  EXPECT_EQ(table.spare_bytes(), 0);
  EXPECT_NE(fetch(one, theirs(3), 350), arena) << "it is in use";
}

TEST_F(SpareArenas, OneThatIsSmallerOrMuchLargerDoesNotServe) {
  const StoreSession one = connect(1);
  const uint64_t arena = fetch(one, theirs(1), 400);
  release(one, theirs(1));
  EXPECT_NE(fetch(one, theirs(2), 401), arena);
  EXPECT_NE(fetch(one, theirs(3), 199), arena);
  EXPECT_EQ(table.spare_bytes(), 400);
}

TEST_F(SpareArenas, TheyMakeWayForWhoeverWaitsForRoom) {
  const StoreSession one = connect(1);
  const uint64_t first = fetch(one, theirs(1), 400);
  release(one, theirs(1));
  const uint64_t second = fetch(one, theirs(2), 500);
  release(one, theirs(2));
  EXPECT_NE(first, second);
  EXPECT_EQ(table.bytes_used(), 900);
  reserve(one, 300);
  EXPECT_EQ(table.bytes_used(), 800) << "the older one went";
  EXPECT_EQ(closed, (std::vector<ArenaKey>{{kOwnWriter, first}}));
  EXPECT_EQ(fetch(one, theirs(3), 600), second + 1);
  EXPECT_EQ(table.spare_bytes(), 0);
  reserve(one, 300, 2);  // Waits.
  release(one, theirs(3));
  EXPECT_EQ(table.bytes_used(), 600) << "while somebody waits nothing is kept";
}

TEST_F(SpareArenas, TheyGoAfterAWhileOrWhenTheMachineIsShortOfMemory) {
  const StoreSession one = connect(1);
  fetch(one, theirs(1), 400);
  release(one, theirs(1));
  ASSERT_EQ(table.next_tick(), now + 10s);
  take(table.on_tick(now + 9s));
  EXPECT_EQ(table.bytes_used(), 400);
  take(table.on_tick(now + 10s));
  EXPECT_EQ(table.bytes_used(), 0);
  EXPECT_EQ(closed.size(), 1u);
  EXPECT_EQ(answers.back().message.gone().arena(), closed[0].arena) << "who maps it lets it go";
  now += 20s;
  fetch(one, theirs(2), 400);
  release(one, theirs(2));
  take(table.drop_spares());
  EXPECT_EQ(table.bytes_used(), 0);
}

TEST_F(SpareArenas, SmallOnesThoseOfFailedCopiesAndTooManyAreNotKept) {
  const StoreSession one = connect(1);
  fetch(one, theirs(1), 99);
  release(one, theirs(1));
  EXPECT_EQ(table.bytes_used(), 0);
  acquire(one, theirs(2), 1);
  take(table.reserve_copy(now, theirs(2), 300));
  table.set_copy(theirs(2), *table.take_rooms()[0].second, 300);
  take(table.on_fetched(now, theirs(2), make_error(ErrorCode::kObjectLost, "gone")));
  EXPECT_EQ(table.bytes_used(), 0) << "chunks of it may still arrive there";
  for (uint64_t i = 3; i < 7; ++i) fetch(one, theirs(i), 150);
  for (uint64_t i = 3; i < 7; ++i) release(one, theirs(i));
  EXPECT_EQ(table.spare_bytes(), 450);
}

TEST_F(SpareArenas, RandomCopiesKeepToTheLimitAndLeaveNothing) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    StoreTable tried(
        node, "heron",
        {.bytes_max = kLimit, .room_patience = 3s, .spare_patience = 2s, .spare_bytes_min = 50, .spares_max = 4});
    BootTime time = at(1s);
    const StoreSession client{1};
    tried.on_connected(client, 100);
    std::map<ObjectKey, bool> held;          // Whether its memory is known.
    std::map<uint64_t, ObjectKey> occupied;  // By arena: no two objects share one.
    uint64_t number = 0;
    const auto tell = [&](const protocol::ToStore& message) {
      const auto actions = tried.on_message(time, client, message);
      ASSERT_TRUE(actions.cut.empty()) << actions.cut[0].why;
    };
    const auto settle = [&] {
      for (auto& [key, room] : tried.take_rooms()) {
        if (!room) {
          (void)tried.on_fetched(time, key, make_error(room.error()));
          held.erase(key);
          continue;
        }
        tried.set_copy(key, *room, 1);
        ASSERT_TRUE(occupied.emplace(*room, key).second);
        const bool fails = random.below(5) == 0;
        (void)tried.on_fetched(time, key,
                               fails ? Result<void>(make_error(ErrorCode::kObjectLost, "gone")) : Result<void>());
        if (fails) {
          held.erase(key);
          occupied.erase(*room);
        } else {
          held[key] = true;
        }
      }
      tried.check_invariants();
    };
    protocol::ToStore hello;
    hello.mutable_hello();
    tell(hello);
    for (int step = 0; step < 300; ++step) {
      const uint64_t dice = random.below(10);
      protocol::ToStore message;
      if (dice < 5) {
        const ObjectKey key = theirs(++number);
        message.mutable_acquire()->set_request(number);
        name(*message.mutable_acquire()->mutable_name(), key);
        tell(message);
        held.emplace(key, false);
        (void)tried.reserve_copy(time, key, 20 + static_cast<int64_t>(random.below(400)));
      } else if (dice < 8) {
        for (auto one = held.begin(); one != held.end(); ++one) {
          if (!one->second) continue;
          const ObjectKey key = one->first;
          held.erase(one);
          std::erase_if(occupied, [&](const auto& entry) { return entry.second == key; });
          name(*message.mutable_release()->mutable_name(), key);
          tell(message);
          break;
        }
      } else {
        time += 500ms;
        (void)tried.on_tick(time);
      }
      settle();
    }
    (void)tried.on_gone(time, client);
    for (int i = 0; i < 10; ++i) {
      time += 1s;
      (void)tried.on_tick(time);
      settle();
    }
    EXPECT_EQ(tried.bytes_used(), 0);
    EXPECT_FALSE(tried.next_tick());
  }
}

TEST_F(StoreTableTest, AFailedFetchTellsEveryoneAndMayBeTriedAgain) {
  const StoreSession one = connect(1);
  const ObjectKey key{NodeId{{2}}, 9, 1};
  acquire(one, key, 1);
  take(table.on_fetched(now, key, make_error(ErrorCode::kObjectLost, "gone")));
  EXPECT_EQ(located_code(), ErrorCode::kObjectLost);
  release(one, key);
  EXPECT_TRUE(cut.empty()) << "giving back what was refused is no fault";
  acquire(one, key, 2);
  EXPECT_EQ(home.size(), 2u);
}

TEST_F(StoreTableTest, WhoBreaksTheProtocolIsCutOff) {
  const auto wrong = [&](uint64_t number, const std::function<void(StoreSession)>& act) {
    const StoreSession client = connect(number);
    reserve(client, 100);
    add_arena(client, 1, 100);
    cut.clear();
    act(client);
    EXPECT_EQ(cut.size(), 1u) << number;
    take(table.on_gone(now, client));
  };
  wrong(1, [&](StoreSession client) { add_arena(client, 2, 50); });
  wrong(2, [&](StoreSession client) { put(client, 1, 2); });
  wrong(3, [&](StoreSession client) { put(client, 1, 1, 95, 10); });
  wrong(4, [&](StoreSession client) { put(client, 1, 1, -5, 10); });
  wrong(5, [&](StoreSession client) { put(client, 1, 1, std::numeric_limits<int64_t>::max(), 10); });
  wrong(6, [&](StoreSession client) {
    put(client, 1);
    cut.clear();
    put(client, 1);
  });
  wrong(7, [&](StoreSession client) {
    put(client, 1);
    drop_arena(client, 1);
  });
  wrong(8, [&](StoreSession client) {
    const ObjectKey key = put(client, 1);
    const StoreSession other{99};
    table.on_connected(other, 9900);
    protocol::ToStore hello;
    hello.mutable_hello();
    take(table.on_message(now, other, hello));
    release(other, key);
    take(table.on_gone(now, other));
  });
  const StoreSession silent{50};
  table.on_connected(silent, 5000);
  cut.clear();
  protocol::ToStore message;
  message.mutable_reserve()->set_bytes(1);
  take(table.on_message(now, silent, message));
  EXPECT_EQ(cut.size(), 1u);
}

// Random processes that put, pass on, drop and die: the table agrees with a plain reference count.
TEST_F(StoreTableTest, RandomUseAgreesWithAModel) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    StoreTable tried(node, "heron", {.bytes_max = 1 << 20});
    std::map<uint64_t, uint64_t> next_number;            // By client.
    std::map<ObjectKey, std::map<uint64_t, int>> model;  // Object, client, references.
    uint64_t next_client = 1;
    uint64_t request = 1;
    const auto tell = [&](uint64_t client, const protocol::ToStore& message) {
      const auto actions = tried.on_message(now, StoreSession{client}, message);
      tried.check_invariants();
      ASSERT_TRUE(actions.cut.empty()) << actions.cut[0].why;
    };
    const auto any_client = [&] {
      auto one = next_number.begin();
      std::advance(one, static_cast<long>(random.below(next_number.size())));
      return one->first;
    };
    for (int step = 0; step < 400; ++step) {
      const uint64_t dice = random.below(10);
      if (next_number.size() < 2 || dice == 0) {
        const uint64_t client = next_client++;
        tried.on_connected(StoreSession{client}, client * 100);
        protocol::ToStore message;
        message.mutable_hello();
        tell(client, message);
        message.mutable_reserve()->set_bytes(4096);
        tell(client, message);
        message.mutable_add_arena()->set_arena(1);
        message.mutable_add_arena()->set_bytes(4096);
        tell(client, message);
        next_number[client] = 1;
      } else if (dice == 1) {
        const uint64_t client = any_client();
        (void)tried.on_gone(now, StoreSession{client});
        tried.check_invariants();
        next_number.erase(client);
        for (auto& [key, held] : model) held.erase(client);
      } else if (dice < 5) {
        const uint64_t client = any_client();
        protocol::ToStore message;
        message.mutable_put()->set_number(next_number[client]);
        message.mutable_put()->set_arena(1);
        message.mutable_put()->set_bytes(8);
        tell(client, message);
        model[{node, client * 100, next_number[client]++}][client] = 1;
      } else if (!model.empty()) {
        auto one = model.begin();
        std::advance(one, static_cast<long>(random.below(model.size())));
        const uint64_t client = any_client();
        protocol::ToStore message;
        if (dice < 8) {
          message.mutable_acquire()->set_request(request++);
          name(*message.mutable_acquire()->mutable_name(), one->first);
          tell(client, message);
          ++one->second[client];
        } else if (one->second[client] > 0) {
          name(*message.mutable_release()->mutable_name(), one->first);
          tell(client, message);
          --one->second[client];
        }
        std::erase_if(one->second, [](const auto& held) { return held.second == 0; });
      }
      std::erase_if(model, [](const auto& entry) { return entry.second.empty(); });
      ASSERT_EQ(tried.objects(), model.size());
    }
    for (const auto& [client, number] : next_number) (void)tried.on_gone(now, StoreSession{client});
    EXPECT_EQ(tried.bytes_used(), 0);
    EXPECT_EQ(tried.objects(), 0u);
  }
}

// ---- references and handles inside objects ----

class StoreContentsTest : public StoreTableTest {
 protected:
  StoreContentsTest() {
    writer = connect(1);
    reserve(writer, 900);
    add_arena(writer, 1, 900);
  }
  void contain(uint64_t number, const std::vector<ObjectKey>& objects, const std::vector<ActorId>& actors = {},
               bool last = true) {
    protocol::ToStore message;
    auto& contents = *message.mutable_contents();
    contents.set_number(number);
    for (const ObjectKey& key : objects) name(*contents.add_objects(), key);
    for (const ActorId& actor : actors) contents.add_actors(raw(actor));
    contents.set_last(last);
    auto actions = table.on_message(now, writer, message);
    changed = actions.actors;
    take(std::move(actions));
  }
  void gone(StoreSession client) {
    auto actions = table.on_gone(now, client);
    changed = actions.actors;
    take(std::move(actions));
  }
  // The store of another node.
  StoreSession connect_peer(uint64_t number) {
    const StoreSession peer{number};
    table.on_connected(peer, 0);
    protocol::ToStore hello;
    hello.mutable_hello()->set_who("another node");
    take(table.on_message(now, peer, hello));
    return peer;
  }
  // An owner node's message about its object.
  static protocol::Located located(const std::vector<ObjectKey>& objects, const std::vector<ActorId>& actors = {}) {
    protocol::Located place;
    for (const ObjectKey& key : objects) name(*place.add_objects(), key);
    for (const ActorId& actor : actors) place.add_actors(raw(actor));
    return place;
  }
  void fetched(const ObjectKey& key) {
    take(table.reserve_copy(now, key, 10));
    auto rooms = table.take_rooms();
    ASSERT_EQ(rooms.size(), 1u);
    ASSERT_TRUE(rooms[0].second);
    table.set_copy(key, *rooms[0].second, 10);
    take(table.on_fetched(now, key, {}));
  }
  void fail(const ObjectKey& key) { take(table.on_fetched(now, key, make_error(ErrorCode::kObjectLost, "gone"))); }
  using What = StoreActions::Home::What;
  using Home = std::vector<What>;
  Home home_of(const ObjectKey& key) const {
    Home asked;
    for (const StoreActions::Home& one : home) {
      if (one.key == key) asked.push_back(one.what);
    }
    return asked;
  }
  StoreSession writer{};
  std::vector<ActorId> changed;
  const ObjectKey far{NodeId{{9}}, 5, 1};
  const ObjectKey outer{NodeId{{8}}, 5, 1};
  const ObjectKey at_home{NodeId{{8}}, 5, 2};
  const ActorId actor{{7}};
  const ActorId other{{8}};
};

TEST_F(StoreContentsTest, WhatAnObjectRefersToLivesAsLongAsItDoes) {
  const StoreSession reader = connect(2);
  const ObjectKey inner = put(writer, 1, 1, 0, 10);
  const ObjectKey outer = put(writer, 2, 1, 64, 10);
  contain(2, {inner});
  EXPECT_EQ(table.rows(10).size(), 2u);
  release(writer, inner);
  EXPECT_EQ(table.objects(), 2u);
  acquire(reader, outer, 1);
  gone(writer);
  EXPECT_EQ(table.objects(), 2u) << "a reader has the outer one, and may look into it";
  EXPECT_TRUE(closed.empty());
  release(reader, outer);
  EXPECT_EQ(table.objects(), 0u);
  EXPECT_EQ(closed.size(), 1u);
}

TEST_F(StoreContentsTest, ALongChainGoesWithItsFirstLink) {
  constexpr uint64_t kLinks = 20'000;
  ObjectKey before = put(writer, 1, 1, 0, 10);
  for (uint64_t number = 2; number <= kLinks; ++number) {
    protocol::ToStore message;
    auto& next = *message.mutable_put();
    next.set_number(number);
    next.set_arena(1);
    next.set_bytes(1);
    table.on_message(now, writer, message);
    message.mutable_contents()->set_number(number);
    name(*message.mutable_contents()->add_objects(), before);
    table.on_message(now, writer, message);
    name(*message.mutable_release()->mutable_name(), before);
    table.on_message(now, writer, message);
    before.number = number;
  }
  EXPECT_EQ(table.objects(), kLinks);
  release(writer, before);
  EXPECT_EQ(table.objects(), 0u);
}

TEST_F(StoreContentsTest, AnInnerOneThatIsStillToBeToldIsExpected) {
  const StoreSession second = connect(2);
  reserve(second, 100);
  add_arena(second, 1, 100);
  put(writer, 1);
  const ObjectKey inner{node, 200, 1};  // Its writer's message arrives later.
  contain(1, {inner});
  put(second, 1);
  release(second, inner);
  EXPECT_EQ(table.objects(), 2u);
  put(writer, 2, 1, 64);
  const ObjectKey never{node, 200, 2};
  contain(2, {never});
  release(writer, {node, 100, 2});  // Released before the inner one has arrived.
  put(second, 2);
  release(second, never);
  EXPECT_EQ(table.objects(), 2u);
  release(writer, {node, 100, 1});
  EXPECT_EQ(table.objects(), 0u);
}

TEST_F(StoreContentsTest, ACopyOfAnotherNodesObjectStaysForTheObjectThatRefersToIt) {
  acquire(writer, far, 1);
  take(table.reserve_copy(now, far, 10));
  put(writer, 1);
  contain(1, {far});
  release(writer, far);
  EXPECT_EQ(home_of(far), (Home{What::kFetch, What::kRefer})) << "still wanted, also where it does not come";
  fail(far);
  EXPECT_EQ(table.objects(), 2u) << "the object needs no bytes of it";
  EXPECT_FALSE(table.find(far));
  home.clear();
  release(writer, {node, 100, 1});
  EXPECT_EQ(home_of(far), (Home{What::kRelease}));
  EXPECT_EQ(table.objects(), 0u);
}

TEST_F(StoreContentsTest, ACopyHoldsWhatItsHomeSaysIsInIt) {
  const ObjectKey own = put(writer, 1);
  acquire(writer, outer, 1);
  auto actions = table.set_contents(now, outer, located({own, far, at_home}, {actor}));
  EXPECT_EQ(actions.actors, (std::vector<ActorId>{actor}));
  take(std::move(actions));
  fetched(outer);
  EXPECT_EQ(home_of(far), (Home{What::kRefer})) << "counted, not fetched";
  EXPECT_EQ(home_of(at_home), Home{}) << "its home keeps it, or both are lost";
  release(writer, own);
  EXPECT_TRUE(table.find(own)) << "the copy refers to it";
  EXPECT_EQ(table.rows(10).size(), 2u) << "what is elsewhere is not listed here";

  home.clear();
  release(writer, outer);
  EXPECT_EQ(home_of(far), (Home{What::kRelease}));
  EXPECT_EQ(home_of(outer), (Home{What::kRelease}));
  EXPECT_FALSE(table.holds_actor(actor));
  EXPECT_EQ(table.objects(), 0u);
}

TEST_F(StoreContentsTest, OneThatIsOnlyNamedComesWhenSomebodyReadsIt) {
  acquire(writer, outer, 1);
  take(table.set_contents(now, outer, located({far})));
  fetched(outer);
  for (const bool comes : {false, true}) {
    home.clear();
    acquire(writer, far, 2);
    EXPECT_EQ(home_of(far), (Home{What::kFetch}));
    EXPECT_TRUE(answers.empty());
    if (comes) {
      fetched(far);
      EXPECT_EQ(answers.at(0).message.located().bytes(), 10);
    } else {
      fail(far);
      EXPECT_EQ(located_code(), ErrorCode::kObjectLost);
      EXPECT_EQ(home_of(far), (Home{What::kFetch})) << "the next reader tries again";
    }
  }
  release(writer, far);
  home.clear();
  release(writer, outer);
  EXPECT_EQ(home_of(far), (Home{What::kRelease, What::kRelease}))
      << "for the copy, and for the object that referred to it";
  EXPECT_EQ(table.objects(), 0u);
}

TEST_F(StoreContentsTest, AnotherNodeIsAnsweredWhenAllThatIsInAnObjectIsKnown) {
  const StoreSession peer = connect_peer(7);
  const ObjectKey inner = put(writer, 1, 1, 0, 10);
  acquire(writer, far, 1);
  fetched(far);
  const ObjectKey named = put(writer, 2, 1, 64, 10, true);
  acquire(peer, named, 3);
  EXPECT_TRUE(answers.empty());
  contain(2, {inner, far}, {}, false);
  EXPECT_TRUE(answers.empty());
  contain(2, {}, {actor});
  ASSERT_EQ(answers.size(), 2u);  // The writer is informed that the actor is held.
  const protocol::Located& told = answers[1].message.located();
  EXPECT_EQ(answers[1].to, peer);
  ASSERT_EQ(told.objects_size(), 1) << "not what goes with this node";
  EXPECT_EQ(object_key_of(told.objects(0)), far);
  EXPECT_EQ(told.objects(0).address(), "10.0.0.2:7");
  ASSERT_EQ(told.actors_size(), 1);
  EXPECT_EQ(told.actors(0), raw(actor));
}

TEST_F(StoreContentsTest, AWriterThatEndsBeforeItSaidAllKeepsNobodyWaiting) {
  for (const bool releases : {true, false}) {
    const StoreSession peer = connect_peer(releases ? 7 : 8);
    const ObjectKey named = put(writer, releases ? 1 : 2, 1, releases ? 0 : 64, 10, true);
    acquire(peer, named, 3);
    EXPECT_TRUE(answers.empty());
    releases ? release(writer, named) : gone(writer);
    ASSERT_FALSE(answers.empty());
    EXPECT_EQ(answers.back().to, peer);
    EXPECT_EQ(answers.back().message.located().bytes(), 10);
    release(peer, named);
  }
  EXPECT_EQ(table.objects(), 0u);
}

TEST_F(StoreContentsTest, ANodeThatWentBeforeItWasAnsweredIsNobody) {
  const StoreSession gives_back = connect_peer(7);
  const StoreSession goes = connect_peer(8);
  const ObjectKey named = put(writer, 1, 1, 0, 10, true);
  acquire(gives_back, named, 3);
  acquire(goes, named, 3);
  release(gives_back, named);
  release(goes, named);
  gone(goes);
  contain(1, {}, {actor});
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[1].to, gives_back);
  EXPECT_EQ(located_code(), ErrorCode::kObjectLost);
}

TEST_F(StoreContentsTest, ANodeThatIsCutOffFindsWhatItReferredToAgain) {
  const StoreSession peer = connect_peer(7);
  const ObjectKey kept = put(writer, 1);
  acquire(peer, kept, 1);
  release(writer, kept);
  gone(peer);
  EXPECT_THAT(table.rows(1).at(0).holders, ::testing::ElementsAre("a node that was cut off"));
  now += 4s;
  const StoreSession again = connect_peer(8);
  acquire(again, kept, 1);
  EXPECT_EQ(answers.at(0).message.located().bytes(), 10);
  ASSERT_TRUE(table.next_tick());
  EXPECT_EQ(*table.next_tick(), at(6s));
  now = at(6s);
  take(table.on_tick(now));
  EXPECT_TRUE(table.find(kept));
  gone(again);
  now = at(11s);
  take(table.on_tick(now));
  EXPECT_EQ(table.objects(), 0u) << "five seconds are enough";
  EXPECT_FALSE(table.next_tick());
}

TEST_F(StoreContentsTest, AHomeThatWasLostCountsAgainWhatIsOnlyNamed) {
  acquire(writer, outer, 1);
  take(table.set_contents(now, outer, located({far})));
  fetched(outer);
  home.clear();
  EXPECT_FALSE(table.on_home_lost("10.0.0.3:7")) << "another one";
  EXPECT_TRUE(table.on_home_lost("10.0.0.2:7"));
  take(table.refer_again("10.0.0.2:7"));
  EXPECT_EQ(home_of(far), (Home{What::kRefer}));
  take(table.refer_again("10.0.0.2:7"));
  EXPECT_EQ(home_of(far), (Home{What::kRefer})) << "once";
  EXPECT_TRUE(table.on_home_lost("10.0.0.2:7"));
  home.clear();
  release(writer, outer);
  EXPECT_EQ(home_of(far), Home{}) << "it is not counted there";
  EXPECT_EQ(table.objects(), 0u);
}

TEST_F(StoreContentsTest, HandlesAreToldWithTheFirstObjectAndWithTheLast) {
  put(writer, 1);
  contain(1, {}, {actor, other}, false);
  EXPECT_EQ(changed, (std::vector<ActorId>{actor, other}));
  EXPECT_TRUE(answers.empty());
  contain(1, {}, {});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].message.kept().number(), 1u);
  put(writer, 2, 1, 64);
  contain(2, {}, {actor});
  EXPECT_TRUE(changed.empty()) << "one object has it already";
  release(writer, {node, 100, 1});
  EXPECT_TRUE(table.holds_actor(actor));
  EXPECT_FALSE(table.holds_actor(other));
  gone(writer);
  EXPECT_EQ(changed, (std::vector<ActorId>{actor}));
  EXPECT_TRUE(table.actors().empty());
}

TEST_F(StoreContentsTest, AnObjectThatIsGivenUpHoldsNothing) {
  const ObjectKey inner = put(writer, 1, 1, 0, 10);
  const ObjectKey outer = put(writer, 2, 1, 64, 10);
  contain(2, {inner}, {actor});
  release(writer, inner);
  protocol::ToStore message;
  name(*message.mutable_free()->mutable_name(), outer);
  take(table.on_message(now, writer, message));
  ASSERT_EQ(answers.size(), 1u);
  const auto asked = answers[0].message.reclaim().objects(0);
  auto& yielded = *message.mutable_yield()->add_objects();
  *yielded.mutable_name() = asked.name();
  yielded.set_serial(asked.serial());
  take(table.on_message(now, writer, message));
  EXPECT_FALSE(table.holds_actor(actor));
  EXPECT_EQ(table.objects(), 1u) << "the outer one's name, while somebody refers to it";
}

TEST_F(StoreContentsTest, OnlyItsWriterSaysWhatIsInAnObject) {
  contain(3, {}, {actor});
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_THAT(cut[0].why, HasSubstr("object 3"));
  EXPECT_FALSE(table.holds_actor(actor));
}

}  // namespace
}  // namespace volador::worker
