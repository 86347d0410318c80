#include "runtime/actor/death_cause.h"

#include <fmt/format.h>

#include <cstring>

#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"

namespace volador {

std::string describe(const protocol::DeathCause& cause) {
  std::string text;
  switch (cause.kind()) {
    case protocol::DeathCause::EXITED: text = fmt::format("its process exited with code {}", cause.exit_code()); break;
    case protocol::DeathCause::SIGNALED: text = fmt::format("its process was ended by signal {} ({})", cause.signal(), strsignal(cause.signal())); break;
    case protocol::DeathCause::KILLED: text = "it was killed on request"; break;
    case protocol::DeathCause::NODE_LOST:
      text = cause.node_name().empty() ? "its node was lost" : fmt::format("node {} was lost", cause.node_name());
      break;
    case protocol::DeathCause::DRIVER_GONE: text = "its driver ended"; break;
    case protocol::DeathCause::CONSTRUCTOR_THREW: text = "its constructor threw"; break;
    case protocol::DeathCause::START_FAILED: text = "its host could not be started"; break;
    case protocol::DeathCause::LEASE_LOST: text = "its node was away for too long and lost its lease"; break;
    case protocol::DeathCause::OUT_OF_MEMORY: text = "it ran out of memory"; break;
    case protocol::DeathCause::UNHEALTHY: text = "its health check did not pass"; break;
    default: text = "it ended"; break;
  }
  if (!cause.message().empty()) text += ": " + cause.message();
  return text;
}

Error death_error(const protocol::ActorInfo& actor) {
  const protocol::DeathCause& cause = actor.cause();
  const std::string what = actor.display().empty() ? fmt::format("actor {}", actor.class_name()) : actor.display();
  const std::string node = cause.node_name().empty() ? actor.node_name() : cause.node_name();
  std::string text = fmt::format("{} {}{} died: {}", what, short_id(id_from_raw<ActorId>(actor.actor_id())), node.empty() ? "" : fmt::format(" on node {}", node),
                                 describe(cause));
  if (cause.pid() != 0) text += fmt::format(" (pid {})", cause.pid());
  if (!cause.stderr_tail().empty()) {
    text += "\n  the last it wrote to stderr:";
    std::string_view rest = cause.stderr_tail();
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      text += "\n    ";
      text += rest.substr(0, end);
      rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    }
  }
  return Error{ErrorCode::kActorDied, std::move(text)};
}

}  // namespace volador
