#include "worker/core/worker_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/protocol/cause.h"
#include "runtime/protocol/error_info.h"

namespace volador::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

int64_t boot_ns(BootTime time) { return time.time_since_epoch().count(); }
BootTime from_boot_ns(int64_t ns) { return BootTime(nanoseconds(ns)); }

// Clamps a setting from the head to a valid range.
milliseconds within(int64_t ms, milliseconds least, milliseconds most, milliseconds otherwise) {
  if (ms <= 0) return otherwise;
  return std::clamp(milliseconds(std::min<int64_t>(ms, most.count())), least, most);
}

constexpr nanoseconds kOwnPause =
    std::chrono::seconds(2);  // A longer gap between ticks means that this process was stopped.
constexpr nanoseconds kNothingDue = std::chrono::hours(1);

}  // namespace

WorkerCore::WorkerCore(CoreOptions options) : options_(std::move(options)) {}

// ---- the connection ----

Actions WorkerCore::on_connected(BootTime now) {
  Actions out;
  if (finished_) return out;
  connected_ = true;
  registered_ = false;
  ++session_;
  last_answer_ = now;
  last_tick_ = now;
  SendToHead hello;
  protocol::Register& message = *hello.message.mutable_register_();
  message = options_.registration;
  message.clear_hosts();
  message.clear_ended();
  *message.mutable_problems() = problems_;
  for (auto& [id, host] : hosts_) {
    *message.add_hosts() = report_of(id, host);
    host.reported = host.ready;
  }
  for (const HostId& id : unconfirmed_) *message.add_ended() = ended_.at(id).message;
  message.set_sent_boot_ns(boot_ns(now));
  message.set_stopping(stopping_);
  out.push_back(std::move(hello));
  return out;
}

Actions WorkerCore::on_disconnected(BootTime /*now*/, const Error& why) {
  connected_ = false;
  registered_ = false;
  Actions out;
  if (finished_) return out;
  if (why.code == ErrorCode::kUnauthenticated) {
    begin_stop(out, why.message, why);
    return out;
  }
  leave_when_empty(out);
  return out;
}

Actions WorkerCore::on_head_message(BootTime now, const protocol::HeadToWorker& message) {
  Actions out;
  if (!connected_ || finished_) return out;
  last_answer_ = now;
  if (message.has_registered()) {
    on_registered(now, out, message.registered());
  } else if (message.has_refused()) {
    const protocol::ErrorInfo& info = message.refused();
    registered_ = false;
    begin_stop(out, "the head refused this node: " + info.message(),
               Error{error_code_from(int64_t{info.code()}), info.message()});
  } else if (!registered_) {
    return out;
  } else if (message.has_heartbeat_ack()) {
    on_ack(now, out, message.heartbeat_ack());
  } else if (message.has_start_host()) {
    on_start(out, message.start_host());
  } else if (message.has_end_host()) {
    on_end(out, message.end_host());
  } else if (message.has_relayed()) {
    const auto id = id_from_raw<HostId>(message.relayed().host_id());
    const auto found = hosts_.find(id);
    if (found != hosts_.end() && found->second.told) {
      SendToHost relayed{id, {}};
      *relayed.message.mutable_relayed() = message.relayed().message();
      out.push_back(std::move(relayed));
    }
  } else if (message.has_stop()) {
    begin_stop(out, message.stop().reason(), std::nullopt);
  }
  return out;
}

