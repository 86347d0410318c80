#include "jobs/queue/job_planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <queue>
#include <tuple>
#include <unordered_map>

#include "jobs/queue/run_time_predictor.h"
#include "runtime/quantities.h"

namespace volador::jobs {
namespace {

constexpr int64_t kJobNeverEnds = QueueRun::kUnknown;
constexpr size_t kJobPriorities = 3;
constexpr int kReservationsMax = 2;
// Set of reservations: bit i is the reservation i.
using ReservationSet = uint32_t;
constexpr uint32_t kAllFailed = (1u << (1u << kReservationsMax)) - 1;
constexpr size_t kGpuColumn = 0;  // Position of the GPUs in an array of amounts.

std::string text_of_job_amount(std::string_view resource, Amount amount) {
  if (resource == "gpus") return counted(format_amount(amount), "GPU");
  if (resource == "cpus") return counted(format_amount(amount), "CPU");
  if (resource == "memory") return fmt::format("{} of memory", format_bytes(amount));
  return fmt::format("{} {}", format_amount(amount), resource);
}

// "8 GPUs, 4 CPUs and 2 GiB of memory".
std::string text_of_job_request(const ResourceSet& asked) {
  std::vector<std::string> parts;
  for (const auto& [name, amount] : asked.entries()) parts.push_back(text_of_job_amount(name, amount));
  if (parts.empty()) return "no resources";
  std::string text = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) text += (i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

bool job_may_use(const PlanNode& node, const QueuedJob& job) {
  if (!job.node_names.empty() && std::ranges::find(job.node_names, node.name) == job.node_names.end()) return false;
  return std::ranges::all_of(job.labels, [&](const auto& label) {
    const auto known = node.labels.find(label.first);
    return known != node.labels.end() && known->second == label.second;
  });
}

std::string text_of_job_labels(const std::map<std::string, std::string>& labels) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : labels) parts.push_back(fmt::format("{}={}", key, value));
  return fmt::format("{} {}", parts.size() == 1 ? "label" : "labels", fmt::join(parts, ","));
}

// Why the cluster can never hold the job; empty if it can.
std::string reason_for_never(const std::vector<PlanNode>& nodes, const QueuedJob& job) {
  std::vector<const PlanNode*> allowed;
  for (const PlanNode& node : nodes) {
    if (job_may_use(node, job)) allowed.push_back(&node);
  }
  const auto able =
      std::ranges::count_if(allowed, [&](const PlanNode* node) { return job.per_node.fits_in(node->total); });
  if (able >= job.nodes) return {};
  for (const std::string& name : job.node_names) {
    if (std::ranges::none_of(nodes, [&](const PlanNode& node) { return node.name == name; }) && able == 0) {
      return fmt::format("the cluster has no node \"{}\"", name);
    }
  }
  const std::string where = job.labels.empty() ? "" : fmt::format(" with the {}", text_of_job_labels(job.labels));
  if (allowed.empty()) return fmt::format("no{} node{}", job.node_names.empty() ? "" : " chosen", where) + " exists";
  if (able == 0) {
    for (const auto& [name, amount] : job.per_node.entries()) {
      Amount largest = 0;
      for (const PlanNode* node : allowed) largest = std::max(largest, node->total.get(name));
      if (amount > largest) {
        const std::string needs =
            fmt::format("it needs {} on {} node", text_of_job_amount(name, amount), job.nodes == 1 ? "a" : "each");
        if (largest == 0) return fmt::format("{}, and no node{} has any", needs, where);
        return fmt::format("{}, and the largest node{} has {}", needs, where, text_of_job_amount(name, largest));
      }
    }
    return fmt::format("no single node{} has {} in total", where, text_of_job_request(job.per_node));
  }
  return fmt::format("it needs {}, and {} could hold it", counted(job.nodes, "node"), able);
}

bool counts_as_urgent(JobPriority priority) { return priority == JobPriority::kUrgent; }

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
  uint64_t hash = static_cast<uint64_t>(job.nodes);
  for (const auto& [name, amount] : job.per_node.entries()) {
    hash = shape_hash_with(hash, static_cast<uint64_t>(amount) ^ static_cast<uint64_t>(name[0]));
  }
  for (const std::string& name : job.node_names) hash = shape_hash_with(hash, std::string_view(name));
  for (const auto& [key, value] : job.labels)
    hash = shape_hash_with(shape_hash_with(hash, std::string_view(key)), std::string_view(value));
  return hash;
}

bool asks_for_the_same(const QueuedJob& a, const QueuedJob& b) {
  return a.nodes == b.nodes && a.per_node == b.per_node && a.node_names == b.node_names && a.labels == b.labels;
}

size_t priority_index(const QueuedJob& job) {
  return static_cast<size_t>(std::clamp(static_cast<int>(job.priority), 0, static_cast<int>(kJobPriorities) - 1));
}

}  // namespace

std::string_view to_string(JobPriority priority) {
  switch (priority) {
    case JobPriority::kNormal:
      return "normal";
    case JobPriority::kUrgent:
      return "urgent";
    case JobPriority::kVeryUrgent:
      return "very_urgent";
  }
  return "normal";
}

Result<JobPriority> parse_job_priority(std::string_view text) {
  for (const auto priority : {JobPriority::kNormal, JobPriority::kUrgent, JobPriority::kVeryUrgent}) {
    if (text == to_string(priority)) return priority;
  }
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("priority: expected normal, urgent or very_urgent, got \"{}\"", text));
}

