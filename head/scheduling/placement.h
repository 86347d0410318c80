// The scheduler: assigns waiting requests to nodes, and explains why the others wait.
// Pure: no clock, thread, I/O or randomness. Owns the resource ledger, so that its index is always current.
//
// Order: higher priority first, then earlier arrival. Pack: a request goes to the fullest node that fits it
// (capacity_index.h); ties go to the node that joined first.
// If a request fits nowhere now, later and smaller ones may overtake it. A request that was overtaken and has waited
// for Times::reserve_after gets a reservation on the node that lacks the least: the node keeps what the request needs
// at its start (backfill.h), and everything else there goes to the requests behind it. Requests before it in the order
// ignore the reservation. A node may have several reservations; each uses what the earlier ones leave. At most
// Limits::reservations requests have reservations at a time. If nothing that the request lacks became free for
// kReservedMax, its reservation is given up, since what runs on that node may never end. The next reservation is on a
// node without a failed one, and lasts twice as long; if there is no such node, other requests first get as much time
// as the reservation had.
//
// Requests of one shape (resources, labels, program) share a queue: if the first fits nowhere, none is tried again
// until capacity grows, and then only if the shape could fit what grew (front_index.h).
//
// A placement group waits in the same order as one request: all its bundles are granted at once, or none
// (bundle_plan.h). When overtaken, it gets a reservation for each bundle.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "head/kernel/options.h"
#include "head/scheduling/backfill.h"
#include "head/scheduling/bundle_plan.h"
#include "head/scheduling/capacity_index.h"
#include "head/scheduling/front_index.h"
#include "head/scheduling/holder.h"
#include "head/scheduling/resource_ledger.h"
#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/language/reason.h"
#include "runtime/node_affinity.h"
#include "runtime/result.h"
#include "runtime/strategy.h"

namespace volador::head {

// A request for the resources of one actor.
struct PlacementRequest {
  ActorId actor;
  ResourceSet resources;
  NodeAffinity wishes;
  std::string program;  // Nodes that cannot run it are excluded.
  int32_t priority = 0;
  uint64_t sequence = 0;  // Order of arrival.
};

// A granted actor request: its node and devices.
struct Placed {
  ActorId actor;
  NodeId node;
  std::vector<int32_t> gpus;
};

// Bundles of one group without a node.
struct GroupRequest {
  struct Bundle {
    HolderId holder;
    ResourceSet resources;
    size_t index = 0;                    // Index in the group, for messages.
    std::vector<LabelRule> labels = {};  // Required of its node in addition to the group's rules.
  };
  HolderId holder;  // Id under which the group waits.
  Strategy strategy = Strategy::kPack;
  std::vector<Bundle> bundles;    // At least one.
  std::vector<NodeId> beside;     // Nodes of the group's other bundles, one entry per bundle.
  std::vector<LabelRule> labels;  // Required of each node.
  std::string program;
  int32_t priority = 0;
  uint64_t sequence = 0;
};

// A granted group request: node and devices of each bundle.
struct PlacedGroup {
  struct Bundle {
    HolderId holder;
    NodeId node;
    std::vector<int32_t> gpus;
  };
  HolderId holder;
  std::vector<Bundle> bundles;  // In the order of the request.
};

// The request that keeps another one waiting.
struct Blocker {
  enum class Why : uint8_t {
    kReservation,  // `node` would fit, but keeps `resources` for the other request.
    kOrder,        // The other request is first in the queue, before this one.
  };
  Why why = Why::kOrder;
  HolderId holder;  // The other request.
  NodeId node;
  ResourceSet resources;
};

// Queue of requests, resource ledger and reservations.
class Placement {
 public:
  static constexpr std::chrono::minutes kReservedMax{10};  // Duration of a first reservation without any progress.
  static constexpr int kReservationsDoubledMax = 7;        // Maximum number of doublings of this duration.
  static constexpr size_t kReservedNodesMax = 256;         // Nodes with reservations at a time.
  static constexpr size_t kDecisionsMax = 4096;            // Per schedule() call.
  // Display name of a request: "actor trainer (3f2a91c0)".
  using NameOf = std::function<Reason(HolderId)>;

