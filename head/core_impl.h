// The parts of HeadCore put together. Only core*.cc include this.
//
// A handler changes the parts; settle() then decides placements and turns what was touched into rows of the journal and messages
// to watchers, once an event.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "head/actor_directory.h"
#include "head/checkpoint_table.h"
#include "head/client_table.h"
#include "head/core.h"
#include "head/experiment_notes.h"
#include "head/experiment_table.h"
#include "head/group_table.h"
#include "head/group_waits.h"
#include "head/lease_table.h"
#include "head/handle_table.h"
#include "head/live_changes.h"
#include "head/node_table.h"
#include "head/placement.h"
#include "runtime/random.h"

namespace volador::v1 {
class Node;
class Actor;
class Experiment;
class Group;
class QueueBlocker;
class QueueEntry;
class Trial;
}  // namespace volador::v1

namespace volador::head {

// "1.5 s", for sentences; what is past is 0.0 s.
std::string in_seconds(std::chrono::nanoseconds span);
class Explanation;  // core_queries.cc

class HeadCore::Impl {
 public:
  Impl(const Options& options, Random& random);

  template <class F>
  Actions run(BootTime now, F&& handler) {
    begin(now);
    handler();
    settle();
    Actions out;
    std::swap(out, out_);
    return out;
  }

  // What an event that ended in an error had to say besides goes out with the next one.
  void keep(Actions&& actions) { out_ = std::move(actions); }

  // core.cc
  void load(std::string_view table, std::string_view key, std::string_view value);
  void start();
  void tick();
  Result<void> need_program(const std::string& sha256);
  Result<void> drain(std::string_view node, bool undo, std::string_view by);
  Result<void> kill(const v1::KillRequest& request, v1::KillReply& reply, std::string_view by);
  // Of the act "add": what can be said of the configuration before its program is asked.
  Result<void> check_added(const Experiment& experiment, const v1::ControlExperimentRequest& request) const;
  Result<void> control_experiment(const v1::ControlExperimentRequest& request, v1::ControlExperimentReply& reply, std::string_view by);
  Result<void> annotate_experiment(const v1::AnnotateExperimentRequest& request, v1::AnnotateExperimentReply& reply, std::string_view by);

  // core_nodes.cc
  void on_node_message(NodeSession session, const protocol::WorkerMessage& message);
  void on_node_lost(NodeSession session);
  void on_stopping(Node& node);

  // core_clients.cc
  void on_client_message(ClientSession session, const protocol::ClientMessage& message);
  void on_client_lost(ClientSession session);

  // core_queries.cc
  bool has_accepted(const protocol::ClientMessage& request) const;
  size_t connected_drivers() const {
    const auto& drivers = clients_.all();
    return static_cast<size_t>(std::count_if(drivers.begin(), drivers.end(), [](const auto& driver) { return driver.second.session.has_value(); }));
  }
  void fill_status(v1::StatusReply& reply) const;
  void list_nodes(const v1::ListRequest& request, v1::ListNodesReply& reply) const;
  void list_actors(const v1::ListRequest& request, v1::ListActorsReply& reply) const;
  void list_groups(const v1::ListRequest& request, v1::ListGroupsReply& reply) const;
  void list_queue(const v1::ListRequest& request, v1::ListQueueReply& reply) const;
  Result<void> list_trials(const v1::ListRequest& request, v1::ListTrialsReply& reply) const;
  Result<v1::ExplainReply> explain(std::string_view id) const;
  Result<LogSource> find_log_source(std::string_view id) const;
  Result<RunningActor> find_running(std::string_view id) const;
  Result<void> may_certify(std::string_view node_name, HostId host) const;
  Result<NodeSession> node_session(std::string_view name) const;
  std::vector<Program> connected_programs() const;
  std::string program_of(ActorId actor) const;
  std::string node_on(const std::string& machine_id) const;
  Result<RunFilesPlace> find_run_files(std::string_view experiment) const;

  // core_changes.cc
  void watch_changes();
  bool has_changes() const { return changes_.any(query_now_); }
  void take_changes(size_t rows_max, v1::Changes& out);

