#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "cli/command.h"
#include "cli/commands/dashboard_command.h"
#include "cli/commands/demo_command.h"
#include "cli/commands/experiment_command.h"
#include "cli/commands/group_command.h"
#include "cli/commands/job_command.h"
#include "cli/commands/katib_command.h"
#include "cli/commands/login_commands.h"
#include "cli/commands/model_command.h"
#include "cli/commands/process_commands.h"
#include "cli/commands/query_commands.h"
#include "cli/commands/resource_commands.h"
#include "cli/commands/run_trial_command.h"
#include "cli/commands/start_command.h"
#include "cli/commands/stop_command.h"
#include "cli/commands/storage_command.h"
#include "cli/commands/study_command.h"
#include "cli/commands/tensorboard_command.h"
#include "cli/commands/token_command.h"
#include "cli/commands/top_command.h"
#include "cli/commands/train_commands.h"
#include "cli/commands/trial_command.h"
#include "cli/commands/tune_command.h"
#include "cli/commands/user_command.h"
#include "cli/commands/version_command.h"
#include "cli/commands/view_command.h"
#include "cli/completion.h"
#include "runtime/config.h"
#include "runtime/nearest_word.h"
#include "runtime/settings.h"

namespace volador::cli {

namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  volador start --head              a cluster on this machine\n"
    "  volador status\n"
    "  volador stop\n"
    "Exit codes: 0 done · 1 failed · 2 usage · 3 configuration · 4 head unreachable · 5 access refused · 6 not found · "
    "7 infeasible · 8 timed out";

std::vector<std::string> names_of_subcommands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

// The innermost subcommand that was parsed.
const CLI::App& innermost(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : innermost(*parsed.front());
}

std::string path_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : path_of(*app.get_parent()) + " " + app.get_name();
}

// Replaces CLI11's message about unknown words, which names neither the nearest known word nor the help.
std::string explain(const CLI::App& root, const CLI::ParseError& error, const Terminal& terminal) {
  const CLI::App& app = innermost(root);
  const std::string help = terminal.fill("See {} --help", path_of(app));
  auto hint = [](const std::string& word, const std::vector<std::string>& known) {
    const std::string meant = did_you_mean(word, known);
    return meant.empty() ? std::string(".") : meant;
  };
  const auto unknown = root.remaining(true);
  if (!unknown.empty()) {
    const std::string& word = unknown.front();
    if (word.starts_with('-')) {
      const std::string flag = word.substr(0, word.find('='));
      return terminal.fill("{}: there is no flag {}{} {}", path_of(app), flag, hint(flag, flags_of(app)), help);
    }
    const auto known = names_of_subcommands(app);
    if (!known.empty())
      return terminal.fill("{}: there is no command \"{}\"{} {}", path_of(app), word, hint(word, known), help);
    return terminal.fill("{}: \"{}\" is one word too many. {}", path_of(app), word, help);
  }
  const auto known = names_of_subcommands(app);
  if (!known.empty())
    return terminal.fill("{}: which command? {}. {}", path_of(app), fmt::format("{}", fmt::join(known, ", ")), help);
  return fmt::format("{}: {}. {}", path_of(app), error.what(), help);
}

// CLI11 takes the next argument as the value of `--notes=`. An argument of its own can be empty.
std::vector<std::string> with_empty_values(const std::vector<std::string>& arguments) {
  std::vector<std::string> out;
  bool ours = true;  // Those after -- are a command's.
  for (const std::string& argument : arguments) {
    ours = ours && argument != "--";
    const bool is_empty = ours && argument.starts_with("--") && argument.find('=') == argument.size() - 1;
    out.push_back(is_empty ? argument.substr(0, argument.size() - 1) : argument);
    if (is_empty) out.emplace_back();
  }
  return out;
}

// Returns the language from VOLADOR_LANG or the configuration file; no value: the locale decides. Errors of the file
// are reported by the commands that need it.
std::optional<Language> language_setting(const PathEnvironment& environment) {
  const auto paths = Paths::from(environment);
  if (!paths) return std::nullopt;
  const auto config = load_config(volador_settings(), {.named = std::nullopt, .user = paths->user_config()},
                                  environment_of_this_process(), {});
  if (!config || !config->is_set("lang")) return std::nullopt;
  return config->text("lang") == "zh" ? Language::kChinese : Language::kEnglish;
}

