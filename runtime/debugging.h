// What debuggers of actors in other processes agree on.
#pragma once

#include <string_view>

namespace volador {

// Gauge of an actor that is above 0 while it waits in a debugger at the place that the label names, as "train.py:41".
inline constexpr std::string_view kBreakpointMetric = "breakpoint";
inline constexpr std::string_view kBreakpointLabel = "place";

// In place of a job's name in operations for commands, before the id of an actor: the command is the debugger in which
// the actor waits.
inline constexpr std::string_view kDebuggedActor = "actor:";

}  // namespace volador
