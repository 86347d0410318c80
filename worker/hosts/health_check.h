// Runs the operator's check program every now and then.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>

#include "runtime/job_thread.h"
#include "runtime/net/io_loop.h"
#include "worker/hosts/children.h"
#include "worker/hosts/spawn.h"
#include "worker/resources/health_rules.h"

namespace volador::worker {

struct HealthCheckOptions {
  std::filesystem::path program;               // Absolute; empty: none.
  std::chrono::milliseconds interval{30'000};  // Between two starts.
  std::chrono::milliseconds timeout{10'000};
  Environment env = {};
};

// The program and its runs, one at a time. A run that takes longer than the timeout is killed with its process group;
// what has left the group is an orphan, which Children ends. Loop thread only.
class HealthCheck {
 public:
  // `children` outlives this object. `on_result` runs on the loop after each run, and at the timeout of a run.
  HealthCheck(net::IoLoop& loop, Children& children, HealthCheckOptions options,
              std::function<void(const CheckResult&)> on_result);
  // A program that runs is left to Children::kill_all; one that is being started is ended.
  ~HealthCheck();
  HealthCheck(const HealthCheck&) = delete;
  HealthCheck& operator=(const HealthCheck&) = delete;

  // Starts the first run.
  void start();

 private:
  struct Run;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace volador::worker
