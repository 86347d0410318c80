#include "cli/commands/trial_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands/experiment_run_command.h"
#include "cli/render/experiment_view.h"
#include "cli/render/json_text.h"
#include "jobs/job_client.h"

namespace volador::cli {
namespace {

void declare_trial(CLI::App& app, int64_t& id) {
  app.add_option("trial", id, "Number of the trial")->required()->type_name("ID");
}
void declare_checkpoint(CLI::App& app, std::string& id) {
  app.add_option("checkpoint", id, "Id of the checkpoint, or its first characters, at least 4")
      ->required()
      ->type_name("ID");
}
void declare_target(CLI::App& app, std::string& target) {
  app.add_option("target", target, "Folder that does not exist yet; checkpoints/ID by default")->type_name("FOLDER");
}

Result<v1::CheckpointInfo> get_checkpoint(control::ClusterApi& api, const std::string& id) {
  v1::GetCheckpointRequest request;
  request.set_id(id);
  return api.call<v1::CheckpointInfo>("Experiments/GetCheckpoint", request);
}

}  // namespace

TrialCommand::TrialCommand() {
  add(std::make_unique<Describe>());
  add(std::make_unique<Logs>());
  add(std::make_unique<ExperimentMetricsCommand>(true));
  add(std::make_unique<Download>());
  add(std::make_unique<Kill>());
}

CLI::App* TrialCommand::declare(CLI::App& root) {
  CLI::App* app = declare_group(root, "trial", "Show, follow and end trials of experiments");
  app->alias("t");
  app->footer(
      "Examples:\n  volador trial describe 12\n  volador trial logs 12 --follow\n"
      "  volador trial download 12 --best model\n`volador experiment list-trials` lists the trials of an experiment.");
  return app;
}

CLI::App* TrialCommand::Describe::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("describe", "Show a trial: state, hyperparameters, metrics and checkpoints");
  declare_trial(*app, id_);
  declare_connection(*app);
  return app;
}

Outcome TrialCommand::Describe::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::GetTrialInfoRequest request;
  request.set_id(id_);
  return show_reply<v1::TrialInfo>(**api, context.terminal, wants_json(), "Experiments/GetTrialInfo", request,
                                   trial_text);
}

CLI::App* TrialCommand::Logs::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("logs", "Print the output of a trial");
  app->footer(
      "Examples:\n  volador trial logs 12 --follow\n  volador trial logs 12 --rank=0 --tail=100\n"
      "The output is that of its newest run; `volador job logs` has those of earlier ones.");
  declare_trial(*app, id_);
  declare_output(*app, output_);
  declare_connection(*app);
  return app;
}

Outcome TrialCommand::Logs::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return print_trial_output(context, **api, id_, output_, wants_json());
}

CLI::App* TrialCommand::Kill::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("kill", "End trials at once; their search goes on without them");
  app->add_option("trials", ids_, "Numbers of trials")->required()->type_name("ID");
  declare_connection(*app, "30s");
  return app;
}

Outcome TrialCommand::Kill::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return for_each_of(context, ids_, [&](int64_t id) -> Result<void> {
    v1::KillTrialRequest request;
    request.set_id(id);
    request.set_request_id(jobs::new_request_id());
    const auto reply = (*api)->call<v1::TrialInfo>("Experiments/KillTrial", request);
    if (!reply) return make_error(reply.error());
    context.terminal.print(wants_json() ? json_of_reply(*reply) : trial_line(*reply, context.terminal) + "\n");
    return {};
  });
}

CLI::App* TrialCommand::Download::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("download", "Copy a checkpoint of a trial to this machine");
  app->footer(
      "Examples:\n  volador trial download 12 --best\n  volador trial download 12 --latest model\n"
      "Credentials for S3, GCS and Azure are those of the environment, as for `volador storage`.");
  declare_trial(*app, id_);
  declare_target(*app, target_);
  auto* best = app->add_flag("--best", best_, "The best one by the metric of the search (default)");
  app->add_flag("--latest", latest_, "The latest one")->excludes(best);
  declare_connection(*app);
  return app;
}

