// The measures that actors have of their own, as the head last heard of them, for /metrics and the actor's view.
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
  // Series of the whole cluster; what an actor has beyond it is left out and counted.
  static constexpr size_t kSeriesMax = 10'000;

  explicit ActorMetrics(size_t series_max = kSeriesMax) : series_max_(series_max) {}

  // All of one actor's, in place of those before.
  void apply(const v1::ActorMetrics& metrics);
  void forget(const std::string& actor);

  // Null: the actor has none.
  const v1::ActorMetrics* find(const std::string& actor) const;
  size_t series() const { return series_; }
  // That are not shown, by the limit of an actor and of all.
  uint64_t left_out() const;

  struct Labels {
    std::string name, actor_namespace, class_name, node;
  };
  // Families by name, as "volador_app_<name>", each series with the labels actor, name (where it has one), namespace,
  // class and node. Where two actors mean different kinds by one name, the first actor's counts, and the others' are
  // left out.
  void append_prometheus(std::string& out, const std::function<Labels(const std::string& actor)>& labels_of) const;

 private:
  const size_t series_max_;
  std::map<std::string, v1::ActorMetrics> actors_;  // By id.
  size_t series_ = 0;
};

// {"series":[{"name":…,"kind":…,"labels":{…},"value":…},…],"left_out":0}
std::string actor_metrics_json(const v1::ActorMetrics* metrics);
// A value of a label, as the text format of Prometheus wants it between quotes.
std::string label_text(std::string_view text);

}  // namespace volador::dashboard
