// Random histories of jobs against a small model of the head: placement, processes, lost nodes, a slow network that
// repeats messages, crashes of the job queue at any point. Invariants are checked after every event.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "jobs/command.h"
#include "jobs/job_core.h"
#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/jobs.pb.h"
#include "runtime/protocol/resource_map.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/random.h"
#include "runtime/resources.h"
#include "runtime/result.h"
#include "runtime/serialize/codec.h"
#include "tests/how_many.h"

namespace volador::jobs {
namespace {

using SimCause = protocol::DeathCause;
using SimRecord = protocol::JobRecord;

constexpr int kSimHistories = how_many(150, 10);
constexpr int kSimEvents = 70;
constexpr int kSimDrainSteps = 1500;
constexpr int kSimNowhere = -1;

struct SimNode {
  std::string name;
  ResourceSet total;
  ResourceSet others;      // Used by actors that belong to no job.
  int64_t back_at_ms = 0;  // Above 0: lost until then.
  bool up() const { return back_at_ms == 0; }
};

struct SimActor {
  protocol::ActorInfo info;
  std::string job;
  std::string key;  // State in the job's row.
  std::string group;
  int bundle = -1;
  std::string node_wish;
  ResourceSet resources;
  int node = kSimNowhere;  // Where its process runs.
  int64_t next_ms = 0;     // Next change of its state, or the end of the killed process.
  bool dead() const { return info.state() == protocol::DEAD; }
};

struct SimGroup {
  std::vector<ResourceSet> bundles;
  std::vector<int> nodes;
  bool shares = false;  // Bundles may be on one node.
  bool ready = false;
  bool removed = false;
  std::vector<std::pair<int, std::string>> waiting;  // Connection and request id.
};

// What the head sends: a message, or the answer to a look.
struct SimMail {
  int64_t due_ms = 0;
  protocol::HeadMessage message;
  std::optional<ClusterState> view;
};
struct SimRequest {
  int64_t due_ms = 0;
  int connection = 0;
  protocol::ClientMessage message;
};

class JobSimulation {
 public:
  explicit JobSimulation(uint64_t seed) : random_(seed), ids_(seed + 1'000'000) {
    for (int i = 0; i < 4; ++i) {
      nodes_.push_back({.name = fmt::format("node{}", i),
                        .total = *ResourceSet::from({.cpus = 8, .gpus = i == 0 ? 2.0 : 4.0}),
                        .others = {}});
    }
    core_.emplace(limits_, ids_);
    core_->start(now_ms_);
    core_->use_program("program");
    settle();
  }

  // Returns what went wrong; empty: nothing.
  std::string play() {
    for (int i = 0; i < kSimEvents && wrong_.empty(); ++i) {
      random_event();
      step();
    }
    quiet_ = true;
    for (SimNode& node : nodes_) {
      node.back_at_ms = 0;
      node.others = {};
    }
    for (int i = 0; i < kSimDrainSteps && wrong_.empty() && !all_ended(); ++i) step();
    if (wrong_.empty() && !all_ended()) wrong_ = "some job does not end: " + open_jobs();
    for (int i = 0; i < 20 && wrong_.empty(); ++i) step();
    for (const auto& [id, group] : groups_) {
      if (wrong_.empty() && !group.removed) wrong_ = "a placement group is left";
    }
    return wrong_;
  }
  int ended() const { return static_cast<int>(end_states_.size()); }
  int restarts() const { return restarts_; }

 private:
  bool chance(int percent) { return random_.below(100) < static_cast<uint64_t>(percent); }
  int64_t between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_.below(static_cast<uint64_t>(most - least + 1)));
  }
  void fail(const std::string& what) {
    if (wrong_.empty()) wrong_ = fmt::format("{} (at {} ms)", what, now_ms_);
  }

  // ---- the core and its journal ----

