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

#include "runtime/adaptive_mutex.h"
#include "runtime/net/unique_fd.h"

namespace volador::net {
namespace {

constexpr size_t kReadBufferBytes = size_t{256} << 10;
constexpr size_t kEventsMax = 256;  // Taken from the kernel at once.
constexpr int kWaitMsMax = 60'000;
constexpr uint64_t kWakeToken = 0;  // Of the eventfd; watched descriptors count from 1.

}  // namespace

struct IoLoop::Impl {
  struct Watch {
    uint64_t token;
    std::shared_ptr<Pollable> target;
  };

  UniqueFd epoll;
  UniqueFd wake;
  SystemClock clock;
  std::thread thread;
  std::thread::id thread_id;
  // Not zeroed: pages that nothing was read into are not touched, and a host is born with none of them.
  std::unique_ptr<char[]> read_buffer = std::make_unique_for_overwrite<char[]>(kReadBufferBytes);
  std::atomic<bool> asleep{false};      // The thread waits, or is about to: a post must wake it.
  std::atomic<bool> any_posted{false};  // Looked at without the mutex.
  bool stays_awake = false;             // The thread's.

  std::mutex mutex;  // Guards what follows.
  std::vector<UniqueFunction<void()>> posted;
  std::map<std::pair<BootTime, TimerId>, std::function<void()>> timers;
  std::unordered_map<TimerId, BootTime> timer_times;
  std::unordered_map<uint64_t, std::shared_ptr<Pollable>> targets;  // By token.
  std::unordered_map<int, uint64_t> tokens;                         // By descriptor.
  uint64_t last_token = kWakeToken;
  TimerId last_timer = 0;
  bool stopping = false;
  bool ended = false;

  void wake_up() {
    if (!asleep.exchange(false)) return;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake.get(), &one, sizeof one);  // Full means that it is awake.
  }

  bool run_posted();
  void run_timers();
  int wait_ms();
  void dispatch(const epoll_event& event);
  void serve();
};

bool IoLoop::Impl::run_posted() {
  std::vector<UniqueFunction<void()>> batch;
  {
    const std::lock_guard lock(mutex);
    batch.swap(posted);
    any_posted.store(false, std::memory_order_relaxed);
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

// 0 when something is due.
int IoLoop::Impl::wait_ms() {
  const std::lock_guard lock(mutex);
  if (!posted.empty() || stopping) return 0;
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
    const uint64_t token = event.data.u64;  // The kernel's structure is packed: nothing may refer into it.
    const std::lock_guard lock(mutex);
    const auto found = targets.find(token);
    if (found == targets.end()) return;  // Unwatched by an earlier event of this batch.
    target = found->second;
  }
  target->on_events(event.events);
}

void IoLoop::Impl::serve() {
  std::array<epoll_event, kEventsMax> events{};
  while (true) {
    while (run_posted()) {
    }
    {
      const std::lock_guard lock(mutex);
      if (stopping && posted.empty()) {
        ended = true;
        return;
      }
    }
    int count = 0;
    const auto wait = [&](int timeout) { return ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), timeout); };
    const auto anything = [&] { return any_posted.load(std::memory_order_relaxed) || (count = wait(0)) != 0; };
    if (!std::exchange(stays_awake, false) || !look_for_a_while(anything)) {
      asleep.store(true);
      const int timeout = wait_ms();  // Reads the queue after `asleep` is set: a post is either seen or wakes.
      count = wait(timeout);
      asleep.store(false);
    }
    for (int i = 0; i < count; ++i) dispatch(events[static_cast<size_t>(i)]);
    run_timers();
  }
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
      raw->thread_id = std::this_thread::get_id();
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
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake_up();
  impl_->thread.join();
}

void IoLoop::post(UniqueFunction<void()> function) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->ended) return;
    impl_->posted.push_back(std::move(function));
    impl_->any_posted.store(true, std::memory_order_relaxed);
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
    }
  }
  if (here) return function();
  impl_->wake_up();
  done.get_future().wait();
}

bool IoLoop::in_loop() const { return std::this_thread::get_id() == impl_->thread_id; }

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
  if (first) impl_->wake_up();
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

void IoLoop::stay_awake() { impl_->stays_awake = true; }

std::span<char> IoLoop::read_buffer() { return {impl_->read_buffer.get(), kReadBufferBytes}; }

}  // namespace volador::net
