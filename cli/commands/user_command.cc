#include "cli/commands/user_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/password_input.h"
#include "cli/render/json_text.h"
#include "cli/render/user_view.h"
#include "dashboard/operation_json.h"
#include "runtime/control/cluster_api.h"
#include "runtime/protocol/volador/v1/users.pb.h"
#include "runtime/security/user.h"

namespace volador::cli {
namespace {

constexpr const char* kPasswordFileHelp =
    "File whose first line is the password, - for the standard input; without it the terminal asks";

nlohmann::ordered_json document_of(const google::protobuf::Message& message) {
  nlohmann::ordered_json json{{"api_version", "v1"}};
  json.update(dashboard::json_of(message));
  return json;
}

Outcome check_role(const std::string& role) {
  if (security::parse_user_role(role)) return {};
  return usage_error(fmt::format("--role: expected user, operator or viewer, got \"{}\"", role));
}

// The user of this name; nullopt: there is none.
tl::expected<std::optional<v1::User>, Failure> find_user(control::ClusterApi& api, const std::string& name) {
  auto reply = api.call<v1::ListUsersReply>("Users/ListUsers", v1::ListUsersRequest());
  if (!reply) return fail(reply.error());
  for (const v1::User& user : reply->users()) {
    if (user.name() == name) return user;
  }
  return std::nullopt;
}

tl::expected<v1::User, Failure> known_user(control::ClusterApi& api, const std::string& name) {
  auto found = find_user(api, name);
  if (!found) return tl::unexpected(found.error());
  if (*found) return **found;
  return fail(
      Error{ErrorCode::kNotFound, fmt::format("there is no user \"{}\"; `volador user list` shows the users", name)});
}

Outcome put_user(control::ClusterApi& api, const Context& context, bool json, const v1::PutUserRequest& request,
                 const std::string& text) {
  auto reply = api.call<v1::PutUserReply>("Users/PutUser", request);
  if (!reply) return fail(reply.error());
  context.terminal.print(json ? text_of(document_of(reply->user())) : text + "\n");
  return {};
}

}  // namespace

UserCommand::UserCommand() {
  add(std::make_unique<Add>());
  add(std::make_unique<List>());
  add(std::make_unique<Set>());
  add(std::make_unique<Password>());
  add(std::make_unique<Delete>());
}

CLI::App* UserCommand::declare(CLI::App& root) {
  return declare_group(root, "user", "Add, list, change and delete the users of the cluster");
}

CLI::App* UserCommand::Add::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("add", "Add a user, who signs in with `volador login` or on the dashboard");
  app->footer(
      "Examples:\n  volador user add mei --mail=mei@example.org\n"
      "  volador user add ops --role=operator --password-file=password");
  app->add_option("name", name_, "Name of the user: lower-case letters, digits, '-', '_' and '.'")->required();
  app->add_option("--role", role_,
                  "user (submits jobs and programs), operator (everything) or viewer (reads); user by default")
      ->type_name("ROLE");
  app->add_option("--full-name", full_name_, "Name of the person")->type_name("TEXT");
  app->add_option("--mail", mail_, "Address for notifications")->type_name("ADDRESS");
  app->add_option("--password-file", password_file_, kPasswordFileHelp)->type_name("FILE");
  app->add_option("--subject", subject_, "\"sub\" of the person at the provider of sign-ins (OpenID Connect)")
      ->type_name("SUBJECT");
  app->add_flag("--no-password", no_password_, "The user has tokens only, or signs in by the provider");
  declare_connection(*app);
  return app;
}

Outcome UserCommand::Add::run(const Context& context) {
  if (auto known = check_role(role_); !known) return known;
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  auto present = find_user(**api, name_);
  if (!present) return tl::unexpected(present.error());
  if (*present) {
    return fail(Error{ErrorCode::kInvalidArgument,
                      fmt::format("user {0} exists; `volador user set {0}` changes a user", name_)});
  }
  v1::PutUserRequest request;
  v1::User& user = *request.mutable_user();
  user.set_name(name_);
  user.set_role(role_);
  user.set_full_name(full_name_);
  user.set_mail(mail_);
  user.set_subject(subject_);
  if (!no_password_) {
    auto password = read_new_password(context.terminal, context.terminal.fill("Password of {}", name_), password_file_);
    if (!password) return tl::unexpected(password.error());
    request.set_password(*password);
  }
  return put_user(**api, context, wants_json(), request,
                  context.terminal.fill("user {} was added, with role {}", name_, role_));
}

CLI::App* UserCommand::List::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("list", "List the users");
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome UserCommand::List::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  auto reply = (*api)->call<v1::ListUsersReply>("Users/ListUsers", v1::ListUsersRequest());
  if (!reply) return fail(reply.error());
  context.terminal.print(wants_json() ? text_of(document_of(*reply)) : users_text(*reply, table_terminal(context)));
  return {};
}

