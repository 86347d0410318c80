#include "runtime/control/client_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "runtime/control/worker_link.h"
#include "tests/runtime/control/frozen_proxy.h"
#include "tests/runtime/control/test_credentials.h"
#include "tests/runtime/control/test_head.h"

namespace volador::control {
namespace {

using namespace std::chrono_literals;
using security::Role;
using testing::HasSubstr;

protocol::ClientMessage hello() {
  protocol::ClientMessage message;
  message.mutable_hello()->set_name("test");
  return message;
}
protocol::ClientMessage ping(uint64_t sequence) {
  protocol::ClientMessage message;
  message.mutable_ping()->set_sequence(sequence);
  return message;
}

// Records a link's callbacks.
class Recorder {
 public:
  struct Change {
    LinkState state;
    Error error;
  };

  ClientLinkCallbacks callbacks() {
    return {.on_message =
                [this](const protocol::HeadMessage& message) {
                  const std::scoped_lock lock(mutex_);
                  messages_.push_back(message);
                  changed_.notify_all();
                },
            .on_state =
                [this](LinkState state, const Error& error) {
                  const std::scoped_lock lock(mutex_);
                  changes_.push_back({state, error});
                  changed_.notify_all();
                }};
  }

  // Returns the next change to that state within 10 s.
  std::optional<Change> wait_state(LinkState state) {
    std::unique_lock lock(mutex_);
    std::optional<Change> found;
    changed_.wait_for(lock, 10s, [&] {
      while (!changes_.empty() && !found) {
        if (changes_.front().state == state) found = changes_.front();
        changes_.pop_front();
      }
      return found.has_value();
    });
    return found;
  }
  bool wait_welcome() {
    return wait_message([](const protocol::HeadMessage& message) { return message.has_welcome(); });
  }
  bool wait_pong(uint64_t sequence) {
    return wait_message([&](const protocol::HeadMessage& message) { return message.pong().sequence() == sequence; });
  }

 private:
  template <class Match>
  bool wait_message(Match match) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 10s, [&] {
      while (!messages_.empty()) {
        const bool found = match(messages_.front());
        messages_.pop_front();
        if (found) return true;
      }
      return false;
    });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Change> changes_;
  std::deque<protocol::HeadMessage> messages_;
};

class ClientLinkTest : public testing::Test {
 protected:
  LinkOptions options() {
    return {.address = head_.address(), .credentials = credentials_for(head_.authority(), Role::kDriver, "ada")};
  }

  TestHead head_;
  Recorder recorder_;
};

TEST_F(ClientLinkTest, CarriesMessagesBothWays) {
  const auto link = connect_client_link(options(), recorder_.callbacks());
  ASSERT_TRUE(recorder_.wait_state(LinkState::kConnected));
  link->send(hello());
  EXPECT_TRUE(recorder_.wait_welcome());
  for (uint64_t i = 1; i <= 1000; ++i) link->send(ping(i));
  EXPECT_TRUE(recorder_.wait_pong(1000));
}

TEST_F(ClientLinkTest, ComesBackAfterTheHeadRestarted) {
  const auto link = connect_client_link(options(), recorder_.callbacks());
  ASSERT_TRUE(recorder_.wait_state(LinkState::kConnected));
  head_.stop();
  ASSERT_TRUE(recorder_.wait_state(LinkState::kLost));
  const auto refused = recorder_.wait_state(LinkState::kLost);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused->error.message, HasSubstr("nothing listens at " + head_.address()));
  link->send(ping(1));  // Discarded.
  head_.start();
  ASSERT_TRUE(recorder_.wait_state(LinkState::kConnected));
  link->send(ping(2));
  EXPECT_TRUE(recorder_.wait_pong(2));
}

TEST_F(ClientLinkTest, WithoutACertificateTheHeadRefuses) {
  auto without = options();
  without.credentials.certificate_pem.clear();
  without.credentials.key_pem.clear();
  const auto link = connect_client_link(without, recorder_.callbacks());
  const auto lost = recorder_.wait_state(LinkState::kLost);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->error, (Error{ErrorCode::kUnauthenticated, "show a certificate: join first"}));
}

