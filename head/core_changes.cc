// What a read copy of the cluster, kept elsewhere, is told.
#include <fmt/ranges.h>

#include <algorithm>

#include "head/core_impl.h"
#include "head/experiment_rows.h"
#include "head/wire.h"
#include "runtime/metric_rules.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/utf8.h"

namespace volador::head {
namespace {

constexpr size_t kReasonsMax = 500;         // Of those that wait, at a time: each looks at the nodes.
constexpr int64_t kFailuresTold = 50;     // Failed trials of an experiment that have an event each.
constexpr size_t kErrorBytesTold = 300;   // Of the first line of their errors.

constexpr std::string_view kFailed = "failed";

int64_t failed_trials(const Experiment& experiment) {
  const auto found = experiment.by_status.find(std::string(kFailed));
  return found == experiment.by_status.end() ? 0 : found->second;
}

// Rows of the update whose trials had not failed before. They live as long as the update.
std::vector<const protocol::TrialRow*> newly_failed(const Experiment* before, const protocol::ExperimentUpdate& update) {
  std::vector<const protocol::TrialRow*> found;
  for (const protocol::TrialRow& row : update.trials()) {
    if (row.status() != kFailed) continue;
    const bool had_failed = before != nullptr && before->trials.contains(row.trial_id()) && before->trials.at(row.trial_id()).status() == kFailed;
    if (!had_failed) found.push_back(&row);
  }
  return found;
}

// The first `room` of `ids`, taken out of it.
template <class Set>
Set take(Set& ids, size_t& room) {
  if (ids.size() <= room) {
    room -= ids.size();
    return std::exchange(ids, {});
  }
  Set taken;
  for (; room > 0; --room) taken.insert(ids.extract(ids.begin()));
  return taken;
}

}  // namespace

void HeadCore::Impl::watch_changes() {
  if (std::exchange(changes_.watched_, true)) return;
  for (const auto& [id, node] : nodes_.all()) changes_.node(id);
  for (const auto& [id, actor] : actors_.all()) changes_.actor(id);
  for (const auto& [id, group] : groups_.all()) changes_.group(id);
  for (const auto& [id, driver] : clients_.all()) changes_.driver(id);
  for (const auto& [name, experiment] : experiments_.all()) {
    changes_.experiment(name);
    for (const auto& [id, trial] : experiment.trials) changes_.trial(name, trial);
  }
}

void HeadCore::Impl::note_experiment(DriverId driver, const protocol::ExperimentUpdate& update) {
  const auto before = experiments_.all().find(update.experiment());
  if (before != experiments_.all().end() && before->second.driver != driver) changes_.experiment_gone(update.experiment());
  const bool is_known = before != experiments_.all().end() && before->second.driver == driver;
  const std::string state_before = is_known ? before->second.state : std::string();
  const int64_t failed_before = is_known ? failed_trials(before->second) : 0;
  const std::vector<const protocol::TrialRow*> failing = newly_failed(is_known ? &before->second : nullptr, update);
  const Driver* const from = clients_.find(driver);
  if (!experiments_.update(driver, update, from == nullptr ? "" : from->machine_id)) {
    if (before == experiments_.all().end() && !std::exchange(said_experiments_, true)) {
      event(log::Level::kWarn, "an experiment is not shown: the list is full and none of it has ended",
            {{"experiment", update.experiment()}, {"limit", std::to_string(options_.limits.experiments)}});
    }
    experiment_kept(driver, update.experiment(), update.number());
    return;
  }
  changes_.experiment(update.experiment());
  tag_experiment(update);
  for (const protocol::TrialRow& row : update.trials()) changes_.trial(update.experiment(), row);
  const auto known = experiments_.all().find(update.experiment());
  if (known == experiments_.all().end()) return;
  tell_failures(known->second.name, failing, failed_before);
  if (known->second.state != state_before) tell_state(known->second, state_before);
  keep_experiment(known->second, update);
}

void HeadCore::Impl::tell_state(const Experiment& experiment, const std::string& before) {
  const std::string& state = experiment.state;
  const std::string failed = std::to_string(failed_trials(experiment));
  if (state == "running" && before == "paused") {
    event(log::Level::kInfo, "experiment resumed", {{"experiment", experiment.name}});
  } else if (state == "running") {
    const Driver* const driver = clients_.find(experiment.driver);
    event(log::Level::kInfo, "experiment started",
          {{"experiment", experiment.name}, {"driver", driver == nullptr ? "" : driver->name}, {"id", to_string(experiment.driver)}});
  } else if (state == "paused") {
    event(log::Level::kInfo, "experiment paused", {{"experiment", experiment.name}});
  } else if (state == "finished") {
    const protocol::BestTrial& best = experiment.best;
    const std::string reached = best.trial().empty() ? std::string() : fmt::format("{} {:.4g}", experiment.metric, best.value());
    event(log::Level::kInfo, "experiment finished", {{"experiment", experiment.name}, {"best", reached}, {"trial", best.trial()}, {"failed", failed}});
  } else if (state == "interrupted") {
    event(log::Level::kInfo, "experiment stopped before its end", {{"experiment", experiment.name}, {"failed", failed}});
  } else if (state == "failed") {
    event(log::Level::kWarn, "experiment failed", {{"experiment", experiment.name}, {"failed", failed}});
  } else if (state == "crashed") {
    event(log::Level::kWarn, "experiment crashed: its program has left", {{"experiment", experiment.name}, {"failed", failed}});
  }
}

void HeadCore::Impl::tell_failures(const std::string& experiment, const std::vector<const protocol::TrialRow*>& failing, int64_t before) {
  for (const protocol::TrialRow* row : failing) {
    if (before++ < kFailuresTold) {
      const std::string_view error = row->error();
      event(log::Level::kWarn, "trial failed", {{"experiment", experiment}, {"trial", row->trial_id()}, {"error", plain_text(error.substr(0, error.find('\n')), kErrorBytesTold)}});
    } else if (before == kFailuresTold + 1) {
      event(log::Level::kWarn, "more trials of an experiment failed, they are not listed one by one", {{"experiment", experiment}});
    }
  }
}

// What its program calls it, unless somebody has said something of this run already. Tags that break a limit are left out.
void HeadCore::Impl::tag_experiment(const protocol::ExperimentUpdate& update) {
  const auto found = experiments_.all().find(update.experiment());
  if (update.tags().empty() || found == experiments_.all().end()) return;
  const std::string& directory = found->second.directory;
  if (experiment_notes_.find(found->first, directory) != nullptr) return;
  v1::AnnotateExperimentRequest request;
  *request.mutable_add_tags() = update.tags();
  const auto change = experiment_notes_.annotate(found->first, directory, request);
  if (!change) return event(log::Level::kWarn, "experiment not tagged", {{"experiment", found->first}, {"error", change.error().message}});
  if (change->journal) journal(change->journal->table, change->journal->key, change->journal->value);
}

void HeadCore::Impl::keep_experiment(const Experiment& experiment, const protocol::ExperimentUpdate& update) {
  if (!options_.keep_experiments) return experiment_kept(experiment.driver, experiment.name, update.number());
  out_.experiments.push_back({.experiment = experiment.name,
                              .driver = experiment.driver,
                              .machine_id = experiment.machine_id,
                              .update = update.SerializeAsString(),
                              .open = experiment.is_open(),
                              .number = update.number()});
}

void HeadCore::Impl::experiment_kept(DriverId driver, const std::string& experiment, uint64_t number) {
  const Driver* const to = clients_.find(driver);
  if (number == 0 || to == nullptr || !to->session) return;
  protocol::HeadMessage message;
  message.mutable_kept()->set_experiment(experiment);
  message.mutable_kept()->set_number(number);
  out_.to_clients.push_back({*to->session, std::move(message)});
}

void HeadCore::Impl::interrupt_experiments(DriverId driver) {
  for (const std::string& name : experiments_.on_driver_gone(driver)) {
    changes_.experiment(name);
    const Experiment& experiment = experiments_.all().at(name);
    tell_state(experiment, "running");
    protocol::ExperimentUpdate update;
    update.set_experiment(name);
    update.set_state(experiment.state);
    update.set_trials_total(experiment.trials_total);
    keep_experiment(experiment, update);
  }
}

// Of programs that will not come back: nobody waits for them any more.
void HeadCore::Impl::interrupt_orphaned_experiments() {
  std::set<DriverId> gone;
  for (const auto& [name, experiment] : experiments_.all()) {
    if (experiment.is_open() && clients_.find(experiment.driver) == nullptr) gone.insert(experiment.driver);
  }
  for (const DriverId driver : gone) interrupt_experiments(driver);
}

bool HeadCore::Impl::restore_experiment(DriverId driver, const std::string& machine_id, const protocol::ExperimentUpdate& part, uint64_t rank) {
  if (!experiments_.restore(driver, machine_id, part, rank)) return false;
  changes_.experiment(part.experiment());
  for (const protocol::TrialRow& row : part.trials()) changes_.trial(part.experiment(), row);
  return true;
}

Result<void> HeadCore::Impl::check_added(const Experiment& experiment, const v1::ControlExperimentRequest& request) const {
  const auto refuse = [](std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); };
  if (!request.trial().empty()) return refuse(fmt::format("trial: a configuration is added to an experiment, not to a trial; got \"{}\"", request.trial()));
  if (request.config().empty()) return refuse("config: expected a JSON object of parameters, got nothing");
  if (request.config().size() > options_.limits.config_bytes)
    return refuse(fmt::format("config: it has {} bytes, at most {} are taken", request.config().size(), options_.limits.config_bytes));
  return options_.check_config ? options_.check_config(experiment.space, request.config()) : Result<void>();
}

