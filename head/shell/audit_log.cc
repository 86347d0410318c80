#include "head/shell/audit_log.h"

#include <utility>

#include "head/shell/core_runner.h"

namespace volador::head {

void record_later(CoreRunner& runner, AuditModule& audit, const Clock& clock, AuditRequest asked,
                  const Result<void>& outcome) {
  runner.change(
      [&audit, &clock, asked = std::move(asked), outcome](HeadCore& core, BootTime now) {
        return core.act(now, [&] {
          audit.record(clock.wall().time_since_epoch().count(), asked, outcome);
          return Result<void>();
        });
      },
      [](const Result<void>&) {});
}

}  // namespace volador::head
