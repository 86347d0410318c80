#include "train/group/backend_group.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

// Turns on the class ProcessGroupGloo. See train/gloo_headers/gloo/context.h.
#define USE_C10D_GLOO 1
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/result.h"
#include "train/nccl/nccl_plugin.h"

namespace volador::train {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

constexpr auto kPollEach = 50us;  // NCCL's operations do not announce their end to the host.

[[noreturn]] void refuse(std::string message) {
  throw Exception(Error{ErrorCode::kInvalidArgument, std::move(message)});
}

// Messages of c10 go on with the frames of their origin.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// c10d's view of a rendezvous.
class RendezvousStore final : public c10d::Store {
 public:
  // The keys that this rank has written, over all clones.
  struct Written {
    std::mutex mutex;
    std::set<std::string> keys;
  };

  RendezvousStore(std::shared_ptr<Rendezvous> rendezvous, std::string prefix, std::chrono::milliseconds timeout,
                  std::shared_ptr<Written> written = std::make_shared<Written>())
      : Store(timeout), rendezvous_(std::move(rendezvous)), prefix_(std::move(prefix)), written_(std::move(written)) {}

  c10::intrusive_ptr<Store> clone() override {
    return c10::make_intrusive<RendezvousStore>(rendezvous_, prefix_, timeout_, written_);
  }
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    rendezvous_->set(note(key), to_string(value));
  }
  std::vector<uint8_t> get(const std::string& key) override {
    return to_bytes(rendezvous_->wait(prefix_ + key, timeout_));
  }
  int64_t add(const std::string& key, int64_t amount) override { return rendezvous_->add(note(key), amount); }
  bool deleteKey(const std::string& key) override { return rendezvous_->remove(prefix_ + key); }
  bool check(const std::vector<std::string>& keys) override {
    return std::all_of(keys.begin(), keys.end(),
                       [&](const std::string& key) { return rendezvous_->get(prefix_ + key).has_value(); });
  }
  int64_t getNumKeys() override { C10_THROW_ERROR(NotImplementedError, "a rendezvous does not count its keys"); }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    rendezvous_->wait_all(prefixed(keys), timeout);
  }
  bool hasExtendedApi() const override { return true; }
  void append(const std::string& key, const std::vector<uint8_t>& value) override {
    rendezvous_->append(note(key), to_string(value));
  }
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    std::vector<std::vector<uint8_t>> values;
    for (const std::string& value : rendezvous_->wait_all(prefixed(keys), timeout_)) values.push_back(to_bytes(value));
    return values;
  }
  void multiSet(const std::vector<std::string>& keys, const std::vector<std::vector<uint8_t>>& values) override {
    for (size_t i = 0; i < keys.size(); ++i) set(keys[i], values.at(i));
  }

  // Removes what this rank has written; no rank may need it any more.
  void clear() {
    const std::lock_guard<std::mutex> hold(written_->mutex);
    for (const std::string& key : written_->keys) rendezvous_->remove(key);
    written_->keys.clear();
  }

 private:
  static std::string to_string(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
  static std::vector<uint8_t> to_bytes(const std::string& text) { return {text.begin(), text.end()}; }
  std::vector<std::string> prefixed(const std::vector<std::string>& keys) const {
    std::vector<std::string> out;
    for (const std::string& key : keys) out.push_back(prefix_ + key);
    return out;
  }
  std::string note(const std::string& key) {
    const std::lock_guard<std::mutex> hold(written_->mutex);
    return *written_->keys.insert(prefix_ + key).first;
  }

  const std::shared_ptr<Rendezvous> rendezvous_;
  const std::string prefix_;
  const std::shared_ptr<Written> written_;
};

// An operation that was started. Guarded by Board::mutex.
struct Operation {
  WorkPtr work;  // Null after the end, unless a stream of a GPU must still wait for it.
  bool is_done = false;
  std::string error;  // Empty: no error.
};

// What the rank's thread, threads that abort and callbacks of the backend's threads share.
struct Board {
  mutable std::mutex mutex;
  std::condition_variable changed;
  bool is_aborted = false;
  std::string reason;
  int64_t pending = 0;  // Operations that have not ended.
  CollectiveState waiting;
  Clock::time_point waiting_since;

  void fail_locked(const std::string& text) {
    if (!is_aborted) reason = text;
    is_aborted = true;
    changed.notify_all();
  }
};

