#include "runtime/actor/host_answers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "runtime/actor/call_trace.h"
#include "runtime/ids.h"
#include "runtime/protocol/error_info.h"
#include "runtime/stacks/frame_names.h"
#include "runtime/stacks/program_frames.h"
#include "runtime/stacks/thread_stacks.h"

namespace volador {
namespace {

constexpr std::chrono::milliseconds kProgramPatience{1500};  // For frames of the program's language.
constexpr std::chrono::seconds kPatience{3};                 // For all threads together.
constexpr size_t kAnswerBytesMax = 4 << 20;                  // For stacks; frames of further threads are omitted.

}  // namespace

protocol::Stacks read_stacks(const protocol::ReadStacks& asked, const Clock& clock) {
  protocol::Stacks answer;
  answer.set_request(asked.request());
  answer.set_pid(::getpid());
  stacks::ProgramFrames program = stacks::read_program_frames(kProgramPatience);
  const auto captured = stacks::capture(kPatience);
  if (!captured) {
    fill(*answer.mutable_error(), captured.error());
    return answer;
  }
  stacks::FrameNames names;
  size_t bytes = 0;
  const auto add_frame = [&](protocol::ThreadStack& row, const std::string& frame) {
    row.add_frames(frame);
    bytes += frame.size();
  };
  std::set<int> in_program;  // Threads with frames of the program's language.
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
    if (const auto found = program.threads.find(one.handle); found != program.threads.end()) {
      for (const std::string& frame : found->second) add_frame(row, frame);
      row.set_note(program.note);
      in_program.insert(one.thread.id);
      program.threads.erase(found);
    }
    for (size_t at = 0; at < one.frames.size(); ++at) add_frame(row, names.name_of(one.frames[at], at > 0));
  }
  for (const auto& [handle, frames] : program.threads) {
    if (bytes > kAnswerBytesMax) break;
    protocol::ThreadStack& row = *answer.add_threads();
    row.set_name(fmt::format("{:#x}", handle));
    row.set_state("?");
    row.set_note("one of the threads without native frames");
    for (const std::string& frame : frames) add_frame(row, frame);
    in_program.insert(0);
  }
  // Threads that run something of the actor come first, then those with frames of the program's language.
  std::stable_sort(answer.mutable_threads()->begin(), answer.mutable_threads()->end(),
                   [&](const auto& a, const auto& b) {
                     const auto rank = [&](const protocol::ThreadStack& row) {
                       if (row.runs().empty()) return in_program.contains(row.thread()) ? 2 : 3;
                       return row.actor_id() == asked.actor_id() ? 0 : 1;
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