void WorkerCore::on_registered(BootTime now, Actions& out, const protocol::Registered& message) {
  if (registered_) return;
  registered_ = true;
  lease_ = within(message.lease_ms(), milliseconds(100), std::chrono::hours(1), lease_);
  heartbeat_ = within(message.heartbeat_ms(), milliseconds(10), std::chrono::minutes(1), heartbeat_);
  park_max_ = within(message.park_max_ms(), milliseconds(100), std::chrono::hours(24 * 7), park_max_);
  cluster_name_ = message.cluster_name();
  next_heartbeat_ = now + heartbeat_;

  for (const std::string& raw_id : message.stale_hosts()) {
    const auto found = hosts_.find(id_from_raw<HostId>(raw_id));
    if (found == hosts_.end()) continue;
    Host& host = found->second;
    if (host.told) stale_.insert(found->first);
    end_host(out, found->first, host, make_cause(protocol::DeathCause::LEASE_LOST, reason("cause.replaced")),
             milliseconds(0));
  }
  offer_lease(now, out, message.sent_boot_ns());

  for (const HostId& id : unconfirmed_) send_ended(out, id);
  for (auto& [id, host] : hosts_) report_ready(out, id, host);
  for (auto& relayed : relays_) {
    SendToHead waiting;
    *waiting.message.mutable_relay() = std::move(relayed);
    out.push_back(std::move(waiting));
  }
  relays_.clear();
  relay_bytes_ = 0;
  for (const auto& [id, host] : hosts_) {
    if (!host.told || host.phase == Phase::kEnding) continue;
    SendToHost welcome{id, {}};
    protocol::Welcome& text = *welcome.message.mutable_relayed()->mutable_welcome();
    text.set_cluster_id(message.cluster_id());
    text.set_cluster_name(message.cluster_name());
    out.push_back(std::move(welcome));
  }
  leave_when_empty(out);
}

void WorkerCore::on_ack(BootTime now, Actions& out, const protocol::HeartbeatAck& ack) {
  if (ack.sequence() > sequence_) return;
  confirm_ended(ack.sequence());
  offer_lease(now, out, ack.sent_boot_ns());
}

void WorkerCore::offer_lease(BootTime now, Actions& out, int64_t sent_boot_ns) {
  const BootTime deadline = std::min(from_boot_ns(sent_boot_ns), now) + lease_;
  if (!offered_ || *offered_ < deadline) offered_ = deadline;
  apply_lease(out);
}

void WorkerCore::apply_lease(Actions& out) {
  if (!offered_ || !stale_.empty()) return;
  if (!deadline_ || *deadline_ < *offered_) {
    deadline_ = *offered_;
    out.push_back(SetLeaseDeadline{*deadline_});
  }
  offered_.reset();
}

// ---- hosts ----

protocol::HostReport WorkerCore::report_of(HostId id, const Host& host) const {
  protocol::HostReport report;
  report.set_host_id(raw(id));
  report.set_actor_id(host.start.spec().actor_id());
  report.set_epoch(host.start.epoch());
  report.set_ready(host.ready);
  report.set_pid(host.pid);
  if (host.ready) *report.mutable_address() = host.address;
  return report;
}

void WorkerCore::on_start(Actions& out, const protocol::StartHost& start) {
  const auto id = id_from_raw<HostId>(start.host_id());
  if (id.is_nil() || hosts_.contains(id)) return;
  if (ended_.contains(id)) {
    unconfirmed_.insert(id);
    send_ended(out, id);
    return;
  }
  Host& host = hosts_[id];
  host.start = start;
  if (stopping_) {
    finish_host(out, id, make_cause(protocol::DeathCause::NODE_LOST, reason("cause.node_stops", options_.node_name)));
    return;
  }
  out.push_back(LaunchHost{id, start});
}

void WorkerCore::on_end(Actions& out, const protocol::EndHost& end) {
  const auto id = id_from_raw<HostId>(end.host_id());
  protocol::DeathCause cause = end.cause();
  if (cause.kind() == protocol::DeathCause::KIND_UNSPECIFIED) {
    cause.set_kind(protocol::DeathCause::KILLED);
  }
  const auto found = hosts_.find(id);
  if (found != hosts_.end()) {
    const auto grace = std::clamp(milliseconds(std::clamp<int64_t>(end.grace_ms(), 0, options_.end_grace_max.count())),
                                  milliseconds(0), options_.end_grace_max);
    end_host(out, id, found->second, cause, grace);
    return;
  }
  if (id.is_nil()) return;
  if (!ended_.contains(id)) {
    Ended& ended = ended_[id];
    ended.message.set_host_id(end.host_id());
    cause.set_node_name(options_.node_name);
    *ended.message.mutable_cause() = cause;
  }
  unconfirmed_.insert(id);
  send_ended(out, id);
}