// Starts operations of a backend and waits for them so that an abort ends the waiting at once, although c10d cannot
// stop operations that run. After an abort with operations pending a detached thread destroys the backend, which may
// last until an operation that no peer enters has reached its timeout. The backend itself keeps the tensors of such
// operations.
class Engine {
 public:
  Engine(BackendPtr backend, bool is_nccl) : is_nccl_(is_nccl) { held_->backend = std::move(backend); }
  Engine(const Engine&) = delete;
  ~Engine() {
    std::unique_lock<std::mutex> hold(board_->mutex);
    const bool is_idle = !board_->is_aborted && board_->pending == 0;
    hold.unlock();
    if (is_idle) {
      held_->backend.reset();
    } else {
      abort("this rank has left the group");
    }
  }

  bool is_nccl() const { return is_nccl_; }
  void set_timeout(std::chrono::milliseconds timeout) {
    const std::lock_guard<std::mutex> issuing(held_->issuing);
    if (held_->backend) held_->backend->setTimeout(timeout);
  }

  // Starts issue(backend). `ended` is called on any thread after the end, unless the backend is NCCL. Does not throw:
  // errors abort the group.
  template <class Issue>
  std::shared_ptr<Operation> start(Issue issue, std::function<void()> ended = nullptr) {
    auto operation = std::make_shared<Operation>();
    const std::lock_guard<std::mutex> issuing(held_->issuing);
    {
      const std::lock_guard<std::mutex> hold(board_->mutex);
      if (board_->is_aborted) return operation;
      ++board_->pending;
    }
    WorkPtr work;
    try {
      work = issue(*held_->backend);
    } catch (const std::exception& e) {
      const std::lock_guard<std::mutex> hold(board_->mutex);
      --board_->pending;
      board_->fail_locked(fmt::format("the operation could not be started: {}", first_line(e.what())));
      return operation;
    }
    {
      const std::lock_guard<std::mutex> hold(board_->mutex);
      operation->work = work;
    }
    if (is_nccl_) return operation;
    // The callback holds nothing that owns the backend: it runs on a thread that the backend's destructor joins.
    work->getFuture()->addCallback(
        [board = board_, operation, ended = std::move(ended)](c10::ivalue::Future& future) {
          const std::string error = future.hasError() ? first_line(future.tryRetrieveErrorMessage()) : "";
          {
            const std::lock_guard<std::mutex> hold(board->mutex);
            end_locked(*board, *operation, error);
          }
          if (ended) ended();
        },
        /*uses_future=*/true);
    return operation;
  }

  // Returns when the operation has ended; streams of GPUs then wait for it too. Throws GroupAborted.
  void wait(const std::string& name, Operation& operation) {
    WorkPtr work;
    bool is_done = false;
    std::string reason;
    {
      std::unique_lock<std::mutex> hold(board_->mutex);
      board_->waiting.operation = name;
      board_->waiting_since = Clock::now();
      const auto is_over = [&] { return operation.is_done || board_->is_aborted; };
      while (is_nccl_ && !is_over()) {
        poll(hold, operation);
        if (!is_over()) board_->changed.wait_for(hold, kPollEach);
      }
      board_->changed.wait(hold, is_over);
      board_->waiting = {};
      is_done = operation.is_done && operation.error.empty();
      reason = board_->reason;
      work = std::move(operation.work);
    }
    if (!is_done) {
      work.reset();
      bury();
      throw GroupAborted(reason);
    }
    if (work) work->synchronize();
  }

  // Whether it has ended. Throws GroupAborted. Not for NCCL.
  bool is_done(const Operation& operation) const {
    const std::lock_guard<std::mutex> hold(board_->mutex);
    if (operation.is_done && operation.error.empty()) return true;
    if (board_->is_aborted) throw GroupAborted(board_->reason);
    return false;
  }

  void check_alive() const {
    const std::lock_guard<std::mutex> hold(board_->mutex);
    if (board_->is_aborted) throw GroupAborted(board_->reason);
  }

  void abort(const std::string& reason) {
    {
      const std::lock_guard<std::mutex> hold(board_->mutex);
      board_->fail_locked(reason);
    }
    bury();
  }

  CollectiveState state() const {
    const std::lock_guard<std::mutex> hold(board_->mutex);
    CollectiveState state = board_->waiting;
    if (!state.operation.empty()) state.since = Clock::now() - board_->waiting_since;
    return state;
  }

