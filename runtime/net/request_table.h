// Hash table keyed by request id: open addressing, no allocation per request. References and pointers to values are
// valid until the next insert or erase.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace volador::net {

// Open-addressing hash table. Not thread safe.
template <class T>
class RequestTable {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  T* find(uint64_t key) {
    if (slots_.empty()) return nullptr;
    for (size_t i = home(key); used_[i]; i = next(i)) {
      if (slots_[i].key == key) return &slots_[i].value;
    }
    return nullptr;
  }

  // Returns a new value; null if the key exists.
  T* insert(uint64_t key) {
    if (4 * (size_ + 1) > 3 * slots_.size()) grow();
    size_t i = home(key);
    for (; used_[i]; i = next(i)) {
      if (slots_[i].key == key) return nullptr;
    }
    ++size_;
    slots_[i].key = key;
    used_[i] = true;
    return &slots_[i].value;
  }

  // Erases a value returned by find(). Later entries move up, so that no tombstones are needed.
  void erase(T* value) {
    size_t hole =
        static_cast<size_t>((reinterpret_cast<std::byte*>(value) - reinterpret_cast<std::byte*>(&slots_[0].value)) /
                            static_cast<std::ptrdiff_t>(sizeof(Slot)));
    for (size_t i = next(hole); used_[i]; i = next(i)) {
      const size_t distance = (i - home(slots_[i].key)) & (slots_.size() - 1);
      if (distance < ((i - hole) & (slots_.size() - 1))) continue;  // Stands between its home slot and the hole's end.
      slots_[hole].key = slots_[i].key;
      slots_[hole].value = std::move(slots_[i].value);
      hole = i;
    }
    used_[hole] = false;
    slots_[hole].value = T{};
    --size_;
  }

  template <class Function>
  void for_each(Function&& function) {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (used_[i]) function(slots_[i].key, slots_[i].value);
    }
  }

  void clear() {
    slots_.clear();
    used_.clear();
    size_ = 0;
  }

 private:
  struct Content {
    uint64_t key = 0;
    T value{};
  };
  // Inserting and erasing threads differ: a slot of cache line size is aligned to one.
  struct alignas(sizeof(Content) == 64 ? 64 : alignof(Content)) Slot : Content {};

  size_t next(size_t i) const { return (i + 1) & (slots_.size() - 1); }
  // Eight consecutive ids are adjacent, so that increasing ids access memory sequentially; the groups are spread by
  // Fibonacci hashing with the product's high half, as are multiples of a power of two.
  size_t home(uint64_t key) const {
    return ((((key >> 3) * 0x9e3779b97f4a7c15ULL) >> 32 << 3) | (key & 7)) & (slots_.size() - 1);
  }

  void place(uint64_t key, T value) {
    size_t i = home(key);
    while (used_[i]) i = next(i);
    slots_[i].key = key;
    used_[i] = true;
    slots_[i].value = std::move(value);
  }

  void grow() {
    std::vector<Slot> old = std::move(slots_);
    const std::vector<uint8_t> old_used = std::move(used_);
    slots_ = std::vector<Slot>(old.empty() ? 16 : 2 * old.size());
    used_.assign(slots_.size(), false);
    for (size_t i = 0; i < old.size(); ++i) {
      if (old_used[i]) place(old[i].key, std::move(old[i].value));
    }
  }

  std::vector<Slot> slots_;    // Size is a power of two.
  std::vector<uint8_t> used_;  // Whether the slot at this index is occupied.
  size_t size_ = 0;
};

}  // namespace volador::net
