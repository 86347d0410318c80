#include "train/trial/torch_trial.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "runtime/serialize/codec.h"
#include "train/optim/state_dict.h"
#include "tune/refusal.h"

namespace volador::train {
namespace {

// Rows of a batch. None: one row that does not count, so that all ranks do the same operations.
Batch rows_of(const Batch& batch, int64_t from, int64_t count) {
  if (count == 0) from = 0;
  const auto part = [&](const torch::Tensor& tensor) { return tensor.narrow(0, from, std::max<int64_t>(1, count)); };
  Batch rows;
  for (const torch::Tensor& tensor : batch.tensors) rows.tensors.push_back(part(tensor));
  for (const auto& [name, tensor] : batch.named) rows.named.emplace(name, part(tensor));
  return rows;
}

// Whole batches of a data set on rank 0, which gets the first rows of each from the run's iterator and reads the others.
class WholeBatches final : public BatchIterator {
 public:
  WholeBatches(BatchIterator& shares, DatasetPtr dataset, torch::Device device)
      : shares_(shares), dataset_(std::move(dataset)), device_(device) {}

  std::optional<LoadedStep> next() override {
    auto loaded = shares_.next();
    if (!loaded) return loaded;
    std::vector<int64_t> others;
    for (int64_t row = loaded->info.rows; row < loaded->info.batch_rows; ++row) others.push_back(rows_ + row);
    if (!others.empty()) {
      const Batch rest = dataset_->rows(others).to(device_);
      for (size_t i = 0; i < rest.tensors.size(); ++i)
        loaded->batch.tensors[i] = torch::cat({loaded->batch.tensors[i], rest.tensors[i]});
      for (auto& [name, tensor] : loaded->batch.named) tensor = torch::cat({tensor, rest[name]});
    }
    rows_ += loaded->info.batch_rows;
    loaded->info.rows = loaded->info.batch_rows;
    return loaded;
  }
  int64_t rows() const { return rows_; }

 private:
  BatchIterator& shares_;
  const DatasetPtr dataset_;
  const torch::Device device_;
  int64_t rows_ = 0;  // Given out so far.
};

// kInvalidArgument: a metric is in both.
void add_all(Metrics& metrics, const Metrics& more) {
  for (const auto& [name, value] : more) {
    if (metrics.contains(name)) {
      tune::throw_refusal(
          fmt::format("the metric {} is that of a reducer and of another one; give the reducer's another name", name));
    }
    metrics.set(name, value);
  }
}

}  // namespace

Metrics TorchTrial::evaluate_batch(const Batch&) { return {}; }
Metrics TorchTrial::evaluate_full_dataset(BatchIterator&) { return {}; }

class TrialOperator final : public TrainingOperator {
 public:
  explicit TrialOperator(TrialClass trial) : class_(std::move(trial)) {}

  void setup(const Config& config) override {
    context_ = std::make_unique<TorchTrialContext>(*this, config);
    trial_ = class_.make(*context_);
    const TrainingDataLoader training = trial_->build_training_data_loader();
    const ValidationDataLoader validation = trial_->build_validation_data_loader();
    if (training.dataset == nullptr)
      tune::throw_refusal(fmt::format("{}: build_training_data_loader() returned no data set", class_.name));
    if (validation.dataset != nullptr && class_.has_evaluate_batch == class_.has_evaluate_full_dataset) {
      tune::throw_refusal(fmt::format(
          "{} overrides {} evaluate_batch() and evaluate_full_dataset(); override one of them, or return no data set "
          "from build_validation_data_loader()",
          class_.name, class_.has_evaluate_batch ? "both" : "none of"));
    }
    batch_size_ = training.batch_size != 0 ? training.batch_size : context_->get_global_batch_size();
    validation_data_ = validation.dataset;
    context_->batch_size_ = batch_size_;
    register_data({.train = training.dataset,
                   .validation = validation.dataset,
                   .batch_size = step_samples(),
                   .validation_batch_size = validation.batch_size != 0 ? validation.batch_size : batch_size_,
                   .shuffle = training.shuffle,
                   .drop_last = training.drop_last,
                   .loader_threads = training.loader_threads,
                   .prefetch = training.prefetch});
    samples_per_epoch_ = training.dataset->size();
    if (training.drop_last) samples_per_epoch_ -= samples_per_epoch_ % step_samples();
    callbacks_ = trial_->build_callbacks();
  }

