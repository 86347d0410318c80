#include "train/group/shared_group.h"

#include <fmt/format.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/result.h"
#include "tune/refusal.h"

namespace volador::train {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kRanksMax = 256;           // Ranks of one node.
constexpr int64_t kSlotBytes = 1 << 20;  // Bytes of a collective operation that are exchanged at once.
constexpr int64_t kLine = 64;            // Bytes of a cache line.
constexpr int kSpins = 400;              // Tests of a condition before the thread sleeps.
constexpr auto kWaitSlice = 20ms;        // Time after which a waiting rank looks whether its peers live.

enum class Operation : uint32_t { kAllReduce = 1, kBroadcast, kBarrier };

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::kAllReduce:
      return "all_reduce";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kBarrier:
      return "barrier";
  }
  return "operation";
}

// What a rank has entered, for the comparison with the others.
struct Signature {
  Operation operation = Operation::kBarrier;
  int32_t type = 0;
  int32_t root = 0;
  int32_t padding = 0;
  int64_t elements = 0;
  bool operator==(const Signature&) const = default;
  std::string text() const {
    if (operation == Operation::kBarrier) return "barrier";
    return fmt::format("{} of {} elements of {}{}", name_of(operation), elements,
                       c10::toString(static_cast<c10::ScalarType>(type)),
                       operation == Operation::kBroadcast ? fmt::format(" from rank {}", root) : "");
  }
};

struct alignas(kLine) RankWords {
  std::atomic<uint32_t> joined;
  std::atomic<int32_t> pid;
  std::atomic<uint64_t> layout;
  std::atomic<uint64_t> posted;  // Collective operations that the rank has entered.
  Signature signature[2];        // Those of the last two.
};

struct alignas(kLine) SegmentHeader {
  SharedBell bell;
  std::atomic<uint32_t> aborted;  // 1: the reason is being written, 2: it is there.
  char reason[512];
  alignas(kLine) std::atomic<uint64_t> wired;  // Collective operations whose result the leader has written.
  RankWords ranks[kRanksMax];
};

struct alignas(kLine) BucketWords {
  std::atomic<uint32_t> ready;
  std::atomic<uint32_t> done;
};

