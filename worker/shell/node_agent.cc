#include "worker/shell/node_agent.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "runtime/language/health_reason.h"
#include "runtime/log.h"
#include "runtime/metric_rules.h"
#include "worker/shell/node_agent_impl.h"

namespace volador::worker {
namespace {

using std::chrono::milliseconds;

constexpr auto kHousekeeping = std::chrono::seconds(60);  // Interval of certificate renewal and log cleanup.
constexpr auto kUsageEvery = milliseconds(400);
constexpr auto kHostsEvery = std::chrono::seconds(10);
constexpr auto kFirstInspection = std::chrono::seconds(5);
constexpr size_t kMetricBytesMax = 256 << 10;  // Metrics of one actor.

std::string text_of(const protocol::DeathCause& cause) {
  std::string text = protocol::DeathCause::Kind_Name(cause.kind());
  if (cause.exit_code() != 0) text += fmt::format(" code {}", cause.exit_code());
  if (cause.signal() != 0) text += fmt::format(" signal {}", cause.signal());
  return cause.message().empty() ? text : text + ": " + cause.message();
}

}  // namespace

std::function<void(JobThread::Then)> NodeAgent::Impl::on_loop() {
  return [&io = loop](JobThread::Then then) { io.post(std::move(then)); };
}

HostEvents NodeAgent::Impl::events() {
  HostEvents events;
  events.launched = [this](HostId id, int pid, protocol::HostStart extra) {
    feed([this, id, pid, extra = std::move(extra)] { return core.on_launched(clock.now(), id, pid, extra); });
  };
  events.launch_failed = [this](HostId id, const protocol::DeathCause& cause) {
    log::warn("worker", "host not started", {{"host", to_string(id)}, {"cause", text_of(cause)}});
    feed([this, id, cause] { return core.on_launch_failed(clock.now(), id, cause); });
  };
  events.message = [this](HostId id, const protocol::FromHost& message) {
    if (message.has_calls()) return note_calls(id, message.calls());
    if (message.has_metrics()) return note_metrics(id, message.metrics());
    if (message.has_stacks()) return carry(questions.on_stacks(message.stacks()));
    if (message.has_timeline()) return carry(questions.on_timeline(message.timeline()));
    feed([this, id, message] { return core.on_host_message(clock.now(), id, message); });
  };
  events.closed = [this](HostId id) { feed([this, id] { return core.on_host_closed(clock.now(), id); }); };
  events.exited = [this](HostId id, const HostExit& exit) {
    metrics.erase(id);
    feed([this, id, exit] { return core.on_host_exit(clock.now(), id, exit); });
  };
  events.log = [this](HostId id, LogBatch batch) {
    protocol::LogLines lines;
    lines.set_is_stderr(batch.is_stderr);
    lines.set_dropped(batch.dropped);
    for (std::string& line : batch.lines) lines.add_lines(std::move(line));
    const WallTime wall = clock.wall();
    const BootTime now = clock.now();
    for (const BootTime at : batch.read_at) lines.add_times_ms(unix_ms(wall - (now - at)));
    feed([this, id, lines = std::move(lines)] { return core.on_log(clock.now(), id, lines); });
  };
  events.proved = [this](uint64_t connection) {
    if (outside.on_proved) outside.on_proved(connection);
  };
  events.program_failed = [this](const std::string& sha256, const Error& error) {
    log::warn("worker", "a program cannot run on this node", {{"reason", error.message}});
    feed([this, sha256, error] { return core.on_program_failed(clock.now(), sha256, error); });
  };
  return events;
}

void NodeAgent::Impl::feed(std::function<Actions()> event) {
  queue.push_back(std::move(event));
  if (feeding) return;
  feeding = true;
  while (!queue.empty()) {
    const auto next = std::move(queue.front());
    queue.pop_front();
    for (Action& action : next()) apply_actions(action);
  }
  feeding = false;
  set_timer();
}

void NodeAgent::Impl::post_event(std::function<Actions()> event) {
  loop.post([self = shared_from_this(), event = std::move(event)]() mutable {
    if (!self->closed) self->feed(std::move(event));
  });
}

void NodeAgent::Impl::tick() {
  timer = 0;
  const BootTime now = clock.now();
  if (now - usage_at >= kUsageEvery) {
    usage_at = now;
    const auto sampled = sampler.sample(now);
    usage.set_cpu_cores(sampled.cpu_cores);
    usage.set_memory_bytes(sampled.memory.used_bytes);
    usage.set_memory_total_bytes(sampled.memory.limit_bytes);
    watch_memory(now, sampled.fullest_memory);
    note_machine(now);
    look_at_health(now);
    if (options.store != nullptr) {
      const auto stored = options.store->usage();
      usage.set_store_bytes(stored.bytes);
      usage.set_store_bytes_max(stored.bytes_max);
      usage.set_store_objects(stored.objects);
    }
  }
  if (now >= housekeeping_at) {
    housekeeping_at = now + kHousekeeping;
    hosts.renew_certificates(clock.wall());
    disk.post([folder = options.hosts.log_dir, bytes = options.logs_bytes_max,
               files = options.logs_files_max]() -> JobThread::Then {
      prune_logs(folder, bytes, files);
      return {};
    });
    children.sweep();
  }
  if (now - hosts_at >= kHostsEvery) measure_hosts(now);
  // Host measurements are sent once, with the next heartbeat.
  const bool told = core.registered() && now >= core.next_tick(now);
  feed([this, now] { return core.on_tick(now, usage); });
  if (told) usage.clear_hosts();
}

void NodeAgent::Impl::note_calls(HostId id, const protocol::CallCount& calls) {
  for (const auto& one : core.running()) {
    if (one.host == id) host_usage.on_calls(one.pid, calls);
  }
}

void NodeAgent::Impl::note_metrics(HostId id, protocol::ActorMetrics said) {
  const protocol::StartHost* start = core.find_start(id);
  if (start == nullptr) return;
  const auto most = static_cast<int>(MetricLimits::kSeries);
  if (said.series_size() > most) said.mutable_series()->DeleteSubrange(most, said.series_size() - most);
  if (said.ByteSizeLong() > kMetricBytesMax) return;
  said.set_actor_id(start->spec().actor_id());
  protocol::WorkerMessage message;
  *message.mutable_metrics() = metrics[id] = std::move(said);
  if (core.registered() && link) link->send(std::move(message));
}

void NodeAgent::Impl::tell_holds(const protocol::HoldActors& holds) {
  protocol::WorkerMessage message;
  *message.mutable_holds() = holds;
  if (core.registered() && link) link->send(std::move(message));
}

Actions NodeAgent::Impl::with_metrics(Actions actions) const {
  for (const auto& [id, known] : metrics) {
    SendToHead again;
    *again.message.mutable_metrics() = known;
    actions.push_back(std::move(again));
  }
  return actions;
}

void NodeAgent::Impl::watch_machine() {
  const bool has_real = std::any_of(options.hosts.gpus.begin(), options.hosts.gpus.end(),
                                    [](const GpuInfo& gpu) { return !gpu.uuid.empty(); });
  machine.emplace(clock, options.folders, has_real, options.card, [io = &loop, weak = weak_from_this()] {
    io->post([weak] {
      if (const auto self = weak.lock(); self && !self->closed) self->on_inspection();
    });
  });
}

HealthRules NodeAgent::Impl::rules_for(const std::vector<GpuInfo>& gpus) {
  std::vector<int> all, driven;
  for (const GpuInfo& gpu : gpus) {
    all.push_back(gpu.index);
    if (!gpu.uuid.empty()) driven.push_back(gpu.index);
  }
  return HealthRules(std::move(all), std::move(driven));
}

void NodeAgent::Impl::begin_inspections() {
  inspection_timer = loop.add_timer(clock.now() + kFirstInspection, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->closed) return;
    self->inspection_timer = 0;
    self->was_inspected = self->was_checked = true;
    self->connect_when_inspected();
  });
  watch_machine();
  was_checked = options.check.program.empty();
  if (was_checked) return;
  check = std::make_unique<HealthCheck>(loop, children, options.check,
                                        [this](const CheckResult& result) { on_check(result); });
  check->start();
}

