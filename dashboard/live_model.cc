#include "dashboard/live_model.h"

#include <algorithm>
#include <map>

#include "dashboard/json_text.h"
#include "dashboard/row_text.h"

namespace volador::dashboard {
namespace {

std::string best_text(const v1::BestTrial& best) {
  std::string text;
  JsonObject object(text);
  object.text("trial", best.trial());
  if (!best.name().empty()) object.text("name", best.name());
  object.number("value", best.value());
  object.integer("step", best.step());
  append_config(object, best.config_json());
  object.end();
  return text;
}

std::string left_text(const v1::TimeLeft& left, int64_t at_ms) {
  std::string text;
  JsonObject object(text);
  object.number("seconds", left.seconds());
  object.number("low", left.low());
  object.number("high", left.high());
  object.integer("at_ms", at_ms);
  object.end();
  return text;
}

}  // namespace

LiveModel::LiveModel(std::string instance, int64_t started_ms, std::string address, const ModelLimits& limits)
    : instance_(std::move(instance)),
      started_ms_(started_ms),
      address_(std::move(address)),
      limits_(limits),
      line_points_max_(limits.curve_points),
      series_live_(limits.live_seconds, LiveCurves::AtLimit::kForgetOldest) {}

bool LiveModel::upsert(Topic topic, const std::string& id, std::string_view group, std::string text) {
  const bool is_new = of(topic).upsert(id, group, std::move(text), seq_ + 1);
  if (is_new) ++seq_;
  return is_new;
}

void LiveModel::apply(const v1::Changes& changes, int64_t now_ms) {
  const auto gone = [this](Topic topic, const auto& ids) {
    for (const std::string& id : ids) {
      if (of(topic).erase(id, seq_ + 1)) ++seq_;
    }
  };
  gone(Topic::kActors, changes.actors_gone());
  for (const std::string& id : changes.actors_gone()) {
    trial_of_actor_.erase(id);
    actor_metrics_.forget(id);
  }
  gone(Topic::kDrivers, changes.drivers_gone());
  gone(Topic::kQueue, changes.queue_gone());
  gone(Topic::kGroups, changes.groups_gone());
  gone(Topic::kNodes, changes.nodes_gone());
  for (const std::string& id : changes.nodes_gone()) node_states_.erase(id);
  gone(Topic::kExperiments, changes.experiments_gone());
  for (const std::string& name : changes.experiments_gone()) {
    of(Topic::kTrials).erase_group(name, ++seq_);
    if (const auto found = experiments_.find(name); found != experiments_.end()) {
      for (const auto& [metric, curves] : found->second.curves) points_ -= curves.points();
      experiments_.erase(found);
    }
  }
  for (const v1::Node& node : changes.nodes()) apply_node(node, now_ms);
  for (const v1::Actor& actor : changes.actors()) {
    upsert(Topic::kActors, actor.id(), {}, actor_text(actor));
    if (actor.state() == "dead") actor_metrics_.forget(actor.id());
  }
  for (const v1::ActorMetrics& metrics : changes.actor_metrics()) actor_metrics_.apply(metrics);
  for (const v1::Driver& driver : changes.drivers())
    upsert(Topic::kDrivers, driver.id(), {}, driver_text(driver, now_ms));
  for (const v1::QueueEntry& entry : changes.queue()) upsert(Topic::kQueue, entry.id(), {}, queue_text(entry, now_ms));
  for (const v1::Group& group : changes.groups()) upsert(Topic::kGroups, group.id(), {}, group_text(group));

  std::map<std::string, bool> shown;  // Whether the run itself changed.
  for (const v1::Experiment& row : changes.experiments()) {
    ExperimentState& experiment = experiments_[row.name()];
    if (const auto told = told_times_.find(row.name()); told != told_times_.end()) experiment.take(told->second);
    if (experiment.started_ms == 0) experiment.started_ms = now_ms;
    // User notes on an ended run are no change of the run.
    const bool goes_on = row.state() == "running" || row.state() == "paused" || row.state() != experiment.row.state();
    if (row.left().number() != experiment.row.left().number() || experiment.left_ms == 0) experiment.left_ms = now_ms;
    experiment.row = row;
    shown.emplace(row.name(), goes_on);
  }
  for (const v1::Trial& trial : changes.trials()) {
    if (apply_trial(trial)) shown[trial.experiment()] = true;
  }
  for (const v1::TrialPoints& points : changes.points()) {
    apply_points(points);
    shown[points.experiment()] = true;
  }
  for (const auto& [name, is_news] : shown) {
    if (const auto found = experiments_.find(name);
        is_news && found != experiments_.end() && !told_times_.contains(name))
      found->second.updated_ms = now_ms;
    show_experiment(name);
  }
  for (const v1::ActorUsage& usage : changes.actor_usage()) apply_usage(usage, now_ms);
  for (const v1::Event& event : changes.events()) apply_event(event);
  if (changes.has_cluster()) {
    totals_ = changes.cluster();
    show_cluster();
  }
}

void LiveModel::replace(Topic topic, const std::map<std::string, std::string>& rows) {
  std::vector<std::string> gone;
  for (const auto& [id, row] : of(topic).rows()) {
    if (!rows.contains(id)) gone.push_back(id);
  }
  for (const std::string& id : gone) {
    if (of(topic).erase(id, seq_ + 1)) ++seq_;
  }
  for (const auto& [id, text] : rows) upsert(topic, id, {}, text);
}

void LiveModel::set_objects(const v1::ListObjectsReply& reply) {
  std::map<std::string, std::string> stores, groups, objects;
  for (const v1::ObjectStore& store : reply.stores()) stores[store.node()] = object_store_text(store);
  for (const v1::ObjectGroup& group : reply.groups()) groups[object_group_id(group)] = object_group_text(group);
  for (const v1::Object& object : reply.objects()) objects[object_row_id(object)] = object_text(object);
  replace(Topic::kObjectStores, stores);
  replace(Topic::kObjectGroups, groups);
  replace(Topic::kObjects, objects);
  objects_known_ = true;
}

void LiveModel::forget_objects() {
  for (const Topic topic : kObjectTopics) replace(topic, {});
  objects_known_ = false;
}

void LiveModel::apply_node(const v1::Node& node, int64_t now_ms) {
  upsert(Topic::kNodes, node.id(), node.name(), node_text(node, now_ms));
  node_states_[node.id()] = node.state();
  if (node.state() != "alive" && node.state() != "draining") return;
  const std::string of = "node/" + node.name();
  const auto measure = [&](std::string_view name, double value) {
    series_.add(of, name, now_ms, static_cast<float>(value));
    if (series_live_.add(of + "/" + std::string(name), node.name(), static_cast<double>(now_ms), value, seq_ + 1))
      ++seq_;
  };
  measure("cpu_cores_used", node.cpu_cores_used());
  measure("memory_bytes_used", static_cast<double>(node.memory_bytes_used()));
  for (const Measured& one : machine_measures(node)) measure(one.name, one.value);
  measure("cpus_granted", amount_of(node.used(), "cpus"));
  if (amount_of(node.total(), "gpus") > 0) measure("gpus_granted", amount_of(node.used(), "gpus"));
  for (const v1::Gpu& gpu : node.gpus()) {
    const std::string name = "gpu" + std::to_string(gpu.index());
    measure(name + "_granted", static_cast<double>(gpu.granted()) / 10'000);
    if (!gpu.measured()) continue;
    measure(name + "_utilization_ratio", gpu.utilization());
    measure(name + "_memory_bytes", static_cast<double>(gpu.memory_bytes()));
    if (gpu.has_temperature_celsius()) measure(name + "_temperature_celsius", gpu.temperature_celsius());
    if (gpu.has_power_watts()) measure(name + "_power_watts", gpu.power_watts());
  }
}

std::string LiveModel::series_of_actor(const std::string& actor) const {
  const auto trial = trial_of_actor_.find(actor);
  return trial == trial_of_actor_.end() ? "actor/" + actor : "trial/" + trial->second;
}

// Usage reports arrive every 10 s.
void LiveModel::apply_usage(const v1::ActorUsage& usage, int64_t now_ms) {
  constexpr size_t kTenSeconds = 1;
  const std::string of = series_of_actor(usage.id());
  const auto measure = [&](std::string_view name, double value) {
    series_.add(of, name, now_ms, static_cast<float>(value), kTenSeconds);
  };
  measure("cpu_cores", usage.cpu_cores());
  measure("memory_bytes", static_cast<double>(usage.memory_bytes()));
  measure("calls_per_s", usage.calls_per_s());
  if (usage.calls_per_s() > 0) measure("call_ms", usage.call_ms());
}

bool LiveModel::apply_trial(const v1::Trial& trial) {
  if (!trial.actor().empty() && trial_of_actor_.size() < limits_.trial_actors) {
    const auto [entry, added] = trial_of_actor_.try_emplace(trial.actor());
    if (added) {  // The node may have measured the actor before the program reported its trial.
      entry->second = trial_key(trial.experiment(), trial.id());
      series_.move("actor/" + trial.actor(), "trial/" + entry->second);
    }
  }
  return upsert(Topic::kTrials, trial_key(trial.experiment(), trial.id()), trial.experiment(), trial_text(trial));
}

void LiveModel::restore(const PastRun& past) {
  for (const v1::Experiment& row : past.rows.experiments()) {
    const auto [known, is_new] = experiments_.try_emplace(row.name());
    if (is_new) known->second.row = row;
  }
  const auto found = experiments_.find(past.name);
  if (found == experiments_.end()) return;  // It was dropped meanwhile.
  ExperimentState& experiment = found->second;
  experiment.started_ms = past.started_ms;
  experiment.updated_ms = past.updated_ms;
  for (const v1::Trial& trial : past.rows.trials())
    upsert(Topic::kTrials, trial_key(trial.experiment(), trial.id()), trial.experiment(), trial_text(trial));
  for (const v1::TrialPoints& points : past.rows.points()) apply_points(points);
  show_experiment(past.name);
}

void LiveModel::set_times(const std::string& name, int64_t started_ms, int64_t updated_ms) {
  const ToldTimes& told = told_times_[name] = {.started_ms = started_ms, .updated_ms = updated_ms};
  const auto found = experiments_.find(name);
  if (found == experiments_.end()) return;
  found->second.take(told);
  show_experiment(name);
}

void LiveModel::apply_points(const v1::TrialPoints& points) {
  const auto found = experiments_.find(points.experiment());
  if (found == experiments_.end()) return;
  ExperimentState& experiment = found->second;
  for (const v1::TrialPoint& point : points.points()) {
    for (const auto& [metric, value] : point.metrics()) {
      auto curves = experiment.curves.find(metric);
      if (curves == experiment.curves.end()) {
        if (experiment.curves.size() >= limits_.curve_metrics) continue;
        curves = experiment.curves.try_emplace(metric, line_points_max_, LiveCurves::AtLimit::kThin).first;
      }
      const size_t before = curves->second.points();
      if (curves->second.add(points.trial(), {}, static_cast<double>(point.step()), value, seq_ + 1)) ++seq_;
      points_ += curves->second.points() - before;
    }
  }
  experiment.grown = seq_;
  make_room_for_points(experiment);
}

void LiveModel::make_room_for_points(const ExperimentState& growing) {
  while (points_ > limits_.curve_points_all) {
    ExperimentState* idlest = nullptr;
    for (auto& [name, experiment] : experiments_) {
      if (&experiment == &growing || experiment.curves.empty()) continue;
      if (idlest == nullptr || experiment.grown < idlest->grown) idlest = &experiment;
    }
    if (idlest != nullptr) {
      for (const auto& [metric, curves] : idlest->curves) points_ -= curves.points();
      idlest->curves.clear();
      continue;
    }
    if (line_points_max_ <= 8) return;
    line_points_max_ /= 2;
    points_ = 0;
    for (auto& [name, experiment] : experiments_) {
      for (auto& [metric, curves] : experiment.curves) {
        curves.set_points_max(line_points_max_);
        points_ += curves.points();
      }
    }
  }
}

void LiveModel::show_experiment(const std::string& name) {
  const auto found = experiments_.find(name);
  if (found == experiments_.end()) return;
  const ExperimentState& experiment = found->second;
  const v1::Experiment& row = experiment.row;
  std::string text;
  JsonObject object(text);
  object.text("id", row.name());
  object.text("name", row.name());
  object.text("state", row.state());
  object.text("metric", row.metric());
  object.text("mode", row.mode());
  object.text("directory", row.directory());
  object.integer("trials_total", row.trials_total());
  object.raw("trials_by_status", counts_text(row.trials_by_status()));
  object.integer("trials_planned", row.trials_planned());
  object.raw("best", row.has_best() ? best_text(row.best()) : "null");
  object.raw("best_so_far", row.has_best_so_far() ? best_text(row.best_so_far()) : "null");
  const int64_t left_ms = told_times_.contains(name) ? experiment.updated_ms : experiment.left_ms;
  object.raw("left", row.has_left() ? left_text(row.left(), left_ms) : "null");
  if (!row.scheduler().empty()) object.raw("scheduler", scheduler_text(row));
  std::string metrics = "[";
  for (const auto& [metric, curves] : experiment.curves) {
    if (metrics.size() > 1) metrics += ',';
    append_json_string(metrics, metric);
  }
  object.raw("metrics", metrics + "]");
  object.raw("tags", list_text(row.tags()));
  object.text("note", row.note());
  object.boolean("archived", row.archived());
  object.text("files", files_of(row));
  object.text("driver_id", row.driver_id());
  object.integer("started_ms", experiment.started_ms);
  object.integer("updated_ms", experiment.updated_ms);
  object.end();
  upsert(Topic::kExperiments, row.name(), {}, std::move(text));
}

void LiveModel::show_cluster() {
  std::string text;
  JsonObject row(text);
  row.text("id", "cluster");
  row.text("name", totals_.cluster_name());
  row.text("cluster_id", totals_.cluster_id());
  row.text("version", totals_.version());
  row.text("address", address_);
  row.integer("started_ms", started_ms_);
  row.integer("nodes_alive", std::count_if(node_states_.begin(), node_states_.end(), [](const auto& node) {
                return node.second == "alive" || node.second == "draining";
              }));
  row.raw("total", amounts_text(totals_.total()));
  row.raw("used", amounts_text(totals_.used()));
  row.raw("actors_by_state", counts_text(totals_.actors_by_state()));
  row.integer("drivers", totals_.drivers());
  row.end();
  upsert(Topic::kCluster, "cluster", {}, std::move(text));
}

void LiveModel::apply_event(const v1::Event& event) {
  const std::string id = std::to_string(++events_);
  std::string text;
  JsonObject row(text);
  row.text("id", id);
  row.integer("time_ms", event.wall_ns() / 1'000'000);
  row.text("level", event.level());
  row.text("text", event.text());
  row.raw("fields", texts_text(event.fields()));
  if (!event.why().empty()) row.raw("why", event.why());
  row.end();
  upsert(Topic::kEvents, id, {}, std::move(text));
  if (events_ > limits_.events) of(Topic::kEvents).forget(std::to_string(events_ - limits_.events));
}

void LiveModel::add_log_lines(const std::string& actor, const std::vector<v1::LogLine>& lines) {
  for (const v1::LogLine& line : lines) {
    const std::string id = std::to_string(++log_lines_);
    std::string text = line_json(line, id);
    upsert(Topic::kLogs, id, actor + "@" + line.node(), std::move(text));
    if (log_lines_ > limits_.log_lines) of(Topic::kLogs).forget(std::to_string(log_lines_ - limits_.log_lines));
  }
}

std::string_view LiveModel::files_of(const v1::Experiment& row) const {
  if (row.directory().empty()) return "none";
  return !machine_id_.empty() && row.machine_id() == machine_id_ ? "here" : "elsewhere";
}

Result<LiveModel::RunPlace> LiveModel::place_of(const std::string& name) const {
  const auto found = experiments_.find(name);
  if (found == experiments_.end())
    return make_error(ErrorCode::kNotFound,
                      "there is no experiment \"" + name + "\"; GET /api/v1/experiments shows those that there are");
  const v1::Experiment& row = found->second.row;
  const std::string_view files = files_of(row);
  if (files == "none") return make_error(ErrorCode::kNotFound, "experiment \"" + name + "\" keeps no files");
  return RunPlace{.directory = row.directory(), .here = files == "here"};
}

std::vector<std::string> LiveModel::metrics_of(const std::string& name) const {
  std::vector<std::string> names;
  if (const auto found = experiments_.find(name); found != experiments_.end()) {
    for (const auto& [metric, curves] : found->second.curves) names.push_back(metric);
  }
  return names;
}

const LiveCurves* LiveModel::curves(std::string_view experiment, std::string_view metric) const {
  const auto found = experiments_.find(experiment);
  if (found == experiments_.end()) return nullptr;
  const auto curves = found->second.curves.find(metric.empty() ? std::string_view(found->second.row.metric()) : metric);
  return curves == found->second.curves.end() ? nullptr : &curves->second;
}

}  // namespace volador::dashboard
