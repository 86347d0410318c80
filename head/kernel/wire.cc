#include "head/kernel/wire.h"

#include <fmt/format.h>

#include <csignal>

namespace volador::head {
namespace {

std::string_view signal_name(int number) {
  switch (number) {
    case SIGABRT:
      return "SIGABRT";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGHUP:
      return "SIGHUP";
    case SIGILL:
      return "SIGILL";
    case SIGINT:
      return "SIGINT";
    case SIGKILL:
      return "SIGKILL";
    case SIGSEGV:
      return "SIGSEGV";
    case SIGTERM:
      return "SIGTERM";
    default:
      return "";
  }
}

Reason what_ended_it(const protocol::DeathCause& cause) {
  using Cause = protocol::DeathCause;
  switch (cause.kind()) {
    case Cause::EXITED:
      return reason("ended.exited", cause.exit_code());
    case Cause::SIGNALED: {
      const std::string_view name = signal_name(cause.signal());
      return name.empty() ? reason("ended.signal", cause.signal()) : reason("ended.signal_named", cause.signal(), name);
    }
    case Cause::KILLED:
      return reason("ended.killed");
    case Cause::NODE_LOST:
      return reason("ended.node_lost");
    case Cause::DRIVER_GONE:
      return reason("ended.owner_gone");
    case Cause::CONSTRUCTOR_THREW:
      return reason("ended.threw");
    case Cause::START_FAILED:
      return reason("ended.not_started");
    case Cause::LEASE_LOST:
      return reason("ended.lease_lost");
    case Cause::OUT_OF_MEMORY:
      return reason("ended.out_of_memory");
    case Cause::UNHEALTHY:
      return reason("ended.unhealthy");
    default:
      return reason("ended.unknown");
  }
}

}  // namespace

Result<ResourceSet> resources_from(const protocol::ResourceMap& map, const Limits& limits) {
  if (map.amounts().size() > limits.resource_names) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("resources: expected at most {} names, got {}",
                                                               limits.resource_names, map.amounts().size()));
  }
  constexpr Amount kMost = Amount{1} << 50;  // Keeps sums over all nodes far from overflow.
  for (const auto& [name, amount] : map.amounts()) {
    if (name.empty() || name.size() > limits.name_bytes) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("resources: expected names of 1 to {} bytes, got one of {}", limits.name_bytes, name.size()));
    }
    if (amount < 0 || amount > kMost) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("resources.{}: expected 0 to {}, got {}", name, kMost, amount));
    }
    if (name == "gpus" && amount > kUnit && amount % kUnit != 0) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format(
              "resources.gpus: expected a whole number above 1, got {}; ask a fraction of one GPU or whole GPUs",
              format_amount(amount)));
    }
  }
  return resources_of(map);
}

std::map<std::string, std::string> labels_from(const google::protobuf::Map<std::string, std::string>& labels) {
  return {labels.begin(), labels.end()};
}

Reason describe(const protocol::DeathCause& cause) {
  Reason what = what_ended_it(cause);
  // A requested end is not related to the node.
  const bool asked_for =
      cause.kind() == protocol::DeathCause::KILLED || cause.kind() == protocol::DeathCause::DRIVER_GONE;
  if (!asked_for && !cause.node_name().empty()) what = reason("ended.on", std::move(what), cause.node_name());
  return because(std::move(what), message_of(cause));
}

// Chinese uses another word for ALIVE than for live nodes.
Reason::Argument word_of(protocol::ActorState state) {
  return state == protocol::ALIVE ? Reason::Argument(reason("state.alive")) : cluster_word(state_name(state));
}

std::string_view state_name(protocol::ActorState state) {
  switch (state) {
    case protocol::PENDING:
      return "pending";
    case protocol::STARTING:
      return "starting";
    case protocol::ALIVE:
      return "alive";
    case protocol::RESTARTING:
      return "restarting";
    case protocol::DEAD:
      return "dead";
    default:
      return "unknown";
  }
}

std::string_view group_state_name(protocol::GroupState state) {
  switch (state) {
    case protocol::GROUP_PENDING:
      return "pending";
    case protocol::GROUP_READY:
      return "ready";
    case protocol::GROUP_RESCHEDULING:
      return "rescheduling";
    case protocol::GROUP_REMOVED:
      return "removed";
    default:
      return "unknown";
  }
}

std::string in_seconds(std::chrono::nanoseconds span) {
  return fmt::format("{:.1f} s", std::max(0.0, std::chrono::duration<double>(span).count()));
}

size_t bytes_of(const google::protobuf::Map<std::string, std::string>& map) {
  size_t bytes = 0;
  for (const auto& [key, value] : map) bytes += key.size() + value.size();
  return bytes;
}

}  // namespace volador::head