int64_t aligned(int64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

// Adds rows [from, to) of the ranks' inputs, in the order of the ranks.
void sum_floats(float* out, const std::vector<const float*>& inputs, int64_t from, int64_t to) {
  constexpr int64_t kBlock = 8192;  // Elements that stay in the first cache.
  for (int64_t at = from; at < to; at += kBlock) {
    const int64_t end = std::min(at + kBlock, to);
    const float *first = inputs[0], *second = inputs[1];
    for (int64_t i = at; i < end; ++i) out[i] = first[i] + second[i];
    for (size_t rank = 2; rank < inputs.size(); ++rank) {
      const float* input = inputs[rank];
      for (int64_t i = at; i < end; ++i) out[i] += input[i];
    }
  }
}

// The state that exchanges and callbacks of the wire share with the group.
struct Shared {
  SharedSegment segment;
  int rank = 0;             // In the whole group.
  int local = 0;            // Among the ranks of this node.
  std::vector<int> locals;  // Ranks of this node.
  std::vector<int> nodes;   // Node of each rank.
  int node = 0;
  int node_count = 1;
  int64_t slots_offset = 0, arena_offset = 0;
  std::shared_ptr<Wire> wire;
  int exchanges = 0;       // Exchanges made.
  int open_exchanges = 0;  // Exchanges between their first post() and the end of finish().

  std::atomic<int64_t> operations{0};
  std::mutex mutex;  // Guards waiting and abort_reason.
  CollectiveState waiting;
  Clock::time_point waiting_since;
  std::string abort_reason;

  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(segment.data()); }
  int local_count() const { return static_cast<int>(locals.size()); }
  bool is_wired() const { return node_count > 1; }

  void abort(const std::string& reason) {
    {
      const std::lock_guard<std::mutex> hold(mutex);
      if (abort_reason.empty()) abort_reason = reason;
    }
    uint32_t expected = 0;
    if (header().aborted.compare_exchange_strong(expected, 1)) {
      const size_t size = std::min(reason.size(), sizeof(header().reason) - 1);
      std::memcpy(header().reason, reason.data(), size);
      header().aborted.store(2);
    }
    header().bell.ring();
  }
  bool is_aborted() const { return header().aborted.load(std::memory_order_acquire) != 0; }
  [[noreturn]] void throw_aborted() {
    for (int i = 0; i < 1000 && header().aborted.load() == 1; ++i) std::this_thread::yield();
    const std::lock_guard<std::mutex> hold(mutex);
    if (abort_reason.empty())
      abort_reason = std::string(header().reason, ::strnlen(header().reason, sizeof(header().reason)));
    throw GroupAborted(abort_reason);
  }

  // Aborts the group if the process of a rank of this node has ended.
  void look_for_dead_peers() {
    for (int i = 0; i < local_count(); ++i) {
      const int32_t pid = header().ranks[i].pid.load();
      if (i == local || pid == 0 || ::kill(pid, 0) == 0 || errno != ESRCH) continue;
      abort(fmt::format("the process of rank {} (pid {}) has ended", locals[static_cast<size_t>(i)], pid));
    }
  }

  // Returns when done() is true. `missing()` gives the ranks that are waited for.
  template <class Done, class Missing>
  void wait(std::string_view operation, Done done, Missing missing) {
    for (int i = 0; i < kSpins; ++i) {
      if (done()) return;
      if (is_aborted()) break;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    bool published = false;
    const auto begin = Clock::now();
    struct Clear {
      Shared& shared;
      bool& published;
      ~Clear() {
        if (!published) return;
        const std::lock_guard<std::mutex> hold(shared.mutex);
        shared.waiting = {};
      }
    } clear{*this, published};
    while (true) {
      const uint32_t heard = header().bell.listen();
      const bool now_done = done();
      const bool over = now_done || is_aborted();
      header().bell.wait(heard, over ? 0ns : std::chrono::nanoseconds(kWaitSlice));
      if (now_done || done()) return;
      if (is_aborted()) throw_aborted();
      if (Clock::now() - begin < kWaitSlice / 2) continue;
      look_for_dead_peers();
      const std::lock_guard<std::mutex> hold(mutex);
      published = true;
      waiting.operation = operation;
      waiting.waiting_for = missing();
      waiting_since = begin;
    }
  }

  // Waits for an operation of the wire.
  void wait_for(std::string_view operation, WireWork& work) {
    wait(
        operation, [&] { return ended(work); }, [&] { return ranks_of_other_nodes(); });
  }
  bool ended(WireWork& work) {
    try {
      return work.is_done();
    } catch (const std::exception& e) {
      abort(fmt::format("the connection to another node failed: {}", e.what()));
      return false;
    }
  }
  std::vector<int> ranks_of_other_nodes() const {
    std::vector<int> others;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i] != node) others.push_back(static_cast<int>(i));
    }
    return others;
  }
};

