#include "runtime/actor/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <mutex>

#include "runtime/actor/light_home.h"
#include "runtime/actor/metric_registry.h"
#include "runtime/actor/self.h"
#include "runtime/utf8.h"

namespace volador::metrics {

// A requested metric and, once its actor is known, the actor's series.
class Slot {
 public:
  explicit Slot(MetricSpec spec) : spec_(std::move(spec)) { bind(); }

  // Null: not assigned to an actor yet.
  MetricCell* cell() {
    MetricCell* bound = bound_.load(std::memory_order_acquire);
    return bound != nullptr ? bound : bind();
  }

 private:
  MetricCell* bind() {
    if (!is_inside_actor()) return nullptr;
    const ActorId id = self().id;
    const std::lock_guard<std::mutex> hold(mutex_);
    if (!cell_) cell_ = MetricRegistry::instance().cell(is_light(id) ? home_of(id) : id, spec_);
    bound_.store(cell_.get(), std::memory_order_release);
    return cell_.get();
  }

  const MetricSpec spec_;
  std::mutex mutex_;
  std::shared_ptr<MetricCell> cell_;
  std::atomic<MetricCell*> bound_{nullptr};
};

namespace {

std::shared_ptr<Slot> make_slot(MetricSpec spec) {
  if (auto checked = check_metric(spec.name, spec.labels); !checked) throw Exception(std::move(checked).error());
  const auto refuse = [&](std::string rule) {
    throw Exception(Error{ErrorCode::kInvalidArgument, fmt::format("metric {}, bounds: expected {}", spec.name, rule)});
  };
  if (spec.bounds.size() > MetricLimits::kBounds)
    refuse(fmt::format("at most {}, got {}", MetricLimits::kBounds, spec.bounds.size()));
  if (!std::all_of(spec.bounds.begin(), spec.bounds.end(), [](double bound) { return std::isfinite(bound); }))
    refuse("finite numbers; the bucket above them all is always there");
  if (std::adjacent_find(spec.bounds.begin(), spec.bounds.end(), std::greater_equal<>()) != spec.bounds.end())
    refuse("each to be greater than the one before");
  spec.help = plain_text(spec.help, MetricLimits::kHelpBytes);
  for (auto& [label, value] : spec.labels) value = plain_text(value, MetricLimits::kNameBytes);
  return std::make_shared<Slot>(std::move(spec));
}

}  // namespace

Counter::Counter(std::string name, Options options)
    : slot_(make_slot({.kind = protocol::MetricSeries::COUNTER,
                       .name = std::move(name),
                       .help = std::move(options.help),
                       .labels = std::move(options.labels),
                       .bounds = {}})) {}
void Counter::add(double amount) {
  if (!(amount > 0) || !std::isfinite(amount)) return;
  if (MetricCell* cell = slot_->cell()) cell->add(amount);
}

Gauge::Gauge(std::string name, Options options)
    : slot_(make_slot({.kind = protocol::MetricSeries::GAUGE,
                       .name = std::move(name),
                       .help = std::move(options.help),
                       .labels = std::move(options.labels),
                       .bounds = {}})) {}
void Gauge::set(double value) {
  if (MetricCell* cell = slot_->cell()) cell->set(value);
}
void Gauge::add(double amount) {
  if (MetricCell* cell = slot_->cell()) cell->add(amount);
}

Histogram::Histogram(std::string name, HistogramOptions options)
    : slot_(make_slot({.kind = protocol::MetricSeries::HISTOGRAM,
                       .name = std::move(name),
                       .help = std::move(options.help),
                       .labels = std::move(options.labels),
                       .bounds = std::move(options.bounds)})) {}
void Histogram::observe(double value) {
  if (std::isnan(value)) return;
  if (MetricCell* cell = slot_->cell()) cell->observe(value);
}

}  // namespace volador::metrics
