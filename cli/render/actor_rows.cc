#include "cli/render/actor_rows.h"

#include <algorithm>
#include <utility>

#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::cli {

const std::vector<std::string>& actor_states() {
  static const std::vector<std::string> kStates{"live", "all", "pending", "starting", "alive", "restarting", "dead"};
  return kStates;
}

int64_t keep_actors(v1::ListActorsReply& reply, const std::string& state, int limit) {
  const bool lists_all = state == "all";
  int64_t dead = 0;
  v1::ListActorsReply kept;
  int64_t total = 0;
  for (v1::Actor& actor : *reply.mutable_actors()) {
    const bool is_dead = actor.state() == "dead";
    if (!lists_all && (state == "live" ? is_dead : actor.state() != state)) {
      dead += is_dead ? 1 : 0;
      continue;
    }
    ++total;
    if (kept.actors_size() < limit) *kept.add_actors() = std::move(actor);
  }
  // Rows that the head omitted count only if all states are requested.
  kept.set_total(lists_all ? std::max(reply.total(), total) : total);
  reply = std::move(kept);
  return dead;
}

void name_for_people(v1::ListActorsReply& reply) {
  for (v1::Actor& actor : *reply.mutable_actors()) {
    if (actor.class_name().starts_with("volador::") && !actor.display().empty()) actor.set_class_name(actor.display());
  }
}

}  // namespace volador::cli