void WorkerCore::end_host(Actions& out, HostId id, Host& host, const protocol::DeathCause& cause, milliseconds grace) {
  const bool launching = host.pid == 0;
  const bool repeated = host.phase == Phase::kEnding && host.asked_cause.has_value();
  if (!host.asked_cause) host.asked_cause = cause;
  host.phase = Phase::kEnding;
  set_kill_time(id, host, std::nullopt);
  if (launching) {
    if (!repeated) out.push_back(CancelLaunch{id});
    return;
  }
  if (!repeated && grace > milliseconds(0) && host.told) {
    SendToHost request{id, {}};
    request.message.mutable_end()->set_grace_ms(grace.count());
    out.push_back(std::move(request));
  }
  out.push_back(EndProcess{id, grace});
}

void WorkerCore::set_kill_time(HostId id, Host& host, std::optional<BootTime> at) {
  if (host.kill_at) kill_times_.erase({*host.kill_at, id});
  host.kill_at = at;
  if (at) kill_times_.emplace(*at, id);
}

Actions WorkerCore::on_launched(BootTime now, HostId id, int pid, protocol::HostStart extra) {
  Actions out;
  const auto found = hosts_.find(id);
  if (found == hosts_.end()) {
    out.push_back(EndProcess{id, milliseconds(0)});
    return out;
  }
  Host& host = found->second;
  // A new process of the host; it received the same messages as the first one.
  if (std::exchange(host.pid, pid) != 0) return out;
  if (host.phase != Phase::kLaunching) {
    out.push_back(EndProcess{id, milliseconds(0)});
    return out;
  }
  host.phase = Phase::kStarting;
  host.told = true;
  const int64_t wanted = host.start.spec().start_timeout_ms();
  set_kill_time(id, host, now + within(wanted, milliseconds(1), std::chrono::hours(24), options_.start_timeout));
  const HostId process = extra.shared_host_id().empty() ? id : id_from_raw<HostId>(extra.shared_host_id());
  host.address.set_host_id(raw(process));
  host.address.set_machine_id(options_.registration.machine_id());
  host.address.set_tcp_address(options_.registration.data_address());
  host.address.set_unix_path(extra.socket_dir() + "/" + hex(process.bytes()).substr(0, 16) + ".sock");
  *extra.mutable_start() = host.start;
  extra.set_node_id(options_.registration.node_id());
  extra.set_node_name(options_.node_name);
  extra.set_machine_id(options_.registration.machine_id());
  extra.set_data_address(options_.registration.data_address());
  extra.set_park_max_ms(park_max_.count());
  extra.set_cluster_name(cluster_name_);
  SendToHost start{id, {}};
  *start.message.mutable_start() = std::move(extra);
  out.push_back(std::move(start));
  return out;
}

Actions WorkerCore::on_launch_failed(BootTime /*now*/, HostId id, const protocol::DeathCause& cause) {
  Actions out;
  const auto found = hosts_.find(id);
  if (found == hosts_.end() || found->second.pid != 0) return out;
  finish_host(out, id, found->second.asked_cause.value_or(cause));
  return out;
}

Actions WorkerCore::on_host_message(BootTime now, HostId id, const protocol::FromHost& message) {
  Actions out;
  const auto found = hosts_.find(id);
  if (found == hosts_.end() || !found->second.told) return out;
  Host& host = found->second;
  if (message.has_relay()) {
    relay(out, id, message.relay());
  } else if (message.has_ready()) {
    if (host.phase != Phase::kStarting) return out;
    host.phase = Phase::kRunning;
    host.ready = true;
    set_kill_time(id, host, std::nullopt);
    report_ready(out, id, host);
  } else if (message.has_failed()) {
    if (host.own_cause) return out;
    host.own_cause = message.failed().cause();
    if (host.own_cause->kind() == protocol::DeathCause::KIND_UNSPECIFIED) {
      host.own_cause->set_kind(protocol::DeathCause::CONSTRUCTOR_THREW);
    }
    if (host.phase != Phase::kEnding) {
      host.phase = Phase::kEnding;
      set_kill_time(id, host, now + options_.failed_host_grace);
    }
  }
  return out;
}

void WorkerCore::report_ready(Actions& out, HostId id, Host& host) {
  if (!registered_ || !host.ready || host.reported) return;
  host.reported = true;
  SendToHead report;
  *report.message.mutable_host_ready() = report_of(id, host);
  out.push_back(std::move(report));
}

