// Actor that runs one rank of a training run in its own process.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/actor/actor_class.h"
#include "runtime/actor/ref.h"
#include "runtime/serialize/codec.h"
#include "runtime/stacks/frame_names.h"
#include "runtime/store/array.h"
#include "train/group/shared_segment.h"
#include "train/operator/rank_loop.h"
#include "train/operator/state_copy.h"
#include "train/trainer/rendezvous_actor.h"

namespace volador::train {

struct RankSpec {
  std::string operator_name;
  Config config;
  uint64_t seed = 0;
  bool use_gpu = false;
  std::string backend = "shared";  // Between ranks with GPUs.
  double long_step_s = 2;          // The status of a rank that is in a step for longer has the stack.
};
VOLADOR_FIELDS(RankSpec, operator_name, config, seed, use_gpu, backend, long_step_s);

// A rank after setup().
struct RankReady {
  std::string node;  // Name.
  int32_t pid = 0;
  uint64_t layout = 0;     // Digest of the parameters' shapes.
  std::string parameters;  // Names and shapes, one line each.
  int64_t batch_size = 0;
  int64_t batches_per_epoch = 0;
  int64_t parameter_count = 0;
  bool has_validation = false;
  bool is_sharded = false;  // As RankLoop::is_sharded().
  SegmentOffer segment;     // Memory for the next group of its node.
};
VOLADOR_FIELDS(RankReady, node, pid, layout, parameters, batch_size, batches_per_epoch, parameter_count, has_validation,
               is_sharded, segment);

// Place of a rank in a new group.
struct Formation {
  uint64_t generation = 0;
  int rank = 0;
  std::vector<int> node_of_rank;
  SegmentOffer segment;                     // The same for all ranks of a node.
  ActorHandle<RendezvousActor> rendezvous;  // Connects the nodes; nil if there is one.
  bool has_state = false;                   // The state that comes with it replaces this rank's.
};
VOLADOR_FIELDS(Formation, generation, rank, node_of_rank, segment, rendezvous, has_state);

struct FormReply {
  int64_t step = 0;
  int64_t epoch = 0;
  SegmentOffer segment;    // Memory for the group after this one.
  std::string not_joined;  // Not empty: the group did not come about, and why; another one may.
  std::string error;       // Not empty: no group with this rank can come about, and why.
};
VOLADOR_FIELDS(FormReply, step, epoch, segment, not_joined, error);

// A state as train::to_bytes(). Read in place from the object store.
using StateBytes = Array<char>;

// What a rank does now.
struct RankView {
  RankStatus loop;
  std::string stack;  // Frames of the thread that runs the steps, innermost first; empty in a step of usual length.
};
VOLADOR_FIELDS(RankView, loop, stack);

class RankActor {
 public:
  explicit RankActor(RankSpec spec);

  // Runs setup() of the operator.
  RankReady prepare();
  // Collective: all ranks of a generation are told to form. An empty state keeps the rank's own.
  FormReply form(Formation formation, StateBytes state);
  SegmentReply run(uint64_t generation, SegmentRequest request);
  volador::Ref<StateBytes> stored_state();
  void load(StateBytes state);
  // Begins a copy of the state, which later steps do not change. Returns its number.
  uint64_t copy_state();
  // Copies into the object store; the copy is forgotten. On a thread of its own, while steps run.
  volador::Ref<StateBytes> stored_copy(uint64_t number);

  // On a thread of their own, while the others run. The first two have no effect for another generation.
  void pause(uint64_t generation);
  void abort(uint64_t generation, std::string reason);
  RankView status();

 private:
  std::shared_ptr<RankLoop> loop();
  void join(RankLoop& loop, const Formation& formation, const StateBytes& state);
  std::string stack_of_steps();

  const RankSpec spec_;
  SegmentFile next_segment_, segment_;
  std::atomic<int> steps_thread_{0};  // Thread that runs the steps, as the kernel numbers it; 0: none does.
  std::unique_ptr<stacks::FrameNames> frame_names_;  // Used by status() only.
  std::mutex mutex_;                                 // Guards the rest.
  uint64_t generation_ = 0;
  uint64_t aborted_generation_ = 0;
  std::atomic<bool> join_cancelled_{false};
  std::shared_ptr<RankLoop> loop_;  // Null before prepare().
  std::map<uint64_t, std::shared_ptr<StateCopy>> copies_;
  uint64_t copy_count_ = 0;
};
VOLADOR_ACTOR(RankActor, &RankActor::prepare, &RankActor::form, &RankActor::run, &RankActor::stored_state,
              &RankActor::load, &RankActor::copy_state, &RankActor::stored_copy, &RankActor::pause, &RankActor::abort,
              &RankActor::status);

}  // namespace volador::train