struct QueueRun::State {
  // Jobs that ask for the same nodes and resources.
  struct Shape {
    const QueuedJob* asked = nullptr;  // One of them.
    size_t need = 0;                   // Offset into `amounts`.
    size_t nodes = 1;
    std::vector<uint8_t> allowed;  // By node; empty: all.
    bool possible = false;         // Enough nodes that take jobs could hold it when empty.
    bool never = false;            // Not possible either if all nodes took jobs.
    size_t waiting = 0;
    bool fitted = true;  // False: too few nodes had room when last tried; since then only nodes in `released` gained.
    // For the current pass: bit r is set if no job of this shape fits that must respect the reservation set r.
    uint32_t failed = 0;
  };
  struct Job {
    uint32_t shape;
    uint32_t project;
    bool started = false;
    int64_t promised_ms = 0;
  };
  struct Entry {
    uint32_t job;
    uint32_t shape;
    int64_t limit_ms;    // Run time by limit; kJobNeverEnds.
    int64_t planned_ms;  // Run time by prediction, else by limit; kJobNeverEnds.
  };
  // Waiting jobs of one priority and project, by submission and number.
  struct Bucket {
    std::vector<Entry> jobs;
    size_t cursor = 0;  // Next job of the current pass.
    bool changed = false;
  };
  struct Project {
    double weight = 1;
    double share = 0;
    std::vector<Amount> used;
    int urgent_running = 0;
    int urgent_quota = std::numeric_limits<int>::max();
    std::array<Bucket, kJobPriorities> buckets;
  };
  struct Hold {
    uint32_t node;
    size_t amounts;  // Offset into `amounts`.
  };
  struct Running {
    int64_t planned_ms;  // End by prediction, else by limit; kJobNeverEnds.
    int64_t limit_ms;    // End by limit; kJobNeverEnds.
    uint32_t project;
    bool urgent;
    std::vector<Hold> held;
  };
  using End = std::pair<int64_t, uint32_t>;  // Time, index into `running`.
  struct Reservation {
    int64_t time = 0;        // -1: unknown; no job ends before it.
    bool by_limits = false;  // A job must end by its limit before `time`; otherwise by its prediction.
    std::vector<uint32_t> nodes;
    std::vector<int32_t> place;  // By node: index into `nodes`, or -1.
    std::vector<Amount> left;    // By index into `nodes`: what others may hold at that time.
  };
  // Nodes for the blocked job at a time, and what it leaves on each of them.
  struct Fit {
    int64_t time = -1;
    std::vector<uint32_t> nodes;
    std::vector<Amount> left;
  };
  struct Turn {
    double share;
    int64_t submitted_ms;
    JobNumber number;
    uint32_t project;
    uint32_t job;
    bool operator>(const Turn& other) const {
      return std::tie(share, submitted_ms, number) > std::tie(other.share, other.submitted_ms, other.number);
    }
  };
  // Nodes with equal totals.
  struct NodeClass {
    uint32_t node = 0;  // One of them.
    int64_t open = 0;   // How many of them take jobs.
    int64_t closed = 0;
  };
  using Turns = std::priority_queue<Turn, std::vector<Turn>, std::greater<>>;

  State(const ClusterView& a_cluster, std::span<const QueuedJob> a_queue, const PlannerOptions& some_options, Ends kind)
      : cluster(a_cluster), queue(a_queue), options(some_options), ends(kind) {}

  const ClusterView& cluster;
  std::span<const QueuedJob> queue;
  const PlannerOptions& options;
  Ends ends;

  size_t width = 0;  // Number of resources.
  std::vector<std::string> resources;
  std::vector<Amount> amounts;  // Arrays of `width` amounts: requests of shapes, holdings of running jobs.
  std::vector<Amount> free;     // By node.
  std::vector<Amount> total;    // By node.
  std::vector<Amount> cluster_total;
  std::vector<uint32_t> order;     // Nodes that take jobs: best fit first.
  std::vector<Amount> most_free;   // At the start of a pass, on a node that takes jobs.
  std::vector<uint32_t> released;  // Nodes on which jobs ended since the last pass.

  std::vector<Shape> shapes;
  std::vector<Job> jobs;
  std::vector<Project> projects;
  std::unordered_map<std::string_view, uint32_t> project_index;
  std::vector<Running> running;
  std::vector<End> by_plan;   // Running jobs that end, latest first.
  std::vector<End> by_limit;  // The same by limit.
  size_t waiting_jobs = 0;

  // State of the current or last pass.
  int64_t now = 0;
  std::vector<Start> starts;
  std::optional<uint32_t> blocked;
  bool guarded = false;
  std::array<Reservation, kReservationsMax> reservations;
  size_t reservation_count = 0;
  std::optional<size_t> likely;  // Index of the reservation by predictions.
  std::optional<size_t> latest;  // Index of the one by limits or without a known time.
  size_t alive = 0;              // Waiting shapes of which some job may still start.
  std::vector<uint32_t> chosen;
  std::vector<Amount> later;  // Free amounts at a later time.
  std::vector<uint8_t> fits_later;

  Amount* free_of(uint32_t node) { return &free[node * width]; }

  // ---- Construction.

  void build(int64_t now_ms) {
    now = now_ms;
    build_shapes_and_projects();
    build_nodes();
    build_shape_details();
    build_running();
    fill_buckets();
  }