Result<void> HeadCore::Impl::kill(const v1::KillRequest& request, v1::KillReply& reply, std::string_view by) {
  const auto named = resolve(request.actor());
  if (!named) return make_error(named.error());
  Actor* actor = actors_.find(named->actor);
  if (actor == nullptr) {
    const std::string instead = named->trial != nullptr ? fmt::format("volador tune stop {} {} stops it", named->experiment->name, named->trial->trial_id())
                                : !named->node.is_nil() ? "volador drain keeps further actors off it"
                                                        : "it ends with the program or actor that made it";
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{} is not an actor; {}", in_words(*named), instead));
  }
  if (actor->is_dead()) return make_error(ErrorCode::kNotFound, fmt::format("{} has ended ({}); there is nothing to kill", in_words(*named), describe(actor->cause).text()));
  const bool restarts = request.restart() && actor->may_restart();
  const Cause cause = make_cause(Cause::KILLED, by.empty() ? Reason() : reason("cause.by", by));
  reply.set_actor(to_string(actor->id));
  reply.set_display(actor->display());
  reply.set_restarts(restarts);
  if (restarts) {
    kill_incarnation(*actor, cause, {});
  } else {
    die(actor->id, cause, {});
  }
  return {};
}

Result<void> HeadCore::Impl::control_experiment(const v1::ControlExperimentRequest& request, v1::ControlExperimentReply& reply, std::string_view by) {
  if (const std::string& act = request.act(); act != "stop" && act != "pause" && act != "resume" && act != "add")
    return make_error(ErrorCode::kInvalidArgument, fmt::format("act: expected stop, pause, resume or add, got \"{}\"", act));
  const auto experiment = experiments_.resolve_open(request.experiment());
  if (!experiment) return make_error(experiment.error());
  const Experiment& one = **experiment;
  reply.set_experiment(one.name);
  if (request.act() == "add") VOLADOR_TRY(check_added(one, request));
  if (!request.trial().empty()) {
    const auto trial = ExperimentTable::resolve_open_trial(one, request.trial());
    if (!trial) return make_error(trial.error());
    reply.set_trial(*trial);
  }
  const Driver* const driver = clients_.find(one.driver);
  if (driver == nullptr || !driver->session)
    return make_error(ErrorCode::kUnavailable, fmt::format("the program that runs experiment \"{}\" is not connected now; ask again", one.name));
  protocol::HeadMessage message;
  message.mutable_request()->set_experiment(one.name);
  message.mutable_request()->set_trial(reply.trial());
  message.mutable_request()->set_act(request.act());
  message.mutable_request()->set_config(request.config());
  if (!request.request_id().empty()) message.mutable_request()->set_request_id(fmt::format("{}/{}", by, request.request_id()));
  send({.session = *driver->session}, std::move(message));
  event(log::Level::kInfo, "asked of an experiment", {{"experiment", one.name}, {"trial", reply.trial()}, {"act", request.act()}, {"by", std::string(by)}});
  return {};
}

