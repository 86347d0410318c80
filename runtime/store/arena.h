// Shared memory of one writer and many readers: a memfd that, once its writer has mapped it, nobody can shrink, grow or map for
// writing any more.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador {

// A mapping; unmapped with the object. What points into it keeps it by shared_ptr.
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

struct Arena {
  net::UniqueFd fd;
  std::shared_ptr<Mapping> mapping;  // For reading and writing.
};

// kUnavailable: no descriptor or memory. Pages come into being when they are first written.
[[nodiscard]] Result<Arena> make_arena(size_t bytes);
// One that can be written by its descriptor as well until it is sealed. Only then may anybody else get the descriptor.
[[nodiscard]] Result<Arena> make_open_arena(size_t bytes);
[[nodiscard]] Result<void> seal_arena(int fd);
// For reading. kInvalidArgument: the descriptor is no memfd of this size that is sealed as make_arena does; kUnavailable: no memory.
[[nodiscard]] Result<std::shared_ptr<Mapping>> map_arena(int fd, size_t bytes);

}  // namespace volador
