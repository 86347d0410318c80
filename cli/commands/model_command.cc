#include "cli/commands/model_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/render/json_text.h"
#include "cli/render/model_view.h"
#include "cli/render/table.h"
#include "jobs/job_client.h"

namespace volador::cli {
namespace {

constexpr int kShownVersions = 20;

void declare_model(CLI::App& app, std::string& model) {
  app.add_option("model", model, "Name of the model, or its number")->required()->type_name("MODEL");
}
void declare_version(CLI::App& app, std::string& version) {
  app.add_option("version", version, "Number of the version, or an alias")->required()->type_name("VERSION");
}
void declare_words(CLI::App& app, const char* flag, std::vector<std::string>& words, const char* about) {
  app.add_option(flag, words, about)->type_name("NAME")->allow_extra_args(false);
}
// A text of a message.
void declare_text(CLI::App& app, const char* flag, const std::function<void(const std::string&)>& set,
                  const char* about, const char* type = "TEXT") {
  app.add_option_function<std::string>(flag, set, about)->type_name(type);
}
template <class Words>
void add_all(Words* to, const std::vector<std::string>& words) {
  for (const std::string& word : words) *to->Add() = word;
}

Result<v1::ModelVersion> get_version(control::ClusterApi& api, const std::string& model, const std::string& version) {
  v1::GetModelVersionRequest request;
  request.set_model(model);
  request.set_version(version);
  return api.call<v1::ModelVersion>("Models/GetModelVersion", request);
}

// "digits@production": model and version; without @ the newest.
std::pair<std::string, std::string> split_version(const std::string& text) {
  const size_t at = text.rfind('@');
  return at == std::string::npos ? std::pair(text, std::string()) : std::pair(text.substr(0, at), text.substr(at + 1));
}

Outcome edit_model(const Context& context, control::ClusterApi& api, bool json, v1::EditModelRequest request) {
  request.set_request_id(jobs::new_request_id());
  const auto reply = api.call<v1::Model>("Models/EditModel", request);
  if (!reply) return fail(reply.error());
  context.terminal.print(json ? json_of_reply(*reply) : model_line(*reply, context.terminal) + "\n");
  return {};
}

}  // namespace

ModelCommand::ModelCommand() {
  add(std::make_unique<Create>());
  add(std::make_unique<List>());
  add(std::make_unique<Describe>());
  add(std::make_unique<ListVersions>());
  add(std::make_unique<Register>());
  add(std::make_unique<DescribeVersion>());
  add(std::make_unique<Promote>());
  add(std::make_unique<Download>());
  add(std::make_unique<Edit>());
  add(std::make_unique<EditVersion>());
  add(std::make_unique<Archive>(true));
  add(std::make_unique<Archive>(false));
  add(std::make_unique<DeleteVersion>());
  add(std::make_unique<Delete>());
}

CLI::App* ModelCommand::declare(CLI::App& root) {
  CLI::App* app = declare_group(root, "model", "The model registry: names and versions for checkpoints worth keeping");
  app->alias("m");
  app->footer(
      "Examples:\n"
      "  volador model create digits --description='handwritten digits'\n"
      "  volador model register-version digits 0b5f1c62 --comment='trained on all data'\n"
      "  volador model promote digits 3 production\n"
      "  volador model download digits@production\n"
      "A checkpoint that a version names is kept until the version is deleted.");
  return app;
}

CLI::App* ModelCommand::Create::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("create", "Create a model");
  app->add_option_function<std::string>(
         "name", [this](const std::string& name) { model_.set_name(name); },
         "Name: letters, digits, spaces and ._- , not only digits")
      ->required()
      ->type_name("NAME");
  declare_text(
      *app, "--description", [this](const std::string& text) { model_.set_description(text); }, "Description");
  declare_text(
      *app, "--notes", [this](const std::string& text) { model_.set_notes(text); }, "Notes");
  declare_text(
      *app, "--metadata", [this](const std::string& text) { model_.set_metadata(text); }, "Metadata, a JSON object",
      "JSON");
  declare_text(
      *app, "--workspace", [this](const std::string& text) { model_.set_workspace(text); }, "Workspace", "NAME");
  declare_words(*app, "--label", labels_, "A label; may be repeated");
  declare_connection(*app, "30s");
  return app;
}

