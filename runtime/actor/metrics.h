// An actor's own measures, which the head shows to Prometheus (/metrics) with the actor's id, name, namespace, class
// and node as labels:
//
//   class Reader {
//     void read(const std::string& path) { rows_.add(static_cast<double>(load(path))); }
//     volador::metrics::Counter rows_{"rows_total", {.help = "Rows read"}};      //
//     volador_app_rows_total{actor="3f2a…",…} 12
//   };
//
// Two of one name and labels in one actor are the same series. One that is made outside of an actor (a global, say)
// belongs to the actor in which it is used first; before, and in a driver, what it is told goes nowhere. Light actors
// share those of their home. At most MetricLimits::kSeries an actor (runtime/metric_rules.h): what is beyond counts
// nowhere, and the host's log says so once. The head hears of changes about every 5 s, and forgets a dead actor's.
// Thread safe; telling one costs some nanoseconds.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/metric_rules.h"

namespace volador::metrics {

using Labels = MetricLabels;

struct Options {
  std::string help;
  Labels labels;
};
struct HistogramOptions {
  std::string help;
  Labels labels;
  // Upper bounds of the buckets, ascending, at most MetricLimits::kBounds; the default ones suit seconds.
  std::vector<double> bounds{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10};
};

class Slot;

// Only grows; by convention its name ends with _total. What is negative or no number counts as nothing.
class Counter {
 public:
  // Throws kInvalidArgument: a name or label that cannot be.
  explicit Counter(std::string name, Options options = {});
  void add(double amount = 1);

 private:
  std::shared_ptr<Slot> slot_;
};

class Gauge {
 public:
  // Throws kInvalidArgument.
  explicit Gauge(std::string name, Options options = {});
  void set(double value);
  void add(double amount);

 private:
  std::shared_ptr<Slot> slot_;
};

class Histogram {
 public:
  // Throws kInvalidArgument, also where the bounds do not ascend.
  explicit Histogram(std::string name, HistogramOptions options = {});
  void observe(double value);  // No number: no effect.

 private:
  std::shared_ptr<Slot> slot_;
};

}  // namespace volador::metrics
