#include "train/operator/sharded_optimizer.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "train/group/group.h"
#include "train/optim/state_dict.h"
#include "tune/refusal.h"

namespace volador::train {
namespace {

using c10::IValue;
using c10::impl::GenericDict;
using torch::Tensor;

constexpr int64_t kDirectBytes = 1 << 20;  // Parameters of at least this size are sent without a copy.
constexpr int64_t kPieceBytes = 16 << 20;  // Bytes of a state that are sent at once.
constexpr int64_t kPlaceAlignment = 16;    // Those of parameters that are sent together.

GenericDict new_dictionary() { return GenericDict(c10::AnyType::get(), c10::AnyType::get()); }

IValue states_of(const IValue& state) { return state.toGenericDict().at("state"); }

// Copy of an optimizer_state() with other states of the parameters.
IValue with_states(const IValue& state, const IValue& states) {
  GenericDict copy = new_dictionary();
  for (const auto& entry : state.toGenericDict())
    copy.insert(entry.key(), entry.key().isString() && entry.key().toStringRef() == "state" ? states : entry.value());
  return copy;
}

int64_t aligned_size(const Tensor& tensor) {
  return (static_cast<int64_t>(tensor.nbytes()) + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
}

void add_tensors(const IValue& value, std::map<const void*, int64_t>& bytes) {
  if (value.isTensor() && value.toTensor().defined()) {
    bytes.emplace(value.toTensor().storage().data(), static_cast<int64_t>(value.toTensor().nbytes()));
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) add_tensors(entry.value(), bytes);
  } else if (value.isList()) {
    for (const IValue& element : value.toList().vec()) add_tensors(element, bytes);
  } else if (value.isTuple()) {
    for (const IValue& element : value.toTupleRef().elements()) add_tensors(element, bytes);
  }
}

// The tensor's place in a flat tensor of bytes.
Tensor view_as(const Tensor& bytes, int64_t offset, const Tensor& tensor) {
  return bytes.narrow(0, offset, static_cast<int64_t>(tensor.nbytes())).view(tensor.scalar_type()).view(tensor.sizes());
}

}  // namespace

std::vector<int> owners_of(const std::vector<int64_t>& bytes, int world) {
  std::vector<size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  std::vector<int64_t> sums(static_cast<size_t>(world));
  std::vector<int> owners(bytes.size());
  for (const size_t parameter : order) {
    const auto least = std::min_element(sums.begin(), sums.end());
    *least += bytes[parameter];
    owners[parameter] = static_cast<int>(least - sums.begin());
  }
  return owners;
}

int64_t tensor_bytes(const IValue& value) {
  std::map<const void*, int64_t> bytes;  // By storage.
  add_tensors(value, bytes);
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0},
                         [](int64_t sum, const auto& entry) { return sum + entry.second; });
}

ShardedOptimizer::ShardedOptimizer(std::shared_ptr<torch::optim::Optimizer> optimizer)
    : optimizer_(std::move(optimizer)) {
  for (const auto& group : optimizer_->param_groups())
    parameters_.insert(parameters_.end(), group.params().begin(), group.params().end());
  owners_.resize(parameters_.size());
  const IValue state = optimizer_state(*optimizer_);
  if (state.toGenericDict().contains("state")) return;
  tune::throw_refusal(fmt::format(
      "register_optimizer(): {} cannot be sharded, since its state is not kept for each parameter; take SGD, "
      "Adam, AdamW, Adagrad, RMSprop, Adadelta, Adamax, NAdam or RAdam, or leave out shard",
      state.toGenericDict().at("optimizer").toStringRef()));
}

void ShardedOptimizer::form(int rank, int world) {
  if (whole_.isNone() && is_partial_ && (rank != rank_ || world != world_)) {
    tune::throw_refusal(fmt::format(
        "rank {} of {} has the state of its share of a sharded optimizer only, which rank {} of {} cannot go "
        "on with: load() a whole state before form()",
        rank_, world_, rank, world));
  }
  rank_ = rank;
  world_ = world;
  std::vector<int64_t> bytes;
  for (const Tensor& parameter : parameters_)
    bytes.push_back(parameter.requires_grad() ? static_cast<int64_t>(parameter.nbytes()) : 0);
  owners_ = owners_of(bytes, world);
  if (whole_.isNone()) {
    if (is_partial_ || world == 1) return;
    // Complete, as before the first step; some optimizers make state in their constructor.
    whole_ = from_bytes(to_bytes(states_of(optimizer_state(*optimizer_))));
  }
  load_optimizer_state(*optimizer_, part_of(with_states(optimizer_state(*optimizer_), whole_), rank_));
  is_partial_ = world_ > 1 && !whole_.toGenericDict().empty();
  if (world_ == 1) whole_ = {};
}

void ShardedOptimizer::take_own_gradients() {
  whole_ = {};
  is_partial_ = world_ > 1;
  changed_.clear();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Tensor& gradient = parameters_[i].mutable_grad();
    if (!gradient.defined()) continue;
    changed_.push_back(i);
    if (owners_[i] != rank_) gradient.reset();
  }
}

