#include "train/operator/rank_loop.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "train/group/shared_group.h"
#include "train/operator/operator_impl.h"
#include "train/optim/state_dict.h"
#include "tune/refusal.h"

namespace volador::train {
namespace {

using Clock = std::chrono::steady_clock;
using c10::IValue;

constexpr int64_t kStateFormat = 1;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// A seed that depends on all arguments; splitmix64's finalizer.
uint64_t mixed_seed(uint64_t seed, uint64_t rank, uint64_t step) {
  uint64_t value = seed + 0x9e3779b97f4a7c15ULL * (rank + 1) + 0xd1b54a32d192ed03ULL * (step + 1);
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

c10::impl::GenericDict dictionary() { return c10::impl::GenericDict(c10::StringType::get(), c10::AnyType::get()); }
c10::impl::GenericList list() { return c10::impl::GenericList(c10::AnyType::get()); }

// The entry of a dictionary; throws kInvalidArgument.
IValue entry_of(const IValue& value, const std::string& key) {
  if (value.isGenericDict()) {
    const auto dict = value.toGenericDict();
    const auto found = dict.find(key);
    if (found != dict.end()) return found->value();
  }
  tune::throw_refusal(fmt::format(
      "the state of a training run has no entry \"{}\"; is the file a checkpoint of train::TorchTrainer?", key));
}

int64_t integer_of(const IValue& value, const std::string& key) {
  const IValue entry = entry_of(value, key);
  if (!entry.isInt())
    tune::throw_refusal(fmt::format("the state of a training run: \"{}\" is no integer but {}", key, entry.tagKind()));
  return entry.toInt();
}

// Runs user code; LibTorch's exceptions lose their stack traces.
template <class Code>
auto plainly(Code code) {
  try {
    return code();
  } catch (const c10::Error& error) {
    throw Exception(Error{ErrorCode::kApplication, error.what_without_backtrace()});
  }
}

c10::List<IValue> list_of(const IValue& state, const std::string& key, size_t size, const char* what) {
  const IValue value = entry_of(state, key);
  if (!value.isList() || value.toList().size() != size) {
    tune::throw_refusal(fmt::format("the state has {} {}, setup() registered {}",
                                    value.isList() ? value.toList().size() : 0, what, size));
  }
  return value.toList();
}

}  // namespace

// The batches of a segment of one rank.
class SegmentIterator final : public BatchIterator {
 public:
  SegmentIterator(OperatorImpl& impl, const SegmentRequest& request) : impl_(impl), request_(request) {
    const bool is_training = request.is_training;
    auto& sampler = is_training ? impl.train_sampler : impl.validation_sampler;
    loader_ = is_training ? impl.train_loader.get() : impl.validation_loader.get();
    batch_size_ = is_training ? impl.data.batch_size : impl.data.validation_batch_size;
    epoch_ = is_training ? impl.epoch : 0;
    position_ = is_training ? impl.position : 0;
    wait_before_ = loader_->wait_seconds();
    loader_->start([sampler = sampler.get(), epoch = epoch_, planned = position_, batch = batch_size_,
                    rank = impl.group->rank(), world = impl.group->world(), this]() mutable -> std::optional<Share> {
      Share share = sampler->share(epoch, planned, batch, rank, world);
      if (share.batch_rows == 0) return std::nullopt;
      planned += share.batch_rows;
      // A rank without a row reads one that does not count, so that all ranks do the same operations.
      if (share.rows.empty()) {
        Share placeholder = share_of({sampler->share(epoch, planned - share.batch_rows, batch, 0, world).rows[0]});
        placeholder.batch_rows = share.batch_rows;
        placeholder.last_of_epoch = share.last_of_epoch;
        return placeholder;
      }
      return share;
    });
  }