  size_t resource_index(std::string_view name) {
    for (size_t i = 0; i < resources.size(); ++i) {
      if (resources[i] == name) return i;
    }
    resources.emplace_back(name);
    return resources.size() - 1;
  }

  uint32_t project_of(const std::string& name) {
    const auto [found, added] = project_index.try_emplace(name, static_cast<uint32_t>(projects.size()));
    if (!added) return found->second;
    Project& project = projects.emplace_back();
    if (const auto weight = options.weights.find(name); weight != options.weights.end() && weight->second > 0) {
      project.weight = weight->second;
    }
    if (const auto quota = options.urgent_quota.find(name); quota != options.urgent_quota.end()) {
      project.urgent_quota = quota->second;
    }
    return found->second;
  }

  void build_shapes_and_projects() {
    size_t slots = 64;
    while (slots < 2 * queue.size()) slots *= 2;
    std::vector<uint32_t> table(slots, UINT32_MAX);
    jobs.reserve(queue.size());
    const std::string* last_name = nullptr;
    uint32_t last_project = 0;
    for (const QueuedJob& job : queue) {
      size_t at = hash_of_shape(job) & (slots - 1);
      while (table[at] != UINT32_MAX && !asks_for_the_same(*shapes[table[at]].asked, job)) at = (at + 1) & (slots - 1);
      if (table[at] == UINT32_MAX) {
        table[at] = static_cast<uint32_t>(shapes.size());
        Shape& shape = shapes.emplace_back();
        shape.asked = &job;
        shape.nodes = static_cast<size_t>(std::max(1, job.nodes));
      }
      if (last_name == nullptr || *last_name != job.project) {
        last_project = project_of(job.project);
        last_name = &job.project;
      }
      jobs.push_back({.shape = table[at], .project = last_project, .promised_ms = job.promised_ms});
      ++shapes[table[at]].waiting;
    }
    waiting_jobs = jobs.size();
  }

  // Appends an array of amounts and returns its offset.
  size_t add_amounts(const ResourceSet& set) {
    const size_t at = amounts.size();
    amounts.resize(at + width);
    for (const auto& [name, amount] : set.entries()) amounts[at + resource_index(name)] = amount;
    return at;
  }

  void build_nodes() {
    resources = {"gpus", "cpus", "memory"};  // See kGpuColumn.
    const auto add_names = [&](const ResourceSet& set) {
      for (const auto& [name, amount] : set.entries()) resource_index(name);
    };
    for (const PlanNode& node : cluster.nodes) {
      add_names(node.total);
      add_names(node.free);
    }
    for (const Shape& shape : shapes) add_names(shape.asked->per_node);
    for (const RunningJob& job : cluster.running) {
      for (const auto& [node, held] : job.held) add_names(held);
    }
    width = resources.size();
    const size_t count = cluster.nodes.size();
    free.resize(count * width);
    total.resize(count * width);
    cluster_total.resize(width);
    for (uint32_t node = 0; node < count; ++node) {
      for (const auto& [name, amount] : cluster.nodes[node].free.entries()) {
        free[node * width + resource_index(name)] = amount;
      }
      for (const auto& [name, amount] : cluster.nodes[node].total.entries()) {
        const size_t resource = resource_index(name);
        total[node * width + resource] = amount;
        cluster_total[resource] += amount;
      }
      if (cluster.nodes[node].takes_jobs) order.push_back(node);
    }
    std::ranges::sort(order, [&](uint32_t a, uint32_t b) { return comes_first(a, b); });
    for (Project& project : projects) project.used.resize(width);
    for (Reservation& reservation : reservations) reservation.place.assign(count, -1);
    most_free.resize(width);
  }

  // Best fit: fewer free GPUs, then CPUs, memory and the rest, then the order of the view.
  bool comes_first(uint32_t a, uint32_t b) const {
    const Amount* left = &free[a * width];
    const Amount* right = &free[b * width];
    for (size_t i = 0; i < width; ++i) {
      if (left[i] != right[i]) return left[i] < right[i];
    }
    return a < b;
  }

  void build_shape_details() {
    for (Shape& shape : shapes) {
      shape.need = add_amounts(shape.asked->per_node);
      if (!shape.asked->node_names.empty() || !shape.asked->labels.empty()) {
        for (const PlanNode& node : cluster.nodes) shape.allowed.push_back(job_may_use(node, *shape.asked) ? 1 : 0);
      }
      size_t open = 0, closed = 0;
      for (uint32_t node = 0; node < cluster.nodes.size() && open < shape.nodes; ++node) {
        if (!allowed_on(shape, node) || !covers(&total[node * width], shape)) continue;
        ++(cluster.nodes[node].takes_jobs ? open : closed);
      }
      shape.possible = open >= shape.nodes;
      shape.never = open + closed < shape.nodes && !cluster.nodes.empty();
    }
  }

