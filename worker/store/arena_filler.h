// Fills fresh memory of large copies by write(2), which avoids clearing the pages and page faults. Runs on its own
// thread, while the next chunk is decrypted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "runtime/net/io_loop.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::worker {

// Thread that writes chunks into arenas.
class ArenaFiller {
 public:
  explicit ArenaFiller(size_t chunk_bytes);
  ~ArenaFiller();
  ArenaFiller(const ArenaFiller&) = delete;
  ArenaFiller& operator=(const ArenaFiller&) = delete;

  // Returns a reusable buffer for one chunk.
  std::shared_ptr<char> buffer();
  // Releases idle buffers; those in use are released on return.
  void drop_buffers();
  // `done` runs on the filler's thread. kUnavailable: no memory or no thread.
  void write(std::shared_ptr<const net::UniqueFd> to, int64_t offset, std::span<const char> bytes,
             std::shared_ptr<const void> keep, std::function<void(Result<void>)> done);
  // Finishes queued writes. No write may follow.
  void close() { thread_.reset(); }

 private:
  struct Buffers;
  const std::shared_ptr<Buffers> buffers_;
  std::unique_ptr<net::IoLoop> thread_;  // Created on the first write.
};

}  // namespace volador::worker
