// The lists of the API, built from the tables. Sizes are bounded by ListRequest.limit (0: 1000).
#pragma once

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

  v1::StatusReply status(BootTime now) const;  // All but address and uptime_ms.
  v1::ListNodesReply nodes(BootTime now, const v1::ListRequest& request) const;
  v1::ListActorsReply actors(BootTime now,
                             const v1::ListRequest& request) const;  // filter: state, or part of class, name or id.
  v1::ListGroupsReply groups(const v1::ListRequest& request) const;  // filter: state, or part of name or id.
  // What waits for a place, in the order in which it is served. filter: kind, experiment, or part of name or id.
  v1::ListQueueReply queue(BootTime now, const v1::ListRequest& request) const;
  // filter: an experiment, by its name or the start of it, which stands for the newest run. kNotFound: none, or
  // several; names them.
  Result<v1::ListTrialsReply> trials(BootTime now, const v1::ListRequest& request) const;

 private:
  const Tables& tables_;
  const Rows& rows_;
};

}  // namespace volador::head
