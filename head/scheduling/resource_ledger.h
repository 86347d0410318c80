// Ledger of resource grants per node, in fixed point; GPUs are numbered devices. Never grants more than is free; CPUs
// lent while their holder waited may be overdrawn when it resumes.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "head/scheduling/backfill.h"
#include "head/scheduling/holder.h"
#include "head/scheduling/resource_pool.h"
#include "runtime/ids.h"
#include "runtime/resources.h"

namespace volador::head {

class ResourceLedger {
 public:
  struct Node : ResourcePool {
    std::set<HolderId> holders;
    Amount lent_cpus = 0;  // CPUs of waiting holders; free for others until taken back.
  };

  // `gpus` are the indices of its devices; total["gpus"] is adjusted to match. Replaces an earlier node with this id
  // and its grants.
  void set_node(NodeId id, ResourceSet total, std::vector<int32_t> gpus);
  // Removes the node and its grants. Unknown nodes are ignored.
  void remove_node(NodeId id);

  // See ResourcePool. Until the next set_node(). Returns whether anything changed.
  bool set_closed(NodeId node, const std::set<int32_t>& gpus);

  // Same rules as ResourcePool::take(). Returns nullopt if the holder has a grant already.
  std::optional<std::vector<int32_t>> grant(NodeId node, HolderId holder, const ResourceSet& asked);
  // Restores a grant of an earlier head. Returns false, without effect, if it does not fit.
  bool adopt(NodeId node, HolderId holder, const ResourceSet& held, const std::vector<int32_t>& gpus);
  // The holder waits: its CPUs are free for others until it takes them back, even if they are in use. Returns the node
  // whose CPUs changed; nullopt if the holder has no CPUs or they are lent (taken back) already.
  std::optional<NodeId> lend_cpus(HolderId holder);
  std::optional<NodeId> take_back_cpus(HolderId holder);
  // Releases exactly what was granted and returns the node; nullopt for a holder without a grant.
  std::optional<NodeId> release(HolderId holder);

  const Node* find(NodeId id) const;
  std::optional<NodeId> node_of(HolderId holder) const;
  // Current resources of each holder on the node.
  std::vector<Occupant> occupants(NodeId id) const;
  const ResourceSet& total() const { return total_; }
  const ResourceSet& used() const { return used_; }
  // Number of overdrawn CPUs over all nodes; used() counts them although they reduce no other node's capacity.
  Amount overdrawn_cpus() const { return overdrawn_cpus_; }
  const std::map<NodeId, Node>& nodes() const { return nodes_; }

  // Aborts if sums, devices and grants are inconsistent. O(nodes + grants).
  void check_invariants() const;

 private:
  struct Grant {
    NodeId node;
    ResourceSet held;
    std::vector<int32_t> gpus;
    ResourceSet lent;  // CPUs of the grant that are not in `held` now.
  };
  std::optional<NodeId> move_cpus(HolderId holder, bool lend);
  void note_overdraft(const Node& node, Amount before);
  void write_down(NodeId id, Node& node, HolderId holder, const ResourceSet& held, const std::vector<int32_t>& gpus);

  std::map<NodeId, Node> nodes_;
  std::unordered_map<HolderId, Grant> grants_;
  ResourceSet total_;
  ResourceSet used_;
  Amount overdrawn_cpus_ = 0;
};

}  // namespace volador::head