void NodeAgent::Impl::on_inspection() {
  auto found = machine ? machine->take_inspection() : std::nullopt;
  if (!found) return;
  for (const GpuInfo& gpu : options.hosts.gpus) {
    if (gpu.uuid.empty()) continue;
    HealthSample::Gpu& row = found->sample.gpus.emplace_back();
    row.index = gpu.index;
    const auto at = std::ranges::find(found->gpus, gpu.uuid, &GpuMeter::Health::uuid);
    if (at == found->gpus.end()) {
      row.error = "the driver does not list it";
      continue;
    }
    row.error = at->error;
    row.memory_errors = at->memory_errors;
    row.remap_failed = at->remap_failed;
    row.reset_due = at->reset_due;
    row.too_hot = at->too_hot;
    row.temperature_celsius = at->temperature_celsius;
    row.xids = at->xids;
  }
  health.on_sample(found->sample);
  was_inspected = true;
  note_problems();
  connect_when_inspected();
}

void NodeAgent::Impl::on_check(const CheckResult& result) {
  health.on_check(result);
  was_checked = true;
  note_problems();
  connect_when_inspected();
}

// Finds readings that hang.
void NodeAgent::Impl::look_at_health(BootTime now) {
  const auto waiting = machine ? machine->waiting() : std::nullopt;
  health.on_look(now, waiting ? std::optional(waiting->since) : std::nullopt, waiting && waiting->of_gpus);
  note_problems();
}