Outcome ModelCommand::Create::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::CreateModelRequest request;
  *request.mutable_model() = model_;
  add_all(request.mutable_model()->mutable_labels(), labels_);
  request.set_request_id(jobs::new_request_id());
  const auto reply = (*api)->call<v1::Model>("Models/CreateModel", request);
  if (!reply) return fail(reply.error());
  context.terminal.print(wants_json() ? json_of_reply(*reply)
                                      : context.terminal.fill("created model {}", printable(reply->name())) + "\n");
  return {};
}

CLI::App* ModelCommand::List::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("list", "List models");
  app->alias("ls");
  app->add_option("--name", name_, "Only models whose name contains this text")->type_name("TEXT");
  declare_words(*app, "--label", labels_, "Only with this label; may be repeated");
  app->add_option("--user", user_, "Only of this user")->type_name("NAME");
  app->add_option("--workspace", workspace_, "Only of this workspace")->type_name("NAME");
  app->add_flag("-a,--all", all_, "Archived ones too");
  app->add_option("--sort-by", sort_by_, "name, created, changed (default) or versions")
      ->transform(CLI::Transformer(std::vector<std::pair<std::string, std::string>>{{"creation_time", "created"},
                                                                                    {"last_updated_time", "changed"}}))
      ->check(CLI::IsMember({"name", "created", "changed", "versions"}))
      ->type_name("TEXT");
  app->add_option("--order-by", order_by_, "asc or desc (default)")
      ->check(CLI::IsMember({"asc", "desc"}))
      ->type_name("TEXT");
  app->add_option("--limit", limit_, "Show at most this many; 1000 by default")
      ->check(CLI::Range(1, 10'000))
      ->type_name("INTEGER");
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome ModelCommand::List::run(const Context& context) {
  v1::ListModelsRequest request;
  request.set_name(name_);
  add_all(request.mutable_labels(), labels_);
  request.set_user(user_);
  request.set_workspace(workspace_);
  request.set_archived(all_);
  request.set_limit(limit_);
  request.set_order((order_by_ == "desc" ? "-" : "") + sort_by_);
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return show_reply<v1::ListModelsReply>(**api, table_terminal(context), wants_json(), "Models/ListModels", request,
                                         models_text);
}

CLI::App* ModelCommand::Describe::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("describe", "Show a model with its newest versions");
  declare_model(*app, model_);
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome ModelCommand::Describe::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::GetModelRequest request;
  request.set_model(model_);
  const auto model = (*api)->call<v1::Model>("Models/GetModel", request);
  if (!model) return fail(model.error());
  if (wants_json()) {
    context.terminal.print(json_of_reply(*model));
    return {};
  }
  v1::ListModelVersionsRequest of;
  of.set_model(model_);
  of.set_limit(kShownVersions);
  const auto versions = (*api)->call<v1::ListModelVersionsReply>("Models/ListModelVersions", of);
  if (!versions) return fail(versions.error());
  context.terminal.print(model_text(*model, *versions, unix_ms_of_now(), table_terminal(context)));
  return {};
}

CLI::App* ModelCommand::ListVersions::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("list-versions", "List the versions of a model, the newest first");
  declare_model(*app, model_);
  app->add_option("--limit", limit_, "Show at most this many; 1000 by default")
      ->check(CLI::Range(1, 10'000))
      ->type_name("INTEGER");
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome ModelCommand::ListVersions::run(const Context& context) {
  v1::ListModelVersionsRequest request;
  request.set_model(model_);
  request.set_limit(limit_);
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return show_reply<v1::ListModelVersionsReply>(**api, table_terminal(context), wants_json(),
                                                "Models/ListModelVersions", request, model_versions_text);
}

CLI::App* ModelCommand::Register::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("register-version", "Register a checkpoint as the next version of a model");
  app->footer(
      "Examples:\n  volador model register-version digits 0b5f1c62\n"
      "  volador model register-version digits 0b5f1c62 --comment='trained on all data' --alias=production\n"
      "`volador checkpoint list` lists the checkpoints of an experiment.");
  declare_model(*app, model_);
  app->add_option_function<std::string>(
         "checkpoint", [this](const std::string& id) { version_.set_checkpoint(id); },
         "Id of a completed checkpoint, or its first characters, at least 4")
      ->required()
      ->type_name("ID");
  declare_text(
      *app, "--name", [this](const std::string& text) { version_.set_name(text); }, "Name of the version");
  declare_text(
      *app, "--comment", [this](const std::string& text) { version_.set_comment(text); }, "Comment");
  declare_text(
      *app, "--notes", [this](const std::string& text) { version_.set_notes(text); }, "Notes");
  declare_text(
      *app, "--metadata", [this](const std::string& text) { version_.set_metadata(text); }, "Metadata, a JSON object",
      "JSON");
  declare_words(*app, "--label", labels_, "A label; may be repeated");
  declare_words(*app, "--alias", aliases_, "Promote it: this alias names it from now on; may be repeated");
  declare_connection(*app, "30s");
  return app;
}

Outcome ModelCommand::Register::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::RegisterModelVersionRequest request;
  request.set_model(model_);
  *request.mutable_version() = version_;
  add_all(request.mutable_version()->mutable_labels(), labels_);
  request.set_request_id(jobs::new_request_id());
  auto reply = (*api)->call<v1::ModelVersion>("Models/RegisterModelVersion", request);
  if (!reply) return fail(reply.error());
  if (!aliases_.empty()) {
    v1::EditModelRequest promotion;
    promotion.set_model(model_);
    for (const std::string& alias : aliases_) (*promotion.mutable_set_aliases())[alias] = reply->version();
    promotion.set_request_id(jobs::new_request_id());
    const auto promoted = (*api)->call<v1::Model>("Models/EditModel", promotion);
    if (!promoted) {
      context.terminal.note(model_version_line(*reply, context.terminal));
      return fail(promoted.error());
    }
    reply = get_version(**api, model_, std::to_string(reply->version()));
    if (!reply) return fail(reply.error());
  }
  context.terminal.print(wants_json() ? json_of_reply(*reply) : model_version_line(*reply, context.terminal) + "\n");
  return {};
}

CLI::App* ModelCommand::DescribeVersion::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("describe-version", "Show a version of a model with its checkpoint");
  declare_model(*app, model_);
  declare_version(*app, version_);
  declare_connection(*app);
  return app;
}

