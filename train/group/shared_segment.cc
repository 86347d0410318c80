#include "train/group/shared_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

namespace volador::train {

Result<SegmentFile> SegmentFile::create() {
  SegmentFile file;
  file.descriptor_ = ::memfd_create("volador-train", MFD_CLOEXEC);
  if (file.descriptor_ < 0) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("memory to share with the other ranks of this node: {}", std::strerror(errno)));
  }
  return file;
}

SegmentFile::SegmentFile(SegmentFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

SegmentFile& SegmentFile::operator=(SegmentFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

SegmentFile::~SegmentFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

SegmentOffer SegmentFile::offer() const { return {.pid = ::getpid(), .descriptor = descriptor_}; }

Result<SharedSegment> SharedSegment::map(const SegmentOffer& offer, size_t bytes) {
  const std::string path = fmt::format("/proc/{}/fd/{}", offer.pid, offer.descriptor);
  const auto failed = [&](const char* what) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("memory shared by the ranks of this node ({} bytes): {} {}: {}", bytes, what, path,
                                  std::strerror(errno)));
  };
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return failed("open");
  SharedSegment segment;
  struct stat found {};
  if (::fstat(descriptor, &found) != 0 ||
      (found.st_size < static_cast<off_t>(bytes) && ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0)) {
    auto error = failed("resize");
    ::close(descriptor);
    return error;
  }
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    auto error = failed("map");
    ::close(descriptor);
    return error;
  }
  ::close(descriptor);
  segment.data_ = static_cast<std::byte*>(mapped);
  segment.size_ = bytes;
  return segment;
}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

SharedSegment& SharedSegment::operator=(SharedSegment&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SharedSegment::~SharedSegment() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void SharedBell::ring() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_relaxed) == 0) return;
  word_.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &word_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

uint32_t SharedBell::listen() {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t heard = word_.load(std::memory_order_acquire);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return heard;
}

void SharedBell::wait(uint32_t heard, std::chrono::nanoseconds limit) {
  if (limit.count() > 0) {
    const timespec time{.tv_sec = limit.count() / 1'000'000'000, .tv_nsec = limit.count() % 1'000'000'000};
    ::syscall(SYS_futex, &word_, FUTEX_WAIT, heard, &time, nullptr, 0);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace volador::train
