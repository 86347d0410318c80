// The lists of the API, built from the tables. Sizes are bounded by ListRequest.limit (0: 1000).
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "head/kernel/tables.h"
#include "head/read_model/rows.h"
#include "runtime/result.h"

namespace volador::v1 {
class ListRequest;
class ListNodesReply;
class ListActorsReply;
class ListGroupsReply;
class ListQueueReply;
class ListTrialsReply;
class StatusReply;
}  // namespace volador::v1

namespace volador::head {

class Lists {
 public:
  Lists(const Tables& tables, const Rows& rows) : tables_(tables), rows_(rows) {}

  v1::StatusReply status(BootTime now) const;  // Without address and uptime_ms.
  v1::ListNodesReply nodes(BootTime now, const v1::ListRequest& request) const;
  // filter: state, or part of class, name or id.
  v1::ListActorsReply actors(BootTime now, const v1::ListRequest& request) const;
  v1::ListGroupsReply groups(const v1::ListRequest& request) const;  // filter: state, or part of name or id.
  // Requests that wait for placement, in service order. filter: kind, experiment, or part of name or id.
  v1::ListQueueReply queue(BootTime now, const v1::ListRequest& request) const;
  // filter: an experiment, by name or a prefix, which denotes its newest run. kNotFound: none or several match; the
  // message names them.
  Result<v1::ListTrialsReply> trials(BootTime now, const v1::ListRequest& request) const;

  // The lists of actors, the queue and trials in parts, so that the core's loop handles other events between them. A call visits up to
  // kPartRows entries, adds their rows to the reply and advances the cursor; returns false when the list is complete. A
  // row shows the state at the time of its part; entries created meanwhile may be missing.
  static constexpr size_t kPartRows = 2000;  // Half a millisecond to one.
  struct ActorsCursor {
    ActorId last;  // Nil: start of the list.
  };
  struct QueueCursor {
    bool begun = false;
    std::vector<std::variant<ActorId, GroupId>> waiting;  // In service order, as of the first part.
    size_t next = 0;
  };
  struct TrialsCursor {
    std::string only;        // The experiment selected by the filter.
    std::string experiment;  // The last trial; both empty: start of the list.
    std::string trial;
    std::string counted;  // The last experiment whose trials are included in the total.
  };
  Result<bool> add_actors(BootTime now, const v1::ListRequest& request, ActorsCursor& cursor,
                          v1::ListActorsReply& reply) const;
  Result<bool> add_queue(BootTime now, const v1::ListRequest& request, QueueCursor& cursor,
                         v1::ListQueueReply& reply) const;
  Result<bool> add_trials(BootTime now, const v1::ListRequest& request, TrialsCursor& cursor,
                          v1::ListTrialsReply& reply) const;

 private:
  // Everything that waits for placement, in service order.
  std::vector<std::variant<ActorId, GroupId>> waiting() const;
  // None: it does not wait any longer.
  std::optional<Queued> find_queued(const std::variant<ActorId, GroupId>& id) const;

  const Tables& tables_;
  const Rows& rows_;
};

}  // namespace volador::head