Outcome ModelCommand::DescribeVersion::run(const Context& context) {
  v1::GetModelVersionRequest request;
  request.set_model(model_);
  request.set_version(version_);
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return show_reply<v1::ModelVersion>(**api, context.terminal, wants_json(), "Models/GetModelVersion", request,
                                      model_version_text);
}

CLI::App* ModelCommand::Edit::declare(CLI::App& root) {
  CLI::App* app = app_ = root.add_subcommand("edit", "Change the name, texts, labels or metadata of a model");
  app->footer(
      "Examples:\n  volador model edit digits --name=letters --notes='see the wiki'\n"
      "  volador model edit digits --add-label=vision --remove-alias=staging\n"
      "`volador model promote` sets aliases.");
  declare_model(*app, model_);
  app->add_option("--name", name_, "Name")->type_name("NAME");
  app->add_option("--description", description_, "Description; empty removes it")->type_name("TEXT");
  app->add_option("--notes", notes_, "Notes; empty removes them")->type_name("TEXT");
  app->add_option("--metadata", metadata_, "Metadata, a JSON object that replaces the former one")->type_name("JSON");
  app->add_option("--workspace", workspace_, "Workspace; empty: none")->type_name("NAME");
  declare_words(*app, "--add-label", add_labels_, "Add a label; may be repeated");
  declare_words(*app, "--remove-label", remove_labels_, "Remove a label; may be repeated");
  declare_words(*app, "--remove-alias", remove_aliases_, "Remove an alias; may be repeated");
  declare_connection(*app, "30s");
  return app;
}

