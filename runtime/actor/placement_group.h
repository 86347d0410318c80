// Placement groups: resources reserved together for actors, on nodes that a strategy selects.
//
//   auto group = volador::placement_group({{.cpus = 1, .gpus = 1}, {.cpus = 1, .gpus = 1}},
//                                           volador::Strategy::kStrictSpread);
//   group.ready().get();
//   auto worker = volador::actor<Trainer>().in(group, 0).spawn();
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

inline constexpr int kAnyBundle = -1;  // The first bundle with room.

// Options of placement_group().
struct GroupOptions {
  std::string name = {};                          // Unique among the cluster's groups; get_placement_group() finds it.
  bool detached = false;                          // Outlives its driver.
  int priority = 0;                               // Higher goes first when resources are short.
  bool wait_if_infeasible = false;                // Waits for more nodes instead of being rejected.
  std::map<std::string, LabelValue> labels = {};  // Required labels of every node.
  // Additional required labels of each bundle's node, in bundle order: {{{"zone", "a"}}, {}}. One entry per bundle, or
  // empty.
  std::vector<std::map<std::string, LabelValue>> bundle_labels = {};
};

// Value type: copies refer to the same group, can be passed to actors, and do not keep it alive. It ends with remove(),
// or with the driver or actor that created it unless it is detached; its actors end with it.
class PlacementGroup {
 public:
  PlacementGroup() = default;
  explicit PlacementGroup(const GroupId& id) : id_(id) {}

  const GroupId& id() const { return id_; }
  bool operator==(const PlacementGroup&) const = default;

  // Completes when all bundles are reserved; kNotFound if the group is removed before.
  Future<void> ready() const;
  // Waits up to `timeout`; returns whether it is ready. Throws the error of ready().
  bool wait(std::chrono::nanoseconds timeout) const;
  // Throws kNotFound (removed), kUnknownOutcome (the head did not answer in time).
  GroupStatus status() const;
  // Permanently ends its actors and returns their resources as they end. Does not wait; the future completes when the
  // head has stored the removal. Repeated: no effect.
  Future<void> remove() const;

 private:
  GroupId id_;
};

// Returns when the head has accepted the request; the group may still be pending. Throws kInfeasible if the cluster's
// nodes could never hold it, kInvalidArgument (no bundle, name in use), kUnavailable.
PlacementGroup placement_group(const std::vector<Resources>& bundles, Strategy strategy = Strategy::kPack,
                               const GroupOptions& options = {});
// As placement_group(), without waiting: for many groups at once.
Future<PlacementGroup> placement_group_async(const std::vector<Resources>& bundles, Strategy strategy = Strategy::kPack,
                                             const GroupOptions& options = {});
// Returns the group of this name. Throws kNotFound.
PlacementGroup get_placement_group(const std::string& name);

inline void volador_encode(Encoder& encoder, const PlacementGroup& group) { encode(encoder, group.id()); }
inline void volador_decode(Decoder& decoder, PlacementGroup& group) {
  GroupId id;
  decode(decoder, id);
  group = PlacementGroup(id);
}

}  // namespace volador
