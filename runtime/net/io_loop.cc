#include "runtime/net/io_loop.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/futex.h"
#include "runtime/net/unique_fd.h"

namespace volador::net {
namespace {

constexpr size_t kReadBufferBytes = size_t{256} << 10;
constexpr size_t kEventsMax = 256;  // Maximum fetched from the kernel at once.
constexpr int kWaitMsMax = 60'000;
constexpr auto kTick = std::chrono::milliseconds(1);
constexpr int kTicksAlone = 16;
constexpr auto kCrowdedFor = std::chrono::milliseconds(10);  // The loop's own thread leads while threads take turns.
constexpr uint64_t kWakeToken = 0;                           // Token of the eventfd; watched descriptors count from 1.

bool nothing() { return false; }

}  // namespace

struct IoLoop::Impl {
  struct Watch {
    uint64_t token;
    std::shared_ptr<Pollable> target;
  };
  // Thread that a post has to wake up.
  enum Sleep : uint32_t {
    kAwake,   // Nothing: the leader checks the queue before it sleeps.
    kInPoll,  // The leader, in epoll_wait.
    kUnled,   // The loop's own thread: there is no leader.
  };
  // State of the loop's own thread while it does not lead.
  enum Parked : uint32_t {
    kNotParked,  // Stored by a thread that requests it to lead.
    kTicking,    // Checks every tick whether other threads still lead.
    kDeep,       // Sleeps while the leader does.
    kTickAgain,  // Stored by the leader when it leaves.
  };

  UniqueFd epoll;
  UniqueFd wake;
  SystemClock clock;
  std::thread thread;
  // Not zeroed: untouched pages use no memory, and a new host has none.
  std::unique_ptr<char[]> read_buffer = std::make_unique_for_overwrite<char[]>(kReadBufferBytes);
  std::atomic<const void*> leader{nullptr};  // this_thread() of the leader.
  std::atomic<uint32_t> sleep{kAwake};
  std::atomic<uint32_t> parked{kNotParked};
  std::atomic<bool> wanted{false};       // Another thread wanted to lead and could not.
  std::atomic<bool> guest_leads{false};  // The leader is not the loop's own thread.
  std::atomic<BootTime> crowded{};       // Time at which a leader gave way to a thread that could not lead.
  std::atomic<uint64_t> guests{0};       // Number of times another thread began to lead.
  std::atomic<bool> any_posted{false};   // Read without the mutex.
  std::atomic<bool> stopping{false};

  std::mutex mutex;  // Guards the members below.
  std::vector<UniqueFunction<void()>> posted;
  std::map<std::pair<BootTime, TimerId>, std::function<void()>> timers;
  std::unordered_map<TimerId, BootTime> timer_times;
  std::unordered_map<uint64_t, std::shared_ptr<Pollable>> targets;  // By token.
  std::unordered_map<int, uint64_t> tokens;                         // By descriptor.
  uint64_t last_token = kWakeToken;
  TimerId last_timer = 0;
  bool ended = false;

  static const void* this_thread() {
    static thread_local const char here = 0;
    return &here;
  }
  bool begin_to_lead() {
    const void* nobody = nullptr;
    return leader.compare_exchange_strong(nobody, this_thread());
  }
  void interrupt_poll() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake.get(), &one, sizeof one);  // A full counter means that it is awake.
  }
  void unpark() {
    const uint32_t before = parked.exchange(kNotParked);
    if (before != kNotParked) futex_wake(parked, 1);
  }
  bool move_parked(uint32_t from, uint32_t to) { return parked.compare_exchange_strong(from, to); }
  void wake_up() {
    const uint32_t before = sleep.exchange(kAwake);
    if (before == kInPoll) interrupt_poll();
    if (before == kUnled) unpark();
  }

  bool run_posted();
  void run_timers();
  int wait_ms();
  void dispatch(const epoll_event& event);
  template <class Reached>
  void turn(int timeout_max, const Reached& reached);
  void cease_to_lead();
  void park();
  void stand_back();
  void serve();
};

bool IoLoop::Impl::run_posted() {
  if (!any_posted.load()) return false;
  std::vector<UniqueFunction<void()>> batch;
  {
    const std::lock_guard lock(mutex);
    batch.swap(posted);
    any_posted.store(false);
  }
  for (auto& function : batch) function();
  return !batch.empty();
}

void IoLoop::Impl::run_timers() {
  const BootTime now = clock.now();
  while (true) {
    std::function<void()> function;
    {
      const std::lock_guard lock(mutex);
      if (timers.empty() || timers.begin()->first.first > now) return;
      function = std::move(timers.begin()->second);
      timer_times.erase(timers.begin()->first.second);
      timers.erase(timers.begin());
    }
    function();
  }
}

// Returns 0 if something is due.
int IoLoop::Impl::wait_ms() {
  const std::lock_guard lock(mutex);
  if (!posted.empty()) return 0;
  if (timers.empty()) return kWaitMsMax;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers.begin()->first.first - clock.now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, kWaitMsMax));
}