  void check_invariants() const;

  // core_changes.cc
  void experiment_kept(DriverId driver, const std::string& experiment, uint64_t number);
  bool restore_experiment(DriverId driver, const std::string& machine_id, const protocol::ExperimentUpdate& part, uint64_t rank);

  // The clock of queries, which change nothing.
  void look_at(BootTime now) const { query_now_ = now; }
  const std::map<DriverId, protocol::Program>& programs() const { return programs_; }

 private:
  using Cause = protocol::DeathCause;

  void begin(BootTime now);
  void settle();
  void event(log::Level level, std::string text, std::vector<std::pair<std::string, std::string>> fields, Reason why = {});

  // Life of actors: core_actors.cc
  PlacementRequest request_of(const Actor& actor) const;
  void maybe_submit(Actor& actor);
  void send_start(const Actor& actor);
  void end_incarnation(Actor& actor, const Cause& cause, std::chrono::milliseconds grace);
  void send_end(Actor& actor);
  void incarnation_over(Actor& actor, Cause cause);
  void next_life(Actor& actor, const Cause& cause, NodeId node);
  void restart(Actor& actor, const Cause& cause);
  void kill_incarnation(Actor& actor, const Cause& cause, std::chrono::milliseconds grace);
  void die(ActorId id, const Cause& cause, std::chrono::milliseconds grace);
  void wake(Actor& actor);
  void rearm(Actor& actor);
  BootTime start_deadline(const Actor& actor) const;
  void remember(Actor& actor, Reason why = {});
  void place(const Placed& placed, int bundle = 0);
  void flush_actor(Actor& actor);
  void drop_program_if_unused(DriverId driver);
  void end_unheld();
  void drop_checkpoint(ActorId actor);
  protocol::ActorInfo info_of(const Actor& actor) const;
  Reason waiting_reason(const Actor& actor) const;
  std::string node_name(NodeId id) const;

  // Placement groups: core_groups.cc
  static GroupId group_of(const Actor& actor);  // Nil: none.
  void on_create_group(const ClientRef& client, DriverId driver, const Actor* owner, const protocol::CreateGroup& message);
  void on_find_group(const ClientRef& client, const protocol::FindGroup& message);
  void on_remove_group(const ClientRef& client, DriverId driver, const protocol::RemoveGroup& message);
  Result<std::vector<ResourceSet>> check_group_spec(const protocol::GroupSpec& spec) const;
  Result<void> create_group(DriverId driver, const Actor* owner, protocol::GroupSpec spec);
  void submit_group(const Group& group);
  void place_groups();
  void set_placeable(const Node& node);
  void lose_bundles(NodeId node);
  void lose_bundle(Group& group, size_t index);
  void move_from_draining(NodeId id);
  void release_place(ActorId actor);
  std::vector<std::pair<ActorId, Cause>> close_group(Group& group, const Cause& cause);
  void remove_group(GroupId id, const Cause& cause);
  void flush_groups();
  void tell_group(const ClientRef& client, const std::string& request_id, GroupId id);
  Reason waiting_in_group_reason(const Actor& actor) const;
  bool has_another_bundle(const Actor& actor) const;
  static protocol::GroupRecord record_of(const Group& group);
  void restore_group(const protocol::GroupRecord& record);
  void settle_restored_groups();

  // Messages out.
  void send(const ClientRef& client, protocol::HeadMessage message);
  void send(NodeSession session, protocol::HeadToWorker message);
  void journal(std::string_view table, std::string key, std::optional<std::string> value);

