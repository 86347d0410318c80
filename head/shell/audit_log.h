// Entries of the audit log about requests outside the core.
#pragma once

#include "head/audit/audit_module.h"
#include "runtime/clock.h"
#include "runtime/result.h"

namespace volador::head {

class CoreRunner;

// Adds an entry in an event of the core of its own. The audit module is used on the runner's loop only; it and the clock
// must live until the runner stops. Thread safe.
void record_later(CoreRunner& runner, AuditModule& audit, const Clock& clock, AuditRequest asked,
                  const Result<void>& outcome);

}  // namespace volador::head
