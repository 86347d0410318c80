#include "train/group/node_wire.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <torch/torch.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <semaphore>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/result.h"
#include "train/core/wire_schedule.h"
#include "train/group/node_links.h"
#include "tune/refusal.h"

namespace volador::train {
namespace {

using SteadyClock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int64_t kChunkBytes = 128 << 10;   // Added and passed on at once.
constexpr int64_t kGatherBytes = 32 << 10;   // Sums up to this size take few steps instead of few bytes.
constexpr int64_t kPromptBytes = 32 << 10;   // Sent by the thread that has them; less than NodeLink::kPieceBytes.
constexpr int64_t kSerialElements = 16'384;  // LibTorch adds them in the calling thread, without its pool.
constexpr auto kWaitSlice = 20ms;            // Time after which the joining looks whether it is still wanted.
constexpr const char* kLeft = "the leader of this node has left the group";
constexpr const char* kCancelled = "the group is formed anew";

// Messages of c10 go on with the frames of their origin.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

enum class State : uint8_t { kRunning, kDone, kFailed };

// An operation from its start to its end. Members without a remark are written before it is queued.
struct Operation {
  std::string name;      // For messages.
  torch::Tensor target;  // The caller's.
  torch::Tensor memory;  // Flat; transfers read and write it.
  WireSchedule schedule;
  std::function<void(Operation&)> prepare;   // Fills the memory; null: it is the target's.
  std::function<void(Operation&)> complete;  // Makes the result from the memory; null: it is there.
  std::function<void()> ended;
  std::chrono::milliseconds timeout;
  NodeLink::Time deadline;
  std::shared_ptr<Operation> predecessor;  // The last one with overlapping memory: it must be over before.

  std::atomic<State> state{State::kRunning};
  std::string error;  // Written before the state becomes kFailed.
  // Guarded by Engine::mutex_.
  bool is_prepared = false;
  bool is_over = false;  // No thread uses the memory any more.
  int64_t received = 0;  // Receives that are complete.
  int parts = 2;         // Sends and receives, those that have not ended.
  size_t next_send = 0;  // Written by the thread that sends.

  // What the caller's tensor may occupy.
  std::pair<const char*, const char*> range() const {
    if (target.is_contiguous()) {
      const auto* begin = static_cast<const char*>(target.const_data_ptr());
      return {begin, begin + target.nbytes()};
    }
    const auto* begin = static_cast<const char*>(target.storage().data());
    return {begin, begin + target.storage().nbytes()};
  }
  int64_t bytes_of(const Transfer& transfer) const {
    return transfer.count * static_cast<int64_t>(memory.element_size());
  }
  std::span<std::byte> span_of(const Transfer& transfer) const {
    const auto size = static_cast<int64_t>(memory.element_size());
    return {static_cast<std::byte*>(memory.data_ptr()) + transfer.from * size,
            static_cast<size_t>(transfer.count * size)};
  }
};
using OperationPtr = std::shared_ptr<Operation>;

bool overlap(const Operation& left, const Operation& right) {
  const auto [left_begin, left_end] = left.range();
  const auto [right_begin, right_end] = right.range();
  return left_begin < right_end && right_begin < left_end;
}

// sum += addend for flat tensors.
void add_to(const torch::Tensor& sum, const torch::Tensor& addend) {
  const int64_t count = sum.numel();
  if (sum.scalar_type() == torch::kFloat) {  // Saves LibTorch's dispatch, some microseconds.
    float* __restrict to = sum.mutable_data_ptr<float>();
    const float* __restrict from = addend.const_data_ptr<float>();
    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
    return;
  }
  for (int64_t from = 0; from < count; from += kSerialElements) {
    const int64_t size = std::min(kSerialElements, count - from);
    sum.narrow(0, from, size).add_(addend.narrow(0, from, size));
  }
}

// Runs operations on two threads: one receives, the other sends. Small sends that are possible at once are made by the
// thread that starts the operation or has just received what they depend on, which saves a change of threads.
class Engine {
 public:
  // The threads keep the engine; call stop(). std::system_error: no thread could be started.
  static std::shared_ptr<Engine> run(NodeLinks links, NodePlace place) {
    const std::shared_ptr<Engine> engine(new Engine(std::move(links), place));
    engine->receiver_ = std::thread([engine] { engine->receive_operations(); });
    try {
      engine->sender_ = std::thread([engine] { engine->send_operations(); });
    } catch (const std::system_error&) {
      engine->stop("no thread could be started");
      throw;
    }
    return engine;
  }

