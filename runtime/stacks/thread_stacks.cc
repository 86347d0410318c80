#include "runtime/stacks/thread_stacks.h"

#include <execinfo.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <mutex>
#include <optional>

namespace volador::stacks {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr milliseconds kOneThread{200};   // Limit for a thread to respond.
constexpr milliseconds kUnwinding{1000};  // Limit for an unwind in progress.
constexpr int kOwnFrames = 2;             // Frames of the handler and of the kernel's signal return.

// Request to one thread. The lowest two bits of `state` are the phase, the others the number of the request: a late
// signal finds another number and does nothing.
struct Shot {
  enum Phase : uint64_t { kIdle = 0, kAsked = 1, kWriting = 2, kDone = 3 };
  std::atomic<uint64_t> state{kIdle};
  int depth = 0;
  uintptr_t handle = 0;
  std::array<void*, kFramesMax + kOwnFrames> frames{};
};
std::atomic<Shot*> shot{nullptr};

void on_signal(int, siginfo_t* info, void*) {
  const int saved = errno;
  Shot* asked = shot.load(std::memory_order_acquire);
  const auto number = static_cast<uint64_t>(static_cast<uint32_t>(info->si_value.sival_int));
  uint64_t expected = number << 2 | Shot::kAsked;
  if (asked != nullptr && info->si_code == SI_QUEUE &&
      asked->state.compare_exchange_strong(expected, number << 2 | Shot::kWriting)) {
    asked->handle = ::pthread_self();
    asked->depth = ::backtrace(asked->frames.data(), static_cast<int>(asked->frames.size()));
    asked->state.store(number << 2 | Shot::kDone, std::memory_order_release);
  }
  errno = saved;
}

// Reserves a signal; nothing: the program uses all of them.
std::optional<int> take_signal() {
  static std::optional<int> taken;
  if (taken) return taken;
  for (int number = SIGRTMAX - 1; number >= SIGRTMIN; --number) {
    struct sigaction before {};
    if (::sigaction(number, nullptr, &before) != 0 || before.sa_handler != SIG_DFL ||
        (before.sa_flags & SA_SIGINFO) != 0)
      continue;
    struct sigaction ours {};
    ours.sa_sigaction = &on_signal;
    ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    ::sigfillset(&ours.sa_mask);
    if (::sigaction(number, &ours, nullptr) != 0) continue;
    taken = number;
    return taken;
  }
  return std::nullopt;
}

void nap() {
  const timespec span{.tv_sec = 0, .tv_nsec = 50'000};
  ::nanosleep(&span, nullptr);
}

std::vector<uintptr_t> frames_of(const Shot& from, int skipped) {
  std::vector<uintptr_t> frames;
  for (int at = skipped; at < from.depth; ++at)
    frames.push_back(reinterpret_cast<uintptr_t>(from.frames[static_cast<size_t>(at)]));
  return frames;
}

bool send_signal(int thread, int signal, uint64_t number) {
  siginfo_t info{};
  info.si_signo = signal;
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_int = static_cast<int>(number);
  return ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), thread, signal, &info) == 0;
}

void ask(ThreadStack& of, int signal) {
  static uint64_t numbers = 0;
  const uint64_t number = ++numbers & 0x7fffffff;
  Shot* here = shot.load();
  here->state.store(number << 2 | Shot::kAsked);
  if (!send_signal(of.thread.id, signal, number)) {
    here->state.store(Shot::kIdle);
    of.note = "it has ended";
    return;
  }
  const auto sent = Steady::now();
  while (here->state.load(std::memory_order_acquire) != (number << 2 | Shot::kDone)) {
    const auto waited = Steady::now() - sent;
    uint64_t expected = number << 2 | Shot::kAsked;
    if (waited > kOneThread && here->state.compare_exchange_strong(expected, Shot::kIdle)) {
      of.note = of.thread.state == 'D' ? "it waits in the kernel, where no signal reaches it"
                                       : "it does not answer: it may be stopped, or wait in the kernel";
      return;
    }
    if (waited > kUnwinding) {
      shot.store(new Shot);  // The thread may still write to the old one.
      of.note = "its stack takes too long to unwind";
      return;
    }
    nap();
  }
  of.frames = frames_of(*here, kOwnFrames);
  of.handle = here->handle;
  here->state.store(Shot::kIdle);
}

}  // namespace

Result<std::vector<ThreadStack>> capture(milliseconds patience) {
  static std::mutex one_at_a_time;
  const std::unique_lock<std::mutex> hold(one_at_a_time, std::try_to_lock);
  if (!hold) return make_error(ErrorCode::kUnavailable, "the stacks of this process are being read already; ask again");
  const auto signal = take_signal();
  if (!signal) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("the program has handlers for all real-time signals ({} to {}), and one is needed to "
                                  "interrupt its threads; leave one free",
                                  SIGRTMIN, SIGRTMAX));
  }
  if (shot.load() == nullptr) {
    shot.store(new Shot);  // Leaked: a late signal may read it.
    std::array<void*, 4> first{};
    ::backtrace(first.data(), 4);  // Loads the unwinder, which must not happen in a signal handler.
  }
  const auto until = Steady::now() + patience;
  const auto self = static_cast<int>(::syscall(SYS_gettid));
  std::vector<ThreadStack> stacks;
  for (ThreadRow& row : threads_of_this_process(kThreadsMax)) {
    ThreadStack& one = stacks.emplace_back();
    one.thread = std::move(row);
    if (one.thread.id == self) {
      Shot own;
      own.depth = ::backtrace(own.frames.data(), static_cast<int>(own.frames.size()));
      one.frames = frames_of(own, 0);
      one.handle = ::pthread_self();
    } else if ((one.thread.blocked_signals >> (*signal - 1) & 1) != 0) {
      one.note = fmt::format("it blocks all signals, {} among them", *signal);
    } else if (Steady::now() >= until) {
      one.note = "there was no time left for it";
    } else {
      ask(one, *signal);
    }
  }
  return stacks;
}

}  // namespace volador::stacks
