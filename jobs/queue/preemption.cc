// Which running jobs must end so that a blocked job of high priority can start.
#include <algorithm>
#include <tuple>
#include <utility>

#include "jobs/queue/planner_state.h"

namespace volador::jobs {

bool PlannerState::may_preempt(uint32_t job) const {
  return options->preempt_from && jobs[job].priority >= *options->preempt_from && ends == QueueRun::Ends::kPredicted;
}

std::optional<PlannerState::PreemptionFit> PlannerState::preemption_for(uint32_t job) {
  const Shape& shape = shapes[jobs[job].shape];
  later = free;
  fits_later.assign(nodes->size(), 0);
  size_t fitting = 0;
  const auto usable = [&](const Hold& hold) {
    return hold.node != kNoIndex && takes_jobs(hold.node) && allowed_on(shape, hold.node);
  };
  const auto recheck = [&](uint32_t node) {
    const size_t ranks = ranks_in(&later[node * width], shape);
    fitting += ranks;
    fitting -= std::exchange(fits_later[node], static_cast<uint32_t>(ranks));
  };
  // Adds the holdings to `later` on the nodes that the job may use, or subtracts them.
  const auto give = [&](uint32_t index, int sign) {
    for (const Hold& hold : running[index].held) {
      if (!usable(hold)) continue;
      for (size_t i = 0; i < width; ++i) later[hold.node * width + i] += sign * row(hold.row)[i];
      recheck(hold.node);
    }
  };
  for (const uint32_t node : pools[shape.pool].order) {
    if (allowed_on(shape, node)) recheck(node);
  }
  std::vector<uint32_t> candidates;
  std::vector<uint32_t> leaving;
  for (uint32_t index = 0; index < running.size(); ++index) {
    const Running& run = running[index];
    if (!run.present || !std::ranges::any_of(run.held, usable)) continue;
    if (run.leaving || std::ranges::find(victims, index) != victims.end()) {
      give(index, +1);
      leaving.push_back(index);
    } else if (run.priority < jobs[job].priority) {
      candidates.push_back(index);
    }
  }
  std::ranges::sort(candidates, {}, [&](uint32_t index) {
    const Running& run = running[index];
    return std::tuple(run.priority, -run.started_ms, -static_cast<int64_t>(run.number));
  });
  PreemptionFit result;
  for (size_t at = 0; at < candidates.size() && fitting < shape.least; ++at) {
    result.victims.push_back(candidates[at]);
    give(candidates[at], +1);
  }
  if (fitting < shape.least) return std::nullopt;
  for (size_t at = result.victims.size(); at-- > 0;) {
    const uint32_t victim = result.victims[at];
    give(victim, -1);
    if (fitting >= shape.least) {
      result.victims.erase(result.victims.begin() + static_cast<ptrdiff_t>(at));
    } else {
      give(victim, +1);
    }
  }
  result.fit = fit_on(shape, -1, tightest_later(shape));
  result.likely_ms = now + 1;
  for (const uint32_t index : leaving) {
    const bool awaited =
        running[index].planned_ms != kJobNeverEnds && std::ranges::any_of(running[index].held, [&](const Hold& hold) {
          return std::ranges::find(result.fit.nodes, hold.node) != result.fit.nodes.end();
        });
    if (awaited) result.likely_ms = std::max(result.likely_ms, running[index].planned_ms);
  }
  return result;
}

void PlannerState::apply_preemptions() {
  for (const uint32_t victim : victims) {
    unlist_ends(victim);
    running[victim].leaving = true;
    running[victim].ends_ms = now + 1;
    set_ends(running[victim]);
    list_ends(victim, true);
  }
  victims.clear();
}

}  // namespace volador::jobs
