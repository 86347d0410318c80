// The scheduler: which waiting request goes to which node, and why the others wait.
// Pure: no clock, thread, I/O or randomness. Owns the ledger of resources, so that its index never lags.
//
// Order: higher priority first, then who arrived first. Pack: a request goes to the fullest node that fits it (capacity_index.h);
// equally full nodes in the order in which they joined.
// A request that fits nowhere now lets later and smaller ones pass. One that was passed by and has waited for
// Times::reserve_after gets a reservation on the node on which the least is missing: the node keeps for it what it needs at its start
// (backfill.h), and everything else there goes to the requests behind it. Requests before it in the order see no reservation.
// Several requests may have reservations on one node; each sees what those before it leave. At most Limits::reservations requests have
// one at a time. Where nothing that the request lacks became free for kReservedMax, its reservation is given up, since what runs on that
// node may never end. The next one is on a node on which none was in vain, and waits twice as long; where there is no such node, others
// have first as much time as the reservation had.
//
// Requests of one shape (resources, labels, program) wait in one queue: when the first fits nowhere, none is tried again until
// capacity grows; then only shapes that could fit what grew are looked at (front_index.h).
//
// A placement group waits in the same order as one request: all of its bundles are granted at once, or none (bundle_plan.h). Where it
// was passed by, it gets a reservation for each bundle.
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
#include "runtime/node_wishes.h"
#include "runtime/result.h"
#include "runtime/strategy.h"

namespace volador::head {

struct PlacementRequest {
  ActorId actor;
  ResourceSet resources;
  NodeWishes wishes;
  std::string program;  // Nodes that cannot run it are left out.
  int32_t priority = 0;
  uint64_t sequence = 0;  // Of arrival.
};

struct Placed {
  ActorId actor;
  NodeId node;
  std::vector<int32_t> gpus;
};

// Bundles of one group that have no place yet.
struct GroupRequest {
  struct Bundle {
    HolderId holder;
    ResourceSet resources;
    size_t index = 0;  // In the group, for messages.
    std::vector<LabelRule> labels = {};  // Required of its node besides those of the group.
  };
  HolderId holder;  // As which the group waits.
  Strategy strategy = Strategy::kPack;
  std::vector<Bundle> bundles;  // At least one.
  std::vector<NodeId> beside;   // Where the group's other bundles lie, one entry each.
  std::vector<LabelRule> labels;  // Required of each node.
  std::string program;
  int32_t priority = 0;
  uint64_t sequence = 0;
};

struct PlacedGroup {
  struct Bundle {
    HolderId holder;
    NodeId node;
    std::vector<int32_t> gpus;
  };
  HolderId holder;
  std::vector<Bundle> bundles;  // In the order of the request.
};

// What keeps a request from its place, where that is another request.
struct Blocker {
  enum class Why : uint8_t {
    kReservation,  // `node` would hold it, but keeps `resources` for the other one.
    kOrder,        // The other one is the first in the queue, and comes before it.
  };
  Why why = Why::kOrder;
  HolderId holder;  // Of the other one.
  NodeId node;
  ResourceSet resources;
};

class Placement {
 public:
  static constexpr std::chrono::minutes kReservedMax{10};  // That a first reservation waits for something to become free.
  static constexpr int kReservationsDoubledMax = 7;        // How often this doubles.
  static constexpr size_t kReservedNodesMax = 256;         // With reservations, at a time.
  static constexpr size_t kDecisionsMax = 4096;            // Of one schedule().
  // What people call a request: "actor trainer (3f2a91c0)".
  using NameOf = std::function<Reason(HolderId)>;

  Placement(const Times& times, const Limits& limits);
  ~Placement();

