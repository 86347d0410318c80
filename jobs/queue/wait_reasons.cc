// Why the waiting jobs of a pass wait, and the sentences that say it.
#include <fmt/format.h>

#include <algorithm>

#include "jobs/queue/planner_state.h"
#include "runtime/quantities.h"

namespace volador::jobs {
namespace {

std::string text_of_shortage(const Shortage& shortage) {
  const std::string nodes = (shortage.shares_nodes ? "room for " : "") +
                            std::string(shortage.nodes_needed < shortage.nodes_most ? "at least " : "") +
                            counted(shortage.nodes_needed, shortage.shares_nodes ? "rank" : "node");
  const int64_t open = shortage.nodes_able - shortage.nodes_closed;
  if (!shortage.why_never.empty()) return fmt::format("waits for nodes: {}", shortage.why_never);
  if (open < shortage.nodes_needed && shortage.shares_nodes) {
    return fmt::format("needs {}; the nodes that take jobs now have room for {}, and those that take none for {}",
                       nodes, open, shortage.nodes_closed);
  }
  if (open < shortage.nodes_needed) {
    return fmt::format("needs {}; of the nodes that could hold it, {} and {} now", nodes,
                       counted(open, "takes jobs", "take jobs"),
                       counted(shortage.nodes_closed, "takes none", "take none"));
  }
  if (!shortage.resource.empty()) {
    const std::string needs = fmt::format("needs {} {}", text_of_job_amount(shortage.resource, shortage.needed),
                                          shortage.nodes_needed == 1 ? "on a node"
                                          : shortage.shares_nodes    ? "for each rank"
                                                                     : "on each node");
    if (shortage.largest_free <= 0) return needs + ", and none is free";
    return fmt::format("{}, and no node has more than {} free", needs,
                       text_of_job_amount(shortage.resource, shortage.largest_free));
  }
  if (shortage.nodes_needed == 1 && shortage.nodes_most == 1) return "no single node has free all that it asks for";
  if (shortage.shares_nodes)
    return fmt::format("needs {}, and there is room for {} now", nodes, shortage.nodes_fitting);
  return fmt::format("needs {}, and {} room now", nodes, counted(shortage.nodes_fitting, "node has", "nodes have"));
}

// "12", "12 GiB".
std::string bare_amount(std::string_view resource, Amount amount) {
  return resource == "memory" ? format_bytes(amount) : format_amount(amount);
}

}  // namespace

std::string Wait::text() const {
  const std::string ahead_text = counted(ahead, "job is", "jobs are") + " ahead";
  switch (kind) {
    case WaitKind::kBehind: {
      const std::string base = fmt::format("waits behind job {}; {}", other, ahead_text);
      return shortage ? fmt::format("{}; it {}", base, text_of_shortage(*shortage)) : base;
    }
    case WaitKind::kNoRoom:
      return shortage ? text_of_shortage(*shortage) : "waits for resources";
    case WaitKind::kNever:
      return fmt::format("can never start: {}", shortage ? shortage->why_never : "");
    case WaitKind::kReserved:
      return fmt::format("has room now, but would delay job {}, for which nodes are reserved; {}", other, ahead_text);
    case WaitKind::kUrgentQuota:
      return "waits until an urgent job of its project ends: the quota is used up";
    case WaitKind::kProjectLimit:
      return fmt::format("project {} may hold {} and holds {}; this job needs {}", project,
                         text_of_job_amount(resource, limit), bare_amount(resource, held),
                         bare_amount(resource, needed));
  }
  return {};
}

const Wait* Plan::wait_of(JobNumber number) const {
  const auto found = std::ranges::find(waits, number, &Wait::number);
  return found == waits.end() ? nullptr : &*found;
}

std::vector<PlannerState::NodeClass> PlannerState::node_classes(uint32_t pool) const {
  std::map<std::vector<Amount>, NodeClass> classes;
  std::vector<Amount> key;
  for (uint32_t node = 0; node < nodes->size(); ++node) {
    if (pool_of_node[node] != pool) continue;
    key.assign(&total[node * width], &total[node * width] + width);
    NodeClass& same = classes.try_emplace(key, NodeClass{.node = node}).first->second;
    ++(takes_jobs(node) ? same.open : same.closed);
  }
  std::vector<NodeClass> result;
  for (const auto& [amounts_of_class, same] : classes) result.push_back(same);
  return result;
}

std::shared_ptr<const Shortage> PlannerState::shortage_of(const Shape& shape, const std::vector<NodeClass>& classes,
                                                          std::vector<Amount> largest) const {
  auto result = std::make_shared<Shortage>();
  result->nodes_needed = static_cast<int>(shape.least);
  result->nodes_most = static_cast<int>(shape.most);
  result->shares_nodes = shape.shares && shape.most > 1;
  if (shape.allowed.empty()) {
    for (const NodeClass& same : classes) {
      const auto ranks = static_cast<int64_t>(ranks_in(&total[same.node * width], shape));
      result->nodes_able += ranks * (same.open + same.closed);
      result->nodes_closed += ranks * same.closed;
    }
  } else {
    std::ranges::fill(largest, 0);
    for (uint32_t node = 0; node < nodes->size(); ++node) {
      if (!allowed_on(shape, node)) continue;
      const bool open = takes_jobs(node);
      const auto ranks = static_cast<int64_t>(ranks_in(&total[node * width], shape));
      result->nodes_able += ranks;
      if (!open) result->nodes_closed += ranks;
      if (open) raise_to(largest, node);
    }
  }
  for (size_t i = 0; i < width && result->resource.empty(); ++i) {
    const Amount need = row(shape.need)[i];
    if (need <= largest[i]) continue;
    result->resource = resources[i];
    result->needed = need;
    result->largest_free = largest[i];
  }
  if (result->resource.empty()) {
    for (const uint32_t node : pools[shape.pool].order)
      result->nodes_fitting += static_cast<int64_t>(ranks_on(node, shape, 0));
  }
  if (result->nodes_able < result->nodes_needed) {
    result->why_never = nodes->empty() ? "the cluster has no node" : reason_for_never(*nodes, shape.asked);
  }
  return result;
}

std::vector<Wait> PlannerState::waits() {
  std::vector<std::vector<NodeClass>> classes;
  std::vector<std::vector<Amount>> largest(pools.size(), std::vector<Amount>(width));
  for (uint32_t pool = 0; pool < pools.size(); ++pool) {
    classes.push_back(node_classes(pool));
    for (const uint32_t node : pools[pool].order) raise_to(largest[pool], node);
  }
  std::vector<std::shared_ptr<const Shortage>> shortages(shapes.size());
  std::vector<uint8_t> fits_now(shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].waiting == 0) continue;
    fits_now[i] = shapes[i].fitted && fits(shapes[i], 0) ? 1 : 0;
    if (!fits_now[i]) shortages[i] = shortage_of(shapes[i], classes[shapes[i].pool], largest[shapes[i].pool]);
  }
  std::vector<uint32_t> in_order;
  in_order.reserve(waiting_jobs);
  append_order(in_order);
  std::vector<Wait> result;
  result.reserve(in_order.size());
  std::vector<int64_t> ahead(pools.size());
  for (const uint32_t at : in_order) {
    const uint32_t index = jobs[at].shape;
    const Shape& shape = shapes[index];
    const Project& project = projects[jobs[at].project];
    const Pool& pool = pools[shape.pool];
    Wait& wait = result.emplace_back();
    wait.number = jobs[at].number;
    wait.ahead = ahead[shape.pool];
    wait.shortage = shortages[index];
    if (shape.never) {
      wait.kind = WaitKind::kNever;
      continue;
    }
    if (const auto column = over_limit(project, shape, true)) {
      const std::string& resource = resources[*column];
      auto shortage = std::make_shared<Shortage>();
      shortage->nodes_needed = static_cast<int>(shape.least);
      shortage->nodes_most = static_cast<int>(shape.most);
      shortage->why_never =
          fmt::format("project {} may hold {}, and this job needs {}", project.name,
                      text_of_job_amount(resource, project.limit[*column]),
                      bare_amount(resource, row(shape.need)[*column] * static_cast<Amount>(shape.least)));
      wait.kind = WaitKind::kNever;
      wait.shortage = std::move(shortage);
      continue;
    }
    if (!shape.possible) {
      wait.kind = WaitKind::kNoRoom;
    } else if (over_quota(at)) {
      wait.kind = WaitKind::kUrgentQuota;
    } else if (const auto column = over_limit(project, shape, false)) {
      wait.kind = WaitKind::kProjectLimit;
      wait.project = project.name;
      wait.resource = resources[*column];
      wait.limit = project.limit[*column];
      wait.held = project.used[*column];
      wait.needed = row(shape.need)[*column] * static_cast<Amount>(shape.least);
    } else if (pool.blocked == at || !pool.blocked) {
      wait.kind = WaitKind::kNoRoom;
    } else {
      wait.kind = fits_now[index] && options->backfill ? WaitKind::kReserved : WaitKind::kBehind;
      wait.other = jobs[*pool.blocked].number;
    }
    ++ahead[shape.pool];
  }
  return result;
}

}  // namespace volador::jobs
