// Attempts of the state machine: requests to the head, the states of the ranks, and how an attempt ends.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iterator>

#include "jobs/command.h"
#include "jobs/environment/environment.h"
#include "jobs/job_core.h"
#include "jobs/job_spec.h"
#include "jobs/launch/launch.h"
#include "jobs/queue/planner_state.h"
#include "jobs/queue_settings.h"
#include "runtime/language/health_reason.h"
#include "runtime/node_name_rule.h"
#include "runtime/protocol/resource_map.h"
#include "runtime/quantities.h"

namespace volador::jobs {
namespace {

using Cause = protocol::DeathCause;
using Record = protocol::JobRecord;

constexpr int kPortFirst = 20'000;
constexpr int kPorts = 10'000;
constexpr int kSharedPortFirst = 10'000;
constexpr int kSharedPortStep = 61;  // Has no divisor in common with kPorts.
constexpr int kEarlierMax = 64;
constexpr int64_t kIdleLookMs = 60'000;
constexpr int64_t kIdleGapMs = 5 * 60'000;
constexpr int64_t kIdleKeptMs = 5 * 60'000;  // Idle time that a crash of the head may lose.
constexpr int kLabelsMax = kLogPoliciesMax;
constexpr int64_t kElasticPatienceMs = 5'000;     // An elastic job waits no longer for nodes that others were given.
constexpr size_t kProblemsNamed = 8;              // Health problems in the events of one start.
constexpr int64_t kStartTimeoutMs = 10 * 60'000;  // A large code folder takes a while to arrive and to be unpacked.

// Only the first rank runs the command and starts the others.
bool leads(const v1::JobSpec& spec) {
  return spec.mode() == "horovod" || spec.mode() == "mpi" || spec.mode() == "deepspeed";
}

// Adds a rule for each label that the job's nodes must have, and for its pool. `pools`: all that nodes belong to.
void require_labels(const v1::JobSpec& spec, const std::set<std::string>& pools,
                    google::protobuf::RepeatedPtrField<protocol::LabelRule>& rules) {
  for (const auto& [name, value] : spec.labels()) {
    protocol::LabelRule& rule = *rules.Add();
    rule.set_key(name);
    rule.set_op(protocol::LabelRule::IN);
    rule.add_values(value);
  }
  protocol::LabelRule rule;
  rule.set_key(std::string(kPoolLabel));
  if (spec.pool() != kDefaultPool) {
    rule.set_op(protocol::LabelRule::IN);
    rule.add_values(spec.pool());
  } else {
    // Also nodes without the label.
    rule.set_op(protocol::LabelRule::NOT_IN);
    for (const std::string& pool : pools) {
      if (pool != kDefaultPool) rule.add_values(pool);
    }
    if (rule.values().empty()) return;
  }
  *rules.Add() = std::move(rule);
}

int exit_code_of(const Cause& cause) {
  switch (cause.kind()) {
    case Cause::EXITED:
      return cause.exit_code();
    case Cause::SIGNALED:
      return 128 + cause.signal();
    case Cause::OUT_OF_MEMORY:
      return 128 + 9;
    default:
      return 1;
  }
}

bool succeeded(const Cause& cause) { return cause.kind() == Cause::EXITED && cause.exit_code() == 0; }
// The node failed, not the job.
bool lost_with_node(const Cause& cause) {
  return cause.kind() == Cause::NODE_LOST || cause.kind() == Cause::LEASE_LOST;
}

Reason reason_in(const Cause& cause) {
  if (!cause.why().empty()) {
    if (auto known = Reason::from_json(cause.why())) return *known;
  }
  return Reason::said(cause.message());
}

std::string_view state_name(protocol::ActorState state) {
  switch (state) {
    case protocol::STARTING:
      return "starting";
    case protocol::ALIVE:
    case protocol::RESTARTING:
      return "running";
    case protocol::DEAD:
      return "ended";
    default:
      return "pending";
  }
}

}  // namespace

// ---- starting ----

void JobCore::activate(const Job& job) {
  const int64_t number = job.record.number();
  active_.insert(number);
  unseen_.insert(number);
  if (job.spec().grow()) growing_.insert(number);
  if (is_watched(job.spec())) watched_.insert(number);
}

void JobCore::deactivate(int64_t number) {
  for (std::set<int64_t>* each : {&active_, &unseen_, &growing_, &watched_}) each->erase(number);
}

void JobCore::begin(Job& job, const std::vector<std::string>& nodes, int64_t now_ms) {
  Record& record = job.record;
  dequeue(record.number());
  activate(job);
  record.set_phase(Record::PLACING);
  record.clear_outcome();
  record.clear_group_id();
  record.clear_actor_ids();
  auto& earlier = *record.mutable_job()->mutable_earlier();
  const int attempt = record.job().ranks().empty() ? 1 : record.job().ranks(0).attempt() + 1;
  for (const v1::JobRank& rank : record.job().ranks()) *earlier.Add() = rank;
  if (earlier.size() > kEarlierMax) earlier.DeleteSubrange(0, earlier.size() - kEarlierMax);
  record.mutable_job()->clear_ranks();
  record.mutable_job()->clear_reason();
  record.mutable_job()->clear_why();
  record.mutable_job()->set_started_ms(0);
  record.mutable_job()->set_exit_code(0);
  record.clear_log_matches();
  if (is_elastic(job.spec())) record.mutable_job()->set_nodes(static_cast<int32_t>(nodes.size()));
  job.begun_ms = now_ms;
  job.room_since_ms = 0;
  job.leaves_ms = 0;
  job.failed.reset();
  job.failed_rank = -1;
  job.waits = {};
  job.held.clear();
  const auto resources = resources_of(job.spec()).value_or(ResourceSet());
  for (const std::string& node : nodes) {
    job.held.emplace_back(node, resources);
    v1::JobRank& rank = *record.mutable_job()->add_ranks();
    rank.set_rank(record.job().ranks_size() - 1);
    rank.set_node(node);
    rank.set_state("pending");
    rank.set_attempt(attempt);
  }
  note_left_out(job);
  take_room(job);
  update_running(job);
  if (nodes.size() > 1) {
    const auto group = new_id<GroupId>(random_);
    record.set_group_id(raw(group));
    by_group_[record.group_id()] = record.number();
  } else {
    spawn_ranks(job, nodes);
  }
  send_requests(job);
  keep(job);
}

// Gives the ranks their actors, on these nodes.
void JobCore::spawn_ranks(Job& job, const std::vector<std::string>& nodes) {
  Record& record = job.record;
  job.ranks.clear();
  record.clear_actor_ids();
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto actor = new_id<ActorId>(random_);
    job.ranks.push_back({.actor = actor});
    by_actor_[actor] = record.number();
    record.add_actor_ids(raw(actor));
    v1::JobRank& rank = *record.mutable_job()->mutable_ranks(static_cast<int>(i));
    rank.set_node(nodes[i]);
    rank.set_actor(to_string(actor));
  }
  tell_actors(job);
}

