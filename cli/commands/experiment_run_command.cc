#include "cli/commands/experiment_run_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/experiment_calls.h"
#include "cli/render/experiment_view.h"
#include "cli/render/job_view.h"
#include "cli/render/json_text.h"
#include "cli/render/table.h"
#include "cli/trial_output.h"
#include "jobs/job_client.h"
#include "runtime/control/cluster_api.h"
#include "runtime/files/directory_archive.h"
#include "runtime/files/scratch_folder.h"
#include "runtime/nearest_word.h"
#include "runtime/paths.h"
#include "runtime/resources.h"
#include "runtime/yaml/reader.h"
#include "runtime/yaml/writer.h"

namespace volador::cli {
namespace {

constexpr size_t kCreatedConfigMax = 1 << 20;
constexpr int kShownTrials = 50;
constexpr int kMetricTrialsMax = 1000;

void declare_experiment(CLI::App& app, int64_t& id) {
  app.add_option("experiment", id, "Number of the experiment")->required()->type_name("ID");
}

const std::vector<std::string>& experiment_states() {
  static const std::vector<std::string> states{"ACTIVE",   "PAUSED",    "STOPPING_CANCELED",  "STOPPING_KILLED",
                                               "CANCELED", "COMPLETED", "STOPPING_COMPLETED", "STOPPING_ERROR",
                                               "ERROR",    "DELETING",  "DELETE_FAILED"};
  return states;
}

// States in any case.
tl::expected<std::vector<std::string>, Failure> states_of_flag(const std::vector<std::string>& given) {
  std::vector<std::string> states;
  for (std::string state : given) {
    std::ranges::transform(state, state.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (std::ranges::find(experiment_states(), state) == experiment_states().end()) {
      return usage_error(fmt::format("--state: expected one of {}, got \"{}\"{}", fmt::join(experiment_states(), ", "),
                                     state, did_you_mean(state, experiment_states())));
    }
    states.push_back(std::move(state));
  }
  return states;
}

Result<v1::ExperimentInfo> get_experiment(control::ClusterApi& api, int64_t id) {
  v1::GetExperimentRequest request;
  request.set_id(id);
  return api.call<v1::ExperimentInfo>("Experiments/GetExperiment", request);
}

Result<v1::ListTrialInfosReply> list_trials(control::ClusterApi& api, int64_t experiment, int limit) {
  v1::ListTrialInfosRequest request;
  request.set_experiment(experiment);
  request.set_limit(limit);
  return api.call<v1::ListTrialInfosReply>("Experiments/ListTrialInfos", request);
}

void print_experiment(const Context& context, bool json, const v1::ExperimentInfo& experiment) {
  context.terminal.print(json ? json_of_reply(experiment) : experiment_line(experiment, context.terminal) + "\n");
}

// The end of an experiment as the outcome of a command.
Outcome outcome_of_experiment(const Context& context, const v1::ExperimentInfo& experiment) {
  if (experiment.state() == "COMPLETED") return {};
  return fail(ExitCode::kFailed, Error{ErrorCode::kApplication, experiment_line(experiment, context.terminal)});
}

Outcome edit_experiment(const Context& context, control::ClusterApi& api, bool json,
                        v1::EditExperimentRequest request) {
  request.set_request_id(jobs::new_request_id());
  const auto reply = api.call<v1::ExperimentInfo>("Experiments/EditExperiment", request);
  if (!reply) return fail(reply.error());
  print_experiment(context, json, *reply);
  return {};
}

// The head has put each error of a configuration on a line of its own.
Outcome refuse_configuration(const Context& context, const std::string& shown, const Error& error, bool json) {
  return refuse_file(context, error, json, [&](auto lines) {
    return context.terminal.fill("{}: errors in the configuration: {}", shown, lines);
  });
}

// Waits for the end of an experiment.
Result<v1::ExperimentInfo> wait_for_experiment(control::ClusterApi& api, int64_t id) {
  v1::ExperimentInfo last;
  VOLADOR_TRY(watch([&]() -> Result<Watch> {
    auto now = get_experiment(api, id);
    if (!now) return make_error(now.error());
    last = std::move(*now);
    return is_final_state(last.state()) || last.state() == "DELETE_FAILED" ? Watch::kDone : Watch::kNothing;
  }));
  return last;
}

// Prints the output of the experiment's first trial until it has ended, then waits for the experiment.
Outcome follow_experiment(const Context& context, control::ClusterApi& api, int64_t id, bool json) {
  TrialOutput output(api, -1, 0, [&](bool several, const jobs::JobOutput::Line& line) {
    print_output(context.terminal, json, several, line);
  });
  std::string shown;
  v1::ExperimentInfo experiment;
  bool told = false;
  const auto watched = watch([&]() -> Result<Watch> {
    auto now = get_experiment(api, id);
    if (!now) return make_error(now.error());
    experiment = std::move(*now);
    const auto trials = list_trials(api, id, 1);
    if (!trials) return make_error(trials.error());
    bool news = false;
    if (trials->trials_size() > 0) {
      const v1::TrialInfo& trial = trials->trials(0);
      const auto read = output.read(trial);
      news = read && *read;
      if (is_final_state(trial.state()) && trials->total() > 1 && !std::exchange(told, true) && !json) {
        context.terminal.note(
            context.terminal.fill("trial {} has ended; the other trials of experiment {} go on", trial.id(), id));
      }
    }
    if (is_final_state(experiment.state())) return Watch::kDone;
    // Why nothing is printed yet.
    const std::string line = experiment_line(experiment, context.terminal);
    if (!json && !told && experiment.phase() != "RUNNING" && !experiment.reason().empty() && line != shown) {
      context.terminal.note(line);
      shown = line;
    }
    return news ? Watch::kNews : Watch::kNothing;
  });
  if (!watched) return fail(watched.error());
  if (experiment.state() == "COMPLETED" && !json) context.terminal.note(experiment_line(experiment, context.terminal));
  return outcome_of_experiment(context, experiment);
}

}  // namespace

std::vector<std::unique_ptr<Command>> experiment_cluster_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<ExperimentCreateCommand>());
  commands.push_back(std::make_unique<ExperimentListCommand>());
  commands.push_back(std::make_unique<ExperimentDescribeCommand>());
  commands.push_back(std::make_unique<ExperimentTrialsCommand>());
  commands.push_back(std::make_unique<ExperimentCheckpointsCommand>("list-checkpoints"));
  commands.push_back(std::make_unique<ExperimentLogsCommand>());
  commands.push_back(std::make_unique<ExperimentMetricsCommand>(false));
  commands.push_back(std::make_unique<ExperimentWaitCommand>());
  constexpr std::array<std::pair<const char*, const char*>, 7> kChanges{{
      {"pause", "Let the trials save a checkpoint and leave their nodes"},
      {"activate", "Go on with paused experiments, from the latest checkpoints"},
      {"cancel", "End experiments: their trials save a checkpoint first"},
      {"kill", "End experiments at once"},
      {"archive", "Leave ended experiments out of the list"},
      {"unarchive", "Show archived experiments in the list again"},
      {"delete", "Delete ended experiments with their checkpoints and metrics for good"},
  }};
  for (const auto& [name, about] : kChanges) commands.push_back(std::make_unique<ExperimentChangeCommand>(name, about));
  for (const auto kind : {ExperimentForkCommand::Kind::kFork, ExperimentForkCommand::Kind::kContinue,
                          ExperimentForkCommand::Kind::kReproduce})
    commands.push_back(std::make_unique<ExperimentForkCommand>(kind));
  commands.push_back(std::make_unique<ExperimentDownloadCodeCommand>());
  commands.push_back(std::make_unique<ExperimentEditCommand>());
  commands.push_back(std::make_unique<ExperimentLabelCommand>());
  commands.push_back(std::make_unique<ExperimentMoveCommand>());
  return commands;
}

