#include "tests/worker/agent_harness.h"

#include <signal.h>

#include <fstream>
#include <thread>

#include "runtime/files/durable_file.h"
#include "runtime/machine.h"
#include "runtime/security/digest.h"

namespace volador::worker::testing {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class AgentHarness::Link final : public control::WorkerLink {
 public:
  explicit Link(AgentHarness& harness) : harness_(harness) {}
  void send(protocol::WorkerMessage message) override { harness_.on_message(std::move(message)); }
  void set_credentials(security::Credentials) override {}
  void close(std::chrono::milliseconds) override {}

 private:
  AgentHarness& harness_;
};

AgentHarness::AgentHarness(const fs::path& folder, const std::string& program_path,
                           std::function<void(AgentOptions&)> adjust)
    : folder_(folder) {
  Children::become_subreaper();
  const std::string bytes = *read_file(program_path, size_t{1} << 30);
  program.set_sha256(security::raw(security::sha256(bytes)));
  program.set_path(program_path);
  program.set_size_bytes(static_cast<int64_t>(bytes.size()));
  program.add_argv(program_path);
  program.set_cwd(folder.string());
  program.set_machine_id(*machine_id());

  for (const char* name : {"run", "scratch", "logs"}) fs::create_directories(folder / name);
  AgentOptions options;
  options.core.node_name = "heron";
  const auto node = new_id<NodeId>(random_);
  options.core.registration.set_name("heron");
  options.core.registration.set_node_id(raw(node));
  options.core.registration.set_machine_id(*machine_id());
  options.hosts.node_name = "heron";
  options.hosts.node = node;
  options.hosts.socket_dir = folder / "run";
  options.hosts.scratch_dir = folder / "scratch";
  options.hosts.log_dir = folder / "logs";
  options.folders = {{.use = "logs", .path = options.hosts.log_dir}};
  options.hosts.gpus = visible_gpus({}, std::nullopt, 4);
  options.hosts.base_env = own_environment();
  options.templates.node_name = "heron";
  options.programs.cache = folder / "cache";
  options.programs.machine_id = *machine_id();
  options.programs.node_name = "heron";
  options.programs.fetch = [](const security::Digest&, const fs::path&, int64_t) -> Result<void> {
    return make_error(ErrorCode::kNotFound, "the head has no copy");
  };
  if (adjust) adjust(options);

  AgentOutside outside;
  outside.connect = [this](control::WorkerLinkCallbacks callbacks) {
    const std::lock_guard guard(mutex_);
    callbacks_ = std::move(callbacks);
    return std::make_unique<Link>(*this);
  };
  outside.certify = [](HostId, auto done) { done(security::Credentials{}); };
  outside.on_finished = [this](std::optional<Error>) {
    const std::lock_guard guard(mutex_);
    finished_ = true;
    changed_.notify_all();
  };
  loop_ = std::move(*net::IoLoop::create("test"));
  agent_ = std::move(*NodeAgent::create(*loop_, clock_, std::move(options), std::move(outside)));
  agent_->start();
}

AgentHarness::~AgentHarness() { agent_.reset(); }

void AgentHarness::on_message(protocol::WorkerMessage message) {
  if (message.has_heartbeat() && answering_) {
    protocol::HeadToWorker ack;
    ack.mutable_heartbeat_ack()->set_sequence(message.heartbeat().sequence());
    ack.mutable_heartbeat_ack()->set_sent_boot_ns(message.heartbeat().sent_boot_ns());
    send(ack);
    return;
  }
  if (message.has_register_()) {
    protocol::HeadToWorker answer;
    answer.mutable_registered()->set_cluster_name("birds");
    answer.mutable_registered()->set_lease_ms(3500);
    answer.mutable_registered()->set_heartbeat_ms(100);
    answer.mutable_registered()->set_park_max_ms(600'000);
    answer.mutable_registered()->set_sent_boot_ns(message.register_().sent_boot_ns());
    send(answer);
  }
  const std::lock_guard guard(mutex_);
  inbox_.push_back(std::move(message));
  changed_.notify_all();
}

void AgentHarness::send(const protocol::HeadToWorker& message) {
  std::function<void(const protocol::HeadToWorker&)> deliver;
  {
    const std::lock_guard guard(mutex_);
    deliver = callbacks_.on_message;
  }
  if (deliver) deliver(message);
}

void AgentHarness::join() {
  for (;;) {
    {
      const std::lock_guard guard(mutex_);
      if (callbacks_.on_state) break;
    }
    std::this_thread::sleep_for(1ms);
  }
  connect_again();
}

void AgentHarness::connect_again() {
  callbacks_.on_state(control::LinkState::kConnected, {});
  const auto sent = wait_for([](const auto& message) { return message.has_register_(); });
  if (sent) registration_ = sent->register_();
}

void AgentHarness::lose_link() {
  callbacks_.on_state(control::LinkState::kLost, Error{ErrorCode::kUnavailable, "cut"});
}

std::optional<protocol::WorkerMessage> AgentHarness::wait_for(
    const std::function<bool(const protocol::WorkerMessage&)>& fits) {
  const auto until = std::chrono::steady_clock::now() + 20s;
  std::unique_lock lock(mutex_);
  for (;;) {
    for (auto at = inbox_.begin(); at != inbox_.end(); ++at) {
      if (!fits(*at)) continue;
      auto found = std::move(*at);
      inbox_.erase(at);
      return found;
    }
    if (changed_.wait_until(lock, until) == std::cv_status::timeout) return std::nullopt;
  }
}

HostId AgentHarness::start(const Start& what) {
  const auto id = new_id<HostId>(random_);
  protocol::HeadToWorker message;
  protocol::StartHost& start = *message.mutable_start_host();
  start.set_host_id(raw(id));
  start.set_epoch(1);
  protocol::ActorSpec& spec = *start.mutable_spec();
  spec.set_actor_id(raw(what.actor ? *what.actor : new_id<ActorId>(random_)));
  spec.set_class_name(what.class_name);
  spec.set_arguments(what.argument);
  spec.set_start_timeout_ms(what.start_timeout_ms);
  for (const auto& [name, value] : what.env) (*spec.mutable_env())[name] = value;
  for (const int gpu : what.gpus) start.add_gpus(gpu);
  for (const auto& [name, amount] : what.resources) (*spec.mutable_resources()->mutable_amounts())[name] = amount;
  *start.mutable_program() = program;
  if (!what.cwd.empty()) start.mutable_program()->set_cwd(what.cwd);
  for (const auto& [name, value] : what.program_env) (*start.mutable_program()->mutable_env())[name] = value;
  send(message);
  return id;
}

void AgentHarness::end(HostId host, int64_t grace_ms) {
  protocol::HeadToWorker message;
  message.mutable_end_host()->set_host_id(raw(host));
  message.mutable_end_host()->set_grace_ms(grace_ms);
  message.mutable_end_host()->mutable_cause()->set_kind(protocol::DeathCause::KILLED);
  send(message);
}

std::optional<protocol::HostReport> AgentHarness::wait_ready(HostId host) {
  const auto found = wait_for(
      [&](const auto& message) { return message.has_host_ready() && message.host_ready().host_id() == raw(host); });
  if (!found) return std::nullopt;
  return found->host_ready();
}

std::optional<protocol::HostEnded> AgentHarness::wait_ended(HostId host) {
  const auto found = wait_for(
      [&](const auto& message) { return message.has_host_ended() && message.host_ended().host_id() == raw(host); });
  if (!found) return std::nullopt;
  return found->host_ended();
}

bool AgentHarness::wait_finished() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, 20s, [this] { return finished_; });
}

bool is_alive(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(in, text)) return false;
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] != 'Z' &&
         text[name_end + 2] != 'X';
}

bool wait_gone(pid_t pid) {
  for (int i = 0; i < 500 && is_alive(pid); ++i) std::this_thread::sleep_for(10ms);
  return !is_alive(pid);
}

pid_t read_pid(const fs::path& file) {
  for (int i = 0; i < 500; ++i) {
    std::ifstream in(file);
    pid_t pid = 0;
    if (in >> pid) return pid;
    std::this_thread::sleep_for(10ms);
  }
  return 0;
}

}  // namespace volador::worker::testing