 private:
  struct Held {
    std::mutex issuing;  // Guards backend, in calls that start operations.
    BackendPtr backend;
    BackendPtr take() {
      const std::lock_guard<std::mutex> hold(issuing);
      return std::move(backend);
    }
  };

  static void end_locked(Board& board, Operation& operation, const std::string& error) {
    operation.is_done = true;
    operation.error = error;
    --board.pending;
    if (!error.empty()) board.fail_locked(fmt::format("the connection to another rank failed: {}", error));
    board.changed.notify_all();
  }

  void poll(std::unique_lock<std::mutex>& hold, Operation& operation) {
    const WorkPtr work = operation.work;
    hold.unlock();
    std::string error;
    bool is_done = false;
    try {
      is_done = work->isCompleted();
      if (is_done && work->exception()) std::rethrow_exception(work->exception());
    } catch (const std::exception& e) {
      is_done = true;
      error = first_line(e.what());
    }
    hold.lock();
    if (is_done) end_locked(*board_, operation, error);
  }

  // The group is aborted, so that no operation can be started any more.
  void bury() {
    if (is_buried_.exchange(true)) return;
    if (!is_nccl_) {
      const std::lock_guard<std::mutex> issuing(held_->issuing);
      std::unique_lock<std::mutex> hold(board_->mutex);
      const bool is_idle = board_->pending == 0;
      hold.unlock();
      if (is_idle) return held_->backend.reset();  // Takes some milliseconds.
    }
    try {
      std::thread([held = held_, is_nccl = is_nccl_] {
        // NCCL's operations are stopped; this also ends a start() that blocks while NCCL connects.
        if (is_nccl) {
          try {
            held->backend->abort();
          } catch (const std::exception&) {  // Its connections are broken already.
          }
        }
        held->take().reset();
      }).detach();
    } catch (const std::system_error&) {
      // Without a thread the backend is kept for ever: destroying it here could block.
      new std::shared_ptr<Held>(held_);
    }
  }

  const bool is_nccl_;
  const std::shared_ptr<Board> board_ = std::make_shared<Board>();
  const std::shared_ptr<Held> held_ = std::make_shared<Held>();
  std::atomic<bool> is_buried_{false};
};

std::shared_ptr<Operation> start_sum(Engine& engine, torch::Tensor tensor, std::function<void()> ended = nullptr) {
  return engine.start(
      [&](c10d::Backend& backend) {
        std::vector<torch::Tensor> tensors{std::move(tensor)};
        return backend.allreduce(tensors);
      },
      std::move(ended));
}

// Broadcasts the bytes of a contiguous tensor, since Gloo knows few types.
std::shared_ptr<Operation> start_broadcast(Engine& engine, const torch::Tensor& tensor, int root,
                                           std::function<void()> ended = nullptr) {
  return engine.start(
      [&](c10d::Backend& backend) {
        std::vector<torch::Tensor> tensors{tensor.view({-1}).view(torch::kByte)};
        c10d::BroadcastOptions options;
        options.rootRank = root;
        return backend.broadcast(tensors, options);
      },
      std::move(ended));
}

// Each rank's words, in the order of the ranks. All ranks give the same number of words.
std::vector<std::vector<int64_t>> gather(Engine& engine, const std::string& name, torch::Device device, int world,
                                         const std::vector<int64_t>& words) {
  std::vector<torch::Tensor> inputs{torch::tensor(words, torch::kLong).to(device)};
  std::vector<std::vector<torch::Tensor>> outputs(1);
  for (int i = 0; i < world; ++i) outputs[0].push_back(torch::zeros_like(inputs[0]));
  const auto operation = engine.start([&](c10d::Backend& backend) { return backend.allgather(outputs, inputs); });
  engine.wait(name, *operation);
  std::vector<std::vector<int64_t>> gathered;
  for (const torch::Tensor& output : outputs[0]) {
    const torch::Tensor on_cpu = output.cpu();
    const int64_t* data = on_cpu.const_data_ptr<int64_t>();
    gathered.emplace_back(data, data + on_cpu.numel());
  }
  return gathered;
}

// FNV-1a of numbers.
class Digest {
 public:
  void add(int64_t number) {
    for (int i = 0; i < 64; i += 8) value_ = (value_ ^ ((static_cast<uint64_t>(number) >> i) & 0xff)) * 1099511628211u;
  }
  int64_t value() const { return static_cast<int64_t>(value_); }

