// Memory of what is made on one thread and ends on another, over and over: what calls are made of. A thread keeps some blocks, and passes
// them on by the dozen; malloc takes a lock for each that comes home from elsewhere.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <new>
#include <vector>

#include "runtime/adaptive_mutex.h"

namespace volador {

// Blocks of kBytes, aligned as operator new does it. Thread safe.
template <size_t kBytes>
class BlockPool {
 public:
  static void* take() {
    Local& local = of_thread();
    if (local.blocks.count == 0 && !refill(local.blocks)) return ::operator new(kBytes);
    return local.blocks.all[--local.blocks.count];
  }
  static void give(void* block) {
    Local& local = of_thread();
    if (gone_) return ::operator delete(block);
    if (local.blocks.count == kDozen) pass_on(local.blocks);
    local.blocks.all[local.blocks.count++] = block;
  }

 private:
  static constexpr size_t kDozen = 32;
  static constexpr size_t kDepotMax = 64;  // Dozens; more are given back to malloc.

  struct Blocks {
    size_t count = 0;
    std::array<void*, kDozen> all;
  };
  struct Local {
    Blocks blocks;
    ~Local() {
      gone_ = true;
      drop(blocks);
    }
  };
  // Full dozens.
  struct Depot {
    AdaptiveMutex mutex;
    std::vector<Blocks> dozens;
  };

  static Local& of_thread() {
    thread_local Local local;
    return local;
  }
  static Depot& depot() {
    static auto* depot = new Depot;  // Leaked: late threads may still come.
    return *depot;
  }
  static bool refill(Blocks& empty) {
    if (gone_) return false;
    Depot& all = depot();
    const std::lock_guard hold(all.mutex);
    if (all.dozens.empty()) return false;
    empty = all.dozens.back();
    all.dozens.pop_back();
    return true;
  }
  static void pass_on(Blocks& full) {
    Depot& all = depot();
    {
      const std::lock_guard hold(all.mutex);
      if (all.dozens.size() < kDepotMax) {
        all.dozens.push_back(full);
        full.count = 0;
        return;
      }
    }
    drop(full);
  }
  static void drop(Blocks& blocks) {
    while (blocks.count > 0) ::operator delete(blocks.all[--blocks.count]);
  }

  static inline thread_local bool gone_ = false;  // The thread ends.
};

// For std::allocate_shared.
template <class T>
struct PooledAllocator {
  using value_type = T;
  PooledAllocator() = default;
  template <class U>
  PooledAllocator(const PooledAllocator<U>&) {}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr bool kPooled = false;  // So that what is used after its end is found.
#else
  static constexpr bool kPooled = true;
#endif
  static constexpr size_t kBlock = (sizeof(T) + 63) / 64 * 64;
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

  T* allocate(size_t count) {
    return static_cast<T*>(kPooled && count == 1 ? BlockPool<kBlock>::take() : ::operator new(count * sizeof(T)));
  }
  void deallocate(T* memory, size_t count) {
    if (kPooled && count == 1) return BlockPool<kBlock>::give(memory);
    ::operator delete(memory);
  }
  template <class U>
  bool operator==(const PooledAllocator<U>&) const {
    return true;
  }
};

}  // namespace volador