class SharedExchange final : public GradientExchange {
 public:
  SharedExchange(std::shared_ptr<Shared> shared, const BucketPlan& plan, const std::vector<torch::TensorOptions>& types,
                 int64_t offset, int number)
      : shared_(std::move(shared)), number_(number) {
    const auto ranks = static_cast<size_t>(shared_->local_count());
    std::byte* at = shared_->segment.data() + offset;
    const auto take = [&](int64_t bytes) {
      std::byte* taken = at;
      at += aligned(bytes);
      return taken;
    };
    const size_t count = plan.buckets.size();
    words_ = reinterpret_cast<BucketWords*>(take(static_cast<int64_t>(count * ranks * sizeof(BucketWords))));
    wired_ = reinterpret_cast<BucketWords*>(take(static_cast<int64_t>(count * sizeof(BucketWords))));
    for (size_t i = 0; i < count; ++i) {
      const Bucket& bucket = plan.buckets[i];
      VOLADOR_CHECK(types[i].device().is_cpu(), types[i].device().str());
      const auto view = [&](std::byte* data) {
        const auto owner = shared_;
        return torch::from_blob(
            data, {bucket.elements}, [owner](void*) {}, types[i].requires_grad(false));
      };
      Part part;
      part.result = view(take(bucket.bytes()));
      for (size_t rank = 0; rank < ranks; ++rank) {
        part.inputs.push_back(view(take(bucket.bytes())));
        if (part.result.scalar_type() == torch::kFloat)
          part.floats.push_back(part.inputs.back().const_data_ptr<float>());
      }
      // Slices begin at cache lines.
      const int64_t unit = std::max<int64_t>(1, kLine / bucket.element_bytes);
      const int64_t slice = (bucket.elements / static_cast<int64_t>(ranks) + unit - 1) / unit * unit;
      part.from = std::min(bucket.elements, slice * shared_->local);
      part.to =
          shared_->local + 1 == shared_->local_count() ? bucket.elements : std::min(bucket.elements, part.from + slice);
      parts_.push_back(std::move(part));
    }
  }

  ~SharedExchange() override {
    if (is_open_) --shared_->open_exchanges;
  }

  torch::Tensor input(size_t bucket) override { return parts_[bucket].inputs[static_cast<size_t>(shared_->local)]; }
  torch::Tensor result(size_t bucket) override { return parts_[bucket].result; }

  void post(size_t bucket) override {
    if (!std::exchange(is_open_, true)) ++shared_->open_exchanges;
    word(bucket, shared_->local).ready.store(epoch_ + 1, std::memory_order_release);
    shared_->header().bell.ring();
    progress();
  }

  void progress() override {
    for (; first_open_ < parts_.size() && parts_[first_open_].is_summed; ++first_open_) {
    }
    for (size_t i = first_open_; i < parts_.size(); ++i) {
      if (!parts_[i].is_summed && all(i, &BucketWords::ready)) sum(i);
    }
    // The sums of two exchanges could become ready in another order on another node: then finish() starts them.
    if (shared_->wire != nullptr && shared_->exchanges == 1) advance_wire();
  }

