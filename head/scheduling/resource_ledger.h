// Who holds how much of which node, in fixed point; GPUs as numbered devices. Never grants what is not there; CPUs that
// were lent to others while their holder waited may be overdrawn when it goes on.
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
    Amount lent_cpus = 0;  // Of holders that wait; free for others until they are taken back.
  };

  // `gpus` are the indices of its devices; total["gpus"] is made to agree with them.
  // Replaces an earlier node of this id, with its grants.
  void set_node(NodeId id, ResourceSet total, std::vector<int32_t> gpus);
  // Its grants go with it. Unknown: no effect.
  void remove_node(NodeId id);

  // As ResourcePool::take(). A holder that holds a grant already gets nothing.
  std::optional<std::vector<int32_t>> grant(NodeId node, HolderId holder, const ResourceSet& asked);
  // Writes down what an earlier head granted. False where it does not fit; nothing is changed then.
  bool adopt(NodeId node, HolderId holder, const ResourceSet& held, const std::vector<int32_t>& gpus);
  // The holder waits: its CPUs are free for others until it takes them back, there or not. The node whose CPUs changed; nothing
  // where none did: it holds none, or has lent them (not lent them) already.
  std::optional<NodeId> lend_cpus(HolderId holder);
  std::optional<NodeId> take_back_cpus(HolderId holder);
  // Gives back exactly what was granted, and the node; nothing for a holder without a grant.
  std::optional<NodeId> release(HolderId holder);

  const Node* find(NodeId id) const;
  std::optional<NodeId> node_of(HolderId holder) const;
  // What each holder on the node has now.
  std::vector<Occupant> occupants(NodeId id) const;
  const ResourceSet& total() const { return total_; }
  const ResourceSet& used() const { return used_; }
  // By how many CPUs nodes are overdrawn: so much of used() takes nothing from what others may have.
  Amount overdrawn_cpus() const { return overdrawn_cpus_; }
  const std::map<NodeId, Node>& nodes() const { return nodes_; }

  // Aborts where sums, devices and grants disagree. O(nodes + grants).
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