// ---- create, fork, continue ----

void ExperimentCreation::declare_creation(CLI::App& app) {
  app.add_option("--set", overrides_, "KEY=VALUE of the configuration, such as searcher.max_trials=4; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_flag("-f,--follow", follow_,
               "Print the output of the first trial until the experiment ends, and exit with 0 if it is COMPLETED; "
               "Ctrl-C leaves it running");
  app.add_flag("--paused", paused_, "Create it paused; volador experiment activate starts it");
  app.add_flag("--validate", validate_, "Only check the configuration at the head");
  declare_connection(app, "30s");
}

tl::expected<std::string, Failure> ExperimentCreation::with_overrides(const std::string& text,
                                                                      const std::string& name) const {
  if (overrides_.empty()) return text;
  auto document = yaml::read(text, name);
  if (!document) return fail(ExitCode::kConfig, Error{ErrorCode::kInvalidArgument, document.error().text()});
  if (document->root.is_null()) document->root = yaml::Value::map();
  for (const std::string& override : overrides_) {
    const size_t equals = override.find('=');
    auto value = equals == std::string::npos || equals == 0
                     ? tl::expected<yaml::Document, yaml::Problem>(tl::unexpect, yaml::Problem{})
                     : yaml::read(override.substr(equals + 1), "--set");
    if (!value)
      return usage_error(fmt::format("--set: expected KEY=VALUE such as searcher.max_trials=4, got \"{}\"", override));
    yaml::Value* at = &document->root;
    std::string_view key(override.data(), equals);
    while (at->is_map()) {
      const size_t dot = key.find('.');
      if (dot == std::string_view::npos) break;
      const std::string_view part = key.substr(0, dot);
      if (at->find(part) == nullptr || at->find(part)->is_null()) at->set(part, yaml::Value::map());
      at = at->find(part);
      key.remove_prefix(dot + 1);
    }
    if (!at->is_map() || key.empty())
      return usage_error(fmt::format("--set: {}: {} of the configuration has no keys below it", override, key));
    at->set(key, std::move(value->root));
  }
  return yaml::yaml_text(document->root);
}

