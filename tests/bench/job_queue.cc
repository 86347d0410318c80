// Cost of the job queue's decisions: 10,000 queued jobs on 1,000 nodes of 8 GPUs. Prints the times of an event (a job
// ends, the cluster is read, others start) and of the forecast of all queued jobs, first for the planner alone, then
// for the core with its requests: build/bin/job_queue [JOBS [NODES [planner]]].
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "jobs/job_core.h"
#include "jobs/queue/incremental_planner.h"
#include "runtime/random.h"

namespace volador::jobs {
namespace {

using Timer = std::chrono::steady_clock;

double ms_since(Timer::time_point begin) {
  return std::chrono::duration<double, std::milli>(Timer::now() - begin).count();
}

double cpu_ms() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

// Starts every actor at once, on the first node with room, and reports it.
class InstantHead {
 public:
  InstantHead(int nodes, JobCore& core) : core_(core) {
    for (int i = 0; i < nodes; ++i) {
      PlanNode node{.name = fmt::format("n{}", i), .total = *ResourceSet::from({.cpus = 64, .gpus = 8})};
      node.free = node.total;
      state_.addresses[node.name] = "10.0.0.1";
      state_.view.nodes.push_back(std::move(node));
    }
  }

  // Handles the requests of the core until there are none.
  void settle(int64_t now_ms) {
    for (JobActions actions = core_.take(); !actions.messages.empty() || actions.look; actions = core_.take()) {
      for (const protocol::ClientMessage& message : actions.messages) {
        if (message.has_spawn()) start(message.spawn().spec(), now_ms);
      }
      if (actions.look) core_.on_cluster(state_, now_ms);
    }
  }

  // Ends the oldest running actor.
  void end_one(int64_t now_ms) {
    const auto [actor, node] = running_.front();
    running_.erase(running_.begin());
    PlanNode& place = state_.view.nodes[node];
    place.free += held_.at(actor);
    held_.erase(actor);
    protocol::HeadMessage message = info(actor, place.name, protocol::DEAD);
    message.mutable_actor()->mutable_cause()->set_kind(protocol::DeathCause::EXITED);
    core_.on_message(message, now_ms);
  }
  size_t running() const { return running_.size(); }

 private:
  protocol::HeadMessage info(ActorId actor, const std::string& node, protocol::ActorState state) {
    protocol::HeadMessage message;
    message.mutable_actor()->set_actor_id(raw(actor));
    message.mutable_actor()->set_state(state);
    message.mutable_actor()->set_node_name(node);
    message.mutable_actor()->set_version(++version_);
    return message;
  }
  void start(const protocol::ActorSpec& spec, int64_t now_ms) {
    ResourceSet wanted;
    for (const auto& [name, amount] : spec.resources().amounts()) wanted.set(name, amount);
    for (size_t i = 0; i < state_.view.nodes.size(); ++i) {
      PlanNode& node = state_.view.nodes[i];
      if (!wanted.fits_in(node.free)) continue;
      node.free -= wanted;
      const auto actor = id_from_raw<ActorId>(spec.actor_id());
      running_.emplace_back(actor, i);
      held_[actor] = wanted;
      return core_.on_message(info(actor, node.name, protocol::ALIVE), now_ms);
    }
  }

  JobCore& core_;
  ClusterState state_;
  std::vector<std::pair<ActorId, size_t>> running_;
  std::map<ActorId, ResourceSet> held_;
  uint64_t version_ = 0;
};

double percentile(std::vector<double>& times, size_t percent) {
  std::ranges::sort(times);
  return times[std::min(times.size() - 1, times.size() * percent / 100)];
}

// An incremental planner whose jobs start as planned and end in the order of their starts. `pools`: of nodes and jobs.
class PlannedCluster {
 public:
  PlannedCluster(int nodes, int pools, PlannerOptions options) : planner_(std::move(options)), pools_(pools) {
    for (int i = 0; i < nodes; ++i) {
      PlanNode node{.name = fmt::format("n{}", i), .total = *ResourceSet::from({.cpus = 64, .gpus = 8})};
      node.free = node.total;
      node.pool = fmt::format("pool{}", i % pools);
      node_index_[node.name] = nodes_.size();
      nodes_.push_back(std::move(node));
    }
  }