  // Commits the rows, then sends the messages; a crash may come before either.
  void settle() {
    if (crash_ && !quiet_) {
      crash_ = false;
      if (chance(50)) return restart();  // Nothing of the event was stored.
      commit(core_->take());             // The messages are lost.
      return restart();
    }
    core_->check_invariants();
    JobActions actions = core_->take();
    wants_look_ |= actions.look;
    std::vector<protocol::ClientMessage> messages = std::move(actions.messages);
    commit(actions);
    if (!connected_) return;
    for (protocol::ClientMessage& message : messages) {
      request_due_ms_ = std::max(request_due_ms_, now_ms_ + between(0, 300));
      requests_.push_back({.due_ms = request_due_ms_, .connection = connection_, .message = std::move(message)});
    }
  }

  void commit(const JobActions& actions) {
    for (const JobRow& row : actions.rows) {
      if (!row.value) {
        rows_.erase({row.table, row.key});
        records_.erase(row.key);
        continue;
      }
      rows_[{row.table, row.key}] = *row.value;
      if (row.table != kJobsTable) continue;
      SimRecord record;
      if (!record.ParseFromString(*row.value)) return fail("a row cannot be read");
      check_row(record);
      records_[row.key] = std::move(record);
    }
    if (!actions.rows.empty()) check_processes();
  }

  void check_row(const SimRecord& record) {
    const v1::Job& job = record.job();
    const auto end = end_states_.find(job.id());
    if (end != end_states_.end() && end->second != std::pair(job.state(), job.ended_ms()))
      return fail(fmt::format("{} ended as {} and is {} now", job.id(), end->second.first, job.state()));
    if (record.phase() != SimRecord::ENDED) return;
    static const std::set<std::string> kEnds{"succeeded", "failed", "stopped", "expired"};
    if (!kEnds.contains(job.state())) return fail(fmt::format("{} ended as {}", job.id(), job.state()));
    if (job.restarts() > job.spec().max_restarts()) return fail(fmt::format("{} restarted too often", job.id()));
    if (job.resumes() > job.spec().max_resumes()) return fail(fmt::format("{} resumed too often", job.id()));
    end_states_[job.id()] = {job.state(), job.ended_ms()};
  }

  // A process belongs to the stored attempt of a job that is not ended.
  void check_processes() {
    for (const std::string& id : live_) {
      const SimActor& actor = actors_.at(id);
      if (actor.node == kSimNowhere) continue;
      const auto found = records_.find(actor.key);
      if (found == records_.end()) return fail(fmt::format("{} has a process and no row", actor.job));
      const SimRecord& record = found->second;
      const bool open = record.phase() == SimRecord::PLACING || record.phase() == SimRecord::RUNNING ||
                        record.phase() == SimRecord::ENDING;
      if (!open) return fail(fmt::format("{} has a process and is {}", actor.job, record.job().state()));
      if (std::ranges::find(record.actor_ids(), id) == record.actor_ids().end())
        return fail(fmt::format("{} has a process of an earlier attempt", actor.job));
    }
  }

