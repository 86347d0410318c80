#include "cli/commands/group_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "cli/render/json_text.h"
#include "cli/render/user_view.h"
#include "dashboard/operation_json.h"
#include "runtime/control/cluster_api.h"
#include "runtime/protocol/volador/v1/users.pb.h"

namespace volador::cli {
namespace {

std::string json_document(const google::protobuf::Message& message) {
  nlohmann::ordered_json json{{"api_version", "v1"}};
  json.update(dashboard::json_of(message));
  return cli::text_of(json);
}

}  // namespace

GroupCommand::GroupCommand() {
  add(std::make_unique<List>());
  add(std::make_unique<Create>());
  add(std::make_unique<Delete>());
  add(std::make_unique<Members>(true));
  add(std::make_unique<Members>(false));
}

CLI::App* GroupCommand::declare(CLI::App& root) {
  return declare_group(root, "group", "List, create, change and delete groups of users");
}

CLI::App* GroupCommand::List::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("list", "List the groups of users and their members");
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome GroupCommand::List::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  auto reply = (*api)->call<v1::ListUserGroupsReply>("Users/ListUserGroups", v1::ListUserGroupsRequest());
  if (!reply) return fail(reply.error());
  context.terminal.print(wants_json() ? json_document(*reply) : user_groups_text(*reply, table_terminal(context)));
  return {};
}

CLI::App* GroupCommand::Create::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("create", "Create a group; @NAME among a project's members is the group");
  app->footer("Examples:\n  volador group create vision mei kim\n  volador group create ops --note='who is on call'");
  app->add_option("name", name_, "Name of the group: lower-case letters, digits, '-', '_' and '.'")->required();
  app->add_option("users", users_, "Users who are members from the beginning");
  app->add_option("--note", note_, "What the group is for")->type_name("TEXT");
  declare_connection(*app);
  return app;
}

Outcome GroupCommand::Create::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::CreateUserGroupRequest request;
  request.mutable_group()->set_name(name_);
  request.mutable_group()->set_note(note_);
  request.mutable_group()->mutable_members()->Assign(users_.begin(), users_.end());
  auto reply = (*api)->call<v1::CreateUserGroupReply>("Users/CreateUserGroup", request);
  if (!reply) return fail(reply.error());
  context.terminal.print(wants_json() ? json_document(reply->group())
                                      : context.terminal.fill("group {} was created", name_) + "\n");
  return {};
}

CLI::App* GroupCommand::Delete::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("delete", "Delete a group; its users remain");
  app->add_option("name", name_, "Name of the group")->required();
  declare_yes(*app);
  declare_connection(*app);
  return app;
}

Outcome GroupCommand::Delete::run(const Context& context) {
  if (auto agreed = confirm(context, context.terminal.fill("Delete group {}?", name_)); !agreed) return agreed;
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::DeleteUserGroupRequest request;
  request.set_group(name_);
  auto reply = (*api)->call<v1::DeleteUserGroupReply>("Users/DeleteUserGroup", request);
  if (!reply) return fail(reply.error());
  context.terminal.print(wants_json() ? json_document(*reply)
                                      : context.terminal.fill("group {} was deleted", name_) + "\n");
  return {};
}

CLI::App* GroupCommand::Members::declare(CLI::App& root) {
  CLI::App* app = adds_ ? root.add_subcommand("add", "Add users to a group")
                        : root.add_subcommand("remove", "Remove users from a group");
  app->add_option("name", name_, "Name of the group")->required();
  app->add_option("users", users_, "Names of the users")->required();
  declare_connection(*app);
  return app;
}

Outcome GroupCommand::Members::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::ChangeUserGroupRequest request;
  request.set_group(name_);
  (adds_ ? request.mutable_add() : request.mutable_remove())->Assign(users_.begin(), users_.end());
  auto reply = (*api)->call<v1::ChangeUserGroupReply>("Users/ChangeUserGroup", request);
  if (!reply) return fail(reply.error());
  context.terminal.print(wants_json()
                             ? json_document(reply->group())
                             : context.terminal.fill("members of group {}: {}", name_,
                                                     fmt::format("{}", fmt::join(reply->group().members(), ", "))) +
                                   "\n");
  return {};
}

}  // namespace volador::cli
