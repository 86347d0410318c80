#include "train/group/gradient_reducer.h"

#include <ATen/ScalarOps.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "train/group/power_sgd.h"
#include "train/group/shared_group.h"
#include "tune/refusal.h"

namespace volador::train {
namespace {

constexpr int64_t kFlags = 3;

torch::Tensor untracked_view(const torch::Tensor& flat, const BucketSlot& slot, torch::IntArrayRef sizes) {
  // Autograd does not know this as a view, so that Optimizer::zero_grad() can detach it.
  const at::AutoDispatchBelowADInplaceOrView untracked;
  return flat.narrow(0, slot.offset, slot.elements).view(sizes);
}

uint64_t mixed(uint64_t digest, uint64_t value) {
  digest ^= value + 0x9e3779b97f4a7c15ULL + (digest << 6) + (digest >> 2);
  return digest;
}

// The type in which gradients of a type travel.
torch::ScalarType transport_type(torch::ScalarType type, Compression compression) {
  if (type != torch::kFloat && type != torch::kDouble) return type;
  switch (compression) {
    case Compression::kHalf:
      return torch::kHalf;
    case Compression::kBFloat16:
      return torch::kBFloat16;
    case Compression::kNone:
    case Compression::kPowerSgd:
      break;
  }
  return type;
}

// Pages of host memory that a GPU copies to and from without the host. Nothing is pinned where CUDA is missing or
// refuses: the host then waits for each copy.
class PinnedPages {
 public:
  explicit PinnedPages(const torch::Tensor& memory) {
    if (functions().add == nullptr || memory.nbytes() == 0) return;
    constexpr unsigned kPortable = 1;  // For all contexts of the process.
    void* const data = memory.mutable_data_ptr();
    if (functions().add(data, memory.nbytes(), kPortable) == 0) {
      data_ = data;
    } else {
      functions().last_error();  // Clears it: LibTorch would report it as that of a later kernel.
    }
  }
  PinnedPages(PinnedPages&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  PinnedPages& operator=(PinnedPages&&) = delete;
  ~PinnedPages() {
    if (data_ != nullptr) functions().remove(data_);
  }

 private:
  struct Functions {
    int (*add)(void*, size_t, unsigned) = nullptr;
    int (*remove)(void*) = nullptr;
    int (*last_error)() = nullptr;
  };
  // Those of the CUDA runtime that LibTorch uses.
  static const Functions& functions() {
    static const Functions found = [] {
      void* const library = ::dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
      const auto find = [&](const char* name) { return library == nullptr ? nullptr : ::dlsym(library, name); };
      void *const add = find("cudaHostRegister"), *const remove = find("cudaHostUnregister");
      void* const last_error = find("cudaGetLastError");
      if (add == nullptr || remove == nullptr || last_error == nullptr) return Functions();
      return Functions{.add = reinterpret_cast<int (*)(void*, size_t, unsigned)>(add),
                       .remove = reinterpret_cast<int (*)(void*)>(remove),
                       .last_error = reinterpret_cast<int (*)()>(last_error)};
    }();
    return found;
  }

  void* data_ = nullptr;
};

c10::Stream current_stream(torch::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

// One exchange of a group. A bucket is filled and read in memory on the device of its parameters. Where the group
// reduces on another device, that memory is a stage: it is copied to the exchange when it is full, and from it after
// the sum.
//
// Copies from a GPU run on a stream of their own, behind an event of the stream that has filled the stage; the bucket
// is posted when a further event says that the copy has ended. The next copy from the stage also waits for the end of
// the copy to it, since other ranks write the next sums once this rank has posted.
class Channel {
 public:
  Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() { release(); }

  void set_plan(BucketPlan plan) { plan_ = std::move(plan); }
  const BucketPlan& plan() const { return plan_; }
  bool is_attached() const { return exchange_ != nullptr; }
  bool has_stage(size_t bucket) const { return parts_[bucket].sent.defined(); }

  // Collective. `types`: of the buckets where they are filled.
  void attach(Group& group, const std::vector<torch::TensorOptions>& types, int64_t control_words);
  // Ends the use of the group. Tensors that were given out stay valid.
  void release();

  torch::Tensor input(size_t bucket) const { return parts_[bucket].input; }
  torch::Tensor result(size_t bucket) const { return parts_[bucket].result; }

  void begin_step();
  // A slot of the bucket is complete. The last bucket waits for the control words.
  void fill(size_t bucket) {
    if (!in_flight_.empty()) post_copied();
    if (--parts_[bucket].left == 0 && bucket + 1 != parts_.size()) send(bucket);
  }
  // The bucket is complete.
  void send(size_t bucket);
  // Sends what was not sent, and returns when the results are there. Gives the sums of the control words.
  std::vector<double> finish(const std::vector<double>& control);
  // Gives up a step that was not posted as a whole.
  void discard();

 private:
  struct Part {
    size_t left = 0;  // Slots that are not complete.
    bool is_sent = false;
    int64_t elements = 0;  // Without control words.
    torch::Tensor input, result;
    torch::Tensor sent, received;       // Memory of the exchange behind a stage; undefined: there is no stage.
    std::optional<c10::Stream> copies;  // Set if the stage is on a GPU.
    std::optional<c10::Event> copied;   // The last copy from or to the stage.
  };

  void add_stage(Part& part, const torch::TensorOptions& type, int64_t elements);
  void post_copied();

  BucketPlan plan_;
  std::unique_ptr<GradientExchange> exchange_;
  std::vector<Part> parts_;
  std::deque<size_t> in_flight_;  // Buckets that are being copied from a GPU.
  std::vector<PinnedPages> pinned_;
  torch::Tensor control_input_, control_result_;
};

void Channel::attach(Group& group, const std::vector<torch::TensorOptions>& types, int64_t control_words) {
  release();
  std::vector<torch::TensorOptions> reduced;
  for (const torch::TensorOptions& type : types) reduced.push_back(type.device(group.reduces_on(type.device())));
  exchange_ = group.exchange(plan_, reduced);
  parts_.resize(plan_.buckets.size());
  for (size_t i = 0; i < plan_.buckets.size(); ++i) {
    Part& part = parts_[i];
    const int64_t elements = plan_.buckets[i].elements;
    part.input = exchange_->input(i);
    part.result = exchange_->result(i);
    part.elements = control_words > 0 && i + 1 == plan_.buckets.size() ? plan_.control_offset : elements;
    if (i + 1 == plan_.buckets.size() && control_words > 0) {
      control_input_ = part.input.narrow(0, plan_.control_offset, control_words);
      control_result_ = part.result.narrow(0, plan_.control_offset, control_words);
    }
    if (types[i].device() != reduced[i].device()) add_stage(part, types[i], elements);
  }
  begin_step();
}

void Channel::add_stage(Part& part, const torch::TensorOptions& type, int64_t elements) {
  part.sent = part.input.narrow(0, 0, part.elements);
  part.received = part.result.narrow(0, 0, part.elements);
  part.input = part.result = torch::zeros({elements}, type);
  if (type.device().is_cpu()) return;
  for (const Part& other : parts_) {
    if (other.copies && other.copies->device() == type.device()) part.copies = other.copies;
  }
  if (!part.copies)
    part.copies = c10::impl::VirtualGuardImpl(type.device().type()).getStreamFromGlobalPool(part.input.device());
  part.copied.emplace(type.device().type());
  if (!type.device().is_cuda()) return;
  pinned_.emplace_back(part.sent);
  pinned_.emplace_back(part.received);
}

void Channel::release() {
  discard();
  for (const Part& part : parts_) {
    if (part.copied) part.copied->synchronize();
  }
  pinned_.clear();
  parts_.clear();
  control_input_ = control_result_ = torch::Tensor();
  exchange_.reset();
}

void Channel::begin_step() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].left = plan_.buckets[i].slots.size();
    parts_[i].is_sent = false;
  }
}

void Channel::send(size_t bucket) {
  Part& part = parts_[bucket];
  part.is_sent = true;
  if (!part.copies) {
    if (part.sent.defined()) part.sent.copy_(part.input.narrow(0, 0, part.elements));
    exchange_->post(bucket);
    return;
  }
  c10::Event filled(part.copies->device_type());
  filled.record(current_stream(part.copies->device()));
  filled.block(*part.copies);
  part.copied->block(*part.copies);
  {
    const c10::StreamGuard on_stream(*part.copies);
    part.sent.copy_(part.input.narrow(0, 0, part.elements), /*non_blocking=*/true);
  }
  part.copied->record(*part.copies);
  in_flight_.push_back(bucket);
}

void Channel::post_copied() {
  while (!in_flight_.empty() && parts_[in_flight_.front()].copied->query()) {
    exchange_->post(in_flight_.front());
    in_flight_.pop_front();
  }
}

std::vector<double> Channel::finish(const std::vector<double>& control) {
  const auto words = static_cast<int64_t>(control.size());
  if (words > 0) control_input_.copy_(torch::from_blob(const_cast<double*>(control.data()), {words}, torch::kDouble));
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!parts_[i].is_sent) send(i);
  }
  for (; !in_flight_.empty(); in_flight_.pop_front()) {
    parts_[in_flight_.front()].copied->synchronize();
    exchange_->post(in_flight_.front());
  }
  exchange_->finish();
  for (Part& part : parts_) {
    if (!part.sent.defined()) continue;
    part.result.narrow(0, 0, part.elements).copy_(part.received, /*non_blocking=*/true);
    if (part.copied) part.copied->record(current_stream(part.copies->device()));
  }
  if (words == 0) return {};
  const torch::Tensor sums = control_result_.to(torch::kCPU, torch::kDouble);
  return {sums.const_data_ptr<double>(), sums.const_data_ptr<double>() + words};
}

