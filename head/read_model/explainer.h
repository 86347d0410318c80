// Explains the state of an actor, trial, placement group or node in lines for users.
#pragma once

#include <string>
#include <string_view>

#include "head/kernel/context.h"
#include "head/kernel/tables.h"
#include "head/read_model/names.h"
#include "head/read_model/wait_reasons.h"
#include "runtime/result.h"

namespace volador::v1 {
class ExplainReply;
}

namespace volador::head {

class Explanation;  // explainer.cc

class Explainer {
 public:
  Explainer(const Context& context, const Tables& tables, const WaitReasons& reasons, const Names& names)
      : context_(context), tables_(tables), reasons_(reasons), names_(names) {}

  // `id`: as for Names::resolve(), with the same errors.
  Result<v1::ExplainReply> explain(BootTime now, std::string_view id) const;
  Result<std::string> text(BootTime now, std::string_view id) const;

 private:
  void explain_actor(const Actor& actor, BootTime now, Explanation& out) const;
  // One line per state: the time since the first state, and the reason.
  void explain_history(const Actor& actor, Explanation& out) const;
  void explain_group(GroupId id, BootTime now, Explanation& out) const;
  void explain_node(NodeId id, BootTime now, Explanation& out) const;

  const Context& context_;
  const Tables& tables_;
  const WaitReasons& reasons_;
  const Names& names_;
};

}  // namespace volador::head