Outcome ExperimentCreation::create(const Context& context, control::ClusterApi& api,
                                   v1::CreateExperimentRequest request, const std::string& shown) {
  if (follow_ && (paused_ || validate_))
    return usage_error("--follow: there is nothing to follow with --paused or --validate; leave one out");
  const Terminal& terminal = context.terminal;
  // Before the code is sent, which may take long.
  request.set_validate_only(true);
  const auto checked = api.call<v1::CreateExperimentReply>("Experiments/CreateExperiment", request);
  if (!checked && checked.error().code == ErrorCode::kInvalidArgument)
    return refuse_configuration(context, shown, checked.error(), wants_json());
  if (!checked) return fail(checked.error());
  if (!wants_json() || !validate_)
    for (const std::string& warning : checked->warnings())
      terminal.note(fmt::format("{}: {}", terminal.tr("warning"), printable(warning)));
  if (validate_) {
    terminal.print(wants_json() ? json_of_reply(*checked)
                                : terminal.fill("{}: the configuration is valid", shown) + "\n");
    return {};
  }
  if (!folder_.empty()) {
    auto hash = jobs::JobClient(api).send_code(folder_, {}, [&](int64_t files, int64_t bytes) {
      terminal.note(terminal.fill("sends {} files, {} packed", files, format_bytes(bytes)));
    });
    if (!hash) return fail(hash.error());
    request.set_files_sha256(*hash);
  }
  request.set_validate_only(false);
  request.set_paused(paused_);
  request.set_request_id(jobs::new_request_id());
  const auto created = api.call<v1::CreateExperimentReply>("Experiments/CreateExperiment", request);
  if (!created) return fail(created.error());
  const int64_t id = created->experiment().id();
  if (!follow_) {
    if (wants_json()) {
      terminal.print(json_of_reply(*created));
    } else {
      terminal.print(terminal.fill("created experiment {}", id) + "\n");
      terminal.note(paused_ ? terminal.fill("it is paused: volador experiment activate {}", id)
                            : terminal.fill("output: volador experiment logs {} --follow", id));
    }
    return {};
  }
  if (!wants_json()) terminal.note(terminal.fill("created experiment {}; Ctrl-C leaves it running", id));
  return follow_experiment(context, api, id, wants_json());
}