Outcome TrialCommand::Download::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::GetTrialInfoRequest request;
  request.set_id(id_);
  const auto trial = (*api)->call<v1::TrialInfo>("Experiments/GetTrialInfo", request);
  if (!trial) return fail(trial.error());
  const std::string& id = latest_ ? trial->latest_checkpoint() : trial->best_checkpoint();
  if (id.empty()) {
    return fail(ExitCode::kNotFound,
                Error{ErrorCode::kNotFound,
                      latest_ || trial->latest_checkpoint().empty()
                          ? fmt::format("trial {} has no checkpoint", id_)
                          : fmt::format("trial {} has no checkpoint with a validation; --latest downloads {}", id_,
                                        trial->latest_checkpoint())});
  }
  const auto checkpoint = get_checkpoint(**api, id);
  if (!checkpoint) return fail(checkpoint.error());
  return download_checkpoint(context, *checkpoint, target_, wants_json());
}

CheckpointCommand::CheckpointCommand() {
  add(std::make_unique<ExperimentCheckpointsCommand>("list"));
  add(std::make_unique<Describe>());
  add(std::make_unique<Download>());
  add(std::make_unique<Remove>());
}

CLI::App* CheckpointCommand::declare(CLI::App& root) {
  CLI::App* app = declare_group(root, "checkpoint", "List, copy and delete checkpoints of experiments");
  app->alias("c");
  app->footer(
      "Examples:\n  volador checkpoint list 7\n  volador checkpoint download 0b5f1c62 model\n"
      "  volador checkpoint rm 0b5f1c62 --yes");
  return app;
}

CLI::App* CheckpointCommand::Describe::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("describe", "Show a checkpoint: trial, metrics, place and files");
  declare_checkpoint(*app, id_);
  declare_connection(*app);
  return app;
}

Outcome CheckpointCommand::Describe::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::GetCheckpointRequest request;
  request.set_id(id_);
  return show_reply<v1::CheckpointInfo>(**api, context.terminal, wants_json(), "Experiments/GetCheckpoint", request,
                                        checkpoint_text);
}

CLI::App* CheckpointCommand::Download::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("download", "Copy the files of a checkpoint to this machine");
  app->footer(
      "Examples:\n  volador checkpoint download 0b5f1c62\n  volador checkpoint download 0b5f1c62 model\n"
      "Credentials for S3, GCS and Azure are those of the environment, as for `volador storage`.");
  declare_checkpoint(*app, id_);
  declare_target(*app, target_);
  declare_connection(*app);
  return app;
}

Outcome CheckpointCommand::Download::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const auto checkpoint = get_checkpoint(**api, id_);
  if (!checkpoint) return fail(checkpoint.error());
  return download_checkpoint(context, *checkpoint, target_, wants_json());
}

CLI::App* CheckpointCommand::Remove::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("rm", "Delete checkpoints for good; a job of the cluster removes their files");
  app->alias("delete");
  app->add_option("checkpoints", ids_, "Ids of checkpoints, or their first characters, at least 4")
      ->required()
      ->type_name("ID");
  declare_yes(*app);
  declare_connection(*app, "30s");
  return app;
}

Outcome CheckpointCommand::Remove::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::DeleteCheckpointsRequest request;
  for (const std::string& id : ids_) {
    const auto checkpoint = get_checkpoint(**api, id);
    if (!checkpoint) return fail(checkpoint.error());
    request.add_ids(checkpoint->id());
  }
  const std::string question = request.ids_size() == 1
                                   ? context.terminal.fill("Delete checkpoint {}?", request.ids(0))
                                   : context.terminal.fill("Delete {} checkpoints?", request.ids_size());
  if (auto agreed = confirm(context, question); !agreed) return agreed;
  request.set_request_id(jobs::new_request_id());
  const auto reply = (*api)->call<v1::DeleteCheckpointsReply>("Experiments/DeleteCheckpoints", request);
  if (!reply) return fail(reply.error());
  if (wants_json()) {
    context.terminal.print(text_of(
        {{"api_version", "v1"}, {"ids", std::vector<std::string>(request.ids().begin(), request.ids().end())}}));
  } else {
    for (const std::string& id : request.ids())
      context.terminal.print(context.terminal.fill("checkpoint {} is being deleted", id) + "\n");
  }
  return {};
}

}  // namespace volador::cli
