#include "worker/hosts/host_questions.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/protocol/error_info.h"
#include "runtime/quantities.h"

namespace volador::worker {

uint64_t HostQuestions::ask_host(uint64_t question) {
  const uint64_t number = next_++;
  questions_.at(question).missing.insert(number);
  of_.emplace(number, question);
  return number;
}

void HostQuestions::answer_stacks(Step& step, uint64_t request, const Error& error) {
  protocol::Stacks& stacks = *step.answers.emplace_back().mutable_stacks();
  stacks.set_request(request);
  fill(*stacks.mutable_error(), error);
}

HostQuestions::Step HostQuestions::read_stacks(BootTime now, const protocol::ReadStacks& asked,
                                               std::optional<HostId> host) {
  Step step;
  if (!host) {
    answer_stacks(
        step, asked.request(),
        {ErrorCode::kUnavailable, "no process of the actor runs here now; it may be starting or ending, ask again"});
    return step;
  }
  if (of_.size() >= kMost) {
    answer_stacks(step, asked.request(),
                  {ErrorCode::kUnavailable, fmt::format("{} for processes of this node, its limit; ask again",
                                                        counted(of_.size(), "question waits", "questions wait"))});
    return step;
  }
  const uint64_t id = next_++;
  questions_[id] = {
      .request = asked.request(), .stacks = true, .timeline = {}, .missing = {}, .until = now + kPatience};
  ToAsk& one = step.ask.emplace_back();
  one.host = *host;
  *one.message.mutable_read_stacks() = asked;
  one.message.mutable_read_stacks()->set_request(ask_host(id));
  return step;
}

HostQuestions::Step HostQuestions::read_timeline(BootTime now, const protocol::ReadTimeline& asked,
                                                 const std::vector<HostId>& hosts) {
  Step step;
  const size_t room = kMost - std::min(kMost, of_.size());
  const size_t count = std::min(room, hosts.size());
  const auto left_out = static_cast<int32_t>(hosts.size() - count);
  if (count == 0) {
    protocol::Timeline& timeline = *step.answers.emplace_back().mutable_timeline();
    timeline.set_request(asked.request());
    timeline.set_silent(left_out);
    return step;
  }
  const uint64_t id = next_++;
  Question& question = questions_[id];
  question.request = asked.request();
  question.timeline.set_request(asked.request());
  question.timeline.set_silent(left_out);
  question.until = now + kPatience;
  for (size_t at = 0; at < count; ++at) {
    ToAsk& one = step.ask.emplace_back();
    one.host = hosts[at];
    *one.message.mutable_read_timeline() = asked;
    one.message.mutable_read_timeline()->set_request(ask_host(id));
  }
  return step;
}

HostQuestions::Step HostQuestions::on_stacks(const protocol::Stacks& stacks) {
  Step step;
  const auto asked = of_.find(stacks.request());
  const auto question = asked == of_.end() ? questions_.end() : questions_.find(asked->second);
  if (question == questions_.end() || !question->second.stacks) return step;
  protocol::Stacks& answer = *step.answers.emplace_back().mutable_stacks();
  answer = stacks;
  answer.set_request(question->second.request);
  of_.erase(asked);
  questions_.erase(question);
  return step;
}

HostQuestions::Step HostQuestions::on_timeline(const protocol::Timeline& timeline) {
  Step step;
  const auto asked = of_.find(timeline.request());
  const auto found = asked == of_.end() ? questions_.end() : questions_.find(asked->second);
  if (found == questions_.end() || found->second.stacks) return step;
  Question& question = found->second;
  question.missing.erase(asked->first);
  of_.erase(asked);
  question.timeline.mutable_hosts()->MergeFrom(timeline.hosts());
  if (!question.missing.empty()) return step;
  *step.answers.emplace_back().mutable_timeline() = std::move(question.timeline);
  questions_.erase(found);
  return step;
}

HostQuestions::Step HostQuestions::on_tick(BootTime now) {
  Step step;
  for (auto at = questions_.begin(); at != questions_.end();) {
    Question& question = at->second;
    if (question.until > now) {
      ++at;
      continue;
    }
    for (const uint64_t number : question.missing) of_.erase(number);
    if (question.stacks) {
      answer_stacks(step, question.request,
                    {ErrorCode::kTimeout, fmt::format("the actor's process did not answer within {} s: it may be "
                                                      "stopped (SIGSTOP, a debugger), or end at this moment",
                                                      kPatience.count())});
    } else {
      question.timeline.set_silent(question.timeline.silent() + static_cast<int32_t>(question.missing.size()));
      *step.answers.emplace_back().mutable_timeline() = std::move(question.timeline);
    }
    at = questions_.erase(at);
  }
  return step;
}

std::optional<BootTime> HostQuestions::next_tick() const {
  std::optional<BootTime> next;
  for (const auto& [id, question] : questions_) next = next ? std::min(*next, question.until) : question.until;
  return next;
}

void HostQuestions::clear() {
  questions_.clear();
  of_.clear();
}

}  // namespace volador::worker