CLI::App* ExperimentCreateCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("create", "Create an experiment: a search whose trials are jobs of the queue");
  app->footer(
      "Examples:\n"
      "  volador experiment create digits.yaml .            the folder travels to the nodes\n"
      "  volador experiment create digits.yaml . --follow\n"
      "  volador experiment create digits.yaml . --set searcher.max_trials=4 --set name=short\n"
      "  volador experiment create digits.yaml . --validate");
  declare_config(*app);
  app->add_option("folder", folder_, "Folder with the code of the trials; none travels without it")
      ->type_name("FOLDER");
  declare_creation(*app);
  return app;
}

Outcome ExperimentCreateCommand::run(const Context& context) {
  v1::CreateExperimentRequest request;
  const auto text = read_file_limited(file(), kCreatedConfigMax);
  if (!text) return fail_here(text.error());
  auto config = with_overrides(*text, file());
  if (!config) return tl::unexpected(config.error());
  request.set_config(std::move(*config));
  request.set_config_name(file());
  if (!template_file().empty()) {
    auto below = read_file_limited(template_file(), kCreatedConfigMax);
    if (!below) return fail_here(below.error());
    request.set_config_template(std::move(*below));
    request.set_template_name(template_file());
  }
  if (folder_.empty() && !validate_ && !has_overrides()) {
    const auto reading = read_config();
    if (reading && reading->is_valid() && reading->config->entrypoint.trial_class) {
      return usage_error(
          fmt::format("experiment create: the entrypoint {} needs code: name its folder, as in `volador "
                      "experiment create {} .`",
                      *reading->config->entrypoint.trial_class, file()));
    }
  }
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return create(context, **api, std::move(request), file());
}

CLI::App* ExperimentForkCommand::declare(CLI::App& root) {
  CLI::App* app = nullptr;
  switch (kind_) {
    case Kind::kFork:
      app = root.add_subcommand("fork", "Create an experiment with the code of another one");
      app->footer(
          "Examples:\n  volador experiment fork 7 --set hyperparameters.lr=0.01\n"
          "  volador experiment fork 7 other.yaml\n"
          "  volador experiment fork 7 other.yaml .             with other code");
      break;
    case Kind::kContinue:
      app = root.add_subcommand("continue",
                                "Create an experiment that goes on from the latest checkpoint of another one with a "
                                "single trial");
      app->footer("Examples:\n  volador experiment continue 7 --set searcher.max_length.batches=2000");
      break;
    case Kind::kReproduce:
      app = root.add_subcommand("reproduce",
                                "Run an experiment again, with its complete configuration, its code and its seed");
      app->footer("Examples:\n  volador experiment reproduce 7 --follow");
      break;
  }
  declare_experiment(*app, parent_);
  if (kind_ != Kind::kReproduce) {
    app->add_option("config", config_, "File of another configuration; that of the experiment by default")
        ->type_name("CONFIG");
    app->add_option("folder", folder_, "Folder with other code; the code of the experiment by default")
        ->type_name("FOLDER");
  }
  declare_creation(*app);
  return app;
}

Outcome ExperimentForkCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::CreateExperimentRequest request;
  request.set_parent(parent_);
  request.set_continues(kind_ == Kind::kContinue);
  std::string text, name = config_;
  if (config_.empty()) {
    const auto parent = get_experiment(**api, parent_);
    if (!parent) return fail(parent.error());
    // The complete configuration has the seed and the defaults of that time.
    text = kind_ == Kind::kReproduce ? parent->config() : parent->original_config();
    name = fmt::format("experiment {}", parent_);
    // Its hidden secrets are replaced at the head, by those of the parent.
  } else {
    auto read = read_file_limited(config_, kCreatedConfigMax);
    if (!read) return fail_here(read.error());
    text = std::move(*read);
  }
  auto config = with_overrides(text, name);
  if (!config) return tl::unexpected(config.error());
  request.set_config(std::move(*config));
  request.set_config_name(name);
  return create(context, **api, std::move(request), name);
}

// ---- download-model-def ----

CLI::App* ExperimentDownloadCodeCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("download-model-def", "Copy the code folder of an experiment to this machine");
  app->footer("Examples:\n  volador experiment download-model-def 7\n  volador experiment download-model-def 7 code");
  declare_experiment(*app, id_);
  app->add_option("target", target_, "Folder that does not exist yet, or is empty; experiment-ID by default")
      ->type_name("FOLDER");
  declare_connection(*app, "30s");
  return app;
}

Outcome ExperimentDownloadCodeCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  auto scratch = ScratchFolder::create("code");
  if (!scratch) return fail_here(scratch.error());
  const std::filesystem::path archive = scratch->path() / "code";
  v1::GetExperimentFilesRequest request;
  request.set_id(id_);
  {
    std::ofstream out(archive, std::ios::binary);
    while (true) {
      const auto piece = (*api)->call<v1::GetExperimentFilesReply>("Experiments/GetExperimentFiles", request);
      if (!piece) return fail(piece.error());
      out.write(piece->data().data(), static_cast<std::streamsize>(piece->data().size()));
      request.set_offset(request.offset() + static_cast<int64_t>(piece->data().size()));
      if (request.offset() >= piece->size_bytes() || piece->data().empty()) break;
    }
    out.close();
    if (!out) return fail_here(Error{ErrorCode::kUnavailable, fmt::format("{} cannot be written", archive.string())});
  }
  const std::string target = target_.empty() ? fmt::format("experiment-{}", id_) : target_;
  const auto unpacked = unpack_archive(archive, target, {}, Durability::kProcess);
  if (!unpacked) return fail_here(unpacked.error());
  if (wants_json()) {
    context.terminal.print(
        text_of({{"api_version", "v1"}, {"id", id_}, {"to", target}, {"bytes", unpacked->content_bytes}}));
  } else {
    context.terminal.print(context.terminal.fill("the code of experiment {} is in {}: {}", id_, printable(target),
                                                 format_bytes(unpacked->content_bytes)) +
                           "\n");
  }
  return {};
}

// ---- list, describe ----

