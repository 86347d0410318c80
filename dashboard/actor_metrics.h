// The newest custom metrics of actors, as reported by the head, for /metrics and the actor's page.
// Pure: no clock, thread or I/O. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::dashboard {

class ActorMetrics {
 public:
  // Limit for the whole cluster; further series are dropped and counted.
  static constexpr size_t kSeriesMax = 10'000;

  explicit ActorMetrics(size_t series_max = kSeriesMax) : series_max_(series_max) {}

  // Replaces all metrics of one actor.
  void apply(const v1::ActorMetrics& metrics);
  void forget(const std::string& actor);

  // Null: the actor has none.
  const v1::ActorMetrics* find(const std::string& actor) const;
  size_t series() const { return series_; }
  // Series dropped due to the limits per actor and in total.
  uint64_t left_out() const;

  struct Labels {
    std::string name, actor_namespace, class_name, node;
  };
  // Appends families by name, as "volador_app_<name>", each series with the labels actor, name (if any), namespace,
  // class and node. If two actors use one name for different kinds, the first actor's kind counts and the other series
  // are dropped.
  void append_prometheus(std::string& out, const std::function<Labels(const std::string& actor)>& labels_of) const;

 private:
  const size_t series_max_;
  std::map<std::string, v1::ActorMetrics> actors_;  // By id.
  size_t series_ = 0;
};

// {"series":[{"name":…,"kind":…,"labels":{…},"value":…},…],"left_out":0}
std::string actor_metrics_json(const v1::ActorMetrics* metrics);
// Escapes a label value for Prometheus' text format, without the quotes.
std::string label_text(std::string_view text);

}  // namespace volador::dashboard
