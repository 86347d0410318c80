#include "cli/commands/tune_control_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/commands/tune_command.h"
#include "cli/commands/tune_run_command.h"
#include "cli/render/json_text.h"
#include "runtime/control/cluster_api.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/random.h"
#include "tune/execution/start_order.h"
#include "tune/execution/this_program.h"
#include "tune/results/experiment_directory.h"
#include "tune/results/saved_run.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using tune::RequestAct;

constexpr milliseconds kTakenWithin{10'000};  // Programs poll ten times a second.

tl::expected<tune::TrialId, Failure> trial_of(const fs::path& directory, const std::string& id, bool may_have_ended) {
  const auto journal = tune::load_journal(directory);
  if (!journal) return refuse_run(journal.error());
  const std::vector<tune::Trial> trials = tune::suggested_trials(*journal);
  const auto found = tune::find_trial(trials, tune::id_of_name(directory, id));
  if (!found) return fail(found.error());
  if (may_have_ended) return (*found)->id;
  const auto run = tune::load_run(directory);
  for (const tune::Trial& trial : run ? run->analysis.trials() : std::vector<tune::Trial>()) {
    if (trial.id == (*found)->id && tune::has_ended(trial.status))
      return fail(Error{ErrorCode::kNotFound, fmt::format("trial {} has ended ({}); nothing of it runs",
                                                          to_string(trial.id), tune::to_string(trial.status))});
  }
  return (*found)->id;
}

void declare_names(CLI::App& app, std::string& experiment, std::string& trial) {
  app.add_option("experiment", experiment, "Directory or name of the run, or the start of its name")->required();
  app.add_option("trial", trial, "Id of a trial, the start of its id, or its name; by default the whole experiment");
}

}  // namespace

CLI::App* TuneControlCommand::declare(CLI::App& root) {
  const bool stops = act_ == RequestAct::kStop;
  CLI::App* app = root.add_subcommand(
      std::string(tune::to_string(act_)),
      stops ? "Stop a running experiment, or one of its trials: checkpoints are saved, results are kept"
            : "Pause a running experiment, or one of its trials: checkpoints are saved, resources are released");
  std::string examples =
      "Examples:\n  volador tune VERB ~/volador_results/digits_2026-11-21_10-02-11\n"
      "  volador tune VERB digits               the one run that goes on and starts so, here or in the cluster\n"
      "  volador tune VERB digits 3f2a          one trial; the others go on";
  if (!stops) examples += "\n  volador tune resume digits 3f2a        it goes on";
  for (size_t at; (at = examples.find("VERB")) != std::string::npos;) examples.replace(at, 4, tune::to_string(act_));
  app->footer(examples);
  declare_names(*app, experiment_, trial_);
  if (stops) declare_yes(*app);
  declare_connection(*app);
  return app;
}

Outcome TuneControlCommand::run(const Context& context) {
  const auto found = directory();
  if (!found) return tl::unexpected(found.error());
  if (act_ == RequestAct::kStop) {
    const std::string question = trial_.empty() ? context.terminal.fill("Stop experiment {}?", experiment_)
                                                : context.terminal.fill("Stop trial {} of {}?", trial_, experiment_);
    if (auto agreed = confirm(context, question); !agreed) return agreed;
  }
  return ask(*found, context);
}

tl::expected<std::optional<fs::path>, Failure> TuneControlCommand::directory() const {
  std::error_code code;
  if (fs::is_directory(experiment_, code)) return fs::path(experiment_);
  if (experiment_.find('/') != std::string::npos)
    return refuse_run({ErrorCode::kNotFound,
                       fmt::format("{}: there is no such directory; volador tune list shows runs", experiment_)});
  const fs::path folder = tune::default_storage_path();
  if (fs::is_directory(folder / experiment_, code))
    return folder / experiment_;  // A whole name takes precedence over prefixes.
  std::vector<fs::path> found;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    if (at->path().filename().string().starts_with(experiment_) && tune::is_driven(at->path()))
      found.push_back(at->path());
  }
  if (found.empty()) return std::optional<fs::path>();
  if (found.size() == 1) return found.front();
  std::sort(found.begin(), found.end());
  return fail(
      Error{ErrorCode::kNotFound,
            fmt::format("{} runs that go on start with \"{}\", {} and {} among them; give more of the name",
                        found.size(), experiment_, found[0].filename().string(), found[1].filename().string())});
}

Outcome TuneControlCommand::ask(const std::optional<fs::path>& directory, const Context& context) const {
  const auto asked = directory ? ask_here(*directory) : ask_cluster(context);
  if (!asked) return tl::unexpected(asked.error());
  context.terminal.print(wants_json() ? text_of({{"api_version", "v1"},
                                                 {"act", std::string(tune::to_string(act_))},
                                                 {"experiment", asked->experiment},
                                                 {"trial", asked->trial}})
                                      : outcome_text(*asked));
  return {};
}

std::string TuneControlCommand::outcome_text(const Asked& asked) const {
  const bool whole = asked.trial.empty();
  const std::string what = whole ? asked.experiment : fmt::format("trial {} of {}", asked.trial, asked.experiment);
  switch (act_) {
    case RequestAct::kStop:
      return what + (whole ? " stops: its trials finish their step, save a checkpoint where they can, and end\n"
                           : " stops after its step; the others go on\n");
    case RequestAct::kPause:
      return what + (whole ? " pauses: its trials finish their step and save a checkpoint; nothing starts\n"
                           : " pauses after its step, once its checkpoint is saved; the others go on\n");
    case RequestAct::kAdd:
      if (!whole)
        return fmt::format("{} has a clone of trial {}: it starts behind the trials that wait already\n",
                           asked.experiment, asked.trial);
      return what + " has it: it starts behind the trials that wait already\n";
    case RequestAct::kResume:
      break;
  }
  return what +
         (whole ? " goes on: what was paused waits for places again\n" : " goes on, once there is a place for it\n");
}

