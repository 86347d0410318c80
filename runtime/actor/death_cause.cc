#include "runtime/actor/death_cause.h"

#include <algorithm>
#include <cstring>

#include "runtime/ids.h"
#include "runtime/protocol/cause.h"

namespace volador {

namespace {

// One line: "its process exited with code 3", "node b was lost".
Reason what_ended_it(const protocol::DeathCause& cause) {
  switch (cause.kind()) {
    case protocol::DeathCause::EXITED:
      return reason("died.exited", cause.exit_code());
    case protocol::DeathCause::SIGNALED:
      return reason("died.signal", cause.signal(), strsignal(cause.signal()));
    case protocol::DeathCause::KILLED:
      return reason("died.killed");
    case protocol::DeathCause::NODE_LOST:
      return cause.node_name().empty() ? reason("died.node_lost") : reason("died.named_node_lost", cause.node_name());
    case protocol::DeathCause::DRIVER_GONE:
      return reason("died.driver");
    case protocol::DeathCause::CONSTRUCTOR_THREW:
      return reason("died.threw");
    case protocol::DeathCause::START_FAILED:
      return reason("died.not_started");
    case protocol::DeathCause::LEASE_LOST:
      return reason("died.lease_lost");
    case protocol::DeathCause::OUT_OF_MEMORY:
      return reason("died.out_of_memory");
    case protocol::DeathCause::UNHEALTHY:
      return reason("died.unhealthy");
    default:
      return reason("died.unknown");
  }
}

// Each line is preceded by a line break.
std::string indented_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out += "\n    ";
    out += text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

Reason death_reason(const protocol::ActorInfo& actor) {
  const protocol::DeathCause& cause = actor.cause();
  const Reason what = actor.display().empty() ? reason("died.unnamed", actor.class_name()) : Reason(actor.display());
  const std::string id = short_id(id_from_raw<ActorId>(actor.actor_id()));
  const std::string& node = cause.node_name().empty() ? actor.node_name() : cause.node_name();
  Reason why = because(what_ended_it(cause), message_of(cause));
  Reason died = node.empty() ? reason("died.actor", what, id, std::move(why))
                             : reason("died.actor_on", what, id, node, std::move(why));
  if (cause.pid() != 0) died = reason("died.process", std::move(died), cause.pid());
  if (cause.stderr_tail().empty()) return died;
  return reason("died.wrote", std::move(died), indented_lines(cause.stderr_tail()));
}

Error death_error(const protocol::ActorInfo& actor) { return Error{ErrorCode::kActorDied, death_reason(actor).text()}; }

}  // namespace volador