  // Also for a node that is known: its resources and labels are those of now and its grants are gone. Not placeable at first.
  void set_node(NodeId id, const std::string& name, const Labels& labels, const ResourceSet& total, const std::vector<int32_t>& gpus);
  void remove_node(NodeId id);
  // `why_not` ("suspect", "draining") explains; empty: placeable.
  void set_placeable(NodeId id, const std::string& why_not);
  // The program cannot run there, until the node is set anew.
  void exclude(NodeId id, const std::string& program);
  bool is_excluded(NodeId id, const std::string& program) const;
  // Why nothing is placed on the node; empty: it takes requests.
  std::string why_not(NodeId id) const;

  // kInfeasible: no node of now could ever hold it; the message says what is asked and what the largest node has.
  // With no node at all everything is feasible.
  Result<void> check_feasible(const PlacementRequest& request, const std::string& who);

  // The same of a group: whether it would find its place on the nodes of now if nothing else ran there.
  Result<void> check_feasible(const GroupRequest& request, const std::string& who);

  // Repeated: no effect.
  void submit(BootTime now, const PlacementRequest& request);
  void submit(BootTime now, GroupRequest request);
  // Not waiting: false.
  bool withdraw(HolderId holder);
  bool waits(HolderId holder) const;
  size_t waiting() const;

  // Decides as much as can be decided, at most kDecisionsMax: call again while it returns so many. Grants are booked.
  std::vector<Placed> schedule(BootTime now);
  // The groups that schedule() placed since the last call.
  std::vector<PlacedGroup> take_placed_groups() { return std::exchange(placed_groups_, {}); }
  // Grants of an earlier head, see ResourceLedger::adopt. `apart`: as in NodeWishes.
  bool adopt(NodeId node, HolderId holder, const ResourceSet& held, const std::vector<int32_t>& gpus, const std::string& apart = {});
  // See ResourceLedger. Repeated, or of one that holds nothing: no effect; false.
  bool lend_cpus(HolderId holder);
  bool take_back_cpus(HolderId holder);
  // Repeated: no effect.
  void release(HolderId holder);
  // Makes reservations for requests that waited too long, and gives up those that did not help.
  void on_tick(BootTime now);

  // Why a waiting request waits; empty for another. `name_of`: what to call the requests before it.
  Reason explain(HolderId holder, const NameOf& name_of) const;
  // The request because of which this one waits; none: it is not because of one.
  std::optional<Blocker> blocker(HolderId holder) const;

  const ResourceLedger& ledger() const { return ledger_; }
  struct Reserved {
    NodeId node;
    ResourceSet resources;  // For which the reservation is.
    ResourceSet kept;       // Of these what is free now and given to nobody behind it.
  };
  std::vector<Reserved> reserved_for(HolderId holder) const;
  // How many names of custom resources and sets of labels are in use.
  size_t resource_names() const { return names_.size(); }
  size_t label_sets() const { return label_numbers_.size(); }

  void check_invariants() const;

 private:
  using Order = RequestOrder;
  struct ShapeKey {
    std::map<std::string, Amount, std::less<>> resources;
    NodeWishes wishes;
    std::string program;
    HolderId group;  // Nil: of actors.
    auto operator<=>(const ShapeKey&) const = default;
  };
  struct Shape {
    ShapeKey key;
    ResourceSet resources;  // Of a group, of each amount the least that a bundle asks.
    Demand demand;
    std::unique_ptr<GroupRequest> group;  // Null: of actors.
    std::map<Order, BootTime> queue;      // With the time since which each waits.
    ResourceSet named;                    // Whose names are in use because of it.
    mutable std::vector<int8_t> matches;  // By number of a label set: 0 unknown, 1 yes, -1 no.
    bool blocked = false;                 // Its first fits nowhere, as of the last look.
    mutable uint64_t reason_version = 0;  // Of capacity_reason, which is kept.
    mutable Reason reason;
  };
  struct Node {
    NodeId id;
    std::string name;
    uint32_t slot = 0;  // Order of joining.
    Labels labels;
    uint32_t labels_number = 0;
    std::string why_not;
    Capacity free;                 // As the index has it, or would.
    std::set<std::string> excluded;
    std::set<std::string> apart;   // Words of those that run there and want no second one of theirs.
    struct Reservation {
      Order order;
      ResourceSet resources;
      Backfill backfill;  // What the requests before it and this one leave.
      Capacity left;      // The same as the index has it.
    };
    std::vector<Reservation> reservations;  // In order.
  };
  // A request with reservations.
  struct Reserver {
    std::chrono::nanoseconds patience{};  // It is given up where nothing becomes free for so long.
    BootTime until{};
    double missing = 0;  // On all its nodes, at the least so far.
    std::set<uint32_t> slots;
  };
  // Reservations for requests of a shape that did not help.
  struct InVain {
    int times = 0;                     // Since one of them started.
    std::chrono::nanoseconds pause{};  // Before the next one.
    std::set<uint32_t> slots;          // Where they were.
  };