protocol::ActorSpec JobCore::actor_spec(const Job& job, int rank, const std::vector<std::string>& nodes) const {
  const v1::JobSpec& spec = job.spec();
  LaunchRequest launch{.mode = parse_launch_mode(spec.mode()).value_or(LaunchMode::kSingle),
                       .command = {spec.command().begin(), spec.command().end()},
                       .slots = std::max(1, static_cast<int>(spec.gpus())),
                       .rank = rank,
                       .hosts = {},
                       .parameter_servers = spec.parameter_servers(),
                       .master_port = kPortFirst + static_cast<int>(job.record.number() % kPorts),
                       .file_root = std::string(kJobDirectory)};
  CommandStart start;
  // Ranks of tensorflow on one host. Few jobs have so many ranks there that a later job meets their ports.
  launch.shared_port = kSharedPortFirst + static_cast<int>(job.record.number() * kSharedPortStep % kPorts);
  const bool named = leads(spec);  // Their launchers start processes by the job's own ssh.
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto found = cluster_.addresses.find(nodes[i]);
    const std::string address = found == cluster_.addresses.end() ? "" : found->second;
    const std::string name = fmt::format("server{}", i + 1);
    const std::string& host = address.empty() ? nodes[i] : address;
    launch.hosts.push_back(named ? name : host);
    if (i == 0) launch.master_addr = host;
    if (nodes.size() == 1) break;
    start.peer_names.push_back(name);
    start.peer_actors.push_back(to_string(job.ranks[i].actor));
    start.peer_nodes.push_back(nodes[i]);
    start.peer_addresses.push_back(address);
  }
  start.job = job.record.job().id();
  start.rank = rank;
  start.setup = spec.setup();
  start.directory = spec.directory();
  start.isolated = spec.isolated();
  start.mounts.assign(spec.mounts().begin(), spec.mounts().end());
  start.shm_bytes = spec.shm_bytes();
  start.stop_signal = stop_signal_number(spec.stop_signal()).value_or(SIGTERM);
  start.environment = resolved_environment(settings_, spec.environment()).value_or(spec.environment());
  if (const auto environment = parse_environment(start.environment)) {
    // A name may stand for an image, whose jobs are always isolated.
    start.isolated = start.isolated || environment->kind == EnvironmentKind::kImage;
  }
  if (auto made = make_launch(launch)) {
    start.command = std::move(made->command);
    start.env = std::move(made->env);
    start.files = std::move(made->files);
  } else {
    // Only the nodes show it: the name of one may be no name of a host.
    start.command = {"sh", "-c", "echo \"$0\" >&2; exit 126", "volador: " + made.error().message};
  }
  if (!spec.batch().empty()) {
    start.env["VOLADOR_TASK_INDEX"] = std::to_string(spec.batch_index());
    start.env["VOLADOR_TASK_COUNT"] = std::to_string(spec.batch_size());
  }
  start.output = spec.output();
  start.log_rules = rules_of(spec);
  start.teardown = spec.teardown();
  start.kept = spec.debug_s() > 0 && (job.record.final_attempt() || job.record.job().restarts() >= spec.max_restarts());
  for (const auto* variables : {&spec.env(), &spec.secrets()}) {
    for (const auto& [name, value] : *variables) start.env[name] = value;
  }

  const ActorId actor = job.ranks[static_cast<size_t>(rank)].actor;
  protocol::ActorSpec out;
  out.set_actor_id(raw(actor));
  out.set_class_name(command_class());
  out.set_arguments(command_arguments(start));
  *out.mutable_resources() = to_message(resources_of(spec).value_or(ResourceSet()));
  out.set_detached(true);
  out.set_display(nodes.size() > 1 ? fmt::format("{} rank {}", start.job, rank) : start.job);
  out.set_start_timeout_ms(kStartTimeoutMs);
  out.set_wait_if_infeasible(true);  // The queue refuses what can never run; a node may come back.
  if (!spec.files_sha256().empty()) {
    std::string hash;
    for (size_t i = 0; i + 1 < spec.files_sha256().size(); i += 2)
      hash += static_cast<char>(std::stoi(spec.files_sha256().substr(i, 2), nullptr, 16));
    out.set_files_sha256(hash);
    out.set_files_bytes(job.record.files_bytes());
  }
  if (!job.record.group_id().empty()) {
    out.set_group_id(job.record.group_id());
    out.set_bundle(rank);
    return out;
  }
  out.set_bundle(-1);
  if (spec.node_names_size() > 0 || !job.record.job().avoids().empty()) out.mutable_wishes()->set_node(nodes.front());
  require_labels(spec, pools_, *out.mutable_wishes()->mutable_labels());
  if (out.wishes().ByteSizeLong() == 0) out.clear_wishes();
  return out;
}

