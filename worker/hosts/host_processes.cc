#include "worker/hosts/host_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <deque>
#include <thread>

#include "runtime/log.h"
#include "runtime/net/fd_passing.h"
#include "worker/hosts/host_process.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr int kMessagesATurn = 64;

}  // namespace

HostProcesses::HostProcesses(net::IoLoop& loop, Children& children, TemplatePool& templates, ProgramStore& programs,
                             JobThread& disk, CertifyHost certify, HostOptions options, HostEvents events)
    : loop_(loop),
      children_(children),
      templates_(templates),
      programs_(programs),
      disk_(disk),
      certify_(std::move(certify)),
      options_(std::move(options)),
      events_(std::move(events)),
      spares_(loop, children, templates, options_.groups, options_.spares),
      memory_kills_(memory_kills()) {}

HostProcesses::~HostProcesses() {
  *alive_ = false;
  while (!hosts_.empty()) {
    const HostPtr host = hosts_.begin()->second;
    if (host->pid != 0) children_.signal(host->pid, SIGKILL);
    forget(host);
  }
}

// ---- launch ----

Environment HostProcesses::host_env(const Host& host) const {
  const protocol::StartHost& start = host.start;
  Environment env;
  for (const auto& [name, value] : start.spec().env()) env[name] = value;
  std::vector<int> granted(start.gpus().begin(), start.gpus().end());
  env["CUDA_VISIBLE_DEVICES"] = cuda_visible_devices(options_.gpus, granted);
  env["VOLADOR_HOST_ID"] = to_string(id_from_raw<HostId>(start.host_id()));
  if (!host.files.empty()) env["VOLADOR_FILES"] = host.files;
  return env;
}

ProgramStart HostProcesses::program_start(const protocol::StartHost& start) const {
  ProgramStart program;
  const protocol::Program& sent = start.program();
  program.argv.assign(sent.argv().begin(), sent.argv().end());
  program.env = options_.base_env;
  for (const auto& [name, value] : sent.env()) program.env[name] = value;
  program.env.erase("VOLADOR_TOKEN");
  if (!program.env.contains("CUDA_VISIBLE_DEVICES") && !program.env.contains("CUDA_DEVICE_ORDER"))
    program.env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  program.env["CUDA_VISIBLE_DEVICES"] = "";  // A template must not use a device; each host gets its own devices.
  program.env["VOLADOR_NODE_ID"] = to_string(options_.node);
  return program;
}

void HostProcesses::launch(HostId id, const protocol::StartHost& start) {
  if (start.spec().isolation() == protocol::ISOLATION_SHARED) return launch_shared(id, start);
  if (!hosts_.contains(id)) launch_process(id, start, false);
}

void HostProcesses::launch_process(HostId id, const protocol::StartHost& start, bool shared) {
  auto host = std::make_shared<Host>();
  host->shared = shared;
  host->owner = this;
  host->self = host;
  host->id = id;
  host->start = start;
  host->program = program_start(start);
  hosts_[id] = host;
  if (shared) host->pending.push_back(id);
  // Results arrive at once or from other threads, which reach this object only through the loop.
  const auto back = [this, host, &loop = loop_, alive = alive_](auto handler) {
    return [this, host, &loop, alive, handler](auto result) {
      auto deliver = [this, host, alive, handler, moved = std::move(result)]() mutable {
        if (*alive && host->owner != nullptr) (this->*handler)(host, std::move(moved));
      };
      if (loop.in_loop()) {
        deliver();
      } else {
        loop.post(std::move(deliver));
      }
    };
  };
  if (options_.certificates)
    certify_(id, back(&HostProcesses::on_certificate));
  else
    host->credentials.emplace();
  programs_.prepare(start.program(), host->program.env, back(&HostProcesses::on_program));
  if (start.spec().files_sha256().empty()) return;
  protocol::Program files;
  files.set_data(true);
  files.set_sha256(start.spec().files_sha256());
  files.set_size_bytes(start.spec().files_bytes());
  programs_.prepare(files, {}, back(&HostProcesses::on_files));
}

void HostProcesses::on_files(const HostPtr& host, Result<PreparedProgram> files) {
  if (!files) {
    return fail(host, Error{files.error().code, fmt::format("the files of {} cannot be fetched: {}",
                                                            host->start.spec().display(), files.error().message)});
  }
  host->files = std::move(files->path);
  fork_if_complete(host);
}