  void build_running() {
    std::unordered_map<std::string_view, uint32_t> index;
    index.reserve(cluster.nodes.size());
    for (uint32_t node = 0; node < cluster.nodes.size(); ++node) index.emplace(cluster.nodes[node].name, node);
    for (const RunningJob& job : cluster.running) {
      Running run{.planned_ms = kJobNeverEnds,
                  .limit_ms = job.limit_ms > 0 ? std::max(now + 1, job.started_ms + job.limit_ms) : kJobNeverEnds,
                  .project = project_of(job.project),
                  .urgent = counts_as_urgent(job.priority),
                  .held = {}};
      projects[run.project].used.resize(width);
      run.planned_ms = run.limit_ms;
      const int64_t predicted = raised_prediction(job.predicted_ms, now - job.started_ms, job.limit_ms);
      if (ends == Ends::kPredicted && predicted > 0) {
        run.planned_ms = std::min(run.limit_ms, std::max(now + 1, job.started_ms + predicted));
      }
      for (const auto& [name, held] : job.held) {
        const auto node = index.find(name);
        if (node != index.end()) run.held.push_back({.node = node->second, .amounts = add_amounts(held)});
      }
      add_running(std::move(run), false);
    }
    std::ranges::sort(by_plan, std::greater<>());
    std::ranges::sort(by_limit, std::greater<>());
  }

  void fill_buckets() {
    for (uint32_t at = 0; at < jobs.size(); ++at) {
      const size_t priority = priority_index(queue[at]);
      const int64_t limit = queue[at].limit_ms > 0 ? queue[at].limit_ms : kJobNeverEnds;
      const bool predicted = ends == Ends::kPredicted && queue[at].predicted_ms > 0;
      projects[jobs[at].project].buckets[priority].jobs.push_back(
          {.job = at,
           .shape = jobs[at].shape,
           .limit_ms = limit,
           .planned_ms = predicted ? std::min(limit, queue[at].predicted_ms) : limit});
    }
    const auto key = [&](const Entry& entry) {
      return std::pair(queue[entry.job].submitted_ms, queue[entry.job].number);
    };
    for (Project& project : projects) {
      for (Bucket& bucket : project.buckets) {
        if (!std::ranges::is_sorted(bucket.jobs, {}, key)) std::ranges::sort(bucket.jobs, {}, key);
      }
    }
  }

  // ---- Running jobs.

  void add_running(Running run, bool sorted) {
    const auto index = static_cast<uint32_t>(running.size());
    const auto insert = [&](std::vector<End>& list, int64_t end) {
      if (end == kJobNeverEnds) return;
      if (!sorted) {
        list.emplace_back(end, index);
      } else {
        list.insert(std::ranges::upper_bound(list, End(end, index), std::greater<>()), End(end, index));
      }
    };
    insert(by_plan, run.planned_ms);
    insert(by_limit, run.limit_ms);
    if (run.urgent) ++projects[run.project].urgent_running;
    book(run, +1);
    running.push_back(std::move(run));
  }

  // Adds the holdings to the use of the project, or subtracts them.
  void book(const Running& run, int sign) {
    Project& project = projects[run.project];
    project.share = 0;
    for (const Hold& hold : run.held) {
      for (size_t i = 0; i < width; ++i) project.used[i] += sign * amounts[hold.amounts + i];
    }
    for (size_t i = 0; i < width; ++i) {
      if (cluster_total[i] <= 0) continue;
      const double share = static_cast<double>(project.used[i]) / static_cast<double>(cluster_total[i]);
      project.share = std::max(project.share, share / project.weight);
    }
  }

  void end_until(int64_t until) {
    while (!by_plan.empty() && by_plan.back().first <= until) {
      const uint32_t index = by_plan.back().second;
      by_plan.pop_back();
      const Running& run = running[index];
      const auto at = std::ranges::lower_bound(by_limit, End(run.limit_ms, index), std::greater<>());
      if (at != by_limit.end() && at->second == index) by_limit.erase(at);
      if (run.urgent) --projects[run.project].urgent_running;
      book(run, -1);
      for (const Hold& hold : run.held) {
        change_free(hold.node, &amounts[hold.amounts], +1);
        released.push_back(hold.node);
      }
    }
  }

  void change_free(uint32_t node, const Amount* change, int sign) {
    const auto less = [&](uint32_t a, uint32_t b) { return comes_first(a, b); };
    auto at = order.end();
    if (cluster.nodes[node].takes_jobs) at = std::lower_bound(order.begin(), order.end(), node, less);
    const bool listed = at != order.end();
    if (listed) order.erase(at);
    for (size_t i = 0; i < width; ++i) free[node * width + i] += sign * change[i];
    if (listed) order.insert(std::lower_bound(order.begin(), order.end(), node, less), node);
  }

  // ---- Fit.

  static bool allowed_on(const Shape& shape, uint32_t node) { return shape.allowed.empty() || shape.allowed[node]; }

  bool covers(const Amount* available, const Shape& shape) const {
    const Amount* need = &amounts[shape.need];
    for (size_t i = 0; i < width; ++i) {
      if (need[i] > available[i] && need[i] > 0) return false;
    }
    return true;
  }

  // Fills `chosen` with nodes for a job that must respect these reservations.
  bool choose(const Shape& shape, ReservationSet respected) {
    chosen.clear();
    const Amount gpus = amounts[shape.need + kGpuColumn];
    auto at = gpus <= 0 ? order.begin() : std::ranges::partition_point(order, [&](uint32_t node) {
      return free[node * width + kGpuColumn] < gpus;
    });
    for (; at != order.end(); ++at) {
      if (!covers(free_of(*at), shape) || !allowed_on(shape, *at) || !leaves(shape, *at, respected)) continue;
      chosen.push_back(*at);
      if (chosen.size() == shape.nodes) return true;
    }
    return false;
  }

