// A head core with the messages of simulated nodes and drivers, and its responses.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "head/kernel/core.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/random.h"
#include "runtime/resources.h"

namespace volador::head {

using namespace std::chrono_literals;

inline constexpr NodeSession kNode1{1};
inline constexpr NodeSession kNode2{2};
inline constexpr ClientSession kDriver1{1};

template <class T>
T test_id(uint8_t number) {
  std::array<uint8_t, 16> bytes{};
  bytes[0] = number;
  bytes[15] = 7;
  return T(bytes);
}

class CoreFixture : public testing::Test {
 protected:
  CoreFixture() { restart_head(); }

  // Only journaled state survives.
  void restart_head() {
    core = std::make_unique<HeadCore>(options, random);
    for (const auto& [row, value] : rows) core->load(row.first, row.second, value);
    take(core->start(now));
  }

  // API requests.
  Result<Actions> drain(std::string_view node, bool undo) {
    return core->act(now, [&] { return core->nodes().drain(node, undo, {}); });
  }
  Result<Actions> kill(std::string_view name, bool restart, ActorRequests::Killed& killed, std::string_view by = {}) {
    return core->act(now, [&]() -> Result<void> {
      auto done = core->actor_requests().kill(name, restart, by);
      if (!done) return make_error(done.error());
      killed = std::move(*done);
      return {};
    });
  }
  Result<Actions> control(const v1::ControlExperimentRequest& request, v1::ControlExperimentReply& reply,
                          std::string_view by = {}) {
    return core->act(now, [&] { return core->experiments().control(request, reply, by); });
  }
  Result<Actions> annotate(const v1::AnnotateExperimentRequest& request, v1::AnnotateExperimentReply& reply,
                           std::string_view by = {}) {
    return core->act(now, [&] { return core->experiments().annotate(request, reply, by); });
  }
  Result<Actions> need_program(const std::string& sha256) {
    return core->act(now, [&] { return core->clients().need_program(sha256); });
  }

  void take(Actions actions) {
    for (const Mutation& mutation : actions.journal) {
      if (mutation.value) {
        rows[{mutation.table, mutation.key}] = *mutation.value;
      } else {
        rows.erase({mutation.table, mutation.key});
      }
    }
    for (auto& out : actions.to_nodes) to_nodes.push_back(std::move(out));
    for (auto& out : actions.to_clients) {
      if (out.message.has_actor()) seen[out.message.actor().actor_id()] = out.message.actor();
      if (out.message.has_reply() && out.message.reply().has_actor())
        seen[out.message.reply().actor().actor_id()] = out.message.reply().actor();
      to_clients.push_back(std::move(out));
    }
    for (const auto session : actions.close_nodes) closed_nodes.push_back(session);
    for (const auto session : actions.close_clients) closed_clients.push_back(session);
    core->check_invariants();
  }

