// A JobCore between a cluster and a head, both driven by the test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "jobs/command.h"
#include "jobs/job_core.h"
#include "jobs/job_spec.h"
#include "jobs/job_yaml.h"
#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/jobs.pb.h"
#include "runtime/protocol/resource_map.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/random.h"
#include "runtime/resources.h"
#include "runtime/result.h"
#include "runtime/serialize/codec.h"

namespace volador::jobs {

using CoreCause = protocol::DeathCause;

inline constexpr int64_t kCoreStart = 1'000'000;
inline const Requester kCoreAnn{.token_id = "ann", .operates = false};
inline const Requester kCoreBen{.token_id = "ben", .operates = false};
inline const Requester kCoreRoot{.token_id = "root", .operates = true};

inline CoreCause core_cause(CoreCause::Kind kind, int number = 0, const std::string& message = {}) {
  CoreCause cause;
  cause.set_kind(kind);
  if (kind == CoreCause::EXITED) cause.set_exit_code(number);
  if (kind == CoreCause::SIGNALED) cause.set_signal(number);
  cause.set_message(message);
  return cause;
}

inline v1::JobSpec core_spec(double gpus = 0, int nodes = 1) {
  v1::JobSpec spec;
  for (const char* word : {"python3", "train.py"}) spec.add_command(word);
  spec.set_gpus(gpus);
  spec.set_nodes(nodes);
  return spec;
}

// A JobCore between a cluster and a head, both driven by the test: the test says what the actors do.
class JobCoreTest : public testing::Test {
 protected:
  struct Process {
    std::string node;
    ResourceSet resources;
  };

  explicit JobCoreTest(JobLimits limits = {}) : limits_(limits) { core_.emplace(limits_, random_); }

  void node(const std::string& name, double gpus, double cpus = 64, const std::string& pool = {}) {
    const ResourceSet total = *ResourceSet::from({.cpus = cpus, .gpus = gpus, .memory = int64_t{64} << 30});
    nodes_.push_back({.name = name, .labels = {}, .total = total, .free = total});
    if (!pool.empty()) nodes_.back().labels["pool"] = pool;
  }

  // Takes the actions of the last event.
  void settle() {
    core_->check_invariants();
    JobActions actions = core_->take();
    for (JobRow& row : actions.rows) {
      if (row.value) {
        rows_[{row.table, row.key}] = *row.value;
      } else {
        rows_.erase({row.table, row.key});
      }
    }
    rows_written_ += actions.rows.size();
    for (protocol::ClientMessage& each : actions.messages) {
      if (each.has_remove_group()) removals_.push_back(each.remove_group().request_id());
      sent_.push_back(std::move(each));
    }
    for (v1::Job& job : actions.trials) trials_.push_back(std::move(job));
    for (JobActors& job : actions.actors) actors_[job.number] = std::move(job);
    for (const JobEvent& event : actions.events) {
      std::string text = event.text;
      for (const auto& [name, value] : event.fields) text += " " + name + "=" + value;
      events_.push_back(std::move(text));
    }
    looks_ |= actions.look;
  }

  ClusterState cluster() const {
    ClusterState state;
    state.view.nodes = nodes_;
    for (PlanNode& each : state.view.nodes) {
      each.free = each.total;
      if (const auto used = others_.find(each.name); used != others_.end()) each.free -= used->second;
      for (const auto& [actor, process] : processes_) {
        if (process.node == each.name) each.free -= process.resources;
      }
      state.addresses[each.name] = each.name + ".example";
    }
    state.problems = problems_;
    state.withheld_gpus = withheld_;
    for (const ActorId actor : core_->ending()) {
      if (!processes_.contains(actor)) state.gone.push_back(actor);
    }
    return state;
  }

  // Delivers an event, twice if the test wants that.
  template <class Event>
  void deliver(Event event) {
    for (int i = 0; i < (twice_ ? 2 : 1); ++i) {
      event();
      settle();
    }
  }
  // The head has removed the groups as requested, and shows the cluster.
  void look() {
    for (const std::string& request : std::exchange(removals_, {})) {
      protocol::HeadMessage removed;
      removed.mutable_reply()->set_request_id(request);
      message(removed);
    }
    const ClusterState state = cluster();
    deliver([&] { core_->on_cluster(state, now_); });
  }
  void tick() {
    deliver([&] { core_->on_tick(now_); });
  }
  void message(const protocol::HeadMessage& what) {
    deliver([&] { core_->on_message(what, now_); });
  }

