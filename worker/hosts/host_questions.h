// Requests to hosts on behalf of the head, until they answer, end or time out. Pure: no clock, thread, I/O or
// randomness; request numbers are local to this node.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/host.pb.h"

namespace volador::worker {

// Table of pending requests. Not thread safe.
class HostQuestions {
 public:
  static constexpr std::chrono::seconds kPatience{6};  // For a host; shorter than the head's patience for the node.
  static constexpr size_t kMost = 1000;                // Pending requests to all hosts; further ones are rejected.

  struct ToAsk {
    HostId host;
    protocol::ToHost message;
  };
  // Messages to hosts, and immediate answers.
  struct Step {
    std::vector<ToAsk> ask;
    std::vector<protocol::WorkerMessage> answers;
  };

  // `host`: the process of the actor; nothing: there is none here.
  Step read_stacks(BootTime now, const protocol::ReadStacks& asked, std::optional<HostId> host);
  // Queries all these hosts.
  Step read_timeline(BootTime now, const protocol::ReadTimeline& asked, const std::vector<HostId>& hosts);
  // Answers without a pending request are dropped.
  Step on_stacks(const protocol::Stacks& stacks);
  Step on_timeline(const protocol::Timeline& timeline);
  Step on_tick(BootTime now);
  std::optional<BootTime> next_tick() const;
  // The requesting head is gone: drops all requests.
  void clear();

 private:
  struct Question {
    uint64_t request = 0;
    bool stacks = false;
    protocol::Timeline timeline;  // Partial answer.
    std::set<uint64_t> missing;   // Numbers of pending requests to hosts.
    BootTime until{};
  };
  uint64_t ask_host(uint64_t question);
  void answer_stacks(Step& step, uint64_t request, const Error& error);

  uint64_t next_ = 1;
  std::map<uint64_t, Question> questions_;
  std::map<uint64_t, uint64_t> of_;  // From a host request to its question.
};

}  // namespace volador::worker
