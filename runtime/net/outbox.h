// Queue of bytes to write: small frames are merged into chunks, large bodies are kept without a copy. Pure. Positions
// count all bytes ever added.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <span>
#include <string>

namespace volador::net {

// Byte queue of one connection. Not thread safe.
class Outbox {
 public:
  // Returns the buffer to which to append the next small frame; call added() when it is complete.
  std::string& tail();
  void added();
  // Appends a body after the bytes added through tail(); small bodies are copied.
  void add_body(std::string&& body);

  bool empty() const { return taken_ == added_; }
  size_t bytes() const { return static_cast<size_t>(added_ - taken_); }
  uint64_t added_position() const { return added_; }      // Position of the next byte to be added.
  uint64_t touched_position() const { return touched_; }  // Earlier bytes may have reached the peer.

  // Fills `parts` with the queued bytes in order; returns their number. The bytes stay in place until consume(), even
  // if more are added, and count as touched until then.
  size_t gather(std::span<iovec> parts);
  // Completes gather(): `taken` bytes were written, the first `touched` >= taken may have reached the peer.
  void consume(size_t taken, size_t touched);

 private:
  std::deque<std::string> chunks_;
  std::string spare_;        // Reuses the memory of a written chunk.
  size_t front_offset_ = 0;  // Written bytes of the first chunk.
  bool tail_open_ = false;   // The last chunk accepts more small frames.
  size_t counted_ = 0;       // Bytes of the last chunk included in added_.
  uint64_t added_ = 0;
  uint64_t taken_ = 0;
  uint64_t touched_ = 0;
  uint64_t touched_before_ = 0;  // Value before gather().
};

}  // namespace volador::net
