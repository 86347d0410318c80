#include "runtime/actor/metric_registry.h"

#include <algorithm>
#include <cmath>

#include "runtime/log.h"

namespace volador {

MetricCell::MetricCell(MetricSpec spec)
    : spec_(std::move(spec)), counts_(spec_.kind == protocol::MetricSeries::HISTOGRAM ? spec_.bounds.size() + 1 : 0) {}

void MetricCell::add(double amount) {
  value_.fetch_add(amount, std::memory_order_relaxed);
  touch();
}

void MetricCell::set(double value) {
  value_.store(value, std::memory_order_relaxed);
  touch();
}

void MetricCell::observe(double value) {
  const auto bucket = std::lower_bound(spec_.bounds.begin(), spec_.bounds.end(), value) - spec_.bounds.begin();
  counts_[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  add(value);
}

void MetricCell::fill(protocol::MetricSeries& out) const {
  out.set_name(spec_.name);
  out.set_kind(spec_.kind);
  out.set_help(spec_.help);
  for (const auto& [label, value] : spec_.labels) (*out.mutable_labels())[label] = value;
  out.set_value(value_.load(std::memory_order_relaxed));
  for (const double bound : spec_.bounds) out.add_bounds(bound);
  for (const auto& count : counts_) out.add_counts(count.load(std::memory_order_relaxed));
}

MetricRegistry& MetricRegistry::instance() {
  static auto* registry = new MetricRegistry();  // Leaked: threads may count during process exit.
  return *registry;
}

std::shared_ptr<MetricCell> MetricRegistry::cell(const ActorId& actor, const MetricSpec& spec) {
  const std::lock_guard<std::mutex> hold(mutex_);
  Series& series = actors_[actor];
  const Key key{spec.name, spec.labels};
  if (const auto found = series.cells.find(key); found != series.cells.end()) {
    const MetricSpec& known = found->second->spec();
    if (known.kind == spec.kind && known.bounds == spec.bounds) return found->second;
    log::warn("metrics", "a series is made twice, with another kind or other buckets; the second one is not reported",
              {{"actor", short_id(actor)}, {"metric", spec.name}});
    return std::make_shared<MetricCell>(spec);
  }
  auto made = std::make_shared<MetricCell>(spec);
  if (series.cells.size() < MetricLimits::kSeries) {
    series.cells.emplace(key, made);
    return made;
  }
  series.changed = true;
  if (++series.left_out == 1) {
    log::warn("metrics",
              "an actor has as many series as it may; further ones are not reported: use fewer values of labels",
              {{"actor", short_id(actor)}, {"metric", spec.name}, {"limit", MetricLimits::kSeries}});
  }
  return made;
}

std::vector<protocol::ActorMetrics> MetricRegistry::take_changed() {
  std::vector<protocol::ActorMetrics> changed;
  const std::lock_guard<std::mutex> hold(mutex_);
  for (auto& [actor, series] : actors_) {
    bool touched = std::exchange(series.changed, false);
    for (const auto& [key, cell] : series.cells) touched = cell->take_touched() || touched;
    if (!touched) continue;
    protocol::ActorMetrics& out = changed.emplace_back();
    out.set_actor_id(raw(actor));
    out.set_left_out(series.left_out);
    for (const auto& [key, cell] : series.cells) cell->fill(*out.add_series());
  }
  return changed;
}

void MetricRegistry::forget(const ActorId& actor) {
  const std::lock_guard<std::mutex> hold(mutex_);
  actors_.erase(actor);
}

}  // namespace volador