  void submit(int64_t now_ms) {
    const uint64_t kind = random_.below(100);
    const double gpus = kind < 80 ? 1 : kind < 90 ? 2 : kind < 96 ? 4 : 8;
    const auto duration = static_cast<int64_t>(600'000 + random_.below(36'000'000));
    planner_.put({.number = ++number_,
                  .priority = random_.below(50) == 0 ? JobPriority::kUrgent : JobPriority::kNormal,
                  .project = fmt::format("p{}", random_.below(15)),
                  .owner = fmt::format("u{}", random_.below(100)),
                  .nodes = random_.below(20) == 0 ? static_cast<int>(2 + random_.below(3)) : 1,
                  .per_node = *ResourceSet::from({.cpus = 1, .gpus = gpus}),
                  .submitted_ms = now_ms,
                  .limit_ms = duration,
                  .predicted_ms = duration / 2,
                  .node_names = {},
                  .labels = {},
                  .pool = fmt::format("pool{}", random_.below(static_cast<uint64_t>(pools_)))});
  }

  // Plans and starts jobs; returns their number.
  size_t plan(int64_t now_ms) {
    planner_.set_nodes(nodes_);
    const Plan plan = planner_.plan(now_ms);
    for (const BlockedJob& blocked : plan.blocked) planner_.set_promised(blocked.number, blocked.likely_ms);
    for (const auto& [number, placement] : plan.start) {
      const QueuedJob& job = *planner_.find(number);
      RunningJob running{.number = number,
                         .started_ms = now_ms,
                         .limit_ms = job.limit_ms,
                         .predicted_ms = job.predicted_ms,
                         .project = job.project,
                         .held = {},
                         .priority = job.priority};
      for (const std::string& node : placement.nodes) {
        nodes_[node_index_.at(node)].free -= job.per_node;
        running.held.emplace_back(node, job.per_node);
      }
      planner_.erase(number);
      planner_.put_running(std::move(running));
      ends_.push_back(number);
    }
    return plan.start.size();
  }

  void end_one() {
    for (const auto& [node, held] : planner_.find_running(ends_.front())->held) {
      nodes_[node_index_.at(node)].free += held;
    }
    planner_.erase_running(ends_.front());
    ends_.pop_front();
  }
  const IncrementalPlanner& planner() const { return planner_; }

 private:
  SeededRandom random_{1};
  IncrementalPlanner planner_;
  std::vector<PlanNode> nodes_;
  std::map<std::string, size_t> node_index_;
  std::deque<JobNumber> ends_;
  JobNumber number_ = 0;
  int pools_;
};

// `name`: of the line to print. The times are CPU time of this thread, which other processes disturb little.
void run_planner(const char* name, int jobs, int nodes, int pools, const PlannerOptions& options) {
  PlannedCluster cluster(nodes, pools, options);
  int64_t now_ms = 1'000'000;
  while (cluster.planner().size() < static_cast<size_t>(jobs)) {
    for (int i = 0; i < 500; ++i) cluster.submit(now_ms);
    cluster.plan(++now_ms);
  }
  std::vector<double> events, plans;
  for (int i = 0; i < 2000; ++i) {
    now_ms += 1000;
    double begin = cpu_ms();
    cluster.end_one();
    cluster.plan(now_ms);
    events.push_back(cpu_ms() - begin);
    begin = cpu_ms();
    (void)cluster.planner().plan(now_ms);
    plans.push_back(cpu_ms() - begin);
    cluster.submit(now_ms);
  }
  double begin = cpu_ms();
  (void)cluster.planner().waits(now_ms);
  const double waits = cpu_ms() - begin;
  begin = cpu_ms();
  (void)cluster.planner().forecast(now_ms);
  const double forecasts = cpu_ms() - begin;
  const ClusterView view = cluster.planner().view();
  const std::vector<QueuedJob> queue = cluster.planner().queue();
  begin = cpu_ms();
  (void)jobs::plan(view, queue, now_ms, options);
  const double stateless = cpu_ms() - begin;
  fmt::print(
      "{:<14} event p50 {:.3f} p99 {:.3f} ms  plan p50 {:.3f} p99 {:.3f} ms  waits {:.2f} ms  forecast {:.0f} ms  "
      "stateless plan {:.1f} ms\n",
      name, percentile(events, 50), percentile(events, 99), percentile(plans, 50), percentile(plans, 99), waits,
      forecasts, stateless);
}

int run(int jobs, int nodes, bool planner_only) {
  run_planner("planner", jobs, nodes, 1, {});
  run_planner("4 pools", jobs, nodes, 4, {});
  PlannerOptions options{.preempt_from = JobPriority::kUrgent};
  for (int i = 0; i < 15; ++i) {
    options.limits[fmt::format("p{}", i)] = *ResourceSet::from({.gpus = static_cast<double>(nodes / 2)});
  }
  run_planner("limits", jobs, nodes, 1, options);
  if (planner_only) return 0;
  SeededRandom random(1);
  JobCore core({.open = static_cast<size_t>(jobs) + static_cast<size_t>(nodes) * 8}, random);
  core.start(0);
  InstantHead head(nodes, core);
  core.on_cluster({}, 0);
  int64_t now_ms = 1'000'000;
  int submitted = 0;
  const auto submit = [&] {
    v1::SubmitJobRequest request;
    v1::JobSpec& spec = *request.mutable_spec();
    spec.add_command("true");
    const uint64_t kind = random.below(100);
    spec.set_gpus(kind < 80 ? 1 : kind < 90 ? 2 : kind < 96 ? 4 : 8);
    spec.set_duration_s(static_cast<int64_t>(600 + random.below(36'000)));
    spec.set_project(fmt::format("p{}", random.below(15)));
    const auto reply = core.submit(request, {.token_id = fmt::format("u{}", random.below(100))}, 0, now_ms);
    if (!reply) std::exit((fmt::print("{}\n", reply.error().message), 1));
    ++submitted;
  };
  auto begin = Timer::now();
  while (static_cast<int>(submitted - static_cast<int>(head.running())) < jobs) {
    for (int i = 0; i < 500; ++i) submit();
    head.settle(++now_ms);
  }
  fmt::print("submitted {} jobs in {:.0f} ms; {} run on {} nodes, {} are queued\n", submitted, ms_since(begin),
             head.running(), nodes, submitted - static_cast<int>(head.running()));
  std::vector<double> times;
  for (int i = 0; i < 500; ++i) {
    now_ms += 1000;
    begin = Timer::now();
    head.end_one(now_ms);
    head.settle(now_ms);
    times.push_back(ms_since(begin));
    submit();
  }
  fmt::print("queue_decision  p50 {:.2f} ms  p99 {:.2f} ms  a job's end and what starts by it\n", percentile(times, 50),
             percentile(times, 99));
  begin = Timer::now();
  v1::ListJobsRequest all;
  all.set_limit(1);
  all.set_state("queued");
  now_ms += 100'000;
  (void)core.list(all, {.token_id = "bench", .operates = true}, now_ms);
  fmt::print("queue_eta       {:.0f} ms  the expected starts of all queued jobs\n", ms_since(begin));
  return 0;
}

}  // namespace
}  // namespace volador::jobs

int main(int argc, char** argv) {
  return volador::jobs::run(argc > 1 ? std::atoi(argv[1]) : 10'000, argc > 2 ? std::atoi(argv[2]) : 1'000, argc > 3);
}