  Placement(const Times& times, const Limits& limits);
  ~Placement();

  // Adds or replaces a node. Replacing sets new resources and labels and drops its grants. Not placeable at first.
  void set_node(NodeId id, const std::string& name, const Labels& labels, const ResourceSet& total,
                const std::vector<int32_t>& gpus);
  void remove_node(NodeId id);
  // Empty `why_not`: placeable; otherwise the reason ("suspect", "draining"). `problem`: the node's health problem, if
  // that is the reason.
  void set_placeable(NodeId id, const std::string& why_not, const Reason& problem = {});
  // GPUs with a health problem, and which: nothing new is granted on them. All others are open. Until the next
  // set_node().
  void set_closed_gpus(NodeId id, const std::map<int32_t, Reason>& gpus);
  // Marks the program as not runnable on the node, until the next set_node().
  void exclude(NodeId id, const std::string& program);
  bool is_excluded(NodeId id, const std::string& program) const;
  // The reason why the node accepts no requests; empty: it does.
  std::string why_not(NodeId id) const;
  // The health problem of a node that accepts no requests because of it; empty: none.
  Reason problem(NodeId id) const;

  // kInfeasible: no current node could ever hold it; the message says what is requested and what the largest node has.
  // With no node at all everything is feasible.
  Result<void> check_feasible(const PlacementRequest& request, const std::string& who);

  // Same for a group: whether it could be placed on the current nodes if nothing else ran there.
  Result<void> check_feasible(const GroupRequest& request, const std::string& who);

  // Idempotent.
  void submit(BootTime now, const PlacementRequest& request);
  void submit(BootTime now, GroupRequest request);
  // Returns false if not waiting.
  bool withdraw(HolderId holder);
  bool waits(HolderId holder) const;
  size_t waiting() const;

  // Decides as much as possible, at most kDecisionsMax: call again if it returns that many. Grants are recorded in the
  // ledger.
  std::vector<Placed> schedule(BootTime now);
  // The groups that schedule() placed since the last call.
  std::vector<PlacedGroup> take_placed_groups() { return std::exchange(placed_groups_, {}); }
  // Restores a grant of an earlier head; see ResourceLedger::adopt. `apart`: as in NodeAffinity.
  bool adopt(NodeId node, HolderId holder, const ResourceSet& held, const std::vector<int32_t>& gpus,
             const std::string& apart = {});
  // See ResourceLedger. Returns false, without effect, on repeated calls and for a holder without a grant.
  bool lend_cpus(HolderId holder);
  bool take_back_cpus(HolderId holder);
  // Idempotent.
  void release(HolderId holder);
  // Makes reservations for requests that waited too long, and gives up those that made no progress.
  void on_tick(BootTime now);

  // The reason why a request waits; empty if it does not. `name_of`: returns display names of the requests before it.
  Reason explain(HolderId holder, const NameOf& name_of) const;
  // The request because of which this one waits; nullopt: there is none.
  std::optional<Blocker> blocker(HolderId holder) const;

  const ResourceLedger& ledger() const { return ledger_; }
  struct Reserved {
    NodeId node;
    ResourceSet resources;  // Requested resources.
    ResourceSet kept;       // The part of them that is free now and kept from the requests behind it.
  };
  std::vector<Reserved> reserved_for(HolderId holder) const;
  // Number of custom resource names and label sets in use.
  size_t resource_names() const { return names_.size(); }
  size_t label_sets() const { return label_numbers_.size(); }

  void check_invariants() const;

