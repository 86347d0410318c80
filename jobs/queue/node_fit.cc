// Nodes with room for a job: best fit first.
#include <algorithm>

#include "jobs/queue/planner_state.h"

namespace volador::jobs {

bool PlannerState::comes_first(uint32_t a, uint32_t b) const {
  const Amount* left = &free[a * width];
  const Amount* right = &free[b * width];
  for (size_t i = 0; i < width; ++i) {
    if (left[i] != right[i]) return left[i] < right[i];
  }
  return a < b;
}

void PlannerState::sort_nodes(Pool& pool) {
  std::ranges::sort(pool.order, [&](uint32_t a, uint32_t b) { return comes_first(a, b); });
}

void PlannerState::change_free(uint32_t node, const Amount* change, int sign) {
  std::vector<uint32_t>& order = pools[pool_of_node[node]].order;
  const auto less = [&](uint32_t a, uint32_t b) { return comes_first(a, b); };
  const bool listed = takes_jobs(node);
  if (listed) order.erase(std::lower_bound(order.begin(), order.end(), node, less));
  for (size_t i = 0; i < width; ++i) free[node * width + i] += sign * change[i];
  if (listed) order.insert(std::lower_bound(order.begin(), order.end(), node, less), node);
}

std::vector<uint32_t>::const_iterator PlannerState::first_with_gpus(const Shape& shape) const {
  const std::vector<uint32_t>& order = pools[shape.pool].order;
  const Amount gpus = row(shape.need)[kGpuColumn];
  if (gpus <= 0) return order.begin();
  return std::ranges::partition_point(order, [&](uint32_t node) { return free[node * width + kGpuColumn] < gpus; });
}

bool PlannerState::choose(const Shape& shape, ReservationSet respected, size_t most) {
  chosen.clear();
  const std::vector<uint32_t>& order = pools[shape.pool].order;
  for (auto at = first_with_gpus(shape); at != order.end(); ++at) {
    if (!covers(&free[*at * width], shape) || !allowed_on(shape, *at) || !leaves(shape, *at, respected)) continue;
    chosen.push_back(*at);
    if (chosen.size() == most) break;
  }
  return chosen.size() >= shape.least;
}

bool PlannerState::leaves(const Shape& shape, uint32_t node, ReservationSet respected) const {
  const Pool& pool = pools[shape.pool];
  for (size_t i = 0; respected >> i != 0; ++i) {
    if ((respected >> i & 1) == 0) continue;
    const int32_t at = place[i][node];
    if (at >= 0 && !covers(&pool.reservations[i].left[static_cast<size_t>(at) * width], shape)) return false;
  }
  return true;
}

void PlannerState::raise_to(std::vector<Amount>& largest, uint32_t node) const {
  for (size_t i = 0; i < width; ++i) largest[i] = std::max(largest[i], free[node * width + i]);
}

std::vector<std::string> PlannerState::names_of(const std::vector<uint32_t>& some) const {
  std::vector<std::string> names;
  names.reserve(some.size());
  for (const uint32_t node : some) names.push_back((*nodes)[node].name);
  return names;
}

}  // namespace volador::jobs