void Channel::discard() {
  for (const size_t bucket : in_flight_) parts_[bucket].copied->synchronize();
  in_flight_.clear();
}

}  // namespace

struct GradientReducer::Impl {
  struct Factors {
    PowerSgdMatrix matrix;
    torch::Tensor right_input, right_result;  // Views of the buckets of right factors.
  };
  struct Slot {
    size_t bucket = 0;  // In the active channel.
    torch::Tensor parameter;
    torch::Tensor input;   // View of the bucket's input.
    torch::Tensor result;  // View of its result.
    // In the parameter's type, made when needed: the sum of the passes before it is cast, or a copy of the result.
    torch::Tensor own;
    std::unique_ptr<Factors> factors;  // Null: the gradient travels whole.
    bool is_cast = false;              // It travels in another type.
    bool is_touched = false;           // Has a gradient of this step.
    bool is_filled = false;            // Has it from the last backward pass of the step.
  };

  ReducerOptions options;
  std::vector<torch::TensorOptions> kinds;  // Types and devices of the parameters.
  std::vector<Slot> slots;                  // In the order of the parameters.
  Channel whole;                            // Whole gradients.
  Channel left, right;                      // PowerSGD: left factors and the gradients without factors; right factors.
  Channel* active = nullptr;                // Takes the gradients of this step: whole or left.
  bool has_factors = false;                 // Some parameters have factors.
  std::vector<double> control;              // Flags, and for each parameter whether it has a gradient.
  int64_t step = 0;
  bool is_alone = true;      // A group of one rank.
  bool is_direct = false;    // This step's gradients stay where they are.
  bool is_open = false;      // A step has begun.
  bool is_dropping = false;  // Gradients are another optimizer's.
  bool is_armed = false;     // Gradients count.
  bool is_last = false;
  double weight = 1;
  double communication_seconds = 0;

