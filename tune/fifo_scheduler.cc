#include "tune/fifo_scheduler.h"

#include <fmt/format.h>

namespace volador::tune {

Result<Decision> FifoScheduler::on_report(const Report& report) {
  if (report.step < 1)
    return make_error(ErrorCode::kInvalidArgument, fmt::format("report of trial {}: step is {}, expected at least 1",
                                                               to_string(report.trial), report.step));
  return Decision::kContinue;
}

SchedulerFactory fifo() {
  return
      [](const SchedulerContext&) -> Result<std::unique_ptr<Scheduler>> { return std::make_unique<FifoScheduler>(); };
}

}  // namespace volador::tune
