#include "runtime/actor/call_trace.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>

#include "runtime/stacks/thread_names.h"

namespace volador {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

int64_t ns_of(BootTime time) { return time.time_since_epoch().count(); }

std::array<uint64_t, 2> halves_of(const ActorId& id) {
  std::array<uint64_t, 2> halves{};
  std::memcpy(halves.data(), id.bytes().data(), sizeof halves);
  return halves;
}

ActorId id_of(const uint64_t (&halves)[2]) {
  std::array<uint8_t, 16> bytes{};
  std::memcpy(bytes.data(), halves, sizeof bytes);
  return ActorId(bytes);
}

}  // namespace

CallTrace& CallTrace::instance() {
  static auto* trace = new CallTrace();  // Leaked: threads may write during process exit.
  return *trace;
}

// ---- ring of a thread ----

CallTrace::Ring::Seen CallTrace::Ring::copy(const Event& event) {
  Seen seen;
  seen.name = event.name.load(kRelaxed);
  seen.actor[0] = event.actor[0].load(kRelaxed);
  seen.actor[1] = event.actor[1].load(kRelaxed);
  seen.start_ns = event.start_ns.load(kRelaxed);
  seen.span_ns = event.span_ns.load(kRelaxed);
  seen.calls = event.calls.load(kRelaxed);
  seen.failed = event.failed.load(kRelaxed);
  return seen;
}

void CallTrace::Ring::write(Event& event, const Seen& what) {
  event.name.store(what.name, kRelaxed);
  event.actor[0].store(what.actor[0], kRelaxed);
  event.actor[1].store(what.actor[1], kRelaxed);
  event.start_ns.store(what.start_ns, kRelaxed);
  event.span_ns.store(what.span_ns, kRelaxed);
  event.calls.store(what.calls, kRelaxed);
  event.failed.store(what.failed, kRelaxed);
}

CallTrace::Ring::Event& CallTrace::Ring::at(uint64_t number) {
  const size_t index = number % (chunks_ * kChunk);
  std::atomic<Event*>& chunk = events_[index / kChunk];
  Event* events = chunk.load(kRelaxed);
  if (events == nullptr) {
    events = new Event[kChunk];
    chunk.store(events, std::memory_order_release);
  }
  return events[index % kChunk];
}

void CallTrace::Ring::begin(const std::string* name, const ActorId& actor, BootTime now) {
  const auto halves = halves_of(actor);
  write(current_, {.name = name,
                   .actor = {halves[0], halves[1]},
                   .start_ns = ns_of(now),
                   .span_ns = 0,
                   .calls = 1,
                   .failed = false});
  turn_.store(turn_.load(kRelaxed) + 1, std::memory_order_release);
}

void CallTrace::Ring::end(BootTime now, bool failed) {
  Seen done = copy(current_);
  turn_.store(turn_.load(kRelaxed) + 1, std::memory_order_release);
  done.span_ns = ns_of(now) - done.start_ns;
  done.failed = failed;
  const uint64_t written = written_.load(kRelaxed);
  constexpr int64_t kShortNs = std::chrono::nanoseconds(kShort).count();
  const int64_t pause = done.start_ns - (last_.start_ns + last_.span_ns);
  const bool joins = written > 0 && done.span_ns < kShortNs && pause >= 0 && pause < kShortNs &&
                     last_.name == done.name && last_.actor[0] == done.actor[0] && last_.actor[1] == done.actor[1] &&
                     last_.failed == failed && last_.span_ns / last_.calls < kShortNs;
  if (joins) {
    last_.span_ns = ns_of(now) - last_.start_ns;
    ++last_.calls;
    Event& event = at(written - 1);
    event.span_ns.store(last_.span_ns, kRelaxed);
    event.calls.store(last_.calls, kRelaxed);
    return;
  }
  last_ = done;
  write(at(written), done);
  written_.store(written + 1, std::memory_order_release);
}

