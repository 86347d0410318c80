// Shared memory with one writer and many readers: a memfd that is sealed against shrinking, growing and new writable
// mappings once its writer has mapped it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador {

// A mapping; unmapped on destruction. Users of its memory hold a shared_ptr.
class Mapping {
 public:
  Mapping(void* data, size_t bytes) : data_(static_cast<std::byte*>(data)), bytes_(bytes) {}
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  std::span<const std::byte> view() const { return {data_, bytes_}; }

 private:
  std::byte* const data_;
  const size_t bytes_;
};

// A memfd and its mapping.
struct Arena {
  net::UniqueFd fd;
  std::shared_ptr<Mapping> mapping;  // Readable and writable.
};

// kUnavailable: no descriptor or memory. Pages are allocated on their first write.
[[nodiscard]] Result<Arena> make_arena(size_t bytes);
// Creates an arena that is also writable through its descriptor until seal_arena(). Share the descriptor only after
// that.
[[nodiscard]] Result<Arena> make_open_arena(size_t bytes);
[[nodiscard]] Result<void> seal_arena(int fd);
// Maps an arena read-only. kInvalidArgument: the descriptor is not a memfd of this size with make_arena's seals;
// kUnavailable: no memory.
[[nodiscard]] Result<std::shared_ptr<Mapping>> map_arena(int fd, size_t bytes);

}  // namespace volador