void ShardedOptimizer::send_parameters(Group& group) {
  if (world_ == 1) return;
  const torch::NoGradGuard no_grad;
  for (int owner = 0; owner < world_; ++owner) {
    std::vector<Tensor> together;
    int64_t size = 0;
    for (const size_t i : changed_) {
      if (owners_[i] != owner) continue;
      const Tensor parameter = parameters_[i].detach();
      if (parameter.is_contiguous() && static_cast<int64_t>(parameter.nbytes()) >= kDirectBytes) {
        group.broadcast(parameter.view({-1}).view(torch::kByte), owner);
      } else {
        size += aligned_size(parameter);
        together.push_back(parameter);
      }
    }
    if (size == 0) continue;
    const Tensor bytes = torch::empty({size}, torch::TensorOptions(torch::kByte).device(together.front().device()));
    const auto copy = [&](bool out) {
      int64_t offset = 0;
      for (Tensor& parameter : together) {
        Tensor place = view_as(bytes, offset, parameter);
        out ? place.copy_(parameter) : parameter.copy_(place);
        offset += aligned_size(parameter);
      }
    };
    if (owner == rank_) copy(true);
    group.broadcast(bytes, owner);
    if (owner != rank_) copy(false);
  }
}

void ShardedOptimizer::gather(Group& group) {
  if (world_ == 1) return;
  Tensor wanted = torch::full({1}, has_whole_state() || rank_ != 0 ? 0 : 1, torch::kInt);
  group.broadcast(wanted, 0);
  if (wanted.item<int>() == 0) return;
  const IValue own = states_of(optimizer_state(*optimizer_));
  std::map<int64_t, IValue> states;  // By parameter.
  const auto add = [&](const IValue& some) {
    for (const auto& entry : some.toGenericDict()) states.emplace(entry.key().toInt(), entry.value());
  };
  if (rank_ == 0) add(own);
  for (int owner = 1; owner < world_; ++owner) {
    std::string bytes;
    if (owner == rank_) bytes = to_bytes(own);
    Tensor length = torch::full({1}, static_cast<int64_t>(bytes.size()), torch::kLong);
    group.broadcast(length, owner);
    const auto size = length.item<int64_t>();
    if (rank_ == 0) bytes.resize(static_cast<size_t>(size));
    Tensor unused;
    for (int64_t at = 0; at < size; at += kPieceBytes) {
      const int64_t count = std::min(kPieceBytes, size - at);
      if (bytes.empty()) {
        if (!unused.defined()) unused = torch::empty({count}, torch::kByte);
        group.broadcast(unused.narrow(0, 0, count), owner);
      } else {
        group.broadcast(torch::from_blob(bytes.data() + at, {count}, torch::kByte), owner);
      }
    }
    if (rank_ == 0) add(from_bytes(bytes));
  }
  if (rank_ != 0) return;
  GenericDict whole = new_dictionary();
  for (const auto& [parameter, state] : states) whole.insert(parameter, state);
  whole_ = whole;
}

bool ShardedOptimizer::has_whole_state() const { return !is_partial_ || !whole_.isNone(); }

IValue ShardedOptimizer::state() const {
  if (!has_whole_state()) {
    tune::throw_refusal(
        fmt::format("rank {} of {} has the state of its share of a sharded optimizer only: ask rank 0 after a segment "
                    "with gathers_state",
                    rank_, world_));
  }
  const IValue state = optimizer_state(*optimizer_);
  return whole_.isNone() ? state : with_states(state, whole_);
}

void ShardedOptimizer::load(const IValue& state) {
  if (!state.isGenericDict() || !state.toGenericDict().contains("state") || !states_of(state).isGenericDict()) {
    load_optimizer_state(*optimizer_, state);  // Refuses it.
    return;
  }
  // Every rank checks every share, one after another: no rank needs memory for all of them, and all refuse alike.
  const IValue old = optimizer_state(*optimizer_);
  try {
    for (int owner = 0; owner < world_; ++owner) {
      if (owner != rank_) load_optimizer_state(*optimizer_, part_of(state, owner));
    }
    load_optimizer_state(*optimizer_, part_of(state, rank_));
  } catch (...) {
    load_optimizer_state(*optimizer_, old);
    throw;
  }
  whole_ = states_of(state);
  is_partial_ = world_ > 1 && !whole_.toGenericDict().empty();
}

int64_t ShardedOptimizer::state_bytes() const {
  return tensor_bytes(c10::ivalue::Tuple::create(optimizer_state(*optimizer_), whole_));
}

// The optimizer_state() with the states of one rank's parameters only.
IValue ShardedOptimizer::part_of(const IValue& state, int owner) const {
  GenericDict part = new_dictionary();
  for (const auto& entry : states_of(state).toGenericDict()) {
    const int64_t parameter = entry.key().isInt() ? entry.key().toInt() : -1;
    const bool is_known = parameter >= 0 && parameter < static_cast<int64_t>(owners_.size());
    if (!is_known || owners_[static_cast<size_t>(parameter)] == owner) part.insert(entry.key(), entry.value());
  }
  return with_states(state, part);
}

}  // namespace volador::train
