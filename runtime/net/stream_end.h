// Common part of both ends of a call channel: handshake, frames in, outbox out, and the events watched by the loop.
// Private to the call channel.
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

// With more unanswered calls than this, the loop combines pending data into one write.
inline constexpr size_t kDirectCallsMax = 4;
// From this number on, calls are held (held_writes.h).
inline constexpr size_t kHeldCallsMin = kDirectCallsMax + 1;

// Base class of both ends of a call channel.
class StreamEnd : public Pollable, public std::enable_shared_from_this<StreamEnd> {
 public:
  void on_events(uint32_t events) final;  // Loop thread.
  static void write_held();               // See held_writes.h.

 protected:
  enum class State { kConnecting, kHandshake, kOpen, kDown };
  using Lock = std::unique_lock<AdaptiveMutex>;

  StreamEnd(IoLoop& loop, State first);

  // Loop thread. Watches the stream and starts the handshake; state and stream are set.
  void begin();
  // Loop thread. Ends the connection, once; `why` is the cause.
  virtual void end(Error why) = 0;
  // Loop thread. Handles received frames; false: pause reading. An error ends the connection.
  virtual Result<bool> on_batch(FrameReader::Batch& batch) = 0;
  // Loop thread. See FrameDecoder::Rooms.
  virtual std::span<char> room(uint64_t /*request_id*/, size_t /*payload_bytes*/) { return {}; }
  virtual void on_connecting() {}  // Loop thread: the socket woke up before there was a stream.

  // Called with the mutex held.
  virtual void on_open() {}
  virtual Outbox& outbox() = 0;
  virtual bool wants_input() const { return true; }
  // Whether the peer is busy for a while without the held data.
  virtual bool peer_has_work() { return false; }
  // Writes pending data, without the mutex during the system call: data added meanwhile is written by the same thread.
  // No effect while another thread writes.
  void flush(Lock& lock);
  void flush_soon();
  // Call after adding to the outbox. A single call is written at once by its own thread; if more follow, it is held
  // (held_writes.h).
  void flush_as_fits(Lock& lock, size_t unanswered, bool more_follows);
  void unwatch();

  template <class Derived>
  std::shared_ptr<Derived> self_as() {
    return std::static_pointer_cast<Derived>(shared_from_this());
  }

  IoLoop& loop_;
  BootTime last_read_{};  // Loop thread; zero before the first byte.

  AdaptiveMutex mutex_;  // Guards the members below.
  State state_;
  std::unique_ptr<Stream> stream_;  // Set once; destroyed with the connection.
  uint32_t events_ = 0;             // Events watched by the loop.

 private:
  struct Held;

  void go_on_handshake();
  void read();
  void read_soon();
  void want();
  void hold();
  void flush_as_told(bool& told);  // `told`: the flag that announced this flush; reset with the mutex held.
  bool is_held();

  FrameReader reader_;         // Loop thread.
  bool writing_ = false;       // A thread is inside the stream's write().
  bool blocked_ = false;       // The socket is full.
  bool write_failed_ = false;  // Data that the peer sent before closing is read first; then the connection ends.
  bool flush_posted_ = false;
  size_t holders_ = 0;       // Number of threads that hold data and will write it.
  bool held_timed_ = false;  // A timer will write the held data.
  const uint64_t serial_;    // Unique in this process.
};

}  // namespace volador::net
