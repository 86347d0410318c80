#include "runtime/actor/health_watch.h"

#include <fmt/format.h>

namespace volador {
namespace {

std::string in_words(std::chrono::nanoseconds span) {
  return fmt::format("{:.4g} s", std::chrono::duration<double>(span).count());
}

}  // namespace

std::optional<BootTime> HealthWatch::next() const {
  switch (phase_) {
    case Phase::kResting:
      return since_ + options_.period;
    case Phase::kWaiting:
      if (options_.turn_timeout.count() > 0) return since_ + options_.turn_timeout;
      return std::nullopt;
    case Phase::kRunning:
      return since_ + options_.timeout;
    case Phase::kOver:
      return std::nullopt;
  }
  return std::nullopt;
}

HealthWatch::Step HealthWatch::end(std::string why) {
  phase_ = Phase::kOver;
  return {.run = false, .unhealthy = fmt::format("health check {} {}", options_.method, why)};
}

HealthWatch::Step HealthWatch::on_time(BootTime now, bool parked) {
  const auto due = next();
  if (!due || now < *due) return {};
  if (phase_ == Phase::kResting) {
    phase_ = Phase::kWaiting;
    since_ = now;
    return {.run = true, .unhealthy = {}};
  }
  if (parked || now - *due > kOwnPause) {
    since_ = now;
    return {};
  }
  if (phase_ == Phase::kWaiting)
    return end(fmt::format("got no turn within {} behind other calls", in_words(options_.turn_timeout)));
  return end(fmt::format("did not return within {}", in_words(options_.timeout)));
}

void HealthWatch::on_started(BootTime now) {
  if (phase_ != Phase::kWaiting) return;
  phase_ = Phase::kRunning;
  since_ = now;
}

HealthWatch::Step HealthWatch::on_ended(BootTime now, const Result<void>& how) {
  if (phase_ != Phase::kRunning) return {};
  if (how) {
    failed_ = 0;
  } else if (++failed_ >= options_.failures) {
    return end(failed_ == 1 ? how.error().message : fmt::format("{}, {} times in a row", how.error().message, failed_));
  }
  phase_ = Phase::kResting;
  since_ = now;
  return {};
}

}  // namespace volador