Outcome ModelCommand::Edit::run(const Context& context) {
  v1::EditModelRequest request;
  const auto given = [this](const char* flag) { return app_->count(flag) > 0; };
  if (given("--name")) request.set_name(name_);
  if (given("--description")) request.set_description(description_);
  if (given("--notes")) request.set_notes(notes_);
  if (given("--metadata")) request.set_metadata(metadata_);
  if (given("--workspace")) request.set_workspace(workspace_);
  add_all(request.mutable_add_labels(), add_labels_);
  add_all(request.mutable_remove_labels(), remove_labels_);
  for (const std::string& alias : remove_aliases_) (*request.mutable_set_aliases())[alias] = 0;
  if (request.ByteSizeLong() == 0)
    return usage_error("model edit: what is to change? Name it by a flag, such as --notes='see the wiki'");
  request.set_model(model_);
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return edit_model(context, **api, wants_json(), std::move(request));
}

CLI::App* ModelCommand::EditVersion::declare(CLI::App& root) {
  CLI::App* app = app_ =
      root.add_subcommand("edit-version", "Change the name, texts, labels or metadata of a version of a model");
  app->footer("Examples:\n  volador model edit-version digits 3 --comment='trained on all data' --add-label=checked");
  declare_model(*app, model_);
  declare_version(*app, version_);
  app->add_option("--name", name_, "Name; empty removes it")->type_name("NAME");
  app->add_option("--comment", comment_, "Comment; empty removes it")->type_name("TEXT");
  app->add_option("--notes", notes_, "Notes; empty removes them")->type_name("TEXT");
  app->add_option("--metadata", metadata_, "Metadata, a JSON object that replaces the former one")->type_name("JSON");
  declare_words(*app, "--add-label", add_labels_, "Add a label; may be repeated");
  declare_words(*app, "--remove-label", remove_labels_, "Remove a label; may be repeated");
  declare_connection(*app, "30s");
  return app;
}

Outcome ModelCommand::EditVersion::run(const Context& context) {
  v1::EditModelVersionRequest request;
  const auto given = [this](const char* flag) { return app_->count(flag) > 0; };
  if (given("--name")) request.set_name(name_);
  if (given("--comment")) request.set_comment(comment_);
  if (given("--notes")) request.set_notes(notes_);
  if (given("--metadata")) request.set_metadata(metadata_);
  add_all(request.mutable_add_labels(), add_labels_);
  add_all(request.mutable_remove_labels(), remove_labels_);
  if (request.ByteSizeLong() == 0)
    return usage_error(
        "model edit-version: what is to change? Name it by a flag, such as --comment='trained on all data'");
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const auto version = get_version(**api, model_, version_);
  if (!version) return fail(version.error());
  request.set_model(model_);
  request.set_version(version->version());
  request.set_request_id(jobs::new_request_id());
  const auto reply = (*api)->call<v1::ModelVersion>("Models/EditModelVersion", request);
  if (!reply) return fail(reply.error());
  context.terminal.print(wants_json() ? json_of_reply(*reply) : model_version_line(*reply, context.terminal) + "\n");
  return {};
}

CLI::App* ModelCommand::Archive::declare(CLI::App& root) {
  CLI::App* app = archives_ ? root.add_subcommand("archive", "Leave models out of the list, and refuse changes of them")
                            : root.add_subcommand("unarchive", "Show archived models in the list again");
  app->add_option("models", models_, "Names of models, or their numbers")->required()->type_name("MODEL");
  declare_connection(*app, "30s");
  return app;
}

Outcome ModelCommand::Archive::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return for_each_of(context, models_, [&](const std::string& model) -> Result<void> {
    v1::EditModelRequest request;
    request.set_model(model);
    request.set_archived(archives_);
    request.set_request_id(jobs::new_request_id());
    const auto reply = (*api)->call<v1::Model>("Models/EditModel", request);
    if (!reply) return make_error(reply.error());
    context.terminal.print(wants_json() ? json_of_reply(*reply) : model_line(*reply, context.terminal) + "\n");
    return {};
  });
}

