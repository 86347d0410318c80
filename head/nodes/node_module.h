// Cluster membership: registration, leases, silent nodes, draining, health problems.
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
        actors_(tables.actors),
        placement_(tables.placement),
        actor_hosts_(actor_hosts),
        group_module_(group_module),
        handle_module_(handle_module) {}

  // Loads a journal row; call before restore().
  void load(protocol::NodeRecord record) { loaded_.push_back(std::move(record)); }
  bool has_loaded() const { return !loaded_.empty(); }
  // Waits until `until` for the journal's nodes to reconnect.
  void restore(BootTime until);
  // Waits for a node without a journal row to reconnect; known nodes are not changed.
  void expect(NodeId id);
  // The head itself paused: the missed time does not count as silence of the nodes.
  void own_pause();

  void on_register(NodeSession session, const protocol::Register& message);
  // Returns the registered node of the session and records that it was heard now. Null: not registered, or replaced by
  // another stream.
  Node* heard(NodeSession session);
  void on_heartbeat(Node& node, const protocol::Heartbeat& heartbeat);
  void on_stopping(Node& node);
  void on_lost(NodeSession session);
  // Declares the node dead: its lease is over, or its worker reported that all hosts ended. Its actors are placed
  // again.
  void give_up(NodeId id, const Reason& why, log::Level level);
  void on_tick();

  // Stops new placements on the node; running actors continue. Survives a restart of the head. `node`: name, id or
  // prefix of the id. `by`: the requester, for the event; may be empty. kNotFound: the message lists the existing
  // nodes.
  Result<void> drain(std::string_view node, bool undo, std::string_view by);

 private:
  void readmit_resources(Node& node, const ResourceSet& total, bool worker_restarted);
  void set_placeable(const Node& node);
  // `registers`: the node's entries in the other tables may be new, without what earlier problems closed.
  void set_problems(Node& node, const google::protobuf::RepeatedPtrField<protocol::HealthProblem>& problems,
                    bool registers);
  void notify_watchers(const Node& node);
  void check_silence();
  void save(const Node& node);

  Context& context_;
  NodeTable& nodes_;
  LeaseTable& leases_;
  ActorDirectory& actors_;
  Placement& placement_;
  ActorHosts& actor_hosts_;
  GroupModule& group_module_;
  HandleModule& handle_module_;
  std::vector<protocol::NodeRecord> loaded_;
};

}  // namespace volador::head
