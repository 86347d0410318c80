// Untyped interface of a process to placement groups. The typed interface is placement_group.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/ids.h"
#include "runtime/node_affinity.h"
#include "runtime/resources.h"
#include "runtime/result.h"
#include "runtime/strategy.h"

namespace volador {

// Request for a placement group.
struct GroupAsk {
  std::vector<ResourceSet> bundles;
  Strategy strategy = Strategy::kPack;
  std::string name;
  bool detached = false;
  int priority = 0;
  bool wait_if_infeasible = false;
  std::vector<LabelRule> labels;                           // Required labels of every node.
  std::vector<std::vector<LabelRule>> bundle_labels = {};  // In addition, for each bundle's node; or empty.
};

enum class GroupState : uint8_t { kPending, kReady, kRescheduling };
std::string_view to_string(GroupState state);

// Placement of one bundle.
struct BundleStatus {
  ResourceSet resources;
  std::string node_name;  // Empty: not placed.
  std::vector<int> gpus;
};
// State of a placement group as last reported by the head.
struct GroupStatus {
  GroupId id;
  std::string name;
  Strategy strategy = Strategy::kPack;
  GroupState state = GroupState::kPending;
  std::string reason;  // Why it is pending.
  std::vector<BundleStatus> bundles;
};

// Creates, removes and queries placement groups. Thread safe.
class GroupSession {
 public:
  using Done = std::function<void(Result<GroupStatus>)>;

  virtual ~GroupSession() = default;
  // `done` runs once, on a runtime thread, when the head has accepted the request (the group may still be pending) or
  // rejected it. Waits for an unreachable head.
  virtual GroupId create(const GroupAsk& ask, Done done) = 0;
  // `done` runs when all bundles are reserved; kNotFound: the group was removed.
  virtual void when_ready(const GroupId& group, Done done) = 0;
  // `done` gets an empty status.
  virtual void remove(const GroupId& group, Done done) = 0;
  virtual Result<GroupStatus> find(const std::string& name) = 0;  // kNotFound.
  virtual Result<GroupStatus> status(const GroupId& group) = 0;   // kNotFound: removed.
};

}  // namespace volador