  Metrics train_epoch(BatchIterator& batches, const EpochInfo& info) override {
    context_->stop_requested_ = context_->is_stop_pending_;
    if (!std::exchange(is_started_, true)) {
      start();
      each_callback(&TrialCallback::on_training_start);
    }
    TrainingOperator::train_epoch(batches, info);
    return reduce_training();
  }

  Metrics train_batch(const Batch& batch, const BatchInfo& info) override {
    TorchTrialContext& context = *context_;
    // A step for several batches, which are parts of the rank's share.
    const int64_t parts = (info.batch_rows + batch_size_ - 1) / batch_size_;
    const bool ends_epoch = info.batch_index * step_samples() + info.batch_rows >= samples_per_epoch_;
    const Training training(context);
    if (context.is_stop_pending_) request_stop();
    if (info.batch_index == 0) each_callback(&TrialCallback::on_training_epoch_start, info.epoch);
    MetricSums sums;
    Metrics metrics;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t from = info.rows * part / parts, rows = info.rows * (part + 1) / parts - from;
      context.is_last_part_ = part + 1 == parts;
      context.scale_ = context.aggregation_.average_gradients ? 1 : static_cast<double>(parts);
      context.epoch_ = info.epoch;
      context.batch_ = info.step * context.aggregation_.frequency + part;
      context.rows_ = rows;
      context.is_epoch_start_ = info.batch_index == 0 && part == 0;
      context.is_epoch_end_ = ends_epoch && context.is_last_part_;
      metrics = trial_->train_batch(parts == 1 ? batch : rows_of(batch, from, rows), info.epoch, context.batch_);
      if (parts > 1) sums.add(metrics, static_cast<double>(rows));
      for (auto& schedule : context.schedules_) schedule.pending += schedule.every_batch;
    }
    if (ends_epoch) each_callback(&TrialCallback::on_training_epoch_end, info.epoch);
    context.step_schedules();
    if (parts == 1) return metrics;
    metrics = sums.means(false);
    metrics.erase("batch_count");
    return metrics;
  }

  Metrics validate(BatchIterator& batches, const EpochInfo&) override {
    const torch::NoGradGuard no_grad;
    start();
    const EvaluationReducer reducer = trial_->evaluation_reducer();
    for (const auto& one : context_->reducers_) {
      if (one.use.for_validation) one.reducer->reset();
    }
    each_callback(&TrialCallback::on_validation_start);
    MetricReduction own;
    if (class_.has_evaluate_full_dataset) {
      if (rank() == 0) {
        WholeBatches all(batches, validation_data_, device());
        const Metrics metrics = trial_->evaluate_full_dataset(all);
        own.add(metrics, static_cast<double>(all.rows()), Reducer::kAvg);
      }
    } else {
      while (auto loaded = batches.next()) {
        if (loaded->info.rows > 0)
          own.add(trial_->evaluate_batch(loaded->batch), static_cast<double>(loaded->info.rows), reducer);
      }
    }
    const auto [reduced, samples] =
        reduce(own, class_.has_evaluate_full_dataset ? Reducer::kAvg : reducer, &ReducerUse::for_validation);
    each_callback(&TrialCallback::on_validation_end, reduced);
    return on_rank_0(reduced, samples);
  }

