#include "train/operator/state_copy.h"

#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/result.h"

namespace volador::train {
namespace {

constexpr size_t kPieceOfCopyBytes = 4 << 20;

}  // namespace

StateCopy::StateCopy(c10::IValue value, std::vector<at::Tensor> parameters,
                     std::shared_ptr<std::atomic<bool>> changes_early)
    : value_(std::move(value)), parameters_(std::move(parameters)), changes_early_(std::move(changes_early)) {
  for (const at::Tensor& parameter : parameters_) versions_.push_back(parameter._version());
  // The layout needs tensors on the CPU. Those of a GPU were copied there, and come to the CPU in write().
  if (!parameters_.empty()) packed();
}

PackedState& StateCopy::packed() {
  if (packed_) return *packed_;
  packed_.emplace(std::exchange(value_, {}));
  for (const auto& [data, offset] : packed_->places()) {
    for (size_t at = 0; at < data.size(); at += kPieceOfCopyBytes)
      pieces_.push_back({data.substr(at, kPieceOfCopyBytes), offset + at});
  }
  return *packed_;
}

size_t StateCopy::size() { return packed().size(); }

void StateCopy::write(std::span<char> out) {
  begin(out);
  while (copy_piece()) {
  }
  end();
}

void StateCopy::begin(std::span<char> out) {
  packed();
  const std::lock_guard<std::mutex> hold(mutex_);
  out_ = out;
  if (own_ == nullptr) memory_ = out.data();
}

bool StateCopy::copy_piece() {
  const size_t taken = taken_.fetch_add(1);
  if (taken >= pieces_.size()) return false;
  const auto& [data, offset] = pieces_[taken];
  std::memcpy(memory_.load() + offset, data.data(), data.size());
  const std::lock_guard<std::mutex> hold(mutex_);
  if (++done_ < pieces_.size()) return true;
  for (size_t i = 0; i < parameters_.size(); ++i) is_damaged_ |= parameters_[i]._version() != versions_[i];
  if (is_damaged_) *changes_early_ = true;
  all_done_.notify_all();
  return true;
}

void StateCopy::end() {
  wait_for_pieces();
  const std::lock_guard<std::mutex> hold(mutex_);
  if (is_damaged_) {
    throw Exception(Error{ErrorCode::kApplication,
                          "the state was not copied: a parameter of an optimizer was changed in a batch before the "
                          "first step() of it; change parameters after step(). Later copies of this run are taken "
                          "between two steps, which takes longer"});
  }
  if (own_ != nullptr) {
    for (const auto& [data, offset] : pieces_) std::memcpy(out_.data() + offset, own_.get() + offset, data.size());
  }
  packed().write_around(out_);
}

void StateCopy::finish() {
  if (parameters_.empty()) return;
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    if (memory_ == nullptr) {
      own_ = std::make_unique_for_overwrite<char[]>(packed().size());
      memory_ = own_.get();
    }
  }
  while (copy_piece()) {
  }
  wait_for_pieces();
}

void StateCopy::wait_for_pieces() {
  std::unique_lock<std::mutex> hold(mutex_);
  all_done_.wait(hold, [this] { return done_ == pieces_.size(); });
}

}  // namespace volador::train
