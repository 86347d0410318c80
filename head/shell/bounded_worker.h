// A thread for work that loops and handlers must not wait for: passwords, each of which takes about 80 ms of a CPU and
// 64 MiB, and requests to the provider of sign-ins.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace volador::head {

// Thread safe. The thread starts with the first piece.
class BoundedWorker {
 public:
  static constexpr size_t kQueueMax = 16;  // Pieces that wait.

  ~BoundedWorker() { stop(); }

  // False: too many wait, or it is stopped; the piece is dropped.
  [[nodiscard]] bool add(std::function<void()> piece);
  // Drops the pieces that wait, and returns when the running one has ended. Idempotent.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> pieces_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace volador::head
