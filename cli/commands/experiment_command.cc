#include "cli/commands/experiment_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/commands/experiment_run_command.h"
#include "cli/commands/run_trial_command.h"
#include "cli/commands/tensorboard_command.h"
#include "cli/render/json_text.h"
#include "experiments/search/search_preview.h"
#include "runtime/clock.h"
#include "runtime/control/cluster_api.h"
#include "runtime/paths.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/yaml/reader.h"
#include "runtime/yaml/writer.h"

namespace volador::cli {
namespace {

using experiments::ConfigFile;
using experiments::Finding;
using experiments::Findings;
using experiments::Secrets;

constexpr size_t kConfigFileMax = 1 << 20;

Result<ConfigFile> config_file(const std::string& name) {
  auto text = read_file_limited(name, kConfigFileMax);
  if (!text) return make_error(text.error());
  return ConfigFile{name, std::move(*text)};
}

nlohmann::ordered_json json_of_findings(const std::vector<Finding>& findings) {
  auto list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    nlohmann::ordered_json one{{"path", finding.path}, {"message", finding.message}};
    const bool is_known = finding.place.is_known();
    one["file"] = is_known ? nlohmann::ordered_json(*finding.place.file) : nlohmann::ordered_json();
    one["line"] = is_known ? nlohmann::ordered_json(finding.place.line) : nlohmann::ordered_json();
    one["column"] = is_known ? nlohmann::ordered_json(finding.place.column) : nlohmann::ordered_json();
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

ExperimentCommand::ExperimentCommand() {
  for (auto& command : experiment_cluster_commands()) add(std::move(command));
  add(std::make_unique<ExperimentValidateCommand>());
  add(std::make_unique<ExperimentShowConfigCommand>());
  add(std::make_unique<ExperimentPreviewCommand>());
  add(std::make_unique<RunTrialCommand>());
  add(std::make_unique<RunGarbageCommand>());
  add(std::make_unique<ExportEventsCommand>());
}

CLI::App* ExperimentCommand::declare(CLI::App& root) {
  CLI::App* app = declare_group(root, "experiment",
                                "Create and follow experiments in the form of Determined AI: searches of trials");
  app->alias("e");
  app->footer(
      "Examples:\n"
      "  volador experiment create digits.yaml . --follow\n"
      "  volador experiment list\n"
      "  volador experiment describe 7\n"
      "  volador experiment pause 7\n"
      "  volador experiment preview-search digits.yaml      without a cluster\n"
      "`volador trial` and `volador checkpoint` have the commands of their trials and checkpoints.");
  return app;
}

void ExperimentConfigCommand::declare_config(CLI::App& app) {
  app.add_option("config", file_, "YAML or JSON file of the experiment configuration")->required()->type_name("CONFIG");
  app.add_option("--template", template_, "YAML file whose keys count where the configuration has none")
      ->type_name("FILE");
}

tl::expected<experiments::ConfigReading, Failure> ExperimentConfigCommand::read_config() const {
  experiments::ConfigSources sources;
  auto config = config_file(file_);
  if (!config) return fail_here(config.error());
  sources.config = std::move(*config);
  if (!template_.empty()) {
    auto below = config_file(template_);
    if (!below) return fail_here(below.error());
    sources.config_template = std::move(*below);
  }
  sources.submission.name = std::filesystem::path(file_).stem().string();
  constexpr int64_t kSeeds = int64_t{1} << 31;
  sources.submission.experiment_seed = unix_ms(SystemClock().wall()) / 1000 % kSeeds;
  return experiments::read_config(sources);
}

void ExperimentConfigCommand::print_findings(const Context& context, const Findings& findings) {
  const Terminal& terminal = context.terminal;
  const auto print = [&](const std::string& kind, const std::vector<Finding>& all, size_t left_out) {
    for (const Finding& finding : all) terminal.note(fmt::format("{}: {}", kind, finding.text()));
    if (left_out > 0) terminal.note(fmt::format("{}: {}", kind, terminal.fill("… and {} more", left_out)));
  };
  print(terminal.tr("error"), findings.errors(), findings.errors_left_out());
  print(terminal.tr("warning"), findings.warnings(), findings.warnings_left_out());
}

Outcome ExperimentConfigCommand::refuse(const Context& context, const Findings& findings) const {
  return fail(ExitCode::kConfig, Error{ErrorCode::kInvalidArgument,
                                       context.terminal.fill("{}: errors in the configuration: {}", file_,
                                                             findings.errors().size() + findings.errors_left_out())});
}

CLI::App* ExperimentValidateCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("validate", "Check a configuration: all errors and warnings at once");
  app->footer(
      "Examples:\n  volador experiment validate distributed.yaml\n"
      "  volador experiment validate distributed.yaml --template=site.yaml --json | jq '.errors[].message'\n"
      "Exit code 3: the configuration has errors.");
  declare_config(*app);
  declare_json(*app);
  return app;
}

Outcome ExperimentValidateCommand::run(const Context& context) {
  const auto reading = read_config();
  if (!reading) return tl::unexpected(reading.error());
  const Findings& findings = reading->findings;
  if (wants_json()) {
    nlohmann::ordered_json json{{"api_version", "v1"}, {"valid", reading->is_valid()}};
    json["errors"] = json_of_findings(findings.errors());
    json["warnings"] = json_of_findings(findings.warnings());
    context.terminal.print(text_of(json));
    return reading->is_valid() ? Outcome() : fail(ExitCode::kConfig, Error{ErrorCode::kInvalidArgument, ""});
  }
  print_findings(context, findings);
  if (!reading->is_valid()) return refuse(context, findings);
  context.terminal.print(context.terminal.fill("{}: the configuration is valid", file()) + "\n");
  return {};
}

CLI::App* ExperimentShowConfigCommand::declare(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("config", "Print the complete configuration with its defaults, secrets hidden, as YAML");
  app->footer(
      "Examples:\n  volador experiment config distributed.yaml\n"
      "  volador experiment config distributed.yaml --json | jq '.searcher'\n"
      "  volador experiment config 7                        of an experiment of the cluster\n"
      "The seed is the time of day where the configuration has none, and the name is that of the file.");
  declare_config(*app);
  app->add_flag("--original", original_, "Of an experiment: as it was given");
  declare_connection(*app);
  return app;
}

Outcome ExperimentShowConfigCommand::show_of_experiment(const Context& context, int64_t id) const {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::GetExperimentRequest request;
  request.set_id(id);
  const auto experiment = (*api)->call<v1::ExperimentInfo>("Experiments/GetExperiment", request);
  if (!experiment) return fail(experiment.error());
  if (original_) {
    context.terminal.print(experiment->original_config());
    return {};
  }
  const auto config = yaml::read(experiment->config(), "config");
  if (!config) return fail(Error{ErrorCode::kInternal, config.error().text()});
  context.terminal.print(wants_json() ? yaml::json_text(config->root, 2) + "\n" : yaml::yaml_text(config->root));
  return {};
}

Outcome ExperimentShowConfigCommand::run(const Context& context) {
  int64_t id = 0;
  const auto number = std::from_chars(file().data(), file().data() + file().size(), id);
  std::error_code code;
  if (number.ec == std::errc() && number.ptr == file().data() + file().size() && !std::filesystem::exists(file(), code))
    return show_of_experiment(context, id);
  const auto reading = read_config();
  if (!reading) return tl::unexpected(reading.error());
  print_findings(context, reading->findings);
  if (!reading->is_valid()) return refuse(context, reading->findings);
  context.terminal.print(wants_json() ? json_of(*reading->config, Secrets::kHidden) + "\n"
                                      : yaml_of(*reading->config, Secrets::kHidden));
  return {};
}

CLI::App* ExperimentPreviewCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("preview-search", "Show how many trials a search runs, and for how long");
  app->footer(
      "Examples:\n  volador experiment preview-search adaptive.yaml\n"
      "  volador experiment preview-search adaptive.yaml --seed=7 --json | jq '.rows'\n"
      "The search is simulated with random metrics, or with time_metric counted by its brackets.");
  declare_config(*app);
  declare_json(*app);
  app->add_option("--seed", seed_, "Seed of the simulation")->type_name("N");
  return app;
}

Outcome ExperimentPreviewCommand::run(const Context& context) {
  const auto reading = read_config();
  if (!reading) return tl::unexpected(reading.error());
  print_findings(context, reading->findings);
  if (!reading->is_valid()) return refuse(context, reading->findings);
  const auto reply = experiments::preview_reply(*reading->config, seed_, context.terminal.language());
  if (!reply) return fail(ExitCode::kConfig, reply.error());
  if (!wants_json()) {
    context.terminal.print(reply->text());
    return {};
  }
  nlohmann::ordered_json json{{"api_version", "v1"}};
  json.update(nlohmann::ordered_json::parse(reply->preview()));
  context.terminal.print(text_of(json));
  return {};
}

}  // namespace volador::cli
