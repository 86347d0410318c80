// A node without a network: the real agent, loop, templates and hosts; the test acts as the head.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/random.h"
#include "worker/shell/node_agent.h"

namespace volador::worker::testing {

class AgentHarness {
 public:
  // `folder`: for all files. `program`: the executable of the hosts.
  AgentHarness(const std::filesystem::path& folder, const std::string& program,
               std::function<void(AgentOptions&)> adjust = {});
  ~AgentHarness();

  // Connects and registers.
  void join();
  void send(const protocol::HeadToWorker& message);
  void lose_link();
  void connect_again();
  // Waits up to 20 s for a matching message of the worker and removes it. No value: timeout.
  std::optional<protocol::WorkerMessage> wait_for(const std::function<bool(const protocol::WorkerMessage&)>& fits);

  struct Start {
    std::string class_name = "normal";
    std::string argument = {};
    std::map<std::string, std::string> env = {};
    std::map<std::string, std::string> program_env = {};
    std::vector<int> gpus = {};
    std::map<std::string, int64_t> resources = {};
    int64_t start_timeout_ms = 0;
    std::optional<ActorId> actor = {};  // No value: a new one.
    std::string cwd = {};               // Empty: the harness's folder.
  };
  HostId start(const Start& what);
  void end(HostId host, int64_t grace_ms);
  std::optional<protocol::HostReport> wait_ready(HostId host);
  std::optional<protocol::HostEnded> wait_ended(HostId host);
  void stop_heartbeats() { answering_ = false; }
  // Waits for on_finished.
  bool wait_finished();

  const protocol::Register& registration() const { return registration_; }  // The last one.
  NodeAgent& agent() { return *agent_; }
  net::IoLoop& loop() { return *loop_; }
  const std::filesystem::path& folder() const { return folder_; }
  protocol::Program program;

 private:
  class Link;
  void on_message(protocol::WorkerMessage message);

  std::filesystem::path folder_;
  SystemClock clock_;
  SystemRandom random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<protocol::WorkerMessage> inbox_;
  control::WorkerLinkCallbacks callbacks_;
  protocol::Register registration_;
  bool finished_ = false;
  std::atomic<bool> answering_{true};
  std::unique_ptr<net::IoLoop> loop_;
  std::unique_ptr<NodeAgent> agent_;
};

// Returns whether the process exists and is not a zombie.
bool is_alive(pid_t pid);
// Waits up to 5 s until it has exited.
bool wait_gone(pid_t pid);
// Reads the number in a file that another process writes; waits up to 5 s. 0: timeout.
pid_t read_pid(const std::filesystem::path& file);

}  // namespace volador::worker::testing
