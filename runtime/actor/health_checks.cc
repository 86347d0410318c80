#include "runtime/actor/health_checks.h"

#include <utility>

namespace volador {

using std::chrono::milliseconds;

std::shared_ptr<HealthChecks> HealthChecks::start(const protocol::ActorSpec& spec, const ActorClass& actor_class,
                                                  Parts parts) {
  if (!spec.has_health_check()) return nullptr;
  const protocol::HealthCheck& check = spec.health_check();
  const auto method = actor_class.methods.find(check.method());
  HealthWatch::Options options{.method = method == actor_class.methods.end() ? "" : method->second.name,
                               .period = milliseconds(check.period_ms()),
                               .timeout = milliseconds(check.timeout_ms()),
                               .turn_timeout = milliseconds(check.turn_timeout_ms()),
                               .failures = check.failures()};
  auto made = std::make_shared<HealthChecks>(check, std::move(options), std::move(parts));
  made->parts_.io->post([made] { made->arm(); });
  return made;
}

HealthChecks::HealthChecks(const protocol::HealthCheck& check, HealthWatch::Options options, Parts parts)
    : method_(check.method()),
      tells_(check.tells()),
      parts_(std::move(parts)),
      watch_(std::move(options), parts_.clock->now()) {}

void HealthChecks::arm() {
  if (timer_ != 0) parts_.io->cancel_timer(std::exchange(timer_, 0));
  const auto next = watch_.next();
  if (!next || stopped_) return;
  timer_ = parts_.io->add_timer(*next, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->stopped_) return;
    self->timer_ = 0;
    self->take(self->watch_.on_time(self->parts_.clock->now(), !self->parts_.lease->valid()));
  });
}

void HealthChecks::take(HealthWatch::Step step) {
  if (stopped_) return;
  if (step.unhealthy) {
    stopped_ = true;
    return parts_.unhealthy(*step.unhealthy);
  }
  if (step.run) {
    CallRunner::Check check;
    check.method = method_;
    check.tells = tells_;
    check.started = [self = shared_from_this()] {
      self->parts_.io->post([self, at = self->parts_.clock->now()] {
        self->watch_.on_started(at);
        self->arm();
      });
    };
    check.ended = [self = shared_from_this()](Result<void> how) {
      self->parts_.io->post(
          [self, at = self->parts_.clock->now(), how = std::move(how)] { self->take(self->watch_.on_ended(at, how)); });
    };
    parts_.run(std::move(check));
  }
  arm();
}

}  // namespace volador
