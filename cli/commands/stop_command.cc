#include "cli/commands/stop_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/local_processes.h"
#include "runtime/access_file.h"
#include "runtime/cluster_processes.h"
#include "runtime/quantities.h"

namespace volador::cli {

CLI::App* StopCommand::declare(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("stop", "Stop a cluster on this machine: its workers with their actors, and its head");
  app->footer(
      "Examples:\n  volador stop                   the cluster started last\n  volador stop --cluster=heron\n  volador "
      "stop --all\n  volador stop --for-restart     its head only; `volador start --head` brings it back");
  declare_json(*app);
  declare_yes(*app);
  app->add_flag("--all", all_, "Stop every cluster of this user on this machine");
  app->add_flag(
      "--for-restart", for_restart_,
      "Stop the head only: workers keep their actors, and programs wait until the head is back, for up to 10 minutes");
  app->add_option("--patience", patience_,
                  "How long to wait before processes that do not end are killed; 10s by default")
      ->type_name("DURATION");
  settings_.declare(*app, {"cluster"});
  return app;
}

namespace {

const char* role_name(LocalProcess::Role role) { return role == LocalProcess::Role::kHead ? "head" : "worker"; }

}  // namespace

tl::expected<std::vector<std::string>, Failure> StopCommand::clusters(const Context& context) const {
  auto config = settings_.resolve(context.paths);
  if (!config) return tl::unexpected(config.error());
  if (all_) return local_clusters(context.paths);
  if (config->is_set("cluster")) {
    const std::string& name = config->text("cluster");
    if (auto good = check_name("cluster", name); !good) return usage_error(good.error().message);
    return std::vector<std::string>{name};
  }
  auto current = load_current_cluster(context.paths);
  if (current) return std::vector<std::string>{*current};
  return std::vector<std::string>{};
}

Outcome StopCommand::run(const Context& context) {
  const auto begin = std::chrono::steady_clock::now();
  auto patience = parse_duration(patience_);
  if (!patience) return usage_error(fmt::format("--patience: {}", patience.error().message));
  auto names = clusters(context);
  if (!names) return tl::unexpected(names.error());

  std::string asked;
  for (const std::string& name : *names) {
    for (const LocalProcess& process : running_processes(context.paths, name)) {
      if (for_restart_ && process.role != LocalProcess::Role::kHead) continue;
      asked += fmt::format("{}{}", asked.empty() ? "" : ", ", describe(process));
    }
  }
  if (!asked.empty()) {
    const std::string question =
        names->size() == 1 ? context.terminal.fill("Stop cluster {} on this machine ({})?", names->front(), asked)
                           : context.terminal.fill("Stop {} clusters on this machine ({})?", names->size(), asked);
    if (auto agreed = confirm(context, question); !agreed) return agreed;
  }
  auto json = nlohmann::ordered_json{{"api_version", "v1"},
                                     {"stopped", nlohmann::ordered_json::array()},
                                     {"left_over", nlohmann::ordered_json::array()}};
  std::string text;
  Outcome outcome;
  for (const std::string& name : *names) {
    const auto running = running_processes(context.paths, name);
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(*patience);
    const auto stopped = for_restart_ ? stop_for_restart(running, wait) : stop_processes(running, wait);
    std::string what;
    for (const Stopped& entry : stopped) {
      what += fmt::format("{}{}{}", what.empty() ? "" : ", ", describe(entry.process),
                          entry.killed ? " – killed, it did not end by itself" : "");
      json["stopped"].push_back({{"cluster", name},
                                 {"role", role_name(entry.process.role)},
                                 {"node", entry.process.node},
                                 {"pid", entry.process.record.pid},
                                 {"killed", entry.killed}});
    }
    if (!what.empty())
      text += fmt::format("stopped of cluster {}: {} · {}\n", name, what,
                          format_duration(std::chrono::steady_clock::now() - begin));
    auto left = remove_leftovers(context.paths, name);
    if (!left) outcome = fail_here(left.error());
    for (const Leftover& entry : left.value_or(std::vector<Leftover>())) {
      // Processes that had to be killed just now are in the list above.
      if (std::any_of(stopped.begin(), stopped.end(),
                      [&](const Stopped& other) { return other.process.record.pid == entry.pid; }))
        continue;
      text += fmt::format("removed of cluster {}: {}\n", name, describe(entry));
      json["left_over"].push_back({{"cluster", name},
                                   {"role", role_name(entry.role)},
                                   {"node", entry.node},
                                   {"pid", entry.pid},
                                   {"processes_ended", entry.processes_ended}});
    }
  }
  if (for_restart_ && outcome) {
    text = text.empty() ? "no head runs on this machine; nothing was stopped\n"
                        : text + "workers and programs wait for it: volador start --head\n";
  }
  if (text.empty() && outcome) {
    text = names->size() == 1 ? fmt::format("nothing of cluster {} runs on this machine\n", names->front())
                              : std::string("no cluster runs on this machine\n");
  }
  context.terminal.print(wants_json() ? json.dump(2) + "\n" : text);
  return outcome;
}

}  // namespace volador::cli