// Sends what is needed to go on with the job; repeated requests have no second effect.
void JobCore::send_requests(Job& job) {
  Record& record = job.record;
  std::vector<std::string> nodes;
  for (const v1::JobRank& rank : record.job().ranks()) nodes.push_back(rank.node());
  if (record.phase() == Record::PLACING && !record.group_id().empty() && job.ranks.empty()) {
    protocol::ClientMessage create;
    create.mutable_create_group()->set_request_id(record.group_id());
    protocol::GroupSpec& spec = *create.mutable_create_group()->mutable_spec();
    spec.set_group_id(record.group_id());
    spec.set_strategy(job.spec().share_nodes() ? protocol::PACK : protocol::STRICT_SPREAD);
    spec.set_detached(true);
    spec.set_wait_if_infeasible(true);
    const auto resources = resources_of(job.spec()).value_or(ResourceSet());
    for (int i = 0; i < record.job().ranks_size(); ++i) *spec.add_bundles() = to_message(resources);
    require_labels(job.spec(), pools_, *spec.mutable_labels());
    protocol::LabelRules names;
    const auto require_name = [&](protocol::LabelRule::Op op,
                                  const google::protobuf::RepeatedPtrField<std::string>& of) {
      if (of.empty()) return;
      protocol::LabelRule& rule = *names.add_rules();
      rule.set_key(std::string(kNodeNameKey));
      rule.set_op(op);
      *rule.mutable_values() = of;
    };
    require_name(protocol::LabelRule::IN, job.spec().node_names());
    require_name(protocol::LabelRule::NOT_IN, record.job().avoids());
    for (int i = 0; i < spec.bundles_size() && !names.rules().empty(); ++i) *spec.add_bundle_labels() = names;
    actions_.messages.push_back(std::move(create));
    protocol::ClientMessage ready;
    ready.mutable_find_group()->set_request_id(record.group_id());
    ready.mutable_find_group()->set_group_id(record.group_id());
    ready.mutable_find_group()->set_when_ready(true);
    actions_.messages.push_back(std::move(ready));
    return;
  }
  for (size_t i = 0; i < job.ranks.size(); ++i) {
    protocol::ClientMessage message;
    if (record.phase() == Record::PLACING) {
      message.mutable_spawn()->set_request_id(raw(job.ranks[i].actor));
      *message.mutable_spawn()->mutable_spec() = actor_spec(job, static_cast<int>(i), nodes);
    } else {
      message.mutable_watch()->set_actor_id(raw(job.ranks[i].actor));
    }
    actions_.messages.push_back(std::move(message));
  }
  if (record.phase() == Record::ENDING) end_ranks(job, record.outcome(), false);
}

// ---- events ----

void JobCore::on_connected(int64_t) {
  for (const std::string& group : leaving_groups_) send_removal(group);
  for (const int64_t number : active_) {
    Job& job = jobs_.at(number);
    if (job.record.phase() != Record::QUEUED) send_requests(job);
  }
  actions_.look = true;
}

void JobCore::on_message(const protocol::HeadMessage& message, int64_t now_ms) {
  if (message.has_actor()) on_actor(message.actor(), now_ms);
  if (message.has_reply()) {
    if (message.reply().has_actor()) on_actor(message.reply().actor(), now_ms);
    on_reply(message.reply(), now_ms);
  }
}

void JobCore::on_actor(const protocol::ActorInfo& info, int64_t now_ms) {
  const auto found = by_actor_.find(id_from_raw<ActorId>(info.actor_id()));
  if (found == by_actor_.end()) return;
  Job& job = jobs_.at(found->second);
  const auto at = std::ranges::find(job.ranks, found->first, &Rank::actor);
  if (at == job.ranks.end() || at->state == protocol::DEAD || info.version() < at->version) return;
  at->version = info.version();
  at->state = info.state();
  const auto index = static_cast<size_t>(at - job.ranks.begin());
  v1::JobRank& shown = *job.record.mutable_job()->mutable_ranks(static_cast<int>(index));
  shown.set_state(std::string(state_name(info.state())));
  if (!info.node_name().empty() && info.node_name() != shown.node()) {
    shown.set_node(info.node_name());
    if (index < job.held.size()) job.held[index].first = info.node_name();
    update_running(job);
  }
  shown.set_reason(info.reason());
  shown.set_why(info.why());
  if (info.state() == protocol::DEAD) {
    at->cause = info.cause();
    // A killed actor is dead at once, its process ends within the graceful time.
    at->gone = info.cause().kind() != Cause::KILLED;
    const bool was_asked = job.record.phase() == Record::ENDING && info.cause().kind() == Cause::KILLED;
    if (!was_asked) shown.set_exit_code(exit_code_of(info.cause()));
    set_reason(shown, info.cause().kind() == Cause::EXITED ? reason("job.exit_code", info.cause().exit_code())
                      : was_asked                          ? reason("job.ended_with_it")
                                                           : reason_in(info.cause()));
    actions_.look = true;
  } else if (info.node_leaves() && job.spec().max_resumes() > 0) {
    move(job, reason("job.node_leaves", shown.node()), now_ms);
  } else {
    note_problems(job, *at, info, now_ms);
  }
  settle(job, now_ms);
}