void NodeAgent::Impl::note_problems() {
  std::vector<protocol::HealthProblem> found = health.problems();
  const auto texts = [](const std::vector<protocol::HealthProblem>& all) {
    std::vector<std::string> lines;
    for (const protocol::HealthProblem& one : all) lines.push_back(health_reason(one).text());
    return fmt::format("{}", fmt::join(lines, "; "));
  };
  const std::string before = texts(problems), now = texts(found);
  if (before == now && problems.size() == found.size()) return;
  problems = std::move(found);
  if (problems.empty()) {
    log::info("worker", "the node has no health problem any more", {{"before", before}});
  } else {
    log::warn("worker", "the node has health problems", {{"problems", now}});
  }
  usage.mutable_problems()->Assign(problems.begin(), problems.end());
  core.set_problems(usage.problems());
}

void NodeAgent::Impl::connect_when_inspected() {
  if (!was_inspected || !was_checked || std::exchange(was_connected, true)) return;
  if (inspection_timer != 0) loop.cancel_timer(std::exchange(inspection_timer, 0));
  connect();
}

void NodeAgent::Impl::note_machine(BootTime now) {
  usage.clear_machine();
  usage.clear_gpus();
  auto newest = machine ? machine->newest(now) : std::nullopt;
  if (!newest) return;
  *usage.mutable_machine() = std::move(newest->machine);
  for (const GpuMeter::Reading& reading : newest->gpus) {
    for (const GpuInfo& gpu : options.hosts.gpus) {
      if (gpu.uuid != reading.uuid) continue;
      protocol::GpuUsage& row = *usage.add_gpus();
      row.set_index(gpu.index);
      row.set_utilization(reading.utilization);
      row.set_memory_bytes(reading.memory_bytes);
      row.set_memory_total_bytes(reading.memory_total_bytes);
      if (reading.temperature_celsius) row.set_temperature_celsius(*reading.temperature_celsius);
      if (reading.power_watts) row.set_power_watts(*reading.power_watts);
      if (reading.power_limit_watts) row.set_power_limit_watts(*reading.power_limit_watts);
    }
  }
}