void WorkerCore::relay(Actions& out, HostId id, const protocol::ClientMessage& message) {
  protocol::Relay relayed;
  relayed.set_host_id(raw(id));
  *relayed.mutable_message() = message;
  if (registered_) {
    SendToHead packet;
    *packet.message.mutable_relay() = std::move(relayed);
    out.push_back(std::move(packet));
    return;
  }
  relay_bytes_ += relayed.ByteSizeLong();
  relays_.push_back(std::move(relayed));
  while (relay_bytes_ > options_.relay_bytes_max) {
    relay_bytes_ -= relays_.front().ByteSizeLong();
    relays_.pop_front();
  }
}

Actions WorkerCore::on_host_closed(BootTime /*now*/, HostId id) {
  Actions out;
  const auto found = hosts_.find(id);
  if (found == hosts_.end() || found->second.phase == Phase::kEnding) return out;
  end_host(out, id, found->second, make_cause(protocol::DeathCause::SIGNALED, reason("cause.closed_socket")),
           milliseconds(0));
  return out;
}

Actions WorkerCore::on_host_exit(BootTime /*now*/, HostId id, const HostExit& exit) {
  Actions out;
  const auto found = hosts_.find(id);
  if (found == hosts_.end()) return out;
  const Host& host = found->second;
  protocol::DeathCause cause = cause_of_exit(exit);
  if (host.own_cause || host.asked_cause) {
    const protocol::DeathCause seen = std::move(cause);
    cause = host.own_cause ? *host.own_cause : *host.asked_cause;
    if (cause.exit_code() == 0) cause.set_exit_code(seen.exit_code());
    if (cause.signal() == 0) cause.set_signal(seen.signal());
  }
  if (cause.stderr_tail().empty()) cause.set_stderr_tail(exit.stderr_tail);
  finish_host(out, id, std::move(cause));
  return out;
}

void WorkerCore::finish_host(Actions& out, HostId id, protocol::DeathCause cause) {
  const auto found = hosts_.find(id);
  VOLADOR_CHECK(found != hosts_.end(), to_string(id));
  const Host& host = found->second;
  cause.set_node_name(options_.node_name);
  cause.set_pid(host.pid);
  Ended& ended = ended_[id];
  ended.message.set_host_id(raw(id));
  ended.message.set_actor_id(host.start.spec().actor_id());
  ended.message.set_epoch(host.start.epoch());
  *ended.message.mutable_cause() = std::move(cause);
  unconfirmed_.insert(id);
  set_kill_time(id, found->second, std::nullopt);
  hosts_.erase(found);
  dropped_lines_.erase(id);
  if (registered_) send_ended(out, id);
  stale_.erase(id);
  apply_lease(out);
  leave_when_empty(out);
}

void WorkerCore::send_ended(Actions& out, HostId id) {
  Ended& ended = ended_.at(id);
  ended.sent_session = session_;
  ended.sent_sequence = sequence_;
  SendToHead packet;
  *packet.message.mutable_host_ended() = ended.message;
  out.push_back(std::move(packet));
}

// An answer to a heartbeat sent after HostEnded on the same connection proves that the head has read both.
void WorkerCore::confirm_ended(uint64_t acked_sequence) {
  for (auto at = unconfirmed_.begin(); at != unconfirmed_.end();) {
    const Ended& ended = ended_.at(*at);
    if (ended.sent_session != session_ || ended.sent_sequence >= acked_sequence) {
      ++at;
      continue;
    }
    confirmed_.push_back(*at);
    at = unconfirmed_.erase(at);
  }
  while (confirmed_.size() > options_.ended_kept) {
    if (!unconfirmed_.contains(confirmed_.front())) ended_.erase(confirmed_.front());
    confirmed_.pop_front();
  }
}

Actions WorkerCore::on_program_failed(BootTime /*now*/, const std::string& sha256, const Error& error) {
  Actions out;
  if (!registered_) return out;
  SendToHead packet;
  protocol::ProgramFailed& failed = *packet.message.mutable_program_failed();
  failed.set_sha256(sha256);
  fill(*failed.mutable_error(), error);
  out.push_back(std::move(packet));
  return out;
}

