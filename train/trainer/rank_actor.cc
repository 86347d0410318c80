#include "train/trainer/rank_actor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "runtime/actor/self.h"
#include "runtime/stacks/thread_stacks.h"
#include "train/group/backend_group.h"
#include "train/group/node_wire.h"
#include "train/group/shared_group.h"
#include "train/optim/state_dict.h"
#include "tune/refusal.h"

namespace volador::train {
namespace {

constexpr std::chrono::milliseconds kStackPatience{500};
constexpr size_t kStackFrames = 24;
constexpr size_t kFrameBytes = 200;

// `state`: a PackedState or a StateCopy.
template <class State>
volador::Ref<StateBytes> put_state(State& state) {
  volador::ArrayDraft<char> draft(state.size());
  state.write(draft.span());
  return std::move(draft).put();
}

}  // namespace

RankActor::RankActor(RankSpec spec) : spec_(std::move(spec)) {}

std::shared_ptr<RankLoop> RankActor::loop() {
  const std::lock_guard<std::mutex> hold(mutex_);
  if (loop_ == nullptr) tune::throw_refusal("this rank has not been prepared");
  return loop_;
}

RankReady RankActor::prepare() {
  auto made = std::make_shared<RankLoop>(
      RankOptions{.operator_name = spec_.operator_name, .seed = spec_.seed, .use_gpu = spec_.use_gpu}, spec_.config);
  next_segment_ = tune::unwrap(SegmentFile::create());
  const std::lock_guard<std::mutex> hold(mutex_);
  loop_ = std::move(made);
  return {.node = is_inside_actor() ? self().node_name : std::string(),
          .pid = ::getpid(),
          .layout = loop_->layout(),
          .parameters = loop_->describe_parameters(),
          .batch_size = loop_->batch_size(),
          .batches_per_epoch = loop_->batches_per_epoch(),
          .parameter_count = loop_->parameter_count(),
          .has_validation = loop_->has_validation(),
          .is_sharded = loop_->is_sharded(),
          .segment = next_segment_.offer()};
}

FormReply RankActor::form(Formation formation, StateBytes state) {
  const auto loop = this->loop();
  FormReply reply;
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    if (formation.generation <= generation_) {
      reply.not_joined = fmt::format("generation {} is older than {}", formation.generation, generation_);
      return reply;
    }
    if (formation.generation <= aborted_generation_) {  // The word to give it up has overtaken this call.
      reply.not_joined = fmt::format("generation {} was given up", formation.generation);
      reply.step = loop->status().step;
      reply.epoch = loop->epoch();
      reply.segment = next_segment_.offer();
      return reply;
    }
    generation_ = formation.generation;
    join_cancelled_ = false;
  }
  try {
    join(*loop, formation, state);
  } catch (const GroupAborted& aborted) {
    reply.not_joined = aborted.what();
  } catch (const Exception& exception) {
    (exception.error().code == ErrorCode::kInvalidArgument ? reply.error : reply.not_joined) =
        exception.error().message;
  }
  reply.step = loop->status().step;
  reply.epoch = loop->epoch();
  reply.segment = next_segment_.offer();
  return reply;
}