CLI::App* ExperimentListCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("list", "List experiments, the newest first");
  app->footer(
      "Examples:\n  volador experiment list --state=active\n  volador experiment list --all --label=baseline --json");
  app->add_option("--state", states_, "Only in this state, such as ACTIVE or COMPLETED; may be repeated")
      ->type_name("STATE")
      ->allow_extra_args(false);
  app->add_option("--name", name_, "Only those whose name contains this text")->type_name("TEXT");
  app->add_option("--label", label_, "Only those with this label")->type_name("LABEL");
  app->add_option("--user", user_, "Only those of this user")->type_name("NAME");
  app->add_option("--workspace", workspace_, "Only those of this workspace")->type_name("NAME");
  app->add_option("--project", project_, "Only those of this project")->type_name("NAME");
  app->add_flag("-a,--all", all_, "Archived ones too");
  app->add_option("--limit", limit_, "Show at most this many; 50 by default")
      ->check(CLI::Range(1, 10'000))
      ->type_name("INTEGER");
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome ExperimentListCommand::run(const Context& context) {
  const auto states = states_of_flag(states_);
  if (!states) return tl::unexpected(states.error());
  v1::ListExperimentsRequest request;
  *request.mutable_states() = {states->begin(), states->end()};
  request.set_name(name_);
  request.set_label(label_);
  request.set_user(user_);
  request.set_workspace(workspace_);
  request.set_project(project_);
  request.set_archived(all_);
  request.set_limit(limit_);
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return show_reply<v1::ListExperimentsReply>(**api, table_terminal(context), wants_json(),
                                              "Experiments/ListExperiments", request, experiments_text);
}

CLI::App* ExperimentDescribeCommand::declare(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("describe", "Show an experiment: state, best trial, search, configuration and trials");
  declare_experiment(*app, id_);
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome ExperimentDescribeCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const auto experiment = get_experiment(**api, id_);
  if (!experiment) return fail(experiment.error());
  if (wants_json()) {
    context.terminal.print(json_of_reply(*experiment));
    return {};
  }
  const auto trials = list_trials(**api, id_, kShownTrials);
  if (!trials) return fail(trials.error());
  context.terminal.print(experiment_text(*experiment, *trials, unix_ms_of_now(), table_terminal(context)));
  return {};
}

CLI::App* ExperimentTrialsCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("list-trials", "List the trials of an experiment");
  app->alias("lt");
  declare_experiment(*app, id_);
  app->add_option("--state", states_, "Only in this state; may be repeated")
      ->type_name("STATE")
      ->allow_extra_args(false);
  app->add_option("--after", after_, "Only trials with a higher number")->type_name("ID");
  app->add_option("--limit", limit_, "Show at most this many; 1000 by default")
      ->check(CLI::Range(1, 10'000))
      ->type_name("INTEGER");
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome ExperimentTrialsCommand::run(const Context& context) {
  const auto states = states_of_flag(states_);
  if (!states) return tl::unexpected(states.error());
  v1::ListTrialInfosRequest request;
  request.set_experiment(id_);
  *request.mutable_states() = {states->begin(), states->end()};
  request.set_after(after_);
  request.set_limit(limit_);
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return show_reply<v1::ListTrialInfosReply>(**api, table_terminal(context), wants_json(), "Experiments/ListTrialInfos",
                                             request, trial_infos_text);
}

CLI::App* ExperimentCheckpointsCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(name_, "List the checkpoints of an experiment, the newest first");
  if (std::string_view(name_) == "list-checkpoints") app->alias("lc");
  declare_experiment(*app, id_);
  app->add_option("--trial", trial_, "Only of this trial")->type_name("ID");
  app->add_flag("--deleted", deleted_, "Deleted ones too");
  app->add_option("--limit", limit_, "Show at most this many; 1000 by default")
      ->check(CLI::Range(1, 10'000))
      ->type_name("INTEGER");
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome ExperimentCheckpointsCommand::run(const Context& context) {
  v1::ListCheckpointsRequest request;
  if (trial_ != 0) {
    request.set_trial(trial_);
  } else {
    request.set_experiment(id_);
  }
  request.set_deleted(deleted_);
  request.set_limit(limit_);
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return show_reply<v1::ListCheckpointsReply>(**api, table_terminal(context), wants_json(),
                                              "Experiments/ListCheckpoints", request, checkpoints_text);
}

// ---- changes ----

CLI::App* ExperimentChangeCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(name_, about_);
  app->add_option("experiments", ids_, "Numbers of experiments")->required()->type_name("ID");
  if (std::string_view(name_) == "delete") declare_yes(*app);
  declare_connection(*app, "30s");
  return app;
}

Outcome ExperimentChangeCommand::run(const Context& context) {
  if (std::string_view(name_) == "delete") {
    const std::string question =
        ids_.size() == 1
            ? context.terminal.fill("Delete experiment {} with its checkpoints and metrics?", ids_.front())
            : context.terminal.fill("Delete {} experiments with their checkpoints and metrics?", ids_.size());
    if (auto agreed = confirm(context, question); !agreed) return agreed;
  }
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return for_each_of(context, ids_, [&](int64_t id) -> Result<void> {
    v1::ChangeExperimentRequest request;
    request.set_id(id);
    request.set_command(name_);
    request.set_request_id(jobs::new_request_id());
    const auto reply = (*api)->call<v1::ExperimentInfo>("Experiments/ChangeExperiment", request);
    if (!reply) return make_error(reply.error());
    print_experiment(context, wants_json(), *reply);
    return {};
  });
}

CLI::App* ExperimentWaitCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "wait", "Wait until an experiment has ended, and exit with 0 if it is COMPLETED, otherwise with 1");
  declare_experiment(*app, id_);
  declare_connection(*app);
  return app;
}

Outcome ExperimentWaitCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const auto ended = wait_for_experiment(**api, id_);
  if (!ended) return fail(ended.error());
  if (ended->state() == "COMPLETED" || wants_json()) print_experiment(context, wants_json(), *ended);
  return outcome_of_experiment(context, *ended);
}

CLI::App* ExperimentLogsCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("logs", "Print the output of a trial of an experiment, by default of its first");
  app->footer(
      "Examples:\n  volador experiment logs 7 --follow\n  volador experiment logs 7 --trial=12 --tail=100\n"
      "The output is that of the newest run of the trial; `volador job logs` has those of earlier ones.");
  declare_experiment(*app, id_);
  app->add_option("--trial", trial_, "Of this trial")->type_name("ID");
  declare_output(*app, output_);
  declare_connection(*app);
  return app;
}

Outcome ExperimentLogsCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  int64_t trial = trial_;
  if (trial == 0) {
    const auto trials = list_trials(**api, id_, 1);
    if (!trials) return fail(trials.error());
    if (trials->trials_size() == 0 && output_.follow) return follow_experiment(context, **api, id_, wants_json());
    if (trials->trials_size() == 0) {
      context.terminal.note(context.terminal.fill("experiment {} has no trial yet", id_));
      return {};
    }
    trial = trials->trials(0).id();
  }
  return print_trial_output(context, **api, trial, output_, wants_json());
}

