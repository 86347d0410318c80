// That a call is no longer wanted, where its caller said so over a later connection than the one on which it came.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace volador::net {
class Responder;
}

namespace volador::internal {

// Thread safe.
class CancelSignal {
 public:
  bool cancelled() const;
  // Runs the functions, once.
  void cancel();
  // At once where it is cancelled already.
  void on_cancel(std::function<void()> function);
  // A cancel by this asker counts; the end of its connection does not, since its caller may come again.
  static void follow(const std::shared_ptr<CancelSignal>& signal, const std::shared_ptr<net::Responder>& asker);

 private:
  mutable std::mutex mutex_;
  bool cancelled_ = false;
  std::vector<std::function<void()>> functions_;
};

}  // namespace volador::internal