 private:
  using Order = RequestOrder;
  struct ShapeKey {
    std::map<std::string, Amount, std::less<>> resources;
    NodeAffinity wishes;
    std::string program;
    HolderId group;  // Nil: a shape of actors.
    auto operator<=>(const ShapeKey&) const = default;
  };
  struct Shape {
    ShapeKey key;
    ResourceSet resources;  // For a group, the minimum of each amount over its bundles.
    Demand demand;
    std::unique_ptr<GroupRequest> group;  // Null: a shape of actors.
    std::map<Order, BootTime> queue;      // With the start of each wait.
    ResourceSet named;                    // Resources whose names are in use because of this shape.
    mutable std::vector<int8_t> matches;  // By label set number: 0 unknown, 1 yes, -1 no.
    bool blocked = false;                 // Its first request fitted nowhere at the last attempt.
    mutable uint64_t reason_version = 0;  // Version of the cached capacity_reason.
    mutable Reason reason;
  };
  struct Node {
    NodeId id;
    std::string name;
    uint32_t slot = 0;  // Order of joining.
    Labels labels;
    uint32_t labels_number = 0;
    std::string why_not;
    Reason problem;                         // See set_placeable().
    std::map<int32_t, Reason> closed_gpus;  // Their health problems.
    Capacity free;                          // The node's capacity in the index, or the one it would have.
    std::set<std::string> excluded;
    std::set<std::string> apart;  // Anti-affinity keys of the holders on this node.
    struct Reservation {
      Order order;
      ResourceSet resources;
      Backfill backfill;  // The rest left by the earlier reservations and this one.
      Capacity left;      // Same, as an index entry.
    };
    std::vector<Reservation> reservations;  // In order.
  };
  // A request with reservations.
  struct Reserver {
    std::chrono::nanoseconds patience{};  // Its reservations are given up if nothing becomes free for this long.
    BootTime until{};
    double missing = 0;  // Minimum so far, summed over its nodes.
    std::set<uint32_t> slots;
  };
  // Failed reservations for requests of a shape.
  struct InVain {
    int times = 0;                     // Since the last start of one of its requests.
    std::chrono::nanoseconds pause{};  // Before the next reservation.
    std::set<uint32_t> slots;          // Nodes of the failed reservations.
  };

  enum class Reservations : uint8_t { kKept, kIgnored };
  class FreeNodes;   // Nodes that a group may use now.
  class EmptyNodes;  // All nodes, as if nothing ran there.

  Shape& shape_of(const PlacementRequest& request);
  std::unique_ptr<Shape> make_shape(ShapeKey key, ResourceSet resources);
  Shape single_shape(const Shape& group, const GroupRequest::Bundle& bundle) const;
  Shape joint_shape(const Shape& group) const;
  PlanRequest plan_request(const GroupRequest& group) const;
  void acquire_names(Shape& shape, const ResourceSet& names);
  void release_names(Shape& shape);
  void enqueue(BootTime now, Shape& shape, const Order& order);
  void forget_name(const Node& node);
  void keep_apart(Node& node, HolderId holder, const std::string& word);
  bool place_actor(const Shape& shape, const Order& order, const std::vector<Node*>& grown,
                   std::vector<Placed>& placed);
  bool place_group(const Shape& shape, const Order& order);
  bool could_place_group(const Shape& shape, const Order& order) const;
  Result<void> check_names(const ResourceSet& resources);
  void drop_idle_shapes();
  static bool match_all(const std::vector<LabelRule>& rules, const Labels& labels);
  bool labels_match(const Shape& shape, uint32_t labels) const;
  bool may_run(const Shape& shape, const Node& node) const;
  static bool names_its_node(const Shape& shape);
  static bool is_apart(const Shape& shape, const Node& node);
  Node* wished_node(const Shape& shape) const;
  bool is_asked_for(const Shape& shape, const Node& node) const;
  static const Node::Reservation* last_before(const Node& node, const Order& order);
  const ResourcePool& pool_for(const Node& node, const Order& order) const;
  static const Capacity& capacity_for(const Node& node, const Order& order);
  static const Capacity& capacity_for_last(const Node& node);
  static bool has_reservation(const Node& node, const Order& order);
  std::vector<int32_t> grant(Node& node, const Order& order, HolderId holder, const ResourceSet& resources);
  bool may_use(const Shape& shape, const Node& node) const;
  bool may_take(const Shape& shape, const Order& order, const Node& node) const;
  void reindex(Node& node, bool grew);
  Node* find_node(const Shape& shape, const Order& order) const;
  Node* find_among(const std::vector<Node*>& grown, const Shape& shape, const Order& order) const;
  Node* place_of(const Shape& shape, const Order& order, const std::vector<Node*>& grown) const;
  bool next_to_try(const Order* after, const std::vector<Node*>& grown, const Amounts& most, Order& order,
                   Shape*& shape) const;
  void queue_changed(Shape& shape, const Order* first_before);
  void take_out(Shape& shape, const Order& order);
  void drop_reservation(const Order& order);
  void drop_reservations_on(Node& node);
  void refresh_reservations(Node& node);
  void note_passing(BootTime now, const Order& order);
  bool was_passed(const Order& order, BootTime since) const;
  std::chrono::nanoseconds pause_before_reservation(const Shape& shape) const;
  double missing_for(const Order& order, const Reserver& reserver) const;
  void give_up_reservation(BootTime now, const Order& order);
  using Chosen = std::map<uint32_t, ResourceSet>;                // By slot: what a group asks for on the node.
  enum class Share : uint8_t { kFreely, kUnwillingly, kNever };  // Whether two bundles may share a node.
  Node* choose_for_reservation(const Shape& shape, const Order& order, const Chosen& chosen, Share share) const;
  double missing_on(const ResourceSet& resources, const Order& order, const Node& node, const Chosen& chosen) const;
  void reserve(BootTime now, const Shape& shape, const Order& order);
  std::vector<std::pair<Node*, ResourceSet>> nodes_for_bundles(const Shape& shape, const Order& order) const;
  void add_reservation(Node& node, const Order& order, const ResourceSet& resources);
  std::vector<const Node*> nodes_for(const Shape& shape) const;
  Reason lacking_everywhere(const Shape& shape, Reason* next_step) const;
  Reason capacity_reason(const Shape& shape) const;
  Reason capacity_lacking(const Shape& shape, const std::vector<const Node*>& usable) const;
  Reason group_reason(const Shape& shape, const Order& order) const;
  Error group_lacks(const Shape& shape, const Plan& plan, const std::string& who) const;
  std::optional<Blocker> reservation_before(const Shape& shape, const Order& order) const;
  std::optional<Blocker> reservation_before_group(const Shape& shape, const Order& order) const;
  std::optional<Blocker> first_before(const Order& order) const;
  Reason queue_reason(const Order& order, const NameOf& name_of) const;
  uint32_t acquire_labels(const Labels& labels);
  void release_labels(uint32_t number);

