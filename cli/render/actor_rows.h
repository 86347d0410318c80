// Which actors a list shows. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace volador::v1 {
class ListActorsReply;
}

namespace volador::cli {

// "live", which is all but dead, "all", or one state.
const std::vector<std::string>& actor_states();

// Keeps the rows of that state, at most `limit`; total counts them all. How many dead ones that leaves out.
int64_t keep_actors(v1::ListActorsReply& reply, const std::string& state, int limit);

// Classes of the runtime itself say nothing to people: their rows show what runs in them, "tasks" or "trial 3f2a90c1".
void name_for_people(v1::ListActorsReply& reply);

}  // namespace volador::cli
