#include "runtime/actor/cancel_signal.h"

#include <utility>

#include "runtime/net/channel.h"

namespace volador::internal {

bool CancelSignal::cancelled() const {
  const std::lock_guard<std::mutex> hold(mutex_);
  return cancelled_;
}

void CancelSignal::cancel() {
  std::vector<std::function<void()>> functions;
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    if (std::exchange(cancelled_, true)) return;
    functions.swap(functions_);
  }
  for (const auto& function : functions) function();
}

void CancelSignal::on_cancel(std::function<void()> function) {
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    if (!cancelled_) {
      functions_.push_back(std::move(function));
      return;
    }
  }
  function();
}

void CancelSignal::follow(const std::shared_ptr<CancelSignal>& signal, const std::shared_ptr<net::Responder>& asker) {
  asker->on_cancel([signal, weak = std::weak_ptr<net::Responder>(asker)] {
    const auto responder = weak.lock();
    if (responder && !responder->lost()) signal->cancel();
  });
}

}  // namespace volador::internal