CLI::App* ExperimentEditCommand::declare(CLI::App& root) {
  CLI::App* app = app_ = root.add_subcommand("edit", "Change the name, texts, priority or limits of an experiment");
  app->footer(
      "Examples:\n  volador experiment edit 7 --name=digits --notes='lr too high'\n"
      "  volador experiment edit 7 --max-slots=4\n"
      "  volador experiment edit 7 --save-trial-best=0      checkpoints of an ended experiment are deleted at once");
  declare_experiment(*app, id_);
  app->add_option("--name", new_name_, "Name")->type_name("TEXT");
  app->add_option("--description", description_, "Description; empty removes it")->type_name("TEXT");
  app->add_option("--notes", notes_, "Notes, for people who look at it")->type_name("TEXT");
  app->add_option("--priority", priority_, "normal, urgent or very_urgent, of its queued and later jobs")
      ->check(CLI::IsMember({"normal", "urgent", "very_urgent"}))
      ->type_name("TEXT");
  const auto count = [&](const char* flag, int& value, const char* about) {
    app->add_option(flag, value, about)->check(CLI::Range(0, 1'000'000))->type_name("INTEGER");
  };
  count("--max-slots", max_slots_, "Slots that its trials may have at the same time; 0: no limit");
  count("--save-experiment-best", experiment_best_, "Best checkpoints of all trials that stay");
  count("--save-trial-best", trial_best_, "Best checkpoints of each trial that stay");
  count("--save-trial-latest", trial_latest_, "Latest checkpoints of each trial that stay");
  declare_connection(*app, "30s");
  return app;
}

Outcome ExperimentEditCommand::run(const Context& context) {
  v1::EditExperimentRequest request;
  const auto given = [this](const char* flag) { return app_->count(flag) > 0; };
  if (given("--name")) request.set_name(new_name_);
  if (given("--description")) request.set_description(description_);
  if (given("--notes")) request.set_notes(notes_);
  if (given("--priority")) request.set_priority(priority_);
  if (given("--max-slots")) request.set_max_slots(max_slots_);
  if (given("--save-experiment-best")) request.set_save_experiment_best(experiment_best_);
  if (given("--save-trial-best")) request.set_save_trial_best(trial_best_);
  if (given("--save-trial-latest")) request.set_save_trial_latest(trial_latest_);
  if (request.ByteSizeLong() == 0)
    return usage_error("experiment edit: what is to change? Name it by a flag, such as --name=digits");
  request.set_id(id_);
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return edit_experiment(context, **api, wants_json(), std::move(request));
}

ExperimentLabelCommand::ExperimentLabelCommand() {
  add(std::make_unique<Change>(true));
  add(std::make_unique<Change>(false));
}

CLI::App* ExperimentLabelCommand::declare(CLI::App& root) {
  return declare_group(root, "label", "Add or remove labels of an experiment");
}

