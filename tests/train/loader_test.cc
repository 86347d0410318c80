#include "train/data/loader.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "runtime/result.h"

namespace volador::train {
namespace {

using Rows = std::vector<int64_t>;

Rows rows_of(const Batch& batch) {
  const torch::Tensor& rows = batch[0];
  return {rows.data_ptr<int64_t>(), rows.data_ptr<int64_t>() + rows.numel()};
}

// Gives its row numbers. Reading calls `hook` first.
class Numbers final : public Dataset {
 public:
  explicit Numbers(int64_t size, std::function<void(std::span<const int64_t>)> hook = {})
      : size_(size), hook_(std::move(hook)) {}
  int64_t size() const override { return size_; }
  Batch rows(std::span<const int64_t> rows) const override {
    if (hook_) hook_(rows);
    return {.tensors = {torch::tensor(Rows(rows.begin(), rows.end()), torch::kLong)}};
  }

 private:
  int64_t size_;
  std::function<void(std::span<const int64_t>)> hook_;
};

// Holds threads until it is opened.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // Waits until `count` threads have arrived.
  void await(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

// One rank's shares of an epoch from `position` on.
Loader::Source epoch(std::shared_ptr<DistributedSampler> sampler, int64_t number, int64_t batch, int rank = 0,
                     int world = 1, int64_t position = 0) {
  return [=]() mutable -> std::optional<Share> {
    Share share = sampler->share(number, position, batch, rank, world);
    if (share.batch_rows == 0) return {};
    position += share.batch_rows;
    return share;
  };
}

std::vector<Rows> read_all(Loader& loader) {
  std::vector<Rows> batches;
  while (const auto loaded = loader.next()) {
    EXPECT_EQ(rows_of(loaded->batch), Rows(loaded->share.rows.begin(), loaded->share.rows.end()));
    batches.push_back(rows_of(loaded->batch));
  }
  return batches;
}

Error error_of(Loader& loader) {
  try {
    (void)loader.next();
  } catch (const Exception& exception) {
    return exception.error();
  }
  return Error{ErrorCode::kInternal, "no exception"};
}

TEST(Loader, DeliversTheSameSequenceForEveryNumberOfThreads) {
  const auto sampler = std::make_shared<DistributedSampler>(103, SamplerOptions{.seed = 4});
  std::vector<Rows> expected;
  for (const int threads : {0, 1, 2, 5}) {
    for (const int prefetch : {1, 3}) {
      Loader loader(std::make_shared<Numbers>(103), {.threads = threads, .prefetch = prefetch});
      std::vector<Rows> all;
      for (int64_t number = 0; number < 3; ++number) {
        loader.start(epoch(sampler, number, 8, 1, 3));
        const std::vector<Rows> batches = read_all(loader);
        EXPECT_EQ(batches.size(), 13U);
        EXPECT_FALSE(loader.next().has_value());
        all.insert(all.end(), batches.begin(), batches.end());
      }
      if (expected.empty()) expected = all;
      EXPECT_EQ(all, expected) << threads << " threads, prefetch " << prefetch;
    }
  }
}

TEST(Loader, KeepsTheOrderIfALaterBatchIsReadFirst) {
  Gate first;
  Gate second;
  const auto dataset = std::make_shared<Numbers>(4, [&](std::span<const int64_t> rows) {
    if (rows[0] == 0) first.pass();
    if (rows[0] == 1) second.pass();
  });
  Loader loader(dataset, {.threads = 2});
  loader.start(epoch(std::make_shared<DistributedSampler>(4, SamplerOptions{.shuffle = false}), 0, 1));
  first.await(1);
  second.open();  // The thread that read row 1 goes on with 2 and 3 while row 0 is held.
  second.await(1);
  first.open();
  EXPECT_EQ(read_all(loader), (std::vector<Rows>{{0}, {1}, {2}, {3}}));
}

TEST(Loader, ReadsAheadNoFurtherThanItsLimit) {
  int given = 0;
  Loader loader(std::make_shared<Numbers>(100), {.threads = 2, .prefetch = 3});
  loader.start([&]() -> std::optional<Share> { return share_of({given++}); });
  EXPECT_EQ(given, 6);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(rows_of(loader.next()->batch), Rows{i});
  EXPECT_EQ(given, 11);
}

TEST(Loader, WithoutThreadsReadsInTheCallerWhenAsked) {
  std::set<std::thread::id> ids;
  int given = 0;
  Loader loader(std::make_shared<Numbers>(100, [&](auto) { ids.insert(std::this_thread::get_id()); }));
  loader.start([&]() -> std::optional<Share> { return share_of({given++}); });
  EXPECT_EQ(given, 0);
  (void)loader.next();
  EXPECT_EQ(given, 1);
  EXPECT_EQ(ids, std::set<std::thread::id>{std::this_thread::get_id()});
  EXPECT_GT(loader.wait_seconds(), 0);
}

TEST(Loader, ReadsEmptyShares) {
  for (const int threads : {0, 2}) {
    Loader loader(tensor_dataset({torch::zeros({5, 3}), torch::arange(5)}), {.threads = threads});
    loader.start(epoch(std::make_shared<DistributedSampler>(5), 0, 4, 3, 4));
    EXPECT_EQ(loader.next()->batch.size(), 1);
    const auto last = loader.next();
    ASSERT_TRUE(last);
    EXPECT_EQ(last->batch.features().sizes(), (torch::IntArrayRef{0, 3}));
    EXPECT_EQ(last->share.batch_rows, 1);
    EXPECT_TRUE(last->share.last_of_epoch);
    EXPECT_FALSE(loader.next());
  }
}

TEST(Loader, RethrowsAReadingErrorInItsPlaceWithTheRows) {
  const auto dataset = std::make_shared<Numbers>(100, [](std::span<const int64_t> rows) {
    if (rows[0] == 2) throw Exception(Error{ErrorCode::kNotFound, "the picture is gone"});
    if (rows[0] == 3) throw std::runtime_error("damaged");
    if (rows[0] == 4) (void)torch::zeros({2}).view({3});
    if (rows[0] == 5) throw 17;
  });
  for (const int threads : {0, 1, 3}) {
    Loader loader(dataset, {.threads = threads});
    const auto after_one = [&](Rows bad) {
      int given = 0;
      loader.start([=]() mutable -> std::optional<Share> { return share_of(given++ == 1 ? bad : Rows{0}); });
      EXPECT_EQ(rows_of(loader.next()->batch), Rows{0});
      const Error error = error_of(loader);
      EXPECT_EQ(error_of(loader), error);  // It stands until start().
      return error;
    };
    Error error = after_one({2, 7});
    EXPECT_EQ(error.code, ErrorCode::kNotFound);
    EXPECT_EQ(error.message, "data set, rows 2, 7: the picture is gone");
    error = after_one({3});
    EXPECT_EQ(error.code, ErrorCode::kApplication);
    EXPECT_EQ(error.message, "data set, row 3: damaged");
    error = after_one({4, 1, 1, 1, 1, 1, 1, 1, 1, 1});
    EXPECT_EQ(error.code, ErrorCode::kApplication);
    EXPECT_EQ(error.message.find("data set, rows 4, 1, 1, 1, 1, 1, 1, 1, … (10 rows): shape '[3]' is invalid"), 0U)
        << error.message;
    EXPECT_EQ(after_one({5}).code, ErrorCode::kApplication);
    loader.start(
        [done = false]() mutable { return std::exchange(done, true) ? std::nullopt : std::optional(share_of({1})); });
    EXPECT_EQ(read_all(loader), (std::vector<Rows>{{1}}));
  }
}

TEST(Loader, RethrowsAnErrorOfTheSourceAfterTheBatchesBeforeIt) {
  for (const int threads : {0, 2}) {
    Loader loader(std::make_shared<Numbers>(10), {.threads = threads});
    int given = 0;
    loader.start([&]() -> std::optional<Share> {
      if (given == 2) throw std::out_of_range("source");
      return share_of({given++});
    });
    EXPECT_TRUE(loader.next());
    EXPECT_TRUE(loader.next());
    EXPECT_THROW((void)loader.next(), std::out_of_range);
    EXPECT_THROW((void)loader.next(), std::out_of_range);
  }
}

TEST(Loader, DeliversNothingOfAnEarlierSequence) {
  Gate gate;
  const auto dataset = std::make_shared<Numbers>(100, [&](std::span<const int64_t> rows) {
    if (rows[0] == 0) gate.pass();
  });
  Loader loader(dataset, {.threads = 2, .prefetch = 4});
  int given = 0;
  loader.start([&]() -> std::optional<Share> { return share_of({given++}); });
  gate.await(1);  // Row 0 is being read; others are read or planned.
  const auto sampler = std::make_shared<DistributedSampler>(100, SamplerOptions{.seed = 1});
  loader.start(epoch(sampler, 0, 10, 0, 1, 50));
  EXPECT_EQ(given, 8);
  gate.open();
  const std::vector<Rows> batches = read_all(loader);
  ASSERT_EQ(batches.size(), 5U);
  const Rows order = shuffled_rows(100, 1, 0);
  EXPECT_EQ(batches[0], Rows(order.begin() + 50, order.begin() + 60));
}

TEST(Loader, StartsAnewAtAnyPoint) {
  Loader loader(std::make_shared<Numbers>(64), {.threads = 3});
  const auto sampler = std::make_shared<DistributedSampler>(64, SamplerOptions{.seed = 6});
  for (int64_t taken = 0; taken < 16; ++taken) {
    loader.start(epoch(sampler, taken, 4));
    for (int64_t i = 0; i < taken; ++i) {
      const Rows order = shuffled_rows(64, 6, taken);
      EXPECT_EQ(rows_of(loader.next()->batch), Rows(order.begin() + 4 * i, order.begin() + 4 * i + 4));
    }
  }
}

TEST(Loader, CancelEndsAWaitingNext) {
  Gate gate;
  Loader loader(std::make_shared<Numbers>(10, [&](auto) { gate.pass(); }), {.threads = 1});
  loader.start(epoch(std::make_shared<DistributedSampler>(10), 0, 1));
  std::thread other([&] {
    gate.await(1);
    loader.cancel();
  });
  EXPECT_EQ(error_of(loader).code, ErrorCode::kCancelled);
  EXPECT_EQ(error_of(loader).code, ErrorCode::kCancelled);
  other.join();
  gate.open();
  loader.start(epoch(std::make_shared<DistributedSampler>(10), 0, 5));
  EXPECT_EQ(read_all(loader).size(), 2U);
}

TEST(Loader, CancelAppliesWithoutThreadsToo) {
  Loader loader(std::make_shared<Numbers>(10));
  loader.start(epoch(std::make_shared<DistributedSampler>(10), 0, 1));
  loader.cancel();
  EXPECT_EQ(error_of(loader).code, ErrorCode::kCancelled);
}

TEST(Loader, CancelsAndStartsFromTwoThreadsLoseNoBatch) {
  Loader loader(std::make_shared<Numbers>(6), {.threads = 2});
  const auto sampler = std::make_shared<DistributedSampler>(6, SamplerOptions{.shuffle = false});
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) loader.cancel();
  });
  int complete = 0;
  for (int turn = 0; turn < 300; ++turn) {
    try {
      loader.start(epoch(sampler, 0, 2));
      const std::vector<Rows> batches = read_all(loader);
      EXPECT_EQ(batches, (std::vector<Rows>{{0, 1}, {2, 3}, {4, 5}}));  // An end is the end of the sequence.
      ++complete;
    } catch (const Exception& exception) {
      EXPECT_EQ(exception.code(), ErrorCode::kCancelled);
    }
  }
  stop = true;
  other.join();
  loader.start(epoch(sampler, 0, 2));
  EXPECT_EQ(read_all(loader).size(), 3U);
}

