// Placement groups: resources that are held together, on nodes that a strategy chooses, for actors to run in.
//
//   auto group = volador::placement_group({{.cpus = 1, .gpus = 1}, {.cpus = 1, .gpus = 1}},
//   volador::Strategy::kStrictSpread); group.ready().get(); auto worker = volador::actor<Trainer>().in(group,
//   0).spawn();
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "runtime/actor/future.h"
#include "runtime/actor/group_session.h"
#include "runtime/ids.h"
#include "runtime/resources.h"
#include "runtime/serialize/codec.h"
#include "runtime/strategy.h"

namespace volador {

inline constexpr int kAnyBundle = -1;  // The first that has room.

struct GroupOptions {
  std::string name = {};                           // Unique among the cluster's groups; get_placement_group() finds it.
  bool detached = false;                           // Lives on after its driver.
  int priority = 0;                                // Higher goes first when resources are short.
  bool wait_if_infeasible = false;                 // Waits for more nodes to join instead of being refused.
  std::map<std::string, LabelValue> labels = {};   // Only on nodes that have all of them.
  // Required besides of the node of each bundle, in their order: {{{"zone", "a"}}, {}}. As many as bundles, or none.
  std::vector<std::map<std::string, LabelValue>> bundle_labels = {};
};

// A value: copies name the same group, may be passed to actors, and do not keep it alive. It ends with remove(), or
// with the driver or actor that made it unless it is detached; its actors end with it.
class PlacementGroup {
 public:
  PlacementGroup() = default;
  explicit PlacementGroup(const GroupId& id) : id_(id) {}

  const GroupId& id() const { return id_; }
  bool operator==(const PlacementGroup&) const = default;

  // There when every bundle is held; kNotFound where the group is removed before.
  Future<void> ready() const;
  // Whether it is ready within `timeout`. Throws what ready() ends with.
  bool wait(std::chrono::nanoseconds timeout) const;
  // Throws kNotFound (it was removed), kUnknownOutcome (the head did not answer in time).
  GroupStatus status() const;
  // Ends the actors in it for good and gives back what they hold as they end. Returns at once; the future is there when
  // the head has written it down. Repeated: no effect.
  Future<void> remove() const;

 private:
  GroupId id_;
};

// Returns when the head has taken the request: the group may wait for its place then. Throws kInfeasible where the
// cluster's nodes could never hold it, kInvalidArgument (no bundle, a name in use), kUnavailable.
PlacementGroup placement_group(const std::vector<Resources>& bundles, Strategy strategy = Strategy::kPack,
                               const GroupOptions& options = {});
// The same without waiting: for many groups at once. The future brings what placement_group() returns or throws.
Future<PlacementGroup> placement_group_async(const std::vector<Resources>& bundles, Strategy strategy = Strategy::kPack,
                                             const GroupOptions& options = {});
// The group of this name. Throws kNotFound.
PlacementGroup get_placement_group(const std::string& name);

inline void volador_encode(Encoder& encoder, const PlacementGroup& group) { encode(encoder, group.id()); }
inline void volador_decode(Decoder& decoder, PlacementGroup& group) {
  GroupId id;
  decode(decoder, id);
  group = PlacementGroup(id);
}

}  // namespace volador
