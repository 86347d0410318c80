#include "jobs/notify/notice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>

#include "runtime/quantities.h"
#include "runtime/utf8.h"

namespace volador::jobs {
namespace {

constexpr size_t kNoticeWordBytesMax = 200;
constexpr size_t kNoticeReasonBytesMax = 1000;
constexpr size_t kNoticeJobsMax = 20;  // Described in one message.
constexpr int kNoticeNodesMax = 8;     // Named in one message.

struct EventWords {
  std::string_view event;
  std::string_view says;  // Follows the name of the job.
  bool is_end;
};
constexpr std::array kEventWords{
    EventWords{"started", "started", false},   EventWords{"succeeded", "succeeded", true},
    EventWords{"failed", "failed", true},      EventWords{"stopped", "was stopped", true},
    EventWords{"expired", "expired", true},    EventWords{"preempted", "was preempted", false},
    EventWords{"alert", "has an alert", false}};

const EventWords& event_words(std::string_view event) {
  const auto found = std::ranges::find(kEventWords, event, &EventWords::event);
  return found == kEventWords.end() ? kEventWords.back() : *found;
}

bool is_default_event(std::string_view event) { return event == "failed" || event == "expired" || event == "alert"; }

bool takes(const v1::Notification& notification, std::string_view event) {
  if (notification.events().empty()) return is_default_event(event);
  return std::ranges::find(notification.events(), event) != notification.events().end();
}

std::string one_title(const protocol::JobNotice& notice) {
  const v1::Job& job = notice.job();
  const std::string name = plain_text(job.spec().name(), kNoticeWordBytesMax);
  std::string out =
      fmt::format("{}{} {}", job.id(), name == job.id() ? "" : " " + name, event_words(notice.event()).says);
  if (!job.reason().empty()) out += ": " + plain_text(job.reason(), kNoticeReasonBytesMax);
  return out;
}

// Text of at most `bytes_max` bytes that ends at a whole character.
std::string shortened(std::string text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  constexpr std::string_view kMore = "\n…";
  size_t end = bytes_max - kMore.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text.append(kMore);
}

std::string details(const protocol::JobNotice& notice, const NoticeContext& context) {
  const v1::Job& job = notice.job();
  std::string out;
  const auto line = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) out += fmt::format("{}: {}\n", name, value);
  };
  line("cluster", plain_text(context.cluster, kNoticeWordBytesMax));
  line("project", plain_text(job.spec().project(), kNoticeWordBytesMax));
  line("user", plain_text(job.user(), kNoticeWordBytesMax));
  line("state", job.state());
  std::vector<std::string> nodes;
  for (const v1::JobRank& rank : job.ranks()) {
    if (static_cast<int>(nodes.size()) == kNoticeNodesMax) {
      nodes.push_back(fmt::format("{} more", job.ranks_size() - kNoticeNodesMax));
      break;
    }
    if (!rank.node().empty()) nodes.push_back(plain_text(rank.node(), kNoticeWordBytesMax));
  }
  line("nodes", fmt::format("{}", fmt::join(nodes, ", ")));
  if (job.ended_ms() != 0 && job.ran_ms() > 0) line("ran", format_duration(std::chrono::milliseconds(job.ran_ms())));
  if (job.state() == "failed") line("exit code", std::to_string(job.exit_code()));
  line("page", notice_page(notice, context));
  return out;
}

}  // namespace

std::vector<std::string> notice_targets(const v1::QueueSettings& settings, const v1::JobSpec& spec,
                                        std::string_view event) {
  const std::set<std::string> named(spec.notify().begin(), spec.notify().end());
  std::vector<std::string> out;
  for (const v1::Notification& each : settings.notifications()) {
    const bool of_project = std::ranges::find(each.projects(), spec.project()) != each.projects().end();
    if ((of_project || named.contains(each.name())) && takes(each, event)) out.push_back(each.name());
  }
  if (event == "preempted" || settings.mail().host().empty()) return out;
  for (const std::string& each : named) {
    if (each.find('@') != std::string::npos) out.push_back(each);
  }
  return out;
}

v1::Job job_for_notice(const v1::Job& job) {
  v1::Job out;
  out.set_id(job.id());
  out.mutable_spec()->set_name(job.spec().name());
  out.mutable_spec()->set_project(job.spec().project());
  out.set_state(job.state());
  out.set_reason(plain_text(job.reason(), kNoticeReasonBytesMax));
  out.set_ended_ms(job.ended_ms());
  out.set_ran_ms(job.ran_ms());
  out.set_exit_code(job.exit_code());
  out.set_user(job.user());
  for (const v1::JobRank& rank : job.ranks()) out.add_ranks()->set_node(rank.node());
  return out;
}

std::string notice_title(const std::vector<protocol::JobNotice>& notices) {
  if (notices.size() == 1) return one_title(notices.front());
  const bool all_ended =
      std::ranges::all_of(notices, [](const auto& each) { return event_words(each.event()).is_end; });
  std::vector<std::string> counts;
  for (const EventWords& word : kEventWords) {
    const auto count = std::ranges::count(notices, word.event, &protocol::JobNotice::event);
    if (count > 0) counts.push_back(fmt::format("{} {}", count, word.event));
  }
  return fmt::format(
      "{}: {}",
      counted(notices.size(), all_ended ? "job ended" : "event of jobs", all_ended ? "jobs ended" : "events of jobs"),
      fmt::join(counts, ", "));
}

std::string notice_text(const std::vector<protocol::JobNotice>& notices, const NoticeContext& context,
                        size_t bytes_max) {
  std::string out =
      fmt::format("[volador {}] {}\n\n", plain_text(context.cluster, kNoticeWordBytesMax), notice_title(notices));
  if (notices.size() == 1) return shortened(out + details(notices.front(), context), bytes_max);
  for (size_t i = 0; i < std::min(notices.size(), kNoticeJobsMax); ++i) {
    out += one_title(notices[i]) + "\n";
    if (const std::string page = notice_page(notices[i], context); !page.empty()) out += "  " + page + "\n";
  }
  if (notices.size() > kNoticeJobsMax) out += fmt::format("and {} more\n", notices.size() - kNoticeJobsMax);
  return shortened(std::move(out), bytes_max);
}

std::string notice_page(const protocol::JobNotice& notice, const NoticeContext& context) {
  return context.page.empty() ? "" : fmt::format("{}/#/jobs/{}", context.page, notice.job().id());
}

std::string notice_id(const protocol::JobNotice& notice, const NoticeContext& context) {
  return fmt::format("{}-{}-{}", context.cluster_id, notice.at_ms(), notice.number());
}

}  // namespace volador::jobs
