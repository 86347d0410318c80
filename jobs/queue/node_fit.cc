// Nodes with room for a job: best fit first.
#include <algorithm>
#include <functional>
#include <iterator>

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
  if (shape.shares && shape.most > 1) {
    choose_shared(shape, respected, most);
    return chosen.size() >= shape.least;
  }
  const std::vector<uint32_t>& order = pools[shape.pool].order;
  for (auto at = first_with_gpus(shape); at != order.end(); ++at) {
    if (ranks_on(*at, shape, respected) == 0) continue;
    chosen.push_back(*at);
    if (chosen.size() == most) break;
  }
  return chosen.size() >= shape.least;
}

// On few nodes, as the placement groups of the head pack.
void PlannerState::choose_shared(const Shape& shape, ReservationSet respected, size_t most) {
  std::vector<std::pair<size_t, uint32_t>> rooms;  // Best fit first.
  const std::vector<uint32_t>& order = pools[shape.pool].order;
  for (auto at = first_with_gpus(shape); at != order.end(); ++at) {
    const size_t room = std::min(most, ranks_on(*at, shape, respected));
    if (room == most) {
      chosen.assign(most, *at);
      return;
    }
    if (room > 0) rooms.emplace_back(room, *at);
  }
  std::ranges::stable_sort(rooms, std::greater<>(), &std::pair<size_t, uint32_t>::first);
  for (auto at = rooms.begin(); at != rooms.end() && chosen.size() < most; ++at) {
    const size_t left = most - chosen.size();
    // The last node is the tightest that holds the rest.
    if (at->first > left) {
      while (std::next(at) != rooms.end() && std::next(at)->first >= left) ++at;
    }
    chosen.insert(chosen.end(), std::min(left, at->first), at->second);
  }
}

size_t PlannerState::ranks_in(const Amount* available, const Shape& shape) const {
  if (!covers(available, shape)) return 0;
  if (!shape.shares) return 1;
  const Amount* need = row(shape.need);
  auto ranks = static_cast<Amount>(shape.most);
  for (size_t i = 0; i < width; ++i) {
    if (need[i] > 0) ranks = std::min(ranks, available[i] / need[i]);
  }
  return static_cast<size_t>(ranks);
}

size_t PlannerState::ranks_on(uint32_t node, const Shape& shape, ReservationSet respected) const {
  if (!covers(&free[node * width], shape) || !allowed_on(shape, node)) return 0;
  size_t ranks = ranks_in(&free[node * width], shape);
  const Pool& pool = pools[shape.pool];
  for (size_t i = 0; respected >> i != 0; ++i) {
    if ((respected >> i & 1) == 0) continue;
    const int32_t at = place[i][node];
    if (at < 0) continue;
    ranks = std::min(ranks, ranks_in(&pool.reservations[i].left[static_cast<size_t>(at) * width], shape));
  }
  return ranks;
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