CLI::App* UserCommand::Set::declare(CLI::App& root) {
  CLI::App* app = app_ = root.add_subcommand("set", "Change, disable or enable a user");
  app->footer("Examples:\n  volador user set mei --role=operator\n  volador user set mei --disable");
  app->add_option("name", name_, "Name of the user")->required();
  app->add_option("--role", role_, "user, operator or viewer; tokens of the user never allow more")->type_name("ROLE");
  app->add_option("--full-name", full_name_, "Name of the person")->type_name("TEXT");
  app->add_option("--mail", mail_, "Address for notifications")->type_name("ADDRESS");
  app->add_option("--subject", subject_, "\"sub\" of the person at the provider of sign-ins; empty: none")
      ->type_name("SUBJECT");
  auto* disable =
      app->add_flag("--disable", disable_, "The user cannot sign in, and the user's tokens are refused from now on");
  app->add_flag("--enable", enable_, "Undo --disable; the tokens are valid again")->excludes(disable);
  declare_connection(*app);
  return app;
}

Outcome UserCommand::Set::run(const Context& context) {
  if (app_->count("--role") > 0) {
    if (auto known = check_role(role_); !known) return known;
  }
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  auto user = known_user(**api, name_);
  if (!user) return tl::unexpected(user.error());
  if (app_->count("--role") > 0) user->set_role(role_);
  if (app_->count("--full-name") > 0) user->set_full_name(full_name_);
  if (app_->count("--mail") > 0) user->set_mail(mail_);
  if (app_->count("--subject") > 0) user->set_subject(subject_);
  if (disable_ || enable_) user->set_disabled(disable_);
  v1::PutUserRequest request;
  *request.mutable_user() = *user;
  const std::string text = disable_  ? context.terminal.fill("user {} is disabled", name_)
                           : enable_ ? context.terminal.fill("user {} is enabled", name_)
                                     : context.terminal.fill("user {} was changed", name_);
  return put_user(**api, context, wants_json(), request, text);
}

CLI::App* UserCommand::Password::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("password", "Change your own password, or as an operator that of a user");
  app->footer("Examples:\n  volador user password        your own\n  volador user password mei    as an operator");
  app->add_option("name", name_, "Name of the user; without it your own password is changed");
  app->add_option("--password-file", password_file_, kPasswordFileHelp)->type_name("FILE");
  app->add_option("--old-password-file", old_password_file_, "The same for your present password")->type_name("FILE");
  declare_connection(*app);
  return app;
}

Outcome UserCommand::Password::change_own(control::ClusterApi& api, const Context& context) const {
  auto before = read_password(context.terminal, context.terminal.tr("Present password"), old_password_file_);
  if (!before) return tl::unexpected(before.error());
  auto after = read_new_password(context.terminal, context.terminal.tr("New password"), password_file_);
  if (!after) return tl::unexpected(after.error());
  v1::ChangePasswordRequest request;
  request.set_old_password(*before);
  request.set_new_password(*after);
  auto reply = api.call<v1::ChangePasswordReply>("Users/ChangePassword", request);
  if (!reply) return fail(reply.error());
  context.terminal.print(wants_json()
                             ? text_of(document_of(*reply))
                             : context.terminal.tr("your password was changed; your other sign-ins have ended") + "\n");
  return {};
}

Outcome UserCommand::Password::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  if (name_.empty()) return change_own(**api, context);
  auto user = known_user(**api, name_);
  if (!user) return tl::unexpected(user.error());
  auto password =
      read_new_password(context.terminal, context.terminal.fill("New password of {}", name_), password_file_);
  if (!password) return tl::unexpected(password.error());
  v1::PutUserRequest request;
  *request.mutable_user() = *user;
  request.set_password(*password);
  return put_user(**api, context, wants_json(), request,
                  context.terminal.fill("the password of {} was changed; the sign-ins of {} have ended", name_, name_));
}

CLI::App* UserCommand::Delete::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("delete", "Delete a user and revoke the user's tokens; the jobs remain");
  app->add_option("name", name_, "Name of the user")->required();
  declare_yes(*app);
  declare_connection(*app);
  return app;
}

Outcome UserCommand::Delete::run(const Context& context) {
  if (auto agreed = confirm(context, context.terminal.fill("Delete user {}, and revoke the user's tokens?", name_));
      !agreed)
    return agreed;
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::DeleteUserRequest request;
  request.set_user(name_);
  auto reply = (*api)->call<v1::DeleteUserReply>("Users/DeleteUser", request);
  if (!reply) return fail(reply.error());
  context.terminal.print(wants_json() ? text_of(document_of(*reply))
                                      : context.terminal.fill("user {} was deleted", name_) + "\n");
  return {};
}

}  // namespace volador::cli