void NodeAgent::Impl::measure_processes(const protocol::ListProcesses* asked,
                                        std::function<void(BootTime, const Processes&)> then) {
  std::vector<int> others;
  if (asked != nullptr) others.assign(asked->others().begin(), asked->others().end());
  processes.post([pids = children.pids(), others = std::move(others), names = asked != nullptr, root = options.root,
                  then = std::move(then), read_groups = group_reader(), weak = weak_from_this()]() -> JobThread::Then {
    Processes measured;
    measured.own = usage_of_groups(pids, root, read_groups());
    if (const auto own = usage_of_process(::getpid(), root)) measured.own[::getpid()] = *own;
    for (const int pid : others) {
      if (const auto taken = pid == ::getpid() ? std::nullopt : usage_of_process(pid, root))
        measured.others[pid] = *taken;
    }
    for (const auto* part : {&measured.own, &measured.others}) {
      std::error_code error;
      for (const auto& [pid, taken] : *part) {
        if (names)
          measured.programs[pid] =
              std::filesystem::read_symlink(root / "proc" / std::to_string(pid) / "exe", error).filename().string();
      }
    }
    return [weak, then, measured = std::move(measured)] {
      const auto self = weak.lock();
      if (!self || self->closed) return;
      const BootTime now = self->clock.now();
      self->cpu_rates.look(now, measured.own);
      then(now, measured);
    };
  });
}

std::function<std::map<int, ControlGroupUsage>()> NodeAgent::Impl::group_reader() {
  if (options.hosts.groups == nullptr) return [] { return std::map<int, ControlGroupUsage>(); };
  std::map<int, HostId> hosts_by_pid;
  for (const auto& one : core.running()) hosts_by_pid[one.pid] = one.host;
  return [groups = hosts.groups(), reader = options.hosts.groups->reader(), by_pid = std::move(hosts_by_pid),
          io = &loop, weak = weak_from_this()] {
    std::map<int, ControlGroupUsage> usages;
    for (const auto& [pid, group] : groups) {
      HostGroups::Reading reading = reader.read(*group);
      usages[pid] = {.pids = std::move(reading.pids), .cpu_seconds = reading.cpu_seconds};
      const auto host = by_pid.find(pid);
      if (!reading.process_limit || host == by_pid.end() || group->process_limit_told.exchange(true)) continue;
      io->post([weak, id = host->second] {
        if (const auto self = weak.lock(); self && !self->closed) self->hosts.note_process_limit(id);
      });
    }
    return usages;
  };
}

void NodeAgent::Impl::measure_hosts(BootTime asked_at) {
  hosts_at = asked_at;
  if (std::exchange(measures_hosts, true)) return;  // The previous measurement is still running.
  measure_processes(nullptr, [this](BootTime now, const Processes& processes_now) {
    measures_hosts = false;
    std::vector<HostUsage::Host> measured;
    for (const auto& one : core.running()) {
      const protocol::StartHost* start = core.find_start(one.host);
      if (start == nullptr || start->spec().isolation() == protocol::ISOLATION_SHARED) continue;
      measured.push_back({.pid = one.pid, .actor = start->spec().actor_id()});
    }
    usage.clear_hosts();
    for (protocol::HostUsage& row : host_usage.take(now, measured, processes_now.own))
      *usage.add_hosts() = std::move(row);
  });
}

void NodeAgent::Impl::watch_memory(BootTime now, const MemoryLevel& level) {
  if (weighs_hosts || !memory_monitor.is_due(now, level)) return;
  const int64_t warm = options.store != nullptr ? options.store->drop_spares() : 0;
  // Unused memory is released first; the next sample shows the effect.
  if (hosts.hold_off_spares(kHousekeeping) > 0 || warm > 0) return;
  std::set<int> leaders;
  for (const auto& one : core.running()) leaders.insert(one.pid);
  weighs_hosts = true;
  processes.post([leaders = std::move(leaders), root = options.root, level, read_groups = group_reader(),
                  weak = weak_from_this()]() -> JobThread::Then {
    return [weak, level, usages = usage_of_groups(leaders, root, read_groups())] {
      const auto self = weak.lock();
      if (self && !self->closed) self->end_largest(level, usages);
    };
  });
}

