// The blocked job of a pool: when and where it is expected to start, and what others must leave for it.
#include <algorithm>

#include "jobs/queue/planner_state.h"

namespace volador::jobs {

void PlannerState::block(uint32_t at) {
  Job& job = jobs[at];
  const Shape& shape = shapes[job.shape];
  Pool& pool = pools[shape.pool];
  pool.blocked = at;
  blocked_pools.push_back(shape.pool);
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].pool == shape.pool && shapes[i].failed == kAllFailed) closed[i] = 1;
  }
  const int64_t patience_ends = job.promised_ms > 0 ? job.promised_ms : job.submitted_ms + options->guard_ms;
  pool.guarded = now > patience_ends;
  const bool at_limits = ends == QueueRun::Ends::kAtLimits;
  auto preemption = may_preempt(at) ? preemption_for(at) : std::nullopt;
  std::optional<Fit> likely_fit;
  if (preemption) {
    for (const uint32_t victim : preemption->victims) {
      preempted.push_back({.victim = running[victim].number, .by = job.number});
      victims.push_back(victim);
    }
    pool.likely_ms = preemption->likely_ms;
    likely_fit = std::move(preemption->fit);
  } else {
    likely_fit = earliest_fit(shape, by_plan);
    pool.likely_ms = likely_fit ? likely_fit->time : 0;
  }
  auto limit_fit = at_limits ? std::nullopt : earliest_fit(shape, by_limit);
  if (likely_fit && job.promised_ms == 0) {
    earlier_promises.emplace_back(at, job.promised_ms);
    job.promised_ms = pool.likely_ms;
  }
  const bool has_limit = at_limits ? likely_fit.has_value() : limit_fit.has_value();
  if (likely_fit) pool.likely = add_reservation(pool, at, std::move(*likely_fit), pool.guarded || at_limits);
  if (at_limits && has_limit) pool.latest = pool.likely;
  if (limit_fit) pool.latest = add_reservation(pool, at, std::move(*limit_fit), true);
  if (!pool.likely || (pool.guarded && !has_limit && !preemption)) {
    pool.latest = add_reservation(pool, at, least_lacking(shape), true);
  }
}

bool PlannerState::leaves_limit(const Pool& pool, const Entry& entry, ReservationSet respected) const {
  const Shape& shape = shapes[entry.shape];
  const Amount* need = row(shape.need);
  for (size_t i = 0; respected >> i != 0; ++i) {
    const Reservation& reservation = pool.reservations[i];
    if ((respected >> i & 1) == 0 || reservation.project != jobs[entry.job].project) continue;
    for (size_t k = 0; k < width; ++k) {
      if (reservation.limit_left[k] == kNoLimit || need[k] <= 0) continue;
      if (need[k] * static_cast<Amount>(shape.least) > reservation.limit_left[k]) return false;
    }
  }
  return true;
}

size_t PlannerState::nodes_within_limits(const Pool& pool, const Entry& entry, ReservationSet respected) const {
  const Shape& shape = shapes[entry.shape];
  const Project& project = projects[jobs[entry.job].project];
  if (!project.limited || shape.least == shape.most) return shape.most;
  size_t most = shape.most;
  const auto keep_within = [&](Amount left, Amount need) {
    most = std::min(most, static_cast<size_t>(std::max<Amount>(0, left) / need));
  };
  for (size_t k = 0; k < width; ++k) {
    const Amount need = row(shape.need)[k];
    if (project.limit[k] == kNoLimit || need <= 0) continue;
    keep_within(project.limit[k] - project.used[k], need);
    for (size_t i = 0; respected >> i != 0; ++i) {
      const Reservation& reservation = pool.reservations[i];
      if ((respected >> i & 1) == 0 || reservation.project != jobs[entry.job].project) continue;
      if (reservation.limit_left[k] != kNoLimit) keep_within(reservation.limit_left[k], need);
    }
  }
  return std::max(most, shape.least);  // advance() and leaves_limit() have checked the least.
}

std::optional<PlannerState::Fit> PlannerState::earliest_fit(const Shape& shape, const std::vector<End>& by_end) {
  later = free;
  fits_later.assign(nodes->size(), 0);
  size_t fitting = 0;
  const auto check = [&](uint32_t node) {
    if ((fits_later[node] != 0 && !shape.shares) || !takes_jobs(node) || !allowed_on(shape, node)) return;
    const size_t ranks = ranks_in(&later[node * width], shape);
    fitting += ranks - fits_later[node];
    fits_later[node] = static_cast<uint32_t>(ranks);
  };
  for (auto at = first_with_gpus(shape); at != pools[shape.pool].order.end(); ++at) check(*at);
  const auto give = [&](uint32_t node, uint32_t held) {
    if (node == kNoIndex) return;
    for (size_t i = 0; i < width; ++i) later[node * width + i] += row(held)[i];
    check(node);
  };
  for (size_t at = by_end.size(); at > 0; --at) {
    const auto [end, index] = by_end[at - 1];
    const FirstHold& first = first_holds[index];
    if (first.count > 0) give(first.node, first.row);
    for (size_t i = 1; i < first.count; ++i) give(running[index].held[i].node, running[index].held[i].row);
    const bool last_at_this_time = at == 1 || by_end[at - 2].first != end;
    if (last_at_this_time && fitting >= shape.least) return fit_on(shape, end, tightest_later(shape));
  }
  return std::nullopt;
}

