#include "cli/commands/token_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/render/cluster_view.h"
#include "cli/render/json_view.h"
#include "runtime/clock.h"
#include "runtime/control/cluster_api.h"
#include "runtime/nearest_word.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/protocol/volador/v1/users.pb.h"
#include "runtime/quantities.h"

namespace volador::cli {

TokenCommand::TokenCommand() {
  add(std::make_unique<Create>());
  add(std::make_unique<List>());
  add(std::make_unique<Revoke>());
}

CLI::App* TokenCommand::declare(CLI::App& root) {
  return declare_group(root, "token", "Create, list and revoke access tokens for machines, programs and people");
}

CLI::App* TokenCommand::Create::declare(CLI::App& root) {
  CLI::App* app = app_ = root.add_subcommand("create", "Create a token and print it; it is not shown again");
  app->footer(
      "Examples:\n  volador token create                                 for a machine that joins, valid for a day\n"
      "  volador token create --role=driver --valid-for=30d   for programs elsewhere\n"
      "  volador token create --user=mei                      for programs of a user; role and jobs are the user's\n"
      "  volador token create > token && volador start --address=10.0.0.1:6380 --token-file=token");
  app->add_option("--role", role_,
                  "What the token allows: join (machines), driver (programs), viewer (read the dashboard) or operator "
                  "(everything); join by default")
      ->type_name("ROLE");
  app->add_option("--valid-for", valid_for_, "How long the token is valid; 24h by default, 0 for no limit")
      ->type_name("DURATION");
  app->add_option("--user", user_,
                  "User that the token is for, with the user's role unless --role limits it to viewer or driver; users "
                  "create their own, operators those of all")
      ->type_name("NAME");
  app->add_option("--note", note_, "What the token is for; shown by token list")->type_name("TEXT");
  declare_connection(*app);
  return app;
}

Outcome TokenCommand::Create::run(const Context& context) {
  const std::vector<std::string> roles{"join", "driver", "viewer", "operator"};
  if (std::find(roles.begin(), roles.end(), role_) == roles.end())
    return usage_error(fmt::format("--role: expected join, driver, viewer or operator, got \"{}\"{}", role_,
                                   did_you_mean(role_, roles)));
  auto valid_for = parse_duration(valid_for_);
  if (!valid_for) return usage_error(fmt::format("--valid-for: {}", valid_for.error().message));
  const auto valid_for_ms = std::chrono::duration_cast<std::chrono::milliseconds>(*valid_for).count();
  // The head takes 0 for "without end", so a duration that rounds to 0 would have the opposite effect.
  if (valid_for->count() > 0 && valid_for_ms == 0)
    return usage_error("--valid-for: expected at least 1ms, or 0 for without end");

  if (!user_.empty()) return create_for_user(context, *valid_for);

  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::CreateTokenRequest request;
  request.set_role(role_);
  request.set_valid_for_ms(valid_for_ms);
  request.set_note(note_);
  auto reply = (*api)->call<v1::CreateTokenReply>("Cluster/CreateToken", request);
  if (!reply) return fail(reply.error());
  if (!wants_json()) {
    context.terminal.print(reply->text() + "\n");
    return {};
  }
  const nlohmann::ordered_json json{{"api_version", "v1"},
                                    {"id", reply->token().id()},
                                    {"role", reply->token().role()},
                                    {"expires_wall_ns", reply->token().expires_wall_ns()},
                                    {"token", reply->text()}};
  context.terminal.print(json.dump(2) + "\n");
  return {};
}

Outcome TokenCommand::Create::create_for_user(const Context& context, std::chrono::nanoseconds valid_for) const {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::CreateUserTokenRequest request;
  request.set_user(user_);
  if (app_->count("--role") > 0) request.set_role(role_);
  request.set_valid_s(std::chrono::ceil<std::chrono::seconds>(valid_for).count());
  request.set_note(note_);
  auto reply = (*api)->call<v1::CreateUserTokenReply>("Users/CreateUserToken", request);
  if (!reply) return fail(reply.error());
  if (!wants_json()) {
    context.terminal.print(reply->token() + "\n");
    return {};
  }
  const nlohmann::ordered_json json{{"api_version", "v1"},
                                    {"id", reply->token_id()},
                                    {"role", reply->role()},
                                    {"user", user_},
                                    {"expires_wall_ns", reply->expires_ms() * 1'000'000},
                                    {"token", reply->token()}};
  context.terminal.print(json.dump(2) + "\n");
  return {};
}

CLI::App* TokenCommand::List::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("list", "List tokens with their state, without their secrets");
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome TokenCommand::List::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  auto reply = (*api)->call<v1::ListTokensReply>("Cluster/ListTokens", v1::ListTokensRequest());
  if (!reply) return fail(reply.error());
  const int64_t now = SystemClock().wall().time_since_epoch().count();
  context.terminal.print(wants_json() ? tokens_json(*reply) : tokens_text(*reply, table_terminal(context), now));
  return {};
}

CLI::App* TokenCommand::Revoke::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "revoke", "Revoke a token: nobody can use it any more, and programs and machines that used it are disconnected");
  app->add_option("id", id_, "Id of the token, as token list shows it")->required();
  declare_yes(*app);
  declare_connection(*app);
  return app;
}

Outcome TokenCommand::Revoke::run(const Context& context) {
  if (auto agreed = confirm(context, context.terminal.fill("Revoke token {}, and disconnect what used it?", id_));
      !agreed)
    return agreed;
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::RevokeTokenRequest request;
  request.set_id(id_);
  if (auto reply = (*api)->call<v1::RevokeTokenReply>("Cluster/RevokeToken", request); !reply)
    return fail(reply.error());
  context.terminal.print(wants_json() ? std::string("{\"api_version\": \"v1\"}\n")
                                      : fmt::format("token {} is revoked\n", id_));
  return {};
}

}  // namespace volador::cli
