#include "cli/commands/start_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/connection.h"
#include "cli/local_processes.h"
#include "cli/port_owner.h"
#include "cli/process_title.h"
#include "cli/render/cluster_view.h"
#include "head/shell/cluster_identity.h"
#include "runtime/access_file.h"
#include "runtime/cluster_processes.h"
#include "runtime/control/cluster_api.h"
#include "runtime/net/loopback.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/quantities.h"
#include "runtime/random.h"
#include "runtime/security/handshake.h"
#include "runtime/security/token.h"
#include "runtime/version.h"

namespace volador::cli {

namespace {

constexpr std::chrono::milliseconds kReadyTimeout{30'000};
constexpr std::chrono::milliseconds kStopPatience{5'000};
constexpr size_t kStrayOutputBytesMax = 1 << 20;

// The port of "host:port"; 0 if there is none.
uint16_t port_of(const std::string& address) {
  const size_t colon = address.rfind(':');
  auto port = parse_integer(colon == std::string::npos ? "" : address.substr(colon + 1));
  return port && *port > 0 && *port <= 65535 ? static_cast<uint16_t>(*port) : uint16_t{0};
}

// Output of daemons outside their own logs; rare, so the file is truncated when it grows long.
std::filesystem::path stray_output(const Paths& paths) {
  const std::filesystem::path file = paths.home() / "stray-output.log";
  std::error_code error;
  if (const auto size = std::filesystem::file_size(file, error); !error && size > kStrayOutputBytesMax)
    std::filesystem::remove(file, error);
  return file;
}

// The cluster of the worker with this pid: a worker registers in a file in its cluster's folder.
std::string cluster_of_worker(const Paths& paths, pid_t pid) {
  for (const std::string& cluster : local_clusters(paths))
    for (const LocalProcess& process : running_processes(paths, cluster))
      if (process.record.pid == pid) return cluster;
  return "";
}

}  // namespace

CLI::App* StartCommand::declare(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("start", "Start a cluster on this machine (--head), or join one (--address and --token)");
  app->footer(
      "Examples:\n"
      "  volador start --head                          a cluster for programs of this machine\n"
      "  volador start --head --bind=auto              one that other machines can join\n"
      "  volador start --address=10.0.0.1:6380 --token-file=token\n"
      "  VOLADOR_TOKEN=vt1.… volador start --address=10.0.0.1:6380 --num-gpus=2 --labels=zone=a\n"
      "  volador start --head --block                  stay in the foreground, as services and containers want it");
  app->add_flag("--head", head_, "Start the head of a new cluster and a worker on this machine");
  app->add_flag("--block", block_, "Stay in the foreground; Ctrl-C stops what was started");
  app->add_flag("-q,--quiet", quiet_, "Print nothing unless something fails");
  app->add_flag("--force-store", force_store_,
                "With --head: use a journal store that may lose data, or that has less than the local folder; what it "
                "lacks is lost");
  app->add_flag("--no-dashboard", no_dashboard_, "With --head: do not serve the dashboard and the HTTP API");
  declare_json(*app);
  settings_.declare(*app, {"address",
                           "token",
                           "token_file",
                           "cluster",
                           "name",
                           "bind",
                           "port",
                           "dashboard_port",
                           "public_url",
                           "tls_cert",
                           "tls_key",
                           "alert_url",
                           "alert_secret_file",
                           "oidc.issuer",
                           "oidc.client_id",
                           "oidc.client_secret_file",
                           "oidc.label",
                           "oidc.scopes",
                           "oidc.name_claim",
                           "oidc.full_name_claim",
                           "oidc.mail_claim",
                           "oidc.groups_claim",
                           "oidc.role",
                           "oidc.create_users",
                           "oidc.link_users",
                           "oidc.device_grant",
                           "oidc.allowed_domains",
                           "oidc.allowed_groups",
                           "experiments.checkpoint_storage",
                           "katib.suggestions",
                           "katib.early_stopping",
                           "num_cpus",
                           "num_gpus",
                           "memory",
                           "object_store_memory",
                           "object_spill_limit",
                           "object_spill_directory",
                           "memory_threshold",
                           "cgroups",
                           "processes_per_actor",
                           "health_check",
                           "health_check_interval",
                           "health_check_timeout",
                           "resources",
                           "labels",
                           "store",
                           "durability",
                           "heartbeat",
                           "lease",
                           "reconnect_window",
                           "log.level"});
  return app;
}

Outcome StartCommand::run(const Context& context) {
  begin_ = std::chrono::steady_clock::now();
  auto config = settings_.resolve(context.paths);
  if (!config) return tl::unexpected(config.error());
  for (const std::string& warning : config->warnings()) context.terminal.note("warning: " + warning);
  if (head_ && config->is_set("address") && config->source("address") == SettingSource::kFlag)
    return usage_error("start: --head starts a cluster and --address joins one; give one of them");
  if (!head_ && !config->is_set("address"))
    return usage_error("start: say --head to start a cluster here, or --address and --token to join one");
  if (no_dashboard_ && !head_) return usage_error("start: --no-dashboard goes with --head");
  if (no_dashboard_ && config->is_set("alert_url"))
    return usage_error(
        "start: alert_url needs the dashboard, which sends alerts; leave out --no-dashboard or alert_url");
  if (force_store_ && !head_) return usage_error("start: --force-store goes with --head");
  if (auto made = make_private_directory(context.paths.home()); !made) return fail_here(made.error());
  // Daemons inherit the environment, but must not get the token.
  ::unsetenv("VOLADOR_TOKEN");
  return head_ ? start_head(context, *config) : start_node(context, *config);
}

tl::expected<HeadSettings, Failure> StartCommand::plan_head(const Context& context, const Config& config) const {
  auto settings = head_settings(config);
  if (!settings) return settings;
  settings->force_store = force_store_;
  settings->dashboard = !no_dashboard_;
  auto has_head = [&](const std::string& name) {
    return std::filesystem::exists(context.paths.cluster(name).head().cluster_json());
  };
  if (config.is_set("cluster")) {
    settings->cluster = config.text("cluster");
    if (auto good = check_name("cluster", settings->cluster); !good) return usage_error(good.error().message);
  } else if (auto current = load_current_cluster(context.paths); current && has_head(*current)) {
    settings->cluster = *current;  // A head that was killed or stopped keeps its identity.
  } else {
    SystemRandom random;
    settings->cluster = head::pick_cluster_name(context.paths, random);
  }

  for (const LocalProcess& process : running_processes(context.paths, settings->cluster)) {
    if (process.role != LocalProcess::Role::kHead) continue;
    auto access = load_access(context.paths, settings->cluster);
    return fail_here({ErrorCode::kUnavailable,
                      fmt::format("cluster {} runs already: {}{}; stop it with `volador stop`, or start another beside "
                                  "it with --cluster=NAME --port=0",
                                  settings->cluster, describe(process), access ? " at " + access->address : "")});
  }

  // A restarted head keeps its address unless another one is given.
  if (auto access = load_access(context.paths, settings->cluster); access && has_head(settings->cluster)) {
    if (config.source("port") == SettingSource::kDefault) settings->port = port_of(access->address);
    if (config.source("bind") == SettingSource::kDefault)
      settings->bind = access->address.substr(0, access->address.rfind(':'));
  }
  if (settings->bind == "auto") {
    auto address = network_address();
    if (!address) return fail_here(address.error());
    settings->bind = *address;
  }
  if (auto free = check_port_free(settings->bind, settings->port); !free)
    return fail(free.error().code == ErrorCode::kInvalidArgument ? ExitCode::kUsage : ExitCode::kFailed, free.error());
  return settings;
}

tl::expected<void, Failure> StartCommand::bring_up_head(const Context& context, const HeadSettings& settings,
                                                        Started& started) const {
  const DaemonOptions options{
      .name = "head", .ready_timeout = kReadyTimeout, .stray_output = stray_output(context.paths)};
  auto daemon = start_daemon(options, [&](Starter& starter) {
    context.title.set("volador head " + settings.cluster);
    return live_as_head(context.paths, settings, [&](const HeadReady& head) {
      starter.ready(nlohmann::json{{"address", head.address},
                                   {"join", head.join_token},
                                   {"driver", head.driver_token},
                                   {"login", head.login_link}}
                        .dump());
    });
  });
  if (!daemon) return tl::unexpected(failure_of_head(daemon.error().error));
  const auto report = nlohmann::json::parse(daemon->report);
  started.head = HeadReady{.address = report.at("address"),
                           .login_link = report.at("login"),
                           .join_token = report.at("join"),
                           .driver_token = report.at("driver")};
  started.children.push_back(daemon->pid);
  return {};
}

tl::expected<void, Failure> StartCommand::bring_up_worker(const Context& context, const WorkerSettings& settings,
                                                          Started& started) const {
  const DaemonOptions options{.name = "worker",
                              .ready_timeout = kReadyTimeout,
                              .stray_output = stray_output(context.paths),
                              .on_note = [&](const std::string& text) { context.terminal.note(text); }};
  auto daemon = start_daemon(options, [&](Starter& starter) {
    context.title.set("volador worker " + (settings.cluster.empty() ? settings.head_address : settings.cluster));
    return live_as_worker(
        context.paths, settings,
        [&](const WorkerReady& worker) {
          starter.ready(nlohmann::json{{"node", worker.node}, {"address", worker.data_address}}.dump());
        },
        [&](const std::string& text) { starter.note(text); });
  });
  if (!daemon) return tl::unexpected(failure_of_worker(daemon.error().exit_code, daemon.error().error));
  const auto report = nlohmann::json::parse(daemon->report);
  started.worker_node = report.at("node");
  started.worker_address = report.at("address");
  started.children.push_back(daemon->pid);
  return {};
}

// Removes leftovers of killed workers with other names; a worker with the same name removes its own.
void StartCommand::tidy_up(const Context& context, const std::string& cluster) {
  auto left = remove_leftovers(context.paths, cluster);
  if (!left) return context.terminal.note("warning: " + left.error().message);
  for (const Leftover& entry : *left)
    if (entry.processes_ended > 0) context.terminal.note("removed " + describe(entry));
}

Outcome StartCommand::start_head(const Context& context, const Config& config) {
  auto plan = plan_head(context, config);
  if (!plan) return tl::unexpected(plan.error());
  auto worker = worker_settings(config);
  if (!worker) return tl::unexpected(worker.error());

  Started started{.cluster = plan->cluster, .bind = plan->bind};
  tidy_up(context, plan->cluster);
  // Workers that outlived their head connect to the new one.
  const bool worker_runs = !running_processes(context.paths, plan->cluster).empty();
  if (auto up = bring_up_head(context, *plan, started); !up) return up;
  if (auto saved = save_current_cluster(context.paths, plan->cluster); !saved)
    context.terminal.note("warning: " + saved.error().message);
  if (!worker_runs) {
    worker->cluster = plan->cluster;
    worker->head_address = started.head->address;
    worker->token = started.head->join_token;
    worker->bind = plan->bind;
    if (auto up = bring_up_worker(context, *worker, started); !up) {
      stop_processes(running_processes(context.paths, plan->cluster), kStopPatience);
      return up;
    }
  }
  return finish(context, started);
}

Outcome StartCommand::start_node(const Context& context, const Config& config) {
  auto settings = worker_settings(config);
  if (!settings) return tl::unexpected(settings.error());
  auto token = token_of(config);
  if (!token) return tl::unexpected(token.error());
  if (!token->empty()) {
    if (auto parsed = security::parse_token(*token); !parsed) return fail(ExitCode::kAccess, parsed.error());
  }
  settings->token = *token;
  settings->head_address = config.text("address");
  if (settings->head_address.find(':') == std::string::npos)
    settings->head_address += fmt::format(":{}", config.integer("port"));
  if (config.source("bind") == SettingSource::kDefault) {
    // Other machines call this machine's actors, unless the head serves only its own machine.
    const auto head = security::parse_host_port(settings->head_address);
    settings->bind = head && net::is_loopback(head->host) ? "127.0.0.1" : "auto";
  }
  if (settings->bind == "auto") {
    auto address = network_address();
    if (!address) return fail_here(address.error());
    settings->bind = *address;
  }

  Started started{.bind = settings->bind};
  if (auto up = bring_up_worker(context, *settings, started); !up) return up;
  started.cluster = cluster_of_worker(context.paths, started.children.back());
  if (!started.cluster.empty()) {
    tidy_up(context, started.cluster);
    if (auto saved = save_current_cluster(context.paths, started.cluster); !saved)
      context.terminal.note("warning: " + saved.error().message);
  }
  return finish(context, started);
}

std::optional<v1::Node> StartCommand::node_as_the_head_sees_it(const Context& context, const Started& started) {
  auto access = load_access(context.paths, started.cluster);
  if (!access) return std::nullopt;
  auto api = connect({.address = access->address, .token = access->token}, context.paths, std::chrono::seconds(2));
  if (!api) return std::nullopt;
  auto nodes = (*api)->call<v1::ListNodesReply>("Cluster/ListNodes", v1::ListRequest());
  if (!nodes) return std::nullopt;
  for (const v1::Node& node : nodes->nodes())
    if (node.name() == started.worker_node) return node;
  return std::nullopt;
}

Outcome StartCommand::finish(const Context& context, const Started& started) const {
  if (wants_json()) {
    context.terminal.print(report_json(started));
  } else if (!quiet_) {
    const auto ready = std::chrono::steady_clock::now() - begin_;
    const std::optional<v1::Node> node =
        started.head && !started.worker_node.empty() ? node_as_the_head_sees_it(context, started) : std::nullopt;
    context.terminal.print(
        fmt::format("volador {} · {} · ready in {}\n", kVersion,
                    started.cluster.empty() ? "node " + started.worker_node : "cluster " + started.cluster,
                    format_duration(ready)));
    context.terminal.print(report_text(started, node ? &*node : nullptr));
  }
  return block_ ? stay(context, started) : Outcome();
}

std::string StartCommand::report_text(const Started& started, const v1::Node* node) const {
  if (!started.head)
    return fmt::format("  this node   {} · {}\n  stop        volador stop\n", started.worker_node,
                       started.worker_address);

  const HeadReady& head = *started.head;
  std::string text;
  if (started.worker_node.empty()) {
    text += fmt::format("  this node   {} · its workers ran on and take up with the head again\n", head.address);
  } else {
    text += fmt::format("  this node   {}{}\n", head.address, node == nullptr ? "" : " · " + capacity_text(*node));
  }
  if (net::is_loopback(started.bind)) {
    text += "  serves      this machine only; start it with --bind=auto to let other machines join\n";
    text += "  connect     nothing to set: programs of this machine find it by themselves\n";
  } else {
    const std::string join = fmt::format("volador start --address={} --token={}", head.address, head.join_token);
    const std::string connect =
        fmt::format("export VOLADOR_ADDRESS={} VOLADOR_TOKEN={}", head.address, head.driver_token);
    const size_t width = std::max(join.size(), connect.size()) + 2;
    text += fmt::format("  join        {:<{}}(on the other machines)\n", join, width);
    text += fmt::format("  connect     {:<{}}(programs elsewhere; here nothing is needed)\n", connect, width);
  }
  if (!head.login_link.empty()) text += fmt::format("  dashboard   {}\n", head.login_link);
  text += "  stop        volador stop\n";
  return text;
}

std::string StartCommand::report_json(const Started& started) const {
  nlohmann::ordered_json json{
      {"api_version", "v1"},
      {"version", kVersion},
      {"cluster", started.cluster},
      {"ready_s", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count()}};
  if (started.head) {
    json["address"] = started.head->address;
    json["join_token"] = started.head->join_token;
    json["driver_token"] = started.head->driver_token;
    if (!started.head->login_link.empty()) json["dashboard"] = started.head->login_link;
  }
  if (!started.worker_node.empty()) {
    json["node"] = started.worker_node;
    json["data_address"] = started.worker_address;
  }
  json["pids"] = started.children;
  return json.dump(2) + "\n";
}

Outcome StartCommand::stay(const Context& context, const Started& started) const {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  // A daemon may have ended before SIGCHLD was blocked.
  int status = 0;
  pid_t ended = ::waitpid(-1, &status, WNOHANG);
  bool asked = false;
  while (ended <= 0 && !asked) {
    const int signal = ::sigwaitinfo(&signals, nullptr);
    asked = signal > 0 && signal != SIGCHLD;
    ended = ::waitpid(-1, &status, WNOHANG);
  }
  std::vector<LocalProcess> ours;
  for (const std::string& cluster : local_clusters(context.paths))
    for (const LocalProcess& process : running_processes(context.paths, cluster))
      if (std::find(started.children.begin(), started.children.end(), process.record.pid) != started.children.end())
        ours.push_back(process);
  stop_processes(ours, kStopPatience);
  // A daemon that exited normally was stopped by `volador stop`.
  if (asked || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return {};
  return fail_here(
      {ErrorCode::kUnavailable,
       fmt::format("process {} of cluster {} ended by itself, and the rest was stopped; its log is below {}", ended,
                   started.cluster, context.paths.cluster(started.cluster).directory.native())});
}

}  // namespace volador::cli
