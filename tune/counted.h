// Thread-safe reference-counted pointer: shared holders may read the value, a sole holder may change it.
// std::shared_ptr cannot reliably tell that a holder is the only one.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace volador::tune {

template <class T>
class Counted {
 public:
  Counted() = default;  // Null.
  static Counted of(T value) {
    Counted out;
    out.block_ = new Block{1, std::move(value)};
    return out;
  }
  Counted(const Counted& other) : block_(other.block_) {
    if (block_ != nullptr) block_->holders.fetch_add(1, std::memory_order_relaxed);
  }
  Counted(Counted&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Counted& operator=(Counted other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Counted() {
    if (block_ != nullptr && block_->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete block_;
  }

  explicit operator bool() const { return block_ != nullptr; }
  const T& operator*() const { return block_->value; }
  const T* operator->() const { return &block_->value; }
  bool is_alone() const { return block_->holders.load(std::memory_order_acquire) == 1; }
  // Returns the value for writing, first copying it if other holders exist. Must not be null.
  T& own() {
    if (!is_alone()) *this = of(block_->value);
    return block_->value;
  }
  bool operator==(const Counted& other) const { return block_ == other.block_; }

 private:
  struct Block {
    std::atomic<int64_t> holders;
    T value;
  };
  Block* block_ = nullptr;
};

}  // namespace volador::tune