  bool leaves(const Shape& shape, uint32_t node, ReservationSet respected) const {
    for (size_t i = 0; respected >> i != 0; ++i) {
      if ((respected >> i & 1) == 0) continue;
      const int32_t place = reservations[i].place[node];
      if (place >= 0 && !covers(&reservations[i].left[static_cast<size_t>(place) * width], shape)) return false;
    }
    return true;
  }

  // The reservations that a job must respect if it starts now: those that begin before it ends.
  ReservationSet respected_by(const Entry& entry) const {
    ReservationSet set = 0;
    for (size_t i = 0; i < reservation_count; ++i) {
      const int64_t run_ms = reservations[i].by_limits ? entry.limit_ms : entry.planned_ms;
      if (run_ms == kJobNeverEnds || now + run_ms > reservations[i].time) set |= 1u << i;
    }
    return set;
  }

  // ---- Reservations.

  // Finds the earliest time at which the shape fits if the running jobs end as listed. `later` is the state then.
  std::optional<Fit> earliest_fit(const Shape& shape, const std::vector<End>& by_end) {
    later = free;
    fits_later.assign(cluster.nodes.size(), 0);
    size_t fitting = 0;
    const auto check = [&](uint32_t node) {
      if (fits_later[node] || !cluster.nodes[node].takes_jobs || !allowed_on(shape, node)) return;
      if (!covers(&later[node * width], shape)) return;
      fits_later[node] = 1;
      ++fitting;
    };
    for (const uint32_t node : order) check(node);
    for (size_t at = by_end.size(); at > 0; --at) {
      const auto [end, index] = by_end[at - 1];
      for (const Hold& hold : running[index].held) {
        for (size_t i = 0; i < width; ++i) later[hold.node * width + i] += amounts[hold.amounts + i];
        check(hold.node);
      }
      const bool last_at_this_time = at == 1 || by_end[at - 2].first != end;
      if (last_at_this_time && fitting >= shape.nodes) return fit_on(shape, end, tightest_later(shape));
    }
    return std::nullopt;
  }

  // The nodes among fits_later with the least left.
  std::vector<uint32_t> tightest_later(const Shape& shape) const {
    std::vector<uint32_t> nodes;
    for (uint32_t node = 0; node < cluster.nodes.size(); ++node) {
      if (fits_later[node]) nodes.push_back(node);
    }
    const auto tighter = [&](uint32_t a, uint32_t b) {
      for (size_t i = 0; i < width; ++i) {
        const Amount left = later[a * width + i], right = later[b * width + i];
        if (left != right) return left < right;
      }
      return a < b;
    };
    const auto middle = nodes.begin() + static_cast<ptrdiff_t>(shape.nodes);
    std::ranges::partial_sort(nodes, middle, tighter);
    nodes.erase(middle, nodes.end());
    return nodes;
  }

  // `later` is the state at that time.
  Fit fit_on(const Shape& shape, int64_t time, std::vector<uint32_t> nodes) const {
    Fit fit{.time = time, .nodes = std::move(nodes), .left = {}};
    fit.left.reserve(fit.nodes.size() * width);
    for (const uint32_t node : fit.nodes) {
      for (size_t i = 0; i < width; ++i) fit.left.push_back(later[node * width + i] - amounts[shape.need + i]);
    }
    return fit;
  }

  // The nodes that lack the least for the shape, at an unknown time.
  Fit least_lacking(const Shape& shape) {
    later = free;
    std::vector<std::pair<double, uint32_t>> lacking;
    for (uint32_t node = 0; node < cluster.nodes.size(); ++node) {
      if (!cluster.nodes[node].takes_jobs || !allowed_on(shape, node)) continue;
      if (!covers(&total[node * width], shape)) continue;
      double lacks = 0;
      for (size_t i = 0; i < width; ++i) {
        const Amount need = amounts[shape.need + i];
        const Amount short_by = need - free[node * width + i];
        if (need > 0 && short_by > 0) lacks += static_cast<double>(short_by) / static_cast<double>(need);
      }
      lacking.emplace_back(lacks, node);
    }
    std::ranges::sort(lacking);
    std::vector<uint32_t> nodes;
    for (size_t i = 0; i < std::min(shape.nodes, lacking.size()); ++i) nodes.push_back(lacking[i].second);
    return fit_on(shape, -1, std::move(nodes));
  }

  size_t add_reservation(Fit fit, bool by_limits) {
    Reservation& reservation = reservations[reservation_count];
    reservation.time = fit.time;
    reservation.by_limits = by_limits;
    reservation.nodes = std::move(fit.nodes);
    reservation.left = std::move(fit.left);
    for (size_t place = 0; place < reservation.nodes.size(); ++place) {
      reservation.place[reservation.nodes[place]] = static_cast<int32_t>(place);
    }
    return reservation_count++;
  }

  void drop_reservations() {
    for (size_t i = 0; i < reservation_count; ++i) {
      for (const uint32_t node : reservations[i].nodes) reservations[i].place[node] = -1;
      reservations[i].nodes.clear();
    }
    reservation_count = 0;
    likely.reset();
    latest.reset();
  }

