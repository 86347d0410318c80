// What changed in the core since somebody who keeps a copy last looked: ids only, so that noting costs next to nothing.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"

namespace volador::head {

class LiveChanges {
 public:
  static constexpr std::chrono::seconds kUsageEvery{1};   // Rows of nodes that only reported their use.
  static constexpr std::chrono::seconds kReasonsEvery{1};  // Reasons of those that wait change without an event of their own.
  static constexpr size_t kPointsMax = 100'000;            // Reports that wait to be taken; the rest of them is not kept.

  void actor(ActorId id) { if (watched_) actors_.insert(id); }
  void node(NodeId id) { if (watched_) nodes_.insert(id); }
  void heard(NodeId id) { if (watched_) heard_.insert(id); }
  void usage(const protocol::HostUsage& usage) { if (watched_) usages_[id_from_raw<ActorId>(usage.actor_id())] = usage; }
  void metrics(ActorId id, const protocol::ActorMetrics& metrics) { if (watched_) metrics_[id] = metrics; }
  void group(GroupId id) { if (watched_) groups_.insert(id); }
  void driver(DriverId id) { if (watched_) drivers_.insert(id); }
  void experiment(const std::string& name) { if (watched_) experiments_.insert(name); }
  // A later run took the name: the rows of the earlier one are gone.
  void experiment_gone(const std::string& name) {
    if (watched_) experiments_gone_.insert(name);
    points_.erase(name);
    std::erase_if(trials_, [&](const auto& trial) { return trial.first == name; });
  }
  void trial(const std::string& experiment, const protocol::TrialRow& row) {
    if (!watched_) return;
    trials_.emplace(experiment, row.trial_id());
    if (row.points().empty() || points_held_ >= kPointsMax) return;
    points_held_ += static_cast<size_t>(row.points().size());
    auto& kept = points_[experiment][row.trial_id()];
    kept.insert(kept.end(), row.points().begin(), row.points().end());
  }

  bool any(BootTime now) const {
    if (!watched_) return false;
    const bool rows = !actors_.empty() || !nodes_.empty() || !groups_.empty() || !drivers_.empty() || !experiments_.empty() || !experiments_gone_.empty() || !trials_.empty() || !usages_.empty() || !metrics_.empty();
    return rows || (!heard_.empty() && now - usage_taken_ >= kUsageEvery) || (!queue_.empty() && now - reasons_taken_ >= kReasonsEvery) || group_reasons_due(now);
  }

 private:
  friend class HeadCore;  // Its core takes them.
  bool group_reasons_due(BootTime now) const { return !groups_waiting_.empty() && now - group_reasons_taken_ >= kReasonsEvery; }

  bool watched_ = false;
  std::set<ActorId> actors_;
  std::set<NodeId> nodes_, heard_, nodes_shown_;
  std::set<GroupId> groups_, groups_waiting_;
  std::set<DriverId> drivers_;
  std::set<std::string> experiments_, experiments_gone_, experiments_shown_;
  std::set<std::pair<std::string, std::string>> trials_;  // Experiment and trial.
  std::map<std::string, std::map<std::string, std::vector<protocol::TrialPoint>>> points_;
  size_t points_held_ = 0;
  std::map<ActorId, protocol::HostUsage> usages_;  // Newest of each.
  std::map<ActorId, protocol::ActorMetrics> metrics_;  // Newest of each.
  std::set<ActorId> queue_;  // Those that wait for a place.
  BootTime usage_taken_{}, reasons_taken_{}, group_reasons_taken_{};
};

}  // namespace volador::head