Result<void> HeadCore::Impl::annotate_experiment(const v1::AnnotateExperimentRequest& request, v1::AnnotateExperimentReply& reply, std::string_view by) {
  const auto found = experiments_.all().find(request.experiment());
  if (found == experiments_.all().end()) {
    return make_error(ErrorCode::kNotFound, fmt::format("this cluster knows no experiment \"{}\"; volador list trials shows those it knows", request.experiment()));
  }
  auto change = experiment_notes_.annotate(found->first, found->second.directory, request);
  if (!change) return make_error(change.error());
  if (change->journal) {
    journal(change->journal->table, change->journal->key, change->journal->value);
    event(log::Level::kInfo, "experiment annotated", {{"experiment", found->first}, {"what", fmt::format("{}", fmt::join(change->in_words, ", "))}, {"by", std::string(by)}});
    changes_.experiment(found->first);
  }
  fill_experiment(found->second, *reply.mutable_experiment());
  return {};
}

// Of actors that are still there.
void HeadCore::Impl::take_usages(v1::Changes& out) {
  for (const auto& [id, usage] : std::exchange(changes_.usages_, {})) {
    if (actors_.find(id) == nullptr) continue;
    v1::ActorUsage& row = *out.add_actor_usage();
    row.set_id(to_string(id));
    row.set_cpu_cores(usage.cpu_cores());
    row.set_memory_bytes(usage.memory_bytes());
    row.set_calls_per_s(usage.calls_per_s());
    row.set_call_ms(usage.call_ms());
  }
}

