// Cancellation of a call over a later connection than the one on which the call arrived.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace volador::net {
class Responder;
}

namespace volador::internal {

// One-shot cancellation with callbacks. Thread safe.
class CancelSignal {
 public:
  bool cancelled() const;
  // Runs the registered functions. Repeated: no effect.
  void cancel();
  // Runs the function on cancellation, at once if already cancelled.
  void on_cancel(std::function<void()> function);
  // Forwards a cancellation by this asker. The end of its connection is ignored, since the caller may reconnect.
  static void follow(const std::shared_ptr<CancelSignal>& signal, const std::shared_ptr<net::Responder>& asker);

 private:
  mutable std::mutex mutex_;
  bool cancelled_ = false;
  std::vector<std::function<void()>> functions_;
};

}  // namespace volador::internal