 private:
  uint64_t value_ = 14695981039346656037u;
};

// The kinds of buckets are left out: they may stand for the ranks' different devices.
int64_t digest_of(const BucketPlan& plan, const std::vector<torch::TensorOptions>& types) {
  Digest digest;
  digest.add(plan.control_offset);
  for (size_t i = 0; i < plan.buckets.size(); ++i) {
    const Bucket& bucket = plan.buckets[i];
    digest.add(bucket.elements);
    digest.add(bucket.element_bytes);
    digest.add(static_cast<int64_t>(c10::typeMetaToScalarType(types[i].dtype())));
    for (const BucketSlot& slot : bucket.slots) {
      digest.add(static_cast<int64_t>(slot.parameter));
      digest.add(slot.offset);
      digest.add(slot.elements);
    }
  }
  return digest.value();
}

struct Counters {
  std::atomic<int64_t> operations{0};
  std::atomic<int> exchanges{0};
};

class BackendExchange final : public GradientExchange {
 public:
  BackendExchange(std::shared_ptr<Engine> engine, std::shared_ptr<Counters> counters, int number,
                  const BucketPlan& plan, const std::vector<torch::TensorOptions>& types)
      : engine_(std::move(engine)), counters_(std::move(counters)), number_(number) {
    for (size_t i = 0; i < plan.buckets.size(); ++i) {
      torch::TensorOptions options = types[i].requires_grad(false);
      parts_.push_back({.tensor = torch::zeros({plan.buckets[i].elements}, options), .operation = nullptr});
    }
  }

  torch::Tensor input(size_t bucket) override { return parts_[bucket].tensor; }
  torch::Tensor result(size_t bucket) override { return parts_[bucket].tensor; }

  void post(size_t bucket) override {
    parts_[bucket].is_posted = true;
    progress();
  }
  void progress() override {
    if (counters_->exchanges.load(std::memory_order_relaxed) == 1) start_posted();
  }
  void finish() override {
    start_posted();
    VOLADOR_CHECK(next_ == parts_.size(), fmt::format("bucket {} was not posted", next_));
    for (size_t i = 0; i < parts_.size(); ++i) {
      engine_->wait(fmt::format("gradients of optimizer {}, bucket {} of {}", number_, i + 1, parts_.size()),
                    *parts_[i].operation);
    }
    for (Part& part : parts_) {
      part.is_posted = false;
      part.operation = nullptr;
    }
    next_ = 0;
    counters_->operations.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  struct Part {
    torch::Tensor tensor;
    bool is_posted = false;
    std::shared_ptr<Operation> operation;
  };

  void start_posted() {
    for (; next_ < parts_.size() && parts_[next_].is_posted; ++next_) {
      parts_[next_].operation = start_sum(*engine_, parts_[next_].tensor);
    }
  }

  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<Counters> counters_;
  const int number_;
  std::vector<Part> parts_;
  size_t next_ = 0;  // First bucket that was not started.
};

class BackendGroup final : public Group {
 public:
  BackendGroup(std::shared_ptr<Engine> engine, const BackendOptions& options, torch::Device device)
      : engine_(std::move(engine)), rank_(options.rank), world_(options.world), device_(device) {}
  // An exchange that lives longer gets GroupAborted.
  ~BackendGroup() override {
    if (engine_.use_count() > 1) engine_->abort("this rank has left the group");
  }

  int rank() const override { return rank_; }
  int world() const override { return world_; }
  std::string_view transport() const override { return engine_->is_nccl() ? "nccl" : "gloo"; }

