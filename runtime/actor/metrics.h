// Metrics of an actor, which the head exports to Prometheus (/metrics) with the actor's id, name, namespace, class and
// node as labels:
//
//   class Reader {
//     void read(const std::string& path) { rows_.add(static_cast<double>(load(path))); }
//     volador::metrics::Counter rows_{"rows_total", {.help = "Rows read"}};
//   };  // volador_app_rows_total{actor="3f2a…",…} 12
//
// Metrics of the same name and labels in one actor are the same series. A metric created outside of an actor (a global,
// for example) belongs to the actor that uses it first; earlier values, and values in a driver, are dropped. Nested
// actors share the series of their owner. At most MetricLimits::kSeries per actor (runtime/metric_rules.h): further
// series are not counted, and the host's log warns once. The head receives changes about every 5 s and deletes the
// metrics of a dead actor. Thread safe; an update costs some nanoseconds.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/metric_rules.h"

namespace volador::metrics {

using Labels = MetricLabels;

// Options of Counter and Gauge.
struct Options {
  std::string help;
  Labels labels;
};
// Options of Histogram.
struct HistogramOptions {
  std::string help;
  Labels labels;
  // Upper bounds of the buckets, ascending, at most MetricLimits::kBounds; the default suits seconds.
  std::vector<double> bounds{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10};
};

class Slot;

// Only increases; by convention its name ends with _total. Negative amounts and NaN are ignored.
class Counter {
 public:
  // Throws kInvalidArgument: invalid name or label.
  explicit Counter(std::string name, Options options = {});
  void add(double amount = 1);

 private:
  std::shared_ptr<Slot> slot_;
};

// A value that can increase and decrease.
class Gauge {
 public:
  // Throws kInvalidArgument.
  explicit Gauge(std::string name, Options options = {});
  void set(double value);
  void add(double amount);

 private:
  std::shared_ptr<Slot> slot_;
};

// Distribution of observed values over buckets.
class Histogram {
 public:
  // Throws kInvalidArgument, also if the bounds do not ascend.
  explicit Histogram(std::string name, HistogramOptions options = {});
  void observe(double value);  // NaN: no effect.

 private:
  std::shared_ptr<Slot> slot_;
};

}  // namespace volador::metrics
