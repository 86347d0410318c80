// Selects the actors shown in a list. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace volador::v1 {
class ListActorsReply;
}

namespace volador::cli {

// "live" (all but dead), "all", or a single state.
const std::vector<std::string>& actor_states();

// Keeps the rows of that state, at most `limit`; total counts all of them. Returns the number of dead actors omitted.
int64_t keep_actors(v1::ListActorsReply& reply, const std::string& state, int limit);

// Class names of the runtime itself are not informative to users: such rows show the current work, "tasks" or "trial
// 3f2a90c1".
void name_for_people(v1::ListActorsReply& reply);

}  // namespace volador::cli