void JobCore::send_removal(const std::string& group) {
  protocol::ClientMessage message;
  message.mutable_remove_group()->set_request_id(group);
  message.mutable_remove_group()->set_group_id(group);
  actions_.messages.push_back(std::move(message));
}

void JobCore::on_reply(const protocol::Reply& reply, int64_t now_ms) {
  if (leaving_groups_.contains(reply.request_id())) {
    // The reply may be to its creation; a group that the head does not have any more is an error.
    const bool is_over = (reply.has_error() && reply.error().code() != 0) ||
                         reply.group().state() == protocol::GROUP_REMOVED || !reply.has_group();
    if (!is_over) return;
    actions_.rows.push_back({std::string(kLeavingGroupsTable), reply.request_id(), std::nullopt});
    leaving_groups_.erase(reply.request_id());
    actions_.look |= planner_.size() > 0;
    return;
  }
  if (const auto group = by_group_.find(reply.request_id()); group != by_group_.end()) {
    Job& job = jobs_.at(group->second);
    if (job.record.phase() != Record::PLACING || !job.ranks.empty()) return;
    if (reply.has_error() && error_code_from(int64_t{reply.error().code()}) == ErrorCode::kUnavailable) {
      job.ask_again = true;  // A limit of the head; see on_tick().
    } else if (reply.has_error() && reply.error().code() != 0) {
      job.failed = Cause();
      job.failed->set_kind(Cause::START_FAILED);
      job.failed->set_message(reply.error().message());
      job.failed->set_why(reply.error().why());
      set_reason(*job.record.mutable_job(), reason_of_failure(job));
      job.record.mutable_job()->set_exit_code(exit_code_of(*job.failed));
      end_ranks(job, "failed", true);
      settle(job, now_ms);
    } else if (reply.group().state() == protocol::GROUP_READY) {
      std::vector<std::string> nodes;
      for (const protocol::BundleInfo& bundle : reply.group().bundles()) nodes.push_back(bundle.node_name());
      for (size_t i = 0; i < nodes.size() && i < job.held.size(); ++i) job.held[i].first = nodes[i];
      update_running(job);
      spawn_ranks(job, nodes);
      send_requests(job);
      keep(job);
    }
    return;
  }
  if (!reply.has_error() || reply.error().code() == 0) return;
  const auto actor = by_actor_.find(id_from_raw<ActorId>(reply.request_id()));
  if (actor == by_actor_.end()) return;
  Job& job = jobs_.at(actor->second);
  const auto at = std::ranges::find(job.ranks, actor->first, &Rank::actor);
  if (at == job.ranks.end() || at->state != protocol::ACTOR_STATE_UNSPECIFIED) return;
  at->state = protocol::DEAD;
  at->gone = true;
  at->cause.set_kind(Cause::START_FAILED);
  at->cause.set_message(reply.error().message());
  at->cause.set_why(reply.error().why());
  v1::JobRank& shown = *job.record.mutable_job()->mutable_ranks(static_cast<int>(at - job.ranks.begin()));
  shown.set_state("ended");
  shown.set_exit_code(exit_code_of(at->cause));
  set_reason(shown, reason_in(at->cause));
  settle(job, now_ms);
}

// Counts a resume. Returns how the attempt ends.
std::string JobCore::resume(Job& job, const Reason& why) {
  v1::Job& shown = *job.record.mutable_job();
  const int most = job.spec().max_resumes();
  if (shown.resumes() >= most) {
    set_reason(shown, reason("job.resumes_over", most, why));
    return "failed";
  }
  shown.set_resumes(shown.resumes() + 1);
  set_reason(shown, why);
  event_of(job, "job goes on elsewhere",
           {{"job", shown.id()}, {"resume", fmt::format("{} of {}", shown.resumes(), most)}}, {{"why", why.text()}});
  return "queued";
}

// Asks the job to save its state and to go on without a node.
void JobCore::move(Job& job, const Reason& why, int64_t now_ms) {
  if (job.record.phase() != Record::PLACING && job.record.phase() != Record::RUNNING) return;
  const std::string outcome = resume(job, why);
  if (outcome == "failed") job.record.mutable_job()->set_exit_code(1);
  end_ranks(job, outcome, false);
  settle(job, now_ms);
}