  bool sends_factors() const { return active == &left; }
  int64_t control_words() const { return kFlags + static_cast<int64_t>(slots.size()); }

  void make_plans();
  std::vector<torch::TensorOptions> types_of(const BucketPlan& plan) const;
  void use(Channel& channel);
  // Sums the right factors, once the sums of the left ones are there. `used`: for each parameter, the ranks that have a
  // gradient. `keep`: the step counts.
  void exchange_right_factors(const double* used, bool keep);

  void on_gradient(size_t index) {
    if (is_dropping) slots[index].parameter.mutable_grad().reset();
    if (!is_armed || is_direct) return;
    const torch::NoGradGuard no_grad;
    Slot& slot = slots[index];
    torch::Tensor gradient = slot.parameter.grad();
    if (!gradient.defined()) return;
    if (gradient.is_sparse()) gradient = gradient.to_dense();
    if (slot.factors != nullptr && sends_factors()) {
      slot.factors->matrix.add(gradient, weight);
      if (is_last) slot.factors->matrix.write_left(slot.input);
    } else if (slot.is_cast) {
      cast(slot, gradient);
    } else if (slot.is_touched) {
      slot.input.add_(gradient, weight);
    } else {
      at::mul_out(slot.input, gradient, at::native::wrapped_scalar_tensor(weight));
    }
    slot.parameter.mutable_grad().reset();
    slot.is_touched = true;
    if (!is_last || slot.is_filled) return;
    slot.is_filled = true;
    active->fill(slot.bucket);
  }

