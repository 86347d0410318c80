// The hosts of this node as processes: launch, messages and end. Applies WorkerCore's decisions.
//
//   launch: program ready ─► certificate (with several nodes) ─► spare, or fork of the template ─► on_launched
//           ─► HostStart
//   end:    EndRequest (by the core), SIGTERM at half of the grace, SIGKILL to the whole group at its end ─► on_exit
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/ids.h"
#include "runtime/net/io_loop.h"
#include "runtime/net/unique_fd.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/host.pb.h"
#include "runtime/security/credentials.h"
#include "worker/core/shared_hosts.h"
#include "worker/hosts/children.h"
#include "worker/hosts/exit_cause.h"
#include "worker/hosts/host_groups.h"
#include "worker/hosts/program_store.h"
#include "worker/hosts/spare_hosts.h"
#include "worker/hosts/template_pool.h"
#include "worker/logs/log_capture.h"
#include "worker/resources/node_resources.h"

namespace volador::worker {

// Folders, limits and environment of hosts.
struct HostOptions {
  std::string node_name;
  NodeId node;
  std::filesystem::path socket_dir;   // Folder of the hosts' Unix sockets.
  std::string store_socket;           // Socket of the node's object store.
  std::filesystem::path scratch_dir;  // Contains one folder per host.
  std::filesystem::path log_dir;
  std::vector<GpuInfo> gpus;
  bool certificates = false;           // Hosts get a certificate, because calls may come from other machines.
  Environment base_env;                // Environment of this process without VOLADOR_TOKEN.
  int oom_score_adj = 500;             // The kernel's OOM killer prefers hosts to the worker.
  size_t outbox_bytes_max = 64 << 20;  // Per host; a host that does not read this much is ended.
  int launch_tries = 3;
  std::chrono::milliseconds shared_idle{2000};   // A shared host without actors ends after this time.
  std::chrono::milliseconds shared_slack{5000};  // Beyond an actor's grace, after which the whole host is ended.
  LogLimits logs;
  SpareOptions spares;
  HostGroups* groups = nullptr;  // Limits hosts and ends their children; outlives the hosts. Null: without groups.
};

// Callbacks to the core. Loop thread.
struct HostEvents {
  std::function<void(HostId, int pid, protocol::HostStart extra)> launched;
  std::function<void(HostId, const protocol::DeathCause&)> launch_failed;
  std::function<void(HostId, const protocol::FromHost&)> message;
  std::function<void(HostId)> closed;
  std::function<void(HostId, const HostExit&)> exited;
  std::function<void(HostId, LogBatch)> log;
  std::function<void(uint64_t connection)> proved;  // The peer has presented its certificate to the host.
  std::function<void(const std::string& sha256, const Error&)> program_failed;
};

// Requests a certificate of role host; `done` runs on any thread.
using CertifyHost = std::function<void(HostId, std::function<void(Result<security::Credentials>)> done)>;

// Loop thread only, except the constructor. `disk` writes the hosts' output.
class HostProcesses {
 public:
  HostProcesses(net::IoLoop& loop, Children& children, TemplatePool& templates, ProgramStore& programs, JobThread& disk,
                CertifyHost certify, HostOptions options, HostEvents events);
  ~HostProcesses();
  HostProcesses(const HostProcesses&) = delete;
  HostProcesses& operator=(const HostProcesses&) = delete;

