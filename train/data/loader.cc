#include "train/data/loader.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/result.h"

namespace volador::train {
namespace {

using Clock = std::chrono::steady_clock;

// "rows 3, 17, 4, … (32 rows)"
std::string text_of(std::span<const int64_t> rows) {
  constexpr size_t kShown = 8;
  std::string text = rows.size() == 1 ? "row " : "rows ";
  for (size_t i = 0; i < std::min(rows.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + std::to_string(rows[i]);
  if (rows.size() > kShown) text += ", … (" + std::to_string(rows.size()) + " rows)";
  return rows.empty() ? "a batch without rows" : text;
}

Batch read(const Dataset& dataset, std::span<const int64_t> rows, bool pin) {
  const c10::NoGradGuard no_grad;
  const auto where = [&] { return "data set, " + text_of(rows) + ": "; };
  try {
    Batch batch = dataset.rows(rows);
    return pin ? batch.pin_memory() : batch;
  } catch (const Exception& exception) {
    throw Exception(Error{exception.code(), where() + exception.error().message});
  } catch (const c10::Error& error) {
    throw Exception(Error{ErrorCode::kApplication, where() + error.what_without_backtrace()});
  } catch (const std::exception& error) {
    throw Exception(Error{ErrorCode::kApplication, where() + error.what()});
  } catch (...) {
    throw Exception(Error{ErrorCode::kApplication, where() + "an exception that is no std::exception"});
  }
}

// The loader's threads already share the work. at::set_num_threads() would also set the default of threads to come.
void use_one_math_thread() {
  (void)at::get_num_threads();  // LibTorch sets the thread's number once, at its first use; this must come before ours.
  using SetThreads = void (*)(int);
  static const auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set != nullptr) set(1);
}

}  // namespace

struct Loader::State {
  // A batch that is planned, being read or read.
  struct Slot {
    Share share;
    Batch batch;
    std::exception_ptr error;
    bool done = false;
  };
  using SlotPtr = std::shared_ptr<Slot>;

  DatasetPtr dataset;
  LoaderOptions options;
  bool pin = false;

  // Those of the caller's thread.
  Source source;  // Empty: the sequence has ended.
  std::exception_ptr failed;

  std::atomic<int64_t> wait_ns{0};

  mutable std::mutex mutex;
  std::condition_variable work;   // A slot is planned, or stop.
  std::condition_variable ready;  // A slot is done, or cancelled.
  std::deque<SlotPtr> slots;      // Not yet delivered, in the order of the sequence.
  std::deque<SlotPtr> planned;    // Those of `slots` that no thread has taken.
  bool started = false;
  bool cancelled = false;
  bool stop = false;
  std::vector<std::thread> threads;

  ~State() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    work.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  size_t ahead() const { return static_cast<size_t>(options.threads) * static_cast<size_t>(options.prefetch); }

