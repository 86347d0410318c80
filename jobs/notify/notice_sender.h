// Delivers reports of jobs, one message at a time, on its own thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "jobs/notify/notice.h"
#include "jobs/notify/notice_outbox.h"
#include "runtime/clock.h"
#include "runtime/outgoing/retry.h"
#include "runtime/outgoing/transfer.h"
#include "runtime/protocol/jobs.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"

namespace volador::jobs {

struct NoticeSenderOptions {
  NoticeContext context = {};
  // Half an hour in all.
  outgoing::RetryPlan plan = {
      .attempts = 14, .first_pause = std::chrono::seconds(1), .longest_pause = std::chrono::minutes(5)};
  std::chrono::milliseconds timeout{15'000};  // Per attempt.
};

// Thread safe; calls return at once.
class NoticeSender {
 public:
  // `finished`: called on the thread with the numbers of reports that were delivered or given up.
  NoticeSender(NoticeSenderOptions options, const Clock& clock, std::function<void(std::vector<int64_t>)> finished);
  // Calls stop().
  ~NoticeSender();
  NoticeSender(const NoticeSender&) = delete;
  NoticeSender& operator=(const NoticeSender&) = delete;

  // Reports to targets that the settings do not have are dropped when their turn comes.
  void set_settings(v1::QueueSettings settings);
  // URL of the dashboard.
  void set_page(std::string url);
  void take(std::vector<protocol::JobNotice> notices);
  // Aborts the running attempt; what waits is not sent. Idempotent.
  void stop();

 private:
  void run();
  outgoing::Answer deliver(const NoticeOutbox::Batch& batch, const v1::QueueSettings& settings,
                           const NoticeContext& context);

  const NoticeSenderOptions options_;
  const Clock& clock_;
  const std::function<void(std::vector<int64_t>)> finished_;
  outgoing::Transfer transfer_;
  NoticeOutbox outbox_;  // Used by the thread.
  std::mutex mutex_;
  std::condition_variable changed_;
  NoticeContext context_;
  v1::QueueSettings settings_;
  std::vector<protocol::JobNotice> taken_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace volador::jobs
