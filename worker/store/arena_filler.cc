#include "worker/store/arena_filler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace volador::worker {
namespace {

Result<void> write_all(int fd, int64_t offset, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("shared memory cannot be written: {}", std::strerror(errno)));
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return {};
}

}  // namespace

struct ArenaFiller::Buffers {
  const size_t bytes;
  std::mutex mutex;
  bool keeps = true;
  std::vector<std::unique_ptr<char[]>> unused = {};
};

ArenaFiller::ArenaFiller(size_t chunk_bytes) : buffers_(std::make_shared<Buffers>(chunk_bytes)) {}
ArenaFiller::~ArenaFiller() = default;

std::shared_ptr<char> ArenaFiller::buffer() {
  std::unique_ptr<char[]> memory;
  {
    const std::lock_guard lock(buffers_->mutex);
    buffers_->keeps = true;
    if (!buffers_->unused.empty()) {
      memory = std::move(buffers_->unused.back());
      buffers_->unused.pop_back();
    }
  }
  if (!memory) memory = std::make_unique_for_overwrite<char[]>(buffers_->bytes);
  return {memory.release(), [buffers = buffers_](char* done) {
            std::unique_ptr<char[]> buffer_again(done);
            const std::lock_guard lock(buffers->mutex);
            if (buffers->keeps) buffers->unused.push_back(std::move(buffer_again));
          }};
}

void ArenaFiller::drop_buffers() {
  const std::lock_guard lock(buffers_->mutex);
  buffers_->keeps = false;
  buffers_->unused.clear();
}

void ArenaFiller::write(std::shared_ptr<const net::UniqueFd> to, int64_t offset, std::span<const char> bytes,
                        std::shared_ptr<const void> keep, std::function<void(Result<void>)> done) {
  if (!thread_) {
    auto made = net::IoLoop::create("volador-fill");
    if (!made) return done(make_error(made.error()));
    thread_ = std::move(*made);
  }
  thread_->post([to = std::move(to), offset, bytes, keep = std::move(keep), done = std::move(done)] {
    done(write_all(to->get(), offset, bytes));
  });
}

}  // namespace volador::worker
