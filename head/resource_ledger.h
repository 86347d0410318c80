// Who holds how much of which node, in fixed point; GPUs as numbered devices. Never grants what is not there.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "runtime/ids.h"
#include "runtime/resources.h"

namespace volador::head {

class ResourceLedger {
 public:
  struct Device {
    int32_t index = 0;
    Amount used = 0;  // Of kUnit.
  };
  struct Node {
    ResourceSet total;
    ResourceSet used;
    ResourceSet free;  // total - used.
    std::vector<Device> devices;  // By index.
    std::set<ActorId> holders;

    int64_t devices_free() const;    // Devices that nobody uses.
    Amount largest_part() const;     // The most that is free of a device in use.
    bool fits(const ResourceSet& asked) const;
  };

  // `gpus` are the indices of its devices; total["gpus"] is made to agree with them.
  // Replaces an earlier node of this id, with its grants.
  void set_node(NodeId id, ResourceSet total, std::vector<int32_t> gpus);
  // Its grants go with it. Unknown: no effect.
  void remove_node(NodeId id);

  // Whole GPUs come from devices that nobody uses, a fraction from the fullest device that has it; lowest index first.
  // The devices granted, or nothing where it does not fit. An actor that holds a grant already gets nothing.
  std::optional<std::vector<int32_t>> grant(NodeId node, ActorId actor, const ResourceSet& asked);
  // Writes down what an earlier head granted. False where it does not fit; nothing is changed then.
  bool adopt(NodeId node, ActorId actor, const ResourceSet& held, const std::vector<int32_t>& gpus);
  // Gives back exactly what was granted, and the node; nothing for an actor without a grant.
  std::optional<NodeId> release(ActorId actor);

  const Node* find(NodeId id) const;
  std::optional<NodeId> node_of(ActorId actor) const;
  const ResourceSet& total() const { return total_; }
  const ResourceSet& used() const { return used_; }
  const std::map<NodeId, Node>& nodes() const { return nodes_; }

  // Aborts where sums, devices and grants disagree. O(nodes + grants).
  void check_invariants() const;

 private:
  struct Grant {
    NodeId node;
    ResourceSet held;
    std::vector<int32_t> gpus;
  };
  void book(Node& node, const ResourceSet& held, const std::vector<int32_t>& gpus, int sign);

  std::map<NodeId, Node> nodes_;
  std::unordered_map<ActorId, Grant> grants_;
  ResourceSet total_;
  ResourceSet used_;
};

}  // namespace volador::head
