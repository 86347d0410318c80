#include "jobs/notify/notice_sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "jobs/notify/notice_message.h"
#include "runtime/log.h"
#include "runtime/quantities.h"

namespace volador::jobs {
namespace {

const v1::Notification* notification_of(const v1::QueueSettings& settings, const std::string& target) {
  const auto found = std::ranges::find(settings.notifications(), target, &v1::Notification::name);
  return found == settings.notifications().end() ? nullptr : &*found;
}

}  // namespace

NoticeSender::NoticeSender(NoticeSenderOptions options, const Clock& clock,
                           std::function<void(std::vector<int64_t>)> finished)
    : options_(std::move(options)),
      clock_(clock),
      finished_(std::move(finished)),
      outbox_(options_.plan),
      context_(options_.context),
      thread_([this] { run(); }) {}

NoticeSender::~NoticeSender() { stop(); }

void NoticeSender::set_settings(v1::QueueSettings settings) {
  const std::lock_guard hold(mutex_);
  settings_ = std::move(settings);
}

void NoticeSender::set_page(std::string url) {
  const std::lock_guard hold(mutex_);
  context_.page = std::move(url);
}

void NoticeSender::take(std::vector<protocol::JobNotice> notices) {
  const std::lock_guard hold(mutex_);
  std::ranges::move(notices, std::back_inserter(taken_));
  changed_.notify_all();
}

void NoticeSender::stop() {
  {
    const std::lock_guard hold(mutex_);
    stopped_ = true;
    transfer_.end();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void NoticeSender::run() {
  const auto pace = [](const v1::QueueSettings& settings) {
    return [&settings](const std::string& target) {
      const v1::Notification* to = notification_of(settings, target);
      return pace_of_kind(to == nullptr ? "mail" : to->kind());
    };
  };
  for (std::unique_lock hold(mutex_);;) {
    const auto awake = [this] { return stopped_ || !taken_.empty(); };
    if (const auto due = outbox_.due()) {
      changed_.wait_for(hold, std::max<std::chrono::nanoseconds>(*due - clock_.now(), std::chrono::nanoseconds(0)),
                        awake);
    } else {
      changed_.wait(hold, awake);
    }
    if (stopped_) return;
    for (protocol::JobNotice& each : std::exchange(taken_, {})) outbox_.add(std::move(each));
    const v1::QueueSettings settings = settings_;
    const NoticeContext context = context_;
    hold.unlock();
    if (const auto batch = outbox_.next(clock_.now(), pace(settings))) {
      const outgoing::Answer answer = deliver(*batch, settings, context);
      hold.lock();
      if (stopped_) return;
      hold.unlock();
      const auto settled = outbox_.settle(*batch, answer, clock_.now());
      if (!answer.delivered && (settled.gave_up || batch->attempt == 1)) {
        log::warn("jobs",
                  settled.gave_up ? "reports of jobs were not delivered" : "reports of jobs are not delivered yet",
                  {{"to", batch->target},
                   {"reports", notice_title(batch->notices)},
                   {"attempts", std::to_string(batch->attempt)},
                   {"why", answer.why}});
      }
      if (!settled.finished.empty()) finished_(settled.finished);
    }
    hold.lock();
  }
}

outgoing::Answer NoticeSender::deliver(const NoticeOutbox::Batch& batch, const v1::QueueSettings& settings,
                                       const NoticeContext& context) {
  const v1::Notification* to = notification_of(settings, batch.target);
  const int64_t now_ms = unix_ms(clock_.wall());
  if (to != nullptr && to->kind() != "mail")
    return checked_answer(to->kind(),
                          transfer_.post(notice_post(*to, batch.notices, context, now_ms), options_.timeout));
  std::vector<std::string> addresses;
  if (to != nullptr) {
    addresses.assign(to->addresses().begin(), to->addresses().end());
  } else if (batch.target.find('@') != std::string::npos) {
    addresses.push_back(batch.target);
  }
  if (addresses.empty() || !settings.has_mail())
    return {.is_final = true, .why = "the settings of the queue do not have it any more"};
  outgoing::Answer answer =
      transfer_.mail(notice_mail(settings.mail(), addresses, batch.notices, context, now_ms), options_.timeout);
  if (!answer.delivered) answer.why = fmt::format("mail server {}: {}", settings.mail().host(), answer.why);
  return answer;
}

}  // namespace volador::jobs
