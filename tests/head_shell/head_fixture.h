// A real head on loopback in this process, and the members that connect to it.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>

#include "head/shell/head_process.h"
#include "runtime/control/certify.h"
#include "runtime/control/channel.h"
#include "runtime/control/client_link.h"
#include "runtime/control/cluster_api.h"
#include "runtime/control/join.h"
#include "runtime/control/worker_link.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/random.h"
#include "runtime/version.h"
#include "tests/temporary_directory.h"

namespace volador::head {

// Passes messages from a link's thread to the test's.
template <class Message>
class Inbox {
 public:
  void add(const Message& message) {
    std::lock_guard lock(mutex_);
    messages_.push_back(message);
    changed_.notify_all();
  }
  // Returns the next message for which `wanted` holds; drops earlier ones.
  std::optional<Message> next(const std::function<bool(const Message&)>& wanted,
                              std::chrono::milliseconds limit = std::chrono::seconds(10)) {
    const auto until = std::chrono::steady_clock::now() + limit;
    std::unique_lock lock(mutex_);
    while (true) {
      while (!messages_.empty()) {
        Message message = std::move(messages_.front());
        messages_.pop_front();
        if (wanted(message)) return message;
      }
      if (changed_.wait_until(lock, until) == std::cv_status::timeout && messages_.empty()) return std::nullopt;
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> messages_;
};

class HeadFixture : public ::testing::Test {
 protected:
  Result<std::unique_ptr<HeadProcess>> try_start(HeadOptions options) {
    return HeadProcess::start(std::move(options), clock_, random_);
  }
  void start(HeadOptions options) {
    auto started = try_start(std::move(options));
    ASSERT_TRUE(started.has_value()) << started.error().message;
    head_ = std::move(*started);
  }
  void start() { start(options()); }
  HeadOptions options(std::string cluster = "heron") {
    return {.paths = *Paths::from({.volador_home = directory_.path(), .uid = getuid()}), .cluster = std::move(cluster)};
  }

  security::JoinToken token(const std::string& text) { return *security::parse_token(text); }
  Result<control::Joined> try_join(security::Role role, const security::JoinToken& with,
                                   const std::string& name = "someone") {
    return control::join({.address = head_->ready().address, .token = with, .role = role, .name = name}, clock_);
  }
  security::Credentials join(security::Role role, const std::string& name = "someone") {
    const HeadReady& ready = head_->ready();
    const auto& text = role == security::Role::kOperator ? ready.operator_token
                       : role == security::Role::kDriver ? ready.driver_token
                                                         : ready.join_token;
    auto joined = try_join(role, token(text), name);
    EXPECT_TRUE(joined.has_value()) << joined.error().message;
    return joined ? joined->credentials : security::Credentials{};
  }
  std::unique_ptr<control::ClusterApi> api(const std::string& text) {
    auto made = control::ClusterApi::connect(head_->ready().address, token(text), std::chrono::seconds(5), clock_);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return made ? std::move(*made) : nullptr;
  }

  struct Driver {
    DriverId id;
    Inbox<protocol::HeadMessage> inbox;
    std::unique_ptr<control::ClientLink> link;
    std::mutex mutex;
    std::condition_variable changed;
    int lost = 0;
  };
  std::unique_ptr<Driver> drive(const protocol::Program& program = {}) { return drive_on({}, program); }
  std::unique_ptr<Driver> drive_on(const std::string& machine, const protocol::Program& program = {}) {
    auto driver = std::make_unique<Driver>();
    driver->id = new_id<DriverId>(random_);
    auto hello = [raw_driver = driver.get(), program, machine] {
      protocol::ClientMessage message;
      auto& body = *message.mutable_hello();
      body.set_protocol_version(control::kProtocolVersion);
      body.set_version(std::string(kVersion));
      body.set_driver_id(raw(raw_driver->id));
      body.set_name("test");
      body.set_machine_id(machine);
      body.set_wants_logs(true);
      *body.mutable_program() = program;
      raw_driver->link->send(std::move(message));
    };
    // The link may connect before its pointer is stored: wait for it.
    auto kept = std::make_shared<std::promise<void>>();
    auto is_kept = kept->get_future().share();
    driver->link = control::connect_client_link(
        {.address = head_->ready().address, .credentials = join(security::Role::kDriver, "driver")},
        {.on_message = [raw_driver =
                            driver.get()](const protocol::HeadMessage& message) { raw_driver->inbox.add(message); },
         .on_state =
             [raw_driver = driver.get(), hello, is_kept](control::LinkState state, const Error&) {
               is_kept.wait();
               if (state == control::LinkState::kConnected) return hello();
               std::lock_guard lock(raw_driver->mutex);
               ++raw_driver->lost;
               raw_driver->changed.notify_all();
             }});
    kept->set_value();
    EXPECT_TRUE(driver->inbox.next([](const auto& message) { return message.has_welcome(); }).has_value());
    return driver;
  }

  // A worker as the head sees it: registered with two CPUs; messages of the head go to the inbox.
  struct Node {
    Inbox<protocol::HeadToWorker> inbox;
    std::unique_ptr<control::WorkerLink> link;
  };
  std::unique_ptr<Node> serve_as(const std::string& name, const security::Credentials& credentials) {
    return serve_on(name, {}, credentials);
  }
  std::unique_ptr<Node> serve_on(const std::string& name, const std::string& machine,
                                 const security::Credentials& credentials) {
    auto node = std::make_unique<Node>();
    auto connected = std::make_shared<std::promise<void>>();
    node->link = control::connect_worker_link(
        {.address = head_->ready().address, .credentials = credentials},
        {.on_message = [raw_node = node.get()](const protocol::HeadToWorker& message) { raw_node->inbox.add(message); },
         .on_state =
             [connected, told = false](control::LinkState, const Error&) mutable {
               if (!std::exchange(told, true)) connected->set_value();
             }});
    connected->get_future().wait();
    protocol::WorkerMessage message;
    auto& registration = *message.mutable_register_();
    registration.set_protocol_version(control::kProtocolVersion);
    registration.set_version(std::string(kVersion));
    registration.set_node_id(raw(new_id<NodeId>(random_)));
    registration.set_incarnation(raw(new_id<NodeId>(random_)));
    registration.set_name(name);
    registration.set_machine_id(machine);
    (*registration.mutable_total()->mutable_amounts())["cpus"] = 20'000;
    node->link->send(message);
    return node;
  }

  protocol::ClientMessage spawn_message(const Driver& driver, ActorId actor, const std::string& name = {}) {
    protocol::ClientMessage message;
    auto& spawn = *message.mutable_spawn();
    spawn.set_request_id(raw(actor));
    auto& spec = *spawn.mutable_spec();
    spec.set_actor_id(raw(actor));
    spec.set_class_name("Counter");
    spec.set_name(name);
    spec.set_detached(true);
    spec.set_wait_if_infeasible(true);
    (*spec.mutable_resources()->mutable_amounts())["cpus"] = 10'000;
    spec.set_driver_id(raw(driver.id));
    return message;
  }
  static std::function<bool(const protocol::HeadMessage&)> reply_to(ActorId actor) {
    return [actor](const protocol::HeadMessage& message) {
      return message.has_reply() && message.reply().request_id() == raw(actor);
    };
  }

  volador::TemporaryDirectory directory_;
  SystemClock clock_;
  SystemRandom random_;
  std::unique_ptr<HeadProcess> head_;
};

}  // namespace volador::head
