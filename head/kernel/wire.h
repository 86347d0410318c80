// Conversions between control plane messages and the head's types.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "head/kernel/options.h"
#include "runtime/language/reason.h"
#include "runtime/protocol/cause.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/resource_map.h"
#include "runtime/resources.h"
#include "runtime/result.h"

namespace volador::head {

// kInvalidArgument: a negative amount, a fractional amount above 1 GPU, an empty or too long name, or too many names;
// the message names the field.
Result<ResourceSet> resources_from(const protocol::ResourceMap& map, const Limits& limits);
// Sorted, so that iteration order is deterministic.
std::map<std::string, std::string> labels_from(const google::protobuf::Map<std::string, std::string>& labels);

// "exited with code 3", "killed by signal 11 (SIGSEGV): …".
Reason describe(const protocol::DeathCause& cause);
// The state as an argument of a reason's text.
Reason::Argument word_of(protocol::ActorState state);
// "pending", "starting", …
std::string_view state_name(protocol::ActorState state);
std::string_view group_state_name(protocol::GroupState state);
// Formats like "1.5 s" for messages; negative spans become "0.0 s".
std::string in_seconds(std::chrono::nanoseconds span);
// Bytes of all keys and values.
size_t bytes_of(const google::protobuf::Map<std::string, std::string>& map);

}  // namespace volador::head
