#include "tune/schedulers/fifo_scheduler.h"

#include <fmt/format.h>

#include "tune/snapshot.h"

namespace volador::tune {

Result<Decision> FifoScheduler::on_report(const Report& report) {
  if (report.step < 1)
    return make_error(ErrorCode::kInvalidArgument, fmt::format("report of trial {}: step is {}, expected at least 1",
                                                               to_string(report.trial), report.step));
  return Decision::kContinue;
}

Result<void> FifoScheduler::restore(std::string_view snapshot) {
  return read_snapshot(describe(), snapshot, [](const Config&) { return Result<void>(); });
}

SchedulerFactory fifo() {
  return
      [](const SchedulerContext&) -> Result<std::unique_ptr<Scheduler>> { return std::make_unique<FifoScheduler>(); };
}

}  // namespace volador::tune