  enum class Reservations : uint8_t { kKept, kIgnored };
  class FreeNodes;   // Those that a group may use now.
  class EmptyNodes;  // All, as if nothing ran there.

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
  bool place_actor(const Shape& shape, const Order& order, const std::vector<Node*>& grown, std::vector<Placed>& placed);
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
  bool next_to_try(const Order* after, const std::vector<Node*>& grown, const Amounts& most, Order& order, Shape*& shape) const;
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
  using Chosen = std::map<uint32_t, ResourceSet>;  // By slot: what a group asks for there.
  enum class Share : uint8_t { kFreely, kUnwillingly, kNever };  // Whether two bundles are on one node.
  Node* choose_for_reservation(const Shape& shape, const Order& order, const Chosen& chosen, Share share) const;
  double missing_on(const ResourceSet& resources, const Order& order, const Node& node, const Chosen& chosen) const;
  void reserve(BootTime now, const Shape& shape, const Order& order);
  std::vector<std::pair<Node*, ResourceSet>> nodes_for_bundles(const Shape& shape, const Order& order) const;
  void add_reservation(Node& node, const Order& order, const ResourceSet& resources);
  std::vector<const Node*> nodes_for(const Shape& shape) const;
  Reason lacking_everywhere(const Shape& shape, Reason* next_step) const;
  Reason capacity_reason(const Shape& shape) const;
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
    size_t nodes = 0;  // That have it.
  };
  std::map<Labels, uint32_t> label_numbers_;
  std::vector<LabelSet> label_sets_;       // By number.
  std::vector<uint32_t> unused_labels_;    // Numbers of sets that no node has.
  std::unordered_map<NodeId, std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::string, Node*> names_of_nodes_;
  std::unordered_map<HolderId, std::string> apart_;  // Who is on the list of its node, with which word.
  std::unordered_map<uint32_t, Node*> slots_;
  uint32_t next_slot_ = 1;
  CapacityIndex free_;    // Of placeable nodes; what their reservations leave.
  CapacityIndex totals_;  // Of all nodes.
  std::set<uint32_t> grown_;  // Capacity grew since the last schedule().
  std::set<uint32_t> reserved_;  // Nodes with reservations.
  std::map<Order, Reserver> reservers_;
  std::unordered_map<const Shape*, InVain> in_vain_;

  std::map<ShapeKey, std::unique_ptr<Shape>> shapes_;
  std::unordered_map<HolderId, std::pair<Shape*, Order>> waiting_;
  std::vector<PlacedGroup> placed_groups_;
  std::map<Order, Shape*> fronts_;  // The first of each queue.
  FrontIndex<Shape> asks_;          // The same, with what they ask.
  std::map<Order, Shape*> ready_;   // Those of shapes that are not blocked.
  struct Passing {
    uint64_t sequence_max = 0;
    BootTime last{};
  };
  std::map<int32_t, Passing> passing_;  // By priority: what was placed so far.
  uint64_t version_ = 1;                // Of everything that capacity_reason reads.
};

}  // namespace volador::head
