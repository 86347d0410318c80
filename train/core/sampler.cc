#include "train/core/sampler.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "runtime/random.h"
#include "runtime/result.h"

namespace volador::train {
namespace {

[[noreturn]] void refuse(std::string message) {
  throw Exception(Error{ErrorCode::kInvalidArgument, "DistributedSampler: " + std::move(message)});
}

// Output function of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
uint64_t mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::vector<int64_t> natural_rows(int64_t size) {
  std::vector<int64_t> rows(static_cast<size_t>(size));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

}  // namespace

Share share_of(std::vector<int64_t> rows) {
  const auto owner = std::make_shared<const std::vector<int64_t>>(std::move(rows));
  return {.rows = *owner, .batch_rows = static_cast<int64_t>(owner->size()), .last_of_epoch = false, .owner = owner};
}

std::vector<int64_t> shuffled_rows(int64_t size, uint64_t seed, int64_t epoch) {
  if (size < 0) refuse("size: expected a number of rows, got " + std::to_string(size));
  std::vector<int64_t> rows = natural_rows(size);
  SeededRandom random(mix(seed) + mix(~static_cast<uint64_t>(epoch)));
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.below(i)]);
  return rows;
}

DistributedSampler::DistributedSampler(int64_t size, SamplerOptions options) : size_(size), options_(options) {
  if (size < 0) refuse("size: expected a number of rows, got " + std::to_string(size));
}

void DistributedSampler::check(int64_t position, int64_t global_batch) const {
  if (global_batch < 1) refuse("global_batch: expected at least 1 row, got " + std::to_string(global_batch));
  if (position < 0 || position > size_)
    refuse("position: expected 0 to " + std::to_string(size_) + ", the size of the data set, got " +
           std::to_string(position) + "; was the position saved with another data set?");
}

int64_t DistributedSampler::rows_at(int64_t position, int64_t global_batch) const {
  const int64_t left = size_ - position;
  if (left < global_batch) return options_.drop_last ? 0 : left;
  return global_batch;
}

DistributedSampler::Order DistributedSampler::order(int64_t epoch) const {
  if (!options_.shuffle) epoch = 0;
  const std::lock_guard lock(mutex_);
  if (epoch_ != epoch) {
    order_.reset();  // Frees the old order first, unless a share still reads it.
    order_ = std::make_shared<const std::vector<int64_t>>(options_.shuffle ? shuffled_rows(size_, options_.seed, epoch)
                                                                           : natural_rows(size_));
    epoch_ = epoch;
  }
  return order_;
}

Share DistributedSampler::share(int64_t epoch, int64_t position, int64_t global_batch, int rank, int world) const {
  check(position, global_batch);
  if (epoch < 0) refuse("epoch: expected at least 0, got " + std::to_string(epoch));
  if (world < 1) refuse("world: expected at least 1 rank, got " + std::to_string(world));
  if (rank < 0 || rank >= world)
    refuse("rank: expected 0 to " + std::to_string(world - 1) + ", got " + std::to_string(rank));
  const int64_t batch = rows_at(position, global_batch);
  if (batch == 0) return {.rows = {}, .batch_rows = 0, .last_of_epoch = true};
  const int64_t each = batch / world;
  const int64_t longer = batch % world;  // The first ranks get one row more.
  const int64_t first = position + rank * each + std::min<int64_t>(rank, longer);
  const int64_t count = each + (rank < longer ? 1 : 0);
  Order order = this->order(epoch);
  return {.rows = std::span(*order).subspan(static_cast<size_t>(first), static_cast<size_t>(count)),
          .batch_rows = batch,
          .last_of_epoch = rows_at(position + batch, global_batch) == 0,
          .owner = std::move(order)};
}

int64_t DistributedSampler::batches(int64_t global_batch, int64_t position) const {
  check(position, global_batch);
  const int64_t left = size_ - position;
  return left / global_batch + (!options_.drop_last && left % global_batch != 0 ? 1 : 0);
}

}  // namespace volador::train