Actions WorkerCore::on_log(BootTime /*now*/, HostId id, protocol::LogLines lines) {
  Actions out;
  const auto found = hosts_.find(id);
  if (found == hosts_.end()) return out;
  if (!registered_) {
    dropped_lines_[id] += lines.dropped() + static_cast<uint64_t>(lines.lines_size());
    return out;
  }
  const protocol::ActorSpec& spec = found->second.start.spec();
  lines.set_actor_id(spec.actor_id());
  lines.set_display(spec.display().empty() ? spec.class_name() : spec.display());
  lines.set_node_name(options_.node_name);
  if (const auto dropped = dropped_lines_.find(id); dropped != dropped_lines_.end()) {
    lines.set_dropped(lines.dropped() + dropped->second);
    dropped_lines_.erase(dropped);
  }
  SendToHead packet;
  *packet.message.mutable_log() = std::move(lines);
  out.push_back(std::move(packet));
  return out;
}

// ---- shutdown and timers ----

Actions WorkerCore::on_stop(BootTime /*now*/, const std::string& reason) {
  Actions out;
  begin_stop(out, reason, std::nullopt);
  return out;
}

void WorkerCore::begin_stop(Actions& out, const std::string& reason, std::optional<Error> error) {
  if (error && !refusal_) refusal_ = std::move(error);
  if (!stopping_) {
    stopping_ = true;
    if (registered_) {
      SendToHead stopping;
      stopping.message.mutable_stopping();
      out.push_back(std::move(stopping));
    }
    const auto cause = make_cause(protocol::DeathCause::NODE_LOST,
                                  volador::reason("cause.node_stops_because", options_.node_name, reason));
    for (auto& [id, host] : hosts_) {
      if (host.phase != Phase::kEnding)
        end_host(out, id, host, cause, options_.stop_grace);
      else if (host.pid != 0)
        out.push_back(EndProcess{id, options_.stop_grace});
    }
  }
  leave_when_empty(out);
}

void WorkerCore::leave_when_empty(Actions& out) {
  if (!stopping_ || finished_ || !hosts_.empty()) return;
  finished_ = true;
  if (registered_) {
    SendToHead leaving;
    leaving.message.mutable_leaving();
    out.push_back(std::move(leaving));
  }
  out.push_back(Finish{refusal_});
}

Actions WorkerCore::on_tick(BootTime now, const protocol::NodeUsage& usage) {
  Actions out;
  if (finished_) return out;
  if (now - last_tick_ > kOwnPause && last_answer_ < now)
    last_answer_ = now;  // Answers may be unread because this process was stopped.
  last_tick_ = now;

  while (!kill_times_.empty() && kill_times_.begin()->first <= now) {
    const HostId id = kill_times_.begin()->second;
    Host& host = hosts_.at(id);
    const int64_t wanted = host.start.spec().start_timeout_ms();
    const auto limit = within(wanted, milliseconds(1), std::chrono::hours(24), options_.start_timeout);
    const auto cause = make_cause(protocol::DeathCause::START_FAILED,
                                  reason("cause.constructor_slow", host.start.spec().class_name(),
                                         fmt::format("{:.1f} s", std::chrono::duration<double>(limit).count())));
    end_host(out, id, host, cause, milliseconds(0));
  }
  if (deadline_ && now >= *deadline_ + park_max_) {
    for (auto& [id, host] : hosts_) {
      if (host.phase == Phase::kEnding || !host.told) continue;
      const auto cause =
          make_cause(protocol::DeathCause::LEASE_LOST,
                     reason("cause.unconfirmed", std::chrono::duration_cast<std::chrono::seconds>(park_max_).count()));
      end_host(out, id, host, cause, milliseconds(0));
    }
  }
  if (registered_ && now >= next_heartbeat_) {
    next_heartbeat_ += heartbeat_;
    if (next_heartbeat_ <= now) next_heartbeat_ = now + heartbeat_;
    SendToHead packet;
    protocol::Heartbeat& heartbeat = *packet.message.mutable_heartbeat();
    heartbeat.set_sequence(++sequence_);
    heartbeat.set_sent_boot_ns(boot_ns(now));
    *heartbeat.mutable_usage() = usage;
    out.push_back(std::move(packet));
  }
  if (connected_ && now - last_answer_ >= options_.silence_max) {
    connected_ = false;
    registered_ = false;
    out.push_back(Reconnect{});
  }
  return out;
}

