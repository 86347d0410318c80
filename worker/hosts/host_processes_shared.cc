// HostProcesses: actors of shared hosts, added to an existing process or launched with the first one, and ended one by
// one.
#include <algorithm>

#include "runtime/log.h"
#include "runtime/protocol/cause.h"
#include "worker/hosts/host_process.h"

namespace volador::worker {

using std::chrono::milliseconds;

HostProcesses::HostPtr HostProcesses::shared_process(HostId actor) const {
  const auto process = shared_.process_of(actor);
  const auto found = process ? hosts_.find(*process) : hosts_.end();
  return found == hosts_.end() ? nullptr : found->second;
}

std::optional<HostProcesses::LogOwner> HostProcesses::log_owner(HostId shared_actor) const {
  const HostPtr host = shared_process(shared_actor);
  if (!host) return std::nullopt;
  return LogOwner{.actor = id_from_raw<ActorId>(host->start.spec().actor_id()), .restarts = host->start.restarts()};
}

// For a process's output, which cannot be attributed to one of its actors.
std::optional<HostId> HostProcesses::actor_named(HostId process) const {
  const auto found = hosts_.find(process);
  if (found == hosts_.end() || !found->second->shared) return process;
  return shared_.speaker(process);
}

void HostProcesses::launch_shared(HostId actor, const protocol::StartHost& start) {
  if (shared_.process_of(actor)) return;
  const auto place = shared_.add(actor, start);
  if (place.fresh) return launch_process(actor, start, true);
  const HostPtr host = hosts_.at(place.process);
  if (host->told) {
    admit(host, actor);
  } else {
    host->pending.push_back(actor);
  }
}

void HostProcesses::admit(const HostPtr& host, HostId actor) { events_.launched(actor, host->pid, extra_of(*host)); }

void HostProcesses::admit_pending(const HostPtr& host) {
  const auto pending = std::exchange(host->pending, {});
  for (const HostId actor : pending) admit(host, actor);
  end_if_empty(host);  // They may have been cancelled.
}

void HostProcesses::cancel_shared(HostId actor) {
  const HostPtr host = shared_process(actor);
  if (!host) return;
  if (std::erase(host->pending, actor) == 0) return end_shared(actor, milliseconds(0));
  shared_.remove(actor);
  events_.launch_failed(actor, make_cause(protocol::DeathCause::KILLED, reason("cause.not_wanted")));
}

void HostProcesses::send_shared(HostId actor, protocol::ToHost message) {
  const HostPtr host = shared_process(actor);
  if (!host || !host->control) return;
  const bool for_process = message.has_relayed() && message.relayed().has_welcome();
  if (for_process && shared_.speaker(host->id) != actor) return;  // Sent once per process.
  if (message.has_end() || message.has_read_stacks() || message.has_read_timeline()) message.set_host_id(raw(actor));
  enqueue(host, message.SerializeAsString(), {});
}

void HostProcesses::hear_shared(const HostPtr& host, const protocol::FromHost& said) {
  auto actor = id_from_raw<HostId>(said.host_id());
  if (said.host_id().empty()) {
    const auto speaker = shared_.speaker(host->id);
    if (!speaker) return;
    actor = *speaker;
  }
  if (shared_.process_of(actor) != host->id) return;
  if (!said.has_ended()) return events_.message(actor, said);
  silence(host, actor);
  shared_.remove(actor);
  events_.exited(actor, {});
  end_if_empty(host);
}

// Resends the process's requests in another actor's name: the head drops the watches of an ended actor.
void HostProcesses::silence(const HostPtr& host, HostId actor) {
  const auto before = shared_.speaker(host->id);
  shared_.silence(actor);
  const auto now = shared_.speaker(host->id);
  if (before == now || !now || !host->told) return;
  protocol::ToHost again;
  again.mutable_relayed()->mutable_welcome();
  send_shared(*now, std::move(again));
}

void HostProcesses::end_shared(HostId actor, milliseconds grace) {
  const HostPtr host = shared_process(actor);
  if (!host || host->pid == 0) return;
  silence(host, actor);
  protocol::ToHost message;
  message.mutable_end()->set_grace_ms(std::max<int64_t>(0, grace.count()));
  send_shared(actor, std::move(message));
  loop_.add_timer(
      loop_.now() + std::max(grace, milliseconds(0)) + options_.shared_slack, [this, host, actor, alive = alive_] {
        if (!*alive || host->owner == nullptr || shared_.process_of(actor) != host->id) return;
        log::warn("worker", "a shared host does not end an actor as asked and is ended with all of them",
                  {{"host", to_string(host->id)}, {"pid", host->pid}, {"actors", shared_.actors(host->id)}});
        end_process(host, milliseconds(0));
      });
}

void HostProcesses::closed(const HostPtr& host) {
  if (!host->shared) return events_.closed(host->id);
  shared_.close(host->id);
  end_process(host, milliseconds(0));
  for (const HostId actor : shared_.actors_of(host->id)) events_.closed(actor);
}

void HostProcesses::end_if_empty(const HostPtr& host) {
  if (shared_.actors(host->id) > 0) return;
  loop_.add_timer(loop_.now() + options_.shared_idle, [this, host, alive = alive_] {
    if (!*alive || host->owner == nullptr || shared_.actors(host->id) > 0 || host->pid == 0) return;
    shared_.close(host->id);
    protocol::ToHost message;
    message.mutable_end();
    if (host->control) enqueue(host, message.SerializeAsString(), {});
    end_process(host, options_.shared_idle);
  });
}

}  // namespace volador::worker
