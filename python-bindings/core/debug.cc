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

// A debugger in which a thread waits. `words`: the program that connects a terminal with it, which takes "name thread
// place" of each debugger that its user may choose from. All debuggers of an actor have the same program.
struct Waiting {
  ActorId actor;
  int64_t thread = 0;  // As the kernel numbers it.
  std::string place;
  std::string name;
  std::vector<std::string> words;
  metrics::Gauge shown;
};

// Thread safe; needs no interpreter lock.
class Debuggers {
 public:
  int64_t add(std::string place, int64_t thread, std::string name, std::vector<std::string> words) {
    const size_t begin = place.size() - std::min(place.size(), MetricLimits::kNameBytes);
    metrics::Gauge shown(std::string(kBreakpointMetric),
                         {.help = "Waits in a debugger at this place: volador debug attaches to it",
                          .labels = {{std::string(kBreakpointLabel), place.substr(begin)}}});
    shown.set(1);
    const std::lock_guard hold(mutex_);
    waiting_.emplace(++last_, Waiting{.actor = self().id,
                                      .thread = thread,
                                      .place = std::move(place),
                                      .name = std::move(name),
                                      .words = std::move(words),
                                      .shown = std::move(shown)});
    return last_;
  }
  // The metric keeps the first place, since each one is a series of its own.
  void move(int64_t number, std::string place) {
    const std::lock_guard hold(mutex_);
    const auto found = waiting_.find(number);
    if (found != waiting_.end()) found->second.place = std::move(place);
  }
  void remove(int64_t number) {
    const std::lock_guard hold(mutex_);
    const auto found = waiting_.find(number);
    if (found == waiting_.end()) return;
    found->second.shown.set(0);
    waiting_.erase(found);
  }

  // The terminal of the thread of the actor that waits, or of one of several that the user chooses.
  CommandAnswer start(ActorId actor, RemoteCommand command) {
    const std::lock_guard hold(mutex_);
    std::vector<const Waiting*> found;
    for (const auto& [number, one] : waiting_) {
      if (one.actor == actor) found.push_back(&one);
    }
    if (found.empty())
      return jobs::answer_of(make_error(ErrorCode::kUnavailable,
                                        "it waits in no debugger now; it does at breakpoint() in its code, and after "
                                        "an exception if VOLADOR_POST_MORTEM=1 is set for its program"));
    command.words = found.front()->words;
    for (const Waiting* one : found)
      command.words.insert(command.words.end(), {one->name, std::to_string(one->thread), one->place});
    command.by_user = true;
    command.port = 0;
    return jobs::answer_of(commands().start(command));
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
  module.def("debugger_waits", [](std::string place, int64_t thread, std::string name, std::vector<std::string> words) {
    return debuggers().add(std::move(place), thread, std::move(name), std::move(words));
  });
  module.def("debugger_moves", [](int64_t number, std::string place) { debuggers().move(number, std::move(place)); });
  module.def("debugger_ends", [](int64_t number) { debuggers().remove(number); });
}

}  // namespace volador::python
