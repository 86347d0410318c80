#include "worker/core/shared_hosts.h"

#include <utility>

namespace volador::worker {

SharedHosts::Place SharedHosts::add(HostId actor, const protocol::StartHost& start) {
  if (const auto known = process_of_.find(actor); known != process_of_.end()) return {known->second, false};
  const Key key{start.spec().driver_id(), start.program().sha256()};
  const auto open = open_.find(key);
  const bool room = open != open_.end() && processes_.at(open->second).actors.size() < actors_max_;
  // A process that has lost its first actor still bears that actor's id, which cannot be assigned again: ids are
  // random.
  const HostId id = room ? open->second : actor;
  Process& process = processes_[id];
  if (!room) {
    process.key = key;
    open_[key] = id;
  }
  process.actors.insert(actor);
  process.speakers.insert(actor);
  if (!process.speaker) process.speaker = actor;
  process_of_.emplace(actor, id);
  return {id, !room};
}

std::optional<HostId> SharedHosts::process_of(HostId actor) const {
  const auto found = process_of_.find(actor);
  return found == process_of_.end() ? std::nullopt : std::optional(found->second);
}

void SharedHosts::close(HostId id) {
  const auto found = processes_.find(id);
  if (found == processes_.end()) return;
  found->second.closed = true;
  if (const auto open = open_.find(found->second.key); open != open_.end() && open->second == id) open_.erase(open);
}

void SharedHosts::silence(HostId actor) {
  const auto found = process_of_.find(actor);
  if (found == process_of_.end()) return;
  Process& process = processes_.at(found->second);
  process.speakers.erase(actor);
  if (process.speaker != actor) return;
  process.speaker = process.speakers.empty() ? std::nullopt : std::optional(*process.speakers.begin());
}

void SharedHosts::remove(HostId actor) {
  silence(actor);
  const auto found = process_of_.find(actor);
  if (found == process_of_.end()) return;
  processes_.at(found->second).actors.erase(actor);
  process_of_.erase(found);
}

std::vector<HostId> SharedHosts::remove_process(HostId id) {
  close(id);
  const auto found = processes_.find(id);
  if (found == processes_.end()) return {};
  std::vector<HostId> actors(found->second.actors.begin(), found->second.actors.end());
  for (const HostId actor : actors) process_of_.erase(actor);
  processes_.erase(found);
  return actors;
}

size_t SharedHosts::actors(HostId id) const {
  const auto found = processes_.find(id);
  return found == processes_.end() ? 0 : found->second.actors.size();
}

std::vector<HostId> SharedHosts::actors_of(HostId id) const {
  const auto found = processes_.find(id);
  if (found == processes_.end()) return {};
  return {found->second.actors.begin(), found->second.actors.end()};
}

std::optional<HostId> SharedHosts::speaker(HostId id) const {
  const auto found = processes_.find(id);
  return found == processes_.end() ? std::nullopt : found->second.speaker;
}

void SharedHosts::check_invariants() const {
  size_t actors = 0;
  for (const auto& [id, process] : processes_) {
    actors += process.actors.size();
    for (const HostId actor : process.actors) VOLADOR_CHECK(process_of_.at(actor) == id, to_string(actor));
    for (const HostId actor : process.speakers) VOLADOR_CHECK(process.actors.contains(actor), to_string(actor));
    VOLADOR_CHECK(process.speaker.has_value() == !process.speakers.empty(), to_string(id));
    VOLADOR_CHECK(!process.speaker || process.speakers.contains(*process.speaker), to_string(id));
    const auto open = open_.find(process.key);
    VOLADOR_CHECK(!process.closed || open == open_.end() || open->second != id, to_string(id));
  }
  VOLADOR_CHECK(actors == process_of_.size());
  for (const auto& [key, id] : open_) VOLADOR_CHECK(processes_.contains(id), to_string(id));
}

}  // namespace volador::worker
