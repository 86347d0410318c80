// State of a TrainingOperator, shared with the loop that runs it.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "train/core/sampler.h"
#include "train/group/gradient_reducer.h"
#include "train/operator/rank_loop.h"
#include "train/operator/sharded_optimizer.h"
#include "train/operator/state_copy.h"
#include "train/operator/sync_batch_norm.h"
#include "train/optim/grad_scaler.h"

namespace volador::train {

struct OperatorImpl {
  struct Model {
    std::string name;
    std::shared_ptr<torch::nn::Module> module;
    std::function<torch::Tensor(const Batch&)> forward;
  };
  struct Optimizer {
    OptimizerPtr optimizer;
    std::unique_ptr<ShardedOptimizer> shard;  // Null: each rank has the whole state.
    std::unique_ptr<GradientReducer> reducer;
    SchedulePtr schedule;
    ScheduleStep when = ScheduleStep::kBatch;
    std::vector<double> base_rates;  // One for each parameter group.
    int64_t schedule_steps = 0;
  };

  RankOptions options;
  Config config;
  torch::Device device = torch::kCPU;
  std::vector<Model> models;
  std::vector<Optimizer> optimizers;
  Criterion criterion;
  DataOptions data;
  bool has_data = false;
  NanPolicy nan_policy = NanPolicy::kRaise;
  StepOptions clipping;
  Compression compression = Compression::kNone;
  PowerSgdOptions power_sgd;  // For Compression::kPowerSgd.
  std::optional<torch::ScalarType> autocast;
  std::unique_ptr<GradScaler> scaler;
  bool is_set_up = false;
  const std::shared_ptr<BatchNormSync> sync = std::make_shared<BatchNormSync>();
  int64_t sync_layers = 0;  // SyncBatchNorm modules of all models.
  // Gradients are exchanged in step() and not while the backward pass runs: other collective operations between the
  // nodes come between.
  bool exchanges_late = false;

  std::unique_ptr<DistributedSampler> train_sampler, validation_sampler;
  std::unique_ptr<Loader> train_loader, validation_loader;

  mutable std::mutex mutex;  // Guards the next five; group is written by the loop's thread only.
  std::shared_ptr<Group> group;
  const char* activity = "";
  std::chrono::steady_clock::time_point step_begin;
  bool is_running = false;
  std::string abort_reason;  // Why the present group was aborted; empty: it is not aborted.

  std::atomic<int64_t> step{0};
  int64_t epoch = 0;
  int64_t position = 0;
  std::atomic<bool> pause_requested{false};
  bool stop_requested = false;

  std::vector<std::weak_ptr<StateCopy>> copies;  // Copies of the state that may not be finished.
  // User code changes parameters before step(): see StateCopy.
  const std::shared_ptr<std::atomic<bool>> changes_early = std::make_shared<std::atomic<bool>>(false);

  // The running batch and segment.
  BatchInfo batch;
  bool is_batch_finite = true;
  std::vector<torch::Tensor>
      losses;               // Losses of this step on a GPU, read when the work of the backward pass is queued.
  int optimizer_steps = 0;  // Done in this batch, which is not committed.
  int steps_applied = 0;    // The first steps of the next batch, which the state contains: it was given up after them.
  bool pause_seen = false, stop_seen = false, nan_stop = false;
  MetricSums sums;
  bool has_sums = false;
  StepTimes times;
  double samples = 0;
  int64_t batches = 0;

  Optimizer& find(const OptimizerPtr& optimizer, const char* function);
  const Model& only_model(const char* function) const;
  void set_activity(const char* name) {
    const std::lock_guard<std::mutex> hold(mutex);
    activity = name;
  }
  // Forward and backward passes of a batch with this many rows.
  int64_t passes_of(int64_t rows) const;
  bool is_sharded() const {
    return std::any_of(optimizers.begin(), optimizers.end(), [](const auto& entry) { return entry.shard != nullptr; });
  }
  // Before anything that changes parameters or the state of optimizers.
  void finish_copies() {
    for (const auto& one : copies) {
      if (const auto copy = one.lock()) copy->finish();
    }
    copies.clear();
  }
  void apply_schedule(Optimizer& entry) const;
  std::string describe_compression() const;
  void clear_gradients() {
    for (Optimizer& entry : optimizers) entry.reducer->clear();
  }
};

}  // namespace volador::train
