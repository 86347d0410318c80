#include "head/clients/client_table.h"

#include <fmt/format.h>

#include "runtime/quantities.h"

namespace volador::head {

Result<std::optional<ClientSession>> ClientTable::connect(ClientSession session, const protocol::Hello& hello) {
  const auto id = id_from_raw<DriverId>(hello.driver_id());
  if (!drivers_.contains(id) && drivers_.size() >= limits_.drivers) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{} connected, the limit of a cluster; end some and try again",
                                  counted(drivers_.size(), "program is", "programs are")));
  }
  std::optional<ClientSession> replaced;
  Driver& driver = drivers_[id];
  if (driver.session && *driver.session != session) {
    replaced = driver.session;
    disconnect(*replaced);
  }
  driver.id = id;
  driver.name = hello.name();
  driver.pid = hello.pid();
  driver.wants_logs = hello.wants_logs();
  driver.machine_id = hello.machine_id();
  driver.actor_namespace = hello.namespace_();
  driver.session = session;
  sessions_[static_cast<uint64_t>(session)] = id;
  return replaced;
}

Driver& ClientTable::restore(DriverId id, const std::string& name, BootTime gone_at) {
  Driver& driver = drivers_[id];
  driver.id = id;
  driver.name = name;
  driver.gone_at = gone_at;
  return driver;
}

Driver* ClientTable::disconnect(ClientSession session) {
  unwatch_all({.session = session});
  const auto found = sessions_.find(static_cast<uint64_t>(session));
  if (found == sessions_.end()) return nullptr;
  Driver* driver = find(found->second);
  sessions_.erase(found);
  driver->session.reset();
  return driver;
}

void ClientTable::remove(DriverId id) {
  const auto found = drivers_.find(id);
  if (found == drivers_.end()) return;
  if (found->second.session) disconnect(*found->second.session);
  drivers_.erase(found);
}

Driver* ClientTable::find(DriverId id) {
  const auto found = drivers_.find(id);
  return found == drivers_.end() ? nullptr : &found->second;
}

const Driver* ClientTable::find(DriverId id) const {
  const auto found = drivers_.find(id);
  return found == drivers_.end() ? nullptr : &found->second;
}

Driver* ClientTable::find(ClientSession session) {
  const auto found = sessions_.find(static_cast<uint64_t>(session));
  return found == sessions_.end() ? nullptr : find(found->second);
}

bool ClientTable::watch(const ClientRef& client, ActorId actor) {
  std::set<ActorId>& watched = watched_[client];
  if (watched.size() >= limits_.watches && !watched.contains(actor)) return false;
  watched.insert(actor);
  watchers_[actor].insert(client);
  return true;
}

void ClientTable::unwatch(const ClientRef& client, ActorId actor) {
  if (const auto entry = watched_.find(client); entry != watched_.end()) {
    entry->second.erase(actor);
    if (entry->second.empty()) watched_.erase(entry);
  }
  if (const auto entry = watchers_.find(actor); entry != watchers_.end()) {
    entry->second.erase(client);
    if (entry->second.empty()) watchers_.erase(entry);
  }
}

void ClientTable::unwatch_all(const ClientRef& client) {
  for (const ActorId actor : watched_by(client)) unwatch(client, actor);
}

void ClientTable::forget(ActorId actor) {
  const std::set<ClientRef> clients = watchers(actor);
  for (const ClientRef& client : clients) unwatch(client, actor);
}

const std::set<ClientRef>& ClientTable::watchers(ActorId actor) const {
  static const std::set<ClientRef> kNobody;
  const auto found = watchers_.find(actor);
  return found == watchers_.end() ? kNobody : found->second;
}

std::vector<ActorId> ClientTable::watched_by(const ClientRef& client) const {
  const auto found = watched_.find(client);
  if (found == watched_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

void ClientTable::check_invariants() const {
  size_t connected = 0;
  for (const auto& [id, driver] : drivers_) {
    if (!driver.session) continue;
    ++connected;
    VOLADOR_CHECK(sessions_.at(static_cast<uint64_t>(*driver.session)) == id, driver.name);
  }
  VOLADOR_CHECK(connected == sessions_.size(), fmt::format("{} {}", connected, sessions_.size()));
  size_t forward = 0;
  size_t backward = 0;
  for (const auto& [client, actors] : watched_) {
    forward += actors.size();
    for (const ActorId actor : actors) VOLADOR_CHECK(watchers(actor).contains(client), to_string(actor));
  }
  for (const auto& [actor, clients] : watchers_) backward += clients.size();
  VOLADOR_CHECK(forward == backward, fmt::format("{} {}", forward, backward));
}

}  // namespace volador::head
