// Runs the health check of one actor: starts it when due and reports when the actor must end. Include from .cc files
// only: it brings protobuf.
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

// Confined to the I/O thread; pending operations keep it alive.
class HealthChecks final : public std::enable_shared_from_this<HealthChecks> {
 public:
  struct Parts {
    net::IoLoop* io = nullptr;  // The pointers outlive this object.
    const Clock* clock = nullptr;
    const HostLease* lease = nullptr;
    // Queues the check on the actor.
    std::function<void(CallRunner::Check)> run;
    // The actor must end, for this reason. Called once, on the I/O thread.
    std::function<void(const std::string& why)> unhealthy;
  };
  // Starts now; any thread. Null if the actor has no health check.
  static std::shared_ptr<HealthChecks> start(const protocol::ActorSpec& spec, const ActorClass& actor_class,
                                             Parts parts);
  HealthChecks(const protocol::HealthCheck& check, HealthWatch::Options options, Parts parts);

  // Starts no further check and ends the actor no more. Any thread.
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