void IoLoop::Impl::dispatch(const epoll_event& event) {
  if (event.data.u64 == kWakeToken) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(wake.get(), &count, sizeof count);
    return;
  }
  std::shared_ptr<Pollable> target;
  {
    const uint64_t token = event.data.u64;  // The kernel's structure is packed: no references into it.
    const std::lock_guard lock(mutex);
    const auto found = targets.find(token);
    if (found == targets.end()) return;  // Removed by an earlier event of this batch.
    target = found->second;
  }
  target->on_events(event.events);
}

// Runs on the leader: waits once, up to timeout_max and not if reached(), and runs what arrived.
template <class Reached>
void IoLoop::Impl::turn(int timeout_max, const Reached& reached) {
  std::array<epoll_event, kEventsMax> events;
  sleep.exchange(kInPoll);
  // Checked after setting `sleep`: later events interrupt the wait.
  const int timeout = stopping.load() || reached() ? 0 : std::min(timeout_max, wait_ms());
  const int count = ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), timeout);
  sleep.exchange(kAwake);
  for (int i = 0; i < count; ++i) dispatch(events[static_cast<size_t>(i)]);
  run_timers();
}

// From then on posts wake up the loop's own thread.
void IoLoop::Impl::cease_to_lead() {
  sleep.exchange(kUnled);
  leader.store(nullptr);
}

// Returns once there was no leader for a tick, or the loop's own thread is asked to lead.
void IoLoop::Impl::park() {
  uint64_t seen = guests.load();
  parked.store(kTicking);
  while (parked.load() != kNotParked && !stopping.load() && !(any_posted.load() && leader.load() == nullptr)) {
    futex_wait(parked, kTicking, std::chrono::steady_clock::now() + kTick);
    const uint64_t now = guests.load();
    if (std::exchange(seen, now) != now) continue;
    if (!guest_leads.load()) break;
    move_parked(kTicking, kDeep);
    while (parked.load() == kDeep && guest_leads.load() && guests.load() == seen) futex_wait(parked, kDeep);
    move_parked(kDeep, kTicking);
    move_parked(kTickAgain, kTicking);
  }
  parked.store(kNotParked);
}

void IoLoop::Impl::serve() {
  while (true) {
    while (run_posted()) {
    }
    if (stopping.load()) {
      const std::lock_guard lock(mutex);
      if (posted.empty()) {
        ended = true;
        leader.store(nullptr);
        return;
      }
      continue;
    }
    // The thread that wanted to lead may still be asleep while its reply has arrived.
    if (wanted.exchange(false) && LedLoop::Follower::count() <= 1 && clock.now() - crowded.load() > kCrowdedFor)
      stand_back();
    turn(kWaitMsMax, nothing);
  }
}

// The loop's own thread while others lead from time to time: once per tick it runs what arrived without a leader, in
// one batch. Returns when it has been alone for a while, or when a thread waits that cannot lead.
void IoLoop::Impl::stand_back() {
  uint64_t seen = guests.load();
  int alone = 0;
  do {
    cease_to_lead();
    do {
      park();
    } while (!begin_to_lead());
    sleep.exchange(kAwake);
    while (run_posted()) {
    }
    turn(0, nothing);
    const uint64_t now = guests.load();
    const bool others = std::exchange(seen, now) != now;
    alone = wanted.exchange(false) || others ? 0 : alone + 1;
  } while (alone < kTicksAlone && LedLoop::Follower::count() == 0 && !stopping.load());
}

IoLoop::IoLoop(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<IoLoop>> IoLoop::create(std::string name) {
  auto impl = std::make_unique<Impl>();
  impl->epoll.reset(::epoll_create1(EPOLL_CLOEXEC));
  impl->wake.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeToken;
  if (!impl->epoll || !impl->wake || ::epoll_ctl(impl->epoll.get(), EPOLL_CTL_ADD, impl->wake.get(), &event) != 0) {
    return make_error(ErrorCode::kUnavailable, fmt::format("I/O loop: epoll: {}", std::strerror(errno)));
  }
  Impl* raw = impl.get();
  std::promise<void> started;
  try {
    raw->thread = std::thread([raw, name = name.substr(0, 15), &started] {
      ::pthread_setname_np(::pthread_self(), name.c_str());
      raw->begin_to_lead();
      started.set_value();
      raw->serve();
    });
  } catch (const std::system_error& error) {
    return make_error(ErrorCode::kUnavailable, fmt::format("I/O loop: thread: {}", error.what()));
  }
  started.get_future().wait();
  return std::unique_ptr<IoLoop>(new IoLoop(std::move(impl)));
}

IoLoop::~IoLoop() {
  VOLADOR_CHECK(!in_loop(), "an I/O loop cannot end on its own thread");
  impl_->stopping.store(true);
  impl_->wake_up();
  impl_->unpark();
  impl_->thread.join();
}

void IoLoop::post(UniqueFunction<void()> function) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->ended) return;
    impl_->posted.push_back(std::move(function));
    impl_->any_posted.store(true);
  }
  impl_->wake_up();
}

