// Handles worker reports about host processes.
#pragma once

#include "head/kernel/context.h"
#include "head/kernel/tables.h"

namespace volador::head {

class ActorLife;

// Applies host reports of workers to the actors.
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

  // Compares the hosts reported by a registering worker with the known ones.
  void reconcile(Node& node, const protocol::Register& message, BootTime old_lease_end, protocol::Registered& reply);
  // Reserves the resources of the node's actors again; restarts those that no longer fit.
  void readmit(const Node& node, bool worker_restarted);
  void lose_node(NodeId id, const Reason& why);

  void on_ready(Node& node, const protocol::HostReport& report);
  void on_ended(Node& node, const protocol::HostEnded& ended);
  void on_program_failed(Node& node, const protocol::ProgramFailed& failed);
  void on_usage(const Node& node, const protocol::NodeUsage& usage);
  void on_log(const protocol::LogLines& lines);
  void on_metrics(const Node& node, const protocol::ActorMetrics& metrics);
  // Returns the actor that sends requests through its worker; null for a stale incarnation, whose requests are dropped.
  const Actor* sender(const Node& node, HostId host) const;

 private:
  // Returns the reported address of the actor. Its process has the actor's own host id, or that of another actor of the
  // same driver on the node whose shared host it uses; a node gets certificates for no other hosts
  // (Lookups::may_certify()).
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