  void all_reduce(torch::Tensor tensor) override {
    constexpr torch::ScalarType kTypes[] = {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16,
                                            torch::kLong,  torch::kInt,    torch::kChar, torch::kByte};
    if (std::find(std::begin(kTypes), std::end(kTypes), tensor.scalar_type()) == std::end(kTypes)) {
      refuse(
          fmt::format("all_reduce of {}: expected float32, float64, float16, bfloat16, int64, int32, int8 or uint8; "
                      "convert the tensor",
                      c10::toString(tensor.scalar_type())));
    }
    on_copy(fmt::format("all_reduce of {} elements of {}", tensor.numel(), c10::toString(tensor.scalar_type())), tensor,
            [&](const torch::Tensor& copy) { return start_sum(*engine_, copy); });
  }
  void broadcast(torch::Tensor tensor, int root) override {
    if (root < 0 || root >= world_) refuse(fmt::format("broadcast from rank {}: expected 0 to {}", root, world_ - 1));
    on_copy(fmt::format("broadcast of {} elements of {} from rank {}", tensor.numel(),
                        c10::toString(tensor.scalar_type()), root),
            tensor, [&](const torch::Tensor& copy) { return start_broadcast(*engine_, copy, root); });
  }
  void barrier() override {
    const auto operation = start_sum(*engine_, torch::zeros({1}, torch::TensorOptions(torch::kInt).device(device_)));
    engine_->wait("barrier", *operation);
    counters_->operations.fetch_add(1, std::memory_order_relaxed);
  }

  std::unique_ptr<GradientExchange> exchange(const BucketPlan& plan,
                                             const std::vector<torch::TensorOptions>& types) override {
    int64_t bytes = 0;
    for (const Bucket& bucket : plan.buckets) bytes += bucket.bytes();
    const auto buckets = static_cast<int64_t>(plan.buckets.size());
    const auto plans =
        gather(*engine_, "start of a gradient exchange", device_, world_, {digest_of(plan, types), buckets, bytes});
    for (int i = 1; i < world_; ++i) {
      const auto &first = plans[0], &other = plans[static_cast<size_t>(i)];
      if (other == first) continue;
      const std::string text = fmt::format(
          "the parameters of rank {} ({} buckets, {} bytes) differ from those of rank 0 ({} buckets, {} bytes) in "
          "number, "
          "shape, order or type: setup() must register equal models on all ranks",
          i, other[1], other[2], first[1], first[2]);
      engine_->abort(text);
      refuse(text);
    }
    const int number = counters_->exchanges.fetch_add(1);
    return std::make_unique<BackendExchange>(engine_, counters_, number, plan, types);
  }

  void abort(const std::string& reason) override { engine_->abort(reason); }
  CollectiveState state() const override {
    CollectiveState state = engine_->state();
    state.operations = counters_->operations.load();
    return state;
  }

 private:
  // Carries out an operation on a copy of the tensor: an operation that was given up may still write to its memory.
  template <class Start>
  void on_copy(const std::string& name, torch::Tensor& tensor, Start start) {
    const torch::NoGradGuard no_grad;
    engine_->check_alive();
    if (tensor.numel() == 0) return;
    const torch::Device device = engine_->is_nccl() ? device_ : tensor.device();
    const torch::Tensor copy = torch::empty(tensor.sizes(), torch::TensorOptions(tensor.scalar_type()).device(device));
    copy.copy_(tensor);
    engine_->wait(name, *start(copy));
    tensor.copy_(copy);
    counters_->operations.fetch_add(1, std::memory_order_relaxed);
  }

  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<Counters> counters_ = std::make_shared<Counters>();
  const int rank_;
  const int world_;
  const torch::Device device_;  // Those of tensors that the group makes.
};

// Finds NCCL's plug-in: $VOLADOR_NCCL_PLUGIN, or beside this library or program.
MakeNcclBackend load_nccl() {
  namespace fs = std::filesystem;
  constexpr const char* kFile = "libvolador_nccl.so";
  std::vector<fs::path> files;
  if (const char* named = std::getenv("VOLADOR_NCCL_PLUGIN"); named != nullptr && *named != '\0') {
    files.emplace_back(named);
  } else {
    Dl_info here{};
    std::error_code ignored;
    std::vector<fs::path> folders;
    if (::dladdr(reinterpret_cast<void*>(&load_nccl), &here) != 0 && here.dli_fname != nullptr) {
      folders.push_back(fs::absolute(here.dli_fname, ignored).parent_path());
    }
    folders.push_back(fs::read_symlink("/proc/self/exe", ignored).parent_path());
    for (const fs::path& folder : folders) {
      for (const fs::path& file : {folder / kFile, folder.parent_path() / "lib" / kFile}) {
        if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
      }
    }
  }
  std::vector<std::string> tried;
  for (const fs::path& file : files) {
    void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* function = library == nullptr ? nullptr : ::dlsym(library, kMakeNcclBackend);
    if (function != nullptr) return reinterpret_cast<MakeNcclBackend>(function);
    const char* error = ::dlerror();
    tried.emplace_back(error == nullptr ? file.string() : error);
  }
  throw Exception(
      Error{ErrorCode::kUnavailable,
            fmt::format("the library for NCCL, {}, could not be opened: {}. Build it with the headers of CUDA and "
                        "NCCL, name it in VOLADOR_NCCL_PLUGIN, or use the backend \"gloo\"",
                        kFile, fmt::join(tried, "; "))});
}

BackendPtr make_nccl(const BackendOptions& options, const c10::intrusive_ptr<RendezvousStore>& store) {
  const MakeNcclBackend make = load_nccl();
  char error[1024] = "";
  const NcclRequest request{.torch_version = TORCH_VERSION,
                            .store = store.get(),
                            .rank = options.rank,
                            .world = options.world,
                            .timeout_ms = options.timeout.count(),
                            .error = error,
                            .error_bytes = sizeof(error)};
  c10d::Backend* backend = make(&request);
  if (backend == nullptr) throw Exception(Error{ErrorCode::kUnavailable, fmt::format("NCCL: {}", error)});
  return BackendPtr::reclaim(backend);
}

BackendPtr make_gloo(const BackendOptions& options, const c10::intrusive_ptr<RendezvousStore>& store) {
  auto gloo_options = c10d::ProcessGroupGloo::Options::create(options.join_timeout);
  gloo_options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.address));
  auto backend =
      c10::make_intrusive<c10d::ProcessGroupGloo>(store, options.rank, options.world, std::move(gloo_options));
  return backend;
}

