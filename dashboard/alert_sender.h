// Sends alerts to a webhook, one after the other, on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "dashboard/alert.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::dashboard {

struct AlertOptions {
  Webhook to;
  std::string secret = {};  // Empty: none is sent.
  AlertContext context = {};
  AlertPlan plan = {};
  std::chrono::milliseconds timeout{10'000};  // Of an attempt, from the name of the machine to the first line of the answer.
};

class AlertSender {
 public:
  static constexpr size_t kWaitingMax = 256;  // The oldest makes room.

  explicit AlertSender(AlertOptions options);
  // As stop().
  ~AlertSender();
  AlertSender(const AlertSender&) = delete;
  AlertSender& operator=(const AlertSender&) = delete;

  // Thread safe; returns at once. What is no alert is left out. An alert may arrive twice, with the same id.
  void take(const v1::Event& event);
  // Ends what is under way at once; alerts that wait are not sent. Repeatable.
  void stop();

 private:
  class Attempt;
  void run();
  void deliver(const v1::Event& event);
  bool wait(std::chrono::milliseconds pause);

  const AlertOptions options_;
  uint64_t number_ = 0;  // Of the thread.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::Event> waiting_;
  Attempt* under_way_ = nullptr;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace volador::dashboard
