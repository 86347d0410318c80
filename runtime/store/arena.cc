#include "runtime/store/arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/quantities.h"

namespace volador {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

Error failure(const char* what, size_t bytes) {
  return {ErrorCode::kUnavailable,
          fmt::format("shared memory of {}: {}: {}", counted(bytes, "byte"), what, std::strerror(errno))};
}

}  // namespace

Mapping::~Mapping() { ::munmap(data_, bytes_); }

Result<Arena> make_arena(size_t bytes) {
  auto arena = make_open_arena(bytes);
  if (arena) VOLADOR_TRY(seal_arena(arena->fd.get()));
  return arena;
}

Result<void> seal_arena(int fd) {
  if (::fcntl(fd, F_ADD_SEALS, kSeals) == 0) return {};
  return make_error(ErrorCode::kUnavailable, fmt::format("shared memory: sealing: {}", std::strerror(errno)));
}

Result<Arena> make_open_arena(size_t bytes) {
  Arena arena;
  arena.fd.reset(::memfd_create("volador-objects", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!arena.fd) return make_error(failure("memfd_create", bytes));
  if (::ftruncate(arena.fd.get(), static_cast<off_t>(bytes)) != 0) return make_error(failure("ftruncate", bytes));
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena.fd.get(), 0);
  if (data == MAP_FAILED) return make_error(failure("mmap", bytes));
  arena.mapping = std::make_shared<Mapping>(data, bytes);
  return arena;
}

Result<std::shared_ptr<Mapping>> map_arena(int fd, size_t bytes) {
  struct stat info {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (bytes == 0 || seals < 0 || (seals & kSeals) != kSeals || ::fstat(fd, &info) != 0 ||
      static_cast<uint64_t>(info.st_size) != bytes) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("arena: expected a sealed memfd of {} bytes", bytes));
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return make_error(failure("mmap", bytes));
  return std::make_shared<Mapping>(data, bytes);
}

}  // namespace volador