TEST(Loader, EndsWithBatchesPlannedAndRead) {
  std::atomic<int> read = 0;
  {
    Loader loader(std::make_shared<Numbers>(10, [&](auto) { ++read; }), {.threads = 2, .prefetch = 50});
    loader.start([] { return std::optional(share_of({1})); });
    (void)loader.next();
  }
  EXPECT_LE(read, 101);
  const Loader unused(std::make_shared<Numbers>(10), {.threads = 2});
}

TEST(Loader, ThreadsUseOneMathThreadAndNoGradients) {
  std::mutex mutex;
  std::set<std::pair<int, bool>> found;
  const auto dataset = std::make_shared<Numbers>(10, [&](auto) {
    const std::lock_guard lock(mutex);
    found.emplace(at::get_num_threads(), at::GradMode::is_enabled());
  });
  const int before = at::get_num_threads();
  Loader loader(dataset, {.threads = 2});
  loader.start(epoch(std::make_shared<DistributedSampler>(10), 0, 1));
  (void)read_all(loader);
  EXPECT_EQ(found, (std::set<std::pair<int, bool>>{{1, false}}));
  EXPECT_EQ(at::get_num_threads(), before);
  int later = 0;
  std::thread([&] { later = at::get_num_threads(); }).join();
  EXPECT_EQ(later, before);
}

TEST(Loader, PinMemoryHasNoEffectWithoutCuda) {
  if (at::hasCUDA()) GTEST_SKIP() << "this machine has CUDA";
  Loader loader(std::make_shared<Numbers>(10), {.threads = 1, .pin_memory = true});
  loader.start(epoch(std::make_shared<DistributedSampler>(10), 0, 5));
  EXPECT_EQ(read_all(loader).size(), 2U);
}

TEST(Loader, RefusesWhatDoesNotFit) {
  const auto code = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const Exception& exception) {
      return exception.code();
    }
    return ErrorCode::kInternal;
  };
  const auto dataset = std::make_shared<Numbers>(10);
  EXPECT_EQ(code([&] { Loader loader(nullptr); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([&] { Loader loader(dataset, {.threads = -1}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([&] { Loader loader(dataset, {.prefetch = 0}); }), ErrorCode::kInvalidArgument);
  Loader loader(dataset);
  EXPECT_EQ(code([&] { (void)loader.next(); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([&] { loader.start({}); }), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace volador::train
