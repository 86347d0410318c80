#include "python-bindings/core/debug.h"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "jobs/command.h"
#include "jobs/remote/remote_commands.h"
#include "python-bindings/core/convert.h"
#include "runtime/actor/metrics.h"
#include "runtime/actor/process_calls.h"
#include "runtime/actor/self.h"
#include "runtime/actor/type_name.h"
#include "runtime/debugging.h"
#include "runtime/metric_rules.h"

namespace volador::python {
namespace {

using jobs::CommandAnswer;
using jobs::CommandInput;
using jobs::RemoteCommand;

// Where a thread waits, and the program that connects a terminal with its debugger.
struct Waiting {
  ActorId actor;
  std::vector<std::string> words;
  metrics::Gauge shown;
};

// Thread safe; needs no interpreter lock.
class Debuggers {
 public:
  int64_t add(const std::string& place, std::vector<std::string> words) {
    const size_t begin = place.size() - std::min(place.size(), MetricLimits::kNameBytes);
    metrics::Gauge shown(std::string(kBreakpointMetric),
                         {.help = "Waits in a debugger at this place: volador debug attaches to it",
                          .labels = {{std::string(kBreakpointLabel), place.substr(begin)}}});
    shown.set(1);
    const std::lock_guard hold(mutex_);
    waiting_.emplace(++last_, Waiting{.actor = self().id, .words = std::move(words), .shown = std::move(shown)});
    return last_;
  }
  void remove(int64_t number) {
    const std::lock_guard hold(mutex_);
    const auto found = waiting_.find(number);
    if (found == waiting_.end()) return;
    found->second.shown.set(0);
    waiting_.erase(found);
  }

  // The terminal of the first thread of the actor that waits.
  CommandAnswer start(ActorId actor, RemoteCommand command) {
    const std::lock_guard hold(mutex_);
    for (const auto& [number, one] : waiting_) {
      if (one.actor != actor) continue;
      command.words = one.words;
      command.by_user = true;
      command.port = 0;
      return jobs::answer_of(commands().start(command));
    }
    return jobs::answer_of(make_error(ErrorCode::kUnavailable,
                                      "it waits in no debugger now; it does at breakpoint() in its code, and after an "
                                      "exception if VOLADOR_POST_MORTEM=1 is set for its program"));
  }
  jobs::RemoteCommands& commands() {
    static const auto* surroundings = [] {
      auto* made = new jobs::RankSurroundings();
      std::error_code gone;
      made->directory = std::filesystem::current_path(gone);
      if (gone) made->directory = "/";
      for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
        made->environment.emplace_back(*entry);
      return made;
    }();
    static auto* made = new jobs::RemoteCommands(*surroundings);
    return *made;
  }

 private:
  std::mutex mutex_;
  int64_t last_ = 0;
  std::map<int64_t, Waiting> waiting_;
};

Debuggers& debuggers() {
  static auto* made = new Debuggers();
  return *made;
}

void read_output(const std::string& id, int64_t wait_ms, const std::shared_ptr<net::Responder>& responder) {
  debuggers().commands().take(
      id,
      [responder](jobs::RemoteCommands::Events events) {
        responder->reply(registration::encode_answer(jobs::output_of(std::move(events))));
      },
      std::chrono::milliseconds(wait_ms), [responder] { return responder->cancelled(); });
}

// Answers calls of a method of jobs::Command by `answer(actor, responder, arguments…)`.
template <auto M, class F>
void answer_calls(F answer) {
  using S = registration::Signature<decltype(M)>;
  internal::set_process_call(function_id<M>(), [answer](ActorId actor, const net::CallRequest& request,
                                                        std::shared_ptr<net::Responder> responder) {
    auto arguments = registration::TupleCodec<typename S::Arguments>::decode(request.body);
    if (!arguments) return responder->reply(make_error(std::move(arguments).error()));
    std::apply([&](auto&... parts) { answer(actor, responder, std::move(parts)...); }, *arguments);
  });
}

}  // namespace

void install_debuggers() {
  using Responder = std::shared_ptr<net::Responder>;
  answer_calls<&jobs::Command::start_command>([](ActorId actor, const Responder& responder, RemoteCommand command) {
    responder->reply(registration::encode_answer(debuggers().start(actor, std::move(command))));
  });
  answer_calls<&jobs::Command::read_command>([](ActorId, const Responder& responder, const std::string& id,
                                                int64_t wait_ms) { read_output(id, wait_ms, responder); });
  answer_calls<&jobs::Command::write_command>([](ActorId, const Responder& responder, CommandInput input) {
    responder->reply(registration::encode_answer(jobs::give_input(debuggers().commands(), std::move(input))));
  });
}

void bind_debug(nb::module_& module) {
  module.def("debugger_waits", [](const std::string& place, std::vector<std::string> words) {
    return debuggers().add(place, std::move(words));
  });
  module.def("debugger_ends", [](int64_t number) { debuggers().remove(number); });
}

}  // namespace volador::python
