#include "cli/commands/tune_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/commands/tune_checkpoint_command.h"
#include "cli/commands/tune_control_command.h"
#include "cli/commands/tune_plot_command.h"
#include "cli/commands/tune_run_command.h"
#include "cli/render/tune_view.h"
#include "cli/run_directory.h"
#include "runtime/files/durable_file.h"
#include "runtime/nearest_word.h"
#include "runtime/quantities.h"
#include "tune/results/experiment_directory.h"

namespace volador::cli {

tl::unexpected<Failure> refuse_run(Error error) {
  const bool absent = error.code == ErrorCode::kNotFound;
  return fail(absent ? ExitCode::kNotFound : ExitCode::kFailed, std::move(error));
}

tl::expected<size_t, Failure> choice_of(std::string_view flag, const std::string& word,
                                        const std::vector<std::string>& known) {
  const auto found = std::find(known.begin(), known.end(), word);
  if (found != known.end()) return static_cast<size_t>(found - known.begin());
  return usage_error(
      fmt::format("{}: expected {}, got \"{}\"{}", flag, fmt::join(known, ", "), word, did_you_mean(word, known)));
}

TuneCommand::TuneCommand() {
  add(std::make_unique<TuneListCommand>());
  add(std::make_unique<TuneShowCommand>());
  add(std::make_unique<TuneExportCommand>());
  add(std::make_unique<TuneCompareCommand>());
  add(std::make_unique<TuneCheckpointCommand>());
  add(std::make_unique<TunePlotCommand>());
  add(std::make_unique<TuneWhyCommand>());
  add(std::make_unique<TuneResumeCommand>());
  add(std::make_unique<TuneReplayCommand>());
  add(std::make_unique<TuneControlCommand>(tune::RequestAct::kStop));
  add(std::make_unique<TuneControlCommand>(tune::RequestAct::kPause));
  add(std::make_unique<TuneAddCommand>());
  add(std::make_unique<TuneSimulateCommand>());
}

CLI::App* TuneCommand::declare(CLI::App& root) {
  CLI::App* app =
      declare_group(root, "tune", "Show, stop, pause, resume and extend runs of tune::run, and simulate searches");
  app->footer("Examples:\n  volador tune list\n  volador tune show ~/volador_results/digits_2026-11-21_10-02-11");
  return app;
}

CLI::App* TuneListCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("list", "List runs: state, trials, best value, newest first");
  app->footer(
      "Examples:\n  volador tune list\n  volador tune list /data/results --json | jq '.runs[] | select(.state == "
      "\"crashed\") | .directory'");
  app->add_option("folder", folder_, "Folder of results; ~/volador_results by default");
  declare_wide(*app);
  declare_json(*app);
  return app;
}

Outcome TuneListCommand::run(const Context& context) {
  const auto runs = tune::list_runs(folder_.empty() ? tune::default_storage_path() : std::filesystem::path(folder_),
                                    SystemClock().wall());
  if (!runs) return refuse_run(runs.error());
  context.terminal.print(wants_json() ? runs_json(*runs) : runs_text(*runs, table_terminal(context)));
  return {};
}

CLI::App* TuneShowCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("show", "Show a run: its state, best trial, all trials and failures");
  app->footer(
      "Examples:\n  volador tune show digits                                          the newest run of this name\n"
      "  volador tune show ~/volador_results/digits_2026-11-21_10-02-11\n  volador tune show DIR --json | jq "
      ".best.config");
  app->add_option("directory", directory_, kRunDirectoryHelp)->required();
  app->add_option("--limit", limit_, "Show at most this many trials, best first; 50 by default")
      ->check(CLI::Range(1, 10'000'000))
      ->type_name("INTEGER");
  declare_wide(*app);
  declare_json(*app);
  return app;
}

Outcome TuneShowCommand::run(const Context& context) {
  const auto directory = run_directory(directory_);
  if (!directory) return tl::unexpected(directory.error());
  const auto run = tune::load_run(*directory);
  if (!run) return refuse_run(run.error());
  context.terminal.print(wants_json() ? run_json(*run) : run_text(*run, limit_, table_terminal(context)));
  return {};
}

CLI::App* TuneExportCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("export", "Write all results of a run as one file");
  app->footer(
      "Examples:\n  volador tune export DIR --csv=digits.csv      a line a result, with the trial's configuration\n"
      "  volador tune export DIR --json=- | jq .       a trial each, with its results; - is stdout");
  app->add_option("directory", directory_, kRunDirectoryHelp)->required();
  app->add_option("--csv", csv_file_, "Write CSV to this file; - is stdout")->type_name("FILE");
  app->add_option("--json", json_file_, "Write JSON to this file; - is stdout")->type_name("FILE");
  return app;
}

