// The encrypted wire between nodes. Nodes are threads, connected by the loopback interface.
#include "train/group/node_wire.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <list>
#include <mutex>
#include <semaphore>
#include <thread>
#include <utility>

#include "runtime/net/socket.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"
#include "runtime/security/handshake.h"
#include "runtime/security/secret.h"
#include "tests/train/refusals.h"
#include "tests/train/thread_ranks.h"
#include "train/group/node_link.h"

namespace volador::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

struct WiredNodes {
  explicit WiredNodes(int count) : count(count) {}
  NodeWireOptions options(int node) const {
    NodeWireOptions options;
    options.node = node;
    options.nodes = count;
    options.run = "test/1";
    options.rendezvous = table;
    options.timeout = 60s;
    return options;
  }
  std::shared_ptr<Wire> join(int node) const { return join_node_wire(options(node)); }

  int count;
  std::shared_ptr<Rendezvous> table = std::make_shared<LocalRendezvous>();
};

// An operation and the announcement of its end.
class Running {
 public:
  Running(Wire& wire, torch::Tensor tensor) {
    work_ = wire.all_reduce(std::move(tensor), [this] { ended_.release(); });
  }
  Running(Wire& wire, torch::Tensor tensor, int root) {
    work_ = wire.broadcast(std::move(tensor), root, [this] { ended_.release(); });
  }
  // Returns when it has ended. Throws its error.
  void wait() {
    ended_.acquire();
    ASSERT_TRUE(work_->is_done());
  }
  std::string error() {
    ended_.acquire();
    return error_now();
  }
  std::string error_now() {
    try {
      return work_->is_done() ? "it is done" : "it runs";
    } catch (const GroupAborted& e) {
      return e.what();
    }
  }

 private:
  std::binary_semaphore ended_{0};
  std::unique_ptr<WireWork> work_;
};

void sum(Wire& wire, const torch::Tensor& tensor) { Running(wire, tensor).wait(); }

// Small whole numbers, so that sums are exact in every type.
torch::Tensor numbers(int node, int64_t count, torch::ScalarType type) {
  return (torch::arange(count, torch::kLong) * (node + 3) % 11 + node).to(type);
}

class NodeWireOperations : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Nodes, NodeWireOperations, ::testing::Values(1, 2, 3, 4, 5));

TEST_P(NodeWireOperations, AllReduceSumsEachTypeAndLength) {
  const WiredNodes nodes(GetParam());
  run_ranks(nodes.count, [&](int node) {
    const auto wire = nodes.join(node);
    EXPECT_EQ(wire->name(), "tls");
    for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16, torch::kByte, torch::kChar,
                            torch::kShort, torch::kInt, torch::kLong}) {
      for (const int64_t count : {0, 1, 1000, 40'003}) {
        torch::Tensor expected = torch::zeros({count}, type);
        for (int other = 0; other < nodes.count; ++other) expected += numbers(other, count, type);
        const torch::Tensor tensor = numbers(node, count, type);
        sum(*wire, tensor);
        EXPECT_TRUE(torch::equal(tensor, expected)) << count << " of " << type << ", node " << node;
      }
    }
  });
}

TEST_P(NodeWireOperations, SumsHaveTheSameBitsOnAllNodes) {
  const WiredNodes nodes(GetParam());
  struct Case {
    torch::ScalarType type;
    int64_t elements;
    std::vector<torch::Tensor> inputs, sums;  // One for each node.
  };
  std::vector<Case> cases;
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16}) {
    for (const int64_t elements : {1000, 50'001}) {
      Case one{.type = type, .elements = elements, .inputs = {}, .sums = {}};
      for (int node = 0; node < nodes.count; ++node) {
        auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(node + 1));
        one.inputs.push_back(torch::randn({elements}, generator).to(type));
        one.sums.push_back(one.inputs.back().clone());
      }
      cases.push_back(std::move(one));
    }
  }
  run_ranks(nodes.count, [&](int node) {
    const auto wire = nodes.join(node);
    for (const Case& one : cases) sum(*wire, one.sums[static_cast<size_t>(node)]);
  });
  for (const Case& one : cases) {
    torch::Tensor in_order = one.inputs[0].clone();
    for (size_t node = 1; node < one.inputs.size(); ++node) in_order += one.inputs[node];
    for (const torch::Tensor& other : one.sums) {
      EXPECT_TRUE(torch::equal(other.view(torch::kByte), one.sums[0].view(torch::kByte))) << one.type;
    }
    if (one.elements == 1000 || nodes.count <= 2) {
      EXPECT_TRUE(torch::equal(one.sums[0], in_order)) << one.type;
    } else {
      const double tolerance = one.type == torch::kBFloat16 ? 0.1 : one.type == torch::kHalf ? 0.01 : 1e-5;
      EXPECT_TRUE(torch::allclose(one.sums[0].to(torch::kDouble), in_order.to(torch::kDouble), tolerance, tolerance));
    }
  }
}