void NodeAgent::Impl::end_largest(const MemoryLevel& level, const std::map<int, GroupUsage>& usages) {
  weighs_hosts = false;
  const BootTime now = clock.now();
  std::vector<MemoryMonitor::Host> candidates;
  for (const auto& one : core.running()) {
    if (const auto found = usages.find(one.pid); found != usages.end())
      candidates.push_back({one.host, found->second.memory_bytes, one.retriable});
  }
  auto verdict = memory_monitor.decide(now, level, candidates, options.core.node_name);
  if (verdict) {
    log::warn("worker", "memory is short: a host is ended",
              {{"host", to_string(verdict->host)}, {"why", verdict->why.text()}});
    feed([this, now, verdict = *std::move(verdict)] { return core.on_out_of_memory(now, verdict.host, verdict.why); });
  } else if (now - memory_said_at >= kHousekeeping) {
    memory_said_at = now;
    log::warn("worker", "memory is short, but not by actors of this node",
              {{"used_bytes", level.used_bytes}, {"limit_bytes", level.limit_bytes}});
  }
}

void NodeAgent::Impl::set_timer() {
  if (closed) return;
  const BootTime now = clock.now();
  const BootTime next = std::max(std::min(core.next_tick(now), housekeeping_at), now + milliseconds(1));
  if (timer != 0) {
    if (timer_at <= next && timer_at > now) return;  // An early tick is harmless.
    loop.cancel_timer(timer);
  }
  timer_at = next;
  timer = loop.add_timer(next, [self = shared_from_this()] {
    if (!self->closed) self->tick();
  });
}

void NodeAgent::Impl::apply_actions(Action& action) {
  std::visit([this](auto& each) { carry(each); }, action);
}

void NodeAgent::Impl::carry(SendToHead& action) {
  if (action.message.has_host_ended()) {
    log::info("worker", "host ended",
              {{"host", to_string(id_from_raw<HostId>(action.message.host_ended().host_id()))},
               {"cause", text_of(action.message.host_ended().cause())}});
  }
  // Only on a connection whose state the core has processed: Register must be first.
  if (link && session_seen == session.load()) link->send(std::move(action.message));
}

void NodeAgent::Impl::carry(SetLeaseDeadline& action) {
  lease.set_deadline(action.deadline);
  if (!std::exchange(was_registered, true) && outside.on_registered) outside.on_registered();
}

void NodeAgent::Impl::carry(Reconnect&) {
  log::warn("worker", "the head is silent: connecting anew");
  connect();
}

void NodeAgent::Impl::carry(Finish& action) {
  log::info("worker", "node has stopped", {{"hosts", core.hosts()}});
  if (outside.on_finished) outside.on_finished(std::move(action.error));
}

void NodeAgent::Impl::connect() {
  const uint64_t generation = ++link_generation;
  link.reset();
  control::WorkerLinkCallbacks callbacks;
  std::weak_ptr<Impl> weak = weak_from_this();
  callbacks.on_message = [weak, generation](const protocol::HeadToWorker& message) {
    const auto self = weak.lock();
    if (!self) return;
    self->post_event([raw_self = self.get(), generation, message] {
      if (generation != raw_self->link_generation) return Actions{};
      if (message.has_read_logs()) return raw_self->answer_logs(message.read_logs());
      if (message.has_read_log()) return raw_self->answer_log_part(message.read_log());
      if (message.has_read_run_files()) return raw_self->answer_run_files(message.read_run_files());
      if (message.has_list_objects()) return raw_self->answer_objects(message.list_objects());
      if (message.has_read_stacks()) return raw_self->answer_stacks(message.read_stacks());
      if (message.has_read_timeline()) return raw_self->answer_timeline(message.read_timeline());
      if (message.has_list_processes()) return raw_self->answer_processes(message.list_processes());
      if (message.has_revoked()) return raw_self->on_revoked(message.revoked());
      Actions actions = raw_self->core.on_head_message(raw_self->clock.now(), message);
      if (message.has_registered() && raw_self->options.store != nullptr) raw_self->options.store->tell_actors();
      return message.has_registered() ? raw_self->with_metrics(std::move(actions)) : actions;
    });
  };
  callbacks.on_state = [weak, generation](control::LinkState state, const Error& error) {
    const auto self = weak.lock();
    if (!self) return;
    const uint64_t number = ++self->session;
    self->post_event([raw_self = self.get(), generation, state, error, number] {
      if (generation != raw_self->link_generation) return Actions{};
      raw_self->session_seen = number;
      return raw_self->on_state(state, error);
    });
  };
  link = outside.connect(std::move(callbacks));
}

