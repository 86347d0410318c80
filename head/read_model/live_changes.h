// Changes of the cluster's state since the last read of the change feed. Records only ids, so that recording is cheap.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"

namespace volador::head {

class LiveChanges {
 public:
  static constexpr size_t kPointsMax = 100'000;  // Reports held until they are read; later ones are dropped.

  // Nothing is recorded before the first call. Returns false on repeated calls.
  bool watch() { return !std::exchange(is_watched_, true); }
  bool is_watched() const { return is_watched_; }

  void actor(ActorId id) {
    if (is_watched_) noted_.actors.insert(id);
  }
  void node(NodeId id) {
    if (is_watched_) noted_.nodes.insert(id);
  }
  void heard(NodeId id) {
    if (is_watched_) noted_.heard.insert(id);
  }
  void usage(const protocol::HostUsage& usage) {
    if (is_watched_) noted_.usages[id_from_raw<ActorId>(usage.actor_id())] = usage;
  }
  void metrics(ActorId id, const protocol::ActorMetrics& metrics) {
    if (is_watched_) noted_.metrics[id] = metrics;
  }
  void group(GroupId id) {
    if (is_watched_) noted_.groups.insert(id);
  }
  void driver(DriverId id) {
    if (is_watched_) noted_.drivers.insert(id);
  }
  void experiment(const std::string& name) {
    if (is_watched_) noted_.experiments.insert(name);
  }
  // A later run took the name; the rows of the earlier run were removed.
  void experiment_gone(const std::string& name) {
    if (is_watched_) noted_.experiments_gone.insert(name);
    noted_.points.erase(name);
    std::erase_if(noted_.trials, [&](const auto& trial) { return trial.first == name; });
  }
  void trial(const std::string& experiment, const protocol::TrialRow& row) {
    if (!is_watched_) return;
    noted_.trials.emplace(experiment, row.trial_id());
    if (row.points().empty() || noted_.points_held >= kPointsMax) return;
    noted_.points_held += static_cast<size_t>(row.points().size());
    auto& kept = noted_.points[experiment][row.trial_id()];
    kept.insert(kept.end(), row.points().begin(), row.points().end());
  }

  struct Noted {
    std::set<ActorId> actors;
    std::set<NodeId> nodes, heard;  // `heard`: nodes with only a usage report.
    std::set<GroupId> groups;
    std::set<DriverId> drivers;
    std::set<std::string> experiments, experiments_gone;
    std::set<std::pair<std::string, std::string>> trials;  // Experiment and trial.
    std::map<std::string, std::map<std::string, std::vector<protocol::TrialPoint>>> points;
    size_t points_held = 0;
    std::map<ActorId, protocol::HostUsage> usages;      // The newest per actor.
    std::map<ActorId, protocol::ActorMetrics> metrics;  // The newest per actor.

    // Ignores `heard`, which the feed reads once a second.
    bool any() const {
      return !actors.empty() || !nodes.empty() || !groups.empty() || !drivers.empty() || !experiments.empty() ||
             !experiments_gone.empty() || !trials.empty() || !usages.empty() || !metrics.empty();
    }
  };
  // The feed removes what it reads.
  Noted& noted() { return noted_; }
  const Noted& noted() const { return noted_; }

 private:
  bool is_watched_ = false;
  Noted noted_;
};

}  // namespace volador::head