  c10::IValue state_dict() override {
    c10::impl::GenericDict callbacks(c10::StringType::get(), c10::AnyType::get());
    for (const auto& [name, callback] : callbacks_) callbacks.insert(name, callback->state_dict());
    c10::impl::GenericDict state(c10::StringType::get(), c10::AnyType::get());
    state.insert("callbacks", callbacks);
    return state;
  }
  void load_state_dict(const c10::IValue& state) override {
    if (!state.isGenericDict() || !state.toGenericDict().contains("callbacks")) return;
    const auto callbacks = state.toGenericDict().at("callbacks").toGenericDict();
    for (const auto& [name, callback] : callbacks_) {
      if (callbacks.contains(name)) callback->load_state_dict(callbacks.at(name));
    }
  }

 private:
  // The time in which the trial's train_batch() runs.
  class Training {
   public:
    explicit Training(TorchTrialContext& context) : context_(context) {
      context_.is_training_ = true;
      context_.complete_.clear();
      for (auto& schedule : context_.schedules_) schedule.pending = 0;
    }
    ~Training() { context_.is_training_ = false; }
    Training(const Training&) = delete;
    Training& operator=(const Training&) = delete;

   private:
    TorchTrialContext& context_;
  };

  int64_t step_samples() const { return batch_size_ * context_->aggregation_.frequency; }

  void start() { context_->has_started_ = true; }

  template <class Function, class... A>
  void each_callback(Function function, const A&... arguments) {
    for (const auto& [name, callback] : callbacks_) ((*callback).*function)(arguments...);
  }

  // Reduces what all ranks have gathered, and the trial's reducers: metrics and their number of samples. Collective.
  std::pair<Metrics, double> reduce(const MetricReduction& own, const EvaluationReducer& reducer,
                                    bool ReducerUse::*use) {
    std::vector<Bytes> values;
    for (const auto& one : context_->reducers_) {
      if (one.use.*use) values.push_back({to_bytes(one.reducer->per_slot_reduce())});
    }
    MetricReduction all;
    std::vector<std::vector<c10::IValue>> per_slot(values.size());
    for (const std::string& bytes : gather_bytes(*this, volador::to_bytes(own, values))) {
      const auto [reduction, others] = tune::unwrap(tuple_from_bytes<MetricReduction, std::vector<Bytes>>(bytes));
      all.merge(reduction);
      for (size_t i = 0; i < per_slot.size(); ++i) per_slot[i].push_back(from_bytes(others.at(i).data));
    }
    Metrics metrics = all.reduce(reducer);
    size_t at = 0;
    for (const auto& one : context_->reducers_) {
      if (!(one.use.*use)) continue;
      add_all(metrics, one.reducer->cross_slot_reduce(per_slot[at++]));
      one.reducer->reset();
    }
    return {metrics, all.samples()};
  }

  Metrics reduce_training() {
    const auto& reducers = context_->reducers_;
    if (std::none_of(reducers.begin(), reducers.end(), [](const auto& one) { return one.use.for_training; })) return {};
    const Metrics reduced = reduce({}, {}, &ReducerUse::for_training).first;
    return rank() == 0 ? reduced : Metrics();
  }

  // The run adds up the metrics of all ranks: those that are equal on all of them count once.
  Metrics on_rank_0(Metrics metrics, double samples) const {
    if (rank() != 0) return {{"num_samples", 0.0}};
    metrics.set("num_samples", samples);
    return metrics;
  }

  const TrialClass class_;
  std::unique_ptr<TorchTrialContext> context_;
  std::unique_ptr<TorchTrial> trial_;
  TrialCallbacks callbacks_;
  DatasetPtr validation_data_;
  int64_t batch_size_ = 0;  // Those of all ranks; a step has as many batches as are aggregated.
  int64_t samples_per_epoch_ = 0;
  bool is_started_ = false;
};

std::unique_ptr<TrainingOperator> make_trial_operator(TrialClass trial) {
  return std::make_unique<TrialOperator>(std::move(trial));
}

}  // namespace volador::train