Actions NodeAgent::Impl::on_revoked(const protocol::RevokedTokens& revoked) {
  log::info("worker", "tokens revoked", {{"tokens", fmt::format("{}", fmt::join(revoked.token_ids(), ", "))}});
  hosts.revoke(revoked);
  if (options.store != nullptr) options.store->revoke(revoked);
  return {};
}

Actions NodeAgent::Impl::on_state(control::LinkState state, const Error& error) {
  if (outside.on_link) outside.on_link(state, error);
  questions.clear();  // Another head may reuse these request numbers.
  if (state == control::LinkState::kConnected) {
    log::info("worker", "connected to the head");
    return core.on_connected(clock.now());
  }
  log::warn("worker", "no connection to the head", {{"reason", error.message}});
  return core.on_disconnected(clock.now(), error);
}

Result<std::unique_ptr<NodeAgent>> NodeAgent::create(net::IoLoop& loop, const Clock& clock, AgentOptions options,
                                                     AgentOutside outside) {
  auto lease = LeaseMemory::create();
  if (!lease) return make_error(lease.error());
  auto impl = std::make_shared<Impl>(loop, clock, std::move(options), std::move(outside), std::move(*lease));
  return std::unique_ptr<NodeAgent>(new NodeAgent(std::move(impl)));
}

NodeAgent::NodeAgent(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

NodeAgent::~NodeAgent() {
  close_link();
  impl_->loop.run([this] {
    impl_->closed = true;
    if (impl_->timer != 0) impl_->loop.cancel_timer(std::exchange(impl_->timer, 0));
    if (impl_->inspection_timer != 0) impl_->loop.cancel_timer(std::exchange(impl_->inspection_timer, 0));
    impl_->check.reset();
    if (impl_->question_timer != 0) impl_->loop.cancel_timer(std::exchange(impl_->question_timer, 0));
    if (impl_->options.hosts.groups != nullptr) impl_->options.hosts.groups->kill_all();
    impl_->children.kill_all(milliseconds(1000));
    impl_.reset();
  });
}

void NodeAgent::start() {
  impl_->loop.post([impl = impl_] {
    if (impl->closed) return;
    impl->housekeeping_at = impl->clock.now() + kHousekeeping;
    impl->sampler.sample(impl->clock.now());
    impl->begin_inspections();
    impl->set_timer();
  });
  if (impl_->options.store == nullptr) return;
  impl_->options.store->on_actors([weak = std::weak_ptr(impl_)](const protocol::HoldActors& holds) {
    const auto self = weak.lock();
    if (!self) return;
    self->loop.post([weak, holds] {
      const auto agent = weak.lock();
      if (agent && !agent->closed) agent->tell_holds(holds);
    });
  });
}

void NodeAgent::stop(const std::string& reason) {
  impl_->post_event([impl = impl_.get(), reason] { return impl->core.on_stop(impl->clock.now(), reason); });
}

void NodeAgent::set_credentials(const security::Credentials& credentials) {
  impl_->loop.post([impl = impl_, credentials] {
    if (impl->link) impl->link->set_credentials(credentials);
  });
}

Result<void> NodeAgent::adopt(HostId host, net::UniqueFd connection, uint64_t number) {
  return impl_->hosts.adopt(host, std::move(connection), number);
}

void NodeAgent::close_link() {
  std::unique_ptr<control::WorkerLink> link;
  impl_->loop.run([&] {
    ++impl_->link_generation;
    link = std::move(impl_->link);
  });
  if (link) link->close();
}

}  // namespace volador::worker
