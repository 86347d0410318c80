// Conversion of table entries to rows of lists and pages.
#pragma once

#include <cstddef>

#include "head/kernel/context.h"
#include "head/kernel/tables.h"
#include "head/read_model/wait_reasons.h"

namespace volador::v1 {
class Actor;
class Group;
class Node;
class QueueBlocker;
class QueueEntry;
class StatusReply;
class Trial;
}  // namespace volador::v1

namespace volador::head {

// An actor or placement group that waits for placement.
struct Queued {
  explicit Queued(const Actor& actor);
  explicit Queued(const Group& group);

  RequestOrder order;
  BootTime since{};
  const Actor* actor = nullptr;
  const Group* group = nullptr;
};

class Rows {
 public:
  Rows(const Context& context, const Tables& tables, const WaitReasons& reasons)
      : context_(context), tables_(tables), reasons_(reasons) {}

  void fill_node(const Node& node, BootTime now, v1::Node& out) const;
  void fill_actor(const Actor& actor, BootTime now, v1::Actor& row) const;
  void fill_group(const Group& group, v1::Group& row) const;
  void fill_trial(const std::string& experiment, const protocol::TrialRow& trial, BootTime now, v1::Trial& row) const;
  // `position` starts at 1.
  void fill_queue_entry(const Queued& queued, size_t position, BootTime now, v1::QueueEntry& row) const;
  // Without nodes and experiments.
  void fill_totals(v1::StatusReply& reply) const;

 private:
  void fill_blocker(HolderId holder, v1::QueueBlocker& row) const;

  const Context& context_;
  const Tables& tables_;
  const WaitReasons& reasons_;
};

// Labels of one bundle, such as "zone=a, gpu"; empty: none.
std::string bundle_labels(const Group& group, size_t bundle);

}  // namespace volador::head