CLI::App* ExperimentLabelCommand::Change::declare(CLI::App& root) {
  CLI::App* app = adds_ ? root.add_subcommand("add", "Add labels") : root.add_subcommand("remove", "Remove labels");
  declare_experiment(*app, id_);
  app->add_option("labels", labels_, "Labels")->required()->type_name("LABEL");
  declare_connection(*app, "30s");
  return app;
}

Outcome ExperimentLabelCommand::Change::run(const Context& context) {
  v1::EditExperimentRequest request;
  request.set_id(id_);
  for (const std::string& label : labels_)
    (adds_ ? request.add_add_labels() : request.add_remove_labels())->assign(label);
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return edit_experiment(context, **api, wants_json(), std::move(request));
}

CLI::App* ExperimentMoveCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("move", "Move an experiment to another project");
  app->footer("Examples:\n  volador experiment move 7 --workspace=vision --project=digits");
  declare_experiment(*app, id_);
  app->add_option("--workspace", workspace_, "Workspace of the project")->required()->type_name("NAME");
  app->add_option("--project", project_, "Project")->required()->type_name("NAME");
  declare_connection(*app, "30s");
  return app;
}

Outcome ExperimentMoveCommand::run(const Context& context) {
  v1::EditExperimentRequest request;
  request.set_id(id_);
  request.set_workspace(workspace_);
  request.set_project(project_);
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return edit_experiment(context, **api, wants_json(), std::move(request));
}

// ---- metrics ----

CLI::App* ExperimentMetricsCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "metrics", of_trial_ ? "Show the metrics of a trial" : "Show the metrics of all trials of an experiment");
  const std::string path = of_trial_ ? "trial" : "experiment";
  app->footer("Examples:\n  volador " + path + " metrics 7 --metric=validation_loss\n  volador " + path +
              " metrics 7 --group=training --csv > metrics.csv");
  if (of_trial_) {
    app->add_option("trial", id_, "Number of the trial")->required()->type_name("ID");
  } else {
    declare_experiment(*app, id_);
  }
  app->add_option("--group", group_, "validation (default), training, or another one that the program reports")
      ->type_name("NAME");
  app->add_option("--metric", metrics_, "Only this metric; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app->add_option("--from", from_, "Only from this number of batches on")->type_name("BATCHES");
  app->add_option("--to", to_, "Only up to this number of batches")->type_name("BATCHES");
  app->add_option("--points", max_points_,
                  "At most this many points of each metric, thinned out such that extremes remain; -1: all, as --csv "
                  "has by default")
      ->check(CLI::Range(-1, 1'000'000))
      ->type_name("INTEGER");
  app->add_flag("--csv", csv_, "Print all points as CSV");
  declare_wide(*app);
  declare_connection(*app, "30s");
  return app;
}

Outcome ExperimentMetricsCommand::run(const Context& context) {
  if (csv_ && wants_json()) return usage_error("metrics: --csv or --json, not both");
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::GetMetricsRequest request;
  if (of_trial_) {
    request.add_trials(id_);
  } else {
    const auto trials = list_trials(**api, id_, kMetricTrialsMax);
    if (!trials) return fail(trials.error());
    for (const v1::TrialInfo& trial : trials->trials()) request.add_trials(trial.id());
    if (trials->total() > trials->trials_size()) {
      context.terminal.note(
          context.terminal.fill("the first {} of {} trials; volador trial metrics shows those of others",
                                trials->trials_size(), trials->total()));
    }
  }
  request.set_group(group_);
  *request.mutable_metrics() = {metrics_.begin(), metrics_.end()};
  request.set_from_batch(from_);
  request.set_to_batch(to_);
  request.set_max_points(max_points_ == 0 && csv_ ? -1 : max_points_);
  v1::GetMetricsReply metrics;
  if (!request.trials().empty()) {
    auto reply = (*api)->call<v1::GetMetricsReply>("Experiments/GetMetrics", request);
    if (!reply) return fail(reply.error());
    metrics = std::move(*reply);
  }
  context.terminal.print(wants_json() ? json_of_reply(metrics)
                         : csv_       ? metrics_csv(metrics)
                                      : metrics_text(metrics, table_terminal(context)));
  return {};
}

}  // namespace volador::cli