  const Times times_;
  const Limits limits_;
  ResourceLedger ledger_;
  ResourceNames names_;
  struct LabelSet {
    Labels labels;
    size_t nodes = 0;  // Number of nodes that have it.
  };
  std::map<Labels, uint32_t> label_numbers_;
  std::vector<LabelSet> label_sets_;     // By number.
  std::vector<uint32_t> unused_labels_;  // Numbers of label sets without nodes.
  std::unordered_map<NodeId, std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::string, Node*> names_of_nodes_;
  std::unordered_map<HolderId, std::string> apart_;  // Holders with an anti-affinity key on their node.
  std::unordered_map<uint32_t, Node*> slots_;
  uint32_t next_slot_ = 1;
  CapacityIndex free_;           // Placeable nodes, after their reservations.
  CapacityIndex totals_;         // All nodes.
  std::set<uint32_t> grown_;     // Nodes whose capacity grew since the last schedule().
  std::set<uint32_t> reserved_;  // Nodes with reservations.
  std::map<Order, Reserver> reservers_;
  std::unordered_map<const Shape*, InVain> in_vain_;

  std::map<ShapeKey, std::unique_ptr<Shape>> shapes_;
  std::unordered_map<HolderId, std::pair<Shape*, Order>> waiting_;
  std::vector<PlacedGroup> placed_groups_;
  std::map<Order, Shape*> fronts_;  // The first request of each queue.
  FrontIndex<Shape> asks_;          // Same, by what they ask for.
  std::map<Order, Shape*> ready_;   // First requests of shapes that are not blocked.
  struct Passing {
    uint64_t sequence_max = 0;
    BootTime last{};
  };
  std::map<int32_t, Passing> passing_;  // By priority: the requests placed so far.
  uint64_t version_ = 1;                // Version of all inputs of capacity_reason.
};

}  // namespace volador::head
