// What is asked of hosts on behalf of the head, until they answer, end, or have had their time.
// Pure: no clock, thread, I/O or randomness; numbers of questions are this node's own.
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

class HostQuestions {
 public:
  static constexpr std::chrono::seconds kPatience{6};  // Of a host; less than the head waits for the node.
  static constexpr size_t kMost = 1000;                // Under way, of all hosts; further ones are refused.

  struct ToAsk {
    HostId host;
    protocol::ToHost message;
  };
  // What goes to hosts, and what is answered now.
  struct Step {
    std::vector<ToAsk> ask;
    std::vector<protocol::WorkerMessage> answers;
  };

  // Of the process that runs the actor; none: there is no such one here.
  Step read_stacks(BootTime now, const protocol::ReadStacks& asked, std::optional<HostId> host);
  // Of all these.
  Step read_timeline(BootTime now, const protocol::ReadTimeline& asked, const std::vector<HostId>& hosts);
  // An answer that nobody waits for is dropped.
  Step on_stacks(const protocol::Stacks& stacks);
  Step on_timeline(const protocol::Timeline& timeline);
  Step on_tick(BootTime now);
  std::optional<BootTime> next_tick() const;
  // The head that asked is gone: nobody waits for answers any more.
  void clear();

 private:
  struct Question {
    uint64_t request = 0;
    bool stacks = false;
    protocol::Timeline timeline;  // As far as it is known.
    std::set<uint64_t> missing;   // Numbers of what was asked of hosts.
    BootTime until{};
  };
  uint64_t ask_host(uint64_t question);
  void answer_stacks(Step& step, uint64_t request, const Error& error);

  uint64_t next_ = 1;
  std::map<uint64_t, Question> questions_;
  std::map<uint64_t, uint64_t> of_;  // From what was asked of a host to its question.
};

}  // namespace volador::worker