  void block(uint32_t at) {
    blocked = at;
    const Shape& shape = shapes[jobs[at].shape];
    const QueuedJob& job = queue[at];
    const int64_t patience_ends = jobs[at].promised_ms > 0 ? jobs[at].promised_ms : job.submitted_ms + options.guard_ms;
    auto likely_fit = earliest_fit(shape, by_plan);
    auto limit_fit = ends == Ends::kAtLimits ? std::nullopt : earliest_fit(shape, by_limit);
    if (likely_fit && jobs[at].promised_ms == 0) jobs[at].promised_ms = likely_fit->time;
    const bool has_limit = ends == Ends::kAtLimits ? likely_fit.has_value() : limit_fit.has_value();
    guarded = now > patience_ends;
    if (likely_fit) likely = add_reservation(std::move(*likely_fit), guarded || ends == Ends::kAtLimits);
    if (ends == Ends::kAtLimits && has_limit) latest = likely;
    if (limit_fit) latest = add_reservation(std::move(*limit_fit), true);
    if (!likely || (guarded && !has_limit)) latest = add_reservation(least_lacking(shape), true);
  }

  // ---- A pass.

  void start(uint32_t at, ReservationSet respected) {
    Job& job = jobs[at];
    Shape& shape = shapes[job.shape];
    const QueuedJob& asked = queue[at];
    Running run{.planned_ms = kJobNeverEnds,
                .limit_ms = asked.limit_ms > 0 ? now + asked.limit_ms : kJobNeverEnds,
                .project = job.project,
                .urgent = counts_as_urgent(asked.priority),
                .held = {}};
    run.planned_ms = run.limit_ms;
    if (ends == Ends::kPredicted && asked.predicted_ms > 0) {
      run.planned_ms = std::min(run.limit_ms, now + asked.predicted_ms);
    }
    for (const uint32_t node : chosen) {
      run.held.push_back({.node = node, .amounts = shape.need});
      change_free(node, &amounts[shape.need], -1);
      for (size_t i = 0; respected >> i != 0; ++i) {
        Reservation& reservation = reservations[i];
        if ((respected >> i & 1) == 0 || reservation.place[node] < 0) continue;
        Amount* left = &reservation.left[static_cast<size_t>(reservation.place[node]) * width];
        for (size_t k = 0; k < width; ++k) left[k] -= amounts[shape.need + k];
      }
    }
    add_running(std::move(run), true);
    job.started = true;
    projects[job.project].buckets[priority_index(asked)].changed = true;
    if (--shape.waiting == 0 && shape.failed != kAllFailed) --alive;
    --waiting_jobs;
    starts.push_back({.job = at, .nodes = chosen});
  }

  // A job that must respect more reservations does not fit either.
  void fail(Shape& shape, ReservationSet respected) {
    const bool was_alive = shape.failed != kAllFailed;
    for (ReservationSet set = 0; set < 1u << kReservationsMax; ++set) {
      if ((set & respected) == respected) shape.failed |= 1u << set;
    }
    if (shape.failed != kAllFailed) return;
    shape.fitted = false;
    if (was_alive && shape.waiting > 0) --alive;
  }

  void begin_pass(int64_t now_ms) {
    now = now_ms;
    starts.clear();
    blocked.reset();
    guarded = false;
    drop_reservations();
    std::ranges::fill(most_free, 0);
    for (const uint32_t node : order) raise_to(most_free, node);
    alive = 0;
    for (Shape& shape : shapes) {
      if (shape.waiting == 0) continue;
      if (!shape.fitted) {
        // Only a node with more room than in the last pass can change that.
        shape.fitted = std::ranges::any_of(
            released, [&](uint32_t node) { return covers(free_of(node), shape) && cluster.nodes[node].takes_jobs; });
      }
      if (shape.fitted) shape.fitted = shape.possible && covers(most_free.data(), shape) && choose(shape, 0);
      shape.failed = shape.fitted ? 0 : kAllFailed;
      if (shape.fitted) ++alive;
    }
    released.clear();
  }

  // Moves the cursor to the next job that may start, or that may become the blocked one; false: none is left.
  bool advance(Bucket& bucket) const {
    for (; bucket.cursor < bucket.jobs.size(); ++bucket.cursor) {
      const Entry& entry = bucket.jobs[bucket.cursor];
      const Shape& shape = shapes[entry.shape];
      if (!blocked) {
        if (shape.possible) return true;
      } else if (shape.failed != kAllFailed && (shape.failed >> respected_by(entry) & 1) == 0) {
        return true;
      }
    }
    return false;
  }

  void take_turn(Turns& turns, uint32_t project, size_t priority) {
    Bucket& bucket = projects[project].buckets[priority];
    if (!advance(bucket)) return;
    const uint32_t job = bucket.jobs[bucket.cursor].job;
    turns.push({.share = projects[project].share,
                .submitted_ms = queue[job].submitted_ms,
                .number = queue[job].number,
                .project = project,
                .job = job});
  }

  bool over_quota(uint32_t at) const {
    const Project& project = projects[jobs[at].project];
    return counts_as_urgent(queue[at].priority) && project.urgent_running >= project.urgent_quota;
  }

  void consider(const Entry& entry) {
    const uint32_t at = entry.job;
    if (over_quota(at)) return;
    Shape& shape = shapes[entry.shape];
    const ReservationSet respected = respected_by(entry);
    if ((shape.failed >> respected & 1) == 0 && choose(shape, respected)) {
      start(at, respected);
    } else {
      fail(shape, respected);
      if (!blocked) block(at);
    }
  }