tl::expected<TuneControlCommand::Asked, Failure> TuneControlCommand::ask_here(const fs::path& directory) const {
  if (!fs::exists(tune::journal_path(directory)))
    return refuse_run(
        {ErrorCode::kNotFound, fmt::format("{}: it holds no run; volador tune list shows runs", directory.string())});
  if (!tune::is_driven(directory)) return refuse_run(tune::no_program(directory));
  Asked asked{.experiment = directory.string(), .trial = {}};
  std::optional<tune::TrialId> trial;
  if (!trial_.empty()) {
    const auto found = trial_of(directory, trial_, act_ == RequestAct::kAdd);
    if (!found) return tl::unexpected(found.error());
    trial = *found;
    asked.trial = to_string(*trial);
  }
  const auto request = write_request(directory, trial);
  if (!request) return fail_here(request.error());
  const auto taken = tune::await_request(directory, *request, kTakenWithin);
  if (taken) return asked;
  return taken.error().code == ErrorCode::kNotFound ? refuse_run(taken.error()) : fail(taken.error());
}

Result<fs::path> TuneControlCommand::write_request(const fs::path& directory,
                                                   std::optional<tune::TrialId> trial) const {
  SystemRandom random;
  if (act_ != RequestAct::kAdd) return tune::ask_of_experiment(directory, act_, trial, random);
  const auto config = tune::Config::from_json(config_);
  if (!config) return make_error(config.error());
  return tune::ask_to_add(directory, *config, trial, random);
}

tl::expected<TuneControlCommand::Asked, Failure> TuneControlCommand::ask_cluster(const Context& context) const {
  const std::string local =
      fmt::format("no run of {} that goes on starts with \"{}\"", tune::default_storage_path().string(), experiment_);
  auto api = connect(context);
  if (!api) {
    return refuse_run({ErrorCode::kNotFound,
                       fmt::format("{}; give its directory (volador tune list shows runs). No cluster was asked: {}",
                                   local, api.error().error.message)});
  }
  v1::ControlExperimentRequest request;
  request.set_experiment(experiment_);
  request.set_trial(trial_);
  request.set_act(std::string(tune::to_string(act_)));
  request.set_config(config_);
  SystemRandom random;
  request.set_request_id(fmt::format("{:016x}", random.next()));
  const auto reply = (*api)->call<v1::ControlExperimentReply>("Cluster/ControlExperiment", request);
  if (!reply) return fail(reply.error());
  return Asked{reply->experiment(), reply->trial()};
}

CLI::App* TuneResumeCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "resume", "Resume a run: start its program again if it has ended, or continue what was paused");
  app->footer(
      "Examples:\n  volador tune resume ~/volador_results/digits_2026-11-21_10-02-11      its program has ended: it is "
      "started again, as it "
      "was started, in its folder\n"
      "  volador tune resume digits             a running experiment that was paused\n"
      "  volador tune resume digits 3f2a        a trial that was paused\n"
      "Where it starts a program, the exit code is that of the program.");
  declare_names(*app, experiment_, trial_);
  declare_connection(*app);
  return app;
}

Outcome TuneResumeCommand::run(const Context& context) {
  const auto found = directory();
  if (!found) return tl::unexpected(found.error());
  if (!*found || tune::is_driven(**found)) return ask(*found, context);
  if (!trial_.empty()) return refuse_run(tune::no_program(**found));
  auto program = program_to_start(**found, context);
  if (!program) return tl::unexpected(program.error());
  return fail_here(tune::become(*program, tune::environment_of({tune::StartOrder::Kind::kResume, **found, {}})));
}

CLI::App* TuneAddCommand::declare(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("add", "Add a configuration to a running experiment, besides those of its searcher");
  app->footer(
      "Examples:\n  volador tune add ~/volador_results/digits_2026-11-21_10-02-11 '{\"lr\": 0.01}'\n"
      "  volador tune add digits '{\"lr\": 0.01, \"model\": {\"width\": 64}}'   the one run that goes on and "
      "starts so, here or in the cluster\n"
      "  volador tune add digits --like=3f2a '{\"lr\": 0.01}'   the parameters of trial 3f2a, with another lr\n"
      "  volador tune add digits --like=3f2a                   the same parameters once more, with another seed\n"
      "Parameters that are left out are those of the trial of --like, or drawn from the experiment's space.");
  app->add_option("experiment", experiment_, "Directory or name of the run, or the start of its name")->required();
  app->add_option("parameters", config_, "The configuration as JSON: parameters by name; by default none, with --like");
  app->add_option("--like", trial_,
                  "Clone this trial with the given parameters changed: its id, the start of its id, or its name; it "
                  "may have ended");
  declare_connection(*app);
  return app;
}

Outcome TuneAddCommand::run(const Context& context) {
  if (config_.empty() && trial_.empty())
    return usage_error(
        "parameters: expected a JSON object, as {\"lr\": 0.01}, or the trial to clone with --like=TRIAL");
  if (config_.empty()) config_ = "{}";
  const auto config = tune::Config::from_json(config_);
  if (!config || !config->is_map()) {
    return usage_error(fmt::format("parameters: expected a JSON object, as {{\"lr\": 0.01}}, got {}{}", config_,
                                   config ? "" : " (" + config.error().message + ")"));
  }
  const auto found = directory();
  if (!found) return tl::unexpected(found.error());
  return ask(*found, context);
}

}  // namespace volador::cli