  NodePlace place() const { return place_; }

  void start(const OperationPtr& operation) {
    std::unique_lock<std::mutex> hold(mutex_);
    for (const OperationPtr& earlier : unfinished_) {
      if (overlap(*earlier, *operation)) operation->predecessor = earlier;
    }
    if (operation->predecessor == nullptr) {
      hold.unlock();
      call(operation->prepare, *operation);
      hold.lock();
      operation->is_prepared = true;
    }
    if (is_failed_) {
      fail_locked(*operation);
      hold.unlock();
      if (operation->ended) operation->ended();
      return;
    }
    unfinished_.push_back(operation);
    to_send_.push_back(operation);
    to_receive_.push_back(operation);
    receiver_wakes_.notify_one();
    send_promptly(hold);
  }

  // Ends all operations, and those that will be started, with this error.
  void fail(const std::string& reason) {
    const std::lock_guard<std::mutex> hold(mutex_);
    if (std::exchange(is_failed_, true)) return;
    reason_ = reason;
    for (const OperationPtr& operation : unfinished_) fail_locked(*operation);
    for (const auto* side : {&links_.to, &links_.from}) {
      for (const auto& [node, link] : *side) link->shut_down();
    }
    sender_wakes_.notify_one();
    receiver_wakes_.notify_one();
  }

  // Also ends the threads. The one that calls it ends later.
  void stop(const std::string& reason) {
    fail(reason);
    for (std::thread* thread : {&sender_, &receiver_}) {
      if (thread->get_id() == std::this_thread::get_id()) {
        thread->detach();
      } else if (thread->joinable()) {
        thread->join();
      }
    }
  }

 private:
  Engine(NodeLinks links, NodePlace place) : links_(std::move(links)), place_(place) {}

  void fail_locked(Operation& operation) {
    if (operation.state.load() != State::kRunning) return;
    operation.error = reason_;
    operation.state.store(State::kFailed);
  }
  void fail(const Operation& operation, const Error& error) {
    const std::string limit =
        error.code == ErrorCode::kTimeout ? fmt::format(" within {} ms", operation.timeout.count()) : "";
    fail(fmt::format("{}: {}{}", operation.name, error.message, limit));
  }
  // Calls a function of the operation, if it has this one; all operations fail if it throws.
  void call(const std::function<void(Operation&)>& function, Operation& operation) {
    if (!function) return;
    try {
      const torch::NoGradGuard no_grad;
      function(operation);
    } catch (const std::exception& e) {
      fail(fmt::format("{}: {}", operation.name, first_line(e.what())));
    }
  }

  // Whether a thread may go on with the first operation that has not sent everything.
  bool can_send_locked() const {
    if (is_sending_ || to_send_.empty()) return false;
    if (is_failed_) return true;
    const Operation& first = *to_send_.front();
    if (first.predecessor != nullptr && !first.predecessor->is_over) return false;
    const auto& sends = first.schedule.sends;
    return !first.is_prepared || first.next_send == sends.size() || sends[first.next_send].after <= first.received;
  }
  // Whether the next step of the sends neither waits nor ends the operation.
  bool is_prompt(const Operation& operation) const {
    const auto& sends = operation.schedule.sends;
    if (operation.next_send == sends.size()) return false;
    const Transfer& next = sends[operation.next_send];
    return operation.bytes_of(next) <= kPromptBytes && !links_.to.at(next.peer)->has_unsent();
  }

  // Sends what is possible without waiting, and wakes the thread that sends if more is to be done.
  void send_promptly(std::unique_lock<std::mutex>& hold) {
    while (can_send_locked() && !is_failed_ && to_send_.front()->is_prepared && is_prompt(*to_send_.front())) {
      const OperationPtr operation = to_send_.front();
      is_sending_ = true;
      const int64_t received = operation->received;
      hold.unlock();
      const auto sent = send(*operation, received, /*may_wait=*/false);
      if (!sent) fail(*operation, sent.error());
      hold.lock();
      is_sending_ = false;
      // The end of an operation, which calls its caller, is left to the threads.
      if (!is_failed_ && is_sent(*operation) && operation->parts == 2) {
        to_send_.pop_front();
        --operation->parts;
      }
    }
    if (can_send_locked()) sender_wakes_.notify_one();
  }

