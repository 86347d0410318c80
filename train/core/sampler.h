// Order of the samples of an epoch and each rank's share of a global batch.
// Pure: no clock, I/O or thread of its own, no LibTorch.
//
// A position in an epoch is the number of samples that all ranks together have done. A run therefore resumes at any
// batch, with any number of ranks, from (seed, epoch, position) alone.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace volador::train {

struct SamplerOptions {
  uint64_t seed = 0;       // Together with the epoch it decides the order.
  bool shuffle = true;     // false: the natural order in every epoch, as for validation.
  bool drop_last = false;  // true: a last batch with fewer than global_batch samples is left out.
};

// Rows of one rank in one global batch.
struct Share {
  std::span<const int64_t> rows;           // Rows of the data set; may be empty in a short last batch.
  int64_t batch_rows = 0;                  // Rows of all ranks together; 0: the epoch has no further batch.
  bool last_of_epoch = false;              // No batch follows at position + batch_rows.
  std::shared_ptr<const void> owner = {};  // Keeps `rows` alive.
};

// Returns a share of one rank that reads `rows`.
Share share_of(std::vector<int64_t> rows);

// Returns a permutation of 0 … size-1 that depends on the arguments only and is equal on every platform: Fisher-Yates
// with xoshiro256**, seeded by splitmix64 of (seed, epoch). 8 bytes a row; about 0.5 s for 10 million rows.
std::vector<int64_t> shuffled_rows(int64_t size, uint64_t seed, int64_t epoch);

// Deals the rows of a data set to the ranks, each row exactly once an epoch; no row is repeated to fill a batch.
// Keeps the order of one epoch in memory and computes it again if the epoch changes. Thread safe; shares stay valid
// after the epoch changes and after the sampler is destroyed.
class DistributedSampler {
 public:
  // kInvalidArgument: size is negative.
  explicit DistributedSampler(int64_t size, SamplerOptions options = {});

  // The global batch is the rows [position, min(position + global_batch, size)) of the epoch's order. Rank r gets a
  // contiguous slice; slices differ by at most one row, the first ranks get the longer ones; in rank order they make up
  // the global batch. At the end of the epoch (with drop_last also before a short batch) the share is empty, with
  // batch_rows 0 and last_of_epoch true.
  // kInvalidArgument: epoch or position is negative, position > size, global_batch < 1, world < 1, or rank is not in
  // [0, world).
  Share share(int64_t epoch, int64_t position, int64_t global_batch, int rank, int world) const;

  // Batches from `position` to the end of an epoch. kInvalidArgument: as share().
  int64_t batches(int64_t global_batch, int64_t position = 0) const;

  int64_t size() const { return size_; }
  const SamplerOptions& options() const { return options_; }

 private:
  using Order = std::shared_ptr<const std::vector<int64_t>>;
  Order order(int64_t epoch) const;
  void check(int64_t position, int64_t global_batch) const;
  int64_t rows_at(int64_t position, int64_t global_batch) const;

  int64_t size_ = 0;
  SamplerOptions options_;
  mutable std::mutex mutex_;
  mutable int64_t epoch_ = -1;  // Guarded by mutex_, as is order_.
  mutable Order order_;
};

}  // namespace volador::train