// In the order shown by help.
std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  const auto add = [&](std::unique_ptr<Command> command) { commands.push_back(std::move(command)); };
  add(std::make_unique<StartCommand>());
  add(std::make_unique<StopCommand>());
  add(std::make_unique<StatusCommand>());
  add(std::make_unique<TopCommand>());
  add(std::make_unique<ListCommand>());
  add(std::make_unique<MemoryCommand>());
  add(std::make_unique<LogsCommand>());
  add(std::make_unique<ExplainCommand>());
  add(std::make_unique<StackCommand>());
  add(std::make_unique<DebugCommand>());
  add(std::make_unique<TimelineCommand>());
  add(std::make_unique<DrainCommand>());
  add(std::make_unique<KillCommand>());
  add(std::make_unique<LoginCommand>());
  add(std::make_unique<LogoutCommand>());
  add(std::make_unique<WhoAmICommand>());
  add(std::make_unique<UserCommand>());
  add(std::make_unique<GroupCommand>());
  add(std::make_unique<TokenCommand>());
  add(std::make_unique<JobCommand>());
  add(std::make_unique<ExperimentCommand>());
  add(std::make_unique<TrialCommand>());
  add(std::make_unique<CheckpointCommand>());
  add(std::make_unique<ApplyCommand>());
  add(std::make_unique<GetCommand>());
  add(std::make_unique<DescribeCommand>());
  add(std::make_unique<DeleteCommand>());
  add(std::make_unique<WatchCommand>());
  add(std::make_unique<ModelCommand>());
  add(std::make_unique<TensorBoardCommand>());
  add(std::make_unique<TuneCommand>());
  add(std::make_unique<TrainCommand>());
  add(std::make_unique<StorageCommand>());
  add(std::make_unique<StudyCommand>());
  add(std::make_unique<KatibCommand>());
  add(std::make_unique<DashboardCommand>());
  add(std::make_unique<ViewCommand>());
  add(std::make_unique<DemoCommand>());
  add(std::make_unique<VersionCommand>());
  add(std::make_unique<CompletionCommand>());
  add(std::make_unique<JobHostCommand>());
  return commands;
}

// `volador experiment` with the command of trials alone: a trial needs no other, and declaring all takes 2 ms.
class TrialCommands final : public CommandGroup {
 public:
  TrialCommands() { add(std::make_unique<RunTrialCommand>()); }
  CLI::App* declare(CLI::App& root) override { return declare_group(root, "experiment", ""); }
};

int run_one_of(std::vector<std::unique_ptr<Command>> known, const std::vector<std::string>& arguments,
               const PathEnvironment& environment, ProcessTitle& title) {
  CLI::App root("Volador: a distributed actor runtime for training and tuning models.", "volador");
  root.footer(kFooter);
  root.set_version_flag("--version", version_line);
  root.require_subcommand(1);
  root.get_formatter()->column_width(34);

  std::vector<std::pair<CLI::App*, std::unique_ptr<Command>>> commands;
  for (std::unique_ptr<Command>& command : known) {
    CLI::App* app = command->declare(root);
    commands.emplace_back(app, std::move(command));
  }

  Terminal terminal(Terminal::options_of_this_process());
  if (const auto language = language_setting(environment)) terminal.set_language(*language);
  if (!arguments.empty() && arguments.front() == "__complete") {
    for (const std::string& candidate : completions(root, {arguments.begin() + 1, arguments.end()}))
      terminal.print(candidate + "\n");
    return 0;
  }

  terminal.set_json(std::find(arguments.begin(), arguments.end(), "--json") != arguments.end());
  auto end = [&](const Failure& failure) {
    // Without a message the exit code is that of a command, which has told why.
    if (!failure.error.message.empty()) terminal.print(failure);
    return static_cast<int>(failure.exit_code);
  };
  try {
    std::vector<std::string> reversed = with_empty_values(arguments);
    std::reverse(reversed.begin(), reversed.end());  // The order that CLI11 expects.
    root.parse(reversed);
  } catch (const CLI::Success& asked) {  // --help and --version.
    return root.exit(asked);
  } catch (const CLI::ParseError& error) {
    return end({ExitCode::kUsage, {ErrorCode::kInvalidArgument, explain(root, error, terminal)}});
  }

  auto paths = Paths::from(environment);
  if (!paths) return end({ExitCode::kConfig, paths.error()});
  const auto chosen =
      std::find_if(commands.begin(), commands.end(), [](const auto& entry) { return entry.first->parsed(); });
  terminal.set_json(chosen->second->wants_json());
  const Outcome outcome = chosen->second->run({.terminal = terminal, .paths = *paths, .title = title});
  return outcome ? 0 : end(outcome.error());
}

}  // namespace

int run_command_line(const std::vector<std::string>& arguments, const PathEnvironment& environment,
                     ProcessTitle& title) {
  return run_one_of(all_commands(), arguments, environment, title);
}

int run_trial_command(const PathEnvironment& environment, ProcessTitle& title) {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<TrialCommands>());
  return run_one_of(std::move(commands), {"experiment", "run-trial"}, environment, title);
}

}  // namespace volador::cli