  protocol::WorkerMessage registration(uint8_t node, double cpus, int gpus = 0,
                                       const std::string& incarnation = "first") {
    protocol::WorkerMessage message;
    protocol::Register& reg = *message.mutable_register_();
    reg.set_protocol_version(1);
    reg.set_version("0.1.0");
    reg.set_node_id(raw(test_id<NodeId>(node)));
    reg.set_incarnation(incarnation);
    reg.set_name("n" + std::to_string(node));
    (*reg.mutable_total()->mutable_amounts())["cpus"] = static_cast<int64_t>(cpus * kUnit);
    for (int index = 0; index < gpus; ++index) reg.add_gpus()->set_index(index);
    reg.set_sent_boot_ns(now.time_since_epoch().count());
    return message;
  }
  void join(NodeSession session, uint8_t node, double cpus, int gpus = 0,
            const std::map<std::string, std::string>& labels = {}) {
    auto message = registration(node, cpus, gpus);
    for (const auto& [key, value] : labels) (*message.mutable_register_()->mutable_labels())[key] = value;
    take(core->on_node_message(now, session, message));
  }
  void heartbeat(NodeSession session) {
    protocol::WorkerMessage message;
    message.mutable_heartbeat()->set_sent_boot_ns(now.time_since_epoch().count());
    take(core->on_node_message(now, session, message));
  }
  void hello(ClientSession session = kDriver1, uint8_t driver = 1, const std::string& actor_namespace = {}) {
    protocol::ClientMessage message;
    protocol::Hello& body = *message.mutable_hello();
    body.set_protocol_version(1);
    body.set_driver_id(raw(test_id<DriverId>(driver)));
    body.set_name("program");
    body.mutable_program()->set_sha256(std::string(32, 'p'));
    body.set_wants_logs(true);
    body.set_namespace_(actor_namespace);
    take(core->on_client_message(now, session, message));
  }
  static protocol::ClientMessage spawn_message(uint8_t actor, double cpus = 1) {
    protocol::ClientMessage message;
    protocol::ActorSpec& spec = *message.mutable_spawn()->mutable_spec();
    spec.set_actor_id(raw(test_id<ActorId>(actor)));
    message.mutable_spawn()->set_request_id(spec.actor_id());
    spec.set_class_name("Counter");
    if (cpus > 0) (*spec.mutable_resources()->mutable_amounts())["cpus"] = static_cast<int64_t>(cpus * kUnit);
    return message;
  }
  void send(const protocol::ClientMessage& message, ClientSession session = kDriver1) {
    take(core->on_client_message(now, session, message));
  }
  void spawn(uint8_t actor, double cpus = 1, int max_restarts = 0, ClientSession session = kDriver1) {
    auto message = spawn_message(actor, cpus);
    message.mutable_spawn()->mutable_spec()->set_max_restarts(max_restarts);
    send(message, session);
  }
  protocol::ClientMessage kill_message(uint8_t actor, bool no_restart = true) {
    protocol::ClientMessage message;
    message.mutable_kill()->set_actor_id(raw(test_id<ActorId>(actor)));
    message.mutable_kill()->set_request_id(raw(test_id<RequestId>(++requests)));
    message.mutable_kill()->set_no_restart(no_restart);
    return message;
  }
  void ready(NodeSession session, const protocol::StartHost& start) {
    protocol::WorkerMessage message;
    fill_report(*message.mutable_host_ready(), start);
    take(core->on_node_message(now, session, message));
  }
  static void fill_report(protocol::HostReport& report, const protocol::StartHost& start, bool is_ready = true) {
    report.set_host_id(start.host_id());
    report.set_actor_id(start.spec().actor_id());
    report.set_epoch(start.epoch());
    report.set_ready(is_ready);
    report.mutable_address()->set_unix_path("/run/host.sock");
    report.set_pid(4711);
  }
  void ended(NodeSession session, const protocol::StartHost& start,
             protocol::DeathCause::Kind kind = protocol::DeathCause::SIGNALED) {
    protocol::WorkerMessage message;
    message.mutable_host_ended()->set_host_id(start.host_id());
    message.mutable_host_ended()->set_actor_id(start.spec().actor_id());
    message.mutable_host_ended()->set_epoch(start.epoch());
    message.mutable_host_ended()->mutable_cause()->set_kind(kind);
    take(core->on_node_message(now, session, message));
  }
  void tick() { take(core->on_tick(now)); }
  // Advances the time in steps of the head's ticks while these nodes send heartbeats.
  void pass(std::chrono::milliseconds span, const std::vector<NodeSession>& beating = {}) {
    for (const BootTime end = now + span; now < end;) {
      now += 100ms;
      for (const NodeSession session : beating) heartbeat(session);
      tick();
    }
  }

  std::vector<protocol::StartHost> starts() const {
    std::vector<protocol::StartHost> found;
    for (const auto& out : to_nodes) {
      if (out.message.has_start_host()) found.push_back(out.message.start_host());
    }
    return found;
  }
  std::vector<protocol::EndHost> ends() const {
    std::vector<protocol::EndHost> found;
    for (const auto& out : to_nodes) {
      if (out.message.has_end_host()) found.push_back(out.message.end_host());
    }
    return found;
  }
  protocol::StartHost last_start() const { return starts().empty() ? protocol::StartHost() : starts().back(); }
  protocol::Registered last_registered() const {
    protocol::Registered found;
    for (const auto& out : to_nodes) {
      if (out.message.has_registered()) found = out.message.registered();
    }
    return found;
  }
  std::string last_refusal() const {
    for (auto out = to_nodes.rbegin(); out != to_nodes.rend(); ++out) {
      if (out->message.has_refused()) return out->message.refused().message();
    }
    return "";
  }
  protocol::Reply last_reply() const {
    for (auto out = to_clients.rbegin(); out != to_clients.rend(); ++out) {
      if (out->message.has_reply()) return out->message.reply();
    }
    return {};
  }
  size_t acks() const {
    size_t count = 0;
    for (const auto& out : to_nodes) count += out.message.has_heartbeat_ack() ? 1 : 0;
    return count;
  }
  protocol::ActorInfo info(uint8_t actor) { return seen[raw(test_id<ActorId>(actor))]; }
  protocol::ActorState state(uint8_t actor) { return info(actor).state(); }
  int64_t cpus_used() {
    return core->lists().status(now).used().count("cpus") > 0 ? core->lists().status(now).used().at("cpus") : 0;
  }
  void clear() {
    to_nodes.clear();
    to_clients.clear();
    closed_nodes.clear();
    closed_clients.clear();
  }

  static Options make_options() {
    Options made;
    made.cluster_id = test_id<ClusterId>(9);
    made.cluster_name = "heron";
    made.version = "0.1.0";
    return made;
  }
  Options options = make_options();
  SeededRandom random{1};
  BootTime now{1000s};
  std::unique_ptr<HeadCore> core;
  std::map<std::pair<std::string, std::string>, std::string> rows;
  std::vector<ToNode> to_nodes;
  std::vector<ToClient> to_clients;
  std::vector<NodeSession> closed_nodes;
  std::vector<ClientSession> closed_clients;
  std::map<std::string, protocol::ActorInfo> seen;
  uint8_t requests = 0;
};

}  // namespace volador::head
