#include "cli/commands/katib_command.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cerrno>

#include "runtime/language/language.h"
#include "runtime/net/loopback.h"
#include "runtime/stop_signal.h"
#include "volador/roles/katib_suggestion_server.h"

namespace volador::cli {

KatibCommand::KatibCommand() { add(std::make_unique<KatibServeCommand>()); }

CLI::App* KatibCommand::declare(CLI::App& root) {
  CLI::App* app = declare_group(root, "katib", "Serve the search algorithms to clients of Katib's gRPC API");
  app->footer(
      "Examples:\n  volador katib serve-suggestions --port=6789\ndocs/guides/katib-algorithms.md describes the "
      "algorithms.");
  return app;
}

CLI::App* KatibServeCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "serve-suggestions", "Serve the algorithms as Katib's services Suggestion and EarlyStopping until it is stopped");
  app->footer("Examples:\n  volador katib serve-suggestions\n  volador katib serve-suggestions --port=0");
  app->add_option("--port", port_, "Port to listen on; 0: any free one; 6789 by default")->type_name("PORT");
  app->add_option("--address", address_,
                  "Address of this machine to listen on; 127.0.0.1 by default. There is neither TLS nor a token: "
                  "everyone who reaches another address may call")
      ->type_name("HOST");
  return app;
}

Outcome KatibServeCommand::run(const Context& context) {
  const auto asked = StopSignal::create({SIGTERM, SIGINT});
  if (!asked) return fail_here(asked.error());
  auto server = KatibSuggestionServer::start(address_, port_);
  if (!server) return fail_here(server.error());
  const Language language = context.terminal.language();
  context.terminal.print(fill_translated(language, "serves at {}", fmt::format("{}:{}", address_, (*server)->port())) +
                         "\n");
  if (!net::is_loopback(address_))
    context.terminal.note(
        fill_translated(language, "{} has neither TLS nor a token: everyone who reaches it may call", address_));
  pollfd stop{asked->fd(), POLLIN, 0};
  while (::poll(&stop, 1, -1) < 0 && errno == EINTR) {
  }
  return {};
}

}  // namespace volador::cli
