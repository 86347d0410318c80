// Feeds a remote copy of the cluster's state: all rows first, then changed rows.
#pragma once

#include <chrono>
#include <set>
#include <string>

#include "head/kernel/context.h"
#include "head/kernel/tables.h"
#include "head/read_model/rows.h"

namespace volador::v1 {
class Changes;
}

namespace volador::head {

class ChangeFeed {
 public:
  static constexpr std::chrono::seconds kUsageEvery{1};    // Interval for rows of nodes with only a usage report.
  static constexpr std::chrono::seconds kReasonsEvery{1};  // Interval for wait reasons, which change without an event.

  ChangeFeed(Context& context, const Tables& tables, const Rows& rows)
      : context_(context), tables_(tables), rows_(rows) {}

  // The first call marks all rows as changed; from then on changes are recorded.
  void watch();
  bool any(BootTime now) const;
  // Returns at most about `rows_max` rows.
  v1::Changes take(BootTime now, size_t rows_max);

 private:
  void take_nodes(BootTime now, size_t& room, v1::Changes& out);
  void take_drivers(BootTime now, size_t& room, v1::Changes& out);
  void take_experiments(size_t& room, v1::Changes& out);
  void take_actors(BootTime now, size_t& room, v1::Changes& out);
  void take_groups(BootTime now, size_t& room, v1::Changes& out);
  void take_queue(BootTime now, size_t& room, v1::Changes& out);
  void take_trials(BootTime now, size_t& room, v1::Changes& out);
  void take_usages(v1::Changes& out);
  void take_metrics(v1::Changes& out);
  bool group_reasons_due(BootTime now) const {
    return !groups_waiting_.empty() && now - group_reasons_taken_ >= kReasonsEvery;
  }

  Context& context_;
  const Tables& tables_;
  const Rows& rows_;
  std::set<NodeId> nodes_shown_;
  std::set<std::string> experiments_shown_;
  std::set<ActorId> actors_waiting_;  // Waiting for placement.
  std::set<GroupId> groups_waiting_;
  BootTime usage_taken_{}, reasons_taken_{}, group_reasons_taken_{};
};

}  // namespace volador::head
