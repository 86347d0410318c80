#include "head/shell/bounded_worker.h"

#include <utility>

namespace volador::head {

bool BoundedWorker::add(std::function<void()> piece) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || pieces_.size() >= kQueueMax) return false;
    pieces_.push_back(std::move(piece));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  wake_.notify_one();
  return true;
}

void BoundedWorker::stop() {
  std::deque<std::function<void()>> dropped;
  std::thread ending;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(pieces_);
    ending.swap(thread_);
  }
  wake_.notify_one();
  if (ending.joinable()) ending.join();
}

void BoundedWorker::run() {
  while (true) {
    std::function<void()> piece;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopped_ || !pieces_.empty(); });
      if (stopped_) return;
      piece = std::move(pieces_.front());
      pieces_.pop_front();
    }
    piece();
  }
}

}  // namespace volador::head