  // Nodes.
  void on_register(NodeSession session, const protocol::Register& message);
  void reconcile(Node& node, const protocol::Register& message, BootTime old_lease_end, protocol::Registered& reply);
  void readmit_resources(Node& node, const ResourceSet& total, bool worker_restarted);
  void on_heartbeat(Node& node, const protocol::Heartbeat& heartbeat);
  void on_host_ready(Node& node, const protocol::HostReport& report);
  protocol::HostAddress address_of(const Actor& actor, const protocol::HostReport& report) const;
  void on_host_ended(Node& node, const protocol::HostEnded& ended);
  void on_program_failed(Node& node, const protocol::ProgramFailed& failed);
  void on_log(const protocol::LogLines& lines);
  void on_metrics(const Node& node, const protocol::ActorMetrics& metrics);
  void on_relay(Node& node, const protocol::Relay& relay);
  void give_up(NodeId id, const Reason& why, log::Level level);
  void save_node(const Node& node);
  void check_silence();

  // Clients.
  void on_hello(ClientSession session, const protocol::Hello& hello);
  void on_request(const ClientRef& client, DriverId driver, const Actor* owner, const protocol::ClientMessage& message);
  void on_spawn(const ClientRef& client, DriverId driver, const Actor* owner, const protocol::SpawnActor& message);
  Result<void> spawn(DriverId driver, const Actor* owner, const protocol::SpawnActor& message);
  Result<void> check_place(const protocol::ActorSpec& spec, const ResourceSet& resources);
  Result<void> check_spec(const protocol::ActorSpec& spec, const std::string& program) const;
  bool watch(const ClientRef& client, ActorId actor);
  void on_kill(const ClientRef& client, DriverId driver, const protocol::KillActor& message);
  std::string own_namespace(DriverId driver, const Actor* owner) const;
  void on_find(const ClientRef& client, const std::string& own, const protocol::FindActor& message);
  void on_watch(const ClientRef& client, const protocol::WatchActor& message);
  static Holder holder_of(const ClientRef& client, DriverId driver);
  void on_holds(const Holder& holder, const protocol::HoldActors& message);
  bool meet_light(ActorId actor);
  void on_rebuild(const ClientRef& client, DriverId driver, const protocol::RebuildObject& message);
  void on_rebuilt(const protocol::ObjectRebuilt& message);
  std::string owner_text(const protocol::ClientName& name) const;
  std::optional<ClientRef> client_named(const protocol::ClientName& name) const;
  void end_light(ActorId light);
  void on_waits(const Actor* actor, bool waits);
  void on_checkpoint(const ClientRef& client, const Actor* actor, const protocol::KeepCheckpoint& message);
  void tell(const ClientRef& client, ActorId id);
  void reply_error(const ClientRef& client, const std::string& request_id, const Error& error);
  void refuse(ClientSession session, const Error& error);
  void driver_gone(DriverId id, const Reason& why);
  void send_cluster_state();
  void fill_welcome(protocol::Welcome& welcome, const std::string& machine_id) const;
  std::string store_socket_on(const std::string& machine_id) const;

  // Rows for people.
  void fill_totals(v1::StatusReply& reply) const;
  static void fill_node(const Node& node, BootTime now, const ResourceLedger::Node* entry, size_t actors, v1::Node& out);
  void fill_actor(const Actor& actor, v1::Actor& row) const;
  void fill_group(const Group& group, v1::Group& row) const;
  // Who waits for a place: an actor or a placement group.
  struct Queued {
    RequestOrder order;
    BootTime since{};
    const Actor* actor = nullptr;
    const Group* group = nullptr;
  };
  static Queued queued(const Actor& actor);
  static Queued queued(const Group& group);
  void fill_queue_entry(const Queued& queued, size_t position, v1::QueueEntry& row) const;
  void fill_blocker(HolderId holder, v1::QueueBlocker& row) const;
  Reason name_of(HolderId holder) const;
  Reason why_it_waits(HolderId holder) const;
  void explain_history(const Actor& actor, Explanation& out) const;
  // core_names.cc
  struct Named {  // One of the four; a trial has its experiment.
    ActorId actor;
    const Experiment* experiment = nullptr;
    const protocol::TrialRow* trial = nullptr;
    GroupId group;
    NodeId node;
  };
  // By name, id, the start of an id, run/trial or namespace/name. kNotFound: nothing, or several; the message lists
  // them.
  Result<Named> resolve(std::string_view text) const;
  Result<Named> trial_of_run(std::string_view text) const;
  void add_actors_named(std::string_view text, std::vector<Named>& found) const;
  std::string in_words(const Named& named) const;

