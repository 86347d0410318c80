#include "dashboard/live_model.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "dashboard/json_text.h"

namespace volador::dashboard {
namespace {

constexpr char kKeySeparator = '\x1f';
constexpr double kUnit = 10'000;

using Amounts = google::protobuf::Map<std::string, int64_t>;

double decimal(const std::string& name, int64_t amount) { return name == "memory" ? static_cast<double>(amount) : static_cast<double>(amount) / kUnit; }

// Sorted: a row that did not change has the same text.
template <class Map, class Append>
std::string object_of(const Map& map, Append append) {
  std::vector<const typename Map::value_type*> sorted;
  for (const auto& entry : map) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  std::string text;
  JsonObject object(text);
  for (const auto* entry : sorted) append(object, entry->first, entry->second);
  object.end();
  return text;
}

std::string amounts_text(const Amounts& amounts) {
  return object_of(amounts, [](JsonObject& object, const std::string& name, int64_t amount) { object.number(name, decimal(name, amount)); });
}
std::string counts_text(const Amounts& counts) {
  return object_of(counts, [](JsonObject& object, const std::string& name, int64_t count) { object.integer(name, count); });
}
std::string texts_text(const google::protobuf::Map<std::string, std::string>& texts) {
  return object_of(texts, [](JsonObject& object, const std::string& name, const std::string& text) { object.text(name, text); });
}
std::string numbers_text(const google::protobuf::Map<std::string, double>& numbers) {
  return object_of(numbers, [](JsonObject& object, const std::string& name, double value) { object.number(name, value); });
}

double amount_of(const Amounts& amounts, const std::string& name) {
  const auto found = amounts.find(name);
  return found == amounts.end() ? 0 : decimal(name, found->second);
}

// What was cut to its limit, or is no JSON for another reason, stands as text.
void append_config(JsonObject& object, const std::string& config_json) {
  if (config_json.empty() || (config_json.starts_with('{') && nlohmann::json::accept(config_json))) {
    object.raw("config", config_json.empty() ? "{}" : config_json);
  } else {
    object.text("config_text", config_json);
    object.raw("config", "{}");
  }
}

std::string actor_text(const v1::Actor& actor) {
  std::string text;
  JsonObject row(text);
  row.text("id", actor.id());
  row.text("class_name", actor.class_name());
  row.text("name", actor.name());
  row.text("display", actor.display());
  row.text("state", actor.state());
  row.text("node", actor.node());
  row.integer("pid", actor.pid());
  row.integer("epoch", static_cast<int64_t>(actor.epoch()));
  row.integer("restarts", actor.restarts());
  row.raw("resources", amounts_text(actor.resources()));
  std::string gpus = "[";
  for (const int32_t gpu : actor.gpus()) gpus += (gpus.size() > 1 ? "," : "") + std::to_string(gpu);
  row.raw("gpus", gpus + "]");
  row.text("reason", actor.reason());
  row.text("driver", actor.driver());
  row.boolean("detached", actor.detached());
  row.end();
  return text;
}

std::string driver_text(const v1::Driver& driver) {
  std::string text;
  JsonObject row(text);
  row.text("id", driver.id());
  row.text("program", driver.program());
  row.integer("pid", driver.pid());
  row.text("state", driver.state());
  row.end();
  return text;
}

std::string queue_text(const v1::QueueEntry& entry, int64_t now_ms) {
  std::string text;
  JsonObject row(text);
  row.text("id", entry.id());
  row.text("display", entry.display());
  row.text("kind", entry.class_name());
  row.raw("resources", amounts_text(entry.resources()));
  row.text("reason", entry.reason());
  // Whole seconds, so that the row of one that goes on waiting stays the same.
  row.integer("since_ms", (now_ms - entry.waiting_ms() + 500) / 1000 * 1000);
  row.end();
  return text;
}

std::string trial_text(const v1::Trial& trial) {
  std::string text;
  JsonObject row(text);
  row.text("id", trial.id());
  row.text("experiment", trial.experiment());
  row.text("status", trial.status());
  row.text("node", trial.node());
  row.integer("step", trial.step());
  append_config(row, trial.config_json());
  row.raw("metrics", numbers_text(trial.metrics()));
  row.text("error", trial.error());
  row.text("reason", trial.reason());
  row.end();
  return text;
}

std::string scheduler_text(const v1::Experiment& experiment) {
  std::string rungs = "[";
  for (const v1::SchedulerRung& rung : experiment.rungs()) {
    if (rungs.size() > 1) rungs += ',';
    JsonObject one(rungs);
    one.integer("bracket", rung.bracket());
    one.number("step", rung.milestone());
    one.integer("trials", rung.trials());
    one.integer("passed", rung.passed());
    one.number("cutoff", rung.cutoff());
    one.text("state", rung.state());
    one.integer("awaited", rung.awaited());
    std::string members = "[";
    for (const v1::SchedulerRung::Member& member : rung.members()) {
      if (members.size() > 1) members += ',';
      JsonObject of(members);
      of.text("trial", member.trial());
      of.number("value", member.value());
      of.text("act", member.act());
      of.end();
    }
    one.raw("members", members + "]");
    one.end();
  }
  std::string text;
  JsonObject object(text);
  object.text("text", experiment.scheduler());
  object.raw("rungs", rungs + "]");
  object.end();
  return text;
}

}  // namespace

std::string trial_key(std::string_view experiment, std::string_view trial) {
  return std::string(experiment) + kKeySeparator + std::string(trial);
}

std::string_view shown_id(std::string_view key) {
  const size_t at = key.rfind(kKeySeparator);
  return at == std::string_view::npos ? key : key.substr(at + 1);
}

LiveModel::LiveModel(std::string instance, int64_t started_ms, std::string address, const ModelLimits& limits)
    : instance_(std::move(instance)),
      started_ms_(started_ms),
      address_(std::move(address)),
      limits_(limits),
      line_points_max_(limits.curve_points),
      series_live_(limits.live_seconds, LiveCurves::AtLimit::kForgetOldest) {}

void LiveModel::upsert(Topic topic, const std::string& id, std::string_view group, std::string text) {
  if (of(topic).upsert(id, group, std::move(text), seq_ + 1)) ++seq_;
}

void LiveModel::apply(const v1::Changes& changes, int64_t now_ms) {
  const auto gone = [this](Topic topic, const auto& ids) {
    for (const std::string& id : ids) {
      if (of(topic).erase(id, seq_ + 1)) ++seq_;
    }
  };
  gone(Topic::kActors, changes.actors_gone());
  gone(Topic::kDrivers, changes.drivers_gone());
  gone(Topic::kQueue, changes.queue_gone());
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
  for (const v1::Actor& actor : changes.actors()) upsert(Topic::kActors, actor.id(), {}, actor_text(actor));
  for (const v1::Driver& driver : changes.drivers()) upsert(Topic::kDrivers, driver.id(), {}, driver_text(driver));
  for (const v1::QueueEntry& entry : changes.queue()) upsert(Topic::kQueue, entry.id(), {}, queue_text(entry, now_ms));

  std::set<std::string> shown;
  for (const v1::Experiment& row : changes.experiments()) {
    ExperimentState& experiment = experiments_[row.name()];
    if (experiment.started_ms == 0) experiment.started_ms = now_ms;
    experiment.row = row;
    shown.insert(row.name());
  }
  std::map<std::pair<std::string_view, std::string_view>, const v1::Trial*> rows;
  for (const v1::Trial& trial : changes.trials()) {
    apply_trial(trial);
    rows[{trial.experiment(), trial.id()}] = &trial;
    shown.insert(trial.experiment());
  }
  for (const v1::TrialPoints& points : changes.points()) {
    const auto row = rows.find({points.experiment(), points.trial()});
    apply_points(points, row == rows.end() ? nullptr : row->second);
  }
  for (const std::string& name : shown) {
    if (const auto found = experiments_.find(name); found != experiments_.end()) found->second.updated_ms = now_ms;
    show_experiment(name);
  }
  for (const v1::Event& event : changes.events()) apply_event(event);
  if (changes.has_cluster()) {
    totals_ = changes.cluster();
    show_cluster();
  }
}

void LiveModel::apply_node(const v1::Node& node, int64_t now_ms) {
  std::string text;
  JsonObject row(text);
  row.text("id", node.id());
  row.text("name", node.name());
  row.text("state", node.state());
  row.text("address", node.address());
  row.raw("total", amounts_text(node.total()));
  row.raw("used", amounts_text(node.used()));
  row.raw("labels", texts_text(node.labels()));
  row.integer("actors", node.actors());
  row.number("cpu_cores_used", std::round(node.cpu_cores_used() * 1000) / 1000);
  row.integer("memory_bytes_used", node.memory_bytes_used());
  row.text("gpu_model", node.gpu_model());
  row.text("version", node.version());
  row.integer("last_heard_ms", now_ms - node.last_heard_ms_ago());
  row.end();
  upsert(Topic::kNodes, node.id(), node.name(), std::move(text));
  node_states_[node.id()] = node.state();
  if (node.state() != "alive" && node.state() != "draining") return;
  const auto measure = [&](std::string_view name, double value) {
    const std::string key = "node/" + node.name() + "/" + std::string(name);
    series_.add(key, now_ms, static_cast<float>(value));
    if (series_live_.add(key, node.name(), static_cast<double>(now_ms), value, seq_ + 1)) ++seq_;
  };
  measure("cpu_cores_used", node.cpu_cores_used());
  measure("memory_bytes_used", static_cast<double>(node.memory_bytes_used()));
  measure("cpus_granted", amount_of(node.used(), "cpus"));
  if (amount_of(node.total(), "gpus") > 0) measure("gpus_granted", amount_of(node.used(), "gpus"));
}

void LiveModel::apply_trial(const v1::Trial& trial) {
  upsert(Topic::kTrials, trial_key(trial.experiment(), trial.id()), trial.experiment(), trial_text(trial));
  const auto found = experiments_.find(trial.experiment());
  if (found == experiments_.end()) return;
  const auto value = trial.metrics().find(found->second.row.metric());
  if (value != trial.metrics().end()) see_value(found->second, trial.id(), trial.step(), value->second, trial.config_json());
}

void LiveModel::see_value(ExperimentState& experiment, const std::string& trial, int64_t step, double value, const std::string& config_json) {
  Best& best = experiment.best;
  if (std::isnan(value)) return;
  const bool better = !best.known || (experiment.row.mode() == "min" ? value < best.value : value > best.value);
  if (better) best = {.known = true, .value = value, .trial = trial, .step = step, .config_json = config_json};
}

void LiveModel::apply_points(const v1::TrialPoints& points, const v1::Trial* row) {
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
      if (row != nullptr && metric == experiment.row.metric()) see_value(experiment, points.trial(), point.step(), value, row->config_json());
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
  if (experiment.best.known) {
    std::string& to = object.value_of("best");
    JsonObject best(to);
    best.text("trial", experiment.best.trial);
    best.number("value", experiment.best.value);
    best.integer("step", experiment.best.step);
    append_config(best, experiment.best.config_json);
    best.end();
  } else {
    object.raw("best", "null");
  }
  if (!row.scheduler().empty()) object.raw("scheduler", scheduler_text(row));
  std::string metrics = "[";
  for (const auto& [metric, curves] : experiment.curves) {
    if (metrics.size() > 1) metrics += ',';
    append_json_string(metrics, metric);
  }
  object.raw("metrics", metrics + "]");
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
  row.integer("nodes_alive", std::count_if(node_states_.begin(), node_states_.end(),
                                           [](const auto& node) { return node.second == "alive" || node.second == "draining"; }));
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
  row.end();
  upsert(Topic::kEvents, id, {}, std::move(text));
  if (events_ > limits_.events) of(Topic::kEvents).forget(std::to_string(events_ - limits_.events));
}

void LiveModel::add_log_lines(const std::string& actor, const std::vector<v1::LogLine>& lines) {
  for (const v1::LogLine& line : lines) {
    const std::string id = std::to_string(++log_lines_);
    std::string text;
    JsonObject row(text);
    row.text("id", id);
    row.text("source", line.source());
    row.text("node", line.node());
    row.boolean("stderr", line.is_stderr());
    row.text("text", line.text());
    row.end();
    upsert(Topic::kLogs, id, actor + "@" + line.node(), std::move(text));
    if (log_lines_ > limits_.log_lines) of(Topic::kLogs).forget(std::to_string(log_lines_ - limits_.log_lines));
  }
}

const LiveCurves* LiveModel::curves(std::string_view experiment, std::string_view metric) const {
  const auto found = experiments_.find(experiment);
  if (found == experiments_.end()) return nullptr;
  const auto curves = found->second.curves.find(metric.empty() ? std::string_view(found->second.row.metric()) : metric);
  return curves == found->second.curves.end() ? nullptr : &curves->second;
}

}  // namespace volador::dashboard
