#include "worker/hosts/lease_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace volador::worker {

namespace {
constexpr size_t kPageBytes = 4096;
static_assert(sizeof(LeasePage) <= kPageBytes);
}  // namespace

Result<LeaseMemory> LeaseMemory::create() {
  const auto failed = [](const char* what) {
    return make_error(ErrorCode::kUnavailable, fmt::format("lease page: {}: {}", what, std::strerror(errno)));
  };
  net::UniqueFd fd(::memfd_create("volador-lease", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return failed("memfd_create");
  if (::ftruncate(fd.get(), kPageBytes) != 0) return failed("ftruncate");
  void* memory = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return failed("mmap");
  auto* page = ::new (memory) LeasePage{LeasePage::kMagic, 0};
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    ::munmap(memory, kPageBytes);
    return failed("F_ADD_SEALS");
  }
  return LeaseMemory(std::move(fd), page);
}

LeaseMemory::LeaseMemory(LeaseMemory&& other) noexcept
    : fd_(std::move(other.fd_)), page_(std::exchange(other.page_, nullptr)) {}

LeaseMemory::~LeaseMemory() {
  if (page_ != nullptr) ::munmap(page_, kPageBytes);
}

void LeaseMemory::set_deadline(BootTime deadline) {
  page_->deadline_boot_ns.store(deadline.time_since_epoch().count(), std::memory_order_release);
}

BootTime LeaseMemory::deadline() const {
  return BootTime(std::chrono::nanoseconds(page_->deadline_boot_ns.load(std::memory_order_acquire)));
}

}  // namespace volador::worker
