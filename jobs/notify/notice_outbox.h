// Reports that wait for their delivery, by target: what is sent when, together and again. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "jobs/notify/notice_message.h"
#include "runtime/clock.h"
#include "runtime/outgoing/retry.h"
#include "runtime/protocol/jobs.pb.h"

namespace volador::jobs {

class NoticeOutbox {
 public:
  // Reports that wait while a message to their target may not be sent yet go together in the next one.
  struct Batch {
    std::string target;
    std::vector<protocol::JobNotice> notices;
    int attempt = 1;
  };
  struct Settled {
    std::vector<int64_t> finished;  // Numbers of reports that were delivered or given up.
    bool gave_up = false;
  };

  explicit NoticeOutbox(outgoing::RetryPlan plan) : plan_(plan) {}

  void add(protocol::JobNotice notice);
  // The next message that may be sent, of the target that waits longest; settle() must follow before the next call.
  // `pace`: of a target.
  std::optional<Batch> next(BootTime now, const std::function<NoticePace(const std::string& target)>& pace);
  // What became of the batch. A message that is not delivered is sent again after a pause, together with what came
  // since, until the plan gives it up.
  Settled settle(const Batch& batch, const outgoing::Answer& answer, BootTime now);
  // When next() has something; nothing: never.
  std::optional<BootTime> due() const;
  bool empty() const { return targets_.empty(); }

 private:
  struct Target {
    std::deque<protocol::JobNotice> waiting;
    BootTime not_before{};
    std::chrono::milliseconds pause{0};
    int attempts = 0;  // Made for the first that waits.
  };
  const outgoing::RetryPlan plan_;
  std::map<std::string, Target> targets_;  // Also those that sent something lately.
};

}  // namespace volador::jobs
