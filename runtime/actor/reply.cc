#include "runtime/actor/call_context.h"
#include "runtime/actor/future.h"
#include "runtime/led_loop.h"

namespace volador {

// The waiting thread reads the reply itself if it can.
bool Reply::wait(const std::optional<std::chrono::steady_clock::time_point>& deadline) {
  if (deadline == std::chrono::steady_clock::time_point::min()) return false;
  const auto once = [this](const std::optional<std::chrono::steady_clock::time_point>& until) {
    if (internal::may_run_loop()) {
      const internal::CallContext::Outside outside;  // Code that the loop runs is not part of the waiting call.
      LedLoop::run_installed_until([this] { return there_.has_happened_to_leader(); }, until);
    }
    if (there_.has_happened()) return true;
    const LedLoop::Follower follower;
    return there_.wait_until(until);
  };
  return internal::lend_while_waiting(deadline, once, internal::Blocking::LoopLeads::kIfNeeded);
}

}  // namespace volador
