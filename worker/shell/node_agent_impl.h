// State of a node agent, for the files that define its members.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/control/run_file_server.h"
#include "runtime/job_thread.h"
#include "worker/hosts/host_questions.h"
#include "worker/hosts/lease_memory.h"
#include "worker/hosts/warm_processes.h"
#include "worker/logs/log_archive.h"
#include "worker/resources/health_rules.h"
#include "worker/resources/host_usage.h"
#include "worker/resources/machine_watch.h"
#include "worker/shell/node_agent.h"

namespace volador::worker {

// State of a node agent.
struct NodeAgent::Impl : std::enable_shared_from_this<NodeAgent::Impl> {
  Impl(net::IoLoop& io, const Clock& time, AgentOptions settings, AgentOutside around, LeaseMemory page)
      : loop(io),
        clock(time),
        options(std::move(settings)),
        outside(std::move(around)),
        lease(std::move(page)),
        core(options.core),
        children(
            io, [this] { return templates.oldest_fork_in_flight(); },
            [this](pid_t pid) { return is_warm_process(options.warm, pid); }),
        templates(io, children, lease.fd(), options.templates),
        programs(options.programs),
        disk("logs", on_loop()),
        processes("processes", on_loop()),
        hosts(io, children, templates, programs, disk, outside.certify, options.hosts, events()),
        memory_monitor(options.memory_threshold),
        health(rules_for(options.hosts.gpus)),
        run_files(time) {}

  std::function<void(JobThread::Then)> on_loop();

  // ---- events in ----

  HostEvents events();

  // One event at a time: events raised by actions wait until the whole batch is applied.
  void feed(std::function<Actions()> event);

  void post_event(std::function<Actions()> event);

  void tick();

  void note_calls(HostId id, const protocol::CallCount& calls);

  // Keeps the newest metrics of each actor for a reconnecting head. A host's statements about itself are overwritten.
  void note_metrics(HostId id, protocol::ActorMetrics said);
  // Dropped without a connection: the full set is sent after the next registration.
  void tell_holds(const protocol::HoldActors& holds);
  Actions with_metrics(Actions actions) const;

  // ---- measurements ----

  void watch_machine();
  void note_machine(BootTime now);

  // ---- health ----

  static HealthRules rules_for(const std::vector<GpuInfo>& gpus);
  // Inspects the machine, then connects to the head, at the latest after kFirstInspection.
  void begin_inspections();
  void on_inspection();
  void on_check(const CheckResult& result);
  void look_at_health(BootTime now);
  void note_problems();
  void connect_when_inspected();

  struct Processes {
    std::map<int, GroupUsage> own;        // Process groups started by this process, and itself.
    std::map<int, GroupUsage> others;     // Additionally requested processes.
    std::map<int, std::string> programs;  // File names of their programs, if readable; only for a request.
  };
  // `asked`: null without a request for the list.
  void measure_processes(const protocol::ListProcesses* asked, std::function<void(BootTime, const Processes&)> then);

  // Returns what reads the control groups of hosts; runs on the processes thread.
  std::function<std::map<int, ControlGroupUsage>()> group_reader();

  // A process with several actors provides no values for each of them.
  void measure_hosts(BootTime asked_at);

  void watch_memory(BootTime now, const MemoryLevel& level);
  void end_largest(const MemoryLevel& level, const std::map<int, GroupUsage>& usages);

  void set_timer();

  // ---- requests of the head: node_agent_questions.cc ----

  void carry(HostQuestions::Step step);
  Actions answer_stacks(const protocol::ReadStacks& asked);
  Actions answer_timeline(const protocol::ReadTimeline& asked);
  Actions answer_processes(const protocol::ListProcesses& asked);
  Actions answer_logs(const protocol::ReadLogs& asked);
  Actions answer_log_part(const protocol::ReadLog& asked);
  // The directory may be on a slow disk: not on this loop.
  Actions answer_run_files(const protocol::ReadRunFiles& asked);
  Actions answer_objects(const protocol::ListStoredObjects& asked);
  // `read` returns the answer's `part`. It runs on the thread that writes the files, so that none is rotated meanwhile.
  template <class Part, class Read>
  Actions answer_of_disk(uint64_t request, Part* (protocol::WorkerMessage::*part)(), Read read);
  // `number`: session of the request; another head may reuse the request number.
  void send_answer(uint64_t number, protocol::WorkerMessage answer);

  // ---- actions out ----

  void apply_actions(Action& action);
  void carry(SendToHead& action);
  void carry(LaunchHost& action) { hosts.launch(action.host, action.start); }
  void carry(SendToHost& action) { hosts.send(action.host, action.message); }
  void carry(EndProcess& action) { hosts.end(action.host, action.grace, action.whole); }
  void carry(CancelLaunch& action) { hosts.cancel(action.host); }
  void carry(SetLeaseDeadline& action);
  void carry(Reconnect&);
  void carry(Finish& action);

  // ---- the link ----

  void connect();

  // Peers of our hosts and our store authenticate to those, not to the head.
  Actions on_revoked(const protocol::RevokedTokens& revoked);

  Actions on_state(control::LinkState state, const Error& error);

  net::IoLoop& loop;
  const Clock& clock;
  const AgentOptions options;
  // Used by the disk's thread.
  const std::shared_ptr<LogArchive> log_archive = std::make_shared<LogArchive>(options.log_file, options.hosts.log_dir);
  AgentOutside outside;
  LeaseMemory lease;
  WorkerCore core;
  Children children;
  TemplatePool templates;
  ProgramStore programs;
  JobThread disk;  // Writes, reads and removes log files.
  size_t disk_questions = 0;
  JobThread processes;  // Reads /proc.
  HostProcesses hosts;
  UsageSampler sampler;
  MemoryMonitor memory_monitor;
  bool weighs_hosts = false;  // The processes thread measures hosts for the memory monitor.
  BootTime memory_said_at{};
  std::optional<MachineWatch> machine;
  HealthRules health;
  std::unique_ptr<HealthCheck> check;
  std::vector<protocol::HealthProblem> problems;
  bool was_inspected = false;
  bool was_checked = false;
  bool was_connected = false;
  net::IoLoop::TimerId inspection_timer = 0;
  HostUsage host_usage;
  CpuRates cpu_rates;
  bool measures_hosts = false;

  std::deque<std::function<Actions()>> queue;
  bool feeding = false;
  bool closed = false;
  bool was_registered = false;
  net::IoLoop::TimerId timer = 0;
  BootTime timer_at{};
  BootTime usage_at{};
  BootTime hosts_at{};
  BootTime housekeeping_at{};
  protocol::NodeUsage usage;
  std::map<HostId, protocol::ActorMetrics> metrics;
  HostQuestions questions;
  net::IoLoop::TimerId question_timer = 0;

  std::unique_ptr<control::WorkerLink> link;
  uint64_t link_generation = 0;
  std::atomic<uint64_t> session{0};  // Changes of the link's state, counted on the link's thread.
  uint64_t session_seen = 0;         // Changes of the link's state seen on the loop.
  control::RunFileServer run_files;  // Last: its thread uses the members above.
};

}  // namespace volador::worker