  // `must_block`: finds the blocked job even if nothing can start.
  void pass(int64_t now_ms, bool must_block) {
    begin_pass(now_ms);
    for (size_t priority = kJobPriorities; priority-- > 0;) {
      if (alive == 0 && (blocked || !must_block)) break;
      Turns turns;
      for (uint32_t project = 0; project < projects.size(); ++project) {
        projects[project].buckets[priority].cursor = 0;
        take_turn(turns, project, priority);
      }
      while (!turns.empty() && (alive > 0 || (!blocked && must_block)) && !(blocked && !options.backfill)) {
        const Turn turn = turns.top();
        turns.pop();
        Bucket& bucket = projects[turn.project].buckets[priority];
        if (advance(bucket) && bucket.jobs[bucket.cursor].job == turn.job) {
          consider(bucket.jobs[bucket.cursor]);
          ++bucket.cursor;
        }
        take_turn(turns, turn.project, priority);
      }
    }
    for (const Start& start : starts) remove_started(start.job);
  }

  void remove_started(size_t at) {
    Bucket& bucket = projects[jobs[at].project].buckets[priority_index(queue[at])];
    if (!bucket.changed) return;
    std::erase_if(bucket.jobs, [&](const Entry& entry) { return jobs[entry.job].started; });
    bucket.changed = false;
  }

  // ---- Reasons.

  void append_order(std::vector<uint32_t>& result) const {
    for (size_t priority = kJobPriorities; priority-- > 0;) {
      const bool here = blocked && priority_index(queue[*blocked]) == priority;
      if (here) result.push_back(*blocked);
      Turns turns;
      std::vector<size_t> next(projects.size());
      const auto push = [&](uint32_t project) {
        const auto& list = projects[project].buckets[priority].jobs;
        if (next[project] < list.size() && here && list[next[project]].job == *blocked) ++next[project];
        if (next[project] >= list.size()) return;
        const uint32_t job = list[next[project]++].job;
        turns.push({projects[project].share, queue[job].submitted_ms, queue[job].number, project, job});
      };
      for (uint32_t project = 0; project < projects.size(); ++project) push(project);
      while (!turns.empty()) {
        const Turn turn = turns.top();
        turns.pop();
        result.push_back(turn.job);
        const Turn* other = turns.empty() ? nullptr : &turns.top();
        // Jobs of the same project follow as long as no other project comes first; this avoids the heap.
        const auto& list = projects[turn.project].buckets[priority].jobs;
        while (next[turn.project] < list.size() && (other == nullptr || other->share > turn.share)) {
          const uint32_t job = list[next[turn.project]++].job;
          if (!here || job != *blocked) result.push_back(job);
        }
        push(turn.project);
      }
    }
  }

  std::vector<NodeClass> node_classes() const {
    std::map<std::vector<Amount>, NodeClass> classes;
    std::vector<Amount> key;
    for (uint32_t node = 0; node < cluster.nodes.size(); ++node) {
      key.assign(&total[node * width], &total[node * width] + width);
      NodeClass& same = classes.try_emplace(key, NodeClass{.node = node}).first->second;
      ++(cluster.nodes[node].takes_jobs ? same.open : same.closed);
    }
    std::vector<NodeClass> result;
    for (const auto& [amounts_of_class, same] : classes) result.push_back(same);
    return result;
  }

  // `classes`, `largest`: of the whole cluster, for shapes that may use all nodes.
  std::shared_ptr<const Shortage> shortage_of(const Shape& shape, const std::vector<NodeClass>& classes,
                                              std::vector<Amount> largest) const {
    auto result = std::make_shared<Shortage>();
    result->nodes_needed = static_cast<int>(shape.nodes);
    if (shape.allowed.empty()) {
      for (const NodeClass& same : classes) {
        if (!covers(&total[same.node * width], shape)) continue;
        result->nodes_able += same.open + same.closed;
        result->nodes_closed += same.closed;
      }
    } else {
      std::ranges::fill(largest, 0);
      for (uint32_t node = 0; node < cluster.nodes.size(); ++node) {
        if (!allowed_on(shape, node)) continue;
        const bool open = cluster.nodes[node].takes_jobs;
        if (covers(&total[node * width], shape)) {
          ++result->nodes_able;
          if (!open) ++result->nodes_closed;
        }
        if (open) raise_to(largest, node);
      }
    }
    for (size_t i = 0; i < width && result->resource.empty(); ++i) {
      const Amount need = amounts[shape.need + i];
      if (need <= largest[i]) continue;
      result->resource = resources[i];
      result->needed = need;
      result->largest_free = largest[i];
    }
    if (result->resource.empty()) {
      result->nodes_fitting = std::ranges::count_if(
          order, [&](uint32_t node) { return allowed_on(shape, node) && covers(&free[node * width], shape); });
    }
    if (result->nodes_able < result->nodes_needed) {
      result->why_never =
          cluster.nodes.empty() ? "the cluster has no node" : reason_for_never(cluster.nodes, *shape.asked);
    }
    return result;
  }

  void raise_to(std::vector<Amount>& largest, uint32_t node) const {
    for (size_t i = 0; i < width; ++i) largest[i] = std::max(largest[i], free[node * width + i]);
  }