  // Adds passes in the parameter's type; the sum is cast once.
  void cast(Slot& slot, const torch::Tensor& gradient) const {
    if (slot.is_touched) {
      slot.own.add_(gradient, weight);
    } else {
      make_own(slot);
      at::mul_out(slot.own, gradient, at::native::wrapped_scalar_tensor(weight));
    }
    if (is_last) slot.input.copy_(slot.own);
  }

  static void make_own(Slot& slot) {
    if (!slot.own.defined())
      slot.own = torch::empty(slot.parameter.sizes(), slot.parameter.options().requires_grad(false));
  }

  // Writes what no hook of the last pass has written.
  void complete(Slot& slot) const {
    if (slot.factors != nullptr && sends_factors()) {
      slot.factors->matrix.write_left(slot.input);
    } else if (!slot.is_touched) {
      slot.input.zero_();
    } else if (slot.is_cast) {
      slot.input.copy_(slot.own);
    }
  }

  void begin_step() {
    if (is_open) return;
    is_open = true;
    if (left.is_attached() && !sends_factors() && step >= options.power_sgd.start_step) {
      use(left);
      whole.release();
    }
    active->begin_step();
    for (Slot& slot : slots) slot.is_touched = slot.is_filled = false;
  }
};

void GradientReducer::Impl::make_plans() {
  std::vector<ParameterShape> whole_shapes, left_shapes, right_shapes;
  std::vector<size_t> with_factors;
  for (size_t i = 0; i < slots.size(); ++i) {
    const torch::Tensor& parameter = slots[i].parameter;
    const torch::TensorOptions type = torch::dtype(parameter.dtype()).device(parameter.device());
    size_t kind = 0;
    while (kind < kinds.size() && (kinds[kind].dtype() != type.dtype() || kinds[kind].device() != type.device()))
      ++kind;
    if (kind == kinds.size()) kinds.push_back(type);
    const torch::ScalarType transport = transport_type(parameter.scalar_type(), options.compression);
    ParameterShape shape{.name = {},
                         .elements = parameter.numel(),
                         .element_bytes = static_cast<int64_t>(c10::elementSize(transport)),
                         .kind = static_cast<int>(kind)};
    whole_shapes.push_back(shape);
    if (options.compression != Compression::kPowerSgd) continue;
    if (const auto factors = factor_shape(parameter, options.power_sgd)) {
      slots[i].factors =
          std::make_unique<Factors>(Factors{PowerSgdMatrix(parameter, *factors, options.power_sgd, i), {}, {}});
      shape.elements = factors->right_elements();
      right_shapes.push_back(shape);
      with_factors.push_back(i);
      shape.elements = factors->left_elements();
    }
    left_shapes.push_back(shape);
  }
  BucketOptions bucketing{.first_bytes = std::min<int64_t>(1 << 20, options.bucket_bytes),
                          .bytes = options.bucket_bytes};
  has_factors = !with_factors.empty();
  if (has_factors) {
    BucketPlan plan = plan_buckets(right_shapes, bucketing);
    for (Bucket& bucket : plan.buckets) {
      for (BucketSlot& place : bucket.slots) place.parameter = with_factors[place.parameter];
    }
    right.set_plan(std::move(plan));
  }
  bucketing.control_words = control_words();
  // The last bucket is that of the first parameter.
  if (!slots.empty()) {
    const auto type = transport_type(slots.front().parameter.scalar_type(), options.compression);
    bucketing.control_apart = type != torch::kFloat && type != torch::kDouble;
  }
  whole.set_plan(plan_buckets(whole_shapes, bucketing));
  if (has_factors) left.set_plan(plan_buckets(left_shapes, bucketing));
}

std::vector<torch::TensorOptions> GradientReducer::Impl::types_of(const BucketPlan& plan) const {
  std::vector<torch::TensorOptions> types;
  for (const Bucket& bucket : plan.buckets) {
    if (bucket.slots.empty()) {
      types.push_back(torch::TensorOptions(torch::kFloat).device(types.empty() ? torch::kCPU : types.back().device()));
      continue;
    }
    const torch::TensorOptions& kind = kinds[static_cast<size_t>(bucket.kind)];
    const auto type = c10::typeMetaToScalarType(kind.dtype());
    types.push_back(kind.dtype(is_alone ? type : transport_type(type, options.compression)));
  }
  return types;
}

