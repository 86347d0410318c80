// Memory pool for objects that are created on one thread and destroyed on another, such as calls. Each thread caches
// some blocks and exchanges them in batches; malloc would take a lock for each block freed by another thread.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <new>
#include <vector>

#include "runtime/adaptive_mutex.h"

namespace volador {

// Blocks of kBytes with the alignment of operator new. Thread safe.
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
  static constexpr size_t kDepotMax = 64;  // Batches; further ones are freed.

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
  // Full batches.
  struct Depot {
    AdaptiveMutex mutex;
    std::vector<Blocks> dozens;
  };

  static Local& of_thread() {
    thread_local Local local;
    return local;
  }
  static Depot& depot() {
    static auto* depot = new Depot;  // Leaked: threads may use it during process exit.
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

  static inline thread_local bool gone_ = false;  // The thread is ending.
};

// Allocator for std::allocate_shared that uses a BlockPool.
template <class T>
struct PooledAllocator {
  using value_type = T;
  PooledAllocator() = default;
  template <class U>
  PooledAllocator(const PooledAllocator<U>&) {}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr bool kPooled = false;  // Lets the sanitizers find uses after free.
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
