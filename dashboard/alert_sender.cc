#include "dashboard/alert_sender.h"

#include "runtime/log.h"

namespace volador::dashboard {

AlertSender::AlertSender(AlertOptions options) : options_(std::move(options)), thread_([this] { run(); }) {}

AlertSender::~AlertSender() { stop(); }

void AlertSender::take(const v1::Event& event) {
  if (!is_alert(event)) return;
  const std::lock_guard<std::mutex> hold(mutex_);
  if (waiting_.size() >= kWaitingMax) waiting_.pop_front();
  waiting_.push_back(event);
  changed_.notify_all();
}

void AlertSender::stop() {
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    stopped_ = true;
    transfer_.end();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void AlertSender::run() {
  for (std::unique_lock<std::mutex> hold(mutex_);;) {
    changed_.wait(hold, [this] { return stopped_ || !waiting_.empty(); });
    if (stopped_) return;
    const v1::Event event = std::move(waiting_.front());
    waiting_.pop_front();
    hold.unlock();
    deliver(event);
    hold.lock();
  }
}

void AlertSender::deliver(const v1::Event& event) {
  outgoing::Post post{.url = options_.to.url, .headers = {}, .body = *alert_of(event, options_.context, ++number_)};
  if (!options_.secret.empty()) post.headers.push_back("Authorization: Bearer " + options_.secret);
  for (int attempts = 1;; ++attempts) {
    const outgoing::Answer answer = transfer_.post(post, options_.timeout);
    if (answer.delivered) return;
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      if (stopped_) return;
    }
    const auto pause = outgoing::pause_before_next(options_.plan, attempts, answer.status);
    if (!pause)
      return log::warn("alerts", "an alert was not taken",
                       {{"host", options_.to.host},
                        {"event", event.text()},
                        {"attempts", std::to_string(attempts)},
                        {"why", answer.why}});
    if (!wait(*pause)) return;
  }
}

// Returns false if stopped.
bool AlertSender::wait(std::chrono::milliseconds pause) {
  std::unique_lock<std::mutex> hold(mutex_);
  return !changed_.wait_for(hold, pause, [this] { return stopped_; });
}

}  // namespace volador::dashboard
