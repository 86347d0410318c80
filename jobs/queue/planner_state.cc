#include "jobs/queue/planner_state.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "jobs/queue/run_time_predictor.h"

namespace volador::jobs {
namespace {

constexpr size_t kFixedColumns = 3;

// Mixes a value into a hash.
uint64_t shape_hash_with(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
  return hash ^ (hash >> 29);
}

uint64_t shape_hash_with(uint64_t hash, std::string_view text) {
  uint64_t first = text.size();
  for (size_t i = 0; i < text.size(); ++i) first = first * 31 + static_cast<unsigned char>(text[i]);
  return shape_hash_with(hash, first);
}

uint64_t hash_of_shape(const QueuedJob& job) {
  uint64_t hash = shape_hash_with(static_cast<uint64_t>(job.nodes), static_cast<uint64_t>(job.least_nodes()));
  if (job.shares_nodes) hash = shape_hash_with(hash, uint64_t{1});
  for (const auto& [name, amount] : job.per_node.entries()) {
    hash = shape_hash_with(hash, static_cast<uint64_t>(amount) ^ static_cast<uint64_t>(name[0]));
  }
  for (const auto* names : {&job.node_names, &job.avoids}) {
    hash = shape_hash_with(hash, static_cast<uint64_t>(names->size()));
    for (const std::string& name : *names) hash = shape_hash_with(hash, std::string_view(name));
  }
  for (const auto& [key, value] : job.labels) {
    hash = shape_hash_with(shape_hash_with(hash, std::string_view(key)), std::string_view(value));
  }
  return shape_hash_with(hash, std::string_view(job.pool));
}

bool asks_for_the_same(const QueuedJob& a, const QueuedJob& b) {
  return a.nodes == b.nodes && a.least_nodes() == b.least_nodes() && a.per_node == b.per_node &&
         a.node_names == b.node_names && a.labels == b.labels && a.pool == b.pool && a.avoids == b.avoids &&
         a.shares_nodes == b.shares_nodes;
}

// Inserts a column into rows of `width` columns.
void insert_column(std::vector<Amount>& values, size_t width, size_t column, Amount value) {
  std::vector<Amount> wider;
  wider.reserve(values.size() / width * (width + 1));
  for (size_t at = 0; at < values.size(); ++at) {
    if (at % width == column) wider.push_back(value);
    wider.push_back(values[at]);
    if (at % width + 1 == width && column == width) wider.push_back(value);
  }
  values = std::move(wider);
}

}  // namespace

bool job_may_use(const PlanNode& node, const QueuedJob& job) {
  if (node.pool != job.pool) return false;
  if (!job.node_names.empty() && std::ranges::find(job.node_names, node.name) == job.node_names.end()) return false;
  if (std::ranges::find(job.avoids, node.name) != job.avoids.end()) return false;
  return std::ranges::all_of(job.labels, [&](const auto& label) {
    const auto known = node.labels.find(label.first);
    return known != node.labels.end() && known->second == label.second;
  });
}

PlannerState::PlannerState(const std::vector<PlanNode>& some_nodes, const PlannerOptions& some_options,
                           QueueRun::Ends kind)
    : nodes(&some_nodes), options(&some_options), ends(kind) {
  resources = {"gpus", "cpus", "memory"};  // See kGpuColumn.
  width = resources.size();
  for (const PlanNode& node : some_nodes) {
    for (const auto& [name, amount] : node.total.entries()) column_of(name);
    for (const auto& [name, amount] : node.free.entries()) column_of(name);
  }
  const size_t count = some_nodes.size();
  free.resize(count * width);
  total.resize(count * width);
  cluster_total.resize(width);
  pool_of_node.resize(count);
  node_index.reserve(count);
  for (uint32_t node = 0; node < count; ++node) {
    const PlanNode& shown = some_nodes[node];
    node_index.emplace(shown.name, node);
    for (const auto& [name, amount] : shown.free.entries()) free[node * width + column_of(name)] = amount;
    for (const auto& [name, amount] : shown.total.entries()) {
      const size_t column = column_of(name);
      total[node * width + column] = amount;
      cluster_total[column] += amount;
    }
    pool_of_node[node] = pool_of(shown.pool);
    if (shown.takes_jobs) pools[pool_of_node[node]].order.push_back(node);
  }
  for (Pool& pool : pools) sort_nodes(pool);
  for (std::vector<int32_t>& places : place) places.assign(count, -1);
}

size_t PlannerState::column_of(std::string_view name) {
  for (size_t i = 0; i < width; ++i) {
    if (resources[i] == name) return i;
  }
  const auto at = std::lower_bound(resources.begin() + kFixedColumns, resources.end(), name);
  const auto column = static_cast<size_t>(at - resources.begin());
  resources.emplace(at, name);
  insert_column(rows, width, column, 0);
  insert_column(free, width, column, 0);
  insert_column(total, width, column, 0);
  insert_column(cluster_total, width, column, 0);
  for (Project& project : projects) {
    insert_column(project.used, width, column, 0);
    insert_column(project.limit, width, column, kNoLimit);
  }
  for (Pool& pool : pools) insert_column(pool.most_free, width, column, 0);
  ++width;
  return column;
}

uint32_t PlannerState::add_row(const ResourceSet& set) {
  for (const auto& [name, amount] : set.entries()) column_of(name);
  uint32_t index = static_cast<uint32_t>(rows.size() / width);
  if (unused_rows.empty()) {
    rows.resize(rows.size() + width);
  } else {
    index = unused_rows.back();
    unused_rows.pop_back();
    std::fill_n(row(index), width, 0);
  }
  for (const auto& [name, amount] : set.entries()) row(index)[column_of(name)] = amount;
  return index;
}

uint32_t PlannerState::pool_of(const std::string& name) {
  const auto known = std::ranges::find(pools, name, &Pool::name);
  if (known != pools.end()) return static_cast<uint32_t>(known - pools.begin());
  pools.emplace_back().name = name;
  pools.back().most_free.resize(width);
  return static_cast<uint32_t>(pools.size() - 1);
}

uint32_t PlannerState::project_of(const std::string& name) {
  if (const auto known = project_index.find(name); known != project_index.end()) return known->second;
  const auto limits = options->limits.find(name);
  if (limits != options->limits.end()) {
    for (const auto& [resource, amount] : limits->second.entries()) column_of(resource);
  }
  const auto index = static_cast<uint32_t>(projects.size());
  project_index.emplace(name, index);
  Project& project = projects.emplace_back();
  project.name = name;
  project.used.resize(width);
  project.limit.assign(width, kNoLimit);
  if (const auto weight = options->weights.find(name); weight != options->weights.end() && weight->second > 0) {
    project.weight = weight->second;
  }
  if (const auto quota = options->urgent_quota.find(name); quota != options->urgent_quota.end()) {
    project.urgent_quota = quota->second;
  }
  if (limits != options->limits.end()) {
    for (const auto& [resource, amount] : limits->second.entries()) project.limit[column_of(resource)] = amount;
    project.limited = !limits->second.empty();
  }
  return index;
}

uint32_t PlannerState::shape_of(const QueuedJob& job) {
  const uint64_t hash = hash_of_shape(job);
  for (auto [at, end] = shape_index.equal_range(hash); at != end; ++at) {
    if (asks_for_the_same(shapes[at->second].asked, job)) return at->second;
  }
  const auto index = static_cast<uint32_t>(shapes.size());
  shape_index.emplace(hash, index);
  const uint32_t need = add_row(job.per_node);
  const uint32_t pool = pool_of(job.pool);
  Shape& shape = shapes.emplace_back();
  shape.asked.nodes = job.nodes;
  shape.asked.per_node = job.per_node;
  shape.asked.node_names = job.node_names;
  shape.asked.labels = job.labels;
  shape.asked.pool = job.pool;
  shape.asked.min_nodes = job.min_nodes;
  shape.asked.avoids = job.avoids;
  shape.asked.shares_nodes = job.shares_nodes;
  shape.need = need;
  shape.shares = job.shares_nodes;
  shape.most = static_cast<size_t>(std::max(1, job.nodes));
  shape.least = std::min(shape.most, static_cast<size_t>(std::max(1, job.least_nodes())));
  shape.pool = pool;
  if (!job.node_names.empty() || !job.labels.empty() || !job.avoids.empty()) {
    for (const PlanNode& node : *nodes) shape.allowed.push_back(job_may_use(node, job) ? 1 : 0);
  }
  size_t open = 0, shut = 0;
  for (uint32_t node = 0; node < nodes->size() && open < shape.least; ++node) {
    if (allowed_on(shape, node)) (takes_jobs(node) ? open : shut) += ranks_in(&total[node * width], shape);
  }
  shape.possible = open >= shape.least;
  shape.never = open + shut < shape.least && !nodes->empty();
  return index;
}

// ---- The queue.

uint32_t PlannerState::add_job(const QueuedJob& job, bool in_order) {
  const uint32_t shape = shape_of(job);
  const uint32_t project = project_of(job.project);
  uint32_t index = static_cast<uint32_t>(jobs.size());
  if (unused_jobs.empty()) {
    jobs.emplace_back();
  } else {
    index = unused_jobs.back();
    unused_jobs.pop_back();
  }
  jobs[index] = {.number = job.number,
                 .submitted_ms = job.submitted_ms,
                 .promised_ms = job.promised_ms,
                 .shape = shape,
                 .project = project,
                 .priority = job.priority};
  const int64_t limit = job.limit_ms > 0 ? job.limit_ms : kJobNeverEnds;
  const bool predicted = ends == QueueRun::Ends::kPredicted && job.predicted_ms > 0;
  const Entry entry{.job = index,
                    .shape = shape,
                    .limit_ms = limit,
                    .planned_ms = predicted ? std::min(limit, job.predicted_ms) : limit};
  std::vector<Entry>& list = projects[project].buckets[priority_index(job.priority)].jobs;
  const auto key = [&](const Entry& one) { return std::pair(jobs[one.job].submitted_ms, jobs[one.job].number); };
  if (!in_order || list.empty() || key(list.back()) < key(entry)) {
    list.push_back(entry);
  } else {
    list.insert(std::ranges::upper_bound(list, key(entry), {}, key), entry);
  }
  ++shapes[shape].waiting;
  ++waiting_jobs;
  return index;
}

void PlannerState::sort_queue() {
  const auto key = [&](const Entry& one) { return std::pair(jobs[one.job].submitted_ms, jobs[one.job].number); };
  for (Project& project : projects) {
    for (Bucket& bucket : project.buckets) {
      if (!std::ranges::is_sorted(bucket.jobs, {}, key)) std::ranges::sort(bucket.jobs, {}, key);
    }
  }
}

PlannerState::Entry& PlannerState::entry_of(uint32_t job) {
  std::vector<Entry>& list = projects[jobs[job].project].buckets[priority_index(jobs[job].priority)].jobs;
  const auto key = [&](const Entry& one) { return std::pair(jobs[one.job].submitted_ms, jobs[one.job].number); };
  return *std::ranges::lower_bound(list, std::pair(jobs[job].submitted_ms, jobs[job].number), {}, key);
}

void PlannerState::remove_job(uint32_t job) {
  std::vector<Entry>& list = projects[jobs[job].project].buckets[priority_index(jobs[job].priority)].jobs;
  list.erase(list.begin() + (&entry_of(job) - list.data()));
  --shapes[jobs[job].shape].waiting;
  --waiting_jobs;
  unused_jobs.push_back(job);
}

void PlannerState::set_predicted(uint32_t job, int64_t predicted_ms) {
  Entry& entry = entry_of(job);
  const bool predicted = ends == QueueRun::Ends::kPredicted && predicted_ms > 0;
  entry.planned_ms = predicted ? std::min(entry.limit_ms, predicted_ms) : entry.limit_ms;
}

// ---- Running jobs.

void PlannerState::set_ends(Running& run) const {
  run.limit_ms = kJobNeverEnds;
  if (run.ends_ms > 0) {
    run.limit_ms = std::max(now + 1, run.ends_ms);
  } else if (run.asked_limit_ms > 0) {
    run.limit_ms = std::max(now + 1, run.started_ms + run.asked_limit_ms);
  }
  run.planned_ms = run.limit_ms;
  if (ends != QueueRun::Ends::kPredicted || run.ends_ms > 0) return;
  if (run.leaving) {
    run.planned_ms = now + 1;
    return;
  }
  const int64_t predicted = raised_prediction(run.asked_predicted_ms, now - run.started_ms, run.asked_limit_ms);
  if (predicted > 0) run.planned_ms = std::min(run.limit_ms, std::max(now + 1, run.started_ms + predicted));
}

void PlannerState::list_ends(uint32_t index, bool in_order) {
  const auto insert = [&](std::vector<End>& list, int64_t end) {
    if (end == kJobNeverEnds) return;
    if (!in_order) {
      list.emplace_back(end, index);
    } else {
      list.insert(std::ranges::upper_bound(list, End(end, index), std::greater<>()), End(end, index));
    }
  };
  insert(by_plan, running[index].planned_ms);
  insert(by_limit, running[index].limit_ms);
}

void PlannerState::unlist_ends(uint32_t index) {
  const auto erase = [&](std::vector<End>& list, int64_t end) {
    const auto at = std::ranges::lower_bound(list, End(end, index), std::greater<>());
    if (at != list.end() && *at == End(end, index)) list.erase(at);
  };
  erase(by_plan, running[index].planned_ms);
  erase(by_limit, running[index].limit_ms);
}

void PlannerState::sort_running() {
  std::ranges::sort(by_plan, std::greater<>());
  std::ranges::sort(by_limit, std::greater<>());
}

uint32_t PlannerState::add_running(const RunningJob& job, bool in_order) {
  Running run{.number = job.number,
              .priority = job.priority,
              .started_ms = job.started_ms,
              .asked_limit_ms = job.limit_ms,
              .asked_predicted_ms = job.predicted_ms,
              .ends_ms = job.ends_ms,
              .leaving = job.leaving,
              .present = true,
              .owns_rows = true,
              .project = project_of(job.project),
              .held = {}};
  run.held.reserve(job.held.size());
  for (const auto& [name, held] : job.held) {
    const auto node = node_index.find(name);
    run.held.push_back({.node = node == node_index.end() ? kNoIndex : node->second, .row = add_row(held)});
  }
  return insert_running(std::move(run), in_order);
}

uint32_t PlannerState::insert_running(Running run, bool in_order) {
  uint32_t index = static_cast<uint32_t>(running.size());
  if (unused_running.empty()) {
    running.emplace_back();
  } else {
    index = unused_running.back();
    unused_running.pop_back();
  }
  set_ends(run);
  if (counts_as_urgent(run.priority)) ++projects[run.project].urgent_running;
  book(run, +1);
  first_holds.resize(running.size());
  first_holds[index] = {.count = static_cast<uint32_t>(run.held.size())};
  if (!run.held.empty()) first_holds[index].node = run.held[0].node;
  if (!run.held.empty()) first_holds[index].row = run.held[0].row;
  running[index] = std::move(run);
  list_ends(index, in_order);
  return index;
}

void PlannerState::remove_running(uint32_t index) {
  Running& run = running[index];
  unlist_ends(index);
  if (counts_as_urgent(run.priority)) --projects[run.project].urgent_running;
  book(run, -1);
  if (run.owns_rows) {
    for (const Hold& hold : run.held) unused_rows.push_back(hold.row);
  }
  run.held.clear();
  run.present = false;
  unused_running.push_back(index);
}

void PlannerState::book(const Running& run, int sign) {
  Project& project = projects[run.project];
  for (const Hold& hold : run.held) {
    for (size_t i = 0; i < width; ++i) project.used[i] += sign * row(hold.row)[i];
  }
  renew_share(project);
}

void PlannerState::renew_share(Project& project) const {
  project.share = 0;
  for (size_t i = 0; i < width; ++i) {
    if (cluster_total[i] <= 0) continue;
    const double share = static_cast<double>(project.used[i]) / static_cast<double>(cluster_total[i]);
    project.share = std::max(project.share, share / project.weight);
  }
}

void PlannerState::end_until(int64_t until) {
  while (!by_plan.empty() && by_plan.back().first <= until) {
    const uint32_t index = by_plan.back().second;
    for (const Hold& hold : running[index].held) {
      if (hold.node == kNoIndex) continue;
      change_free(hold.node, row(hold.row), +1);
      released.push_back(hold.node);
    }
    remove_running(index);
  }
}

void PlannerState::move_to(int64_t now_ms) {
  const bool back = now_ms < now;
  now = now_ms;
  if (back) {
    by_plan.clear();
    by_limit.clear();
    for (uint32_t index = 0; index < running.size(); ++index) {
      if (!running[index].present) continue;
      set_ends(running[index]);
      list_ends(index, false);
    }
    return sort_running();
  }
  std::vector<uint32_t> overdue;
  for (const auto* list : {&by_plan, &by_limit}) {
    for (size_t at = list->size(); at > 0 && (*list)[at - 1].first <= now; --at)
      overdue.push_back((*list)[at - 1].second);
  }
  std::ranges::sort(overdue);
  overdue.erase(std::ranges::unique(overdue).begin(), overdue.end());
  for (const uint32_t index : overdue) {
    unlist_ends(index);
    set_ends(running[index]);
    list_ends(index, true);
  }
}

void PlannerState::end_at_limits() {
  ends = QueueRun::Ends::kAtLimits;
  for (Project& project : projects) {
    for (Bucket& bucket : project.buckets) {
      for (Entry& entry : bucket.jobs) entry.planned_ms = entry.limit_ms;
    }
  }
  for (Running& run : running) run.planned_ms = run.limit_ms;
  by_plan = by_limit;
}

}  // namespace volador::jobs
