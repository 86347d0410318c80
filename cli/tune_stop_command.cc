#include "cli/tune_stop_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/json_text.h"
#include "cli/tune_command.h"
#include "runtime/random.h"
#include "tune/experiment_directory.h"
#include "tune/saved_run.h"
#include "tune/stop_request.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kTakenWithin{10'000};  // A program looks ten times a second.
constexpr milliseconds kLook{50};

tl::expected<tune::TrialId, Failure> trial_of(const fs::path& directory, const std::string& id) {
  const auto journal = tune::load_journal(directory);
  if (!journal) return refuse_run(journal.error());
  const std::vector<tune::Trial> trials = tune::suggested_trials(*journal);
  const auto found = tune::find_trial(trials, id);
  if (!found) return fail(found.error());
  const auto run = tune::load_run(directory);
  for (const tune::Trial& trial : run ? run->analysis.trials() : std::vector<tune::Trial>()) {
    if (trial.id == (*found)->id && tune::has_ended(trial.status))
      return fail(Error{ErrorCode::kNotFound, fmt::format("trial {} has ended ({}); there is nothing to stop",
                                                          to_string(trial.id), tune::to_string(trial.status))});
  }
  return (*found)->id;
}

Error no_program(const fs::path& directory) {
  return {ErrorCode::kNotFound,
          fmt::format("{}: no program runs it now; there is nothing to stop (volador tune show tells how it ended)",
                      directory.string())};
}

}  // namespace

CLI::App* TuneStopCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "stop", "Stop a running experiment, or one of its trials: checkpoints are saved, results are kept");
  app->footer(
      "Examples:\n  volador tune stop ~/volador_results/digits_2026-11-21_10-02-11\n"
      "  volador tune stop digits               the one run of ~/volador_results that goes on and starts so\n"
      "  volador tune stop digits 3f2a          one trial; the others go on");
  app->add_option("experiment", experiment_, "Directory of the run, or its name, or the start of it")->required();
  app->add_option("trial", trial_, "Id of a trial, or its start; the whole experiment where not given");
  declare_json(*app);
  return app;
}

tl::expected<fs::path, Failure> TuneStopCommand::directory() const {
  std::error_code code;
  if (fs::is_directory(experiment_, code)) return fs::path(experiment_);
  if (experiment_.find('/') != std::string::npos)
    return refuse_run({ErrorCode::kNotFound,
                       fmt::format("{}: there is no such directory; volador tune list shows runs", experiment_)});
  const fs::path folder = tune::default_storage_path();
  std::vector<fs::path> found;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    if (at->path().filename().string().starts_with(experiment_) && tune::is_driven(at->path()))
      found.push_back(at->path());
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return refuse_run(
        {ErrorCode::kNotFound,
         fmt::format("no run of {} that goes on starts with \"{}\"; give its directory, or see volador tune list",
                     folder.string(), experiment_)});
  }
  std::sort(found.begin(), found.end());
  return fail(
      Error{ErrorCode::kInvalidArgument,
            fmt::format("{} runs that go on start with \"{}\", {} and {} among them; give more of the name",
                        found.size(), experiment_, found[0].filename().string(), found[1].filename().string())});
}

Outcome TuneStopCommand::run(const Context& context) {
  const auto found = directory();
  if (!found) return tl::unexpected(found.error());
  const auto stopped = stop_here(*found);
  if (!stopped) return tl::unexpected(stopped.error());
  if (wants_json()) {
    context.terminal.print(text_of({{"api_version", "v1"}, {"experiment", stopped->experiment}, {"trial", stopped->trial}}));
  } else if (stopped->trial.empty()) {
    context.terminal.print(fmt::format(
        "{} stops: its trials finish their step, save a checkpoint where they can, and end\n", stopped->experiment));
  } else {
    context.terminal.print(
        fmt::format("trial {} of {} stops after its step; the others go on\n", stopped->trial, stopped->experiment));
  }
  return {};
}

tl::expected<TuneStopCommand::Stopped, Failure> TuneStopCommand::stop_here(const fs::path& directory) const {
  if (!fs::exists(tune::journal_path(directory)))
    return refuse_run(
        {ErrorCode::kNotFound, fmt::format("{}: it holds no run; volador tune list shows runs", directory.string())});
  if (!tune::is_driven(directory)) return refuse_run(no_program(directory));
  Stopped stopped{.experiment = directory.string(), .trial = {}};
  std::optional<tune::TrialId> trial;
  if (!trial_.empty()) {
    const auto found = trial_of(directory, trial_);
    if (!found) return tl::unexpected(found.error());
    trial = *found;
    stopped.trial = to_string(*trial);
  }
  SystemRandom random;
  const auto request = tune::ask_to_stop(directory, trial, random);
  if (!request) return fail_here(request.error());
  std::error_code code;
  for (milliseconds waited{0}; waited < kTakenWithin; waited += kLook) {
    if (!fs::exists(*request, code)) return stopped;
    std::this_thread::sleep_for(kLook);
  }
  const bool driven = tune::is_driven(directory);
  fs::remove(*request, code);
  if (!driven) return refuse_run(no_program(directory));
  return fail(Error{
      ErrorCode::kTimeout,
      fmt::format("{}: its program did not look for {} s; it may hang, or be of an earlier Volador: end it with Ctrl-C",
                  directory.string(), kTakenWithin.count() / 1000)});
}

}  // namespace volador::cli