  void send_operations() {
    ::pthread_setname_np(::pthread_self(), "volador-send");
    std::unique_lock<std::mutex> hold(mutex_);
    while (true) {
      sender_wakes_.wait(hold, [&] { return can_send_locked() || (is_failed_ && to_send_.empty()); });
      if (to_send_.empty()) return;
      const OperationPtr operation = to_send_.front();
      is_sending_ = true;
      const int64_t received = operation->received;
      if (!is_failed_) {
        const bool is_prepared = operation->is_prepared;
        hold.unlock();
        if (!is_prepared) call(operation->prepare, *operation);
        const auto sent = send(*operation, received, /*may_wait=*/true);
        if (!sent) fail(*operation, sent.error());
        hold.lock();
        if (!std::exchange(operation->is_prepared, true)) receiver_wakes_.notify_one();
      }
      if (is_failed_ || is_sent(*operation)) {
        to_send_.pop_front();
        end_part(hold, operation);
      }
      is_sending_ = false;
    }
  }

  bool is_sent(const Operation& operation) const {
    return operation.next_send == operation.schedule.sends.size() &&
           std::none_of(links_.to.begin(), links_.to.end(), [](const auto& to) { return to.second->has_unsent(); });
  }

  // Makes the sends that depend on no further receive; without waiting only the prompt ones.
  Result<void> send(Operation& operation, int64_t received, bool may_wait) {
    const auto& sends = operation.schedule.sends;
    while (operation.next_send < sends.size() && sends[operation.next_send].after <= received &&
           (may_wait || is_prompt(operation))) {
      const Transfer& next = sends[operation.next_send++];
      NodeLink& link = *links_.to.at(next.peer);
      VOLADOR_TRY(link.write(operation.span_of(next), operation.deadline));
      if (may_wait) continue;
      const auto sent = link.send_some();
      if (!sent) return make_error(sent.error());
    }
    if (!may_wait) return {};
    for (const auto& [node, link] : links_.to) VOLADOR_TRY(link->flush(operation.deadline));
    return {};
  }

  void receive_operations() {
    ::pthread_setname_np(::pthread_self(), "volador-receive");
    std::unique_lock<std::mutex> hold(mutex_);
    while (true) {
      receiver_wakes_.wait(hold,
                           [&] { return is_failed_ || (!to_receive_.empty() && to_receive_.front()->is_prepared); });
      if (to_receive_.empty()) return;
      const OperationPtr operation = to_receive_.front();
      if (!is_failed_) {
        hold.unlock();
        call([this](Operation& self) { receive(self); }, *operation);
        hold.lock();
      }
      to_receive_.pop_front();
      end_part(hold, operation);
    }
  }

  void receive(Operation& operation) {
    for (const Transfer& next : operation.schedule.receives) {
      NodeLink& link = *links_.from.at(next.peer);
      const std::span<std::byte> to = operation.span_of(next);
      auto* data = next.is_added ? static_cast<std::byte*>(arrived_.data_ptr()) : to.data();
      if (const auto read = link.read({data, to.size()}, operation.deadline); !read) {
        return fail(operation, read.error());
      }
      if (next.is_added) {
        const torch::Tensor sum = operation.memory.narrow(0, next.from, next.count);
        add_to(sum, arrived_.narrow(0, 0, operation.bytes_of(next)).view(sum.scalar_type()));
      }
      std::unique_lock<std::mutex> hold(mutex_);
      ++operation.received;
      send_promptly(hold);
    }
  }

  // The sends of the operation have ended, or its receives. The last of both ends the operation, in the order of the
  // operations, since each thread ends its parts in this order.
  void end_part(std::unique_lock<std::mutex>& hold, const OperationPtr& operation) {
    if (--operation->parts > 0) return;
    hold.unlock();
    if (operation->state.load() == State::kRunning) call(operation->complete, *operation);
    hold.lock();
    if (operation->state.load() == State::kRunning) operation->state.store(State::kDone);
    unfinished_.erase(std::find(unfinished_.begin(), unfinished_.end(), operation));
    operation->is_over = true;
    if (can_send_locked()) sender_wakes_.notify_one();
    hold.unlock();
    // It may hold the last reference to the wire, or to the tensor's memory.
    if (auto ended = std::exchange(operation->ended, nullptr)) ended();
    operation->target.reset();
    operation->memory.reset();
    operation->predecessor.reset();
    hold.lock();
  }

