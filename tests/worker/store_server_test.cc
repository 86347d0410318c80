// The real store with real clients: sockets, shared memory, and two stores that fetch from each other.
#include "worker/store/store_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "runtime/net/io_loop.h"
#include "runtime/random.h"
#include "runtime/store/store_client.h"
#include "tests/runtime/security/test_certificates.h"
#include "tests/worker/store_fixture.h"
#include "worker/shell/data_port.h"

namespace volador::worker {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST_F(StoreServerTest, WhatOneProcessPutsAnotherReadsInPlace) {
  const auto store = start("a");
  const auto writer = connect("a");
  const auto reader = connect("a");
  const auto object = put(*writer, 100'000, 7);
  const auto seen = reader->acquire(object->key(), object->address(), false);
  ASSERT_TRUE(holds(*seen, 100'000, 7));
  const auto again = reader->acquire(object->key(), object->address(), false);
  EXPECT_EQ(again->view({})->data(), seen->view({})->data()) << "the same memory, not a copy";
  EXPECT_EQ(reinterpret_cast<uintptr_t>(seen->view({})->data()) % 64, 0u);
}

TEST_F(StoreServerTest, TheStoreIsEmptyWhenNobodyRefersToAnything) {
  const auto store = start("a");
  auto writer = connect("a");
  auto reader = connect("a");
  auto object = put(*writer, 50'000, 1);
  auto seen = reader->acquire(object->key(), object->address(), false);
  ASSERT_TRUE(holds(*seen, 50'000, 1));
  object.reset();
  writer.reset();
  EXPECT_TRUE(holds(*seen, 50'000, 1)) << "it outlives the process that put it";
  EXPECT_EQ(store->usage().objects, 1);
  seen.reset();
  EXPECT_TRUE(eventually([&] { return store->usage().objects == 0 && store->usage().bytes == 0; }));
}

TEST_F(StoreServerTest, RoomThatWasGivenBackIsUsedAgain) {
  const auto store = start("a", 32 << 20);
  const auto writer = connect("a");
  const void* first = nullptr;
  for (int i = 0; i < 50; ++i) {
    const auto object = put(*writer, 8 << 20, static_cast<uint8_t>(i));
    ASSERT_NE(object, nullptr);
    if (first == nullptr) first = object->view({})->data();
  }
  EXPECT_LE(store->usage().bytes, 32 << 20);
}

TEST_F(StoreServerTest, AFullStoreNamesTheLargestHolder) {
  const auto store = start("a", 16 << 20, 100ms);
  const auto big = connect("a", "driver big");
  const auto small = connect("a", "driver small");
  const auto held = put(*big, 12 << 20, 1);
  const auto refused = small->create(8 << 20);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kStoreFull);
  EXPECT_THAT(refused.error().message, HasSubstr("driver big 12 MiB"));
}

TEST_F(StoreServerTest, EmptyArenasAreGivenBackWhenSomebodyWaits) {
  const auto store = start("a", 16 << 20);
  const auto one = connect("a");
  const auto two = connect("a");
  put(*one, 12 << 20, 1).reset();
  EXPECT_NE(put(*two, 12 << 20, 2), nullptr);
}

TEST_F(StoreServerTest, ManyThreadsPutPassAndDrop) {
  const auto store = start("a", 256 << 20);
  const auto writer = connect("a");
  const auto reader = connect("a");
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const auto fill = static_cast<uint8_t>(t * 50 + i);
        const auto object = put(*writer, 20'000 + static_cast<size_t>(i), fill);
        const auto seen = reader->acquire(object->key(), object->address(), false);
        const auto again = reader->acquire(object->key(), object->address(), false);
        if (!holds(*seen, 20'000 + static_cast<size_t>(i), fill)) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(eventually([&] { return store->usage().objects == 0; }));
}

TEST_F(StoreServerTest, AStoreThatEndsSaysSoAndViewsStayReadable) {
  auto store = start("a");
  const auto writer = connect("a");
  const auto object = put(*writer, 30'000, 3);
  store.reset();
  EXPECT_TRUE(holds(*object, 30'000, 3));
  EXPECT_TRUE(eventually([&] {
    const auto late = writer->create(30'000);
    return !late && late.error().code == ErrorCode::kUnavailable;
  }));
  store = start("a");
  EXPECT_TRUE(eventually([&] { return writer->create(30'000).has_value(); })) << "a new store is found";
}

// Two nodes with certificates of one cluster.
class TwoNodes : public StoreServerTest {
 protected:
  struct NodeSide {
    std::unique_ptr<net::IoLoop> loop;
    std::unique_ptr<DataPort> port;
    std::unique_ptr<StoreServer> store;
    std::mutex mutex;
    std::vector<net::UniqueFd> connections;  // Copies of the accepted connections.
    void cut() {
      const std::lock_guard<std::mutex> hold(mutex);
      for (const auto& one : connections) ::shutdown(one.get(), SHUT_RDWR);
      connections.clear();
    }
    ~NodeSide() {
      if (port) port->close();
      store.reset();
      port.reset();
    }
  };
  // Hook that may change data leaving a node, by the node's name.
  std::function<void(const std::string& node, const ObjectKey& key, std::string& chunk)> on_chunk;
  std::chrono::nanoseconds resume_patience = 10s;
  std::chrono::nanoseconds spare_patience = 0s;

  std::unique_ptr<NodeSide> start_node(const security::Authority& authority, const std::string& name,
                                       int64_t bytes_max = 256 << 20, int64_t spill_bytes_max = 0) {
    auto side = std::make_unique<NodeSide>();
    side->loop = std::move(*net::IoLoop::create());
    NodeSide* raw_side = side.get();
    auto port = DataPort::create(*side->loop, clock, {.strangers = {.unproved = 1}},
                                 [raw_side](HostId host, net::UniqueFd fd, uint64_t number) -> Result<void> {
                                   if (!host.is_nil()) return make_error(ErrorCode::kNotFound, "no hosts here");
                                   {
                                     const std::lock_guard<std::mutex> hold(raw_side->mutex);
                                     raw_side->connections.emplace_back(::dup(fd.get()));
                                   }
                                   raw_side->store->adopt(std::move(fd),
                                                          [raw_side, number] { raw_side->port->on_proved(number); });
                                   return {};
                                 });
    EXPECT_TRUE(port);
    side->port = std::move(*port);
    StoreServerOptions options;
    options.socket = folder.path() / (name + ".sock");
    options.node = new_id<NodeId>(random);
    options.node_name = name;
    options.address = side->port->address();
    options.limits.bytes_max = bytes_max;
    options.limits.spill_bytes_max = spill_bytes_max;
    options.limits.spare_patience = spare_patience;
    options.spill_folder = folder.path() / (name + "-spill");
    options.credentials = security::signed_by(authority, security::Role::kNode, name);
    options.resume_patience = resume_patience;
    options.spoil = [this, name](const ObjectKey& key, std::string& chunk) {
      if (on_chunk) on_chunk(name, key, chunk);
    };
    auto made = StoreServer::create(std::move(options), clock, random);
    EXPECT_TRUE(made) << made.error().message;
    side->store = std::move(*made);
    return side;
  }
};

TEST_F(TwoNodes, AnObjectIsCopiedOnceAndForgottenOnBothSides) {
  const auto authority = security::test_authority();
  const auto a = start_node(authority, "a");
  const auto b = start_node(authority, "b");
  const auto writer = connect("a");
  const auto one = connect("b");
  const auto two = connect("b");
  auto object = put(*writer, 30'000'000, 9);
  auto here = one->acquire(object->key(), object->address(), false);
  ASSERT_TRUE(holds(*here, 30'000'000, 9));
  auto there = two->acquire(object->key(), object->address(), false);
  ASSERT_TRUE(holds(*there, 30'000'000, 9));
  EXPECT_EQ(b->store->usage().bytes, 30'000'000);
  object.reset();
  EXPECT_EQ(a->store->usage().objects, 1) << "the other node refers to it";
  here.reset();
  there.reset();
  EXPECT_TRUE(eventually([&] { return a->store->usage().objects == 0 && b->store->usage().bytes == 0; }));
}

TEST_F(TwoNodes, TheMemoryOfACopyThatWentServesForTheNextOne) {
  spare_patience = 1h;
  const auto authority = security::test_authority();
  const auto a = start_node(authority, "a");
  const auto b = start_node(authority, "b");
  const auto writer = connect("a");
  const auto reader = connect("b");
  const std::byte* first = nullptr;
  for (uint8_t fill = 1; fill < 6; ++fill) {
    const auto object = put(*writer, 9'000'001, fill);
    const auto here = reader->acquire(object->key(), object->address(), false);
    ASSERT_TRUE(holds(*here, 9'000'001, fill));
    if (first == nullptr) first = here->view({})->data();
    EXPECT_EQ(here->view({})->data(), first);
    EXPECT_EQ(b->store->usage().bytes, 9'000'001);
  }
  EXPECT_TRUE(eventually([&] { return b->store->usage().objects == 0; }));
  EXPECT_EQ(b->store->drop_spares(), 9'000'001);
  EXPECT_TRUE(eventually([&] { return b->store->usage().bytes == 0; }));
}

TEST_F(TwoNodes, WhatOneSpilledTheOtherGetsFromItsDiskAndSpillsItself) {
  const auto authority = security::test_authority();
  const auto a = start_node(authority, "a", 16 << 20, 200 << 20);
  const auto b = start_node(authority, "b", 16 << 20, 200 << 20);
  const auto writer = connect("a");
  const auto reader = connect("b");
  std::vector<std::shared_ptr<const StoredObject>> objects, seen;
  for (int i = 0; i < 10; ++i) objects.push_back(put(*writer, 5'500'000, static_cast<uint8_t>(i)));
  const auto spilled = a->store->usage().spilled;
  EXPECT_GT(spilled, 30'000'000);
  for (const auto& object : objects) seen.push_back(reader->acquire(object->key(), object->address(), false));
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(holds(*seen[static_cast<size_t>(i)], 5'500'000, static_cast<uint8_t>(i)));
  }
  EXPECT_EQ(a->store->usage().spilled, spilled) << "nothing came back into memory there";
  EXPECT_GT(b->store->usage().spilled, 0);
  objects.clear();
  seen.clear();
  EXPECT_TRUE(eventually([&] {
    return a->store->usage().objects == 0 && b->store->usage().objects == 0 &&
           a->store->usage().spilled + b->store->usage().spilled == 0;
  }));
}

TEST_F(TwoNodes, AnObjectOfANodeThatDiedIsLost) {
  const auto authority = security::test_authority();
  auto a = start_node(authority, "a");
  const auto b = start_node(authority, "b");
  const auto writer = connect("a");
  const auto reader = connect("b");
  const auto object = put(*writer, 1'000'000, 9);
  a.reset();
  const auto gone = reader->acquire(object->key(), object->address(), false);
  const auto view = gone->view(20s);
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code, ErrorCode::kObjectLost);
  EXPECT_THAT(view.error().message, HasSubstr(object->address()));
}

TEST_F(TwoNodes, EightNodesGetALargeObjectAndNoneSendsItMoreThanTwice) {
  constexpr size_t kBytes = 48 << 20;
  std::mutex mutex;
  std::map<std::string, size_t> sent;
  on_chunk = [&](const std::string& node, const ObjectKey&, const std::string& chunk) {
    const std::lock_guard<std::mutex> hold(mutex);
    sent[node] += chunk.size();
  };
  const auto authority = security::test_authority();
  const auto home = start_node(authority, "home");
  std::vector<std::unique_ptr<NodeSide>> nodes;
  std::vector<std::unique_ptr<StoreClient>> readers;
  for (int i = 0; i < 8; ++i) {
    nodes.push_back(start_node(authority, "n" + std::to_string(i), 64 << 20));
    readers.push_back(connect("n" + std::to_string(i)));
  }
  const auto writer = connect("home");
  const auto object = put(*writer, kBytes, 5);
  std::vector<std::shared_ptr<const StoredObject>> seen;
  for (const auto& reader : readers) seen.push_back(reader->acquire(object->key(), object->address(), false));
  for (const auto& one : seen) EXPECT_TRUE(holds(*one, kBytes, 5));
  const std::lock_guard<std::mutex> hold(mutex);
  size_t all = 0;
  for (const auto& [node, bytes] : sent) {
    EXPECT_LE(bytes, 2 * kBytes + 4096) << node;
    all += bytes;
  }
  EXPECT_LE(all, 8 * kBytes + 4096) << "each node got it once";
}

TEST_F(TwoNodes, ANodeThatDiesWhileItPassesAnObjectOnIsReplacedByTheHome) {
  constexpr size_t kBytes = 64 << 20;
  const auto authority = security::test_authority();
  const auto home = start_node(authority, "home");
  std::vector<std::unique_ptr<NodeSide>> nodes;
  std::vector<std::unique_ptr<StoreClient>> readers;
  for (int i = 0; i < 4; ++i) {
    nodes.push_back(start_node(authority, "n" + std::to_string(i), 128 << 20));
    readers.push_back(connect("n" + std::to_string(i)));
  }
  std::atomic<int> from_others{0};
  on_chunk = [&](const std::string& node, const ObjectKey&, const std::string&) {
    if (node != "home") ++from_others;
  };
  const auto writer = connect("home");
  const auto object = put(*writer, kBytes, 6);
  std::vector<std::shared_ptr<const StoredObject>> seen;
  for (const auto& reader : readers) seen.push_back(reader->acquire(object->key(), object->address(), false));
  ASSERT_TRUE(eventually([&] { return from_others > 0; }));
  nodes[0].reset();  // Both first read locally, and are then read by the others.
  nodes[1].reset();
  for (size_t i = 2; i < 4; ++i) EXPECT_TRUE(holds(*seen[i], kBytes, 6));
}

TEST_F(TwoNodes, AnObjectThatWasCutOffGoesOnFromTheChunkWhereItStopped) {
  constexpr size_t kBytes = 80 << 20;
  const auto authority = security::test_authority();
  auto a = start_node(authority, "a");
  const auto b = start_node(authority, "b");
  const auto writer = connect("a");
  const auto reader = connect("b");
  std::atomic<size_t> sent{0};
  const auto object = put(*writer, kBytes, 7);
  on_chunk = [&](const std::string&, const ObjectKey&, const std::string& chunk) {
    const size_t before = sent.fetch_add(chunk.size());
    if (before < kBytes / 2 && before + chunk.size() >= kBytes / 2) a->cut();
  };
  const auto seen = reader->acquire(object->key(), object->address(), false);
  EXPECT_TRUE(holds(*seen, kBytes, 7));
  EXPECT_LE(sent, kBytes + (24 << 20)) << "what had come was not sent again";
}

TEST_F(TwoNodes, AChunkThatArrivesOtherwiseThanItLeftIsReadAgain) {
  constexpr size_t kBytes = 20 << 20;
  const auto authority = security::test_authority();
  const auto a = start_node(authority, "a");
  const auto b = start_node(authority, "b");
  const auto writer = connect("a");
  const auto reader = connect("b");
  std::atomic<int> chunks{0};
  on_chunk = [&](const std::string&, const ObjectKey&, std::string& chunk) {
    if (++chunks == 3) chunk[chunk.size() / 2] ^= 1;
  };
  const auto object = put(*writer, kBytes, 8);
  const auto seen = reader->acquire(object->key(), object->address(), false);
  EXPECT_TRUE(holds(*seen, kBytes, 8));
  EXPECT_EQ(chunks, 21) << "twenty of 1 MiB, and one of them again";
}

TEST_F(TwoNodes, ANodeThatOnlySendsDamagedChunksHasLostTheObject) {
  resume_patience = 300ms;
  const auto authority = security::test_authority();
  const auto a = start_node(authority, "a");
  const auto b = start_node(authority, "b");
  const auto writer = connect("a");
  const auto reader = connect("b");
  on_chunk = [&](const std::string&, const ObjectKey&, std::string& chunk) { chunk[7] ^= 1; };
  const auto object = put(*writer, 1'000'000, 9);
  const auto view = reader->acquire(object->key(), object->address(), false)->view(20s);
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code, ErrorCode::kObjectLost);
  EXPECT_THAT(view.error().message, HasSubstr("checksum"));
  EXPECT_TRUE(eventually([&] { return b->store->usage().bytes == 0; }));
}

TEST_F(TwoNodes, ASenderThatDiesInTheMiddleIsALostObjectAndNothingIsLeft) {
  resume_patience = 300ms;
  const auto authority = security::test_authority();
  auto a = start_node(authority, "a");
  const auto b = start_node(authority, "b");
  const auto writer = connect("a");
  const auto reader = connect("b");
  std::atomic<int> chunks{0};
  std::promise<void> started;
  on_chunk = [&](const std::string&, const ObjectKey&, const std::string&) {
    if (++chunks == 2) started.set_value();
  };
  const auto object = put(*writer, 200'000'000, 9);
  auto seen = reader->acquire(object->key(), object->address(), false);
  started.get_future().wait();
  a.reset();
  const auto view = seen->view(20s);
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code, ErrorCode::kObjectLost);
  EXPECT_THAT(view.error().message, HasSubstr(object->address()));
  EXPECT_TRUE(eventually([&] { return b->store->usage().bytes == 0 && b->store->usage().objects == 0; }));
}

TEST_F(TwoNodes, WhatIsFreedGoesOnEveryNodeWhoeverFreesIt) {
  for (const bool at_home : {true, false}) {
    const auto authority = security::test_authority();
    const auto a = start_node(authority, "a");
    const auto b = start_node(authority, "b");
    const auto c = start_node(authority, "c");
    const auto writer = connect("a");
    const auto one = connect("b");
    const auto two = connect("c");
    const auto object = put(*writer, 20'000'000, 9);
    const auto here = one->acquire(object->key(), object->address(), false);
    const auto there = two->acquire(object->key(), object->address(), false);
    ASSERT_TRUE(holds(*here, 20'000'000, 9));
    ASSERT_TRUE(holds(*there, 20'000'000, 9));
    if (at_home) {
      writer->free(*object);
    } else {
      one->free(*here);
    }
    EXPECT_TRUE(eventually([&] { return b->store->usage().bytes == 0 && c->store->usage().bytes == 0; })) << at_home;
    EXPECT_EQ(there->view(20s).error().code, ErrorCode::kObjectLost);
    EXPECT_EQ(here->view(20s).error().code, ErrorCode::kObjectLost);
  }
}

TEST_F(TwoNodes, WhatIsInACopyOutlivesTheNodeThatPutIt) {
  const auto authority = security::test_authority();
  auto a = start_node(authority, "a");
  const auto b = start_node(authority, "b");
  const auto c = start_node(authority, "c");
  const auto reader = connect("b");
  const auto third = connect("c");
  auto of_reader = put(*reader, 100'000, 1);
  auto of_third = put(*third, 9'000'000, 2);
  const ObjectKey own = of_reader->key();
  const ObjectKey far = of_third->key();
  const std::string own_address = of_reader->address();
  const std::string far_address = of_third->address();
  std::shared_ptr<const StoredObject> copy;
  {
    const auto writer = connect("a");
    RefScope contents(RefScope::Kind::kSend);
    for (const auto& [key, address] : {std::pair{own, own_address}, {far, far_address}}) {
      auto inner = writer->acquire(key, address, false);
      ASSERT_TRUE(inner->view(20s));
      contents.add(std::move(inner));
    }
    auto draft = writer->create(1000);
    ASSERT_TRUE(draft);
    const auto outer = writer->seal(std::move(*draft), {"list", "train.cc:42"}, &contents);
    ASSERT_TRUE(outer);
    of_reader.reset();
    of_third.reset();
    copy = reader->acquire((*outer)->key(), (*outer)->address(), false);
    ASSERT_TRUE(copy->view(20s));
  }
  a.reset();
  c->cut();
  std::this_thread::sleep_for(kReturnPatience + 500ms);  // Longer than the retention of unrequested data.
  EXPECT_EQ(c->store->usage().objects, 1) << "the copy refers to it";
  EXPECT_LT(b->store->usage().bytes, 9'000'000) << "nobody reads it yet";
  EXPECT_TRUE(holds(*reader->acquire(own, own_address, false), 100'000, 1));
  EXPECT_TRUE(holds(*reader->acquire(far, far_address, false), 9'000'000, 2));
  copy.reset();
  EXPECT_TRUE(eventually([&] { return b->store->usage().objects == 0 && c->store->usage().objects == 0; }));
}

TEST_F(TwoNodes, AnotherClustersNodeGetsNothing) {
  const auto ours = security::test_authority(7);
  const auto theirs = security::test_authority(8);
  const auto a = start_node(ours, "a");
  const auto b = start_node(theirs, "b");
  const auto writer = connect("a");
  const auto reader = connect("b");
  const auto object = put(*writer, 100'000, 9);
  const auto view = reader->acquire(object->key(), object->address(), false)->view(20s);
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code, ErrorCode::kObjectLost);
}

}  // namespace
}  // namespace volador::worker
