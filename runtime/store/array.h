// Immutable array of numbers, read in place in shared memory or in its own memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/serialize/codec.h"

namespace volador {

template <class T>
concept ArrayElement = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>;

// Value type: copies share the immutable memory. Aligned to 64 bytes if it came from the object store.
template <ArrayElement T>
class Array {
 public:
  Array() = default;
  explicit Array(std::vector<T> values) {
    const auto held = std::make_shared<const std::vector<T>>(std::move(values));
    view_ = {held->data(), held->size()};
    owner_ = held;
  }
  Array(std::span<const T> view, std::shared_ptr<const void> owner) : view_(view), owner_(std::move(owner)) {}

  std::span<const T> span() const { return view_; }
  const T* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  const T& operator[](size_t index) const { return view_[index]; }
  auto begin() const { return view_.begin(); }
  auto end() const { return view_.end(); }

 private:
  std::span<const T> view_;
  std::shared_ptr<const void> owner_;
};

// Sent by value as raw bytes: requires machines of the same byte order.
template <ArrayElement T>
void volador_encode(Encoder& encoder, const Array<T>& array) {
  encoder.binary({reinterpret_cast<const char*>(array.data()), array.size() * sizeof(T)});
}
template <ArrayElement T>
void volador_decode(Decoder& decoder, Array<T>& array) {
  const std::string_view bytes = decoder.binary();
  if (decoder.failed()) return;
  if (bytes.size() % sizeof(T) != 0) return decoder.fail("bytes of whole elements");
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  array = Array<T>(std::move(values));
}

}  // namespace volador