Actions WorkerCore::on_out_of_memory(BootTime /*now*/, HostId id, const Reason& why) {
  Actions out;
  const auto found = hosts_.find(id);
  if (found == hosts_.end() || found->second.pid == 0 || found->second.phase == Phase::kEnding) return out;
  const auto cause = make_cause(protocol::DeathCause::OUT_OF_MEMORY, why);
  if (!is_shared(found->second)) {
    end_host(out, id, found->second, cause, milliseconds(0));
    return out;
  }
  // Its memory is released only with the process.
  const int pid = found->second.pid;
  for (auto& [other, host] : hosts_) {
    if (host.pid == pid && is_shared(host) && !host.own_cause && !host.asked_cause) host.own_cause = cause;
  }
  out.push_back(EndProcess{id, milliseconds(0), true});
  return out;
}

std::vector<WorkerCore::Running> WorkerCore::running() const {
  std::map<int, Running> processes;
  for (const auto& [id, host] : hosts_) {
    if (host.pid == 0 || host.phase == Phase::kEnding) continue;
    const protocol::ActorSpec& spec = host.start.spec();
    const bool retriable = spec.retriable() || spec.max_restarts() != 0;
    const auto [known, first] = processes.emplace(host.pid, Running{id, host.pid, retriable});
    if (!first) known->second.retriable = known->second.retriable && retriable;
  }
  std::vector<Running> running;
  for (const auto& [pid, one] : processes) running.push_back(one);
  return running;
}

std::map<int, std::vector<ActorId>> WorkerCore::actors_by_process() const {
  std::map<int, std::vector<ActorId>> actors;
  for (const auto& [id, host] : hosts_) {
    if (host.pid != 0) actors[host.pid].push_back(id_from_raw<ActorId>(host.start.spec().actor_id()));
  }
  return actors;
}

std::optional<HostId> WorkerCore::host_of(ActorId actor) const {
  for (const auto& [id, host] : hosts_) {
    if (host.told && host.start.spec().actor_id() == raw(actor)) return id;
  }
  return std::nullopt;
}

BootTime WorkerCore::next_tick(BootTime now) const {
  BootTime next = now + kNothingDue;
  if (registered_) next = std::min(next, next_heartbeat_);
  if (connected_) next = std::min(next, last_answer_ + options_.silence_max);
  if (!kill_times_.empty()) next = std::min(next, kill_times_.begin()->first);
  if (!hosts_.empty() && deadline_ && *deadline_ + park_max_ > now) next = std::min(next, *deadline_ + park_max_);
  return std::max(next, now);
}

const protocol::StartHost* WorkerCore::find_start(HostId host) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? nullptr : &found->second.start;
}

void WorkerCore::check_invariants() const {
  VOLADOR_CHECK(connected_ || !registered_);
  VOLADOR_CHECK(!finished_ || hosts_.empty());
  for (const HostId& id : stale_) {
    const auto found = hosts_.find(id);
    VOLADOR_CHECK(found != hosts_.end() && found->second.phase == Phase::kEnding, to_string(id));
  }
  VOLADOR_CHECK(stale_.empty() || offered_ || !registered_ || deadline_);
  for (const auto& [id, host] : hosts_) {
    VOLADOR_CHECK(!ended_.contains(id), to_string(id));
    VOLADOR_CHECK(host.told == (host.pid != 0 && host.told), to_string(id));
    VOLADOR_CHECK(host.phase != Phase::kLaunching || host.pid == 0, to_string(id));
    VOLADOR_CHECK(host.ready == (host.phase == Phase::kRunning) || host.phase == Phase::kEnding, to_string(id));
  }
  for (const HostId& id : unconfirmed_) VOLADOR_CHECK(ended_.contains(id), to_string(id));
  for (const auto& [at, id] : kill_times_)
    VOLADOR_CHECK(hosts_.contains(id) && hosts_.at(id).kill_at == at, to_string(id));
}

}  // namespace volador::worker