  void run() {
    ::pthread_setname_np(::pthread_self(), "volador-data");
    use_one_math_thread();
    std::unique_lock lock(mutex);
    while (true) {
      work.wait(lock, [&] { return stop || !planned.empty(); });
      if (stop) return;
      const SlotPtr slot = std::move(planned.front());
      planned.pop_front();
      lock.unlock();
      Batch batch;
      std::exception_ptr error;
      try {
        batch = read(*dataset, slot->share.rows, pin);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      slot->batch = std::move(batch);
      slot->error = std::move(error);
      slot->done = true;
      ready.notify_all();
    }
  }

  // Plans batches until `ahead()` are under way. An exception of the source takes its place in the sequence.
  void plan() {
    while (source) {
      {
        const std::lock_guard lock(mutex);
        if (cancelled || slots.size() >= ahead()) return;
      }
      auto slot = std::make_shared<Slot>();
      try {
        std::optional<Share> share = source();
        if (!share) {
          source = {};
          return;
        }
        slot->share = std::move(*share);
      } catch (...) {
        source = {};
        slot->error = std::current_exception();
        slot->done = true;
      }
      const std::lock_guard lock(mutex);
      if (cancelled) return;
      slots.push_back(slot);
      if (slot->done) return;
      planned.push_back(std::move(slot));
      work.notify_one();
    }
  }

  std::optional<LoadedBatch> read_here() {
    if (!source) return {};
    std::optional<Share> share = source();
    if (!share) {
      source = {};
      return {};
    }
    const auto from = Clock::now();
    Batch batch = read(*dataset, share->rows, pin);
    wait_ns += std::chrono::nanoseconds(Clock::now() - from).count();
    return LoadedBatch{std::move(batch), std::move(*share)};
  }

  std::optional<LoadedBatch> take() {
    std::unique_lock lock(mutex);
    check_cancelled();
    if (slots.empty()) return {};
    const SlotPtr slot = slots.front();
    if (!slot->done) {
      const auto from = Clock::now();
      ready.wait(lock, [&] { return slot->done || cancelled; });
      wait_ns += std::chrono::nanoseconds(Clock::now() - from).count();
    }
    check_cancelled();
    slots.pop_front();
    lock.unlock();
    if (slot->error) std::rethrow_exception(slot->error);
    plan();
    return LoadedBatch{std::move(slot->batch), std::move(slot->share)};
  }

  // Under `mutex`.
  void check_cancelled() const {
    if (cancelled) throw Exception(Error{ErrorCode::kCancelled, "the loader was cancelled; call start() to go on"});
  }

  enum class Then : uint8_t { kBegin, kCancel, kFail };
  void end_sequence(Then then) {
    std::deque<SlotPtr> dropped;  // Frees the batches outside of the lock.
    const std::lock_guard lock(mutex);
    dropped.swap(slots);
    planned.clear();
    if (then == Then::kBegin) started = true;
    if (then != Then::kFail) cancelled = then == Then::kCancel;
  }
};

Loader::Loader(DatasetPtr dataset, LoaderOptions options)
    : dataset_(std::move(dataset)), state_(std::make_unique<State>()) {
  const auto refuse = [](const std::string& text) {
    throw Exception(Error{ErrorCode::kInvalidArgument, "Loader: " + text});
  };
  if (!dataset_) refuse("the data set is null");
  if (options.threads < 0) refuse("threads: expected at least 0, got " + std::to_string(options.threads));
  if (options.prefetch < 1) refuse("prefetch: expected at least 1, got " + std::to_string(options.prefetch));
  state_->dataset = dataset_;
  state_->options = options;
  state_->pin = options.pin_memory && at::hasCUDA();
  for (int i = 0; i < options.threads; ++i) state_->threads.emplace_back([state = state_.get()] { state->run(); });
}

Loader::~Loader() = default;

void Loader::start(Source source) {
  if (!source) throw Exception(Error{ErrorCode::kInvalidArgument, "Loader::start: the source is empty"});
  state_->end_sequence(State::Then::kBegin);
  state_->source = std::move(source);
  state_->failed = nullptr;
  state_->plan();
}

std::optional<LoadedBatch> Loader::next() {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->started) throw Exception(Error{ErrorCode::kInvalidArgument, "Loader::next: call start() first"});
    state_->check_cancelled();
  }
  if (state_->failed) std::rethrow_exception(state_->failed);
  try {
    return state_->options.threads == 0 ? state_->read_here() : state_->take();
  } catch (const Exception& exception) {
    if (exception.code() == ErrorCode::kCancelled) {
      const std::lock_guard lock(state_->mutex);
      if (state_->cancelled) throw;
    }
    state_->failed = std::current_exception();
  } catch (...) {
    state_->failed = std::current_exception();
  }
  state_->source = {};
  state_->end_sequence(State::Then::kFail);
  std::rethrow_exception(state_->failed);
}

void Loader::cancel() {
  state_->end_sequence(State::Then::kCancel);
  state_->ready.notify_all();
}

double Loader::wait_seconds() const { return static_cast<double>(state_->wait_ns.load()) * 1e-9; }

}  // namespace volador::train