  void finish() override {
    if (shared_->is_aborted()) shared_->throw_aborted();
    progress();
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].is_summed) continue;
      wait_for(i, &BucketWords::ready);
      progress();
    }
    if (shared_->wire != nullptr) finish_wire();
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (shared_->is_wired()) {
        shared_->wait(
            name_of(i), [&] { return wired_[i].done.load(std::memory_order_acquire) == epoch_ + 1; },
            [&] { return shared_->ranks_of_other_nodes(); });
      } else {
        wait_for(i, &BucketWords::done);
      }
    }
    ++epoch_;
    first_open_ = next_wired_ = 0;
    for (Part& part : parts_) part.is_summed = false;
    if (std::exchange(is_open_, false)) --shared_->open_exchanges;
    shared_->operations.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  struct Part {
    std::vector<torch::Tensor> inputs;  // One for each rank of the node.
    std::vector<const float*> floats;   // Their data, if they are floats.
    torch::Tensor result;
    int64_t from = 0, to = 0;  // The slice that this rank sums.
    bool is_summed = false;
  };

  BucketWords& word(size_t bucket, int local) const {
    return words_[bucket * static_cast<size_t>(shared_->local_count()) + static_cast<size_t>(local)];
  }
  bool all(size_t bucket, std::atomic<uint32_t> BucketWords::*member) const {
    for (int i = 0; i < shared_->local_count(); ++i) {
      if ((word(bucket, i).*member).load(std::memory_order_acquire) != epoch_ + 1) return false;
    }
    return true;
  }
  std::string name_of(size_t bucket) const {
    return fmt::format("gradients of optimizer {}, bucket {} of {}", number_, bucket + 1, parts_.size());
  }
  void wait_for(size_t bucket, std::atomic<uint32_t> BucketWords::*member) {
    if (all(bucket, member)) return;
    shared_->wait(
        name_of(bucket), [&] { return all(bucket, member); },
        [&] {
          std::vector<int> missing;
          for (int i = 0; i < shared_->local_count(); ++i) {
            if ((word(bucket, i).*member).load() != epoch_ + 1)
              missing.push_back(shared_->locals[static_cast<size_t>(i)]);
          }
          return missing;
        });
  }

  void sum(size_t bucket) {
    Part& part = parts_[bucket];
    part.is_summed = true;
    if (part.to > part.from) {
      if (part.inputs.size() == 1) {
        part.result.narrow(0, part.from, part.to - part.from)
            .copy_(part.inputs[0].narrow(0, part.from, part.to - part.from));
      } else if (!part.floats.empty()) {
        sum_floats(part.result.mutable_data_ptr<float>(), part.floats, part.from, part.to);
      } else {
        torch::Tensor out = part.result.narrow(0, part.from, part.to - part.from);
        const auto slice = [&](size_t rank) { return part.inputs[rank].narrow(0, part.from, part.to - part.from); };
        at::add_out(out, slice(0), slice(1));
        for (size_t rank = 2; rank < part.inputs.size(); ++rank) out.add_(slice(rank));
      }
    }
    word(bucket, shared_->local).done.store(epoch_ + 1, std::memory_order_release);
    shared_->header().bell.ring();
  }

  // Leaders start the sums between the nodes in the order of the buckets, and mark those that have ended.
  void advance_wire() {
    while (next_wired_ < parts_.size() && parts_[next_wired_].is_summed && all(next_wired_, &BucketWords::done)) {
      works_.push_back({next_wired_, shared_->wire->all_reduce(parts_[next_wired_].result,
                                                               [shared = shared_] { shared->header().bell.ring(); })});
      ++next_wired_;
    }
    std::erase_if(works_, [&](auto& running) {
      if (!shared_->ended(*running.second)) return false;
      wired_[running.first].done.store(epoch_ + 1, std::memory_order_release);
      shared_->header().bell.ring();
      return true;
    });
  }
  void finish_wire() {
    shared_->wait(
        "gradients between the nodes",
        [&] {
          advance_wire();
          return next_wired_ == parts_.size() && works_.empty();
        },
        [&] { return shared_->ranks_of_other_nodes(); });
  }

  const std::shared_ptr<Shared> shared_;
  const int number_;
  BucketWords* words_ = nullptr;  // [bucket][rank of the node]
  BucketWords* wired_ = nullptr;  // [bucket]: sums between the nodes.
  std::vector<Part> parts_;
  uint32_t epoch_ = 0;  // Steps finished.
  size_t first_open_ = 0;
  size_t next_wired_ = 0;
  bool is_open_ = false;
  std::vector<std::pair<size_t, std::unique_ptr<WireWork>>> works_;
};

class SharedGroup final : public Group {
 public:
  explicit SharedGroup(std::shared_ptr<Shared> shared) : shared_(std::move(shared)), arena_(shared_->arena_offset) {}
  ~SharedGroup() override {
    if (shared_->wire != nullptr) shared_->wire->abandon();
  }

  int rank() const override { return shared_->rank; }
  int world() const override { return static_cast<int>(shared_->nodes.size()); }
  std::string_view transport() const override {
    return shared_->is_wired() ? "shared memory and tls" : "shared memory";
  }
  // Ranks with GPUs copy full buckets to the shared memory, and the sums from it.
  torch::Device reduces_on(torch::Device) const override { return torch::kCPU; }

