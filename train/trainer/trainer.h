// Data-parallel training by several processes: a trainer starts ranks as actors, forms them into a group, and keeps the
// run going when ranks are lost or join.
//
//   train::TorchTrainer<Digits> trainer({.num_workers = 4, .config = {{"width", 32}}});
//   for (int epoch = 0; epoch < 10; ++epoch) fmt::print("{}\n", trainer.train().at("train_loss"));
//   fmt::print("{}\n", trainer.validate().at("val_accuracy"));
//   trainer.save("digits.pt");
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/actor/placement_group.h"
#include "runtime/resources.h"
#include "runtime/strategy.h"
#include "train/operator/training_operator.h"

namespace volador::train {

// A number of workers, or {least, most}: the run then goes on with fewer after a loss and grows when there is room.
struct WorkerRange {
  WorkerRange(int workers) : min(workers), max(workers) {}
  WorkerRange(int least, int most) : min(least), max(most) {}
  int min = 1;
  int max = 1;
};

struct TrainerOptions {
  WorkerRange num_workers = 1;
  Resources resources_per_worker = {.cpus = 1};
  Config config = {};                // Given to setup().
  std::string name = {};             // In lists, on the dashboard and of the folder. Default: the operator's class.
  uint64_t seed = 0;                 // For shuffling, initialisation and dropout: equal seeds, equal results.
  std::optional<bool> use_gpu = {};  // Default: whether resources_per_worker asks for a GPU.
  // Between workers with GPUs. "shared": gradients meet in shared memory of a node and travel encrypted between nodes, as
  // those of workers without GPUs do. "nccl": between the GPUs, with the plug-in libvolador_nccl.so and a whole GPU for
  // each worker. "gloo": over TCP. The last two do not encrypt.
  std::string backend = "shared";
  int max_failures = -1;                            // Lost workers that the run survives; -1: any number.
  std::chrono::milliseconds start_timeout{60'000};  // Longest wait for enough workers.
  std::chrono::milliseconds hang_timeout{
      5'000};  // A worker that the others wait for is ended after this time, or 10 usual steps.
  // Keeps a copy of the state in the object store at the end of each train(), for the loss of all workers. Steps go on
  // while it is copied and stored.
  bool copy_state = true;
  int64_t copy_every_steps = 0;         // Copies the state after so many steps too; 0: only at the end of each train().
  Strategy strategy = Strategy::kPack;  // Placement of the workers.
  std::optional<PlacementGroup> group =
      {};  // Runs the first workers in these bundles, from first_bundle on; default: a group of its own.
  int first_bundle = 0;
  int priority = 0;                             // Higher goes first when resources are short.
  std::map<std::string, std::string> env = {};  // Environment of the workers.
  int64_t planned_epochs = 0;                   // For the estimate of the time left in lists; 0: unknown.
  bool report = true;                           // Shows the run on the dashboard and in `volador list experiments`.
  // Parent of the folder with result files. Default: ~/volador_results; "none": no files. An address, such as
  // s3://bucket/prefix: the files are in the default folder, and copied to that storage.
  std::string storage = {};
};

// Throws kInvalidArgument that names the option.
void check_options(const TrainerOptions& options);

struct TrainOptions {
  int64_t num_steps = -1;  // Steps of this call, over the ends of epochs; -1: to the end of the epoch.
  bool profile = false;  // Adds mean_<part>_s: seconds a step of data, forward, backward, communication and optimizer.
};
struct ValidateOptions {
  int64_t num_steps = -1;  // Batches; -1: all.
};

class Trainer {
 public:
  // Starts the workers and returns; the first call of another method waits for them. Throws kInvalidArgument (an
  // option), kInfeasible (the cluster could never hold the least number of workers).
  Trainer(std::string operator_name, TrainerOptions options);
  // Ends the workers.
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Trains to the end of the epoch, or some steps. Returns the means of the operator's metrics over all workers,
  // weighted by num_samples, with last_<metric>, num_samples, batch_count, epoch (1 after the first), step, workers and
  // samples_per_s. Blocks; lost workers are handled within. Throws kApplication (user code threw), kUnavailable (too
  // few workers within start_timeout), kActorDied (more than max_failures).
  Metrics train(const TrainOptions& options = {});
  // Metrics of the validation data, as train().
  Metrics validate(const ValidateOptions& options = {});

  // Writes the state of rank 0 to a file that torch.load reads: models_state_dict, optimizers_state_dict,
  // lr_schedulers_state_dict, and the place in the data. Replaces the file at once when it is complete. `file`: a path,
  // or an address such as s3://bucket/prefix/digits.pt.
  void save(const std::filesystem::path& file);
  // As save(), while training goes on: the state is copied during the next forward and backward passes. The file has the
  // state of this moment and is complete when the future is ready; get() throws what save() would, kActorDied if rank 0
  // was lost meanwhile, and kApplication if a parameter was changed in a batch before step(). The trainer's end waits
  // for the file.
  std::future<void> save_async(const std::filesystem::path& file);
  // Continues from such a file or address, with any number of workers.
  void load(const std::filesystem::path& file);
  // The state as bytes of such a file.
  std::string state();
  void load_state(const std::string& bytes);

  // Whether the operator registered validation data; known after the first train().
  bool has_validation() const;
  int64_t epoch() const;                 // Completed epochs.
  int64_t step() const;                  // Steps done.
  int world() const;                     // Workers of the present group.
  int failures() const;                  // Workers lost so far.
  std::string explain() const;           // What the run does or waits for. Any thread.
  std::vector<int> worker_pids() const;  // Those of the present group, by rank. Any thread.
  // Ends the workers; later calls throw kUnavailable. Repeated: no effect.
  void shutdown();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

template <class Op>
class TorchTrainer : public Trainer {
 public:
  explicit TorchTrainer(TrainerOptions options = {}) : Trainer(OperatorEntry<Op>::name, std::move(options)) {}
};

}  // namespace volador::train