void check(const BackendOptions& options) {
  if (options.backend != "gloo" && options.backend != "nccl") {
    refuse(fmt::format("backend: expected \"gloo\" or \"nccl\", got \"{}\"", options.backend));
  }
  if (options.backend == "nccl" && !torch::cuda::is_available()) {
    refuse("backend \"nccl\" needs a GPU, and this process sees none: use \"gloo\"");
  }
  if (options.world < 1 || options.rank < 0 || options.rank >= options.world) {
    refuse(fmt::format("rank {} of {}: expected a rank from 0 to world - 1", options.rank, options.world));
  }
  if (options.rendezvous == nullptr) refuse("rendezvous: expected a table that all ranks see, got null");
}

// Connects the ranks and compares their layouts.
std::shared_ptr<Engine> connect(const BackendOptions& options, torch::Device device) {
  const auto unavailable = [&](const std::string& why) {
    return Exception(Error{
        ErrorCode::kUnavailable,
        fmt::format("the {} group of rank {} of {} at {} was not formed within {} ms: {}", options.backend,
                    options.rank, options.world, options.address, options.join_timeout.count(), first_line(why))});
  };
  const bool is_nccl = options.backend == "nccl";
  const auto store = c10::make_intrusive<RendezvousStore>(options.rendezvous, fmt::format("{}/group/", options.run),
                                                          options.join_timeout);
  std::vector<std::vector<int64_t>> layouts;
  std::shared_ptr<Engine> engine;
  try {
    engine = std::make_shared<Engine>(is_nccl ? make_nccl(options, store) : make_gloo(options, store), is_nccl);
    layouts = gather(*engine, "start of the group", device, options.world, {static_cast<int64_t>(options.layout)});
    if (!is_nccl) engine->set_timeout(options.timeout);
  } catch (const Exception& e) {
    if (e.code() == ErrorCode::kTimeout) throw unavailable(e.error().message);
    throw;
  } catch (const std::exception& e) {
    throw unavailable(e.what());
  }
  // Gloo's ranks are connected now. NCCL's watchdog goes on to use the table.
  if (!is_nccl) store->clear();
  for (int i = 1; i < options.world; ++i) {
    if (layouts[static_cast<size_t>(i)] == layouts[0]) continue;
    refuse(
        fmt::format("the parameters of rank {} differ from those of rank 0 in number, shape, type or compression: "
                    "setup() must register equal models and call compress_gradients() alike on all ranks",
                    i));
  }
  return engine;
}

}  // namespace

std::unique_ptr<Group> join_backend_group(const BackendOptions& options) {
  check(options);
  const torch::Device device = options.backend == "nccl"
                                   ? torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(options.device))
                                   : torch::kCPU;
  return std::make_unique<BackendGroup>(connect(options, device), options, device);
}

}  // namespace volador::train
