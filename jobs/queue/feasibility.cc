// Checks at submission: whether the cluster, the limit and the quota of the project can ever let a job start.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "jobs/queue/planner_state.h"
#include "runtime/quantities.h"

namespace volador::jobs {
namespace {

// "8 GPUs, 4 CPUs and 2 GiB of memory".
std::string text_of_job_request(const ResourceSet& asked) {
  std::vector<std::string> parts;
  for (const auto& [name, amount] : asked.entries()) parts.push_back(text_of_job_amount(name, amount));
  if (parts.empty()) return "no resources";
  std::string text = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) text += (i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

std::string text_of_job_labels(const std::map<std::string, std::string>& labels) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : labels) parts.push_back(fmt::format("{}={}", key, value));
  return fmt::format("{} {}", parts.size() == 1 ? "label" : "labels", fmt::join(parts, ","));
}

// "2 nodes", "at least 2 nodes", "room for 2 ranks".
std::string text_of_job_nodes(const QueuedJob& job) {
  const bool shares = job.shares_nodes && job.nodes > 1;
  return (shares ? "room for " : "") + std::string(job.least_nodes() < job.nodes ? "at least " : "") +
         counted(job.least_nodes(), shares ? "rank" : "node");
}

// How many ranks of the job a node holds that nothing else uses.
int64_t ranks_of_empty(const PlanNode& node, const QueuedJob& job) {
  if (!job.per_node.fits_in(node.total)) return 0;
  if (!job.shares_nodes) return 1;
  Amount ranks = job.nodes;
  for (const auto& [name, amount] : job.per_node.entries()) {
    if (amount > 0) ranks = std::min(ranks, node.total.get(name) / amount);
  }
  return ranks;
}

// " in pool gpu with the label zone=west": empty for any node of the pool "default".
std::string text_of_place(const QueuedJob& job) {
  std::string text;
  if (job.pool != "default") text += fmt::format(" of pool {}", job.pool);
  if (!job.labels.empty()) text += fmt::format(" with the {}", text_of_job_labels(job.labels));
  return text;
}

}  // namespace

std::string text_of_job_amount(std::string_view resource, Amount amount) {
  if (resource == "gpus") return counted(format_amount(amount), "GPU");
  if (resource == "cpus") return counted(format_amount(amount), "CPU");
  if (resource == "memory") return fmt::format("{} of memory", format_bytes(amount));
  return fmt::format("{} {}", format_amount(amount), resource);
}

std::string reason_for_never(const std::vector<PlanNode>& nodes, const QueuedJob& job) {
  std::vector<const PlanNode*> allowed;
  for (const PlanNode& node : nodes) {
    if (job_may_use(node, job)) allowed.push_back(&node);
  }
  int64_t able = 0;
  for (const PlanNode* node : allowed) able += ranks_of_empty(*node, job);
  if (able >= job.least_nodes()) return {};
  if (!job.avoids.empty()) {
    QueuedJob anywhere = job;
    anywhere.avoids.clear();
    if (reason_for_never(nodes, anywhere).empty()) {
      return fmt::format("it needs {}, {}, and it avoids {}", text_of_job_nodes(job),
                         job.shares_nodes ? fmt::format("the other nodes have room for {}", able)
                                          : fmt::format("{} could hold it", able),
                         fmt::join(job.avoids, ", "));
    }
  }
  for (const std::string& name : job.node_names) {
    if (able > 0) break;
    const auto known = std::ranges::find(nodes, name, &PlanNode::name);
    if (known == nodes.end()) return fmt::format("the cluster has no node \"{}\"", name);
    if (known->pool != job.pool) {
      return fmt::format("node \"{}\" belongs to pool {}, and the job to pool {}", name, known->pool, job.pool);
    }
  }
  const std::string where = text_of_place(job);
  if (allowed.empty()) return fmt::format("no{} node{} exists", job.node_names.empty() ? "" : " chosen", where);
  if (able == 0) {
    for (const auto& [name, amount] : job.per_node.entries()) {
      Amount largest = 0;
      for (const PlanNode* node : allowed) largest = std::max(largest, node->total.get(name));
      if (amount > largest) {
        const std::string needs = fmt::format("it needs {} {}", text_of_job_amount(name, amount),
                                              job.least_nodes() == 1 ? "on a node"
                                              : job.shares_nodes     ? "for each rank"
                                                                     : "on each node");
        if (largest == 0) return fmt::format("{}, and no node{} has any", needs, where);
        return fmt::format("{}, and the largest node{} has {}", needs, where, text_of_job_amount(name, largest));
      }
    }
    return fmt::format("no single node{} has {} in total", where, text_of_job_request(job.per_node));
  }
  if (job.shares_nodes) return fmt::format("it needs {}, and the nodes have room for {}", text_of_job_nodes(job), able);
  const std::string why = fmt::format("it needs {}, and {} could hold it", text_of_job_nodes(job), able);
  QueuedJob together = job;
  together.shares_nodes = true;
  if (!reason_for_never(nodes, together).empty()) return why;
  return why + "; with --share-nodes (share_nodes: true) several ranks of it run on a node";
}

Result<void> check_feasible(const ClusterView& cluster, const QueuedJob& job, const PlannerOptions& options) {
  if (job.nodes < 1) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("nodes: expected at least 1, got {}", job.nodes));
  }
  if (job.min_nodes < 0 || job.min_nodes > job.nodes) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("min_nodes: expected 1 to nodes ({}), got {}", job.nodes, job.min_nodes));
  }
  if (const auto limit = options.limits.find(job.project); limit != options.limits.end()) {
    for (const auto& [name, amount] : limit->second.entries()) {
      const Amount needed = job.per_node.get(name) * job.least_nodes();
      if (needed <= amount) continue;
      return make_error(ErrorCode::kInfeasible,
                        fmt::format("project {} may hold {}, and this job needs {}; ask an operator to raise the "
                                    "limit of the project, or ask for less",
                                    job.project, text_of_job_amount(name, amount), text_of_job_amount(name, needed)));
    }
  }
  if (cluster.nodes.empty()) {
    return make_error(ErrorCode::kUnavailable,
                      "the cluster has no node; start a worker, or queue the job until one joins");
  }
  if (const std::string why = reason_for_never(cluster.nodes, job); !why.empty()) {
    return make_error(ErrorCode::kInfeasible,
                      fmt::format("the job can never start: {}; ask for less, or add nodes first", why));
  }
  return {};
}

Result<void> check_urgent_quota(const ClusterView& cluster, std::span<const QueuedJob> queue,
                                const std::string& project, const PlannerOptions& options) {
  const auto quota = options.urgent_quota.find(project);
  if (quota == options.urgent_quota.end()) return {};
  const auto urgent = [&](const auto& job) { return job.project == project && counts_as_urgent(job.priority); };
  const auto running = std::ranges::count_if(cluster.running, urgent);
  const auto queued = std::ranges::count_if(queue, urgent);
  if (running + queued < quota->second) return {};
  return make_error(ErrorCode::kUnavailable,
                    fmt::format("project {}: {} running and {} queued, and the quota is {}; wait for one to "
                                "end, or submit with priority normal",
                                project, counted(running, "urgent job is", "urgent jobs are"),
                                counted(queued, "is", "are"), quota->second));
}

}  // namespace volador::jobs