// As they come from users' processes: what Prometheus would not take is left out here.
void HeadCore::Impl::take_metrics(v1::Changes& out) {
  for (const auto& [id, metrics] : std::exchange(changes_.metrics_, {})) {
    const Actor* actor = actors_.find(id);
    if (actor == nullptr || actor->is_dead()) continue;
    v1::ActorMetrics& row = *out.add_actor_metrics();
    row.set_id(to_string(id));
    row.set_left_out(metrics.left_out());
    for (const protocol::MetricSeries& series : metrics.series()) {
      const bool histogram = series.kind() == protocol::MetricSeries::HISTOGRAM;
      const bool sound = check_metric(series.name(), MetricLabels(series.labels().begin(), series.labels().end())) && series.counts_size() == (histogram ? series.bounds_size() + 1 : 0) &&
                         static_cast<size_t>(series.bounds_size()) <= (histogram ? MetricLimits::kBounds : 0);
      if (!sound || static_cast<size_t>(row.series_size()) >= MetricLimits::kSeries) {
        row.set_left_out(row.left_out() + 1);
        continue;
      }
      v1::MetricSeries& to = *row.add_series();
      to.set_name(series.name());
      to.set_kind(histogram ? "histogram" : series.kind() == protocol::MetricSeries::GAUGE ? "gauge" : "counter");
      to.set_help(plain_text(series.help(), MetricLimits::kHelpBytes));
      *to.mutable_labels() = series.labels();
      to.set_value(series.value());
      *to.mutable_bounds() = series.bounds();
      *to.mutable_counts() = series.counts();
    }
  }
}

void HeadCore::Impl::take_actors(size_t& room, v1::Changes& out) {
  for (const ActorId id : take(changes_.actors_, room)) {
    const Actor* actor = actors_.find(id);
    if (actor == nullptr) {
      out.add_actors_gone(to_string(id));
    } else {
      fill_actor(*actor, *out.add_actors());
    }
    const bool waits = actor != nullptr && actor->waits_for_place();
    if (waits && changes_.queue_.insert(id).second) changes_.reasons_taken_ = {};
    if (!waits && changes_.queue_.erase(id) > 0) out.add_queue_gone(to_string(id));
  }
}

void HeadCore::Impl::take_queue(size_t& room, v1::Changes& out) {
  const bool nothing_waits = changes_.queue_.empty() && changes_.groups_waiting_.empty();
  if (nothing_waits || query_now_ - changes_.reasons_taken_ < LiveChanges::kReasonsEvery) return;
  changes_.reasons_taken_ = query_now_;
  std::vector<Queued> waiting;
  for (const ActorId id : changes_.queue_) {
    if (const Actor* actor = actors_.find(id)) waiting.push_back(queued(*actor));
  }
  for (const GroupId id : changes_.groups_waiting_) {
    if (const Group* group = groups_.find(id)) waiting.push_back(queued(*group));
  }
  const size_t shown = std::min({waiting.size(), kReasonsMax, room});
  std::partial_sort(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(shown), waiting.end(),
                    [](const Queued& a, const Queued& b) { return a.order < b.order; });
  for (size_t at = 0; at < shown; ++at) fill_queue_entry(waiting[at], at + 1, *out.add_queue());
  room -= shown;
}

// Its bundle has more or less room now.
void HeadCore::Impl::note_group_of(ActorId id) {
  const Actor* actor = actors_.find(id);
  if (actor == nullptr) return;
  if (const GroupId group = group_of(*actor); !group.is_nil()) changes_.group(group);
}

