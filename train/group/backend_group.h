// Groups over a backend of c10d: Gloo, which connects the ranks by TCP, or NCCL, which a plug-in library adds on
// machines with GPUs (nccl_plugin.h).
//
// Differences from a group in shared memory:
// - Sums are equal on all ranks bit for bit; with more than two ranks the backend decides the order of addition.
// - exchange() compares the ranks' plans. Operations and shapes of single calls are not compared, as that would double
//   the round trips: ranks that enter different operations wait for one another or get wrong values.
// - Input and result of a bucket are the same memory.
// - The sum of a bucket starts at post() once all buckets before it are posted; if the group has several exchanges, it
//   starts at finish(), since ranks may post to two exchanges in different orders. A call between post() and finish()
//   requires that all ranks have posted the same buckets.
// - A rank does not know which ranks are missing in an operation: CollectiveState::waiting_for stays empty.
// - abort() and the destructor close the connections of this rank, which aborts the group of each rank that exchanges
//   data with it. Where this rank's own operation cannot end because a third rank hangs, they stay open: call abort()
//   on every rank.
// - An operation that was given up goes on in the background until its peers enter it, their connections close, or the
//   timeout passes. It writes only to tensors of its own and of the exchange.
// - With NCCL the host waits until the GPU has completed an operation, so that a failed step changes no parameter.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "train/group/group.h"
#include "train/group/rendezvous.h"

namespace volador::train {

struct BackendOptions {
  std::string backend = "gloo";                    // "gloo" (tensors of CPUs or GPUs) or "nccl".
  int rank = 0;                                    // In 0 … world - 1.
  int world = 1;                                   // Number of ranks.
  std::string address = "127.0.0.1";               // IP address of this node's interface; Gloo listens there.
  std::string run;                                 // Prefix of the keys: run and generation, such as "digits-7/3".
  std::shared_ptr<Rendezvous> rendezvous;          // Table that all ranks see.
  std::chrono::milliseconds join_timeout{30'000};  // Limit for all ranks to arrive and connect.
  std::chrono::milliseconds timeout{1'800'000};    // Limit of an operation; the group is aborted when it passes.
  uint64_t layout = 0;                             // Digest of what must be equal on all ranks; compared on joining.
  int device = 0;                                  // Index of this rank's GPU; only for "nccl".
};

// Collective: returns when all ranks are connected. Throws volador::Exception: kUnavailable (a rank did not arrive or
// could not be reached, NCCL's plug-in is missing), kInvalidArgument (an option is wrong, or the layouts differ and the
// message names the ranks). Other errors of the rendezvous than kTimeout reach the caller unchanged.
std::unique_ptr<Group> join_backend_group(const BackendOptions& options);

}  // namespace volador::train