  void explain_group(GroupId id, Explanation& out) const;
  void explain_node(NodeId id, Explanation& out) const;
  void explain_actor(const Actor& actor, Explanation& out) const;
  void fill_experiment(const Experiment& experiment, v1::Experiment& out) const;
  void fill_trial(const std::string& experiment, const protocol::TrialRow& trial, v1::Trial& row) const;
  void note_experiment(DriverId driver, const protocol::ExperimentUpdate& update);
  void tell_state(const Experiment& experiment, const std::string& before);
  // `before`: trials of it that had failed already.
  void tell_failures(const std::string& experiment, const std::vector<const protocol::TrialRow*>& failing, int64_t before);
  void tag_experiment(const protocol::ExperimentUpdate& update);
  void keep_experiment(const Experiment& experiment, const protocol::ExperimentUpdate& update);
  void interrupt_experiments(DriverId driver);
  void interrupt_orphaned_experiments();
  void take_actors(size_t& room, v1::Changes& out);
  void take_queue(size_t& room, v1::Changes& out);
  void take_groups(size_t& room, v1::Changes& out);
  void note_group_of(ActorId actor);
  void take_trials(size_t& room, v1::Changes& out);
  void take_usages(v1::Changes& out);
  void take_metrics(v1::Changes& out);

  // Restoring.
  void restore_actors();
  void restore_actor(const std::string& key, const protocol::ActorRecord& spec, const protocol::ActorRecord& state);
  size_t awaited() const;

  const Options options_;
  Random& random_;
  NodeTable nodes_;
  LeaseTable leases_;
  Placement placement_;
  ActorDirectory actors_;
  ClientTable clients_;
  ExperimentTable experiments_;
  ExperimentNotes experiment_notes_;
  CheckpointTable checkpoints_;
  HandleTable handles_;
  bool said_experiments_ = false;  // That there is no room for another experiment.
  bool said_lights_ = false;  // That there are too many light actors to count.
  GroupTable groups_;
  GroupWaits group_waits_;
  LiveChanges changes_;
  std::map<DriverId, protocol::Program> programs_;

  Actions out_;
  BootTime now_{};
  mutable BootTime query_now_{};
  bool started_ = false;
  BootTime started_at_{};
  BootTime window_end_{};  // Of the reconnect window.
  uint64_t generation_ = 0;
  uint64_t version_ = 0;
  uint64_t sequence_ = 0;
  std::set<std::pair<BootTime, ActorId>> timers_;

  struct SpawnReply {
    ClientRef client;
    std::string request_id;
    ActorId actor;
  };
  std::vector<SpawnReply> replies_;  // Sent when the event is settled, so that they tell the outcome.

  struct GroupReply {
    ClientRef client;
    std::string request_id;
    GroupId group;
  };
  std::vector<GroupReply> group_replies_;  // The same.

  // Kills with restart that were carried out: a repeated one must not kill the next incarnation. Bounded, oldest leave first.
  std::unordered_set<std::string> kills_;
  std::deque<std::string> kill_order_;

  struct ClusterView {
    ResourceSet total;
    ResourceSet used;
    size_t nodes = 0;
    size_t waiting = 0;
    bool operator==(const ClusterView&) const = default;
  };
  ClusterView view_;
  std::set<uint64_t> view_missing_;  // Sessions that have not got view_ yet.
  BootTime view_sent_{};

  // Rows of the journal until start().
  std::map<std::string, std::pair<std::optional<protocol::ActorRecord>, std::optional<protocol::ActorRecord>>> loaded_actors_;
  std::vector<protocol::NodeRecord> loaded_nodes_;
  std::vector<protocol::DriverRecord> loaded_drivers_;
  std::vector<protocol::GroupRecord> loaded_groups_;
  std::vector<std::string> bad_rows_;
};

}  // namespace volador::head
