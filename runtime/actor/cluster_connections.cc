// ClusterSession: connections to hosts, one per incarnation or one for all actors of a shared host.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/actor/cluster_remote.h"
#include "runtime/log.h"

namespace volador {

using std::chrono::milliseconds;

std::shared_ptr<net::CallConnection> ClusterSession::open(const Remote& remote, std::function<void(Error)> on_down) {
  const protocol::HostAddress& address = remote.info->address();
  net::ConnectionOptions connection;
  connection.caller = caller_;
  net::Endpoint endpoint;
  if (address.machine_id() == options_.machine_id) {
    if (options_.connect_here) {
      if (auto here = options_.connect_here(address.unix_path(), connection, on_down)) return here;
    }
    endpoint = net::UnixEndpoint{address.unix_path()};
  } else {
    net::TlsEndpoint tls;
    const std::string& where = address.tcp_address();
    const size_t colon = where.rfind(':');
    tls.host = where.substr(0, colon);
    if (tls.host.size() > 2 && tls.host.front() == '[') tls.host = tls.host.substr(1, tls.host.size() - 2);
    tls.port = colon == std::string::npos ? uint16_t{0}
                                          : static_cast<uint16_t>(std::strtoul(where.c_str() + colon + 1, nullptr, 10));
    tls.server_name = to_string(id_from_raw<HostId>(address.host_id()));
    tls.tls = options_.tls;
    endpoint = std::move(tls);
  }
  return net::CallConnection::connect(*options_.loop, std::move(endpoint), connection, std::move(on_down));
}

void ClusterSession::connect(Remote& remote) {
  const auto link = std::make_shared<Link>();
  link->session = weak_from_this();
  link->actor = remote.id;
  link->epoch = remote.info->epoch();
  if (remote.info->isolation() == protocol::ISOLATION_SHARED) {
    link->road = shared_connection_to(remote);
    link->road->add(link);
    link->connection = link->road->connection;
  } else {
    link->connection = open(remote, [weak = std::weak_ptr<Link>(link)](const Error& error) {
      const auto lost = weak.lock();
      const auto self = lost ? lost->session.lock() : nullptr;
      if (self) self->on_down(*lost, error);
    });
  }
  remote.link = link;
  flush(remote);
}

std::shared_ptr<ClusterSession::SharedHostConnection> ClusterSession::shared_connection_to(const Remote& remote) {
  const auto host = id_from_raw<HostId>(remote.info->address().host_id());
  if (auto there = shared_connections_[host].lock()) return there;
  std::erase_if(shared_connections_, [](const auto& entry) { return entry.second.expired(); });
  auto road = std::make_shared<SharedHostConnection>();
  road->connection = open(
      remote, [session = weak_from_this(), host, weak = std::weak_ptr<SharedHostConnection>(road)](const Error& error) {
        const auto self = session.lock();
        const auto lost = weak.lock();
        if (self && lost) self->on_shared_connection_lost(host, lost, error);
      });
  shared_connections_[host] = road;
  return road;
}

void ClusterSession::on_shared_connection_lost(const HostId& host, const std::shared_ptr<SharedHostConnection>& road,
                                               const Error& error) {
  std::vector<std::weak_ptr<Link>> links;
  {
    const std::lock_guard hold(mutex_);
    if (const auto found = shared_connections_.find(host);
        found != shared_connections_.end() && found->second.lock() == road)
      shared_connections_.erase(found);
    links.swap(road->links);
  }
  for (const auto& one : links) {
    if (const auto link = one.lock()) on_down(*link, error);
  }
}

// Sends queued calls unless earlier ones are unsettled.
void ClusterSession::flush(Remote& remote) {
  if (!remote.link || remote.waiting.empty() || !is_settled(remote)) return;  // go_on() flushes later.
  auto waiting = std::move(remote.waiting);
  remote.waiting.clear();
  remote.waiting_bytes = 0;
  for (auto& [request, call] : waiting) {
    if (call->timer != 0) options_.loop->cancel_timer(std::exchange(call->timer, 0));
    prepare(remote, *call);
    remote.link->count();
    transmit(*remote.link, call);
  }
}

void ClusterSession::on_down(const Link& link, const Error& error) {
  const std::lock_guard hold(mutex_);
  const auto found = remotes_.find(link.actor);
  if (found == remotes_.end() || closed_) return;
  log::debug("session", "a connection to an actor's host ended",
             {{"actor", short_id(link.actor)}, {"error", error.message}});
  if (found->second->link.get() == &link) lose_connection(*found->second);
}

// Stops sending on this connection. It normally ends at once and reports for each call whether it was sent; the timer
// covers a frozen host.
void ClusterSession::retire_connection(Remote& remote) {
  options_.loop->add_timer(options_.clock->now() + std::chrono::seconds(1),
                           [weak = weak_from_this(), old = remote.link->connection, road = remote.link->road] {
                             if (road) {  // Other actors may still use it.
                               const auto self = weak.lock();
                               if (!self) return;
                               const std::lock_guard hold(self->mutex_);
                               if (road->in_use()) return;
                             }
                             old->close();
                           });
  remote.held_epoch = std::max(remote.held_epoch, remote.link->epoch);
  remote.retire_link();  // Before is_settled(): the last reply then calls go_on().
}

// Handles a lost connection or a host that rejects our calls while the head still reports the actor as alive: retries
// with back-off and notifies the head once.
void ClusterSession::lose_connection(Remote& remote) {
  if (!remote.link) return;
  const uint64_t epoch = remote.link->epoch;
  retire_connection(remote);
  if (!remote.info || remote.info->state() != protocol::ALIVE || remote.info->epoch() != epoch) return;
  if (remote.failed_connects == 0) {
    protocol::ClientMessage message;
    message.mutable_failed_call()->set_actor_id(raw(remote.id));
    message.mutable_failed_call()->set_epoch(epoch);
    options_.send(std::move(message));
  }
  const auto delay = std::min(milliseconds(2000), milliseconds(50 << std::min(remote.failed_connects, 6)));
  ++remote.failed_connects;
  if (remote.connect_timer) return;
  remote.connect_timer = true;
  options_.loop->add_timer(options_.clock->now() + delay, [weak = weak_from_this(), actor = remote.id] {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard again(self->mutex_);
    const auto it = self->remotes_.find(actor);
    if (it == self->remotes_.end() || self->closed_) return;
    it->second->connect_timer = false;
    if (!it->second->link && it->second->info && it->second->info->state() == protocol::ALIVE)
      self->connect(*it->second);
  });
}

}  // namespace volador
