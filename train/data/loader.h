// Reads the batches of a data set ahead of their use.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "train/core/sampler.h"
#include "train/data/dataset.h"

namespace volador::train {

struct LoaderOptions {
  int threads = 0;          // Threads that read batches; 0: next() reads them in the caller's thread.
  int prefetch = 2;         // Batches read ahead for each thread; at least 1.
  bool pin_memory = false;  // Copy batches to page-locked memory, for fast copies to a GPU; no effect without CUDA.
};

struct LoadedBatch {
  Batch batch;
  Share share;  // The rows of the batch, as given by the source.
};

// Delivers the batches of a sequence of row lists in the order of the sequence, whatever the number of threads.
//
//   Loader loader(dataset, {.threads = 2});
//   loader.start([&] { return next_share(); });             // std::nullopt ends the sequence
//   while (auto loaded = loader.next()) train(loaded->batch);
//
// The threads start with the loader and are used by all sequences; each computes with one OpenMP thread and without
// gradients. The loader reads ahead, so the position of a run is that of the last batch delivered, not that of the
// source. start(), next() and the destructor belong to one thread; cancel() and wait_seconds() to any.
class Loader {
 public:
  // Called in the thread of start() and next(), up to threads × prefetch batches ahead; shares may have no rows.
  using Source = std::function<std::optional<Share>()>;

  // kInvalidArgument: the data set is null, threads < 0 or prefetch < 1.
  Loader(DatasetPtr dataset, LoaderOptions options = {});
  // Waits for the batches that are being read; those only planned are dropped.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Begins a sequence. Nothing of an earlier one is delivered any more; a batch that a thread still reads for it is
  // thrown away when it is done.
  void start(Source source);
  // Waits for the next batch; std::nullopt: the sequence has ended. Throws an Exception that names the rows if reading
  // them failed, or what the source threw; after that the same again until start().
  // kInvalidArgument: start() was not called. kCancelled: cancel() was called.
  std::optional<LoadedBatch> next();
  // Ends the sequence and frees the batches read ahead. A waiting next() and later ones throw kCancelled until start().
  void cancel();

  // Seconds that next() has waited for data, of all sequences; with 0 threads the time of reading. Near 0: the data is
  // not the bottleneck.
  double wait_seconds() const;
  const DatasetPtr& dataset() const { return dataset_; }

 private:
  struct State;
  DatasetPtr dataset_;
  std::unique_ptr<State> state_;
};

}  // namespace volador::train
