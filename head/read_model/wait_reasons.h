// Reasons why requests wait for placement, for lists, explanations and watchers.
#pragma once

#include "head/kernel/context.h"
#include "head/kernel/tables.h"

namespace volador::head {

class WaitReasons {
 public:
  WaitReasons(const Context& context, const Tables& tables) : context_(context), tables_(tables) {}

  // Requires an actor that waits for placement.
  Reason of_actor(const Actor& actor, BootTime now) const;
  // Empty: it waits in no debugger.
  Reason in_debugger(const Actor& actor) const;
  // For a request in the queue; empty if it is not queued.
  Reason of_request(HolderId holder) const;

 private:
  Reason in_group(const Actor& actor) const;
  // "actor trainer (3f2a91c0, Learner)", "trial ab12 of digits (3f2a91c0)", "placement group trainers (52eceb10)".
  Reason name_of(HolderId holder) const;

  const Context& context_;
  const Tables& tables_;
};

}  // namespace volador::head
