// Reports of the state machine: each is a row of the journal from the event until its delivery.
#include <algorithm>
#include <utility>

#include "jobs/job_core.h"
#include "jobs/notify/notice.h"
#include "jobs/notify/notice_settings.h"

namespace volador::jobs {
namespace {

constexpr size_t kNoticesMax = 2000;  // Not delivered; beyond it new ones are left out.

std::string notice_key(int64_t number) {
  std::string key(8, '\0');
  for (int i = 0; i < 8; ++i) key[static_cast<size_t>(i)] = static_cast<char>(number >> (56 - 8 * i));
  return key;
}

}  // namespace

bool JobCore::load_notice(std::string_view value) {
  protocol::JobNotice notice;
  if (!notice.ParseFromArray(value.data(), static_cast<int>(value.size())) || notice.number() <= 0) return false;
  last_notice_ = std::max(last_notice_, notice.number());
  notices_.insert(notice.number());
  actions_.notices.push_back(std::move(notice));
  return true;
}

void JobCore::report(const Job& job, std::string_view event, int64_t now_ms, const Reason& why) {
  for (std::string& target : notice_targets(settings_, job.spec(), event)) {
    if (notices_.size() >= kNoticesMax) return;
    // Later than all of earlier lives of the head, whose rows may be gone.
    last_notice_ = std::max(last_notice_ + 1, now_ms);
    protocol::JobNotice notice;
    notice.set_number(last_notice_);
    notice.set_target(std::move(target));
    notice.set_event(std::string(event));
    notice.set_at_ms(now_ms);
    *notice.mutable_job() = job_for_notice(job.record.job());
    if (!why.empty()) notice.mutable_job()->set_reason(why.text());
    notices_.insert(notice.number());
    actions_.rows.push_back({std::string(kNoticesTable), notice_key(notice.number()), notice.SerializeAsString()});
    actions_.notices.push_back(std::move(notice));
  }
}

void JobCore::on_reported(const std::vector<int64_t>& numbers) {
  for (const int64_t number : numbers) {
    if (notices_.erase(number) > 0)
      actions_.rows.push_back({std::string(kNoticesTable), notice_key(number), std::nullopt});
  }
}

}  // namespace volador::jobs
