// What workers report of the processes in which actors live.
#pragma once

#include "head/kernel/context.h"
#include "head/kernel/tables.h"

namespace volador::head {

class ActorLife;

class ActorHosts {
 public:
  using Cause = protocol::DeathCause;

  ActorHosts(Context& context, Tables& tables, ActorLife& life)
      : context_(context),
        placement_(tables.placement),
        actors_(tables.actors),
        nodes_(tables.nodes),
        groups_(tables.groups),
        clients_(tables.clients),
        life_(life) {}

  // Compares what a worker that registers reports of its hosts with what is known of them.
  void reconcile(Node& node, const protocol::Register& message, BootTime old_lease_end, protocol::Registered& reply);
  // Books again what the node's actors hold of its resources; restarts those for which there is no room any more.
  void readmit(const Node& node, bool worker_restarted);
  void lose_node(NodeId id, const Reason& why);

  void on_ready(Node& node, const protocol::HostReport& report);
  void on_ended(Node& node, const protocol::HostEnded& ended);
  void on_program_failed(Node& node, const protocol::ProgramFailed& failed);
  void on_usage(const Node& node, const protocol::NodeUsage& usage);
  void on_log(const protocol::LogLines& lines);
  void on_metrics(const Node& node, const protocol::ActorMetrics& metrics);
  // The actor that sends requests through its worker. Null: a stale incarnation, whose requests are dropped.
  const Actor* sender(const Node& node, HostId host) const;

 private:
  // Where the worker reports that the actor is reached. Its process has its own id, or that of another actor of its
  // driver on the node, in whose shared host it lives: a node gets certificates for no others (Lookups::may_certify()).
  protocol::HostAddress address_of(const Actor& actor, const protocol::HostReport& report) const;

  Context& context_;
  Placement& placement_;
  ActorDirectory& actors_;
  const NodeTable& nodes_;
  const GroupTable& groups_;
  const ClientTable& clients_;
  ActorLife& life_;
};

}  // namespace volador::head
