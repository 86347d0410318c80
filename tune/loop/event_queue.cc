#include "tune/loop/event_queue.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "runtime/result.h"

namespace volador::tune {
namespace {

constexpr int kSignalsTaken = 2;
std::atomic<int> signals_seen{0};
std::atomic<Wakeup*> signal_wakeup{nullptr};

void on_signal(int number) {
  const int saved = errno;
  if (signals_seen.fetch_add(1) + 1 > kSignalsTaken) {
    ::signal(number, SIG_DFL);
    ::raise(number);
  }
  if (Wakeup* wakeup = signal_wakeup.load()) wakeup->notify();
  errno = saved;
}

}  // namespace

Wakeup::Wakeup() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  VOLADOR_CHECK(fd_ >= 0, "eventfd: no descriptor left");
}
Wakeup::~Wakeup() { ::close(fd_); }

void Wakeup::notify() noexcept {
  const uint64_t one = 1;
  (void)!::write(fd_, &one, sizeof one);
}

void Wakeup::wait(std::optional<std::chrono::nanoseconds> timeout) {
  pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
  timespec limit{};
  if (timeout) {
    const auto positive = std::max(*timeout, std::chrono::nanoseconds(0));
    limit.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(positive).count();
    limit.tv_nsec = (positive % std::chrono::seconds(1)).count();
  }
  if (::ppoll(&waiting, 1, timeout ? &limit : nullptr, nullptr) <= 0) return;
  uint64_t count = 0;
  (void)!::read(fd_, &count, sizeof count);
}

struct InterruptCounter::Saved {
  struct sigaction interrupt {};
  struct sigaction terminate {};
};

InterruptCounter::InterruptCounter(Wakeup& wakeup) : saved_(std::make_unique<Saved>()) {
  signals_seen = 0;
  signal_wakeup = &wakeup;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &saved_->interrupt);
  ::sigaction(SIGTERM, &action, &saved_->terminate);
}

InterruptCounter::~InterruptCounter() {
  ::sigaction(SIGINT, &saved_->interrupt, nullptr);
  ::sigaction(SIGTERM, &saved_->terminate, nullptr);
  signal_wakeup = nullptr;
}

int InterruptCounter::count() const { return std::min(signals_seen.load(), kSignalsTaken); }

}  // namespace volador::tune
