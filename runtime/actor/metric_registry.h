// Metric series of all actors of this process, with change tracking. Include from .cc files only: it brings protobuf.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ids.h"
#include "runtime/metric_rules.h"
#include "runtime/protocol/control.pb.h"

namespace volador {

// Definition of a series.
struct MetricSpec {
  protocol::MetricSeries::Kind kind = protocol::MetricSeries::COUNTER;
  std::string name;
  std::string help;
  MetricLabels labels;
  std::vector<double> bounds;
};

// Current value of one series. Thread safe.
class MetricCell {
 public:
  explicit MetricCell(MetricSpec spec);

  void add(double amount);
  void set(double value);
  void observe(double value);

  const MetricSpec& spec() const { return spec_; }
  void fill(protocol::MetricSeries& out) const;
  // Whether the series changed since the last call.
  bool take_touched() { return touched_.load(std::memory_order_relaxed) && touched_.exchange(false); }
  void touch() {
    if (!touched_.load(std::memory_order_relaxed)) touched_.store(true);
  }

 private:
  const MetricSpec spec_;
  std::atomic<double> value_{0};
  std::vector<std::atomic<uint64_t>> counts_;
  std::atomic<bool> touched_{true};
};

// The series of all actors of the process. Thread safe.
class MetricRegistry {
 public:
  // The process's instance; created on first use.
  static MetricRegistry& instance();

  // Returns the series of this name and labels; creates it if needed. A series beyond the limit, or with a different
  // kind or buckets, works but is not reported.
  std::shared_ptr<MetricCell> cell(const ActorId& actor, const MetricSpec& spec);
  // Returns all series of each actor that changed since the last call.
  std::vector<protocol::ActorMetrics> take_changed();
  void forget(const ActorId& actor);

 private:
  using Key = std::pair<std::string, MetricLabels>;
  struct Series {
    std::map<Key, std::shared_ptr<MetricCell>> cells;
    uint64_t left_out = 0;
    bool changed = true;
  };

  std::mutex mutex_;
  std::map<ActorId, Series> actors_;
};

}  // namespace volador