void HostProcesses::fork_if_complete(const HostPtr& host) {
  const bool has_files = host->start.spec().files_sha256().empty() || !host->files.empty();
  if (host->credentials && !host->path.empty() && has_files) fork(host);
}

void HostProcesses::on_program(const HostPtr& host, Result<PreparedProgram> program) {
  if (!program) {
    if (program.error().code == ErrorCode::kInvalidArgument)
      events_.program_failed(host->start.program().sha256(), program.error());
    return fail(host, program.error());
  }
  host->path = std::move(program->path);
  host->program.cwd = std::move(program->cwd);
  fork_if_complete(host);
}

void HostProcesses::on_certificate(const HostPtr& host, Result<security::Credentials> credentials) {
  if (!credentials) {
    return fail(host, Error{credentials.error().code,
                            fmt::format("no certificate for the host: {}", credentials.error().message)});
  }
  if (host->told) {  // A renewed certificate for a running host.
    protocol::ToHost message;
    message.mutable_certificate()->set_certificate_pem(credentials->certificate_pem);
    message.mutable_certificate()->set_key_pem(credentials->key_pem);
    message.mutable_certificate()->set_authority_pem(credentials->authority_pem);
    host->credentials = std::move(*credentials);
    if (host->control) enqueue(host, message.SerializeAsString(), {});
    return;
  }
  host->credentials = std::move(*credentials);
  fork_if_complete(host);
}

void HostProcesses::fork(const HostPtr& host) {
  if (host->cancelled) return fail(host, Error{ErrorCode::kCancelled, "not wanted any more"});
  ++host->tries;
  host->program.path = host->path;
  if (host->tries == 1) spares_.on_launch(host->program, host->id);
  // Created by the host on demand, or here if it is the working directory.
  if (host->scratch.empty()) host->scratch = options_.scratch_dir / to_string(host->id).substr(0, 16);
  host->in_scratch = host->program.cwd != host->start.program().cwd();
  if (host->in_scratch) ::mkdir(host->scratch.c_str(), 0700);
  const auto actor = id_from_raw<ActorId>(host->start.spec().actor_id());
  const fs::path stem = options_.log_dir / fmt::format("{}-{}", short_id(actor), host->start.restarts());
  host->output = std::make_unique<LogCapture>(
      loop_, &disk_, stem,
      [this, id = host->id](LogBatch batch) {
        if (const auto named = actor_named(id); events_.log && named) events_.log(*named, std::move(batch));
      },
      options_.logs);
  if (auto spare = spares_.take(host->program)) return use_spare(host, std::move(*spare));
  auto pipes = host->output->open();
  if (!pipes) return fail(host, pipes.error());
  auto pair = net::seqpacket_pair();
  if (!pair) return fail(host, pair.error());
  host->control = std::move(pair->first);
  host->forking = true;
  HostFork fork{.host = host->id,
                .env = host_env(*host),
                .cwd = host->in_scratch ? host->scratch.string() : "",
                .control = std::move(pair->second),
                .out = std::move(pipes->out),
                .err = std::move(pipes->err)};
  templates_.fork(host->program, std::move(fork),
                  [this, host, alive = alive_](tl::expected<pid_t, TemplatePool::Failure> pid) {
                    if (*alive && host->owner != nullptr) on_forked(host, std::move(pid));
                  });
}

void HostProcesses::on_forked(const HostPtr& host, tl::expected<pid_t, TemplatePool::Failure> pid) {
  host->forking = false;
  spares_.on_process(host->id);
  if (!pid) {
    const bool again =
        pid.error().error.code == ErrorCode::kUnavailable && host->tries < options_.launch_tries && !host->cancelled;
    if (!again) return fail(host, pid.error().error, pid.error().stderr_tail);
    host->control.reset();  // A process created anyway ends with the socket.
    log::warn("worker", "a host is launched again",
              {{"host", to_string(host->id)}, {"reason", pid.error().error.message}});
    loop_.post([this, host, alive = alive_] {
      if (*alive && host->owner != nullptr) fork(host);
    });
    return;
  }
  const auto watched = children_.watch(*pid, [this, host, alive = alive_](ExitStatus status) {
    if (*alive && host->owner != nullptr) on_exit(host, status);
  });
  if (!watched) {
    return fail(host, Error{ErrorCode::kInternal,
                            fmt::format("the process {} of the host was gone before it could be watched", *pid)});
  }
  host->pid = *pid;
  if (host->cancelled) children_.signal(host->pid, SIGKILL);
  const auto polled = loop_.watch(host->control.get(), EPOLLIN, host);
  if (!polled) children_.signal(host->pid, SIGKILL);
  if (options_.groups == nullptr) return on_placed(host);
  place(host);
}