Outcome TuneExportCommand::run(const Context& context) {
  if (csv_file_.empty() == json_file_.empty())
    return usage_error("tune export: say where to: --csv=FILE or --json=FILE, one of them");
  const auto directory = run_directory(directory_);
  if (!directory) return tl::unexpected(directory.error());
  const auto run = tune::load_run(*directory);
  if (!run) return refuse_run(run.error());
  const std::string& file = csv_file_.empty() ? json_file_ : csv_file_;
  try {
    const std::string text = csv_file_.empty() ? run->analysis.as_json() : run->analysis.as_csv();
    if (file == "-") {
      context.terminal.print(text);
      return {};
    }
    if (auto written = write_file_atomically(file, text); !written) return fail_here(written.error());
  } catch (const Exception& exception) {
    return refuse_run(exception.error());
  }
  context.terminal.note(
      fmt::format("{} in {}",
                  counted(run->analysis.trials().size(), fmt::format("trial of {} is", run->analysis.state().name),
                          fmt::format("trials of {} are", run->analysis.state().name)),
                  file));
  return {};
}

CLI::App* TuneWhyCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "why", "Explain why a trial has its values, and why it went on, paused, stopped or became a copy");
  app->footer(
      "Examples:\n  volador tune why DIR 3f2a            the trial, or the only one that starts so\n"
      "  volador tune why DIR 3f2a --json | jq '.moments[].decision'");
  app->add_option("directory", directory_, kRunDirectoryHelp)->required();
  app->add_option("trial", trial_, "Id of the trial, the start of its id, or its name")->required();
  app->add_option("--others", others_, "Show at most this many of the trials it was compared with; 10 by default")
      ->check(CLI::Range(0, 1'000'000))
      ->type_name("INTEGER");
  declare_json(*app);
  return app;
}

Outcome TuneWhyCommand::run(const Context& context) {
  const auto directory = run_directory(directory_);
  if (!directory) return tl::unexpected(directory.error());
  const auto journal = tune::load_journal(*directory);
  if (!journal) return refuse_run(journal.error());
  if (!journal->torn.empty()) context.terminal.note(fmt::format("{}: {}", directory->string(), journal->torn));
  const auto story = tune::tell_story(*journal, tune::id_of_name(*directory, trial_), others_);
  if (!story) return fail(story.error());
  context.terminal.print(wants_json() ? story_json(*story) : story_text(*story, context.terminal));
  return {};
}

CLI::App* TuneCompareCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("compare", "Compare runs: best value, its configuration, steps and time");
  app->footer(
      "Examples:\n  volador tune compare DIR DIR\n  volador tune compare ~/volador_results/digits_* --metric=loss "
      "--mode=min --scope=all");
  app->add_option("directories", directories_, "Directories or names of the runs, as volador tune show takes them")
      ->required();
  app->add_option("--metric", metric_, "Metric to compare by; by default that of the first run")->type_name("NAME");
  app->add_option("--mode", mode_, "max or min; by default that of the first run")->type_name("MODE");
  app->add_option("--scope", scope_, "Which value of a trial counts: last, all (its best) or average; last by default")
      ->type_name("SCOPE");
  declare_json(*app);
  return app;
}

Outcome TuneCompareCommand::run(const Context& context) {
  tune::Analysis::By by{.metric = metric_};
  if (!mode_.empty()) {
    const auto mode = choice_of("--mode", mode_, {"max", "min"});
    if (!mode) return tl::unexpected(mode.error());
    by.mode = *mode == 0 ? tune::Mode::kMax : tune::Mode::kMin;
  }
  const auto scope = choice_of("--scope", scope_, {"last", "all", "average"});
  if (!scope) return tl::unexpected(scope.error());
  by.scope = static_cast<tune::Scope>(*scope);
  std::vector<tune::SavedRun> runs;
  for (const std::string& named : directories_) {
    const auto directory = run_directory(named);
    if (!directory) return tl::unexpected(directory.error());
    auto run = tune::load_run(*directory);
    if (!run) return refuse_run(run.error());
    runs.push_back(std::move(*run));
  }
  const auto comparison = tune::compare_runs(runs, by);
  if (!comparison) return fail(comparison.error());
  context.terminal.print(wants_json() ? comparison_json(*comparison) : comparison_text(*comparison, context.terminal));
  return {};
}

}  // namespace volador::cli
