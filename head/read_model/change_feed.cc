#include "head/read_model/change_feed.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "head/experiments/experiment_rows.h"
#include "runtime/metric_rules.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/utf8.h"

namespace volador::head {
namespace {

constexpr size_t kReasonsMax = 500;  // Waiting requests evaluated at a time; each one checks the nodes.

// Removes and returns the first `room` elements of `ids`.
template <class Set>
Set take_first(Set& ids, size_t& room) {
  if (ids.size() <= room) {
    room -= ids.size();
    return std::exchange(ids, {});
  }
  Set taken;
  for (; room > 0; --room) taken.insert(ids.extract(ids.begin()));
  return taken;
}

}  // namespace

void ChangeFeed::watch() {
  if (!context_.changes.watch()) return;
  for (const auto& [id, node] : tables_.nodes.all()) context_.changes.node(id);
  for (const auto& [id, actor] : tables_.actors.all()) context_.changes.actor(id);
  for (const auto& [id, group] : tables_.groups.all()) context_.changes.group(id);
  for (const auto& [id, driver] : tables_.clients.all()) context_.changes.driver(id);
  for (const auto& [name, experiment] : tables_.experiments.all()) {
    context_.changes.experiment(name);
    for (const auto& [id, trial] : experiment.trials) context_.changes.trial(name, trial);
  }
}

v1::Changes ChangeFeed::take(BootTime now, size_t rows_max) {
  v1::Changes out;
  size_t room = rows_max;
  for (const std::string& name : std::exchange(context_.changes.noted().experiments_gone, {}))
    out.add_experiments_gone(name);
  take_nodes(now, room, out);
  take_drivers(now, room, out);
  take_experiments(room, out);
  take_actors(now, room, out);
  take_groups(now, room, out);
  take_queue(now, room, out);
  take_trials(now, room, out);
  take_usages(out);
  take_metrics(out);
  rows_.fill_totals(*out.mutable_cluster());
  return out;
}

bool ChangeFeed::any(BootTime now) const {
  if (!context_.changes.is_watched()) return false;
  const LiveChanges::Noted& noted = context_.changes.noted();
  return noted.any() || (!noted.heard.empty() && now - usage_taken_ >= kUsageEvery) ||
         (!actors_waiting_.empty() && now - reasons_taken_ >= kReasonsEvery) || group_reasons_due(now);
}

void ChangeFeed::take_nodes(BootTime now, size_t& room, v1::Changes& out) {
  LiveChanges::Noted& noted = context_.changes.noted();
  if (now - usage_taken_ >= kUsageEvery) {
    usage_taken_ = now;
    noted.nodes.merge(noted.heard);
    noted.heard.clear();
  }
  for (const NodeId id : take_first(noted.nodes, room)) {
    const Node* node = tables_.nodes.find(id);
    if (node == nullptr) continue;
    nodes_shown_.insert(id);
    rows_.fill_node(*node, now, *out.add_nodes());
  }
  if (nodes_shown_.size() <= tables_.nodes.all().size()) return;
  std::erase_if(nodes_shown_, [&](NodeId id) {  // The table has dropped dead nodes.
    if (tables_.nodes.find(id) != nullptr) return false;
    out.add_nodes_gone(to_string(id));
    return true;
  });
}

void ChangeFeed::take_drivers(BootTime now, size_t& room, v1::Changes& out) {
  for (const DriverId id : take_first(context_.changes.noted().drivers, room)) {
    const Driver* driver = tables_.clients.find(id);
    if (driver == nullptr) {
      out.add_drivers_gone(to_string(id));
      continue;
    }
    v1::Driver& row = *out.add_drivers();
    row.set_id(to_string(id));
    row.set_program(driver->name);
    row.set_pid(driver->pid);
    row.set_state(driver->session ? "connected" : "lost");
    row.set_node(tables_.nodes.node_on(driver->machine_id));
    row.set_owner(driver->owner.token_id());
    if (driver->connected_at != BootTime{}) {
      row.set_connected_for_ms(
          std::chrono::duration_cast<std::chrono::milliseconds>(now - driver->connected_at).count());
    }
  }
}

void ChangeFeed::take_experiments(size_t& room, v1::Changes& out) {
  const auto& experiments = tables_.experiments.all();
  for (const std::string& name : take_first(context_.changes.noted().experiments, room)) {
    const auto found = experiments.find(name);
    if (found == experiments.end()) continue;
    experiments_shown_.insert(name);
    fill_experiment(found->second, tables_.experiment_notes, *out.add_experiments());
  }
  if (experiments_shown_.size() <= experiments.size()) return;
  std::erase_if(experiments_shown_, [&](const std::string& name) {  // The oldest experiments were removed.
    if (experiments.contains(name)) return false;
    out.add_experiments_gone(name);
    return true;
  });
}

void ChangeFeed::take_actors(BootTime now, size_t& room, v1::Changes& out) {
  for (const ActorId id : take_first(context_.changes.noted().actors, room)) {
    const Actor* actor = tables_.actors.find(id);
    if (actor == nullptr) {
      out.add_actors_gone(to_string(id));
    } else {
      rows_.fill_actor(*actor, now, *out.add_actors());
    }
    const bool waits = actor != nullptr && actor->waits_for_place();
    if (waits && actors_waiting_.insert(id).second) reasons_taken_ = {};
    if (!waits && actors_waiting_.erase(id) > 0) out.add_queue_gone(to_string(id));
  }
}

void ChangeFeed::take_groups(BootTime now, size_t& room, v1::Changes& out) {
  if (group_reasons_due(now)) {
    group_reasons_taken_ = now;
    size_t asked = 0;
    for (auto at = groups_waiting_.begin(); at != groups_waiting_.end() && asked < kReasonsMax; ++at, ++asked)
      context_.changes.noted().groups.insert(*at);
  }
  for (const GroupId id : take_first(context_.changes.noted().groups, room)) {
    const Group* group = tables_.groups.find(id);
    if (group == nullptr) {
      out.add_groups_gone(to_string(id));
    } else {
      rows_.fill_group(*group, *out.add_groups());
    }
    const bool waits = group != nullptr && group->waits_for_places();
    if (waits && groups_waiting_.insert(id).second) reasons_taken_ = {};
    if (!waits && groups_waiting_.erase(id) > 0) out.add_queue_gone(to_string(id));
  }
}

void ChangeFeed::take_queue(BootTime now, size_t& room, v1::Changes& out) {
  const bool nothing_waits = actors_waiting_.empty() && groups_waiting_.empty();
  if (nothing_waits || now - reasons_taken_ < kReasonsEvery) return;
  reasons_taken_ = now;
  std::vector<Queued> waiting;
  for (const ActorId id : actors_waiting_) {
    if (const Actor* actor = tables_.actors.find(id)) waiting.push_back(Queued(*actor));
  }
  for (const GroupId id : groups_waiting_) {
    if (const Group* group = tables_.groups.find(id)) waiting.push_back(Queued(*group));
  }
  const size_t shown = std::min({waiting.size(), kReasonsMax, room});
  std::partial_sort(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(shown), waiting.end(),
                    [](const Queued& a, const Queued& b) { return a.order < b.order; });
  for (size_t at = 0; at < shown; ++at) rows_.fill_queue_entry(waiting[at], at + 1, now, *out.add_queue());
  room -= shown;
}

void ChangeFeed::take_trials(BootTime now, size_t& room, v1::Changes& out) {
  for (const auto& [experiment, id] : take_first(context_.changes.noted().trials, room)) {
    const auto of = tables_.experiments.all().find(experiment);
    if (of == tables_.experiments.all().end()) continue;
    const auto row = of->second.trials.find(id);
    if (row == of->second.trials.end()) continue;  // Beyond the limit.
    rows_.fill_trial(experiment, row->second, now, *out.add_trials());
    const auto kept = context_.changes.noted().points.find(experiment);
    if (kept == context_.changes.noted().points.end()) continue;
    const auto points = kept->second.find(id);
    if (points == kept->second.end()) continue;
    v1::TrialPoints& to = *out.add_points();
    to.set_experiment(experiment);
    to.set_trial(id);
    for (const protocol::TrialPoint& point : points->second) fill_point(point, *to.add_points());
    context_.changes.noted().points_held -= std::min(context_.changes.noted().points_held, points->second.size());
    kept->second.erase(points);
  }
}

// Only actors that still exist.
void ChangeFeed::take_usages(v1::Changes& out) {
  for (const auto& [id, usage] : std::exchange(context_.changes.noted().usages, {})) {
    if (tables_.actors.find(id) == nullptr) continue;
    v1::ActorUsage& row = *out.add_actor_usage();
    row.set_id(to_string(id));
    row.set_cpu_cores(usage.cpu_cores());
    row.set_memory_bytes(usage.memory_bytes());
    row.set_calls_per_s(usage.calls_per_s());
    row.set_call_ms(usage.call_ms());
  }
}

// Metrics come from user processes: what Prometheus would reject is skipped.
void ChangeFeed::take_metrics(v1::Changes& out) {
  for (const auto& [id, metrics] : std::exchange(context_.changes.noted().metrics, {})) {
    const Actor* actor = tables_.actors.find(id);
    if (actor == nullptr || actor->is_dead()) continue;
    v1::ActorMetrics& row = *out.add_actor_metrics();
    row.set_id(to_string(id));
    row.set_left_out(metrics.left_out());
    for (const protocol::MetricSeries& series : metrics.series()) {
      const bool histogram = series.kind() == protocol::MetricSeries::HISTOGRAM;
      const bool sound = check_metric(series.name(), MetricLabels(series.labels().begin(), series.labels().end())) &&
                         series.counts_size() == (histogram ? series.bounds_size() + 1 : 0) &&
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

}  // namespace volador::head
