// A bounded first-in-first-out queue for several producers and consumers anywhere in the cluster.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/actor/deferred.h"
#include "runtime/actor/handle.h"
#include "runtime/actor/queue_core.h"

namespace volador {

// Options of Queue<T>::create().
struct QueueOptions {
  size_t capacity = 10'000;          // Items, 1 to 100 million, in the memory of the queue's actor; further puts wait.
  std::string name = {};             // Name for Queue<T>::find(); unique in its namespace.
  std::string actor_namespace = {};  // Namespace of the name. Default: the creator's.
  bool detached = false;             // Lives until shutdown(); otherwise it ends with its last handle.
  Resources resources = {.cpus = 0};
};

namespace internal {

// The actor behind a Queue<T>. No method blocks its thread: waiting callers get deferred replies.
template <class T>
class QueueActor {
 public:
  using PutAnswer = Deferred<uint64_t>;
  using GetAnswer = Deferred<std::vector<T>>;
  using Clock = std::chrono::steady_clock;
  static constexpr int64_t kWithoutLimit = -1;  // Timeout in nanoseconds that means no limit.

  explicit QueueActor(uint64_t capacity) : core_(capacity) {}
  ~QueueActor() {
    timer_ = {};  // Stops and joins it.
    const std::lock_guard<std::mutex> hold(mutex_);
    core_.close([](const auto& answer) { answer.fail({ErrorCode::kActorDied, "the queue was shut down"}); });
  }
  QueueActor(const QueueActor&) = delete;
  QueueActor& operator=(const QueueActor&) = delete;

  PutAnswer put(std::vector<T> items, int64_t timeout_ns) {
    PutAnswer answer;
    const std::lock_guard<std::mutex> hold(mutex_);
    const auto now = Clock::now();
    const auto until = deadline(now, timeout_ns);
    if (timeout_ns == 0) {
      core_.try_put(now, std::move(items), answer);
    } else if (!core_.put(now, std::move(items), until, answer)) {
      answer.fail(too_many());
    } else {
      wake_at(until);
    }
    return answer;
  }
  GetAnswer get(uint64_t max, int64_t timeout_ns) {
    GetAnswer answer;
    const std::lock_guard<std::mutex> hold(mutex_);
    const auto now = Clock::now();
    const auto until = deadline(now, timeout_ns);
    if (!core_.get(now, max, until, answer)) {
      answer.fail(too_many());
    } else if (timeout_ns != 0) {
      wake_at(until);
    }
    return answer;
  }
  uint64_t size() const {
    const std::lock_guard<std::mutex> hold(mutex_);
    return core_.size();
  }
  uint64_t capacity() const { return core_.capacity(); }

 private:
  // Minimum time between two scans of all waiting callers.
  static constexpr std::chrono::milliseconds kTick{1};
  static constexpr std::chrono::hours kWaitMax{24 * 365};

  static std::optional<Clock::time_point> deadline(Clock::time_point now, int64_t timeout_ns) {
    if (timeout_ns < 0) return std::nullopt;
    return now + std::min<std::chrono::nanoseconds>(std::chrono::nanoseconds(timeout_ns), kWaitMax);
  }
  static Error too_many() {
    return {ErrorCode::kUnavailable, "queue: " + std::to_string(Core::kWaitingMax) +
                                         " callers wait already; try again later, or use several queues"};
  }
  // Call with mutex_ held, for a caller that may wait until then.
  void wake_at(const std::optional<Clock::time_point>& until) {
    if (!until || (wakes_at_ && *wakes_at_ <= *until)) return;
    wakes_at_ = until;
    if (!timer_.joinable()) timer_ = std::jthread([this](const std::stop_token& stop) { run_timer(stop); });
    changed_.notify_one();
  }
  void run_timer(const std::stop_token& stop) {
    std::unique_lock<std::mutex> hold(mutex_);
    while (!stop.stop_requested()) {
      if (!wakes_at_) {
        changed_.wait(hold, stop, [this] { return wakes_at_.has_value(); });
        continue;
      }
      const auto until = *wakes_at_;
      if (changed_.wait_until(hold, stop, until, [&] { return !wakes_at_ || *wakes_at_ < until; }) ||
          Clock::now() < until)
        continue;
      core_.expire(Clock::now());
      wakes_at_ = core_.next_deadline();
      if (wakes_at_) wakes_at_ = std::max(*wakes_at_, Clock::now() + kTick);
    }
  }

  using Core = QueueCore<T, PutAnswer, GetAnswer>;
  mutable std::mutex mutex_;  // Shared with the timer thread.
  Core core_;
  std::optional<Clock::time_point> wakes_at_;
  std::condition_variable_any changed_;
  std::jthread timer_;
};

// Replaces VOLADOR_ACTOR, which registers a class but not a template.
template <class T>
MethodList<&QueueActor<T>::put, &QueueActor<T>::get, &QueueActor<T>::size, &QueueActor<T>::capacity>
volador_actor_methods(const QueueActor<T>*) {
  return {};
}
// Registers QueueActor<T>.
template <class T>
struct QueueClass {
  static inline const bool enlisted = registration::register_class<QueueActor<T>>(
      decltype(volador_actor_methods(static_cast<const QueueActor<T>*>(nullptr)))());
};

}  // namespace internal

// Value type: copies refer to the same queue and can be passed to actors and tasks. Items and waiting callers are
// served in order of arrival; up to 100,000 callers can wait to put and as many to get. An item on its way to a
// consumer that dies is lost. All items are lost with the queue's actor, which is not restarted. Every function throws
// volador::Exception: kActorDied (the queue was shut down or lost), kUnavailable (too many waiting callers).
template <class T>
class Queue {
 public:
  static constexpr size_t kCapacityMax = 100'000'000;

