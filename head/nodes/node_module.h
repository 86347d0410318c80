// Members of the cluster: registration, leases, silence, draining.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "head/kernel/context.h"
#include "head/kernel/tables.h"

namespace volador::head {

class ActorHosts;
class GroupModule;
class HandleModule;

class NodeModule {
 public:
  NodeModule(Context& context, Tables& tables, ActorHosts& actor_hosts, GroupModule& group_module,
             HandleModule& handle_module)
      : context_(context),
        nodes_(tables.nodes),
        leases_(tables.leases),
        placement_(tables.placement),
        actor_hosts_(actor_hosts),
        group_module_(group_module),
        handle_module_(handle_module) {}

  // A row of the journal, before restore().
  void load(protocol::NodeRecord record) { loaded_.push_back(std::move(record)); }
  bool has_loaded() const { return !loaded_.empty(); }
  // Expects the nodes of the journal back until `until`.
  void restore(BootTime until);
  // Expects back a node of which the journal has no row; known ones are left as they are.
  void expect(NodeId id);
  // The head itself stood still: its silence towards the nodes counts as none of theirs.
  void own_pause();

  void on_register(NodeSession session, const protocol::Register& message);
  // The registered node behind the session, which was heard now. Null: not registered, or another stream took its
  // place.
  Node* heard(NodeSession session);
  void on_heartbeat(Node& node, const protocol::Heartbeat& heartbeat);
  void on_stopping(Node& node);
  void on_lost(NodeSession session);
  // Its lease is over, or its worker reported that its hosts are: what it had is placed again.
  void give_up(NodeId id, const Reason& why, log::Level level);
  void on_tick();

  // Places nothing new on the node; what runs there goes on. Survives a restart of the head. `node`: its name, id or
  // the start of it. `by`: who asked, for the event; may be empty. kNotFound: names the nodes that exist.
  Result<void> drain(std::string_view node, bool undo, std::string_view by);

 private:
  void readmit_resources(Node& node, const ResourceSet& total, bool worker_restarted);
  void set_placeable(const Node& node);
  void check_silence();
  void save(const Node& node);

  Context& context_;
  NodeTable& nodes_;
  LeaseTable& leases_;
  Placement& placement_;
  ActorHosts& actor_hosts_;
  GroupModule& group_module_;
  HandleModule& handle_module_;
  std::vector<protocol::NodeRecord> loaded_;
};

}  // namespace volador::head
