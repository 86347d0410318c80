// Placement groups as a process asks its cluster for them. The typed face is placement_group.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/ids.h"
#include "runtime/node_wishes.h"
#include "runtime/resources.h"
#include "runtime/result.h"
#include "runtime/strategy.h"

namespace volador {

// One group as it is asked for.
struct GroupAsk {
  std::vector<ResourceSet> bundles;
  Strategy strategy = Strategy::kPack;
  std::string name;
  bool detached = false;
  int priority = 0;
  bool wait_if_infeasible = false;
  std::vector<LabelRule> labels;  // Required of each node.
  std::vector<std::vector<LabelRule>> bundle_labels = {};  // Besides, of the node of each bundle; as many as bundles, or none.
};

enum class GroupState : uint8_t { kPending, kReady, kRescheduling };
std::string_view to_string(GroupState state);

struct BundleStatus {
  ResourceSet resources;
  std::string node_name;  // Empty: it has no place.
  std::vector<int> gpus;
};
struct GroupStatus {
  GroupId id;
  std::string name;
  Strategy strategy = Strategy::kPack;
  GroupState state = GroupState::kPending;
  std::string reason;  // Why it waits.
  std::vector<BundleStatus> bundles;
};

// Thread safe.
class GroupSession {
 public:
  using Done = std::function<void(Result<GroupStatus>)>;

  virtual ~GroupSession() = default;
  // `done` runs once, on a thread of the runtime, when the head has taken the request (the group may wait for its place
  // then) or refused it. A head that is away is waited for.
  virtual GroupId create(const GroupAsk& ask, Done done) = 0;
  // Every bundle is held; kNotFound: the group was removed.
  virtual void when_ready(const GroupId& group, Done done) = 0;
  // Its status then is empty.
  virtual void remove(const GroupId& group, Done done) = 0;
  virtual Result<GroupStatus> find(const std::string& name) = 0;  // kNotFound.
  virtual Result<GroupStatus> status(const GroupId& group) = 0;   // kNotFound: removed.
};

}  // namespace volador