  // Refers to no queue: for members and decoded arguments.
  Queue() = default;
  // Creates a queue. Throws kInvalidArgument (capacity, name in use), kInfeasible, kUnavailable.
  static Queue create(const QueueOptions& options = {}) { return Queue(spawn(options)); }
  // Returns the living queue of this name, by default in the caller's namespace; the result does not keep it alive.
  // Throws kNotFound, and kInvalidArgument if the name belongs to another kind of actor or to a queue of another type.
  static Queue find(const std::string& name, const std::string& actor_namespace = {}) {
    return Queue(get_actor<Actor>(name, actor_namespace));
  }

  // Waits for room.
  void put(const T& item) const { put_many({item}); }
  // False: there was no room within `timeout`; the item was not added.
  [[nodiscard]] bool put(const T& item, std::chrono::nanoseconds timeout) const {
    return put_many({item}, timeout) == 1;
  }
  // Does not wait. False: no room.
  [[nodiscard]] bool try_put(const T& item) const { return try_put_many({item}); }
  // Adds the items in order, even more than the capacity. Waits until all are in the queue.
  void put_many(const std::vector<T>& items) const {
    made().template call<&Actor::put>(items, Actor::kWithoutLimit).get();
  }
  // Returns the number of items, from the first, that were added within `timeout`.
  [[nodiscard]] size_t put_many(const std::vector<T>& items, std::chrono::nanoseconds timeout) const {
    return made().template call<&Actor::put>(items, std::max<int64_t>(1, timeout.count())).get();
  }
  // Does not wait. False: no room for all of them; none was added.
  [[nodiscard]] bool try_put_many(const std::vector<T>& items) const {
    return made().template call<&Actor::put>(items, 0).get() == items.size();
  }

  // Waits for an item.
  T get() const { return std::move(get_many(1).front()); }
  // Empty: no item within `timeout`.
  std::optional<T> get(std::chrono::nanoseconds timeout) const { return first(get_many(1, timeout)); }
  // Does not wait. Empty: no item.
  std::optional<T> try_get() const { return first(try_get_many(1)); }
  // Waits for an item and returns what is available, at most `max` items.
  std::vector<T> get_many(size_t max) const {
    return made().template call<&Actor::get>(at_least_one(max), Actor::kWithoutLimit).get();
  }
  // Empty: no item within `timeout`.
  std::vector<T> get_many(size_t max, std::chrono::nanoseconds timeout) const {
    return made().template call<&Actor::get>(at_least_one(max), std::max<int64_t>(0, timeout.count())).get();
  }
  // Does not wait.
  std::vector<T> try_get_many(size_t max) const { return get_many(max, std::chrono::nanoseconds(0)); }

  // A snapshot: other callers put and get concurrently.
  size_t size() const { return made().template call<&Actor::size>().get(); }
  bool empty() const { return size() == 0; }
  bool full() const { return size() >= capacity(); }
  size_t capacity() const { return made().template call<&Actor::capacity>().get(); }
  // Ends the queue: items are dropped, waiting and later calls throw kActorDied. Repeatable.
  void shutdown() const { made().kill(std::chrono::seconds(1)); }

  friend void volador_encode(Encoder& encoder, const Queue& queue) { encode(encoder, queue.actor_); }
  friend void volador_decode(Decoder& decoder, Queue& queue) { decode(decoder, queue.actor_); }

 private:
  using Actor = internal::QueueActor<T>;
  explicit Queue(ActorHandle<Actor> actor) : actor_(std::move(actor)) {}

  static ActorHandle<Actor> spawn(const QueueOptions& options) {
    static_assert(Serializable<T>,
                  "volador: the items of this queue do not travel between processes: put VOLADOR_FIELDS(Type, member…) "
                  "beside their type");
    (void)internal::QueueClass<T>::enlisted;
    if (options.capacity < 1 || options.capacity > kCapacityMax) {
      throw Exception(Error{ErrorCode::kInvalidArgument, "Queue: capacity: expected 1 to " +
                                                             std::to_string(kCapacityMax) + ", got " +
                                                             std::to_string(options.capacity)});
    }
    auto builder = actor<Actor>(uint64_t{options.capacity}).resources(options.resources);
    if (!options.name.empty()) std::move(builder).name(options.name);
    if (!options.actor_namespace.empty()) std::move(builder).in_namespace(options.actor_namespace);
    if (options.detached) std::move(builder).detached();
    return std::move(builder).spawn();
  }
  static uint64_t at_least_one(size_t max) { return std::max<uint64_t>(1, max); }
  static std::optional<T> first(std::vector<T> items) {
    if (items.empty()) return std::nullopt;
    return std::move(items.front());
  }

  const ActorHandle<Actor>& made() const {
    if (!actor_.id().is_nil()) return actor_;
    throw Exception(Error{ErrorCode::kInvalidArgument,
                          "Queue: this one was default constructed and is no queue yet; make one with "
                          "Queue<T>::create() or find one with Queue<T>::find()"});
  }

  ActorHandle<Actor> actor_;
};

}  // namespace volador