  void launch(HostId host, const protocol::StartHost& start);
  void cancel(HostId host);
  // Unknown hosts: no effect.
  void send(HostId host, const protocol::ToHost& message);
  // Passes a connection whose TLS hello names this host; `number` identifies it in HostEvents::proved. kNotFound: there
  // is no such host, or it has not started.
  [[nodiscard]] Result<void> adopt(HostId host, net::UniqueFd connection, uint64_t number);
  // Notifies all current and future hosts.
  void revoke(const protocol::RevokedTokens& tokens);
  // For an actor in a shared host: ends that actor only, unless `whole`.
  void end(HostId host, std::chrono::milliseconds grace, bool whole = false);
  // Renews due host certificates; call periodically.
  void renew_certificates(WallTime now);
  // Actor whose name the log files of a shared actor's process have; nothing if the actor is unknown.
  struct LogOwner {
    ActorId actor;
    int restarts = 0;
  };
  std::optional<LogOwner> log_owner(HostId shared_actor) const;
  size_t size() const { return hosts_.size(); }
  // Groups by the pid of their host.
  std::map<int, HostGroups::GroupPtr> groups() const;
  // Logs that forks of the host fail.
  void note_process_limit(HostId id) const;
  // Memory is short: ends prestarted hosts and creates none for this time. Returns the number ended.
  size_t hold_off_spares(std::chrono::milliseconds time) { return spares_.hold_off(time); }

 private:
  struct Host;
  using HostPtr = std::shared_ptr<Host>;
  void launch_process(HostId host, const protocol::StartHost& start, bool shared);
  void end_process(const HostPtr& host, std::chrono::milliseconds grace);
  protocol::HostStart extra_of(const Host& host) const;
  void closed(const HostPtr& host);
  std::optional<HostId> actor_named(HostId process) const;
  // Actors of shared hosts: host_processes_shared.cc
  void launch_shared(HostId actor, const protocol::StartHost& start);
  void admit(const HostPtr& host, HostId actor);
  void admit_pending(const HostPtr& host);
  void cancel_shared(HostId actor);
  void send_shared(HostId actor, protocol::ToHost message);
  void hear_shared(const HostPtr& host, const protocol::FromHost& said);
  void end_shared(HostId actor, std::chrono::milliseconds grace);
  void silence(const HostPtr& host, HostId actor);
  void end_if_empty(const HostPtr& host);
  HostPtr shared_process(HostId actor) const;
  void on_program(const HostPtr& host, Result<PreparedProgram> program);
  void on_files(const HostPtr& host, Result<PreparedProgram> files);
  void fork_if_complete(const HostPtr& host);
  void on_certificate(const HostPtr& host, Result<security::Credentials> credentials);
  void fork(const HostPtr& host);
  // Prestarted processes: host_processes_spare.cc
  void use_spare(const HostPtr& host, SpareHost spare);
  void look_for_unread_start(const HostPtr& host);
  bool starts_again(const Host& host) const;
  void start_again(const HostPtr& host, const HostExit& exit);
  void tell_again(const HostPtr& host);
  void on_forked(const HostPtr& host, tl::expected<pid_t, TemplatePool::Failure> pid);
  void place(const HostPtr& host);
  void on_placed(const HostPtr& host);
  void on_ended(const HostPtr& host);
  void report_exit(const HostPtr& host, HostExit exit);
  void note_process_limit(const Host& host) const;
  void on_exit(const HostPtr& host, const ExitStatus& status);
  void fail(const HostPtr& host, const Error& error, const std::string& stderr_tail = {});
  void forget(const HostPtr& host);
  void read(const HostPtr& host);
  void flush(const HostPtr& host);
  void enqueue(const HostPtr& host, std::string bytes, net::UniqueFd fd);
  void remove_scratch(const std::filesystem::path& folder);
  Environment host_env(const Host& host) const;
  ProgramStart program_start(const protocol::StartHost& start) const;

  net::IoLoop& loop_;
  Children& children_;
  TemplatePool& templates_;
  ProgramStore& programs_;
  JobThread& disk_;
  CertifyHost certify_;
  const HostOptions options_;
  const HostEvents events_;
  std::map<HostId, HostPtr> hosts_;
  SharedHosts shared_;
  SpareHosts spares_;
  std::optional<uint64_t> memory_kills_;
  protocol::RevokedTokens revoked_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // Checked by results from other threads.
};

}  // namespace volador::worker
