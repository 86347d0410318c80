#include "tests/bench/made_up_members.h"

#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "runtime/clock.h"
#include "runtime/control/join.h"
#include "runtime/version.h"

namespace volador::bench {
namespace {

constexpr int64_t kUnit = 10'000;
const std::string kMadeUp = "made_up";  // Resource that real nodes do not have.

security::Credentials join(const std::string& address, const std::string& token, security::Role role,
                           const std::string& name) {
  const SystemClock clock;
  auto parsed = security::parse_token(token);
  if (!parsed) throw std::runtime_error(parsed.error().message);
  auto joined = control::join({.address = address, .token = *parsed, .role = role, .name = name}, clock);
  if (!joined) throw std::runtime_error(joined.error().message);
  return joined->credentials;
}

// Returns once the stream is established.
template <class Connect, class OnMessage>
auto connected(Connect connect, const std::string& address, security::Credentials credentials, OnMessage on_message) {
  auto stands = std::make_shared<std::promise<void>>();
  auto link = connect({.address = address, .credentials = std::move(credentials)},
                      {.on_message = std::move(on_message),
                       .on_state = [stands, told = false](control::LinkState state, const Error&) mutable {
                         if (state == control::LinkState::kConnected && !std::exchange(told, true)) stands->set_value();
                       }});
  if (stands->get_future().wait_for(std::chrono::seconds(20)) != std::future_status::ready)
    throw std::runtime_error("no stream to " + address);
  return link;
}

}  // namespace

MadeUpDriver::MadeUpDriver(const std::string& address, const std::string& token) : id_(new_id<DriverId>(random_)) {
  protocol::ClientMessage hello;
  auto& body = *hello.mutable_hello();
  body.set_protocol_version(control::kProtocolVersion);
  body.set_version(std::string(kVersion));
  body.set_driver_id(raw(id_));
  body.set_name("bench");
  body.set_pid(getpid());
  body.mutable_program()->set_sha256(std::string(32, 'b'));
  link_ = connected(control::connect_client_link, address, join(address, token, security::Role::kDriver, "bench"),
                    [](const protocol::HeadMessage&) {});
  link_->send(std::move(hello));
}

MadeUpDriver::~MadeUpDriver() {
  protocol::ClientMessage goodbye;
  goodbye.mutable_goodbye();
  link_->send(std::move(goodbye));
  link_->close();
}

void MadeUpDriver::send(protocol::ClientMessage message) { link_->send(std::move(message)); }

void MadeUpDriver::spawn(ActorId actor) {
  protocol::ClientMessage message;
  auto& spawn = *message.mutable_spawn();
  spawn.set_request_id(raw(actor));
  auto& spec = *spawn.mutable_spec();
  spec.set_actor_id(raw(actor));
  spec.set_class_name("Trial");
  spec.set_driver_id(raw(id_));
  spec.set_program_sha256(std::string(32, 'b'));
  spec.set_wait_if_infeasible(true);
  (*spec.mutable_resources()->mutable_amounts())["cpus"] = kUnit;
  (*spec.mutable_resources()->mutable_amounts())[kMadeUp] = kUnit;
  send(std::move(message));
}

protocol::ExperimentUpdate& running_experiment(protocol::ClientMessage& message, const std::string& experiment,
                                               size_t trials) {
  auto& update = *message.mutable_experiment();
  update.set_experiment(experiment);
  update.set_state("running");
  update.set_metric("loss");
  update.set_mode("min");
  update.set_trials_total(static_cast<int64_t>(trials));
  return update;
}

void MadeUpDriver::show_trials(const std::string& experiment, size_t count) {
  constexpr size_t kAtOnce = 500;
  for (size_t at = 0; at < count; at += kAtOnce) {
    protocol::ClientMessage message;
    auto& update = running_experiment(message, experiment, count);
    for (size_t number = at; number < std::min(count, at + kAtOnce); ++number)
      *update.add_trials() = trial_row(number, 1 + static_cast<int64_t>(number % 81));
    send(std::move(message));
  }
}

std::string trial_id(size_t number) { return fmt::format("{:08x}", number * 2'654'435'761U & 0xFFFFFFFFU); }

protocol::TrialRow trial_row(size_t number, int64_t step, double sent) {
  const double share = static_cast<double>(number * 7919 % 100'003) / 100'003;
  protocol::TrialRow row;
  row.set_trial_id(trial_id(number));
  row.set_status(number % 16 == 0 ? "running" : number % 4 == 0 ? "finished" : "stopped");
  row.set_node_name(fmt::format("node{}", number % 200));
  row.set_step(step);
  row.set_config_json(fmt::format(R"({{"lr":{:.6g},"momentum":{:.6g},"width":{},"batch":{}}})", 1e-3 + share,
                                  share * 0.95, 4 + number % 61, 4 << number % 3));
  (*row.mutable_metrics())["loss"] = 2 * share + 1 / static_cast<double>(step);
  (*row.mutable_metrics())["accuracy"] = 1 - share / 2;
  if (sent > 0) (*row.mutable_metrics())["sent"] = sent;
  return row;
}

// ---- a node ----

struct MadeUpNode::State {
  struct Actor {
    protocol::StartHost start;
    uint64_t since = 0;  // Heartbeat number.
  };
  std::mutex mutex;
  std::vector<Actor> actors;
  SystemRandom random;
};

namespace {

protocol::WorkerMessage registration(const std::string& name, int cpus, int gpus, Random& random) {
  protocol::WorkerMessage message;
  auto& body = *message.mutable_register_();
  body.set_protocol_version(control::kProtocolVersion);
  body.set_version(std::string(kVersion));
  body.set_node_id(raw(new_id<NodeId>(random)));
  body.set_incarnation(raw(new_id<NodeId>(random)));
  body.set_name(name);
  body.set_machine_id(name);
  (*body.mutable_total()->mutable_amounts())["cpus"] = cpus * kUnit;
  (*body.mutable_total()->mutable_amounts())[kMadeUp] = cpus * kUnit;
  if (gpus > 0) (*body.mutable_total()->mutable_amounts())["gpus"] = gpus * kUnit;
  for (int index = 0; index < gpus; ++index) {
    auto& gpu = *body.add_gpus();
    gpu.set_index(index);
    gpu.set_model("NVIDIA H200");
  }
  return message;
}

}  // namespace

MadeUpNode::MadeUpNode(const std::string& address, const std::string& token, Options options)
    : options_(std::move(options)), state_(std::make_unique<State>()) {
  link_ = connected(control::connect_worker_link, address, join(address, token, security::Role::kNode, options_.name),
                    [this](const protocol::HeadToWorker& message) { on_message(message); });
  link_->send(registration(options_.name, options_.cpus, options_.gpus, state_->random));
}

MadeUpNode::~MadeUpNode() { link_->close(); }

void MadeUpNode::on_message(const protocol::HeadToWorker& message) {
  if (message.has_heartbeat_ack()) heard_ = message.heartbeat_ack().sequence();
  if (!message.has_start_host()) return;
  const protocol::StartHost& start = message.start_host();
  if (options_.on_start) return options_.on_start(start);
  protocol::WorkerMessage ready;
  auto& report = *ready.mutable_host_ready();
  report.set_host_id(start.host_id());
  report.set_actor_id(start.spec().actor_id());
  report.set_epoch(start.epoch());
  report.set_ready(true);
  report.mutable_address()->set_unix_path("/run/host.sock");
  report.set_pid(4711);
  link_->send(std::move(ready));
  const std::lock_guard lock(state_->mutex);
  state_->actors.push_back({start, sent_});
}

void MadeUpNode::heartbeat(bool hosts) {
  const std::lock_guard lock(state_->mutex);
  protocol::WorkerMessage message;
  auto& body = *message.mutable_heartbeat();
  body.set_sequence(++sent_);
  auto& usage = *body.mutable_usage();
  const auto noise = [this] { return static_cast<double>(state_->random.below(1'000'000)) / 1e6; };
  usage.set_cpu_cores(static_cast<double>(state_->actors.size()) * (0.8 + 0.2 * noise()));
  usage.set_memory_bytes(static_cast<int64_t>((4 + noise()) * (1 << 30)));
  usage.set_memory_total_bytes(int64_t{64} << 30);
  for (int index = 0; index < options_.gpus; ++index) {
    auto& gpu = *usage.add_gpus();
    gpu.set_index(index);
    gpu.set_utilization(noise());
    gpu.set_memory_bytes(static_cast<int64_t>((40 + noise()) * (1 << 30)));
    gpu.set_memory_total_bytes(int64_t{141} << 30);
  }
  if (hosts) {
    for (const auto& actor : state_->actors) {
      auto& of = *usage.add_hosts();
      of.set_actor_id(actor.start.spec().actor_id());
      of.set_cpu_cores(0.8 + 0.2 * noise());
      of.set_memory_bytes(static_cast<int64_t>((200 + 50 * noise()) * (1 << 20)));
      of.set_calls_per_s(1 + noise());
      of.set_call_ms(900 + 100 * noise());
    }
  }
  link_->send(std::move(message));
}

void MadeUpNode::end(const protocol::StartHost& start) {
  protocol::WorkerMessage message;
  auto& ended = *message.mutable_host_ended();
  ended.set_host_id(start.host_id());
  ended.set_actor_id(start.spec().actor_id());
  ended.set_epoch(start.epoch());
  ended.mutable_cause()->set_kind(protocol::DeathCause::EXITED);
  link_->send(std::move(message));
  ++ended_;
}

void MadeUpNode::end_actors(uint64_t heartbeats) {
  std::vector<protocol::StartHost> over;
  {
    const std::lock_guard lock(state_->mutex);
    std::erase_if(state_->actors, [&](const State::Actor& actor) {
      if (actor.since + heartbeats > sent_) return false;
      over.push_back(actor.start);
      return true;
    });
  }
  for (const auto& start : over) end(start);
}

}  // namespace volador::bench