  // Starts the core again from its rows.
  void restart() {
    core_.emplace(limits_, random_);
    for (const auto& [key, value] : rows_) EXPECT_TRUE(core_->load(key.first, key.second, value));
    core_->start(now_);
    settle();
    sent_.clear();
  }
  void connect() {
    core_->on_connected(now_);
    settle();
  }

  Result<v1::SubmitJobReply> try_submit(const v1::JobSpec& spec, const Requester& by = kCoreAnn, bool dry_run = false,
                                        int64_t files_bytes = 0) {
    v1::SubmitJobRequest request;
    *request.mutable_spec() = spec;
    request.set_dry_run(dry_run);
    auto reply = core_->submit(request, by, files_bytes, now_);
    settle();
    return reply;
  }
  std::string submit(const v1::JobSpec& spec, const Requester& by = kCoreAnn) {
    const auto reply = try_submit(spec, by);
    EXPECT_TRUE(reply) << reply.error().message;
    return reply ? reply->job().id() : std::string();
  }
  Result<v1::Job> stop(const std::string& job, bool now = false, const Requester& by = kCoreAnn) {
    v1::StopJobRequest request;
    request.set_job(job);
    request.set_now(now);
    auto reply = core_->stop(request, by, now_);
    settle();
    return reply;
  }
  Result<void> remove(const std::string& job, const Requester& by = kCoreAnn) {
    v1::DeleteJobRequest request;
    request.set_job(job);
    auto reply = core_->remove(request, by, now_);
    settle();
    return reply;
  }
  Result<v1::Job> set_priority(const std::string& job, const std::string& priority, const Requester& by = kCoreAnn) {
    v1::SetJobPriorityRequest request;
    request.set_job(job);
    request.set_priority(priority);
    auto reply = core_->set_priority(request, by, now_);
    settle();
    return reply;
  }
  Result<v1::Job> extend(const std::string& job, int64_t duration_s, const Requester& by = kCoreAnn) {
    v1::ExtendJobRequest request;
    request.set_job(job);
    request.set_duration_s(duration_s);
    auto reply = core_->extend(request, by, now_);
    settle();
    return reply;
  }
  // Sets the settings of the queue from YAML.
  void queue_settings(const std::string& yaml) {
    const auto settings = settings_from_yaml(yaml, "queue.yaml");
    ASSERT_TRUE(settings) << settings.error().message;
    const auto changed = core_->set_queue(*settings);
    ASSERT_TRUE(changed) << changed.error().message;
    settle();
  }
  std::vector<std::string> listed(const v1::ListJobsRequest& request) {
    std::vector<std::string> ids;
    const v1::ListJobsReply reply = core_->list(request, kCoreRoot, now_);
    for (const v1::Job& each : reply.jobs()) ids.push_back(each.id());
    return ids;
  }

  v1::Job job(const std::string& id) {
    auto found = core_->get(id, kCoreRoot, now_);
    EXPECT_TRUE(found) << found.error().message;
    return found.value_or(v1::Job());
  }
  std::string state(const std::string& id) { return job(id).state(); }
  ActorId actor(const std::string& id, int rank = 0) {
    const v1::Job shown = job(id);
    return rank < shown.ranks_size() ? parse_id<ActorId>(shown.ranks(rank).actor()).value_or(ActorId()) : ActorId();
  }