// A job that may resume leaves a node or GPU with a new health problem; another one goes on, with an event.
void JobCore::note_problems(Job& job, Rank& rank, const protocol::ActorInfo& info, int64_t now_ms) {
  std::set<std::string> known;
  std::optional<Reason> moves;
  const v1::Job& shown = job.record.job();
  const bool runs = job.record.phase() == Record::PLACING || job.record.phase() == Record::RUNNING;
  const bool may_move = runs && shown.resumes() < job.spec().max_resumes() && shown.debug_until_ms() == 0;
  const auto node_of = [&](const Rank& one) -> const std::string& {
    return shown.ranks(static_cast<int>(&one - job.ranks.data())).node();
  };
  for (const protocol::HealthProblem& problem : info.problems()) {
    const std::string key =
        fmt::format("{} {} {}", problem.code(), problem.has_gpu() ? problem.gpu() : -1, problem.subject());
    known.insert(key);
    // Another rank on the node may have told of it.
    const bool is_known = std::ranges::any_of(
        job.ranks, [&](const Rank& one) { return one.problems.contains(key) && node_of(one) == node_of(rank); });
    if (is_known || !runs) continue;
    const Reason why = health_reason(problem);
    if (may_move) {
      moves = reason("job.node_problem", info.node_name(), why);
    } else {
      event("job runs on a node that has a problem",
            {{"job", shown.id()}, {"node", info.node_name()}, {"why", why.text()}}, why);
    }
  }
  rank.problems = std::move(known);
  if (moves) move(job, *moves, now_ms);
}

// Health problems because of which the job may not use nodes, or GPUs of them, that would suit it otherwise.
std::vector<std::pair<std::string, ClusterState::Problem>> JobCore::problems_for(const Job& job) const {
  std::vector<std::pair<std::string, ClusterState::Problem>> found;
  if (cluster_.problems.empty()) return found;
  const QueuedJob asked = queued(job);
  for (const auto& [name, problems] : cluster_.problems) {
    const auto at = node_index_.find(name);
    if (at == node_index_.end()) continue;
    const PlanNode& node = cluster_.view.nodes[at->second];
    if (!job_may_use(node, asked) || !asked.per_node.fits_in(node.total)) continue;
    for (const ClusterState::Problem& problem : problems) {
      if (problem.of_gpu && asked.per_node.get("gpus") == 0) continue;
      if (found.size() < kProblemsNamed) found.emplace_back(name, problem);
    }
  }
  return found;
}

// The result of the check before a start.
void JobCore::note_left_out(const Job& job) {
  for (const auto& [node, problem] : problems_for(job)) {
    event(problem.of_gpu ? "job leaves out a GPU" : "job leaves out a node",
          {{"job", job.record.job().id()}, {"node", node}, {"why", problem.what.text()}}, problem.what);
  }
}

// Whether a node of the attempt is lost or takes no jobs: a rank that failed may only have missed another one.
bool JobCore::has_failed_node(const Job& job) const {
  return std::ranges::any_of(job.held, [this](const auto& held) {
    const auto node = node_index_.find(held.first);
    return node == node_index_.end() || !cluster_.view.nodes[node->second].takes_jobs;
  });
}

std::vector<JobCore::WatchedRank> JobCore::watched_ranks() const {
  std::vector<WatchedRank> out;
  for (const int64_t number : watched_) {
    const Job& job = jobs_.at(number);
    for (size_t i = 0; i < job.ranks.size(); ++i) {
      if (job.ranks[i].state != protocol::ALIVE) continue;
      const auto at = static_cast<int>(i);
      const bool any = at < job.record.log_matches_size();
      out.push_back({.actor = job.ranks[i].actor, .known = any ? job.record.log_matches(at) : 0});
    }
  }
  return out;
}

void JobCore::on_log_matches(ActorId rank, int64_t known, const std::vector<LogMatch>& matches, int64_t now_ms) {
  const auto found = by_actor_.find(rank);
  if (found == by_actor_.end()) return;
  Job& job = jobs_.at(found->second);
  const auto at = std::ranges::find(job.ranks, rank, &Rank::actor);
  if (at == job.ranks.end()) return;
  const auto index = static_cast<int>(at - job.ranks.begin());
  auto& seen = *job.record.mutable_log_matches();
  while (seen.size() <= index) seen.Add(0);
  const v1::JobRank shown = job.record.job().ranks(index);
  for (size_t i = 0; i < matches.size(); ++i) {
    if (known + static_cast<int64_t>(i) != seen[index]) continue;  // It was dealt with before.
    seen[index] += 1;
    const int policy = matches[i].policy;
    if (policy == kRankFailed) keep_failed(job, index, std::atoi(matches[i].line.c_str()), now_ms);
    if (policy < 0 || policy >= job.spec().log_policies_size()) continue;
    apply_policy(job, job.spec().log_policies(policy), shown, matches[i].line, now_ms);
  }
  if (const auto still = jobs_.find(found->second); still != jobs_.end()) keep(still->second);
}

void JobCore::apply_policy(Job& job, const v1::LogPolicy& policy, const v1::JobRank& rank, const std::string& line,
                           int64_t now_ms) {
  v1::Job& shown = *job.record.mutable_job();
  const std::string name = name_of(policy);
  const bool labels = policy.action() == "label" || policy.action() == "notify" || !policy.label().empty();
  const bool is_labelled = std::ranges::find(shown.labels(), name) != shown.labels().end();
  if (labels && shown.labels_size() < kLabelsMax && !is_labelled) shown.add_labels(name);
  if (policy.action() == "label") return;
  event_of(
      job, "job alert",
      {{"job", shown.id()}, {"action", policy.action()}, {"rank", std::to_string(rank.rank())}, {"node", rank.node()}},
      {{"policy", name}, {"line", line}});
  // Later lines of the same kind change nothing, and are not reported.
  const bool avoids = std::ranges::find(shown.avoids(), rank.node()) != shown.avoids().end();
  const bool is_old = policy.action() == "notify"           ? is_labelled
                      : policy.action() == "cancel_retries" ? job.record.final_attempt()
                                                            : avoids;
  if (!is_old) report(job, "alert", now_ms, reason("job.policy_matched", name, rank.node(), line));
  if (policy.action() == "cancel_retries") job.record.set_final_attempt(true);
  if (policy.action() != "exclude_node" && policy.action() != "move") return;
  if (!avoids) shown.add_avoids(rank.node());
  if (policy.action() == "move") move(job, reason("job.policy_moves", name, rank.node()), now_ms);
}