std::vector<uint32_t> PlannerState::tightest_later(const Shape& shape) const {
  std::vector<uint32_t> result;
  for (uint32_t node = 0; node < fits_later.size(); ++node) result.insert(result.end(), fits_later[node], node);
  const auto tighter = [&](uint32_t a, uint32_t b) {
    for (size_t i = 0; i < width; ++i) {
      const Amount left = later[a * width + i], right = later[b * width + i];
      if (left != right) return left < right;
    }
    return a < b;
  };
  const auto middle = result.begin() + static_cast<ptrdiff_t>(shape.least);
  std::ranges::partial_sort(result, middle, tighter);
  result.erase(middle, result.end());
  return result;
}

PlannerState::Fit PlannerState::fit_on(const Shape& shape, int64_t time, const std::vector<uint32_t>& on) const {
  Fit fit{.time = time, .nodes = {}, .left = {}};
  fit.left.reserve(on.size() * width);
  for (const uint32_t node : on) {
    if (fit.nodes.empty() || fit.nodes.back() != node) {
      fit.nodes.push_back(node);
      fit.left.insert(fit.left.end(), &later[node * width], &later[node * width] + width);
    }
    Amount* left = &fit.left[(fit.nodes.size() - 1) * width];
    for (size_t i = 0; i < width; ++i) left[i] -= row(shape.need)[i];
  }
  return fit;
}

PlannerState::Fit PlannerState::least_lacking(const Shape& shape) {
  later = free;
  std::vector<std::pair<double, uint32_t>> lacking;
  for (uint32_t node = 0; node < nodes->size(); ++node) {
    if (!takes_jobs(node) || !allowed_on(shape, node)) continue;
    if (!covers(&total[node * width], shape)) continue;
    double lacks = 0;
    for (size_t i = 0; i < width; ++i) {
      const Amount need = row(shape.need)[i];
      const Amount short_by = need - free[node * width + i];
      if (need > 0 && short_by > 0) lacks += static_cast<double>(short_by) / static_cast<double>(need);
    }
    lacking.emplace_back(lacks, node);
  }
  std::ranges::sort(lacking);
  std::vector<uint32_t> on;
  for (const auto& [lacks, node] : lacking)
    on.insert(on.end(), std::min(shape.least - on.size(), ranks_in(&total[node * width], shape)), node);
  return fit_on(shape, -1, on);
}

size_t PlannerState::add_reservation(Pool& pool, uint32_t job, Fit fit, bool by_limits) {
  const size_t index = pool.reservation_count++;
  Reservation& reservation = pool.reservations[index];
  reservation.time = fit.time;
  reservation.by_limits = by_limits;
  reservation.nodes = std::move(fit.nodes);
  reservation.left = std::move(fit.left);
  for (size_t at = 0; at < reservation.nodes.size(); ++at) {
    place[index][reservation.nodes[at]] = static_cast<int32_t>(at);
  }
  const Project& project = projects[jobs[job].project];
  reservation.project = kNoIndex;
  if (!project.limited) return index;
  const Shape& shape = shapes[jobs[job].shape];
  reservation.project = jobs[job].project;
  reservation.limit_left = project.limit;
  for (size_t i = 0; i < width; ++i) {
    if (project.limit[i] == kNoLimit) continue;
    const Amount needed = row(shape.need)[i] * static_cast<Amount>(shape.least);
    reservation.limit_left[i] = std::max<Amount>(0, project.limit[i] - project.used[i] - needed);
  }
  return index;
}

void PlannerState::drop_reservations(Pool& pool) {
  for (size_t i = 0; i < pool.reservation_count; ++i) {
    for (const uint32_t node : pool.reservations[i].nodes) place[i][node] = -1;
    pool.reservations[i].nodes.clear();
  }
  pool.reservation_count = 0;
  pool.likely.reset();
  pool.likely_ms = 0;
  pool.latest.reset();
  pool.blocked.reset();
  pool.guarded = false;
}

std::vector<BlockedJob> PlannerState::blocked_jobs() const {
  std::vector<BlockedJob> result;
  for (const uint32_t index : blocked_pools) {
    const Pool& pool = pools[index];
    BlockedJob& blocked = result.emplace_back();
    blocked.number = jobs[*pool.blocked].number;
    blocked.pool = pool.name;
    blocked.guarded = pool.guarded;
    blocked.likely_ms = pool.likely_ms;
    if (pool.likely) blocked.nodes = names_of(pool.reservations[*pool.likely].nodes);
    if (!pool.latest) continue;
    blocked.latest_ms = std::max<int64_t>(0, pool.reservations[*pool.latest].time);
    blocked.latest_nodes = names_of(pool.reservations[*pool.latest].nodes);
  }
  return result;
}

}  // namespace volador::jobs
