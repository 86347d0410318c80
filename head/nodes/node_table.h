// Cluster members: nodes, their streams and their states.
// Pure: no clock, thread, I/O or randomness.
//
//                 Register                      silence, stream lost
//   (unknown) ───────────────► alive ◄─────────────────────────────────► suspect
//       ▲                        ▲          heartbeat, Register              │
//       │ forgotten              │ Register                                  │ lease ended
//       └──── dead ──────────────┘◄──────────── awaited ─────────────────────┤
//              ▲                    Register     (ran under an earlier head) │
//              └─────────────────────────────────────┴───────────────────────┘ lease ended, window over, Leaving
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "head/kernel/actions.h"
#include "head/kernel/options.h"
#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/resources.h"

namespace volador::head {

enum class NodeState : uint8_t { kAwaited, kAlive, kSuspect, kDead };
std::string_view to_string(NodeState state);

// Node::why_not_placeable() of a node with a health problem.
inline constexpr std::string_view kUnhealthy = "unhealthy";

// A problem that the worker's inspection reports.
struct NodeProblem {
  protocol::HealthProblem found;
  BootTime since{};

  // Whether both are the same problem, even if its detail has changed.
  bool is_same(const protocol::HealthProblem& other) const {
    return found.code() == other.code() && found.subject() == other.subject() && found.has_gpu() == other.has_gpu() &&
           found.gpu() == other.gpu();
  }
};

// A node with its last reports and current state.
struct Node {
  NodeId id;
  std::string name;
  std::string incarnation;  // Incarnation of the worker process.
  std::string version;
  std::string machine_id;
  std::string data_address;
  std::string store_socket;
  ResourceSet total;
  std::vector<protocol::Gpu> gpus;
  std::map<std::string, std::string> labels;
  NodeState state = NodeState::kAwaited;
  bool draining = false;
  bool stopping = false;               // Its worker was asked to stop; the node leaves when its hosts have ended.
  std::optional<NodeSession> session;  // nullopt while its stream is lost.
  int64_t registered_boot_ns = 0;      // The worker's clock in the Register in effect.
  BootTime last_heard{};
  // Time of the heartbeat before the last: everything that the node sent before that heartbeat has arrived. Epoch: none
  // yet.
  BootTime heard_before{};
  BootTime heartbeat_at{};  // Time of the last heartbeat.
  protocol::NodeUsage usage;
  std::vector<NodeProblem> problems;  // In the worker's order.
  Reason why_dead;
  bool is_lost = false;  // Dead without having been stopped.

  bool is_member() const { return state != NodeState::kDead; }
  // Empty if requests may be placed on it; otherwise the reason, for users.
  std::string why_not_placeable() const;
  // A problem of the node itself, not of one of its GPUs; null: none.
  const NodeProblem* own_problem() const;
};

// Owns the nodes and their indexes; performs the transitions of the diagram.
class NodeTable {
 public:
  explicit NodeTable(const Limits& limits) : limits_(limits) {}

  // Classification of a Register message.
  enum class Verdict : uint8_t {
    kNew,          // The node was unknown or dead.
    kReconnected,  // Same worker process on a new stream.
    // A new worker process of a member node: what ran under the old one has ended, or ends with its lease.
    kRestarted,
    kRepeated,  // This stream has registered already; no effect.
    kOlder,     // Sent before the Register in effect; the caller closes the stream.
  };
  // kInvalidArgument: invalid ids, name or sizes, or another member has the name; the message names it.
  Result<Verdict> check(NodeSession session, const protocol::Register& message) const;
  // Call after check() returned kNew, kReconnected or kRestarted. Returns the replaced stream, which the caller closes.
  std::optional<NodeSession> admit(BootTime now, NodeSession session, const protocol::Register& message,
                                   const ResourceSet& total);
  // Restores a node from the journal.
  Node& restore(NodeId id, const std::string& name, const std::string& incarnation, bool draining);

  // Handles the end of the stream; returns its node, now suspect.
  Node* lost(NodeSession session);
  // Frees its name. The entry is kept for queries; beyond Limits::dead_nodes the oldest are dropped.
  void mark_dead(Node& node, Reason why, bool is_lost);
  // Detaches the node from its stream; later messages on that stream are ignored.
  void detach(Node& node);

  Node* find(NodeId id);
  const Node* find(NodeId id) const;
  Node* find(NodeSession session);
  const Node* holder(const std::string& name) const;  // The member with this name.
  // Resolves a name, an id or a prefix of an id. kNotFound; kInvalidArgument: several match.
  Result<NodeId> resolve(std::string_view text) const;
  std::optional<NodeId> named_or_whole_id(std::string_view text) const;
  std::map<NodeId, Node>& all() { return nodes_; }
  const std::map<NodeId, Node>& all() const { return nodes_; }
  size_t members() const { return nodes_.size() - dead_.size(); }
  // Dead nodes that were not stopped and whose name no member uses.
  size_t lost_nodes() const;
  size_t awaited() const;  // Members of an earlier head that have not reconnected.
  // For messages: the name, or the short id while the name is unknown.
  std::string name_of(NodeId id) const;
  // Name of the member on the machine; empty: none.
  std::string node_on(const std::string& machine_id) const;
  std::string store_socket_on(const std::string& machine_id) const;

  void check_invariants() const;

 private:
  const Limits limits_;
  std::map<NodeId, Node> nodes_;
  std::unordered_map<uint64_t, NodeId> sessions_;
  std::map<std::string, NodeId, std::less<>> names_;  // Names of members.
  std::vector<NodeId> dead_;                          // Oldest first.
};

}  // namespace volador::head