  void all_reduce(torch::Tensor tensor) override {
    in_pieces(Operation::kAllReduce, tensor, -1, [&](torch::Tensor piece, const std::vector<torch::Tensor>& slots) {
      at::add_out(piece, slots[0], slots.size() > 1 ? slots[1] : torch::zeros_like(slots[0]));
      for (size_t i = 2; i < slots.size(); ++i) piece.add_(slots[i]);
    });
  }
  void broadcast(torch::Tensor tensor, int root) override {
    size_t source = 0;
    for (size_t i = 0; i < shared_->locals.size(); ++i) {
      if (shared_->locals[i] == root) source = i;
    }
    in_pieces(Operation::kBroadcast, tensor, root,
              [&](torch::Tensor piece, const std::vector<torch::Tensor>& slots) { piece.copy_(slots[source]); });
  }
  void barrier() override {
    torch::Tensor nothing = torch::zeros({1}, torch::kInt);
    in_pieces(Operation::kBarrier, nothing, -1, [](torch::Tensor, const std::vector<torch::Tensor>&) {});
  }

  std::unique_ptr<GradientExchange> exchange(const BucketPlan& plan,
                                             const std::vector<torch::TensorOptions>& types) override {
    const int64_t offset = arena_;
    arena_ += exchange_bytes(plan, shared_->local_count());
    VOLADOR_CHECK(arena_ <= static_cast<int64_t>(shared_->segment.size()));
    return std::make_unique<SharedExchange>(shared_, plan, types, offset, shared_->exchanges++);
  }

  void abort(const std::string& reason) override { shared_->abort(reason); }
  CollectiveState state() const override {
    const std::lock_guard<std::mutex> hold(shared_->mutex);
    CollectiveState state = shared_->waiting;
    if (!state.operation.empty()) state.since = Clock::now() - shared_->waiting_since;
    state.operations = shared_->operations.load();
    return state;
  }

 private:
  // Carries out an operation piece by piece. combine(piece, slots) makes the result of a piece from what the ranks of
  // the node have written.
  template <class Combine>
  void in_pieces(Operation operation, torch::Tensor& tensor, int root, Combine combine) {
    const torch::NoGradGuard no_grad;
    if (shared_->is_aborted()) shared_->throw_aborted();
    if (shared_->is_wired() && shared_->open_exchanges > 0) {
      throw Exception(
          Error{ErrorCode::kInvalidArgument,
                fmt::format("{} between the nodes while gradients are being exchanged: call it before the backward "
                            "pass or after the optimizer's step",
                            name_of(operation))});
    }
    torch::Tensor flat =
        tensor.is_contiguous() && tensor.device().is_cpu() ? tensor.view({-1}) : tensor.cpu().contiguous().view({-1});
    const int64_t per_piece = kSlotBytes / static_cast<int64_t>(flat.element_size());
    const Signature signature{operation, static_cast<int32_t>(flat.scalar_type()), root, 0, flat.numel()};
    int64_t from = 0;
    do {
      const int64_t count = std::min(per_piece, flat.numel() - from);
      one_piece(signature, flat.narrow(0, from, count), root, combine);
      from += count;
    } while (from < flat.numel());
    if (flat.data_ptr() != tensor.data_ptr()) tensor.copy_(flat.view(tensor.sizes()));
    shared_->operations.fetch_add(1, std::memory_order_relaxed);
  }