  void check_nodes() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!used(static_cast<int>(i)).fits_in(nodes_[i].total)) return fail("a node holds more than it has");
    }
  }

  void disconnect() {
    connected_ = false;
    ++connection_;
    watched_.clear();
    std::erase_if(mail_, [](const SimMail& each) { return !each.view; });
    // Some of what was sent still arrives.
    const auto kept = static_cast<std::ptrdiff_t>(random_.below(requests_.size() + 1));
    requests_.erase(requests_.begin() + kept, requests_.end());
    connect_at_ms_ = now_ms_ + between(0, 1500);
  }

  void restart() {
    ++restarts_;
    disconnect();
    mail_.clear();
    looking_ = false;
    core_.emplace(limits_, ids_);
    for (const auto& [key, value] : rows_) {
      if (!core_->load(key.first, key.second, value)) return fail("a row is refused");
    }
    core_->start(now_ms_);
    const DriverId before = core_->driver();
    core_->use_program("program");
    if (core_->driver() != before && !before.is_nil()) return fail("the driver changed");
    settle();
  }

  bool all_ended() const {
    return std::ranges::all_of(records_, [](const auto& each) { return each.second.phase() == SimRecord::ENDED; });
  }
  std::string open_jobs() const {
    std::string out;
    for (const auto& [key, record] : records_) {
      if (record.phase() != SimRecord::ENDED)
        out += fmt::format("{} ({}); ", record.ShortDebugString(),
                           core_->get(record.job().id(), root_, now_ms_)->reason());
    }
    return out;
  }

  // ---- events ----

  std::string any_job() {
    if (records_.empty()) return "job-1";
    return std::next(records_.begin(), static_cast<std::ptrdiff_t>(random_.below(records_.size())))->second.job().id();
  }

  void random_event() {
    const int64_t what = between(0, 99);
    crash_ = chance(3);
    if (what < 28) {
      submit();
    } else if (what < 38) {
      v1::StopJobRequest request;
      request.set_job(any_job());
      request.set_now(chance(30));
      (void)core_->stop(request, root_, now_ms_);
      settle();
    } else if (what < 42) {
      v1::ExtendJobRequest request;
      request.set_job(any_job());
      request.set_duration_s(between(0, 20));
      (void)core_->extend(request, root_, now_ms_);
      settle();
    } else if (what < 45) {
      v1::SetJobPriorityRequest request;
      request.set_job(any_job());
      request.set_priority(chance(50) ? "urgent" : "very_urgent");
      (void)core_->set_priority(request, root_, now_ms_);
      settle();
    } else if (what < 48) {
      v1::DeleteJobRequest request;
      request.set_job(any_job());
      (void)core_->remove(request, root_, now_ms_);
      settle();
    } else if (what < 52) {
      lose_node(static_cast<int>(between(0, 3)));
    } else if (what < 57) {
      SimNode& node = nodes_[static_cast<size_t>(between(0, 3))];
      const int64_t gpus = between(0, 2);
      ResourceSet wanted = *ResourceSet::from({.gpus = static_cast<double>(gpus)});
      ResourceSet all = used(static_cast<int>(&node - nodes_.data()));
      all -= node.others;
      all += wanted;
      if (all.fits_in(node.total)) node.others = wanted;
    } else if (what < 60) {
      restart();
    } else if (what < 63) {
      disconnect();
    } else if (what < 65 && !live_.empty()) {
      kill(*live_.begin(), between(0, 1000));
    }
  }

  void submit() {
    v1::SubmitJobRequest request;
    v1::JobSpec& spec = *request.mutable_spec();
    spec.add_command("train");
    spec.set_nodes(chance(60) ? 1 : static_cast<int>(between(2, 3)));
    if (spec.nodes() > 1 && chance(50)) spec.set_min_nodes(static_cast<int>(between(1, spec.nodes() - 1)));
    spec.set_grow(spec.min_nodes() > 0 && chance(50));
    spec.set_share_nodes(spec.nodes() > 1 && chance(40));
    spec.set_gpus(static_cast<double>(between(0, 4)));
    spec.set_cpus(static_cast<double>(between(1, 4)));
    if (chance(40)) {
      spec.set_max_resumes(static_cast<int>(between(1, 3)));
    } else {
      spec.set_max_restarts(static_cast<int>(between(0, 2)));
    }
    spec.set_graceful_s(between(1, 2));
    if (chance(40)) spec.set_duration_s(between(1, 15));
    if (chance(20)) spec.set_priority("urgent");
    if (chance(20)) spec.set_mode("mpi");
    if (spec.nodes() == 1 && spec.gpus() <= 2 && chance(20))
      spec.add_node_names(nodes_[static_cast<size_t>(between(0, 3))].name);
    request.set_dry_run(chance(10));
    (void)core_->submit(request, {.token_id = chance(50) ? "ann" : "ben"}, 0, now_ms_);
    settle();
  }

  void step() {
    now_ms_ += between(20, 400);
    if (!connected_ && now_ms_ >= connect_at_ms_) {
      connected_ = true;
      core_->on_connected(now_ms_);
      settle();
    }
    while (!requests_.empty() && requests_.front().due_ms <= now_ms_) {
      const SimRequest request = std::move(requests_.front());
      requests_.pop_front();
      handle(request);
      if (chance(5)) handle(request);
    }
    progress();
    if (wants_look_ && !looking_) {
      wants_look_ = false;
      looking_ = true;
      mail({}, view());
    }
    while (!mail_.empty() && mail_.front().due_ms <= now_ms_) {
      const SimMail mail = std::move(mail_.front());
      mail_.pop_front();
      deliver(mail);
      // A repeated message may arrive late.
      if (chance(10) && !mail.view) mail_.push_back({.due_ms = now_ms_ + 200, .message = mail.message, .view = {}});
    }
    core_->on_tick(now_ms_);
    settle();
  }

  void deliver(const SimMail& mail) {
    if (mail.view) {
      looking_ = false;
      core_->on_cluster(*mail.view, now_ms_);
    } else {
      core_->on_message(mail.message, now_ms_);
    }
    settle();
  }

  // ---- the model of the head ----

  void mail(const protocol::HeadMessage& message, std::optional<ClusterState> view = {}) {
    mail_due_ms_ = std::max(mail_due_ms_, now_ms_ + between(0, 300));
    mail_.push_back({.due_ms = mail_due_ms_, .message = message, .view = std::move(view)});
  }
  void reply(int connection, const protocol::Reply& what) {
    if (connection != connection_ || !connected_) return;
    protocol::HeadMessage message;
    *message.mutable_reply() = what;
    mail(message);
  }
  void tell(const std::string& id) {
    if (!connected_ || !watched_.contains(id)) return;
    protocol::HeadMessage message;
    *message.mutable_actor() = actors_.at(id).info;
    mail(message);
  }

  // Used by processes, bundles and other actors.
  ResourceSet used(int node) const {
    ResourceSet sum = nodes_[static_cast<size_t>(node)].others;
    for (const std::string& id : open_groups_) {
      const SimGroup& group = groups_.at(id);
      for (size_t i = 0; i < group.nodes.size(); ++i) {
        if (group.nodes[i] == node) sum += group.bundles[i];
      }
    }
    for (const std::string& id : live_) {
      const SimActor& actor = actors_.at(id);
      if (actor.node == node && actor.group.empty()) sum += actor.resources;
    }
    return sum;
  }
  bool has_room(int node, const ResourceSet& resources) const {
    ResourceSet sum = used(node);
    sum += resources;
    return nodes_[static_cast<size_t>(node)].up() && sum.fits_in(nodes_[static_cast<size_t>(node)].total);
  }

  ClusterState view() const {
    ClusterState state;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const SimNode& node = nodes_[i];
      if (!node.up()) continue;
      PlanNode row{.name = node.name, .labels = {}, .total = node.total, .free = node.total};
      row.free -= used(static_cast<int>(i));
      state.addresses[node.name] = node.name;
      state.view.nodes.push_back(std::move(row));
    }
    for (const ActorId actor : core_->ending()) {
      const auto found = actors_.find(raw(actor));
      if (found == actors_.end() || found->second.node == kSimNowhere) state.gone.push_back(actor);
    }
    return state;
  }

  void handle(const SimRequest& request) {
    const protocol::ClientMessage& message = request.message;
    if (message.has_spawn()) {
      spawn(request);
    } else if (message.has_kill()) {
      if (actors_.contains(message.kill().actor_id())) {
        kill(message.kill().actor_id(), between(0, std::min<int64_t>(message.kill().grace_ms(), 1000)));
      } else {
        protocol::Reply out;
        out.set_request_id(message.kill().request_id());
        out.mutable_error()->set_code(static_cast<int>(ErrorCode::kNotFound));
        reply(request.connection, out);
      }
    } else if (message.has_watch()) {
      watch(request);
    } else if (message.has_create_group()) {
      const protocol::GroupSpec& spec = message.create_group().spec();
      if (!groups_.contains(spec.group_id())) {
        SimGroup& group = groups_[spec.group_id()];
        open_groups_.insert(spec.group_id());
        for (const auto& bundle : spec.bundles()) group.bundles.push_back(volador::resources_of(bundle));
        group.nodes.assign(group.bundles.size(), kSimNowhere);
        group.shares = spec.strategy() == protocol::PACK;
      }
      answer_group(request.connection, message.create_group().request_id(), spec.group_id());
    } else if (message.has_find_group()) {
      const protocol::FindGroup& find = message.find_group();
      SimGroup& group = groups_.at(find.group_id());
      if (group.ready || group.removed) {
        answer_group(request.connection, find.request_id(), find.group_id());
      } else {
        group.waiting.emplace_back(request.connection, find.request_id());
      }
    } else if (message.has_remove_group()) {
      remove_group(message.remove_group().group_id());
      protocol::Reply out;
      out.set_request_id(message.remove_group().request_id());
      reply(request.connection, out);
    }
  }

  void spawn(const SimRequest& request) {
    const protocol::ActorSpec& spec = request.message.spawn().spec();
    if (!actors_.contains(spec.actor_id())) {
      SimActor& actor = actors_[spec.actor_id()];
      actor.info.set_actor_id(spec.actor_id());
      actor.info.set_state(protocol::PENDING);
      actor.info.set_version(++version_);
      actor.resources = volador::resources_of(spec.resources());
      actor.group = spec.group_id();
      actor.bundle = spec.bundle();
      actor.node_wish = spec.wishes().node();
      const auto arguments = tuple_from_bytes<uint64_t, CommandStart>(spec.arguments());
      if (!arguments) return fail("an actor has unreadable arguments");
      actor.job = std::get<1>(*arguments).job;
      const auto row = std::ranges::find(records_, actor.job, [](const auto& each) { return each.second.job().id(); });
      if (row != records_.end()) actor.key = row->first;
      live_.insert(spec.actor_id());
    }
    if (request.connection == connection_) watched_.insert(spec.actor_id());
    protocol::Reply out;
    out.set_request_id(request.message.spawn().request_id());
    *out.mutable_actor() = actors_.at(spec.actor_id()).info;
    reply(request.connection, out);
  }

  void watch(const SimRequest& request) {
    if (request.connection != connection_) return;
    const std::string& id = request.message.watch().actor_id();
    if (request.message.watch().unwatch()) {
      watched_.erase(id);
    } else if (actors_.contains(id)) {
      watched_.insert(id);
      tell(id);
    } else {
      protocol::HeadMessage unknown;
      unknown.mutable_actor()->set_actor_id(id);
      unknown.mutable_actor()->set_state(protocol::DEAD);
      unknown.mutable_actor()->set_version(++version_);
      mail(unknown);
    }
  }

  void answer_group(int connection, const std::string& request_id, const std::string& id) {
    const SimGroup& group = groups_.at(id);
    protocol::Reply out;
    out.set_request_id(request_id);
    if (group.removed) {
      out.mutable_error()->set_code(static_cast<int>(ErrorCode::kNotFound));
      out.mutable_error()->set_message("the group was removed");
    } else {
      out.mutable_group()->set_state(group.ready ? protocol::GROUP_READY : protocol::GROUP_PENDING);
      for (const int node : group.nodes) {
        protocol::BundleInfo& bundle = *out.mutable_group()->add_bundles();
        if (node != kSimNowhere) bundle.set_node_name(nodes_[static_cast<size_t>(node)].name);
      }
    }
    reply(connection, out);
  }

  void remove_group(const std::string& id) {
    const auto found = groups_.find(id);
    if (found == groups_.end() || found->second.removed) return;
    for (const std::string& each : live_) {
      if (actors_.at(each).group == id && actors_.at(each).node != kSimNowhere)
        return fail(fmt::format("{} removes its group before its processes are gone", actors_.at(each).job));
    }
    found->second.removed = true;
    open_groups_.erase(id);
  }

  void die(const std::string& id, const SimCause& cause) {
    SimActor& actor = actors_.at(id);
    actor.info.set_state(protocol::DEAD);
    actor.info.set_version(++version_);
    *actor.info.mutable_cause() = cause;
    tell(id);
  }
  void end_process(const std::string& id) {
    actors_.at(id).node = kSimNowhere;
    live_.erase(id);
  }

  // A killed actor is dead at once; its process ends after `grace_ms`.
  void kill(const std::string& id, int64_t grace_ms) {
    SimActor& actor = actors_.at(id);
    if (actor.node != kSimNowhere)
      actor.next_ms = actor.dead() ? std::min(actor.next_ms, now_ms_ + grace_ms) : now_ms_ + grace_ms;
    if (actor.dead()) return;
    SimCause cause;
    cause.set_kind(SimCause::KILLED);
    die(id, cause);
    if (actors_.at(id).node == kSimNowhere) live_.erase(id);
  }

  void lose_node(int node) {
    if (!nodes_[static_cast<size_t>(node)].up()) return;
    nodes_[static_cast<size_t>(node)].back_at_ms = now_ms_ + between(500, 8000);
    nodes_[static_cast<size_t>(node)].others = {};
    for (const std::string& id : std::vector<std::string>(live_.begin(), live_.end())) {
      if (actors_.at(id).node != node) continue;
      SimCause cause;
      cause.set_kind(chance(80) ? SimCause::NODE_LOST : SimCause::LEASE_LOST);
      if (!actors_.at(id).dead()) die(id, cause);
      end_process(id);
    }
    for (auto& [id, group] : groups_) {
      for (int& place : group.nodes) {
        if (place != node) continue;
        place = kSimNowhere;
        group.ready = false;
      }
    }
  }

  void progress() {
    for (SimNode& node : nodes_) {
      if (node.back_at_ms <= now_ms_) node.back_at_ms = 0;
    }
    for (const std::string& id : open_groups_) place_group(id, groups_.at(id));
    for (const std::string& id : std::vector<std::string>(live_.begin(), live_.end())) advance(id);
    // Only new rows and new processes can break these rules.
    if (!std::exchange(started_, false)) return;
    check_processes();
    check_nodes();
  }

  void place_group(const std::string& id, SimGroup& group) {
    if (group.ready || group.removed) return;
    std::vector<int> places = group.nodes;
    for (size_t i = 0; i < places.size(); ++i) {
      for (int node = 0; node < 4 && places[i] == kSimNowhere; ++node) {
        ResourceSet wanted = group.bundles[i];
        for (size_t other = 0; other < places.size(); ++other) {
          if (places[other] == node && group.nodes[other] == kSimNowhere) wanted += group.bundles[other];
        }
        const bool may_use = group.shares || std::ranges::find(places, node) == places.end();
        if (may_use && has_room(node, wanted)) places[i] = node;
      }
    }
    if (std::ranges::find(places, kSimNowhere) != places.end()) return;
    group.nodes = places;
    group.ready = true;
    started_ = true;
    for (const auto& [connection, request] : std::exchange(group.waiting, {})) answer_group(connection, request, id);
  }

  void advance(const std::string& id) {
    SimActor& actor = actors_.at(id);
    if (actor.info.state() == protocol::PENDING) {
      const int node = place_of(actor);
      if (node == kSimNowhere) return;
      actor.node = node;
      started_ = true;
      actor.info.set_state(protocol::STARTING);
      actor.info.set_node_name(nodes_[static_cast<size_t>(node)].name);
      actor.info.set_version(++version_);
      actor.next_ms = now_ms_ + between(0, 800);
      tell(id);
    } else if (now_ms_ < actor.next_ms) {
      return;
    } else if (actor.dead()) {
      end_process(id);
    } else if (actor.info.state() == protocol::STARTING && (quiet_ || chance(95))) {
      actor.info.set_state(protocol::ALIVE);
      actor.info.set_version(++version_);
      actor.next_ms = now_ms_ + (quiet_ ? between(0, 2000) : between(0, 12'000));
      tell(id);
    } else {
      SimCause cause;
      const int64_t how = quiet_ ? 0 : between(0, 9);
      cause.set_kind(how < 8 ? SimCause::EXITED : how == 8 ? SimCause::SIGNALED : SimCause::CONSTRUCTOR_THREW);
      if (how == 7) cause.set_exit_code(3);
      if (how == 8) cause.set_signal(9);
      die(id, cause);
      end_process(id);
    }
  }

  int place_of(const SimActor& actor) const {
    if (!actor.group.empty()) {
      const SimGroup& group = groups_.at(actor.group);
      const int node = group.nodes[static_cast<size_t>(actor.bundle)];
      return group.removed || !group.ready ? kSimNowhere : node;
    }
    for (int node = 0; node < 4; ++node) {
      if (!actor.node_wish.empty() && nodes_[static_cast<size_t>(node)].name != actor.node_wish) continue;
      if (has_room(node, actor.resources)) return node;
    }
    return kSimNowhere;
  }

  const JobLimits limits_{.open = 30, .ended = 20};
  const Requester root_{.token_id = "root", .operates = true};
  SeededRandom random_;
  SeededRandom ids_;
  std::string wrong_;
  int64_t now_ms_ = 1'000'000;
  bool quiet_ = false;  // No more random events.

  std::optional<JobCore> core_;
  bool crash_ = false;
  int restarts_ = 0;
  bool wants_look_ = false;
  bool looking_ = false;
  std::map<std::pair<std::string, std::string>, std::string> rows_;
  std::map<std::string, SimRecord> records_;                           // By key.
  std::map<std::string, std::pair<std::string, int64_t>> end_states_;  // State and time, by job.

  bool connected_ = false;
  int connection_ = 0;
  int64_t connect_at_ms_ = 0;
  int64_t request_due_ms_ = 0;
  int64_t mail_due_ms_ = 0;
  std::deque<SimRequest> requests_;
  std::deque<SimMail> mail_;

  std::vector<SimNode> nodes_;
  std::map<std::string, SimActor> actors_;
  std::set<std::string> live_;  // Not dead, or with a process.
  std::map<std::string, SimGroup> groups_;
  std::set<std::string> open_groups_;  // Not removed.
  bool started_ = false;               // A process or a group got its place since the last check.
  std::set<std::string> watched_;
  uint64_t version_ = 0;
};

TEST(JobCoreSimTest, RandomHistoriesKeepTheInvariantsAndEveryJobEnds) {
  const char* given = std::getenv("VOLADOR_SIM_SEED");
  const uint64_t first = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
  const int histories = given == nullptr ? kSimHistories : 1;
  int ended = 0;
  int restarts = 0;
  for (int i = 0; i < histories; ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    SCOPED_TRACE(fmt::format("VOLADOR_SIM_SEED={} repeats this history", seed));
    JobSimulation simulation(seed);
    const std::string wrong = simulation.play();
    ended += simulation.ended();
    restarts += simulation.restarts();
    ASSERT_EQ(wrong, "");
  }
  // The histories are not empty.
  if (given == nullptr) {
    EXPECT_GT(ended, 10 * histories);
    EXPECT_GT(restarts, 2 * histories);
  }
}

}  // namespace
}  // namespace volador::jobs
