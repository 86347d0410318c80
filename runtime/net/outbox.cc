#include "runtime/net/outbox.h"

#include <algorithm>
#include <utility>

#include "runtime/result.h"

namespace volador::net {
namespace {

constexpr size_t kChunkBytes = size_t{64} << 10;    // Larger chunks take no further frames.
constexpr size_t kCopyBytesMax = size_t{16} << 10;  // Larger bodies are not copied.

}  // namespace

std::string& Outbox::tail() {
  if (!tail_open_ || chunks_.back().size() >= kChunkBytes) {
    chunks_.push_back(std::exchange(spare_, {}));
    tail_open_ = true;
    counted_ = 0;
  }
  return chunks_.back();
}

void Outbox::added() {
  added_ += chunks_.back().size() - counted_;
  counted_ = chunks_.back().size();
}

void Outbox::add_body(std::string&& body) {
  if (body.size() <= kCopyBytesMax) {
    chunks_.back() += body;
    added();
    return;
  }
  added();
  added_ += body.size();
  chunks_.push_back(std::move(body));
  tail_open_ = false;
}

size_t Outbox::gather(std::span<iovec> parts) {
  tail_open_ = false;  // Its memory must not move.
  touched_before_ = touched_;
  uint64_t end = taken_;
  size_t count = 0;
  size_t offset = front_offset_;
  for (const std::string& chunk : chunks_) {
    if (count == parts.size()) break;
    if (chunk.size() > offset) {
      parts[count++] = {const_cast<char*>(chunk.data()) + offset, chunk.size() - offset};
      end += chunk.size() - offset;
    }
    offset = 0;
  }
  touched_ = std::max(touched_, end);
  return count;
}

void Outbox::consume(size_t taken, size_t touched) {
  VOLADOR_CHECK(taken <= bytes() && touched <= bytes() && taken <= touched, "outbox: more taken than waited");
  touched_ = touched_before_ = std::max(touched_before_, taken_ + touched);
  taken_ += taken;
  size_t left = taken;
  while (!chunks_.empty()) {
    const size_t rest = chunks_.front().size() - front_offset_;
    if (left < rest) {
      front_offset_ += left;
      return;
    }
    left -= rest;
    front_offset_ = 0;
    std::string done = std::move(chunks_.front());
    chunks_.pop_front();
    if (chunks_.empty()) tail_open_ = false;
    if (done.capacity() <= 2 * kChunkBytes && done.capacity() > spare_.capacity()) {
      done.clear();
      spare_ = std::move(done);
    }
  }
}

}  // namespace volador::net