void HeadCore::Impl::take_groups(size_t& room, v1::Changes& out) {
  if (changes_.group_reasons_due(query_now_)) {
    changes_.group_reasons_taken_ = query_now_;
    size_t asked = 0;
    for (auto at = changes_.groups_waiting_.begin(); at != changes_.groups_waiting_.end() && asked < kReasonsMax; ++at, ++asked) changes_.groups_.insert(*at);
  }
  for (const GroupId id : take(changes_.groups_, room)) {
    const Group* group = groups_.find(id);
    if (group == nullptr) {
      out.add_groups_gone(to_string(id));
    } else {
      fill_group(*group, *out.add_groups());
    }
    const bool waits = group != nullptr && group->waits_for_places();
    if (waits && changes_.groups_waiting_.insert(id).second) changes_.reasons_taken_ = {};
    if (!waits && changes_.groups_waiting_.erase(id) > 0) out.add_queue_gone(to_string(id));
  }
}

void HeadCore::Impl::take_trials(size_t& room, v1::Changes& out) {
  for (const auto& [experiment, id] : take(changes_.trials_, room)) {
    const auto of = experiments_.all().find(experiment);
    if (of == experiments_.all().end()) continue;
    const auto row = of->second.trials.find(id);
    if (row == of->second.trials.end()) continue;  // Beyond the limit.
    fill_trial(experiment, row->second, *out.add_trials());
    const auto kept = changes_.points_.find(experiment);
    if (kept == changes_.points_.end()) continue;
    const auto points = kept->second.find(id);
    if (points == kept->second.end()) continue;
    v1::TrialPoints& to = *out.add_points();
    to.set_experiment(experiment);
    to.set_trial(id);
    for (const protocol::TrialPoint& point : points->second) fill_point(point, *to.add_points());
    changes_.points_held_ -= std::min(changes_.points_held_, points->second.size());
    kept->second.erase(points);
  }
}

void HeadCore::Impl::take_changes(size_t rows_max, v1::Changes& out) {
  size_t room = rows_max;
  LiveChanges& changes = changes_;
  for (const std::string& name : std::exchange(changes.experiments_gone_, {})) out.add_experiments_gone(name);
  if (query_now_ - changes.usage_taken_ >= LiveChanges::kUsageEvery) {
    changes.usage_taken_ = query_now_;
    changes.nodes_.merge(changes.heard_);
    changes.heard_.clear();
  }
  for (const NodeId id : take(changes.nodes_, room)) {
    const Node* node = nodes_.find(id);
    if (node == nullptr) continue;
    changes.nodes_shown_.insert(id);
    fill_node(*node, query_now_, placement_.ledger().find(id), actors_.on_node(id).size(), *out.add_nodes());
  }
  if (changes.nodes_shown_.size() > nodes_.all().size()) {  // Dead ones are forgotten by the way.
    std::erase_if(changes.nodes_shown_, [&](NodeId id) {
      if (nodes_.find(id) != nullptr) return false;
      out.add_nodes_gone(to_string(id));
      return true;
    });
  }
  for (const DriverId id : take(changes.drivers_, room)) {
    const Driver* driver = clients_.find(id);
    if (driver == nullptr) {
      out.add_drivers_gone(to_string(id));
      continue;
    }
    v1::Driver& row = *out.add_drivers();
    row.set_id(to_string(id));
    row.set_program(driver->name);
    row.set_pid(driver->pid);
    row.set_state(driver->session ? "connected" : "lost");
    row.set_node(node_on(driver->machine_id));
    if (driver->connected_at != BootTime{}) {
      row.set_connected_for_ms(std::chrono::duration_cast<std::chrono::milliseconds>(query_now_ - driver->connected_at).count());
    }
  }
  for (const std::string& name : take(changes.experiments_, room)) {
    const auto found = experiments_.all().find(name);
    if (found == experiments_.all().end()) continue;
    changes.experiments_shown_.insert(name);
    fill_experiment(found->second, *out.add_experiments());
  }
  if (changes.experiments_shown_.size() > experiments_.all().size()) {  // The oldest made room.
    std::erase_if(changes.experiments_shown_, [&](const std::string& name) {
      if (experiments_.all().contains(name)) return false;
      out.add_experiments_gone(name);
      return true;
    });
  }
  take_actors(room, out);
  take_groups(room, out);
  take_queue(room, out);
  take_trials(room, out);
  take_usages(out);
  take_metrics(out);
  fill_totals(*out.mutable_cluster());
}

}  // namespace volador::head
