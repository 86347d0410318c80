// Trace of running and recent calls of this process's threads, for `volador stack` and `volador timeline`.
//
// Each thread writes its own ring without a lock; readers copy concurrently and discard overwritten events. Consecutive
// short calls of one method on one thread are merged into one event with a count, so that a ring of some thousand
// events covers more than a few milliseconds. Memory: the first kLargeRings threads store up to kLargeEvents events of
// 48 bytes (196 KB), further threads kChunk events (12 KB), allocated on demand. A thread that ends leaves its ring to
// the next one.
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

// Rings of all threads of the process. Thread safe.
class CallTrace {
 public:
  static constexpr size_t kChunk = 256;
  static constexpr size_t kLargeEvents = 4096;
  static constexpr size_t kLargeRings = 16;
  static constexpr std::chrono::microseconds kShort{20};  // Shorter calls this close together are merged.

  // Ring of one thread, written by that thread only.
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
    // Returns valid copies of the newest `most` events, oldest first.
    std::vector<Seen> read(size_t most, uint64_t& forgotten) const;
    std::optional<Seen> read_current() const;

    const size_t chunks_;
    std::array<std::atomic<Event*>, kLargeEvents / kChunk>
        events_{};  // Never freed: rings live as long as the process.
    std::atomic<uint64_t> written_{0};
    std::atomic<uint64_t> turn_{0};  // Odd: something is running, described by current_.
    Event current_;
    Seen last_;                   // The thread's own copy of the newest event.
    std::atomic<int> thread_{0};  // Owner thread; 0: none.
  };

  // The process's instance; created on first use.
  static CallTrace& instance();

  // Returns the ring of the calling thread.
  static Ring& ring() {
    if (own_ == nullptr) own_ = instance().claim();
    return *own_;
  }

  struct Running {
    std::string name;
    ActorId actor;
    std::chrono::nanoseconds span{};
  };
  // Returns what the thread of this id is running.
  std::optional<Running> running(int thread, BootTime now) const;
  // Returns the newest `most` events of each ring and the running calls; only those of `actor` unless it is nil.
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