// Gradients go to this channel from now on.
void GradientReducer::Impl::use(Channel& channel) {
  active = &channel;
  for (size_t i = 0; i < channel.plan().buckets.size(); ++i) {
    for (const BucketSlot& place : channel.plan().buckets[i].slots) {
      Slot& slot = slots[place.parameter];
      const bool is_factor = slot.factors != nullptr && sends_factors();
      const torch::IntArrayRef sizes = is_factor ? torch::IntArrayRef(place.elements) : slot.parameter.sizes();
      slot.bucket = i;
      slot.input = untracked_view(channel.input(i), place, sizes);
      slot.result = untracked_view(channel.result(i), place, sizes);
      slot.is_cast = slot.input.scalar_type() != slot.parameter.scalar_type();
    }
  }
}

void GradientReducer::Impl::exchange_right_factors(const double* used, bool keep) {
  right.begin_step();
  for (size_t i = 0; i < right.plan().buckets.size(); ++i) {
    for (const BucketSlot& place : right.plan().buckets[i].slots) {
      Slot& slot = slots[place.parameter];
      if (!slot.factors->matrix.write_right(slot.result, slot.factors->right_input)) keep = false;
    }
    right.send(i);
  }
  right.finish({});
  for (size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = slots[i];
    if (slot.factors != nullptr)
      slot.own = slot.factors->matrix.finish(slot.factors->right_result, keep && used[i] > 0);
  }
}

namespace {

class Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Hook(std::function<void()> function) : function_(std::move(function)) {}
  void operator()(const torch::autograd::Variable&) override { function_(); }

 private:
  std::function<void()> function_;
};

}  // namespace

void check_options(const ReducerOptions& options) {
  if (options.bucket_bytes < 1)
    tune::throw_refusal(fmt::format("bucket_bytes is {}; it must be at least 1", options.bucket_bytes));
  const PowerSgdOptions& power = options.power_sgd;
  if (options.compression != Compression::kPowerSgd) return;
  if (power.rank < 1) tune::throw_refusal(fmt::format("power_sgd.rank is {}; it must be at least 1", power.rank));
  if (power.start_step < 0)
    tune::throw_refusal(fmt::format("power_sgd.start_step is {}; it must be at least 0", power.start_step));
  if (!(power.min_compression_rate > 0)) {
    tune::throw_refusal(
        fmt::format("power_sgd.min_compression_rate is {}; it must be above 0", power.min_compression_rate));
  }
}

GradientReducer::GradientReducer(std::vector<torch::Tensor> parameters, const ReducerOptions& options)
    : impl_(std::make_unique<Impl>()) {
  check_options(options);
  impl_->options = options;
  std::erase_if(parameters, [](const torch::Tensor& parameter) { return !parameter.requires_grad(); });
  impl_->slots.resize(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) impl_->slots[i].parameter = parameters[i];
  impl_->make_plans();
  for (size_t i = 0; i < parameters.size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameters[i], std::make_unique<Hook>([impl = impl_.get(), i] { impl->on_gradient(i); }));
  }
}

GradientReducer::~GradientReducer() {
  for (const Impl::Slot& slot : impl_->slots) torch::autograd::impl::set_post_acc_grad_hooks(slot.parameter, nullptr);
}

const BucketPlan& GradientReducer::plan() const { return impl_->whole.plan(); }

int64_t GradientReducer::arena_bytes(int ranks) const {
  const bool sends_whole = !impl_->has_factors || impl_->options.power_sgd.start_step > 0;
  int64_t bytes = sends_whole ? exchange_bytes(impl_->whole.plan(), ranks) : 0;
  if (impl_->has_factors)
    bytes += exchange_bytes(impl_->left.plan(), ranks) + exchange_bytes(impl_->right.plan(), ranks);
  return bytes;
}

std::vector<torch::Tensor> GradientReducer::parameters() const {
  std::vector<torch::Tensor> parameters;
  for (const Impl::Slot& slot : impl_->slots) parameters.push_back(slot.parameter);
  return parameters;
}