// Its limits hold before code of the user runs, which HostStart begins.
void HostProcesses::place(const HostPtr& host) {
  if (host->shared) return on_placed(host);  // Its actors have different limits.
  const auto& asked = host->start.spec().resources().amounts();
  const auto amount = [&asked](const char* name) {
    const auto found = asked.find(name);
    return found == asked.end() ? Amount{0} : found->second;
  };
  const GroupLimits limits =
      options_.groups->limits_for(amount("memory"), static_cast<double>(amount("cpus")) / static_cast<double>(kUnit));
  children_.hold(host->pid);
  auto placed = [this, host, pid = host->pid, alive = alive_] {
    if (!*alive) return;
    if (host->owner != nullptr) on_placed(host);
    children_.release(pid);
  };
  if (host->group)
    options_.groups->change(host->group, host->pid, limits, std::move(placed));
  else
    host->group = options_.groups->place(host->pid, limits, std::move(placed));
}

void HostProcesses::on_placed(const HostPtr& host) {
  host->told = true;
  if (host->shared) return admit_pending(host);
  events_.launched(host->id, host->pid, extra_of(*host));
  if (host->lost && host->control) tell_again(host);
}

// Returns the parts of HostStart that do not describe the actor.
protocol::HostStart HostProcesses::extra_of(const Host& host) const {
  protocol::HostStart extra;
  extra.set_socket_dir(options_.socket_dir.string());
  extra.set_store_socket(options_.store_socket);
  extra.set_scratch_dir(host.scratch.string());
  extra.set_certificate_pem(host.credentials->certificate_pem);
  extra.set_key_pem(host.credentials->key_pem);
  extra.set_authority_pem(host.credentials->authority_pem);
  if (host.shared) extra.set_shared_host_id(raw(host.id));
  if (host.ahead) {
    for (const auto& [name, value] : host_env(host)) (*extra.mutable_env())[name] = value;
    if (host.in_scratch) extra.set_cwd(host.scratch.string());
  }
  *extra.mutable_revoked() = revoked_;
  return extra;
}

void HostProcesses::cancel(HostId id) {
  if (shared_.process_of(id)) return cancel_shared(id);
  const auto found = hosts_.find(id);
  if (found == hosts_.end()) return;
  const HostPtr host = found->second;
  host->cancelled = true;
  if (host->pid != 0) return end(id, milliseconds(0));
  if (host->forking && !templates_.cancel(id)) return;  // The template is forking: on_forked kills the result.
  fail(host, Error{ErrorCode::kCancelled, "not wanted any more"});
}

void HostProcesses::fail(const HostPtr& host, const Error& error, const std::string& stderr_tail) {
  protocol::DeathCause cause;
  cause.set_kind(error.code == ErrorCode::kCancelled ? protocol::DeathCause::KILLED
                                                     : protocol::DeathCause::START_FAILED);
  cause.set_message(error.message);
  cause.set_stderr_tail(stderr_tail);
  const HostId id = host->id;
  const bool shared = host->shared;
  const std::optional<HostExit> lost = host->lost;
  forget(host);
  if (lost) return events_.exited(id, *lost);
  if (!shared) return events_.launch_failed(id, cause);
  for (const HostId actor : shared_.remove_process(id)) events_.launch_failed(actor, cause);
}

// ---- messages ----

void HostProcesses::send(HostId id, const protocol::ToHost& message) {
  if (shared_.process_of(id)) return send_shared(id, message);
  const auto found = hosts_.find(id);
  if (found == hosts_.end() || !found->second->control) return;
  std::string bytes = message.SerializeAsString();
  if (message.has_start() && found->second->ahead) found->second->start_message = bytes;
  enqueue(found->second, std::move(bytes), {});
}

Result<void> HostProcesses::adopt(HostId id, net::UniqueFd connection, uint64_t number) {
  const auto found = hosts_.find(id);
  if (found == hosts_.end() || !found->second->control || !found->second->told) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("no host {} runs on node {}", to_string(id), options_.node_name));
  }
  protocol::ToHost message;
  message.mutable_adopt()->set_connection(number);
  enqueue(found->second, message.SerializeAsString(), std::move(connection));
  return {};
}

