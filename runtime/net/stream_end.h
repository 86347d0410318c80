// What both ends of a call channel do with their stream: the handshake, frames in, the outbox out, and which events the
// loop watches for it. Private to the call channel.
//
//   connecting ─▶ handshake ─▶ open ─▶ down        from each state also straight to down
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "runtime/adaptive_mutex.h"
#include "runtime/net/frame_reader.h"
#include "runtime/net/io_loop.h"
#include "runtime/net/outbox.h"
#include "runtime/net/stream.h"

namespace volador::net {

// With more calls unanswered than this, the loop gathers what is to be sent into one write.
inline constexpr size_t kDirectCallsMax = 4;
// With as many, calls are held (held_writes.h).
inline constexpr size_t kHeldCallsMin = kDirectCallsMax + 1;

class StreamEnd : public Pollable, public std::enable_shared_from_this<StreamEnd> {
 public:
  void on_events(uint32_t events) final;  // Loop thread.
  static void write_held();               // See held_writes.h.

 protected:
  enum class State { kConnecting, kHandshake, kOpen, kDown };
  using Lock = std::unique_lock<AdaptiveMutex>;

  StreamEnd(IoLoop& loop, State first);

  // Loop thread. Watches the stream and shakes hands; state and stream are set.
  void begin();
  // Loop thread. Ends the connection, once; `why` is what the stream or the peer did.
  virtual void end(Error why) = 0;
  // Loop thread. Frames that came; false: no more of them for the moment. Its error ends the connection.
  virtual Result<bool> on_batch(FrameReader::Batch& batch) = 0;
  // Loop thread. See FrameDecoder::Rooms.
  virtual std::span<char> room(uint64_t /*request_id*/, size_t /*payload_bytes*/) { return {}; }
  virtual void on_connecting() {}  // Loop thread: the socket woke before there was a stream.

  // The mutex is held.
  virtual void on_open() {}
  virtual Outbox& outbox() = 0;
  virtual bool wants_input() const { return true; }
  // The peer has enough to do for a while without what is held.
  virtual bool peer_has_work() { return false; }
  // Writes what waits, without the mutex while the kernel copies: others add meanwhile, and the writing thread takes it
  // along. Nothing where another thread writes.
  void flush(Lock& lock);
  void flush_soon();
  // After something was put into the outbox. A lone call is written at once by its own thread; where more follows, it is held
  // (held_writes.h).
  void flush_as_fits(Lock& lock, size_t unanswered, bool more_follows);
  void unwatch();

  template <class Derived>
  std::shared_ptr<Derived> self_as() {
    return std::static_pointer_cast<Derived>(shared_from_this());
  }

  IoLoop& loop_;
  BootTime last_read_{};  // Loop thread; zero before the first byte.

  AdaptiveMutex mutex_;  // Guards what follows.
  State state_;
  std::unique_ptr<Stream> stream_;  // Set once; destroyed with the connection.
  uint32_t events_ = 0;             // What the loop watches.

 private:
  struct Held;

  void go_on_handshake();
  void read();
  void read_soon();
  void want();
  void hold();
  void flush_as_told(bool& told);  // `told`: what said that it would be, taken back under the mutex.
  bool is_held();

  FrameReader reader_;         // Loop thread.
  bool writing_ = false;       // A thread is in the stream's write().
  bool blocked_ = false;       // The socket takes no more at the moment.
  bool write_failed_ = false;  // What the peer sent before it closed is read first; then the connection ends.
  bool flush_posted_ = false;
  size_t holders_ = 0;       // Threads that left something, and will write it.
  bool held_timed_ = false;  // A timer will write what is held.
  const uint64_t serial_;    // In this process; never used again.
};

}  // namespace volador::net