uint64_t GradientReducer::layout() const {
  uint64_t digest = impl_->slots.size();
  for (const Impl::Slot& slot : impl_->slots) {
    digest = mixed(digest, static_cast<uint64_t>(slot.parameter.scalar_type()));
    for (const int64_t size : slot.parameter.sizes()) digest = mixed(digest, static_cast<uint64_t>(size));
  }
  const ReducerOptions& options = impl_->options;
  digest = mixed(digest, static_cast<uint64_t>(options.bucket_bytes));
  digest = mixed(digest, static_cast<uint64_t>(options.compression));
  if (options.compression != Compression::kPowerSgd) return digest;
  const PowerSgdOptions& power = options.power_sgd;
  for (const uint64_t word : {static_cast<uint64_t>(power.rank), static_cast<uint64_t>(power.start_step),
                              std::bit_cast<uint64_t>(power.min_compression_rate), uint64_t{power.error_feedback},
                              uint64_t{power.warm_start}, power.seed})
    digest = mixed(digest, word);
  return digest;
}

void GradientReducer::attach(Group& group, int64_t step) {
  Impl& impl = *impl_;
  clear();
  impl.is_alone = group.world() == 1;
  impl.step = step;
  for (Channel* channel : {&impl.whole, &impl.left, &impl.right}) channel->release();
  const bool uses_factors = impl.has_factors && !impl.is_alone;
  const bool starts_whole = !uses_factors || step < impl.options.power_sgd.start_step;
  const auto attach = [&](Channel& channel, int64_t control_words) {
    channel.attach(group, impl.types_of(channel.plan()), control_words);
  };
  if (starts_whole) attach(impl.whole, impl.control_words());
  if (uses_factors) {
    attach(impl.left, impl.control_words());
    attach(impl.right, 0);
    for (size_t i = 0; i < impl.right.plan().buckets.size(); ++i) {
      for (const BucketSlot& place : impl.right.plan().buckets[i].slots) {
        Impl::Factors& factors = *impl.slots[place.parameter].factors;
        factors.right_input = impl.right.input(i).narrow(0, place.offset, place.elements);
        factors.right_result = impl.right.result(i).narrow(0, place.offset, place.elements);
        factors.matrix.reset();
      }
    }
  }
  impl.use(starts_whole ? impl.whole : impl.left);
}

void GradientReducer::begin_backward(double weight, bool last) {
  Impl& impl = *impl_;
  const bool is_first = !impl.is_open;
  impl.begin_step();
  impl.weight = weight;
  impl.is_last = last;
  impl.is_armed = true;
  impl.is_direct = impl.is_alone && !impl.options.is_one_of_many && is_first && last && weight == 1;
}

void GradientReducer::end_backward() { impl_->is_armed = false; }
void GradientReducer::set_dropping(bool is_dropping) { impl_->is_dropping = is_dropping; }

StepFlags GradientReducer::finish(const StepFlags& flags, bool owned) {
  Impl& impl = *impl_;
  const torch::NoGradGuard no_grad;
  impl.begin_step();
  impl.is_armed = false;
  if (impl.is_direct) return flags;
  const auto begin = std::chrono::steady_clock::now();
  impl.control = {flags.pause, flags.not_finite, flags.user};
  for (Impl::Slot& slot : impl.slots) {
    if (!slot.is_filled) impl.complete(slot);
    impl.control.push_back(slot.is_touched ? 1 : 0);
  }
  const std::vector<double> sums = impl.active->finish(impl.control);
  const double* const used = sums.data() + kFlags;
  if (impl.sends_factors()) impl.exchange_right_factors(used, /*keep=*/sums[1] == 0);
  for (size_t i = 0; i < impl.slots.size(); ++i) {
    Impl::Slot& slot = impl.slots[i];
    if (used[i] == 0) {
      slot.parameter.mutable_grad().reset();
    } else if (slot.factors != nullptr && impl.sends_factors()) {
      slot.parameter.mutable_grad() = slot.own;
    } else if (slot.is_cast || (owned && !impl.active->has_stage(slot.bucket))) {
      Impl::make_own(slot);
      slot.own.copy_(slot.result);
      slot.parameter.mutable_grad() = slot.own;
    } else {
      slot.parameter.mutable_grad() = slot.result;
    }
  }
  ++impl.step;
  impl.communication_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {.pause = sums[0], .not_finite = sums[1], .user = sums[2]};
}

void GradientReducer::clear() {
  impl_->is_open = impl_->is_armed = impl_->is_direct = false;
  for (Channel* channel : {&impl_->whole, &impl_->left, &impl_->right}) channel->discard();
  for (Impl::Slot& slot : impl_->slots) {
    slot.parameter.mutable_grad().reset();
    if (slot.factors != nullptr) slot.factors->matrix.begin();
  }
}

double GradientReducer::take_communication_seconds() { return std::exchange(impl_->communication_seconds, 0.0); }

}  // namespace volador::train