void IoLoop::run(const std::function<void()>& function) {
  std::promise<void> done;
  bool here = in_loop();
  if (!here) {
    const std::lock_guard lock(impl_->mutex);
    here = impl_->ended;
    if (!here) {
      impl_->posted.push_back([&] {
        function();
        done.set_value();
      });
      impl_->any_posted.store(true);
    }
  }
  if (here) return function();
  impl_->wake_up();
  done.get_future().wait();
}

bool IoLoop::in_loop() const { return impl_->leader.load(std::memory_order_relaxed) == Impl::this_thread(); }

IoLoop::TimerId IoLoop::add_timer(BootTime when, std::function<void()> function) {
  TimerId id = 0;
  bool first = false;
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->ended) return 0;
    id = ++impl_->last_timer;
    const auto at = impl_->timers.emplace(std::pair(when, id), std::move(function)).first;
    impl_->timer_times.emplace(id, when);
    first = at == impl_->timers.begin();
  }
  // Without a leader there will be one within a tick or two.
  if (first && (impl_->sleep.load() != Impl::kUnled || when - impl_->clock.now() < kTick / 2)) impl_->wake_up();
  return id;
}

void IoLoop::cancel_timer(TimerId timer) {
  std::function<void()> dropped;  // Destroyed outside the lock.
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->timer_times.find(timer);
  if (found == impl_->timer_times.end()) return;
  const auto at = impl_->timers.find({found->second, timer});
  dropped = std::move(at->second);
  impl_->timers.erase(at);
  impl_->timer_times.erase(found);
}

BootTime IoLoop::now() const { return impl_->clock.now(); }

Result<void> IoLoop::watch(int fd, uint32_t events, std::shared_ptr<Pollable> target) {
  const std::lock_guard lock(impl_->mutex);
  const uint64_t token = ++impl_->last_token;
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (::epoll_ctl(impl_->epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return make_error(ErrorCode::kUnavailable, fmt::format("I/O loop: epoll: {}", std::strerror(errno)));
  }
  impl_->targets.emplace(token, std::move(target));
  impl_->tokens[fd] = token;
  return {};
}

void IoLoop::change(int fd, uint32_t events) {
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->tokens.find(fd);
  if (found == impl_->tokens.end()) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = found->second;
  ::epoll_ctl(impl_->epoll.get(), EPOLL_CTL_MOD, fd, &event);
}

void IoLoop::unwatch(int fd) {
  std::shared_ptr<Pollable> dropped;  // Destroyed outside the lock.
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->tokens.find(fd);
  if (found == impl_->tokens.end()) return;
  ::epoll_ctl(impl_->epoll.get(), EPOLL_CTL_DEL, fd, nullptr);
  const auto target = impl_->targets.find(found->second);
  dropped = std::move(target->second);
  impl_->targets.erase(target);
  impl_->tokens.erase(found);
}

void IoLoop::run_until(const std::function<bool()>& reached, const Deadline& until) {
  Impl& impl = *impl_;
  if (reached() || Follower::count() > 0) return;
  if (!impl.begin_to_lead()) return impl.wanted.store(true);
  impl.sleep.exchange(Impl::kAwake);
  impl.guest_leads.store(true);
  impl.guests.fetch_add(1);
  while (!impl.stopping.load() && Follower::count() == 0) {
    while (impl.run_posted()) {
    }
    if (reached()) break;
    int timeout = kWaitMsMax;
    if (until) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - std::chrono::steady_clock::now());
      if (left.count() <= 0) break;
      timeout = static_cast<int>(std::min<int64_t>(left.count(), kWaitMsMax));
    }
    impl.turn(timeout, [&] { return reached() || Follower::count() > 0; });
  }
  if (Follower::count() > 0) impl.crowded.store(impl.clock.now());
  impl.guest_leads.store(false);
  impl.cease_to_lead();
  if (impl.any_posted.load() || impl.stopping.load() || Follower::count() > 0) return impl.unpark();
  if (impl.move_parked(Impl::kDeep, Impl::kTickAgain)) futex_wake(impl.parked, 1);
}

void IoLoop::interrupt() {
  uint32_t in_poll = Impl::kInPoll;
  if (impl_->guest_leads.load() && impl_->sleep.compare_exchange_strong(in_poll, Impl::kAwake)) impl_->interrupt_poll();
}

void IoLoop::lead() {
  interrupt();
  if (impl_->sleep.load() == Impl::kUnled) impl_->unpark();
}

std::span<char> IoLoop::read_buffer() { return {impl_->read_buffer.get(), kReadBufferBytes}; }

}  // namespace volador::net