CLI::App* ModelCommand::Delete::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("delete", "Delete a model with its versions; checkpoints stay");
  declare_model(*app, model_);
  declare_yes(*app);
  declare_connection(*app, "30s");
  return app;
}

Outcome ModelCommand::Delete::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::GetModelRequest get;
  get.set_model(model_);
  const auto model = (*api)->call<v1::Model>("Models/GetModel", get);
  if (!model) return fail(model.error());
  const std::string question =
      context.terminal.fill("Delete model {} with its {} versions?", printable(model->name()), model->versions());
  if (auto agreed = confirm(context, question); !agreed) return agreed;
  v1::DeleteModelRequest request;
  request.set_model(model->name());
  request.set_request_id(jobs::new_request_id());
  const auto reply = (*api)->call<v1::DeleteModelReply>("Models/DeleteModel", request);
  if (!reply) return fail(reply.error());
  context.terminal.print(wants_json() ? text_of({{"api_version", "v1"}, {"model", model->name()}})
                                      : context.terminal.fill("model {} is deleted", printable(model->name())) + "\n");
  return {};
}

CLI::App* ModelCommand::DeleteVersion::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("delete-version", "Delete a version of a model; its checkpoint stays");
  declare_model(*app, model_);
  declare_version(*app, version_);
  declare_yes(*app);
  declare_connection(*app, "30s");
  return app;
}

Outcome ModelCommand::DeleteVersion::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const auto version = get_version(**api, model_, version_);
  if (!version) return fail(version.error());
  const std::string name = printable(version->model());
  if (auto agreed = confirm(context, context.terminal.fill("Delete version {} of model {}?", version->version(), name));
      !agreed)
    return agreed;
  v1::DeleteModelVersionRequest request;
  request.set_model(model_);
  request.set_version(version->version());
  request.set_request_id(jobs::new_request_id());
  const auto reply = (*api)->call<v1::DeleteModelVersionReply>("Models/DeleteModelVersion", request);
  if (!reply) return fail(reply.error());
  context.terminal.print(
      wants_json() ? text_of({{"api_version", "v1"}, {"model", version->model()}, {"version", version->version()}})
                   : context.terminal.fill("version {} of model {} is deleted", version->version(), name) + "\n");
  return {};
}

CLI::App* ModelCommand::Promote::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("promote", "Let an alias name a version of a model, such as production");
  app->footer(
      "Examples:\n  volador model promote digits 3 production\n"
      "  volador model promote digits staging production      the version that staging names\n"
      "`volador model edit` removes an alias.");
  declare_model(*app, model_);
  declare_version(*app, version_);
  app->add_option("alias", alias_, "Alias; an alias names one version at a time")->required()->type_name("ALIAS");
  declare_connection(*app, "30s");
  return app;
}

Outcome ModelCommand::Promote::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const auto version = get_version(**api, model_, version_);
  if (!version) return fail(version.error());
  v1::EditModelRequest request;
  request.set_model(model_);
  (*request.mutable_set_aliases())[alias_] = version->version();
  return edit_model(context, **api, wants_json(), std::move(request));
}

CLI::App* ModelCommand::Download::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("download", "Copy the checkpoint of a version of a model to this machine");
  app->footer(
      "Examples:\n  volador model download digits                the newest version\n"
      "  volador model download digits@production\n  volador model download digits@3 model\n"
      "Credentials for S3, GCS and Azure are those of the environment, as for `volador storage`.");
  app->add_option("model", model_, "Name of the model, with @ and a version or an alias unless the newest is meant")
      ->required()
      ->type_name("MODEL[@VERSION]");
  app->add_option("target", target_, "Folder that does not exist yet; checkpoints/ID by default")->type_name("FOLDER");
  declare_connection(*app);
  return app;
}

Outcome ModelCommand::Download::run(const Context& context) {
  const auto [model, name] = split_version(model_);
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const auto version = get_version(**api, model, name);
  if (!version) return fail(version.error());
  if (!wants_json()) context.terminal.note(model_version_line(*version, context.terminal));
  return download_checkpoint(context, version->checkpoint_info(), target_, wants_json());
}

}  // namespace volador::cli
