// Sends alerts to a webhook, one at a time, on its own thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "dashboard/alert.h"
#include "runtime/outgoing/retry.h"
#include "runtime/outgoing/transfer.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::dashboard {

// Destination and limits of the alerts.
struct AlertOptions {
  outgoing::Webhook to;
  std::string secret = {};  // Empty: none is sent.
  AlertContext context = {};
  outgoing::RetryPlan plan = {};
  std::chrono::milliseconds timeout{10'000};  // Per attempt, from name resolution on.
};

class AlertSender {
 public:
  static constexpr size_t kWaitingMax = 256;  // Beyond it the oldest alert is dropped.

  explicit AlertSender(AlertOptions options);
  // Calls stop().
  ~AlertSender();
  AlertSender(const AlertSender&) = delete;
  AlertSender& operator=(const AlertSender&) = delete;

  // Thread safe; returns at once. Events that are no alerts are ignored. An alert may be delivered twice, with the same
  // id.
  void take(const v1::Event& event);
  // Aborts the running attempt; queued alerts are not sent. Idempotent.
  void stop();

 private:
  void run();
  void deliver(const v1::Event& event);
  bool wait(std::chrono::milliseconds pause);

  const AlertOptions options_;
  outgoing::Transfer transfer_;
  uint64_t number_ = 0;  // Used by the thread.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::Event> waiting_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace volador::dashboard
