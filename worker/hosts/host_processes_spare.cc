// HostProcesses: hosts that use a prestarted process.
#include <cerrno>
#include <csignal>

#include "runtime/log.h"
#include "runtime/net/socket.h"
#include "worker/hosts/host_process.h"

namespace volador::worker {

void HostProcesses::use_spare(const HostPtr& host, SpareHost spare) {
  host->ahead = true;
  host->control = std::move(spare.control);
  host->group = std::move(spare.group);
  const auto read = host->output->adopt(std::move(spare.output));
  on_forked(host, spare.pid);
  if (!read) children_.signal(spare.pid, SIGKILL);  // Its messages could not be read.
}

// The kernel reports once that the peer closed with unread packets. Only one packet may have been sent: of two, one may
// have been read.
void HostProcesses::look_for_unread_start(const HostPtr& host) {
  if (host->start_message.empty() || host->start_unread || host->packets_sent != 1) return;
  host->start_unread = net::take_socket_error(host->control.get()) == ECONNRESET;
}

// It was ending when it was taken and ran nothing of the actor: the failure need not be reported.
bool HostProcesses::starts_again(const Host& host) const {
  return host.start_unread && !host.cancelled && host.kill_at == BootTime::max() && host.tries < options_.launch_tries;
}

void HostProcesses::start_again(const HostPtr& host, const HostExit& exit) {
  log::warn(
      "worker", "a host that was forked ahead ended before it read its start; another takes its place",
      {{"host", to_string(host->id)}, {"pid", host->pid}, {"exit_code", exit.exit_code}, {"signal", exit.signal}});
  if (host->control) loop_.unwatch(host->control.get());
  host->control.reset();
  host->outbox.clear();
  host->outbox_bytes = 0;
  host->writing = false;
  host->packets_sent = 0;
  host->start_unread = false;
  host->ahead = false;
  host->told = false;
  host->pid = 0;
  host->lost = exit;
  fork(host);
}

void HostProcesses::tell_again(const HostPtr& host) {
  enqueue(host, host->start_message, {});
  if (revoked_.token_ids().empty()) return;
  protocol::ToHost since;
  *since.mutable_revoked() = revoked_;
  enqueue(host, since.SerializeAsString(), {});
}

}  // namespace volador::worker
