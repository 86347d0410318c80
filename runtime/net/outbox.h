// Bytes that wait to be written: small frames lie together, large bodies stay where they are.
// Pure. Positions count all bytes ever put in.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <span>
#include <string>

namespace volador::net {

class Outbox {
 public:
  // Where to append the next small frame; call added() when it is complete.
  std::string& tail();
  void added();
  // Appends a body after what tail() got; copied where it is small, else kept as it is.
  void add_body(std::string&& body);

  bool empty() const { return taken_ == added_; }
  size_t bytes() const { return static_cast<size_t>(added_ - taken_); }
  uint64_t added_position() const { return added_; }      // Of the next byte to come.
  uint64_t touched_position() const { return touched_; }  // Bytes before it may have reached the peer.

  // The waiting bytes in order; returns how many parts it filled. They stay where they are until consume(), whatever is
  // added meanwhile, and count as touched until then.
  size_t gather(std::span<iovec> parts);
  // Ends what gather() began: `taken` bytes were written, the first `touched` >= taken may have reached the peer.
  void consume(size_t taken, size_t touched);

 private:
  std::deque<std::string> chunks_;
  std::string spare_;        // Keeps the memory of a written chunk.
  size_t front_offset_ = 0;  // Bytes of the first chunk that were written.
  bool tail_open_ = false;   // The last chunk takes more small frames.
  size_t counted_ = 0;       // Bytes of the last chunk that added_ contains.
  uint64_t added_ = 0;
  uint64_t taken_ = 0;
  uint64_t touched_ = 0;
  uint64_t touched_before_ = 0;  // Before gather().
};

}  // namespace volador::net
