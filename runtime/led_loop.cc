#include "runtime/led_loop.h"

#include <cstdint>

#include "runtime/futex.h"

namespace volador {
namespace {

std::atomic<LedLoop*> installed{nullptr};
std::atomic<uint32_t> uses{0};
std::atomic<bool> removes{false};
std::atomic<int> leaders{0};  // Threads in run_installed_until().
thread_local bool leads = false;

}  // namespace

// Prevents the removal of the installed loop.
class LedLoop::Use {
 public:
  Use() {
    uses.fetch_add(1);
    loop = installed.load();
  }
  ~Use() {
    if (uses.fetch_sub(1) == 1 && removes.load()) futex_wake(uses, 1);
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  LedLoop* loop = nullptr;
};

void LedLoop::install(LedLoop* loop) { installed.store(loop); }

void LedLoop::remove(LedLoop* loop) {
  LedLoop* expected = loop;
  if (!installed.compare_exchange_strong(expected, nullptr)) return;
  removes.store(true);
  loop->interrupt();
  while (const uint32_t left = uses.load()) futex_wait(uses, left);
  removes.store(false);
}

void LedLoop::run_installed_until(const std::function<bool()>& reached, const Deadline& until) {
  if (leads) return;  // Called from within the loop, whose code must not wait.
  const Use use;
  if (use.loop == nullptr) return;
  leads = true;
  leaders.fetch_add(1);
  use.loop->run_until([&] { return reached() || installed.load() != use.loop; }, until);
  leaders.fetch_sub(1);
  leads = false;
}

void LedLoop::interrupt_installed() {
  if (leads || leaders.load() == 0) return;
  const Use use;
  if (use.loop != nullptr) use.loop->interrupt();
}

void LedLoop::lead_installed() {
  const Use use;
  if (use.loop != nullptr) use.loop->lead();
}

LedLoop::Follower::Follower() {
  count_.fetch_add(1);
  lead_installed();
}

}  // namespace volador