// Whether the job was requested and waits for nodes that it will not get, while it may start on others: on one of those
// that it names, or on fewer.
bool JobCore::waits_in_vain(const Job& job, int64_t now_ms) const {
  if (job.record.phase() != Record::PLACING) return false;
  const bool closed = has_failed_node(job);
  if (job.ranks.size() == 1) {
    if (job.ranks.front().state != protocol::PENDING) return false;
    if (!job.record.job().avoids().empty()) return closed || now_ms - job.begun_ms >= kElasticPatienceMs;
    return closed && job.spec().node_names_size() > 1;
  }
  if (!is_elastic(job.spec()) || !job.ranks.empty()) return false;
  const bool may_shrink = job.record.job().ranks_size() > job.spec().min_nodes();
  return closed || (may_shrink && now_ms - job.begun_ms >= kElasticPatienceMs);
}

// Queues these jobs again.
void JobCore::leave_closed_nodes(int64_t now_ms) {
  for (const int64_t number : std::vector<int64_t>(unseen_.begin(), unseen_.end())) {
    Job& job = jobs_.at(number);
    if (!waits_in_vain(job, now_ms)) continue;
    end_ranks(job, "queued", true);
    settle(job, now_ms);
  }
}

void JobCore::on_cluster(ClusterState state, int64_t now_ms) {
  cluster_ = std::move(state);
  seen_cluster_ = true;
  account_idle(now_ms);
  node_index_.clear();
  pools_.clear();
  for (size_t i = 0; i < cluster_.view.nodes.size(); ++i) {
    PlanNode& node = cluster_.view.nodes[i];
    node_index_[node.name] = i;
    const auto pool = node.labels.find(std::string(kPoolLabel));
    node.pool = pool == node.labels.end() || pool->second.empty() ? std::string(kDefaultPool) : pool->second;
    pools_.insert(node.pool);
  }
  leave_closed_nodes(now_ms);  // First, as what these jobs asked for is not used then.
  // The head reads its tables and sends the states of actors in one order: what is known as placed here is in the view.
  for (auto at = unseen_.begin(); at != unseen_.end();) {
    const Job& job = jobs_.at(*at);
    const bool in_view = !job.ranks.empty() && std::ranges::all_of(job.ranks, [](const Rank& rank) {
      return rank.state != protocol::ACTOR_STATE_UNSPECIFIED && rank.state != protocol::PENDING;
    });
    if (!in_view) take_room(job);
    at = in_view ? unseen_.erase(at) : std::next(at);
  }
  for (const ActorId actor : cluster_.gone) {
    const auto found = by_actor_.find(actor);
    if (found == by_actor_.end()) continue;
    Job& job = jobs_.at(found->second);
    const auto at = std::ranges::find(job.ranks, actor, &Rank::actor);
    if (at == job.ranks.end() || at->gone) continue;
    at->gone = true;
    settle(job, now_ms);
  }
  plan(now_ms);
}

void JobCore::on_tick(int64_t now_ms) {
  for (const int64_t number : active_) {
    if (Job& job = jobs_.at(number); std::exchange(job.ask_again, false)) send_requests(job);
  }
  for (const int64_t number : std::vector<int64_t>(active_.begin(), active_.end())) {
    Job& job = jobs_.at(number);
    const int64_t limit_ms = job.spec().duration_s() * 1000;
    if (const int64_t kept_ms = job.record.job().debug_until_ms(); kept_ms != 0) {
      if (now_ms < kept_ms || job.record.phase() == Record::ENDING) continue;
      end_ranks(job, "failed", false);
      settle(job, now_ms);
      continue;
    }
    if (job.record.phase() != Record::RUNNING || limit_ms == 0) continue;
    if (now_ms < job.record.job().started_ms() + limit_ms) continue;
    set_reason(*job.record.mutable_job(), reason("job.expired", format_duration(std::chrono::milliseconds(limit_ms))));
    end_ranks(job, "expired", false);
    settle(job, now_ms);
  }
  const bool any_waits = std::ranges::any_of(active_, [&](int64_t number) {
    const Job& job = jobs_.at(number);
    const bool may_shrink = job.record.phase() == Record::PLACING && is_elastic(job.spec());
    return job.record.phase() == Record::ENDING || may_shrink || may_grow(job, now_ms);
  });
  if (any_waits || planner_.size() > 0 || now_ms - idle_at_ms_ >= kIdleLookMs) actions_.look = true;
}

std::optional<int64_t> JobCore::deadline_ms() const {
  std::optional<int64_t> first;
  for (const int64_t number : active_) {
    const Job& job = jobs_.at(number);
    const int64_t kept_ms = job.record.job().debug_until_ms();
    if (job.record.phase() != Record::RUNNING || (job.spec().duration_s() == 0 && kept_ms == 0)) continue;
    const int64_t end = kept_ms != 0 ? kept_ms : job.record.job().started_ms() + job.spec().duration_s() * 1000;
    if (!first || end < *first) first = end;
  }
  return first;
}