TEST_P(NodeWireOperations, TensorsMayHaveGapsAndGradients) {
  const WiredNodes nodes(GetParam());
  run_ranks(nodes.count, [&](int node) {
    const auto wire = nodes.join(node);
    const double expected = nodes.count * (nodes.count + 1) / 2;
    for (const int64_t rows : {3, 300}) {
      const torch::Tensor whole = torch::full({rows, 200}, node + 1.0);
      const torch::Tensor left = whole.narrow(1, 0, 100).t();
      sum(*wire, left);
      EXPECT_TRUE(torch::equal(left, torch::full({100, rows}, expected)));
      EXPECT_TRUE(torch::equal(whole.narrow(1, 100, 100), torch::full({rows, 100}, node + 1.0)));
      Running(*wire, left, nodes.count - 1).wait();
      EXPECT_TRUE(torch::equal(left, torch::full({100, rows}, expected)));
    }
    torch::Tensor parameter = torch::full({2}, node + 1.0, torch::requires_grad());
    sum(*wire, parameter);
    EXPECT_EQ(parameter[1].item<double>(), expected);
    EXPECT_TRUE(parameter.is_leaf());
    torch::Tensor scalar = torch::tensor(int64_t{node + 1});
    sum(*wire, scalar);
    EXPECT_EQ(scalar.item<double>(), expected);
    torch::Tensor flags = torch::tensor({node == 0, false});
    sum(*wire, flags);
    EXPECT_TRUE(torch::equal(flags, torch::tensor({true, false})));
  });
}