  NodeLinks links_;
  const NodePlace place_;
  const torch::Tensor arrived_ = torch::empty({kChunkBytes}, torch::kByte);  // Values that are to be added.
  std::mutex mutex_;
  std::condition_variable sender_wakes_, receiver_wakes_;
  std::deque<OperationPtr> unfinished_, to_send_, to_receive_;  // In the order of their starts.
  bool is_sending_ = false;  // A thread makes sends: it alone uses links_.to and the first operation's next_send.
  bool is_failed_ = false;
  std::string reason_;
  std::thread sender_, receiver_;
};

// Transfers work on the tensor itself, or on a copy if it has gaps.
void use_whole_memory(Operation& operation) {
  const torch::Tensor& target = operation.target;
  if (target.is_contiguous()) {
    operation.memory = target.view({-1});
    return;
  }
  operation.memory = torch::empty({target.numel()}, target.options());
  operation.prepare = [](Operation& self) { self.memory.view(self.target.sizes()).copy_(self.target); };
  operation.complete = [](Operation& self) { self.target.copy_(self.memory.view(self.target.sizes())); };
}

// Transfers work on the blocks of all nodes, of which this node's is the first.
void use_blocks(Operation& operation, NodePlace place) {
  const int64_t block = operation.target.numel();
  operation.memory = torch::empty({place.nodes * block}, operation.target.options());
  operation.prepare = [block](Operation& self) {
    self.memory.narrow(0, 0, block).view(self.target.sizes()).copy_(self.target);
  };
}

// The block of a node, flat.
torch::Tensor block_of(const Operation& operation, NodePlace place, int node) {
  const int64_t block = operation.target.numel();
  return operation.memory.narrow(0, (place.node - node + place.nodes) % place.nodes * block, block);
}

class NodeWire final : public Wire {
 public:
  NodeWire(std::shared_ptr<Engine> engine, std::chrono::milliseconds timeout)
      : engine_(std::move(engine)), timeout_(timeout) {}
  ~NodeWire() override { engine_->stop(kLeft); }

  std::unique_ptr<WireWork> all_reduce(torch::Tensor tensor, std::function<void()> ended) override {
    const OperationPtr operation = make("all_reduce", tensor, std::move(ended));
    const NodePlace place = engine_->place();
    const auto element_bytes = static_cast<int64_t>(tensor.element_size());
    if (tensor.numel() * element_bytes > kGatherBytes) {
      use_whole_memory(*operation);
      operation->schedule = sum_schedule(place, tensor.numel(), kChunkBytes / element_bytes);
    } else {
      use_blocks(*operation, place);
      operation->schedule = gather_schedule(place, tensor.numel());
      operation->complete = [place](Operation& self) {
        const torch::Tensor sum = block_of(self, place, 0);
        for (int node = 1; node < place.nodes; ++node) add_to(sum, block_of(self, place, node));
        self.target.copy_(sum.view(self.target.sizes()));
      };
    }
    return start(operation);
  }

  std::unique_ptr<WireWork> broadcast(torch::Tensor tensor, int root_node, std::function<void()> ended) override {
    const NodePlace place = engine_->place();
    if (root_node < 0 || root_node >= place.nodes) {
      tune::throw_refusal(fmt::format("broadcast from node {}: expected 0 to {}", root_node, place.nodes - 1));
    }
    const OperationPtr operation = make("broadcast", tensor, std::move(ended));
    use_whole_memory(*operation);
    operation->schedule =
        broadcast_schedule(place, root_node, tensor.numel(), kChunkBytes / static_cast<int64_t>(tensor.element_size()));
    return start(operation);
  }

  std::string_view name() const override { return "tls"; }
  void abandon() override { engine_->fail(kLeft); }

  // The layouts of all nodes. Also a barrier: no node needs the rendezvous after it.
  std::vector<int64_t> gather_layouts(const NodeWireOptions& options, NodeLink::Time deadline);

 private:
  class Started final : public WireWork {
   public:
    explicit Started(OperationPtr operation) : operation_(std::move(operation)) {}
    bool is_done() override {
      const State state = operation_->state.load();
      if (state == State::kFailed) throw GroupAborted(operation_->error);
      return state == State::kDone;
    }

   private:
    const OperationPtr operation_;
  };