std::vector<ActorId> JobCore::ending() const {
  std::vector<ActorId> out;
  for (const int64_t number : active_) {
    const Job& job = jobs_.at(number);
    for (const Rank& rank : job.ranks) {
      if (rank.state == protocol::DEAD && !rank.gone) out.push_back(rank.actor);
    }
  }
  return out;
}

bool JobCore::needs_files(const std::string& sha256) const {
  return std::ranges::any_of(open_, [&](int64_t number) { return jobs_.at(number).spec().files_sha256() == sha256; });
}

// ---- ends ----

// Decides from the states of the ranks how the job goes on.
void JobCore::settle(Job& job, int64_t now_ms) {
  Record& record = job.record;
  if (record.phase() == Record::PLACING || record.phase() == Record::RUNNING) {
    if (job.ranks.empty()) return;
    for (size_t i = 0; i < job.ranks.size() && !job.failed; ++i) {
      const Rank& rank = job.ranks[i];
      if (rank.state != protocol::DEAD || succeeded(rank.cause)) continue;
      job.failed = rank.cause;
      job.failed_rank = static_cast<int>(i);
    }
    const bool all_dead = std::ranges::all_of(job.ranks, [](const Rank& rank) { return rank.state == protocol::DEAD; });
    const bool led = leads(job.spec()) && job.ranks.front().state == protocol::DEAD;
    const bool all_up = std::ranges::all_of(
        job.ranks, [](const Rank& rank) { return rank.state == protocol::ALIVE || rank.state == protocol::DEAD; });
    if (record.phase() == Record::PLACING && all_up) {
      record.set_phase(Record::RUNNING);
      record.mutable_job()->set_state("running");
      record.mutable_job()->set_started_ms(now_ms);
      update_running(job);
      event("job runs", {{"job", record.job().id()}, {"name", public_name(job)}});
      report(job, "started", now_ms);
      keep(job);
    }
    if (job.failed) {
      std::string outcome = "failed";
      set_reason(*record.mutable_job(), reason_of_failure(job));
      if (job.failed->kind() == Cause::KILLED) {
        outcome = "stopped";
      } else if (lost_with_node(*job.failed) && job.spec().max_resumes() > 0) {
        outcome = resume(job, reason_of_failure(job));
      } else if (lost_with_node(*job.failed) && record.losses() < limits_.losses) {
        record.set_losses(record.losses() + 1);
        outcome = "queued";
      } else if (!lost_with_node(*job.failed) && !record.final_attempt() &&
                 record.job().restarts() < job.spec().max_restarts()) {
        record.mutable_job()->set_restarts(record.job().restarts() + 1);
        outcome = "queued";
      }
      if (record.job().debug_until_ms() == 0) record.mutable_job()->set_exit_code(exit_code_of(*job.failed));
      end_ranks(job, outcome, false);
    } else if (all_dead || led) {
      record.mutable_job()->clear_reason();
      record.mutable_job()->clear_why();
      end_ranks(job, "succeeded", led && job.spec().teardown().empty());
    }
  }
  if (record.phase() == Record::ENDING &&
      std::ranges::all_of(job.ranks, [](const Rank& rank) { return rank.state == protocol::DEAD && rank.gone; }))
    finish(job, now_ms);
}

Reason JobCore::reason_of_failure(const Job& job) const {
  const Cause& cause = *job.failed;
  const std::string node = cause.node_name();
  Reason what;
  switch (cause.kind()) {
    case Cause::EXITED:
      what = reason("job.exit_code", cause.exit_code());
      break;
    case Cause::SIGNALED:
      what = reason("job.signal", cause.signal());
      break;
    default:
      what = reason_in(cause);
  }
  if (job.failed_rank < 0 || job.ranks.size() < 2) return node.empty() ? what : reason("job.on_node", node, what);
  return reason("job.rank_on_node", job.failed_rank, node, what);
}

// A rank has failed, and stays for commands of users.
void JobCore::keep_failed(Job& job, int rank, int code, int64_t now_ms) {
  v1::Job& shown = *job.record.mutable_job();
  if (job.record.phase() == Record::ENDING || shown.debug_until_ms() != 0) return;
  shown.mutable_ranks(rank)->set_exit_code(code);
  shown.set_exit_code(code);
  set_reason_of_kept(job);
  const int64_t time_ms = job.spec().debug_s() * 1000;
  set_reason(shown, reason("job.kept", reason_of(shown), format_duration(std::chrono::milliseconds(time_ms))));
  shown.set_debug_until_ms(now_ms + time_ms);
  event_of(job, "job failed and is kept", {{"job", shown.id()}, {"rank", std::to_string(rank)}},
           {{"why", shown.reason()}});
  keep(job);
}

// The reason of the failure after which it is kept.
void JobCore::set_reason_of_kept(Job& job) {
  v1::Job& shown = *job.record.mutable_job();
  for (const v1::JobRank& rank : shown.ranks()) {
    if (rank.exit_code() == 0 || rank.state() == "ended") continue;
    const Reason what = reason("job.exit_code", rank.exit_code());
    return set_reason(shown, shown.ranks_size() < 2 ? reason("job.on_node", rank.node(), what)
                                                    : reason("job.rank_on_node", rank.rank(), rank.node(), what));
  }
}