  std::vector<Wait> waits() {
    std::vector<std::shared_ptr<const Shortage>> shortages(shapes.size());
    std::vector<uint8_t> fits_now(shapes.size());
    const std::vector<NodeClass> classes = node_classes();
    std::vector<Amount> largest(width);
    for (const uint32_t node : order) raise_to(largest, node);
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (shapes[i].waiting == 0) continue;
      fits_now[i] = shapes[i].fitted && choose(shapes[i], 0) ? 1 : 0;
      if (!fits_now[i]) shortages[i] = shortage_of(shapes[i], classes, largest);
    }
    std::vector<uint32_t> in_order;
    in_order.reserve(waiting_jobs);
    append_order(in_order);
    std::vector<Wait> result;
    result.reserve(in_order.size());
    int64_t ahead = 0;
    for (const uint32_t at : in_order) {
      const uint32_t index = jobs[at].shape;
      Wait& wait = result.emplace_back();
      wait.number = queue[at].number;
      wait.ahead = ahead;
      wait.shortage = shortages[index];
      if (shapes[index].never) {
        wait.kind = WaitKind::kNever;
        continue;
      }
      if (!shapes[index].possible) {
        wait.kind = WaitKind::kNoRoom;
      } else if (over_quota(at)) {
        wait.kind = WaitKind::kUrgentQuota;
      } else if (blocked == at || !blocked) {
        wait.kind = WaitKind::kNoRoom;
      } else {
        wait.kind = fits_now[index] && options.backfill ? WaitKind::kReserved : WaitKind::kBehind;
        wait.other = queue[*blocked].number;
      }
      ++ahead;
    }
    return result;
  }

  std::vector<std::string> names_of(const std::vector<uint32_t>& nodes) const {
    std::vector<std::string> names;
    for (const uint32_t node : nodes) names.push_back(cluster.nodes[node].name);
    return names;
  }
};

QueueRun::QueueRun(const ClusterView& cluster, std::span<const QueuedJob> queue, int64_t now_ms,
                   const PlannerOptions& options, Ends ends)
    : state_(std::make_unique<State>(cluster, queue, options, ends)) {
  state_->build(now_ms);
}

QueueRun::~QueueRun() = default;

const std::vector<QueueRun::Start>& QueueRun::pass(int64_t now_ms, bool find_blocked) {
  state_->pass(now_ms, find_blocked);
  return state_->starts;
}

int64_t QueueRun::next_end_ms() const { return state_->by_plan.empty() ? kUnknown : state_->by_plan.back().first; }
void QueueRun::end_until(int64_t now_ms) { state_->end_until(now_ms); }
bool QueueRun::never(size_t job) const { return state_->shapes[state_->jobs[job].shape].never; }
size_t QueueRun::waiting() const { return state_->waiting_jobs; }
void QueueRun::append_order(std::vector<uint32_t>& jobs) const { state_->append_order(jobs); }
std::vector<Wait> QueueRun::waits() { return state_->waits(); }

std::optional<BlockedJob> QueueRun::blocked() const {
  const State& state = *state_;
  if (!state.blocked) return std::nullopt;
  BlockedJob result{
      .number = state.queue[*state.blocked].number, .guarded = state.guarded, .nodes = {}, .latest_nodes = {}};
  if (state.likely) {
    const State::Reservation& reservation = state.reservations[*state.likely];
    result.likely_ms = reservation.time;
    result.nodes = state.names_of(reservation.nodes);
  }
  if (state.latest) {
    const State::Reservation& reservation = state.reservations[*state.latest];
    result.latest_ms = std::max<int64_t>(0, reservation.time);
    result.latest_nodes = state.names_of(reservation.nodes);
  }
  return result;
}

const Wait* Plan::wait_of(JobNumber number) const {
  const auto found = std::ranges::find(waits, number, &Wait::number);
  return found == waits.end() ? nullptr : &*found;
}

Plan plan(const ClusterView& cluster, std::span<const QueuedJob> queue, int64_t now_ms, const PlannerOptions& options) {
  QueueRun run(cluster, queue, now_ms, options, QueueRun::Ends::kPredicted);
  Plan result;
  for (const QueueRun::Start& start : run.pass(now_ms)) {
    Placement placement;
    for (const uint32_t node : start.nodes) placement.nodes.push_back(cluster.nodes[node].name);
    result.start.emplace_back(queue[start.job].number, std::move(placement));
  }
  result.waits = run.waits();
  result.blocked = run.blocked();
  return result;
}

namespace {

std::string text_of_shortage(const Shortage& shortage) {
  const int64_t open = shortage.nodes_able - shortage.nodes_closed;
  if (!shortage.why_never.empty()) return fmt::format("waits for nodes: {}", shortage.why_never);
  if (open < shortage.nodes_needed) {
    return fmt::format("needs {}; of the nodes that could hold it, {} and {} now",
                       counted(shortage.nodes_needed, "node"), counted(open, "takes jobs", "take jobs"),
                       counted(shortage.nodes_closed, "takes none", "take none"));
  }
  if (!shortage.resource.empty()) {
    const std::string needs = fmt::format("needs {} on {} node", text_of_job_amount(shortage.resource, shortage.needed),
                                          shortage.nodes_needed == 1 ? "a" : "each");
    if (shortage.largest_free <= 0) return needs + ", and none is free";
    return fmt::format("{}, and no node has more than {} free", needs,
                       text_of_job_amount(shortage.resource, shortage.largest_free));
  }
  if (shortage.nodes_needed == 1) return "no single node has free all that it asks for";
  return fmt::format("needs {}, and {} room now", counted(shortage.nodes_needed, "node"),
                     counted(shortage.nodes_fitting, "node has", "nodes have"));
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
  }
  return {};
}

Result<void> check_feasible(const ClusterView& cluster, const QueuedJob& job) {
  if (job.nodes < 1) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("nodes: expected at least 1, got {}", job.nodes));
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
