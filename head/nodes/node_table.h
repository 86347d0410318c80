// Who belongs to the cluster: nodes, their streams and how they are.
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

struct Node {
  NodeId id;
  std::string name;
  std::string incarnation;  // Of the worker process.
  std::string version;
  std::string machine_id;
  std::string data_address;
  std::string store_socket;
  ResourceSet total;
  std::vector<protocol::Gpu> gpus;
  std::map<std::string, std::string> labels;
  NodeState state = NodeState::kAwaited;
  bool draining = false;
  bool stopping = false;  // Its worker was asked to stop; it leaves when its hosts have ended.
  std::optional<NodeSession> session;  // None while its stream is lost.
  int64_t registered_boot_ns = 0;      // The worker's clock, of the Register that counts.
  BootTime last_heard{};
  // The heartbeat before the last one: what the node sent before it had sent that one has been heard. None yet: the epoch.
  BootTime heard_before{};
  BootTime heartbeat_at{};  // The last one.
  protocol::NodeUsage usage;
  Reason why_dead;
  bool is_lost = false;  // Dead, and it was not stopped.

  bool is_member() const { return state != NodeState::kDead; }
  // Empty: requests may be placed on it; else why not, for people.
  std::string why_not_placeable() const;
};

class NodeTable {
 public:
  explicit NodeTable(const Limits& limits) : limits_(limits) {}

  // What Register means.
  enum class Verdict : uint8_t {
    kNew,         // Unknown or dead before.
    kReconnected,  // The same worker process on a new stream.
    kRestarted,   // A new worker process of a node that is a member: what ran under the old one is over or its lease will be.
    kRepeated,    // This stream has registered already: no effect.
    kOlder,       // Sent before the Register that counts: the stream is to be closed.
  };
  // kInvalidArgument: ids, name or sizes are wrong, or another member has this name; the message names it.
  Result<Verdict> check(NodeSession session, const protocol::Register& message) const;
  // After check() said kNew, kReconnected or kRestarted. The stream that it replaces, if any, is to be closed.
  std::optional<NodeSession> admit(BootTime now, NodeSession session, const protocol::Register& message, const ResourceSet& total);
  // Of the journal.
  Node& restore(NodeId id, const std::string& name, const std::string& incarnation, bool draining);

  // The stream ended: the node it stood for, now suspect.
  Node* lost(NodeSession session);
  // Gives its name free; the entry stays for people, and the oldest of them are forgotten beyond Limits::dead_nodes.
  void mark_dead(Node& node, Reason why, bool is_lost);
  // It leaves the stream, if it has one: later messages of it are nobody's.
  void detach(Node& node);

  Node* find(NodeId id);
  const Node* find(NodeId id) const;
  Node* find(NodeSession session);
  const Node* holder(const std::string& name) const;  // The member of this name.
  // By name, id or its start. kNotFound, kInvalidArgument (several).
  Result<NodeId> resolve(std::string_view text) const;
  std::optional<NodeId> named_or_whole_id(std::string_view text) const;
  std::map<NodeId, Node>& all() { return nodes_; }
  const std::map<NodeId, Node>& all() const { return nodes_; }
  size_t members() const { return nodes_.size() - dead_.size(); }
  // Dead nodes that were not stopped and whose name no member has.
  size_t lost_nodes() const;
  size_t awaited() const;  // Members of an earlier head that have not come back.
  // For messages: its name, or its short id while that is not known.
  std::string name_of(NodeId id) const;
  // Of the member on the machine. Empty: none.
  std::string node_on(const std::string& machine_id) const;
  std::string store_socket_on(const std::string& machine_id) const;

  void check_invariants() const;

 private:
  const Limits limits_;
  std::map<NodeId, Node> nodes_;
  std::unordered_map<uint64_t, NodeId> sessions_;
  std::map<std::string, NodeId, std::less<>> names_;  // Of members.
  std::vector<NodeId> dead_;                          // Oldest first.
};

}  // namespace volador::head
