#include "cli/commands/dashboard_command.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "runtime/control/cluster_api.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::cli {

CLI::App* DashboardCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("dashboard", "Print a one-time link to the dashboard, valid for 15 minutes");
  app->footer(
      "Examples:\n  volador dashboard\n  xdg-open \"$(volador dashboard)\"\n"
      "  ssh -L 8080:127.0.0.1:PORT head-machine     then open the link with localhost:8080 in place of its address");
  declare_connection(*app);
  return app;
}

Outcome DashboardCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  auto reply = (*api)->call<v1::LoginLinkReply>("Cluster/LoginLink", v1::LoginLinkRequest());
  if (!reply) return fail(reply.error());
  const nlohmann::ordered_json json{{"api_version", "v1"}, {"url", reply->url()}};
  context.terminal.print(wants_json() ? json.dump(2) + "\n" : reply->url() + "\n");
  return {};
}

}  // namespace volador::cli
