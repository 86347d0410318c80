// Cost of the job queue's decisions: 10,000 queued jobs on 1,000 nodes of 8 GPUs. Prints the times of an event (a job
// ends, the cluster is read, others start) and of the forecast of all queued jobs: build/bin/job_queue [JOBS [NODES]].
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "jobs/job_core.h"
#include "runtime/random.h"

namespace volador::jobs {
namespace {

using Timer = std::chrono::steady_clock;

double ms_since(Timer::time_point begin) {
  return std::chrono::duration<double, std::milli>(Timer::now() - begin).count();
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

int run(int jobs, int nodes) {
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
  std::ranges::sort(times);
  fmt::print("queue_decision  p50 {:.2f} ms  p99 {:.2f} ms  a job's end and what starts by it\n", times[250], times[495]);
  begin = Timer::now();
  v1::ListJobsRequest all;
  all.set_limit(1);
  all.set_state("queued");
  now_ms += 100'000;
  (void)core.list(all, now_ms);
  fmt::print("queue_eta       {:.0f} ms  the expected starts of all queued jobs\n", ms_since(begin));
  return 0;
}

}  // namespace
}  // namespace volador::jobs

int main(int argc, char** argv) {
  return volador::jobs::run(argc > 1 ? std::atoi(argv[1]) : 10'000, argc > 2 ? std::atoi(argv[2]) : 1'000);
}