  void tell(ActorId id, protocol::ActorState what, const CoreCause& cause = {}) {
    protocol::HeadMessage out;
    protocol::ActorInfo& info = *out.mutable_actor();
    info.set_actor_id(raw(id));
    info.set_state(what);
    info.set_version(++version_);
    if (const auto process = processes_.find(id); process != processes_.end()) info.set_node_name(process->second.node);
    *info.mutable_cause() = cause;
    message(out);
  }
  // The head places the ranks on their nodes, and their constructors have run.
  void run(const std::string& id) {
    const v1::Job shown = job(id);
    const ResourceSet each = *resources_of(shown.spec());
    for (int i = 0; i < shown.ranks_size(); ++i) {
      processes_[actor(id, i)] = {.node = shown.ranks(i).node(), .resources = each};
      tell(actor(id, i), protocol::STARTING);
    }
    for (int i = 0; i < shown.ranks_size(); ++i) tell(actor(id, i), protocol::ALIVE);
  }
  // Submits a job, sees it start and run.
  std::string running(const v1::JobSpec& spec, const Requester& by = kCoreAnn) {
    const std::string id = submit(spec, by);
    if (spec.nodes() > 1) ready(id);
    run(id);
    look();
    EXPECT_EQ(state(id), "running");
    sent_.clear();
    return id;
  }
  // The group of the job has its nodes.
  void ready(const std::string& id, std::vector<std::string> where = {}) {
    const v1::Job shown = job(id);
    if (where.empty()) {
      for (const v1::JobRank& rank : shown.ranks()) where.push_back(rank.node());
    }
    protocol::HeadMessage out;
    out.mutable_reply()->set_request_id(record(id).group_id());
    protocol::GroupInfo& group = *out.mutable_reply()->mutable_group();
    group.set_group_id(record(id).group_id());
    group.set_state(protocol::GROUP_READY);
    for (const std::string& name : where) group.add_bundles()->set_node_name(name);
    message(out);
  }
  // The actor's process has ended by itself.
  void ends(ActorId id, const CoreCause& cause) {
    tell(id, protocol::DEAD, cause);
    processes_.erase(id);
  }
  void exits(const std::string& id, int code, int rank = 0) {
    ends(actor(id, rank), core_cause(CoreCause::EXITED, code));
  }
  // The head has killed the actor; its process still runs.
  void killed(const std::string& id, int rank = 0) {
    tell(actor(id, rank), protocol::DEAD, core_cause(CoreCause::KILLED));
  }
  void process_ends(const std::string& id, int rank = 0) {
    processes_.erase(actor(id, rank));
    look();
  }
  // Everything that a job on one node asked to end needs.
  void killed_and_gone(const std::string& id) {
    for (int i = 0; i < job(id).ranks_size(); ++i) {
      if (job(id).ranks(i).state() != "ended") killed(id, i);
    }
    for (int i = 0; i < job(id).ranks_size(); ++i) processes_.erase(actor(id, i));
    look();
    look();  // Its group is removed.
  }

  protocol::JobRecord record(const std::string& id) {
    for (const auto& [key, value] : rows_) {
      protocol::JobRecord out;
      if (key.first == kJobsTable && out.ParseFromString(value) && out.job().id() == id) return out;
    }
    ADD_FAILURE() << id << " has no row";
    return {};
  }

  std::vector<protocol::SpawnActor> spawns() const {
    std::vector<protocol::SpawnActor> out;
    for (const auto& each : sent_) {
      if (each.has_spawn()) out.push_back(each.spawn());
    }
    return out;
  }
  std::vector<protocol::KillActor> kills() const {
    std::vector<protocol::KillActor> out;
    for (const auto& each : sent_) {
      if (each.has_kill()) out.push_back(each.kill());
    }
    return out;
  }
  // The kinds of the messages, in order.
  std::vector<std::string> sent_kinds() const {
    std::vector<std::string> out;
    for (const auto& each : sent_) {
      out.push_back(each.has_spawn()          ? "spawn"
                    : each.has_kill()         ? "kill"
                    : each.has_watch()        ? (each.watch().unwatch() ? "unwatch" : "watch")
                    : each.has_create_group() ? "create_group"
                    : each.has_find_group()   ? "find_group"
                    : each.has_remove_group() ? "remove_group"
                                              : "other");
    }
    return out;
  }
  static CommandStart start_of(const protocol::SpawnActor& spawn) {
    auto arguments = tuple_from_bytes<uint64_t, CommandStart>(spawn.spec().arguments());
    EXPECT_TRUE(arguments);
    return arguments ? std::get<1>(*arguments) : CommandStart();
  }

  const JobLimits limits_;
  SeededRandom random_{7};
  std::optional<JobCore> core_;
  int64_t now_ = kCoreStart;
  bool twice_ = false;
  std::map<int64_t, JobActors> actors_;  // By number of the job, as last told.
  std::vector<v1::Job> trials_;          // Changes of jobs of trials, as told.
  bool looks_ = false;
  uint64_t version_ = 0;
  size_t rows_written_ = 0;
  std::vector<PlanNode> nodes_;
  std::map<std::string, ResourceSet> others_;  // Used by actors that belong to no job, by node.
  std::map<std::string, std::vector<ClusterState::Problem>> problems_;
  std::map<std::string, Amount> withheld_;  // Unused GPUs with a problem, by node.
  std::vector<std::string> events_;         // With their fields: "job runs job=job-1 name=".
  std::map<ActorId, Process> processes_;
  std::map<std::pair<std::string, std::string>, std::string> rows_;
  std::vector<protocol::ClientMessage> sent_;
  std::vector<std::string> removals_;  // Request ids that the head has not answered.
};

// Two nodes with 4 GPUs each.
class JobCoreOnTwoNodesTest : public JobCoreTest {
 protected:
  explicit JobCoreOnTwoNodesTest(JobLimits limits = {}) : JobCoreTest(limits) {
    node("oak", 4);
    node("elm", 4);
    look();
    sent_.clear();
  }
};

}  // namespace volador::jobs
