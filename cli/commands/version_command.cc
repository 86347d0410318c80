#include "cli/commands/version_command.h"

#include <fmt/format.h>

#include <grpcpp/grpcpp.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "runtime/control/channel.h"
#include "runtime/version.h"

namespace volador::cli {

std::string version_line() {
  return fmt::format("volador {} (gcc {}, grpc {}, control protocol {})", kVersion, __VERSION__, grpc::Version(),
                     control::kProtocolVersion);
}

CLI::App* VersionCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("version", "Print the versions of Volador and of the libraries it uses");
  declare_json(*app);
  return app;
}

Outcome VersionCommand::run(const Context& context) {
  const nlohmann::ordered_json json{{"api_version", "v1"},
                                    {"version", kVersion},
                                    {"compiler", std::string("gcc ") + __VERSION__},
                                    {"grpc", grpc::Version()},
                                    {"control_protocol", control::kProtocolVersion}};
  context.terminal.print(wants_json() ? json.dump(2) + "\n" : version_line() + "\n");
  return {};
}

}  // namespace volador::cli