void HostProcesses::revoke(const protocol::RevokedTokens& tokens) {
  protocol::ToHost message;
  for (const std::string& id : tokens.token_ids()) {  // Each registration resends all of them.
    if (std::ranges::find(revoked_.token_ids(), id) != revoked_.token_ids().end()) continue;
    revoked_.add_token_ids(id);
    message.mutable_revoked()->add_token_ids(id);
  }
  if (!message.has_revoked()) return;
  const std::string bytes = message.SerializeAsString();
  for (const auto& [id, host] : std::map(hosts_)) {
    if (host->told && host->control) enqueue(host, bytes, {});
  }
}

void HostProcesses::enqueue(const HostPtr& host, std::string bytes, net::UniqueFd fd) {
  host->outbox_bytes += bytes.size();
  host->outbox.push_back({std::move(bytes), std::move(fd)});
  if (!host->writing) flush(host);
  if (host->outbox_bytes > options_.outbox_bytes_max) {
    log::warn("worker", "a host does not read its control socket and is ended",
              {{"host", to_string(host->id)}, {"pid", host->pid}});
    host->outbox.clear();
    host->outbox_bytes = 0;
    closed(host);
  }
}

void HostProcesses::flush(const HostPtr& host) {
  while (!host->outbox.empty()) {
    const Host::Packet& packet = host->outbox.front();
    const int fd = packet.fd.get();
    const auto sent = net::send_message(host->control.get(), packet.bytes, std::span<const int>(&fd, packet.fd ? 1 : 0),
                                        milliseconds(0));
    if (!sent) break;  // Full, or the host is gone: its exit handles that.
    host->outbox_bytes -= packet.bytes.size();
    ++host->packets_sent;
    host->outbox.pop_front();
  }
  const bool more = !host->outbox.empty();
  if (more != host->writing) {
    host->writing = more;
    loop_.change(host->control.get(), more ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
}

void HostProcesses::read(const HostPtr& host) {
  look_for_unread_start(host);
  for (int i = 0; i < kMessagesATurn && host->control; ++i) {
    auto message = net::try_recv_message(host->control.get());
    if (!message) {
      loop_.unwatch(host->control.get());
      host->control.reset();
      // Usually the host has ended, which the pidfd reports better: wait for that before treating it as a live host
      // without a socket.
      loop_.add_timer(loop_.now() + milliseconds(500), [this, host, pid = host->pid, alive = alive_] {
        if (*alive && host->owner != nullptr && host->pid == pid) closed(host);
      });
      return;
    }
    if (!*message) return;
    protocol::FromHost said;
    if (!said.ParseFromString((*message)->bytes)) continue;
    if (said.has_ready() || said.has_failed()) spares_.on_settled(host->id);
    if (said.has_proved()) {
      events_.proved(said.proved().connection());
    } else if (host->shared) {
      hear_shared(host, said);
    } else if (said.has_ended()) {
      on_ended(host);
    } else {
      events_.message(host->id, said);
    }
  }
}

void HostProcesses::renew_certificates(WallTime now) {
  if (!options_.certificates) return;
  for (const auto& [id, host] : hosts_) {
    if (!host->told || !host->credentials) continue;
    const auto validity = security::validity_of(host->credentials->certificate_pem);
    if (!validity || !security::due_for_renewal(*validity, now)) continue;
    certify_(id, [this, host = host, &loop = loop_, alive = alive_](Result<security::Credentials> fresh) {
      loop.post([this, host, alive, fresh = std::move(fresh)]() mutable {
        if (!*alive || host->owner == nullptr) return;
        if (fresh) return on_certificate(host, std::move(fresh));
        log::warn("worker", "a host's certificate could not be renewed; tried again soon",
                  {{"host", to_string(host->id)}, {"reason", fresh.error().message}});
      });
    });
  }
}

// ---- end ----

void HostProcesses::end(HostId id, milliseconds grace, bool whole) {
  const auto process = shared_.process_of(id);
  if (process && !whole) return end_shared(id, grace);
  const auto found = hosts_.find(process.value_or(id));
  if (found == hosts_.end() || (found->second->shared && !process)) return;
  if (found->second->pid == 0) return found->second->lost ? cancel(found->first) : void();
  end_process(found->second, grace);
}

void HostProcesses::end_process(const HostPtr& host, milliseconds grace) {
  const BootTime kill_at = loop_.now() + grace;
  if (kill_at >= host->kill_at) return;
  host->kill_at = kill_at;
  if (host->term_timer != 0) loop_.cancel_timer(std::exchange(host->term_timer, 0));
  if (host->kill_timer != 0) loop_.cancel_timer(std::exchange(host->kill_timer, 0));
  if (grace <= milliseconds(0)) return children_.signal(host->pid, SIGKILL);
  const auto later = [this, host, alive = alive_](int signal) {
    return [this, host, alive, signal] {
      if (*alive && host->owner != nullptr && host->pid != 0) children_.signal(host->pid, signal);
    };
  };
  host->term_timer = loop_.add_timer(loop_.now() + grace / 2, later(SIGTERM));
  host->kill_timer = loop_.add_timer(kill_at, later(SIGKILL));
}

// The actor is gone and the process is exiting: its resources are free while the kernel tears it down. Devices and
// memory are not free before that.
void HostProcesses::on_ended(const HostPtr& host) {
  if (host->ended || !host->start.gpus().empty() || host->start.spec().resources().amounts().contains("memory")) return;
  host->ended = true;
  if (host->output) host->output->close();
  events_.exited(host->id, {});
}

void HostProcesses::on_exit(const HostPtr& host, const ExitStatus& status) {
  // The host's last messages may still be in its socket.
  if (host->control) read(host);
  HostExit exit{.exit_code = status.exit_code, .signal = status.signal};
  if (const auto kills = memory_kills()) {
    exit.out_of_memory = status.signal == SIGKILL && memory_kills_ && *kills > *memory_kills_;
    memory_kills_ = kills;
  }
  if (host->output && !host->ended) host->output->close();
  if (host->output) exit.stderr_tail = host->output->stderr_tail();
  const HostGroups::GroupPtr group = std::exchange(host->group, nullptr);
  if (starts_again(*host)) {
    if (group) options_.groups->end(group, {});
    return start_again(host, exit);
  }
  if (!group) return report_exit(host, std::move(exit));
  // Another process may get the pid from now on.
  if (host->control) loop_.unwatch(host->control.get());
  host->control.reset();
  host->pid = 0;
  options_.groups->end(group, [this, host, group, exit, alive = alive_](const HostGroups::End& end) mutable {
    if (!*alive || host->owner == nullptr) return;
    const bool failed = exit.signal != 0 || exit.exit_code != 0;
    if (failed && end.out_of_memory) {
      exit.out_of_memory = true;
      exit.memory_limit_bytes = group->memory_limit_bytes;
    }
    if (end.process_limit && !group->process_limit_told.exchange(true)) note_process_limit(*host);
    report_exit(host, std::move(exit));
  });
}

void HostProcesses::note_process_limit(const Host& host) const {
  log::warn("worker", "an actor reached its limit of processes and threads: its forks failed with EAGAIN",
            {{"host", to_string(host.id)}, {"setting", "--processes-per-actor"}});
}

void HostProcesses::note_process_limit(HostId id) const {
  if (const auto found = hosts_.find(id); found != hosts_.end()) note_process_limit(*found->second);
}

std::map<int, HostGroups::GroupPtr> HostProcesses::groups() const {
  std::map<int, HostGroups::GroupPtr> groups;
  for (const auto& [id, host] : hosts_) {
    if (host->group && host->pid != 0) groups[host->pid] = host->group;
  }
  return groups;
}

// Its processes are gone.
void HostProcesses::report_exit(const HostPtr& host, HostExit exit) {
  const HostId id = host->id;
  std::error_code ignored;
  fs::remove(options_.socket_dir / (to_string(id).substr(0, 16) + ".sock"), ignored);
  const bool shared = host->shared;
  const bool told = host->ended;
  forget(host);
  if (told) return;
  if (!shared) return events_.exited(id, exit);
  const auto actors = shared_.remove_process(id);
  exit.shared_by = actors.size();
  for (const HostId actor : actors) events_.exited(actor, exit);
}

void HostProcesses::forget(const HostPtr& host) {
  const HostPtr kept = host;
  if (kept->term_timer != 0) loop_.cancel_timer(kept->term_timer);
  if (kept->kill_timer != 0) loop_.cancel_timer(kept->kill_timer);
  if (kept->control && kept->pid != 0) loop_.unwatch(kept->control.get());
  kept->control.reset();
  kept->owner = nullptr;
  kept->output.reset();
  if (!kept->scratch.empty()) remove_scratch(kept->scratch);
  hosts_.erase(kept->id);
  spares_.on_settled(kept->id);
}

void HostProcesses::remove_scratch(const fs::path& folder) {
  if (::rmdir(folder.c_str()) == 0 || errno == ENOENT) return;
  // It is not empty, perhaps large: remove it on another thread.
  std::thread([folder] {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }).detach();
}

}  // namespace volador::worker
