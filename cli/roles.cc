#include "cli/roles.h"

#include <signal.h>

#include <cstdio>
#include <utility>

#include "head/shell/head_process.h"
#include "runtime/log.h"
#include "runtime/random.h"
#include "runtime/stop_signal.h"
#include "volador/program.h"
#include "volador/roles/head_role.h"
#include "worker/shell/worker_process.h"

namespace volador::cli {

namespace {

log::Level level_of(const std::string& name) {
  if (name == "debug") return log::Level::kDebug;
  if (name == "warn") return log::Level::kWarn;
  if (name == "error") return log::Level::kError;
  return log::Level::kInfo;
}

// Starts `volador job-host`, which runs the ranks of jobs.
Result<protocol::Program> job_program() {
  auto described = describe_program(nullptr);
  if (!described) return make_error(described.error());
  protocol::Program& program = described->description;
  program.clear_argv();
  program.add_argv(program.path());
  program.add_argv("job-host");
  program.set_cwd("/");
  return std::move(program);
}

}  // namespace

int live_as_head(const Paths& paths, const HeadSettings& settings, const std::function<void(const HeadReady&)>& ready) {
  const auto asked = StopSignal::create({SIGTERM, SIGINT, kStopForRestart});
  const HeadPaths files = paths.cluster(settings.cluster).head();
  auto run = [&]() -> Result<void> {
    if (!asked) return make_error(asked.error());
    VOLADOR_TRY(make_private_directory(files.directory));
    log::configure({.level = level_of(settings.log_level), .file = files.log().native()});
    head::HeadOptions options{
        .paths = paths, .cluster = settings.cluster, .bind = settings.bind, .port = settings.port};
    if (settings.store != "sqlite") options.store = settings.store;
    options.force_store = settings.force_store;
    options.sign_on = settings.sign_on;
    if (settings.survive_power_cut) options.durability = head::Durability::kPower;
    options.times.heartbeat = settings.heartbeat;
    options.times.lease = settings.lease;
    options.times.reconnect_window = settings.reconnect_window;
    std::optional<DashboardPlace> dashboard;
    if (settings.dashboard)
      dashboard = {.port = settings.dashboard_port,
                   .public_url = settings.public_url,
                   .certificate = settings.certificate,
                   .alerts = settings.alerts,
                   .alert_secret = settings.alert_secret};
    const SystemClock clock;
    SystemRandom random;
    auto role = HeadRole::start(std::move(options), dashboard, clock, random, job_program,
                                {.checkpoint_storage = settings.checkpoint_storage,
                                 .katib_suggestions = settings.katib_suggestions,
                                 .katib_early_stopping = settings.katib_early_stopping});
    if (!role) return make_error(role.error());
    const head::HeadReady& head = (*role)->head().ready();
    ready({.address = head.address,
           .login_link = (*role)->login_link().value_or(""),
           .join_token = head.join_token,
           .driver_token = head.driver_token});
    (*role)->head().wait({asked->fd()});
    const StopSignal::Asked stop = asked->take();
    if (stop.signal == kStopForRestart) {
      log::info("head", "stops; programs and workers wait for its return", {{"by", stop.by}});
    } else {
      (*role)->head().say_stopped(stop.by);
    }
    (*role)->stop();
    if (auto failure = (*role)->head().failure()) return make_error(*failure);
    log::info("head", "stopped");
    return {};
  };
  if (auto result = run(); !result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    log::error("head", "ended", {{"error", to_string(result.error())}});
    return static_cast<int>(ExitCode::kFailed);
  }
  return 0;
}

int live_as_worker(const Paths& paths, const WorkerSettings& settings,
                   const std::function<void(const WorkerReady&)>& ready,
                   const std::function<void(const std::string&)>& waiting) {
  worker::WorkerOptions options{.paths = paths,
                                .cluster_name = settings.cluster,
                                .node_name = settings.node,
                                .head_address = settings.head_address,
                                .token = settings.token,
                                .bind_address = settings.bind,
                                .resources = {.cpus = settings.cpus,
                                              .gpus = settings.gpus,
                                              .memory = settings.memory,
                                              .object_store_memory = settings.object_store_memory,
                                              .object_spill_limit = settings.object_spill_limit,
                                              .object_spill_directory = settings.object_spill_directory,
                                              .custom = settings.custom},
                                .labels = settings.labels,
                                .memory_threshold = settings.memory_threshold,
                                .cgroups = settings.cgroups,
                                .processes_per_actor = settings.processes_per_actor,
                                .health_check = settings.health_check,
                                .health_check_interval = settings.health_check_interval,
                                .health_check_timeout = settings.health_check_timeout,
                                .log_level = level_of(settings.log_level)};
  options.on_ready = [&](const std::string& node, const std::string& address) {
    ready({.node = node, .data_address = address});
  };
  options.on_waiting = waiting;
  return static_cast<int>(worker::run_worker(std::move(options)));
}

Failure failure_of_head(Error error) { return {ExitCode::kFailed, std::move(error)}; }

Failure failure_of_worker(int code, Error error) {
  const auto of = [&](ErrorCode known) -> Failure { return {exit_code_of(known), {known, std::move(error).message}}; };
  switch (static_cast<worker::WorkerExit>(code)) {
    case worker::WorkerExit::kBadOptions:
      return of(ErrorCode::kInvalidArgument);
    case worker::WorkerExit::kUnreachable:
      return of(ErrorCode::kUnavailable);
    case worker::WorkerExit::kRefused:
      return of(ErrorCode::kUnauthenticated);
    case worker::WorkerExit::kForbidden:
      return of(ErrorCode::kPermissionDenied);
    case worker::WorkerExit::kStopped:
    case worker::WorkerExit::kFailed:
      return {ExitCode::kFailed, std::move(error)};
  }
  return {ExitCode::kFailed, std::move(error)};
}

}  // namespace volador::cli
