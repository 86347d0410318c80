// Reports of jobs as requests to webhooks and as mail. Pure.
//
// Bodies and signatures are those that the vendors document. An answer of HTTP 200 with a code other than 0 in it is a
// refusal of Feishu, DingTalk and WeCom.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "jobs/notify/notice.h"
#include "runtime/outgoing/transfer.h"
#include "runtime/protocol/jobs.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"

namespace volador::jobs {

// How fast messages to a target may follow each other, below the limits of the vendors.
struct NoticePace {
  std::chrono::milliseconds pause{1000};  // Between two messages.
  size_t together = 100;                  // Reports in one message.
};
// `kind`: as v1.Notification.kind.
NoticePace pace_of_kind(std::string_view kind);

// The request to a webhook, of any kind but mail.
outgoing::Post notice_post(const v1::Notification& to, const std::vector<protocol::JobNotice>& notices,
                           const NoticeContext& context, int64_t now_ms);
// Turns an answer that refuses the message by a code in its body into one that is not delivered.
outgoing::Answer checked_answer(std::string_view kind, outgoing::Answer answer);

// Subject: "[volador heron] job-7 train failed: …".
outgoing::Mail notice_mail(const v1::MailServer& server, const std::vector<std::string>& to,
                           const std::vector<protocol::JobNotice>& notices, const NoticeContext& context,
                           int64_t now_ms);

}  // namespace volador::jobs
