// One pass over the queue: order, fair share, quotas and limits; starts what may start.
#include <algorithm>

#include "jobs/queue/planner_state.h"

namespace volador::jobs {
namespace {

constexpr size_t kTriedAlone = 16;  // More shapes: skips those that ask for more than any node has free.

}  // namespace

void PlannerState::start(const Entry& entry, ReservationSet respected) {
  Job& job = jobs[entry.job];
  Shape& shape = shapes[job.shape];
  Pool& pool = pools[shape.pool];
  Running run{.number = job.number,
              .priority = job.priority,
              .started_ms = now,
              .asked_limit_ms = entry.limit_ms == kJobNeverEnds ? 0 : entry.limit_ms,
              .asked_predicted_ms = entry.planned_ms == kJobNeverEnds ? 0 : entry.planned_ms,
              .present = true,
              .project = job.project,
              .held = {}};
  for (const uint32_t node : chosen) {
    run.held.push_back({.node = node, .row = shape.need});
    change_free(node, row(shape.need), -1);
    for (size_t i = 0; respected >> i != 0; ++i) {
      if ((respected >> i & 1) == 0 || place[i][node] < 0) continue;
      Amount* left = &pool.reservations[i].left[static_cast<size_t>(place[i][node]) * width];
      for (size_t k = 0; k < width; ++k) left[k] -= row(shape.need)[k];
    }
  }
  for (size_t i = 0; respected >> i != 0; ++i) {
    Reservation& reservation = pool.reservations[i];
    if ((respected >> i & 1) == 0 || reservation.project != job.project) continue;
    for (size_t k = 0; k < width; ++k) {
      if (reservation.limit_left[k] == kNoLimit) continue;
      const Amount needed = row(shape.need)[k] * static_cast<Amount>(chosen.size());
      reservation.limit_left[k] = std::max<Amount>(0, reservation.limit_left[k] - needed);
    }
  }
  started_running.push_back(insert_running(std::move(run), true));
  job.started = true;
  projects[job.project].buckets[priority_index(job.priority)].changed = true;
  if (--shape.waiting == 0 && shape.failed != kAllFailed) --pool.alive;
  --waiting_jobs;
  starts.push_back({.job = entry.job, .nodes = chosen});
}

void PlannerState::fail(uint32_t index, ReservationSet respected) {
  Shape& shape = shapes[index];
  const bool was_alive = shape.failed != kAllFailed;
  for (ReservationSet set = 0; set < 1u << kReservationsMax; ++set) {
    if ((set & respected) == respected) shape.failed |= 1u << set;
  }
  if (shape.failed != kAllFailed) return;
  shape.fitted = false;
  if (pools[shape.pool].blocked) closed[index] = 1;
  if (was_alive && shape.waiting > 0) --pools[shape.pool].alive;
}

void PlannerState::clear_results() {
  starts.clear();
  started_running.clear();
  blocked_pools.clear();
  preempted.clear();
  victims.clear();
  earlier_promises.clear();
}

void PlannerState::begin_pass(int64_t now_ms) {
  now = now_ms;
  clear_results();
  const bool many = shapes.size() > kTriedAlone;
  for (Pool& pool : pools) {
    drop_reservations(pool);
    pool.alive = 0;
    if (!many) continue;
    std::ranges::fill(pool.most_free, 0);
    for (const uint32_t node : pool.order) raise_to(pool.most_free, node);
  }
  closed.assign(shapes.size(), 0);
  for (size_t at = 0; at < shapes.size(); ++at) {
    Shape& shape = shapes[at];
    closed[at] = shape.possible ? 0 : 1;
    if (shape.waiting == 0) continue;
    Pool& pool = pools[shape.pool];
    if (!shape.fitted) {
      // Only a node with more room than in the last pass can change that.
      shape.fitted = std::ranges::any_of(
          released, [&](uint32_t node) { return covers(&free[node * width], shape) && takes_jobs(node); });
    }
    if (shape.fitted)
      shape.fitted = shape.possible && (!many || covers(pool.most_free.data(), shape)) && fits(shape, 0);
    shape.failed = shape.fitted ? 0 : kAllFailed;
    if (shape.fitted) ++pool.alive;
  }
  released.clear();
}

bool PlannerState::is_open(const Pool& pool, bool must_block) const {
  if (pool.blocked) return pool.alive > 0 && options->backfill;
  return pool.alive > 0 || must_block;
}

bool PlannerState::any_open(bool must_block) const {
  return std::ranges::any_of(pools, [&](const Pool& pool) { return is_open(pool, must_block); });
}

// Moves the cursor to the next job that may start, or that may become a blocked one; false: none is left.
bool PlannerState::advance(Project& project, Bucket& bucket, bool must_block) const {
  for (; bucket.cursor < bucket.jobs.size(); ++bucket.cursor) {
    const Entry& entry = bucket.jobs[bucket.cursor];
    if (closed[entry.shape]) continue;
    const Shape& shape = shapes[entry.shape];
    const Pool& pool = pools[shape.pool];
    if (!is_open(pool, must_block)) continue;
    if (pool.blocked && (shape.failed >> respected_by(pool, entry) & 1) != 0) continue;
    // What the project uses does not decrease during a pass.
    if (over_quota(entry.job) || (project.limited && over_limit(project, shape, false))) continue;
    return true;
  }
  return false;
}

void PlannerState::take_turn(Turns& turns, uint32_t index, size_t priority, bool must_block) {
  Project& project = projects[index];
  Bucket& bucket = project.buckets[priority];
  if (!advance(project, bucket, must_block)) return;
  const uint32_t job = bucket.jobs[bucket.cursor].job;
  turns.push({.share = project.share,
              .submitted_ms = jobs[job].submitted_ms,
              .number = jobs[job].number,
              .project = index,
              .job = job});
}

bool PlannerState::over_quota(uint32_t at) const {
  const Project& project = projects[jobs[at].project];
  return counts_as_urgent(jobs[at].priority) && project.urgent_running >= project.urgent_quota;
}

std::optional<size_t> PlannerState::over_limit(const Project& project, const Shape& shape, bool alone) const {
  if (!project.limited) return std::nullopt;
  for (size_t i = 0; i < width; ++i) {
    const Amount need = row(shape.need)[i] * static_cast<Amount>(shape.least);
    if (project.limit[i] == kNoLimit || need <= 0) continue;
    if (need + (alone ? 0 : project.used[i]) > project.limit[i]) return i;
  }
  return std::nullopt;
}

bool PlannerState::never(uint32_t job) const {
  const Shape& shape = shapes[jobs[job].shape];
  return shape.never || over_limit(projects[jobs[job].project], shape, true);
}

void PlannerState::consider(const Entry& entry) {
  Shape& shape = shapes[entry.shape];
  Pool& pool = pools[shape.pool];
  const ReservationSet respected = respected_by(pool, entry);
  if (!leaves_limit(pool, entry, respected)) return;
  if ((shape.failed >> respected & 1) == 0 && choose(shape, respected, nodes_within_limits(pool, entry, respected))) {
    start(entry, respected);
  } else {
    fail(entry.shape, respected);
    if (!pool.blocked) block(entry.job);
  }
}

void PlannerState::pass(int64_t now_ms, bool must_block) {
  begin_pass(now_ms);
  for (size_t priority = kJobPriorities; priority-- > 0;) {
    if (!any_open(must_block)) break;
    Turns turns;
    for (uint32_t project = 0; project < projects.size(); ++project) {
      projects[project].buckets[priority].cursor = 0;
      take_turn(turns, project, priority, must_block);
    }
    while (!turns.empty() && any_open(must_block)) {
      const Turn turn = turns.top();
      turns.pop();
      Project& project = projects[turn.project];
      Bucket& bucket = project.buckets[priority];
      if (advance(project, bucket, must_block) && bucket.jobs[bucket.cursor].job == turn.job) {
        consider(bucket.jobs[bucket.cursor]);
        ++bucket.cursor;
      }
      take_turn(turns, turn.project, priority, must_block);
    }
  }
}

void PlannerState::remove_started() {
  for (const QueueRun::Start& start : starts) {
    Bucket& bucket = projects[jobs[start.job].project].buckets[priority_index(jobs[start.job].priority)];
    if (!bucket.changed) continue;
    std::erase_if(bucket.jobs, [&](const Entry& entry) { return jobs[entry.job].started; });
    bucket.changed = false;
  }
}

void PlannerState::undo_pass() {
  for (size_t at = starts.size(); at-- > 0;) {
    Job& job = jobs[starts[at].job];
    for (const Hold& hold : running[started_running[at]].held) change_free(hold.node, row(hold.row), +1);
    remove_running(started_running[at]);
    job.started = false;
    projects[job.project].buckets[priority_index(job.priority)].changed = false;
    ++shapes[job.shape].waiting;
    ++waiting_jobs;
  }
  for (const auto& [job, promise] : earlier_promises) jobs[job].promised_ms = promise;
  for (Pool& pool : pools) drop_reservations(pool);
  for (Shape& shape : shapes) shape.fitted = true;
  clear_results();
}

void PlannerState::append_order(std::vector<uint32_t>& result) const {
  for (size_t priority = kJobPriorities; priority-- > 0;) {
    std::vector<uint32_t> first;
    for (const uint32_t pool : blocked_pools) {
      if (priority_index(jobs[*pools[pool].blocked].priority) == priority) first.push_back(*pools[pool].blocked);
    }
    result.insert(result.end(), first.begin(), first.end());
    Turns turns;
    std::vector<size_t> next(projects.size());
    // The next job of the project; kNoIndex: none is left.
    const auto take = [&](uint32_t project) {
      const auto& list = projects[project].buckets[priority].jobs;
      size_t& at = next[project];
      while (at < list.size() &&
             (jobs[list[at].job].started || std::ranges::find(first, list[at].job) != first.end())) {
        ++at;
      }
      return at < list.size() ? list[at++].job : kNoIndex;
    };
    const auto push = [&](uint32_t project) {
      const uint32_t job = take(project);
      if (job == kNoIndex) return;
      turns.push({projects[project].share, jobs[job].submitted_ms, jobs[job].number, project, job});
    };
    for (uint32_t project = 0; project < projects.size(); ++project) push(project);
    while (!turns.empty()) {
      const Turn turn = turns.top();
      turns.pop();
      result.push_back(turn.job);
      // Jobs of the same project follow as long as no other project comes first; this avoids the heap.
      if (turns.empty() || turns.top().share > turn.share) {
        for (uint32_t job = take(turn.project); job != kNoIndex; job = take(turn.project)) result.push_back(job);
      } else {
        push(turn.project);
      }
    }
  }
}

}  // namespace volador::jobs
