#include "jobs/notify/notice_outbox.h"

#include <algorithm>
#include <utility>

namespace volador::jobs {

void NoticeOutbox::add(protocol::JobNotice notice) {
  Target& target = targets_[notice.target()];
  target.waiting.push_back(std::move(notice));
}

std::optional<NoticeOutbox::Batch> NoticeOutbox::next(BootTime now,
                                                      const std::function<NoticePace(const std::string&)>& pace) {
  std::erase_if(targets_,
                [&](const auto& each) { return each.second.waiting.empty() && each.second.not_before <= now; });
  auto first = targets_.end();
  for (auto at = targets_.begin(); at != targets_.end(); ++at) {
    if (at->second.waiting.empty() || at->second.not_before > now) continue;
    if (first == targets_.end() || at->second.not_before < first->second.not_before) first = at;
  }
  if (first == targets_.end()) return std::nullopt;
  Target& target = first->second;
  const NoticePace allowed = pace(first->first);
  target.pause = allowed.pause;
  const size_t count = std::min(target.waiting.size(), std::max<size_t>(1, allowed.together));
  return Batch{.target = first->first,
               .notices = {target.waiting.begin(), target.waiting.begin() + static_cast<std::ptrdiff_t>(count)},
               .attempt = target.attempts + 1};
}

NoticeOutbox::Settled NoticeOutbox::settle(const Batch& batch, const outgoing::Answer& answer, BootTime now) {
  Settled settled;
  Target& target = targets_.at(batch.target);
  ++target.attempts;
  target.not_before = now + target.pause;
  if (!answer.delivered) {
    const auto pause =
        answer.is_final ? std::nullopt : outgoing::pause_before_next(plan_, target.attempts, answer.status);
    if (pause) {
      target.not_before = now + std::max(*pause, target.pause);
      return settled;
    }
    settled.gave_up = true;
  }
  target.attempts = 0;
  for (const protocol::JobNotice& each : batch.notices) settled.finished.push_back(each.number());
  target.waiting.erase(target.waiting.begin(),
                       target.waiting.begin() + static_cast<std::ptrdiff_t>(batch.notices.size()));
  return settled;
}

std::optional<BootTime> NoticeOutbox::due() const {
  std::optional<BootTime> first;
  for (const auto& [name, target] : targets_) {
    if (!target.waiting.empty() && (!first || target.not_before < *first)) first = target.not_before;
  }
  return first;
}

}  // namespace volador::jobs
