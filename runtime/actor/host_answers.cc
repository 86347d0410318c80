#include "runtime/actor/host_answers.h"

#include <unistd.h>

#include <algorithm>

#include "runtime/actor/call_trace.h"
#include "runtime/ids.h"
#include "runtime/protocol/error_info.h"
#include "runtime/stacks/frame_names.h"
#include "runtime/stacks/thread_stacks.h"

namespace volador {
namespace {

constexpr std::chrono::seconds kPatience{3};  // For all threads together.
constexpr size_t kAnswerBytesMax = 4 << 20;   // For stacks; frames of further threads are omitted.

}  // namespace

protocol::Stacks read_stacks(const protocol::ReadStacks& asked, const Clock& clock) {
  protocol::Stacks answer;
  answer.set_request(asked.request());
  answer.set_pid(::getpid());
  const auto captured = stacks::capture(kPatience);
  if (!captured) {
    fill(*answer.mutable_error(), captured.error());
    return answer;
  }
  stacks::FrameNames names;
  size_t bytes = 0;
  for (const stacks::ThreadStack& one : *captured) {
    protocol::ThreadStack& row = *answer.add_threads();
    row.set_thread(one.thread.id);
    row.set_name(one.thread.name);
    row.set_state(std::string(1, one.thread.state));
    row.set_note(one.note);
    if (const auto running = CallTrace::instance().running(one.thread.id, clock.now())) {
      row.set_runs(running->name);
      row.set_actor_id(raw(running->actor));
      row.set_runs_ns(running->span.count());
    }
    if (bytes > kAnswerBytesMax) {
      row.set_note("left out: the answer is too long");
      continue;
    }
    for (size_t at = 0; at < one.frames.size(); ++at) {
      row.add_frames(names.name_of(one.frames[at], at > 0));
      bytes += row.frames(static_cast<int>(at)).size();
    }
  }
  // Threads that run something of the actor come first.
  std::stable_sort(answer.mutable_threads()->begin(), answer.mutable_threads()->end(),
                   [&](const auto& a, const auto& b) {
                     const auto rank = [&](const protocol::ThreadStack& row) {
                       return row.runs().empty() ? 2 : row.actor_id() == asked.actor_id() ? 0 : 1;
                     };
                     return rank(a) < rank(b);
                   });
  return answer;
}

protocol::Timeline read_timeline(const protocol::ReadTimeline& asked, const Clock& clock) {
  protocol::Timeline answer;
  answer.set_request(asked.request());
  const BootTime now = clock.now();
  const int64_t unix_ns_of_boot = clock.wall().time_since_epoch().count() - now.time_since_epoch().count();
  const size_t most = asked.events() <= 0 ? CallTrace::kLargeEvents : static_cast<size_t>(asked.events());
  *answer.add_hosts() =
      CallTrace::instance().snapshot(id_from_raw<ActorId>(asked.actor_id()), most, now, unix_ns_of_boot);
  return answer;
}

}  // namespace volador