  OperationPtr make(std::string_view verb, const torch::Tensor& tensor, std::function<void()> ended) const {
    if (!tensor.device().is_cpu() || tensor.layout() != torch::kStrided) {
      tune::throw_refusal(
          fmt::format("{} of a tensor on {}: the wire between the nodes carries dense memory of the CPU", verb,
                      tensor.device().str()));
    }
    auto operation = std::make_shared<Operation>();
    operation->name = fmt::format("{} of {} elements of {}", verb, tensor.numel(), c10::toString(tensor.scalar_type()));
    operation->target = tensor.detach();
    operation->ended = std::move(ended);
    operation->timeout = timeout_;
    operation->deadline = SteadyClock::now() + timeout_;
    return operation;
  }

  std::unique_ptr<WireWork> start(const OperationPtr& operation) const {
    const auto engine = engine_;  // `ended` may destroy this wire.
    engine->start(operation);
    return std::make_unique<Started>(operation);
  }

  const std::shared_ptr<Engine> engine_;
  const std::chrono::milliseconds timeout_;
};

std::vector<int64_t> NodeWire::gather_layouts(const NodeWireOptions& options, NodeLink::Time deadline) {
  const NodePlace place = engine_->place();
  const auto is_cancelled = [&] { return options.cancelled != nullptr && options.cancelled->load(); };
  std::binary_semaphore is_over(0);
  std::vector<int64_t> layouts;
  const OperationPtr operation =
      make("start", torch::tensor({static_cast<int64_t>(options.layout)}), [&] { is_over.release(); });
  operation->name = "start of the wire";
  operation->timeout = options.join_timeout;
  operation->deadline = deadline;
  use_blocks(*operation, place);
  operation->schedule = gather_schedule(place, 1);
  operation->complete = [&](Operation& self) {
    for (int node = 0; node < place.nodes; ++node) layouts.push_back(block_of(self, place, node).item<int64_t>());
  };
  engine_->start(operation);
  while (!is_over.try_acquire_for(kWaitSlice)) {
    if (is_cancelled()) engine_->fail(kCancelled);
  }
  if (operation->state.load() == State::kDone) return layouts;
  if (is_cancelled()) throw GroupAborted(kCancelled);
  throw Exception(Error{ErrorCode::kUnavailable, operation->error});
}

void check(const NodeWireOptions& options) {
  if (options.nodes < 1 || options.node < 0 || options.node >= options.nodes) {
    tune::throw_refusal(fmt::format("node {} of {}: expected a node from 0 to nodes - 1", options.node, options.nodes));
  }
  if (options.rendezvous == nullptr) {
    tune::throw_refusal("rendezvous: expected a table that all nodes see, got null");
  }
  if (options.pieces_per_key < 1) {
    tune::throw_refusal(fmt::format("pieces_per_key: expected a positive number, got {}", options.pieces_per_key));
  }
}

}  // namespace

std::shared_ptr<Wire> join_node_wire(const NodeWireOptions& options) {
  check(options);
  const auto deadline = SteadyClock::now() + options.join_timeout;
  const auto unavailable = [&](const std::string& why) {
    return Exception(Error{ErrorCode::kUnavailable,
                           fmt::format("the wire of node {} of {} at {} was not formed within {} ms: {}", options.node,
                                       options.nodes, options.address, options.join_timeout.count(), why)});
  };
  try {
    NodeLinks links = connect_nodes(options, deadline);
    const std::vector<std::string> names = links.names;
    auto wire = std::make_shared<NodeWire>(
        Engine::run(std::move(links), {.node = options.node, .nodes = options.nodes}), options.timeout);
    const std::vector<int64_t> layouts = wire->gather_layouts(options, deadline);
    for (const std::string& name : names) options.rendezvous->remove(name);
    for (int node = 1; node < options.nodes; ++node) {
      if (layouts[static_cast<size_t>(node)] == layouts[0]) continue;
      tune::throw_refusal(
          fmt::format("the parameters of node {} differ from those of node 0 in number, shape, type or compression: "
                      "setup() must register equal models and call compress_gradients() alike on all ranks",
                      node));
    }
    return wire;
  } catch (const Exception& e) {
    if (e.code() == ErrorCode::kTimeout || e.code() == ErrorCode::kUnavailable) throw unavailable(e.error().message);
    throw;
  } catch (const std::system_error& e) {
    throw unavailable(e.what());
  }
}

}  // namespace volador::train