void JobCore::end_ranks(Job& job, const std::string& wanted, bool now) {
  Record& record = job.record;
  // A job that is kept has failed, whatever ends it.
  const bool kept = record.job().debug_until_ms() != 0;
  const std::string outcome = kept ? "failed" : wanted;
  if (kept) {
    set_reason_of_kept(job);
    record.mutable_job()->clear_debug_until_ms();
  }
  record.set_phase(Record::ENDING);
  record.set_outcome(outcome);
  newly_ending_.push_back(record.number());
  if (outcome == "stopped" || outcome == "expired") record.mutable_job()->set_stopping(true);
  for (const Rank& rank : job.ranks) {
    if (rank.state == protocol::DEAD && !(now && !rank.gone)) continue;
    protocol::ClientMessage message;
    protocol::KillActor& kill = *message.mutable_kill();
    kill.set_request_id(raw(new_id<RequestId>(random_)));
    kill.set_actor_id(raw(rank.actor));
    kill.set_no_restart(true);
    kill.set_grace_ms(now ? 0 : job.spec().graceful_s() * 1000);
    actions_.messages.push_back(std::move(message));
  }
  keep(job);
  actions_.look = true;
}

void JobCore::forget_ranks(Job& job) {
  for (const Rank& rank : job.ranks) {
    protocol::ClientMessage message;
    message.mutable_watch()->set_actor_id(raw(rank.actor));
    message.mutable_watch()->set_unwatch(true);
    actions_.messages.push_back(std::move(message));
    by_actor_.erase(rank.actor);
  }
  if (!job.record.group_id().empty()) {
    const std::string group = job.record.group_id();
    send_removal(group);
    leaving_groups_.insert(group);
    actions_.rows.push_back({std::string(kLeavingGroupsTable), group, ""});
    by_group_.erase(group);
  }
  job.record.clear_group_id();
  job.record.clear_actor_ids();
  job.ranks.clear();
  job.held.clear();
  drop_running(job.record.number());
}

UsageLedger::Run JobCore::run_of(const Job& job, int64_t until_ms) {
  UsageLedger::Run run{.from_ms = job.record.job().started_ms(),
                       .to_ms = until_ms,
                       .project = job.spec().project(),
                       .owner = owner_name(job.record.job()),
                       .held = {}};
  for (const auto& [node, resources] : job.held) run.held += resources;
  return run;
}

// Counts the attempt that ends now.
void JobCore::account(Job& job, int64_t now_ms) {
  v1::Job& shown = *job.record.mutable_job();
  if (shown.started_ms() == 0 || job.held.empty()) return;
  shown.set_ran_ms(shown.ran_ms() + std::max<int64_t>(0, now_ms - shown.started_ms()));
  usage_.add(run_of(job, now_ms));
  keep_usage();
}

void JobCore::keep_usage() {
  for (auto& [key, value] : usage_.take_changed())
    actions_.rows.push_back({std::string(kUsageTable), std::move(key), std::move(value)});
  for (std::string& key : usage_.take_removed())
    actions_.rows.push_back({std::string(kUsageTable), std::move(key), std::nullopt});
}

// Counts what nothing has used since the last view of the cluster.
void JobCore::account_idle(int64_t now_ms) {
  // What was free during a longer time without a view is not known.
  if (idle_at_ms_ != 0 && now_ms > idle_at_ms_ && now_ms - idle_at_ms_ <= kIdleGapMs)
    usage_.add_idle(idle_at_ms_, now_ms, idle_);
  idle_at_ms_ = now_ms;
  idle_ = {};
  for (const PlanNode& node : cluster_.view.nodes) idle_ += node.free;
  if (now_ms - idle_kept_ms_ < kIdleKeptMs) return;
  idle_kept_ms_ = now_ms;
  keep_usage();
}

void JobCore::finish(Job& job, int64_t now_ms) {
  Record& record = job.record;
  std::string outcome = record.outcome();
  const bool may_resume = outcome == "failed" && job.failed && !lost_with_node(*job.failed) && seen_cluster_ &&
                          !record.final_attempt() && job.spec().max_resumes() > 0;
  if (may_resume && has_failed_node(job)) outcome = resume(job, reason_of(record.job()));
  if (outcome != "queued") return set_end(job, outcome, {}, now_ms);
  const Reason why = reason_of(record.job());
  account(job, now_ms);
  forget_ranks(job);
  deactivate(record.number());
  job.again_ms = now_ms;
  enqueue(job);
  record.set_phase(Record::QUEUED);
  record.clear_outcome();
  record.mutable_job()->set_state("queued");
  event_of(job, "job is queued again",
           {{"job", record.job().id()}, {"restart", std::to_string(record.job().restarts())}}, {{"why", why.text()}});
  keep(job);
  actions_.look = true;
}

void JobCore::set_end(Job& job, const std::string& state, const Reason& why, int64_t now_ms) {
  Record& record = job.record;
  v1::Job& shown = *record.mutable_job();
  account(job, now_ms);
  if (shown.started_ms() == 0 && state != "stopped") shown.set_started_ms(now_ms);
  forget_ranks(job);
  record.set_phase(Record::ENDED);
  record.clear_outcome();
  shown.set_state(state);
  shown.set_stopping(false);
  shown.set_ended_ms(now_ms);
  if (state == "succeeded") {
    shown.set_exit_code(0);
    record_run(job, now_ms - shown.started_ms());
  }
  if (!why.empty()) set_reason(shown, why);
  open_.erase(record.number());
  deactivate(record.number());
  dequeue(record.number());
  ended_.push_back(record.number());
  event_of(job, "job ended", {{"job", shown.id()}, {"name", public_name(job)}, {"state", state}},
           {{"why", shown.reason()}});
  report(job, state, now_ms);
  keep(job);
  actions_.look = true;
  drop_oldest();
}

}  // namespace volador::jobs
