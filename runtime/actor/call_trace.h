// What the threads of this process run for actors, and ran lately: for `volador stack` and `volador timeline`.
//
// Each thread writes a ring of its own, without a lock; whoever looks reads beside it and leaves out what was
// overwritten meanwhile. Short calls of one method, one right after another on one thread, are one event with their
// number, so that a ring of some thousand events goes back further than some milliseconds. Memory: the first
// kLargeRings threads keep up to kLargeEvents events of 48 bytes (196 KB), further ones kChunk (12 KB), made as they
// fill; a thread that ends leaves its ring to the next one.
//
// Include from .cc files only: it brings protobuf.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"

namespace volador {

class CallTrace {
 public:
  static constexpr size_t kChunk = 256;
  static constexpr size_t kLargeEvents = 4096;
  static constexpr size_t kLargeRings = 16;
  static constexpr std::chrono::microseconds kShort{20};  // A shorter call, so soon after the one before it, joins it.

  // Of one thread. Written by that thread alone.
  class Ring {
   public:
    explicit Ring(size_t chunks) : chunks_(chunks) {}

    // `name` lives as long as the process.
    void begin(const std::string* name, const ActorId& actor, BootTime now);
    void end(BootTime now, bool failed);

   private:
    friend class CallTrace;
    struct Event {
      std::atomic<const std::string*> name{nullptr};
      std::atomic<uint64_t> actor[2]{};
      std::atomic<int64_t> start_ns{0};
      std::atomic<int64_t> span_ns{0};
      std::atomic<uint32_t> calls{0};
      std::atomic<bool> failed{false};
    };
    struct Seen {  // A copy.
      const std::string* name = nullptr;
      uint64_t actor[2]{};
      int64_t start_ns = 0, span_ns = 0;
      uint32_t calls = 0;
      bool failed = false;
    };
    static Seen copy(const Event& event);
    static void write(Event& event, const Seen& what);
    Event& at(uint64_t number);
    // Copies that are whole, oldest first; at most `most`, the newest.
    std::vector<Seen> read(size_t most, uint64_t& forgotten) const;
    std::optional<Seen> read_current() const;

    const size_t chunks_;
    std::array<std::atomic<Event*>, kLargeEvents / kChunk>
        events_{};  // Never freed: rings live as long as the process.
    std::atomic<uint64_t> written_{0};
    std::atomic<uint64_t> turn_{0};  // Odd: something runs, current_ says what.
    Event current_;
    Seen last_;                   // The thread's own copy of the newest event.
    std::atomic<int> thread_{0};  // Whose it is; 0: nobody's now.
  };

  // The process's own; made at first use.
  static CallTrace& instance();

  // Of the calling thread.
  static Ring& ring() {
    if (own_ == nullptr) own_ = instance().claim();
    return *own_;
  }

  struct Running {
    std::string name;
    ActorId actor;
    std::chrono::nanoseconds span{};
  };
  // What the thread of this id runs now.
  std::optional<Running> running(int thread, BootTime now) const;
  // The newest `most` events of each ring, and what runs now; only of this actor, where it is not nil.
  // `unix_ns_of_boot`: Unix time at boot time 0.
  protocol::HostTimeline snapshot(const ActorId& actor, size_t most, BootTime now, int64_t unix_ns_of_boot) const;

 private:
  struct Claim;
  Ring* claim();
  void give_back(Ring* ring);

  static inline thread_local Ring* own_ = nullptr;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<Ring*> free_;
};

}  // namespace volador