  std::optional<LoadedStep> next() override {
    commit();
    if (request_.is_training) {
      if (impl_.stop_seen) return std::nullopt;
      if (impl_.pause_seen) {
        end_ = SegmentEnd::kPaused;
        return std::nullopt;
      }
      if (impl_.epoch > request_.epoch || (request_.until_step >= 0 && impl_.step.load() >= request_.until_step))
        return std::nullopt;
    } else if (request_.steps_max >= 0 && batch_index_ >= request_.steps_max) {
      return std::nullopt;
    }
    check_aborted();
    impl_.set_activity("data loading");
    auto loaded = loader_->next();
    impl_.times.data = loader_->wait_seconds() - wait_before_;
    if (!loaded) return std::nullopt;
    // The first ranks get the rows of a batch that has fewer than there are ranks.
    const bool is_placeholder = impl_.group->rank() >= loaded->share.batch_rows;
    impl_.batch = {.batch_index = request_.is_training ? position_ / batch_size_ : batch_index_,
                   .step = impl_.step.load(),
                   .epoch = request_.is_training ? epoch_ : impl_.epoch,
                   .rows = is_placeholder ? 0 : static_cast<int64_t>(loaded->share.rows.size()),
                   .batch_rows = loaded->share.batch_rows};
    impl_.sync->counts = impl_.batch.rows > 0;
    impl_.is_batch_finite = true;
    impl_.losses.clear();
    impl_.optimizer_steps = 0;
    is_open_ = true;
    is_last_ = loaded->share.last_of_epoch;
    impl_.set_activity(request_.is_training ? "train_batch()" : "validate_batch()");
    if (impl_.device.is_cpu()) return LoadedStep{std::move(loaded->batch), impl_.batch};
    return LoadedStep{loaded->batch.to(impl_.device, true), impl_.batch};
  }

  // The batch that was handed out is done.
  void commit() {
    if (!is_open_) return;
    is_open_ = false;
    impl_.finish_copies();  // For a batch without a step.
    impl_.samples += static_cast<double>(impl_.batch.rows);
    ++impl_.batches;
    ++batch_index_;
    position_ += impl_.batch.batch_rows;
    {
      const std::lock_guard<std::mutex> hold(impl_.mutex);
      impl_.step_begin = Clock::now();
    }
    if (!request_.is_training) return;
    impl_.sync->commit();
    impl_.optimizer_steps = impl_.steps_applied = 0;
    impl_.step.fetch_add(1);
    impl_.position = position_;
    if (!is_last_) return;
    ++impl_.epoch;
    impl_.position = 0;
    for (auto& entry : impl_.optimizers) {
      if (entry.schedule == nullptr || entry.when != ScheduleStep::kEpoch) continue;
      ++entry.schedule_steps;
      impl_.apply_schedule(entry);
    }
  }

  SegmentEnd end() const { return end_; }

 private:
  // Validation has no collective operations that would notice it.
  void check_aborted() {
    const std::lock_guard<std::mutex> hold(impl_.mutex);
    if (!impl_.abort_reason.empty()) throw GroupAborted(impl_.abort_reason);
  }

