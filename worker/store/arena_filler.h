// Fresh memory of large copies is filled by write(2): the kernel then neither clears its pages first nor takes a fault for each of them. On a
// thread of its own, while the next chunk is decrypted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "runtime/net/io_loop.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::worker {

class ArenaFiller {
 public:
  explicit ArenaFiller(size_t chunk_bytes);
  ~ArenaFiller();
  ArenaFiller(const ArenaFiller&) = delete;
  ArenaFiller& operator=(const ArenaFiller&) = delete;

  // Memory for one chunk, which serves again for the next one.
  std::shared_ptr<char> buffer();
  // Nothing is to be filled for the moment: buffers go, those in use as soon as they are given back.
  void drop_buffers();
  // `done` on the filler's thread. kUnavailable: no memory, or no thread.
  void write(std::shared_ptr<const net::UniqueFd> to, int64_t offset, std::span<const char> bytes, std::shared_ptr<const void> keep, std::function<void(Result<void>)> done);
  // After what waits. Nothing may be written any more.
  void close() { thread_.reset(); }

 private:
  struct Buffers;
  const std::shared_ptr<Buffers> buffers_;
  std::unique_ptr<net::IoLoop> thread_;  // From the first write on.
};

}  // namespace volador::worker
