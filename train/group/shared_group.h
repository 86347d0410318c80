// A group whose ranks of one node meet in shared memory. Between nodes one rank a node, its leader, takes part in a
// wire.
//
// Gradients: a rank writes its contribution to a bucket into its own part of the memory and marks it ready. Each rank
// of the node then sums one slice of the bucket over the ranks, in the order of the ranks, and marks it done. There is
// no further barrier: an input is written again only after finish(), which waits for all slices, and a slice of the
// next step is written only when all ranks have posted it, hence have used the previous result.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "train/group/group.h"
#include "train/group/shared_segment.h"

namespace volador::train {

// An operation of a wire that runs in the background.
class WireWork {
 public:
  virtual ~WireWork() = default;
  // Whether it has ended. Throws std::exception if it failed.
  virtual bool is_done() = 0;
};

// Collective operations of the leaders of the nodes. Operations are started in the same order on all of them.
class Wire {
 public:
  virtual ~Wire() = default;
  // Start an operation in place and return at once; `ended` is called on any thread when it has ended.
  virtual std::unique_ptr<WireWork> all_reduce(torch::Tensor tensor, std::function<void()> ended) = 0;
  virtual std::unique_ptr<WireWork> broadcast(torch::Tensor tensor, int root_node, std::function<void()> ended) = 0;
  virtual std::string_view name() const = 0;
  // Gives up everything that runs; must return at once.
  virtual void abandon() = 0;
};

struct SharedGroupOptions {
  SegmentOffer segment;  // File of one member of this node, the same for all ranks of the node.
  int rank = 0;          // In the whole group.
  std::vector<int>
      node_of_rank;  // Index of each rank's node: 0, 1 …, in the order of their first ranks. Its size is the world.
  int64_t arena_bytes = 0;               // Sum of exchange_bytes() over the exchanges that will be made.
  uint64_t layout = 0;                   // Digest of what must be equal on all ranks; checked when the ranks meet.
  std::shared_ptr<Wire> wire = nullptr;  // Set on the first rank of each node if there are several nodes.
  std::chrono::nanoseconds join_timeout{30'000'000'000};  // Limit for the other ranks of the node to arrive.
  const std::atomic<bool>* cancelled = nullptr;           // Ends the waiting for them with GroupAborted; null: never.
};

// Memory that an exchange with this plan takes among `ranks` ranks of one node.
int64_t exchange_bytes(const BucketPlan& plan, int ranks);

// Collective: returns when all ranks of the node have arrived. Throws volador::Exception: kUnavailable (the memory
// cannot be shared, a rank did not arrive in time), kInvalidArgument (the layout differs, names the ranks).
std::unique_ptr<Group> join_shared_group(const SharedGroupOptions& options);

}  // namespace volador::train