TEST_F(ClientLinkTest, AnotherClustersCertificateIsExplained) {
  const TestHead other(9);
  auto foreign = options();
  foreign.credentials = credentials_for(other.authority(), Role::kDriver, "ada");
  const auto link = connect_client_link(foreign, recorder_.callbacks());
  const auto lost = recorder_.wait_state(LinkState::kLost);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->error.code, ErrorCode::kUnauthenticated);
  EXPECT_THAT(lost->error.message, HasSubstr("belongs to another cluster"));
}

TEST_F(ClientLinkTest, AnExpiredCertificateIsExplainedAndARenewedOneIsTaken) {
  auto expired = options();
  expired.credentials = credentials_for(head_.authority(), Role::kDriver, "ada", SystemClock().wall() - 48h, 3600s);
  const auto link = connect_client_link(expired, recorder_.callbacks());
  const auto lost = recorder_.wait_state(LinkState::kLost);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->error.code, ErrorCode::kUnauthenticated);
  EXPECT_THAT(lost->error.message, HasSubstr("our own certificate is valid from"));
  link->set_credentials(credentials_for(head_.authority(), Role::kDriver, "ada"));
  EXPECT_TRUE(recorder_.wait_state(LinkState::kConnected));
}

TEST_F(ClientLinkTest, AHeadThatStopsReadingCostsTheConnectionNotTheMemory) {
  auto small = options();
  small.queue_bytes_max = 1 << 20;
  const auto link = connect_client_link(small, recorder_.callbacks());
  ASSERT_TRUE(recorder_.wait_state(LinkState::kConnected));
  head_.service().set_reading(false);
  link->send(hello());
  protocol::ClientMessage large;
  large.mutable_hello()->set_name(std::string(100'000, 'x'));
  for (int i = 0; i < 500; ++i) link->send(large);  // 50 MB: more than the flow-control window and the queue.
  const auto lost = recorder_.wait_state(LinkState::kLost);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(lost->error.message, HasSubstr("takes messages too slowly"));
  head_.service().set_reading(true);
  EXPECT_TRUE(recorder_.wait_state(LinkState::kConnected));
}

TEST_F(ClientLinkTest, CloseWritesWhatIsQueued) {
  const auto link = connect_client_link(options(), recorder_.callbacks());
  ASSERT_TRUE(recorder_.wait_state(LinkState::kConnected));
  for (uint64_t i = 1; i <= 500; ++i) link->send(ping(i));
  protocol::ClientMessage goodbye;
  goodbye.mutable_goodbye();
  link->send(goodbye);
  link->close(5s);
  EXPECT_TRUE(head_.service().wait_received(
      [](const auto& received) { return !received.empty() && received.back().has_goodbye(); }));
}

TEST_F(ClientLinkTest, CloseDuringTheConnectedCallbackStillWritesWhatOthersSent) {
  std::mutex mutex;
  std::condition_variable changed;
  bool inside = false;
  bool sent = false;
  std::unique_lock lock(mutex);
  const auto link = connect_client_link(options(), {.on_message = [](const protocol::HeadMessage&) {},
                                                    .on_state =
                                                        [&](LinkState, const Error&) {
                                                          std::unique_lock inner(mutex);
                                                          inside = true;
                                                          changed.notify_all();
                                                          changed.wait(inner, [&] { return sent; });
                                                          // Lets close() begin; if it does not, nothing is tested.
                                                          std::this_thread::sleep_for(50ms);
                                                        }});
  ASSERT_TRUE(changed.wait_for(lock, 10s, [&] { return inside; }));
  link->send(ping(1));
  sent = true;
  changed.notify_all();
  lock.unlock();
  link->close(5s);
  EXPECT_TRUE(head_.service().wait_received([](const auto& received) { return received.size() == 1; }));
}

TEST_F(ClientLinkTest, CloseIsPromptInEveryState) {
  const auto close = [](ClientLink& link, std::chrono::milliseconds flush) {
    const auto begin = std::chrono::steady_clock::now();
    link.close(flush);
    link.close();
    return std::chrono::steady_clock::now() - begin;
  };
  for (int i = 0; i < 20; ++i) {
    const auto link = connect_client_link(options(), recorder_.callbacks());
    if (i % 4 == 1) std::this_thread::yield();
    if (i % 4 == 2) {
      ASSERT_TRUE(recorder_.wait_state(LinkState::kConnected));
    }
    EXPECT_LT(close(*link, i % 2 == 0 ? 500ms : 0ms), 10s) << "link " << i;
  }
  head_.stop();
  const auto link = connect_client_link(options(), recorder_.callbacks());
  ASSERT_TRUE(recorder_.wait_state(LinkState::kLost));
  EXPECT_LT(close(*link, 500ms), 10s) << "the link without a head";
}

TEST_F(ClientLinkTest, WhatTheConnectedCallbackSendsGoesFirst) {
  std::mutex mutex;
  std::condition_variable changed;
  bool inside = false;
  bool sent_by_other = false;
  ClientLink* link_in_callback = nullptr;
  std::unique_lock lock(mutex);
  const auto link = connect_client_link(options(), {.on_message = [](const protocol::HeadMessage&) {},
                                                    .on_state =
                                                        [&](LinkState, const Error&) {
                                                          std::unique_lock inner(mutex);
                                                          inside = true;
                                                          changed.notify_all();
                                                          changed.wait(inner, [&] { return sent_by_other; });
                                                          link_in_callback->send(hello());
                                                        }});
  link_in_callback = link.get();
  ASSERT_TRUE(changed.wait_for(lock, 10s, [&] { return inside; }));
  link->send(ping(1));
  sent_by_other = true;
  changed.notify_all();
  lock.unlock();
  EXPECT_TRUE(head_.service().wait_received(
      [](const auto& received) { return received.size() == 2 && received[0].has_hello() && received[1].has_ping(); }));
  link->close();
}

TEST_F(ClientLinkTest, ASilentNetworkIsNoticedByKeepalive) {
  FrozenProxy proxy(head_.port());
  auto through = options();
  through.address = proxy.address();
  through.keepalive_time = 200ms;
  through.keepalive_timeout = 300ms;
  const auto link = connect_client_link(through, recorder_.callbacks());
  ASSERT_TRUE(recorder_.wait_state(LinkState::kConnected));
  link->send(ping(1));
  ASSERT_TRUE(recorder_.wait_pong(1));
  proxy.freeze();
  const auto begin = std::chrono::steady_clock::now();
  const auto lost = recorder_.wait_state(LinkState::kLost);
  ASSERT_TRUE(lost);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  EXPECT_EQ(lost->error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(lost->error.message, HasSubstr("fell silent"));
}

TEST(WorkerLinkTest, CarriesHeartbeats) {
  const TestHead head;
  std::mutex mutex;
  std::condition_variable changed;
  bool connected = false;
  uint64_t acknowledged = 0;
  const auto link = connect_worker_link(
      {.address = head.address(), .credentials = credentials_for(head.authority(), Role::kNode, "node-b")},
      {.on_message =
           [&](const protocol::HeadToWorker& message) {
             const std::scoped_lock lock(mutex);
             acknowledged = message.heartbeat_ack().sequence();
             changed.notify_all();
           },
       .on_state =
           [&](LinkState state, const Error&) {
             const std::scoped_lock lock(mutex);
             connected = state == LinkState::kConnected;
             changed.notify_all();
           }});
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, 10s, [&] { return connected; }));
  protocol::WorkerMessage message;
  message.mutable_heartbeat()->set_sequence(42);
  link->send(message);
  EXPECT_TRUE(changed.wait_for(lock, 10s, [&] { return acknowledged == 42; }));
  lock.unlock();
  link->close();
}

}  // namespace
}  // namespace volador::control
