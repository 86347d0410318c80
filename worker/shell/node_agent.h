// Shell around WorkerCore: passes it events of the link, the hosts and the clock, and applies its actions. One loop
// thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "runtime/clock.h"
#include "runtime/control/worker_link.h"
#include "runtime/net/io_loop.h"
#include "runtime/result.h"
#include "worker/core/worker_core.h"
#include "worker/hosts/health_check.h"
#include "worker/hosts/host_processes.h"
#include "worker/hosts/program_store.h"
#include "worker/hosts/template_pool.h"
#include "worker/resources/machine_meter.h"
#include "worker/resources/memory_monitor.h"
#include "worker/store/store_server.h"

namespace volador::worker {

// Options of a NodeAgent.
struct AgentOptions {
  CoreOptions core;
  HostOptions hosts;
  TemplateOptions templates;
  ProgramStoreOptions programs;
  std::filesystem::path log_file;    // The worker's own log, served through the head.
  std::filesystem::path warm;        // Folder of the node's warm processes; empty: there are none.
  StoreServer* store = nullptr;      // For the node's usage and the handles in its objects; outlives the agent.
  std::filesystem::path root = "/";  // Contains proc/, for process measurements.
  double memory_threshold = 0.95;    // Fraction of memory in use at which the largest host is ended; 0: never.
  std::vector<UsedFolder> folders;   // Folders whose file systems are measured.
  std::string card;                  // Network card of the data port's address; empty: unknown.
  HealthCheckOptions check;
  uint64_t logs_bytes_max = uint64_t{1} << 30;  // Total of output files; the oldest are removed.
  size_t logs_files_max = 10'000;
};

// Dependencies, replaced in tests.
struct AgentOutside {
  std::function<std::unique_ptr<control::WorkerLink>(control::WorkerLinkCallbacks)> connect;
  CertifyHost certify;
  std::function<void(uint64_t connection)> on_proved;  // As HostEvents::proved; on the loop.
  // Once each, on the loop.
  std::function<void()> on_registered;
  // Every host is gone. The error: why the head rejected this node.
  std::function<void(std::optional<Error>)> on_finished;
  // The link's state changed; the error is empty if it connected.
  std::function<void(control::LinkState, const Error&)> on_link;
};

// A node's WorkerCore with its hosts and its link to the head.
class NodeAgent {
 public:
  // kUnavailable: no memory or descriptor for the lease page.
  [[nodiscard]] static Result<std::unique_ptr<NodeAgent>> create(net::IoLoop& loop, const Clock& clock,
                                                                 AgentOptions options, AgentOutside outside);
  // Kills every host. Not on the loop.
  ~NodeAgent();
  NodeAgent(const NodeAgent&) = delete;
  NodeAgent& operator=(const NodeAgent&) = delete;

  // Thread safe.
  void start();                          // Connects to the head.
  void stop(const std::string& reason);  // Graceful; ends with on_finished.
  void set_credentials(const security::Credentials& credentials);
  // Loop thread: takes a connection of the data port, with its number for AgentOutside::on_proved.
  [[nodiscard]] Result<void> adopt(HostId host, net::UniqueFd connection, uint64_t number);
  // Closes the connection after queued messages were sent. Not on the loop.
  void close_link();

 private:
  struct Impl;
  explicit NodeAgent(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace volador::worker
