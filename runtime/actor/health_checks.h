// Looks after the health of one actor: starts its check when it is due, and says when it is to end. Include from .cc
// files only: it brings protobuf.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "runtime/actor/call_runner.h"
#include "runtime/actor/health_watch.h"
#include "runtime/actor/host_lease.h"
#include "runtime/clock.h"
#include "runtime/net/io_loop.h"

namespace volador {

// Its state belongs to the I/O thread; kept by what is under way.
class HealthChecks final : public std::enable_shared_from_this<HealthChecks> {
 public:
  struct Parts {
    net::IoLoop* io = nullptr;  // These outlive it.
    const Clock* clock = nullptr;
    const HostLease* lease = nullptr;
    // Gives the check its turn.
    std::function<void(CallRunner::Check)> run;
    // The actor is to end, of this. I/O thread, once.
    std::function<void(const std::string& why)> unhealthy;
  };
  // None where the actor asked for none. From now on; any thread.
  static std::shared_ptr<HealthChecks> start(const protocol::ActorSpec& spec, const ActorClass& actor_class,
                                             Parts parts);
  HealthChecks(const protocol::HealthCheck& check, HealthWatch::Options options, Parts parts);

  // No check begins any more, and none ends the actor. Any thread.
  void stop() { stopped_ = true; }

 private:
  void arm();
  void take(HealthWatch::Step step);

  const uint64_t method_;
  const bool tells_;
  const Parts parts_;
  std::atomic<bool> stopped_{false};
  HealthWatch watch_;
  net::IoLoop::TimerId timer_ = 0;
};

}  // namespace volador