  OperatorImpl& impl_;
  const SegmentRequest request_;
  Loader* loader_ = nullptr;
  int64_t batch_size_ = 0;
  int64_t epoch_ = 0;
  int64_t position_ = 0;
  int64_t batch_index_ = 0;
  double wait_before_ = 0;
  bool is_open_ = false;
  bool is_last_ = false;
  SegmentEnd end_ = SegmentEnd::kFinished;
};

RankLoop::RankLoop(const RankOptions& options, const Config& config)
    : operator_(OperatorRegistry::instance().make(options.operator_name)) {
  impl_ = operator_->impl_.get();
  impl_->options = options;
  impl_->config = config;
  if (options.use_gpu) {
    if (!torch::cuda::is_available()) {
      throw Exception(
          Error{ErrorCode::kUnavailable,
                "the rank was given a GPU, but LibTorch finds none: the LibTorch of this program has no CUDA part, or "
                "CUDA_VISIBLE_DEVICES names no device"});
    }
    impl_->device = torch::Device(torch::kCUDA, 0);
  }
  torch::manual_seed(mixed_seed(options.seed, 0, 0));
  plainly([&] { operator_->setup(config); });
  if (impl_->models.empty()) {
    tune::throw_refusal(
        fmt::format("{}: setup() registered no model; call register_all() or register_model()", options.operator_name));
  }
  if (impl_->optimizers.empty()) {
    tune::throw_refusal(fmt::format("{}: setup() registered no optimizer; call register_all() or register_optimizer()",
                                    options.operator_name));
  }
  for (auto& entry : impl_->optimizers) {
    std::vector<torch::Tensor> parameters;
    for (const auto& group : entry.optimizer->param_groups()) {
      parameters.insert(parameters.end(), group.params().begin(), group.params().end());
    }
    entry.reducer = std::make_unique<GradientReducer>(std::move(parameters),
                                                      ReducerOptions{.is_one_of_many = impl_->optimizers.size() > 1,
                                                                     .compression = impl_->compression,
                                                                     .power_sgd = impl_->power_sgd});
  }
  if (impl_->has_data) {
    const DataOptions& data = impl_->data;
    impl_->train_sampler = std::make_unique<DistributedSampler>(
        data.train->size(), SamplerOptions{.seed = options.seed, .shuffle = data.shuffle, .drop_last = data.drop_last});
    const LoaderOptions loading{
        .threads = data.loader_threads, .prefetch = data.prefetch, .pin_memory = options.use_gpu};
    impl_->train_loader = std::make_unique<Loader>(data.train, loading);
    if (data.validation != nullptr) {
      impl_->validation_sampler =
          std::make_unique<DistributedSampler>(data.validation->size(), SamplerOptions{.shuffle = false});
      impl_->validation_loader = std::make_unique<Loader>(data.validation, loading);
    }
  }
  for (const auto& model : impl_->models) impl_->sync_layers += share_batch_norms(*model.module, impl_->sync);
  impl_->is_set_up = true;
}

RankLoop::~RankLoop() = default;

int64_t RankLoop::arena_bytes(int ranks_of_node) const {
  int64_t bytes = 0;
  for (const auto& entry : impl_->optimizers) bytes += entry.reducer->arena_bytes(ranks_of_node);
  return bytes;
}

uint64_t RankLoop::layout() const {
  uint64_t layout = impl_->optimizers.size();
  for (const auto& entry : impl_->optimizers)
    layout = layout * 1'000'003 + entry.reducer->layout() + (entry.shard != nullptr ? 1 : 0);
  return layout;
}

std::string RankLoop::describe_parameters() const {
  std::string text = fmt::format("compression {}\n", impl_->describe_compression());
  for (const auto& model : impl_->models) {
    for (const auto& item : model.module->named_parameters()) {
      text += fmt::format("{}.{} [{}] {}\n", model.name, item.key(), fmt::join(item.value().sizes(), ", "),
                          c10::toString(item.value().scalar_type()));
    }
  }
  return text;
}

int64_t RankLoop::batch_size() const { return impl_->has_data ? impl_->data.batch_size : 0; }
int64_t RankLoop::batches_per_epoch() const {
  return impl_->has_data ? impl_->train_sampler->batches(impl_->data.batch_size) : 0;
}
bool RankLoop::has_validation() const { return impl_->validation_loader != nullptr; }
bool RankLoop::is_sharded() const { return impl_->is_sharded(); }
bool RankLoop::has_state() const {
  return std::all_of(impl_->optimizers.begin(), impl_->optimizers.end(),
                     [](const auto& entry) { return entry.shard == nullptr || entry.shard->has_whole_state(); });
}
int64_t RankLoop::epoch() const { return impl_->epoch; }
int64_t RankLoop::parameter_count() const {
  int64_t count = 0;
  for (const auto& model : impl_->models) {
    for (const torch::Tensor& parameter : model.module->parameters()) count += parameter.numel();
  }
  return count;
}

void RankLoop::form(std::shared_ptr<Group> group) {
  if (impl_->has_data && impl_->data.batch_size < group->world()) {
    tune::throw_refusal(
        fmt::format("batch_size is {}, and the run has {} workers: each step needs a sample for each; raise "
                    "batch_size or lower num_workers",
                    impl_->data.batch_size, group->world()));
  }
  impl_->clear_gradients();
  impl_->finish_copies();
  for (auto& entry : impl_->optimizers) {
    if (entry.shard != nullptr) entry.shard->form(group->rank(), group->world());
  }
  {
    const std::lock_guard<std::mutex> hold(impl_->mutex);
    impl_->group = group;
    impl_->abort_reason.clear();
  }
  impl_->sync->group = group;
  impl_->exchanges_late = group->transport().starts_with("shared memory and") &&
                          (impl_->sync_layers > 0 || (impl_->is_sharded() && impl_->optimizers.size() > 1));
  impl_->pause_requested.store(false);
  for (auto& entry : impl_->optimizers) entry.reducer->attach(*group, impl_->step.load());
}

SegmentReply RankLoop::run(const SegmentRequest& request) {
  OperatorImpl& impl = *impl_;
  VOLADOR_CHECK(impl.group != nullptr);
  const char* name = request.is_training ? "train()" : "validate()";
  if (!impl.has_data || (!request.is_training && impl.validation_loader == nullptr)) {
    tune::throw_refusal(fmt::format("{}: {} registered no {} data; call register_data() in setup()", name,
                                    impl.options.operator_name, request.is_training ? "training" : "validation"));
  }
  if (!request.is_training)
    impl.finish_copies();  // An operator may validate an average of the parameters in their place.
  for (auto& model : impl.models) model.module->train(request.is_training);
  impl.sums = {};
  impl.times = {};
  impl.has_sums = impl.pause_seen = impl.stop_seen = impl.nan_stop = false;
  impl.samples = 0;
  impl.batches = 0;
  impl.stop_requested = false;
  // Random numbers of a segment depend on its place only, so that a resumed run repeats them.
  torch::manual_seed(mixed_seed(impl.options.seed, static_cast<uint64_t>(impl.group->rank()),
                                static_cast<uint64_t>(impl.step.load()) * 2 + (request.is_training ? 0 : 1)));
  {
    const std::lock_guard<std::mutex> hold(impl.mutex);
    impl.step_begin = Clock::now();
    impl.is_running = true;
  }
  const auto begin = Clock::now();
  SegmentReply reply;
  impl.sync->is_deferring = request.is_training;
  struct Ended {
    OperatorImpl& impl;
    ~Ended() {
      impl.sync->is_deferring = false;
      impl.sync->updates.clear();
      const std::lock_guard<std::mutex> hold(impl.mutex);
      impl.is_running = false;
      impl.activity = "";
    }
  } ended{impl};
  try {
    if (!request.is_training ||
        (impl.epoch <= request.epoch && (request.until_step < 0 || impl.step.load() < request.until_step))) {
      SegmentIterator batches(impl, request);
      const EpochInfo info{.epoch = impl.epoch,
                           .steps_max = !request.is_training      ? request.steps_max
                                        : request.until_step >= 0 ? request.until_step - impl.step.load()
                                                                  : -1};
      const Metrics metrics = plainly([&] {
        return request.is_training ? operator_->train_epoch(batches, info) : operator_->validate(batches, info);
      });
      batches.commit();
      // Beside the means of the batches, which the default methods collect, those of the whole call.
      MetricSums of_call;
      of_call.add(metrics, impl.samples);
      of_call.batches = impl.batches;
      if (impl.has_sums) of_call.samples = 0;  // Counted with the batches.
      impl.sums.add_rank(of_call);
      reply.end = batches.end();
    }
    if (request.gathers_state || reply.end == SegmentEnd::kPaused) {
      impl.set_activity("gathering of the state");
      for (auto& entry : impl.optimizers) {
        if (entry.shard != nullptr) entry.shard->gather(*impl.group);
      }
    }
    if (impl.nan_stop) {
      MetricSums stopped;
      stopped.names = {"stopped_by_nan"};
      stopped.sums = stopped.weights = stopped.last = {1};
      impl.sums.add_rank(stopped);
    }
  } catch (const GroupAborted& aborted) {
    impl.clear_gradients();
    reply.end = SegmentEnd::kAborted;
    reply.reason = aborted.what();
    impl.steps_applied = std::max(impl.steps_applied, impl.optimizer_steps);
    reply.may_differ = impl.steps_applied > 0;
  } catch (...) {
    // The other ranks must not wait for this one.
    impl.clear_gradients();
    impl.group->abort(fmt::format("rank {} ended with an error", impl.group->rank()));
    throw;
  }
  impl.pause_requested.store(false);
  reply.has_state = has_state();
  reply.is_stopped = reply.end == SegmentEnd::kFinished && impl.stop_seen;
  reply.step = impl.step.load();
  reply.epoch = impl.epoch;
  reply.position = impl.position;
  reply.metrics = impl.sums;
  impl.times.total = seconds_since(begin);
  reply.times = impl.times;
  return reply;
}

Metrics RankLoop::call(const std::string& name, const Config& arguments) {
  OperatorImpl& impl = *impl_;
  VOLADOR_CHECK(impl.group != nullptr);
  impl.set_activity("on_call()");
  impl.finish_copies();
  struct Ended {
    OperatorImpl& impl;
    ~Ended() { impl.set_activity(""); }
  } ended{impl};
  try {
    return plainly([&] { return operator_->on_call(name, arguments); });
  } catch (const GroupAborted& aborted) {
    throw Exception(Error{ErrorCode::kUnavailable, fmt::format("on_call(\"{}\"): {}", name, aborted.what())});
  } catch (...) {
    // The other ranks must not wait for this one.
    impl.group->abort(fmt::format("rank {} ended with an error in on_call(\"{}\")", impl.group->rank(), name));
    throw;
  }
}

c10::IValue RankLoop::state() const {
  auto models = list(), optimizers = list(), schedules = list();
  for (const auto& model : impl_->models) models.push_back(module_state(*model.module));
  for (const auto& entry : impl_->optimizers) {
    optimizers.push_back(entry.shard != nullptr ? entry.shard->state() : optimizer_state(*entry.optimizer));
    if (entry.schedule == nullptr) continue;
    auto schedule = dictionary();
    schedule.insert("last_epoch", entry.schedule_steps);
    schedule.insert("base_lrs", c10::List<double>(entry.base_rates));
    schedules.push_back(schedule);
  }
  auto place = dictionary();
  place.insert("format", kStateFormat);
  place.insert("step", impl_->step.load());
  place.insert("epoch", impl_->epoch);
  place.insert("position", impl_->position);
  place.insert("steps_applied", static_cast<int64_t>(impl_->steps_applied));
  place.insert("seed", static_cast<int64_t>(impl_->options.seed));
  place.insert("threads", static_cast<int64_t>(at::get_num_threads()));
  place.insert("operator", operator_->state_dict());
  if (impl_->scaler != nullptr) place.insert("scaler", impl_->scaler->state());
  auto state = dictionary();
  state.insert("models_state_dict", models);
  state.insert("optimizers_state_dict", optimizers);
  state.insert("lr_schedulers_state_dict", schedules);
  state.insert("callbacks", dictionary());
  state.insert("volador", place);
  return state;
}

std::shared_ptr<StateCopy> RankLoop::copy_state() {
  std::vector<torch::Tensor> parameters;
  std::unordered_set<const void*> shared;  // Memory of these.
  if (impl_->device.is_cpu() && !*impl_->changes_early) {
    for (const auto& entry : impl_->optimizers) {
      for (const torch::Tensor& parameter : entry.reducer->parameters()) {
        // Others, such as an average of another model, may change at any time.
        if (!parameter.requires_grad()) continue;
        parameters.push_back(parameter);
        shared.insert(parameter.storage().data());
      }
    }
  }
  const auto is_shared = [&](const torch::Tensor& tensor) {
    return tensor.has_storage() && shared.contains(tensor.storage().data());
  };
  auto value = dictionary();
  for (const auto& entry : state().toGenericDict()) {
    const std::string& key = entry.key().toStringRef();
    const bool is_stepped = !parameters.empty() && key == "optimizers_state_dict";
    value.insert(key, is_stepped ? entry.value() : clone_tensors(entry.value(), is_shared));
  }
  auto copy = std::make_shared<StateCopy>(value, std::move(parameters), impl_->changes_early);
  std::erase_if(impl_->copies, [](const auto& one) { return one.expired(); });
  impl_->copies.push_back(copy);
  return copy;
}

void RankLoop::load(const c10::IValue& state) {
  impl_->finish_copies();
  const auto models = list_of(state, "models_state_dict", impl_->models.size(), "models");
  const auto optimizers = list_of(state, "optimizers_state_dict", impl_->optimizers.size(), "optimizers");
  const IValue place = entry_of(state, "volador");
  const int64_t step = integer_of(place, "step"), epoch = integer_of(place, "epoch");
  const int64_t position = integer_of(place, "position"), steps_applied = integer_of(place, "steps_applied");
  const auto with_schedule = static_cast<size_t>(std::count_if(
      impl_->optimizers.begin(), impl_->optimizers.end(), [](const auto& entry) { return entry.schedule != nullptr; }));
  const auto schedules = list_of(state, "lr_schedulers_state_dict", with_schedule, "learning-rate schedules");
  // A state that is refused half-way changes nothing. A rank that has done no step has nothing to lose.
  std::vector<IValue> old_models, old_optimizers;
  std::vector<ShardedOptimizer> old_shards;
  std::vector<std::pair<std::vector<double>, int64_t>> old_schedules;
  for (const auto& entry : impl_->optimizers) old_schedules.emplace_back(entry.base_rates, entry.schedule_steps);
  if (impl_->step.load() > 0) {
    for (const auto& model : impl_->models) old_models.push_back(clone_tensors(module_state(*model.module)));
    for (const auto& entry : impl_->optimizers) {
      old_optimizers.push_back(clone_tensors(optimizer_state(*entry.optimizer)));
      if (entry.shard != nullptr) old_shards.push_back(*entry.shard);
    }
  }
  try {
    for (size_t i = 0; i < models.size(); ++i) load_module_state(*impl_->models[i].module, models.get(i));
    for (size_t i = 0; i < optimizers.size(); ++i) {
      auto& entry = impl_->optimizers[i];
      entry.shard != nullptr ? entry.shard->load(optimizers.get(i))
                             : load_optimizer_state(*entry.optimizer, optimizers.get(i));
    }
    size_t at = 0;
    for (auto& entry : impl_->optimizers) {
      if (entry.schedule == nullptr) continue;
      const IValue schedule = schedules.get(at++);
      entry.schedule_steps = integer_of(schedule, "last_epoch");
      const IValue rates = entry_of(schedule, "base_lrs");
      if (!rates.isList() || rates.toList().size() != entry.base_rates.size()) {
        tune::throw_refusal(
            fmt::format("the state of a learning-rate schedule has not {} base_lrs, one a parameter group",
                        entry.base_rates.size()));
      }
      for (size_t i = 0; i < entry.base_rates.size(); ++i)
        entry.base_rates[i] = rates.toList().get(i).toScalar().toDouble();
      impl_->apply_schedule(entry);
    }
    operator_->load_state_dict(entry_of(place, "operator"));
    if (impl_->scaler != nullptr) impl_->scaler->load_state(entry_of(place, "scaler"));
  } catch (...) {
    for (size_t i = 0; i < old_models.size(); ++i) load_module_state(*impl_->models[i].module, old_models[i]);
    for (size_t i = 0; i < old_optimizers.size(); ++i)
      load_optimizer_state(*impl_->optimizers[i].optimizer, old_optimizers[i]);
    size_t shard = 0;
    for (auto& entry : impl_->optimizers) {
      if (entry.shard != nullptr && shard < old_shards.size()) *entry.shard = old_shards[shard++];
    }
    for (size_t i = 0; i < old_schedules.size(); ++i) {
      std::tie(impl_->optimizers[i].base_rates, impl_->optimizers[i].schedule_steps) = old_schedules[i];
      impl_->apply_schedule(impl_->optimizers[i]);
    }
    throw;
  }
  impl_->step.store(step);
  impl_->epoch = epoch;
  impl_->position = position;
  impl_->optimizer_steps = 0;
  impl_->steps_applied = static_cast<int>(steps_applied);
}

void RankLoop::request_pause() { impl_->pause_requested.store(true); }

void RankLoop::abort(const std::string& reason) {
  std::shared_ptr<Group> group;
  {
    const std::lock_guard<std::mutex> hold(impl_->mutex);
    group = impl_->group;
    impl_->abort_reason = reason;
  }
  if (group != nullptr) group->abort(reason);
}

RankStatus RankLoop::status() const {
  RankStatus status;
  std::shared_ptr<Group> group;
  {
    const std::lock_guard<std::mutex> hold(impl_->mutex);
    group = impl_->group;
    status.activity = impl_->activity;
    if (impl_->is_running) status.in_step_s = seconds_since(impl_->step_begin);
  }
  status.step = impl_->step.load();
  if (group == nullptr) return status;
  const CollectiveState state = group->state();
  if (!state.operation.empty()) {
    status.activity = state.operation;
    status.waiting_for = state.waiting_for;
  }
  return status;
}

}  // namespace volador::train
