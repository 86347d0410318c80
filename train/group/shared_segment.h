// Memory that the processes of one node share without a name in a file system: an anonymous file of one process, opened
// by the others through /proc. It ends with the last process that has mapped it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "runtime/result.h"
#include "runtime/serialize/codec.h"

namespace volador::train {

// Names an anonymous file of a living process of this user on this node.
struct SegmentOffer {
  int32_t pid = 0;
  int32_t descriptor = -1;
};
VOLADOR_FIELDS(SegmentOffer, pid, descriptor);

// An empty anonymous file that others may map.
class SegmentFile {
 public:
  // kUnavailable: the kernel refused the file.
  static Result<SegmentFile> create();
  SegmentFile() = default;
  SegmentFile(SegmentFile&& other) noexcept;
  SegmentFile& operator=(SegmentFile&& other) noexcept;
  ~SegmentFile();
  SegmentOffer offer() const;

 private:
  int descriptor_ = -1;
};

// A mapping of the file, initially zero. All who map it give the same size.
class SharedSegment {
 public:
  // kUnavailable: the process is gone, or this user may not open its files; memory is short.
  static Result<SharedSegment> map(const SegmentOffer& offer, size_t bytes);
  SharedSegment() = default;
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;
  ~SharedSegment();
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A word by which processes wake one another. Lives in a SharedSegment; zero is its initial state.
class SharedBell {
 public:
  // Wakes all that wait. A store that a waiter tests must come before.
  void ring();
  // The value to give to wait(): taken before the condition is tested for the last time.
  uint32_t listen();
  // Returns after ring(), after `limit`, or early. Pairs with listen().
  void wait(uint32_t heard, std::chrono::nanoseconds limit);

 private:
  std::atomic<uint32_t> word_;
  std::atomic<uint32_t> sleepers_;
};

}  // namespace volador::train