  template <class Combine>
  void one_piece(const Signature& signature, torch::Tensor piece, int root, Combine combine) {
    Shared& shared = *shared_;
    const uint64_t sequence = ++sequence_;
    const int half = static_cast<int>(sequence & 1);
    const auto slot = [&](int index) {
      std::byte* data = shared.segment.data() + shared.slots_offset + (index * 2 + half) * kSlotBytes;
      return torch::from_blob(data, piece.sizes(), piece.options().requires_grad(false));
    };
    RankWords& mine = shared.header().ranks[shared.local];
    if (root < 0 || root == shared.rank) slot(shared.local).copy_(piece);
    mine.signature[half] = signature;
    mine.posted.store(sequence, std::memory_order_release);
    shared.header().bell.ring();
    const auto posted = [&](int i) {
      return shared.header().ranks[i].posted.load(std::memory_order_acquire) >= sequence;
    };
    shared.wait(
        signature.text(),
        [&] {
          for (int i = 0; i < shared.local_count(); ++i) {
            if (!posted(i)) return false;
          }
          return true;
        },
        [&] {
          std::vector<int> missing;
          for (int i = 0; i < shared.local_count(); ++i) {
            if (!posted(i)) missing.push_back(shared.locals[static_cast<size_t>(i)]);
          }
          return missing;
        });
    for (int i = 0; i < shared.local_count(); ++i) {
      const Signature& other = shared.header().ranks[i].signature[half];
      if (other == signature) continue;
      const std::string text = fmt::format(
          "rank {} entered {}, rank {} entered {}: all ranks must call the same "
          "operations in the same order with equal shapes",
          shared.rank, signature.text(), shared.locals[static_cast<size_t>(i)], other.text());
      shared.abort(text);
      throw Exception(Error{ErrorCode::kInvalidArgument, text});
    }
    std::vector<torch::Tensor> slots;
    for (int i = 0; i < shared.local_count(); ++i) slots.push_back(slot(i));
    if (!shared.is_wired()) {
      combine(piece, slots);
      return;
    }
    torch::Tensor between = slot(shared.local_count());  // The result of the nodes together.
    if (shared.wire != nullptr) {
      const int root_node = root < 0 ? -1 : shared.nodes.at(static_cast<size_t>(root));
      if (root < 0 || root_node == shared.node) combine(between, slots);
      // It also keeps the memory that an operation of the wire uses after it was given up.
      const auto ring = [shared = shared_] { shared->header().bell.ring(); };
      const auto work =
          root < 0 ? shared.wire->all_reduce(between, ring) : shared.wire->broadcast(between, root_node, ring);
      shared.wait_for(signature.text(), *work);
      shared.header().wired.store(sequence, std::memory_order_release);
      shared.header().bell.ring();
    } else {
      shared.wait(
          signature.text(), [&] { return shared.header().wired.load(std::memory_order_acquire) >= sequence; },
          [&] { return shared.ranks_of_other_nodes(); });
    }
    if (signature.operation != Operation::kBarrier) piece.copy_(between);
  }

  const std::shared_ptr<Shared> shared_;
  int64_t arena_;
  uint64_t sequence_ = 0;
};

class SingleExchange final : public GradientExchange {
 public:
  SingleExchange(const BucketPlan& plan, const std::vector<torch::TensorOptions>& types) {
    for (size_t i = 0; i < plan.buckets.size(); ++i)
      buckets_.push_back(torch::zeros({plan.buckets[i].elements}, types[i].requires_grad(false)));
  }
  torch::Tensor input(size_t bucket) override { return buckets_[bucket]; }
  torch::Tensor result(size_t bucket) override { return buckets_[bucket]; }
  void post(size_t) override {}
  void progress() override {}
  void finish() override {}

 private:
  std::vector<torch::Tensor> buckets_;
};

class SingleRankGroup final : public Group {
 public:
  int rank() const override { return 0; }
  int world() const override { return 1; }
  std::string_view transport() const override { return "none"; }
  void all_reduce(torch::Tensor) override { check(); }
  void broadcast(torch::Tensor, int) override { check(); }
  void barrier() override { check(); }
  std::unique_ptr<GradientExchange> exchange(const BucketPlan& plan,
                                             const std::vector<torch::TensorOptions>& types) override {
    return std::make_unique<SingleExchange>(plan, types);
  }
  void abort(const std::string& reason) override {
    const std::lock_guard<std::mutex> hold(mutex_);
    reason_ = reason;
  }
  CollectiveState state() const override { return {}; }