std::vector<CallTrace::Ring::Seen> CallTrace::Ring::read(size_t most, uint64_t& forgotten) const {
  const uint64_t written = written_.load(std::memory_order_acquire);
  const uint64_t room = chunks_ * kChunk - 1;  // The next event may be overwriting the oldest one.
  const uint64_t kept = std::min<uint64_t>({written, room, most});
  std::vector<Seen> seen;
  seen.reserve(kept);
  for (uint64_t number = written - kept; number < written; ++number) {
    const size_t index = number % (chunks_ * kChunk);
    const Event* events = events_[index / kChunk].load(std::memory_order_acquire);
    if (events != nullptr) seen.push_back(copy(events[index % kChunk]));
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  const uint64_t now_written = written_.load(kRelaxed);
  // Excludes events that were overwritten during the read.
  const uint64_t first_sound = now_written > room ? now_written - room : 0;
  const uint64_t first_read = written - kept;
  if (first_sound > first_read)
    seen.erase(seen.begin(),
               seen.begin() + static_cast<std::ptrdiff_t>(std::min<uint64_t>(first_sound - first_read, seen.size())));
  forgotten += written - seen.size();
  return seen;
}

std::optional<CallTrace::Ring::Seen> CallTrace::Ring::read_current() const {
  const uint64_t before = turn_.load(std::memory_order_acquire);
  if (before % 2 == 0) return std::nullopt;
  Seen seen = copy(current_);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (turn_.load(kRelaxed) != before) return std::nullopt;  // The call has just ended.
  return seen;
}

// ---- all rings ----

// Returns the ring at the end of its thread.
struct CallTrace::Claim {
  ~Claim() {
    if (own_ != nullptr) instance().give_back(own_);
    own_ = nullptr;
  }
};

CallTrace::Ring* CallTrace::claim() {
  static thread_local Claim claim;
  (void)claim;
  const std::lock_guard<std::mutex> hold(mutex_);
  if (free_.empty()) {
    rings_.push_back(std::make_unique<Ring>(rings_.size() < kLargeRings ? kLargeEvents / kChunk : 1));
    free_.push_back(rings_.back().get());
  }
  Ring* ring = free_.back();
  free_.pop_back();
  ring->thread_ = static_cast<int>(::syscall(SYS_gettid));
  return ring;
}

void CallTrace::give_back(Ring* ring) {
  const std::lock_guard<std::mutex> hold(mutex_);
  ring->thread_ = 0;
  free_.push_back(ring);
}

std::optional<CallTrace::Running> CallTrace::running(int thread, BootTime now) const {
  const std::lock_guard<std::mutex> hold(mutex_);
  for (const auto& ring : rings_) {
    if (ring->thread_ != thread) continue;
    const auto seen = ring->read_current();
    if (!seen) return std::nullopt;
    return Running{.name = *seen->name,
                   .actor = id_of(seen->actor),
                   .span = std::chrono::nanoseconds(std::max<int64_t>(0, ns_of(now) - seen->start_ns))};
  }
  return std::nullopt;
}

protocol::HostTimeline CallTrace::snapshot(const ActorId& actor, size_t most, BootTime now,
                                           int64_t unix_ns_of_boot) const {
  protocol::HostTimeline timeline;
  timeline.set_pid(::getpid());
  std::unordered_map<const std::string*, uint32_t> names;
  std::map<ActorId, uint32_t> actors;
  const auto wanted = halves_of(actor);
  const auto add = [&](const Ring::Seen& seen, uint32_t thread, bool running) {
    if (!actor.is_nil() && (seen.actor[0] != wanted[0] || seen.actor[1] != wanted[1])) return;
    const auto [name, new_name] = names.emplace(seen.name, static_cast<uint32_t>(names.size()));
    if (new_name) timeline.add_names(*seen.name);
    const ActorId of = id_of(seen.actor);
    const auto [row, new_actor] = actors.emplace(of, static_cast<uint32_t>(actors.size()));
    if (new_actor) timeline.add_actors(raw(of));
    protocol::TimelineEvent& event = *timeline.add_events();
    event.set_name(name->second);
    event.set_actor(row->second);
    event.set_thread(thread);
    event.set_start_us((seen.start_ns + unix_ns_of_boot) / 1000);
    event.set_span_ns(seen.span_ns);
    event.set_calls(seen.calls);
    event.set_running(running);
    event.set_failed(seen.failed);
  };
  const std::lock_guard<std::mutex> hold(mutex_);
  for (size_t at = 0; at < rings_.size(); ++at) {
    const Ring& ring = *rings_[at];
    uint64_t forgotten = 0;
    const auto events = ring.read(most, forgotten);
    auto current = ring.read_current();
    timeline.set_forgotten(timeline.forgotten() + forgotten);
    const int thread = ring.thread_;
    protocol::TimelineThread& row = *timeline.add_threads();
    row.set_id(thread == 0 ? -static_cast<int>(at) - 1 : thread);
    row.set_name(thread == 0 ? "ended" : stacks::thread_name(thread));
    for (const auto& seen : events) add(seen, static_cast<uint32_t>(at), false);
    if (!current) continue;
    current->span_ns = std::max<int64_t>(0, ns_of(now) - current->start_ns);
    add(*current, static_cast<uint32_t>(at), true);
  }
  return timeline;
}

}  // namespace volador