TEST_P(NodeWireOperations, BroadcastGivesTheRootsValuesToAll) {
  const WiredNodes nodes(GetParam());
  run_ranks(nodes.count, [&](int node) {
    const auto wire = nodes.join(node);
    for (int root = 0; root < nodes.count; ++root) {
      for (const auto type : {torch::kFloat, torch::kBool}) {
        for (const int64_t count : {0, 1, 1000, 140'001}) {
          const torch::Tensor tensor = numbers(node, count, type);
          Running(*wire, tensor, root).wait();
          EXPECT_TRUE(torch::equal(tensor, numbers(root, count, type))) << count << " of " << type;
        }
      }
    }
  });
}

TEST_P(NodeWireOperations, RunInTheOrderOfTheirStarts) {
  const WiredNodes nodes(GetParam());
  run_ranks(nodes.count, [&](int node) {
    const auto wire = nodes.join(node);
    constexpr int kOperations = 60;
    const torch::Tensor shared = torch::ones({50'000}, torch::kDouble);  // That of every third operation.
    std::vector<torch::Tensor> tensors;
    std::vector<std::unique_ptr<WireWork>> works;
    std::vector<int> order, expected;
    std::binary_semaphore is_over(0);
    for (int i = 0; i < kOperations; ++i) {
      expected.push_back(i);
      tensors.push_back(i % 3 == 0 ? shared : torch::full({i % 2 == 0 ? 100 : 70'000}, node + i));
      const auto ended = [&, i] {
        order.push_back(i);
        if (i + 1 == kOperations) is_over.release();
      };
      works.push_back(i % 5 == 4 ? wire->broadcast(tensors.back(), i % nodes.count, ended)
                                 : wire->all_reduce(tensors.back(), ended));
    }
    is_over.acquire();
    EXPECT_THAT(order, ElementsAreArray(expected));
    double product = 1;
    for (int i = 0; i < kOperations; ++i) {
      EXPECT_TRUE(works[static_cast<size_t>(i)]->is_done());
      if (i % 3 == 0) {
        if (i % 5 != 4) product *= nodes.count;
        continue;
      }
      const int64_t value = i % 5 == 4 ? i % nodes.count + i : nodes.count * i + nodes.count * (nodes.count - 1) / 2;
      EXPECT_TRUE((tensors[static_cast<size_t>(i)] == value).all().item<bool>()) << "operation " << i;
    }
    EXPECT_TRUE((shared == product).all().item<bool>()) << shared[0] << " instead of " << product;
  });
}

TEST(NodeWire, LinksChangeTheirKeysTogether) {
  const WiredNodes nodes(2);
  run_ranks(2, [&](int node) {
    NodeWireOptions options = nodes.options(node);
    options.pieces_per_key = 3;
    const auto wire = join_node_wire(options);
    for (int i = 0; i < 10; ++i) {
      const torch::Tensor tensor = torch::full({200'000}, node + i, torch::kInt);
      sum(*wire, tensor);
      EXPECT_TRUE((tensor == 2 * i + 1).all().item<bool>());
    }
  });
  // It is really another key.
  run_ranks(2, [&](int node) {
    NodeWireOptions options = nodes.options(node);
    options.pieces_per_key = node == 0 ? 3 : 4;
    const auto wire = join_node_wire(options);
    std::string error;
    for (int i = 0; i < 4 && error.empty(); ++i) {
      Running running(*wire, torch::ones({10}));
      error = running.error();
      if (error == "it is done") error.clear();
    }
    EXPECT_NE(error, "");
  });
}

TEST(NodeWire, ConnectsTheLeadersOfASharedGroup) {
  const std::vector<int> node_of_rank{0, 0, 1, 1};
  const WiredNodes nodes(2);
  const SegmentFile files[] = {SegmentFile::create().value(), SegmentFile::create().value()};
  run_ranks(4, [&](int rank) {
    const int node = node_of_rank[static_cast<size_t>(rank)];
    const auto group = join_shared_group({.segment = files[node].offer(),
                                          .rank = rank,
                                          .node_of_rank = node_of_rank,
                                          .wire = rank % 2 == 0 ? nodes.join(node) : nullptr});
    for (int root = 0; root < 4; ++root) {
      torch::Tensor tensor = torch::full({300'000}, rank + 1.0);
      group->all_reduce(tensor);
      EXPECT_TRUE(torch::equal(tensor, torch::full({300'000}, 10.0)));
      tensor.fill_(rank);
      group->broadcast(tensor, root);
      EXPECT_TRUE(torch::equal(tensor, torch::full({300'000}, static_cast<double>(root))));
    }
    group->barrier();
  });
}

TEST(NodeWire, TheTableIsEmptyAfterJoiningAndGenerationsFollowOneAnother) {
  const WiredNodes nodes(3);
  for (int generation = 0; generation < 10; ++generation) {
    run_ranks(3, [&](int node) {
      const auto wire = nodes.join(node);
      const torch::Tensor tensor = torch::full({generation % 2 == 0 ? 10 : 100'000}, node + 1.0);
      sum(*wire, tensor);
      EXPECT_EQ(tensor[-1].item<double>(), 6);
      // Each node leaves without a barrier: the last operation must be complete on the others nevertheless.
    });
    EXPECT_EQ(static_cast<LocalRendezvous&>(*nodes.table).size(), 0u);
  }
}

size_t open_descriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

size_t threads_of_wires() {
  size_t count = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "comm");
    std::string name;
    if (std::getline(file, name) && (name == "volador-send" || name == "volador-receive")) ++count;
  }
  return count;
}

TEST(NodeWire, LeavesNoThreadAndNoDescriptor) {
  const WiredNodes nodes(3);
  std::barrier<> all(3);
  const auto use = [&](bool in_flight) {
    run_ranks(3, [&](int node) {
      const auto wire = nodes.join(node);
      std::vector<std::unique_ptr<Running>> running;
      for (int i = 0; i < 20; ++i) running.push_back(std::make_unique<Running>(*wire, torch::ones({60'000})));
      if (in_flight) {
        EXPECT_GE(threads_of_wires(), 2u);
        all.arrive_and_wait();
        wire->abandon();
        for (const auto& one : running) one->error();
      } else {
        for (const auto& one : running) one->wait();
      }
    });
  };
  use(false);  // Makes what the process keeps.
  const size_t descriptors = open_descriptors();
  use(false);
  use(true);
  EXPECT_EQ(open_descriptors(), descriptors);
  while (threads_of_wires() > 0) std::this_thread::yield();  // The kernel may list a thread that was joined.
}

TEST(NodeWire, MayBeDestroyedByTheEndOfAnOperation) {
  const WiredNodes nodes(2);
  std::promise<void> destroyed;
  run_ranks(2, [&](int node) {
    std::shared_ptr<Wire> wire = nodes.join(node);
    if (node == 1) {
      sum(*wire, torch::ones({100'000}));
      return;
    }
    // The last reference, as that of a group which was given up.
    Wire* const only = wire.get();
    const auto work = only->all_reduce(torch::ones({100'000}), [holder = std::move(wire), &destroyed]() mutable {
      holder.reset();
      destroyed.set_value();
    });
    destroyed.get_future().wait();
    EXPECT_TRUE(work->is_done());
  });
}

TEST(NodeWireErrors, AbandonEndsAllOperationsAtOnce) {
  const WiredNodes nodes(2);
  std::barrier<> both(2);
  run_ranks(2, [&](int node) {
    const auto wire = nodes.join(node);
    if (node == 1) {
      both.arrive_and_wait();
      Running late(*wire, torch::ones({2'000'000}));
      EXPECT_THAT(late.error(), HasSubstr("all_reduce of 2000000 elements of Float: node 0 at 127.0.0.1:"));
      return;
    }
    Running large(*wire, torch::ones({2'000'000})), small(*wire, torch::ones({2})), sent(*wire, torch::ones({9}), 1);
    EXPECT_EQ(large.error_now(), "it runs");
    wire->abandon();
    for (Running* running : {&large, &small, &sent}) {
      EXPECT_EQ(running->error_now(), "the leader of this node has left the group");
      running->error();  // Its end is announced.
    }
    Running later(*wire, torch::ones({2}));
    EXPECT_EQ(later.error(), "the leader of this node has left the group");
    both.arrive_and_wait();
  });
}

TEST(NodeWireErrors, AnOperationThatWasGivenUpKeepsItsMemory) {
  const WiredNodes nodes(2);
  std::atomic<bool> is_freed{false};
  std::barrier<> both(2);
  run_ranks(2, [&](int node) {
    const auto wire = nodes.join(node);
    if (node == 1) return both.arrive_and_wait(), void();
    std::vector<float> memory(100'000, 1);
    std::binary_semaphore ended(0);
    torch::Tensor tensor = torch::from_blob(memory.data(), {100'000}, [&](void*) { is_freed = true; });
    const auto work = wire->all_reduce(std::move(tensor), [&] {
      EXPECT_FALSE(is_freed);
      ended.release();
    });
    EXPECT_FALSE(is_freed);
    wire->abandon();
    ended.acquire();
    both.arrive_and_wait();
  });
  EXPECT_TRUE(is_freed);
}

TEST(NodeWireErrors, ANodeThatLeavesIsNamed) {
  const WiredNodes nodes(3);
  run_ranks(3, [&](int node) {
    auto wire = nodes.join(node);
    sum(*wire, torch::ones({4}));
    if (node == 2) return wire.reset();
    Running running(*wire, torch::ones({4}));
    EXPECT_THAT(running.error(), HasSubstr("all_reduce of 4 elements of Float: node "));
    Running next(*wire, torch::ones({4}), 0);
    EXPECT_THAT(next.error(), HasSubstr("all_reduce of 4 elements of Float: node "));
  });
}

TEST(NodeWireErrors, ANodeThatIsLateIsNamedAfterTheLimit) {
  const WiredNodes nodes(2);
  std::barrier<> both(2);
  run_ranks(2, [&](int node) {
    NodeWireOptions options = nodes.options(node);
    options.timeout = 10ms;
    const auto wire = join_node_wire(options);
    if (node == 0) {
      Running running(*wire, torch::ones({4}));
      EXPECT_THAT(running.error(), AllOf(HasSubstr("all_reduce of 4 elements of Float: node 1 at 127.0.0.1:"),
                                         HasSubstr("has not sent its part within 10 ms")));
    }
    both.arrive_and_wait();
  });
}

TEST(NodeWireErrors, DifferentOperationsAreNoticed) {
  const WiredNodes nodes(2);
  run_ranks(2, [&](int node) {
    const auto wire = nodes.join(node);
    Running running(*wire, torch::ones({node == 0 ? 100 : 101}));
    const std::string error = running.error();
    if (node == 0) {
      EXPECT_THAT(error, HasSubstr("the nodes have started different operations"));
    }
    EXPECT_NE(error, "it is done");
  });
}

TEST(NodeWireErrors, DifferentLayoutsAreRefusedOnAllNodes) {
  const WiredNodes nodes(3);
  run_ranks(3, [&](int node) {
    NodeWireOptions options = nodes.options(node);
    options.layout = node == 2 ? 7 : 8;
    expect_refused(
        [&] { join_node_wire(options); },
        "the parameters of node 2 differ from those of node 0 in number, shape, type or compression: setup() "
        "must register equal models and call compress_gradients() alike on all ranks");
  });
}

TEST(NodeWireErrors, AMissingNodeEndsTheJoiningAfterItsLimit) {
  NodeWireOptions options = WiredNodes(2).options(1);
  options.join_timeout = 20ms;
  const Error error = error_of([&] { join_node_wire(options); });
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(error.message, AllOf(HasSubstr("the wire of node 1 of 2 at 127.0.0.1 was not formed within 20 ms"),
                                   HasSubstr("no rank has set \"test/1/wire/")));
}

TEST(NodeWireErrors, JoiningEndsWhenItIsCancelled) {
  const WiredNodes nodes(2);
  std::atomic<bool> cancelled{false};
  NodeWireOptions options = nodes.options(0);
  options.cancelled = &cancelled;
  nodes.table->set("test/1/wire/address/1", "127.0.0.1:1");  // A port without a listener.
  std::thread joins([&] { EXPECT_THROW(join_node_wire(options), GroupAborted); });
  nodes.table->wait("test/1/wire/address/0", 60s);
  cancelled = true;
  joins.join();
}

TEST(NodeWireErrors, WhatTheRendezvousThrowsReachesTheCaller) {
  class Closed final : public Rendezvous {
    [[noreturn]] static void end() { throw Exception(Error{ErrorCode::kCancelled, "generation 2 has begun"}); }
    void set(const std::string&, const std::string&) override { end(); }
    std::optional<std::string> get(const std::string&) override { end(); }
    std::string wait(const std::string&, std::chrono::milliseconds) override { end(); }
    int64_t add(const std::string&, int64_t) override { end(); }
    void append(const std::string&, const std::string&) override { end(); }
    bool remove(const std::string&) override { end(); }
  };
  NodeWireOptions options = WiredNodes(2).options(0);
  options.rendezvous = std::make_shared<Closed>();
  EXPECT_EQ(error_of([&] { join_node_wire(options); }).code, ErrorCode::kCancelled);
}

TEST(NodeWireErrors, WrongArgumentsAreNamed) {
  NodeWireOptions options = WiredNodes(1).options(0);
  const auto wire = join_node_wire(options);
  expect_refused([&] { wire->broadcast(torch::ones({2}), 1, nullptr); }, "broadcast from node 1: expected 0 to 0");
  expect_refused([&] { wire->all_reduce(torch::ones({2}).to_sparse(), nullptr); },
                 "all_reduce of a tensor on cpu: the wire between the nodes carries dense memory of the CPU");
  options.node = 1;
  expect_refused([&] { join_node_wire(options); }, "node 1 of 1: expected a node from 0 to nodes - 1");
  options.node = 0;
  options.rendezvous = nullptr;
  expect_refused([&] { join_node_wire(options); }, "rendezvous: expected a table that all nodes see, got null");
  options = WiredNodes(2).options(0);
  options.pieces_per_key = 0;
  expect_refused([&] { join_node_wire(options); }, "pieces_per_key: expected a positive number, got 0");
  options.pieces_per_key = 1;
  for (const std::string address : {"0.0.0.0", "::"}) {
    options.address = address;
    expect_refused(
        [&] { join_node_wire(options); },
        "address \"" + address + "\": expected the IP address of one interface, which the other nodes reach");
  }
  options.address = "203.0.113.1";  // That of no interface.
  const Error error = error_of([&] { join_node_wire(options); });
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("address \"203.0.113.1\": bind: "));
}

net::UniqueFd connected_to(const std::string& address) {
  const auto where = security::parse_host_port(address).value();
  const auto found = net::resolve(where.host, static_cast<uint16_t>(std::stoi(where.port))).value();
  net::Connecting connecting = net::start_connect(found.front()).value();
  pollfd polled{.fd = connecting.socket.get(), .events = POLLOUT, .revents = 0};
  EXPECT_EQ(::poll(&polled, 1, 60'000), 1);
  EXPECT_EQ(net::take_socket_error(connecting.socket.get()), 0);
  return std::move(connecting.socket);
}

// Whether the other side closes the connection, within a minute; what it says before is read.
bool is_closed_by_peer(const net::UniqueFd& socket) {
  char bytes[256];
  pollfd polled{.fd = socket.get(), .events = POLLIN, .revents = 0};
  while (::poll(&polled, 1, 60'000) == 1) {
    if (::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT) <= 0) return true;
  }
  return false;
}

// A table that changes the address of a node before the others see it, and remembers the key.
class ChangedAddresses final : public Rendezvous {
 public:
  explicit ChangedAddresses(std::function<std::string(const std::string& address)> change)
      : change_(std::move(change)) {}
  void set(const std::string& key, const std::string& value) override {
    if (key.ends_with("/key")) secret = value;
    table_.set(key, key.find("/address/") == std::string::npos ? value : change_(value));
  }
  std::optional<std::string> get(const std::string& key) override { return table_.get(key); }
  std::string wait(const std::string& key, std::chrono::milliseconds timeout) override {
    return table_.wait(key, timeout);
  }
  int64_t add(const std::string& key, int64_t amount) override { return table_.add(key, amount); }
  void append(const std::string& key, const std::string& bytes) override { table_.append(key, bytes); }
  bool remove(const std::string& key) override { return table_.remove(key); }

  std::string secret;  // Written by node 0.

 private:
  const std::function<std::string(const std::string&)> change_;
  LocalRendezvous table_;
};

std::unique_ptr<LinkKey> random_key() { return LinkKey::create(security::Secret::random(kLinkKeyBytes), 1000).value(); }

// The error of a handshake with another key; empty: it succeeded.
Error stranger_handshake(NodeLink& link) {
  while (true) {
    const auto result = link.handshake();
    if (!result) return result.error();
    if (*result) return {};
    pollfd polled{.fd = link.fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&polled, 1, 60'000), 1);
  }
}

TEST(NodeWireStrangers, HoldUpNothingAndAreRefused) {
  WiredNodes nodes(2);
  std::vector<net::UniqueFd> silent, noisy;
  std::vector<std::thread> with_keys;
  const auto key = random_key();
  nodes.table = std::make_shared<ChangedAddresses>([&](const std::string& address) {
    static std::mutex mutex;
    const std::lock_guard<std::mutex> hold(mutex);
    // They are connected before the nodes are.
    for (int i = 0; i < 5; ++i) silent.push_back(connected_to(address));
    for (const std::string& text : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100'000, '\x16'),
                                    std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)}) {
      noisy.push_back(connected_to(address));
      ::send(noisy.back().get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    with_keys.emplace_back([&key, socket = std::make_shared<net::UniqueFd>(connected_to(address))] {
      const auto link = NodeLink::create(*key, NodeLink::End::kClient, std::move(*socket), "the node").value();
      const Error error = stranger_handshake(*link);
      EXPECT_FALSE(error.message.empty()) << "the handshake with another key succeeded";
    });
    return address;
  });
  run_ranks(2, [&](int node) {
    const auto wire = nodes.join(node);
    const torch::Tensor tensor = torch::ones({100'000});
    sum(*wire, tensor);
    EXPECT_TRUE((tensor == 2).all().item<bool>());
  });
  for (std::thread& thread : with_keys) thread.join();
  for (const net::UniqueFd& socket : silent) EXPECT_TRUE(is_closed_by_peer(socket));
  for (const net::UniqueFd& socket : noisy) EXPECT_TRUE(is_closed_by_peer(socket));
}

TEST(NodeWireStrangers, CannotConnectAfterTheJoining) {
  WiredNodes nodes(2);
  std::mutex mutex;
  std::vector<std::string> addresses;
  nodes.table = std::make_shared<ChangedAddresses>([&](const std::string& address) {
    const std::lock_guard<std::mutex> hold(mutex);
    addresses.push_back(address);
    return address;
  });
  run_ranks(2, [&](int node) {
    const auto wire = nodes.join(node);
    sum(*wire, torch::ones({3}));
    for (const std::string& address : addresses) {
      const auto where = security::parse_host_port(address).value();
      const auto found = net::resolve(where.host, static_cast<uint16_t>(std::stoi(where.port))).value();
      auto connecting = net::start_connect(found.front());
      if (!connecting) continue;
      pollfd polled{.fd = connecting->socket.get(), .events = POLLOUT, .revents = 0};
      EXPECT_EQ(::poll(&polled, 1, 60'000), 1);
      EXPECT_EQ(net::take_socket_error(connecting->socket.get()), ECONNREFUSED);
    }
    sum(*wire, torch::ones({3}));
  });
}

TEST(NodeWireStrangers, OneThatListensInPlaceOfANodeGetsNothing) {
  WiredNodes nodes(2);
  const auto key = random_key();
  net::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  net::SocketAddress at = net::resolve("127.0.0.1", 0).value().front();
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&at.storage), at.length), 0);
  ASSERT_EQ(::listen(listener.get(), 16), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at.storage), &at.length), 0);
  const int port = ntohs(reinterpret_cast<sockaddr_in*>(&at.storage)->sin_port);
  std::thread serves([&] {
    net::UniqueFd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const auto link = NodeLink::create(*key, NodeLink::End::kServer, std::move(socket), "the node").value();
    EXPECT_NE(stranger_handshake(*link).message, "");
  });
  nodes.table->set("test/1/wire/address/1", "127.0.0.1:" + std::to_string(port));
  NodeWireOptions options = nodes.options(0);
  options.join_timeout = 200ms;
  const Error error = error_of([&] { join_node_wire(options); });
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("node 1 at 127.0.0.1:" + std::to_string(port) + " could not be reached"));
  serves.join();
}

// Passes on the bytes of the connections to an address.
class Relay {
 public:
  // Called with all bytes that the client of a connection has sent so far, and the number of the last ones, which it
  // may change. False: the connection is cut.
  using Edit = std::function<bool(std::string& bytes, size_t last)>;

  Relay(std::string target, Edit edit) : target_(std::move(target)), edit_(std::move(edit)) {
    net::SocketAddress at = net::resolve("127.0.0.1", 0).value().front();
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&at.storage), at.length), 0);
    EXPECT_EQ(::listen(listener_.get(), 16), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at.storage), &at.length), 0);
    port_ = ntohs(reinterpret_cast<sockaddr_in*>(&at.storage)->sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() { stop(); }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  void stop() {
    const uint64_t one = 1;
    EXPECT_EQ(::write(stop_.get(), &one, sizeof one), 8);
    if (thread_.joinable()) thread_.join();
  }
  // What clients have sent; after stop().
  std::string recorded() const {
    std::string all;
    for (const Pair& pair : pairs_) all += pair.bytes;
    return all;
  }

 private:
  struct Pair {
    net::UniqueFd client, server;
    std::string bytes;
  };

  void run() {
    std::vector<char> buffer(1 << 16);
    while (true) {
      std::vector<pollfd> polled{{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const Pair& pair : pairs_) {
        polled.push_back({pair.client.get(), POLLIN, 0});
        polled.push_back({pair.server.get(), POLLIN, 0});
      }
      ::poll(polled.data(), polled.size(), -1);
      if (polled[0].revents != 0) return;
      size_t at = 2;
      for (Pair& pair : pairs_) {
        const bool from_client = polled[at++].revents != 0, from_server = polled[at++].revents != 0;
        if (from_client && !pass(pair, buffer)) close(pair);
        if (from_server && pair.server && !copy(pair.server, pair.client, buffer)) close(pair);
      }
      if (polled[1].revents != 0) {
        net::UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        net::tune_socket(client.get(), true);
        net::UniqueFd server = connected_to(target_);
        ::fcntl(server.get(), F_SETFL, 0);
        pairs_.push_back({std::move(client), std::move(server), {}});
      }
    }
  }
  bool pass(Pair& pair, std::vector<char>& buffer) {
    const ssize_t n = ::recv(pair.client.get(), buffer.data(), buffer.size(), 0);
    if (n <= 0) return false;
    const auto size = static_cast<size_t>(n);
    pair.bytes.append(buffer.data(), size);
    if (edit_ && !edit_(pair.bytes, size)) return false;
    return send_all(pair.server, pair.bytes.data() + pair.bytes.size() - size, size);
  }
  static bool copy(const net::UniqueFd& from, const net::UniqueFd& to, std::vector<char>& buffer) {
    const ssize_t n = ::recv(from.get(), buffer.data(), buffer.size(), 0);
    return n > 0 && send_all(to, buffer.data(), static_cast<size_t>(n));
  }
  static bool send_all(const net::UniqueFd& to, const char* bytes, size_t size) {
    while (size > 0) {
      const ssize_t n = ::send(to.get(), bytes, size, MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes += n;
      size -= static_cast<size_t>(n);
    }
    return true;
  }
  static void close(Pair& pair) {
    pair.client.reset();
    pair.server.reset();
  }

  const std::string target_;
  const Edit edit_;
  const net::UniqueFd stop_{::eventfd(0, EFD_CLOEXEC)};
  net::UniqueFd listener_;
  int port_ = 0;
  std::list<Pair> pairs_;
  std::thread thread_;
};

// Nodes whose links all go through relays.
struct RelayedNodes : WiredNodes {
  explicit RelayedNodes(int count, Relay::Edit edit = nullptr) : WiredNodes(count) {
    table = std::make_shared<ChangedAddresses>([this, edit](const std::string& address) {
      const std::lock_guard<std::mutex> hold(mutex);
      relays.push_back(std::make_unique<Relay>(address, edit));
      return relays.back()->address();
    });
  }
  std::mutex mutex;
  std::vector<std::unique_ptr<Relay>> relays;
};

TEST(NodeWireSecrecy, NothingReadableIsOnTheWire) {
  RelayedNodes nodes(2);
  const std::string pattern = "these are secret gradients 012345";
  run_ranks(2, [&](int node) {
    const auto wire = nodes.join(node);
    torch::Tensor tensor = torch::zeros({33 * 8000}, torch::kByte);
    for (int repeat = 0; repeat < 2; ++repeat) {
      for (int64_t i = 0; i < tensor.numel() && node == 0; ++i) {
        tensor.data_ptr<uint8_t>()[i] = static_cast<uint8_t>(pattern[static_cast<size_t>(i) % pattern.size()]);
      }
      sum(*wire, tensor);
      Running(*wire, tensor, 0).wait();
      sum(*wire, tensor.narrow(0, 0, 330));
      tensor.zero_();
    }
  });
  const std::string key = static_cast<ChangedAddresses&>(*nodes.table).secret;
  ASSERT_EQ(key.size(), kLinkKeyBytes);
  ASSERT_EQ(nodes.relays.size(), 2u);
  for (const auto& relay : nodes.relays) {
    relay->stop();
    const std::string bytes = relay->recorded();
    EXPECT_GT(bytes.size(), 2u * 33 * 8000);
    EXPECT_EQ(bytes.find(pattern.substr(0, 6)), std::string::npos);
    EXPECT_EQ(bytes.find("test/1"), std::string::npos);
    EXPECT_EQ(bytes.find(key.substr(0, 8)), std::string::npos);
    // The same values twice look different: 16 bytes of the data that occur again.
    const size_t half = bytes.size() / 2;
    EXPECT_EQ(bytes.find(bytes.substr(half, 16), half + 1), std::string::npos);
  }
}

// The errors of two nodes whose connections are edited once they have carried so many bytes.
std::vector<std::string> errors_of_edited(size_t after, const std::function<bool(std::string&)>& edit) {
  std::vector<std::string> errors(2);
  RelayedNodes nodes(2, [&](std::string& bytes, size_t) { return bytes.size() < after || edit(bytes); });
  run_ranks(2, [&](int node) {
    const auto wire = nodes.join(node);
    const torch::Tensor tensor = torch::ones({50'000});
    sum(*wire, tensor);
    EXPECT_TRUE((tensor == 2).all().item<bool>());
    errors[static_cast<size_t>(node)] = Running(*wire, torch::ones({1'000'000})).error();
  });
  return errors;
}

TEST(NodeWireSecrecy, ChangedBytesEndTheWire) {
  const auto errors = errors_of_edited(1'000'000, [](std::string& bytes) {
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    return true;
  });
  int noticed = 0;
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("all_reduce of 1000000 elements of Float: "));
    if (error.find("the bytes were changed on their way") != std::string::npos) ++noticed;
  }
  EXPECT_GE(noticed, 1) << errors[0] << "\n" << errors[1];
}

TEST(NodeWireErrors, ANodeThatDiesInTheMiddleIsNamed) {
  const auto errors = errors_of_edited(1'000'000, [](std::string&) { return false; });
  EXPECT_THAT(errors[0], HasSubstr("all_reduce of 1000000 elements of Float: node 1 at 127.0.0.1:"));
  EXPECT_THAT(errors[1], HasSubstr("all_reduce of 1000000 elements of Float: node 0 at 127.0.0.1:"));
}

}  // namespace
}  // namespace volador::train