void RankActor::join(RankLoop& loop, const Formation& formation, const StateBytes& state) {
  if (formation.has_state) loop.load(from_bytes({state.data(), state.size()}));
  const int node = formation.node_of_rank.at(static_cast<size_t>(formation.rank));
  const auto ranks_of_node =
      static_cast<int>(std::count(formation.node_of_rank.begin(), formation.node_of_rank.end(), node));
  // An offer is used once: a rank of a group that was given up may still write to its memory.
  segment_ = std::exchange(next_segment_, tune::unwrap(SegmentFile::create()));
  if (formation.node_of_rank.size() == 1) {
    loop.form(single_rank_group());
  } else {
    const auto& nodes = formation.node_of_rank;
    const int node_count = 1 + *std::max_element(nodes.begin(), nodes.end());
    const auto first = std::find(nodes.begin(), nodes.end(), node) - nodes.begin();
    const std::string address = self().node_address.empty() ? "127.0.0.1" : self().node_address;
    const auto rendezvous = std::make_shared<ActorRendezvous>(formation.rendezvous, join_cancelled_);
    const std::string run = std::to_string(formation.generation);
    if (spec_.use_gpu && spec_.backend != "shared") {
      return loop.form(join_backend_group({.backend = spec_.backend,
                                           .rank = formation.rank,
                                           .world = static_cast<int>(nodes.size()),
                                           .address = address,
                                           .run = run,
                                           .rendezvous = rendezvous,
                                           .layout = loop.layout()}));
    }
    std::shared_ptr<Wire> wire;
    if (node_count > 1 && first == formation.rank)
      wire = join_node_wire({.node = node,
                             .nodes = node_count,
                             .address = address,
                             .run = run,
                             .rendezvous = rendezvous,
                             .layout = loop.layout(),
                             .cancelled = &join_cancelled_});
    loop.form(join_shared_group({.segment = formation.segment,
                                 .rank = formation.rank,
                                 .node_of_rank = formation.node_of_rank,
                                 .arena_bytes = loop.arena_bytes(ranks_of_node),
                                 .layout = loop.layout(),
                                 .wire = std::move(wire),
                                 .cancelled = &join_cancelled_}));
  }
}

SegmentReply RankActor::run(uint64_t generation, SegmentRequest request) {
  const auto loop = this->loop();
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    if (generation != generation_)
      return {.end = SegmentEnd::kAborted, .reason = fmt::format("generation {} is over", generation)};
  }
  steps_thread_ = ::gettid();
  struct Ended {
    std::atomic<int>& thread;
    ~Ended() { thread = 0; }
  } ended{steps_thread_};
  return loop->run(request);
}

volador::Ref<StateBytes> RankActor::stored_state() {
  const PackedState packed(loop()->state());
  return put_state(packed);
}
void RankActor::load(StateBytes state) { loop()->load(from_bytes({state.data(), state.size()})); }

uint64_t RankActor::copy_state() {
  auto copy = loop()->copy_state();
  const std::lock_guard<std::mutex> hold(mutex_);
  copies_.emplace(++copy_count_, std::move(copy));
  return copy_count_;
}

volador::Ref<StateBytes> RankActor::stored_copy(uint64_t number) {
  std::shared_ptr<StateCopy> copy;
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    const auto node = copies_.extract(number);
    if (node.empty()) tune::throw_refusal(fmt::format("this rank has no copy {} of its state", number));
    copy = node.mapped();
  }
  return put_state(*copy);
}

void RankActor::pause(uint64_t generation) {
  const std::lock_guard<std::mutex> hold(mutex_);
  if (generation == generation_ && loop_ != nullptr) loop_->request_pause();
}

void RankActor::abort(uint64_t generation, std::string reason) {
  const std::lock_guard<std::mutex> hold(mutex_);
  aborted_generation_ = std::max(aborted_generation_, generation);
  if (generation != generation_ || loop_ == nullptr) return;
  join_cancelled_ = true;
  loop_->abort(reason);
}

RankView RankActor::status() {
  RankView view{.loop = loop()->status(), .stack = {}};
  if (view.loop.in_step_s >= spec_.long_step_s) view.stack = stack_of_steps();
  return view;
}

std::string RankActor::stack_of_steps() {
  const auto threads = stacks::capture(kStackPatience);
  if (!threads) return {};
  const int steps = steps_thread_;
  const auto found = std::find_if(threads->begin(), threads->end(),
                                  [&](const stacks::ThreadStack& one) { return one.thread.id == steps; });
  if (found == threads->end()) return {};
  if (frame_names_ == nullptr) frame_names_ = std::make_unique<stacks::FrameNames>();
  std::string text;
  const size_t count = std::min(found->frames.size(), kStackFrames);
  for (size_t i = 0; i < count; ++i) {
    const std::string frame = frame_names_->name_of(found->frames[i], i > 0);
    if (frame.find("train::RankLoop::run") != std::string::npos) break;  // The rest is the same in every stack.
    text += frame.size() <= kFrameBytes ? frame : frame.substr(0, kFrameBytes) + "…";
    text += '\n';
  }
  return text;
}

}  // namespace volador::train