 private:
  void check() {
    const std::lock_guard<std::mutex> hold(mutex_);
    if (!reason_.empty()) throw GroupAborted(reason_);
  }
  std::mutex mutex_;
  std::string reason_;
};

}  // namespace

int64_t exchange_bytes(const BucketPlan& plan, int ranks) {
  const auto count = static_cast<int64_t>(plan.buckets.size());
  const auto words = static_cast<int64_t>(sizeof(BucketWords));
  int64_t bytes = aligned(count * ranks * words) + aligned(count * words);
  for (const Bucket& bucket : plan.buckets) bytes += (ranks + 1) * aligned(bucket.bytes());
  return bytes;
}

std::unique_ptr<Group> single_rank_group() { return std::make_unique<SingleRankGroup>(); }

std::unique_ptr<Group> join_shared_group(const SharedGroupOptions& options) {
  auto shared = std::make_shared<Shared>();
  shared->rank = options.rank;
  shared->nodes = options.node_of_rank;
  shared->node = options.node_of_rank.at(static_cast<size_t>(options.rank));
  shared->node_count = 1 + *std::max_element(options.node_of_rank.begin(), options.node_of_rank.end());
  shared->wire = options.wire;
  for (size_t i = 0; i < options.node_of_rank.size(); ++i) {
    if (options.node_of_rank[i] != shared->node) continue;
    if (static_cast<int>(i) == options.rank) shared->local = shared->local_count();
    shared->locals.push_back(static_cast<int>(i));
  }
  if (shared->local_count() > kRanksMax) {
    throw Exception(Error{ErrorCode::kInvalidArgument, fmt::format("{} ranks on one node; at most {} can share memory",
                                                                   shared->local_count(), kRanksMax)});
  }
  shared->slots_offset = aligned(sizeof(SegmentHeader));
  shared->arena_offset = shared->slots_offset + (shared->local_count() + 1) * 2 * kSlotBytes;
  shared->segment = tune::unwrap(
      SharedSegment::map(options.segment, static_cast<size_t>(shared->arena_offset + options.arena_bytes)));

  SegmentHeader& header = shared->header();
  RankWords& mine = header.ranks[shared->local];
  mine.layout.store(options.layout);
  mine.pid.store(::getpid());
  mine.joined.store(1, std::memory_order_release);
  header.bell.ring();
  const auto deadline = Clock::now() + options.join_timeout;
  const auto missing = [&] {
    std::vector<int> ranks;
    for (int i = 0; i < shared->local_count(); ++i) {
      if (header.ranks[i].joined.load(std::memory_order_acquire) == 0)
        ranks.push_back(shared->locals[static_cast<size_t>(i)]);
    }
    return ranks;
  };
  shared->wait(
      "start of the group",
      [&] {
        if (missing().empty()) return true;
        if (options.cancelled != nullptr && options.cancelled->load()) throw GroupAborted("the group is formed anew");
        if (Clock::now() > deadline)
          throw Exception(
              Error{ErrorCode::kUnavailable,
                    fmt::format("ranks {} of this node did not join the group within {} s", fmt::join(missing(), ", "),
                                std::chrono::duration_cast<std::chrono::seconds>(options.join_timeout).count())});
        return false;
      },
      missing);
  for (int i = 0; i < shared->local_count(); ++i) {
    if (header.ranks[i].layout.load() == options.layout) continue;
    throw Exception(Error{
        ErrorCode::kInvalidArgument,
        fmt::format("the parameters of rank {} differ from those of rank {} in number, shape, type or compression: "
                    "setup() must register equal models and call compress_gradients() alike on all ranks",
                    shared->locals[static_cast<size_t>(i)], options.rank)});
  }
  return std::make_unique<SharedGroup>(std::move(shared));
}

}  // namespace volador::train
