#include "cli/commands/tune_checkpoint_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cli/commands/tune_command.h"
#include "cli/render/json_text.h"
#include "cli/render/table.h"
#include "cli/run_directory.h"
#include "runtime/files/directory_archive.h"
#include "runtime/quantities.h"
#include "tune/execution/checkpoint_store.h"
#include "tune/results/saved_run.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;
using tune::StoredCheckpoint;

constexpr const char* kTrialHelp = "Id of the trial, or its start";

nlohmann::ordered_json checkpoint_json(const tune::Trial& trial, const StoredCheckpoint& checkpoint) {
  return {{"trial_id", to_string(trial.id)},
          {"step", checkpoint.step},
          {"attempt", checkpoint.attempt},
          {"bytes", checkpoint.bytes()},
          {"saved_wall_ns", checkpoint.saved.time_since_epoch().count()},
          {"directory", checkpoint.directory.string()}};
}

std::string steps_text(const std::vector<StoredCheckpoint>& checkpoints) {
  std::string text;
  for (const StoredCheckpoint& one : checkpoints) text += fmt::format("{}{}", text.empty() ? "" : ", ", one.step);
  return text;
}

}  // namespace

TuneCheckpointCommand::TuneCheckpointCommand() {
  add(std::make_unique<TuneCheckpointListCommand>());
  add(std::make_unique<TuneCheckpointExtractCommand>());
}

CLI::App* TuneCheckpointCommand::declare(CLI::App& root) {
  CLI::App* app = declare_group(root, "checkpoint", "List the checkpoints of a run, and unpack one");
  app->footer(
      "Examples:\n  volador tune checkpoint list DIR\n  volador tune checkpoint extract DIR 3f2a --out=best_model");
  return app;
}

CLI::App* TuneCheckpointListCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("list", "List checkpoints: trial, step, size, place; of all trials or of one");
  app->footer(
      "Examples:\n  volador tune checkpoint list DIR\n  volador tune checkpoint list DIR 3f2a --json | jq "
      "'.checkpoints[-1].directory'");
  app->add_option("directory", directory_, kRunDirectoryHelp)->required();
  app->add_option("trial", trial_, "Id of a trial, or its start; all trials where not given");
  declare_json(*app);
  return app;
}

Outcome TuneCheckpointListCommand::run(const Context& context) {
  const auto directory = run_directory(directory_);
  if (!directory) return tl::unexpected(directory.error());
  const auto run = tune::load_run(*directory);
  if (!run) return refuse_run(run.error());
  std::vector<const tune::Trial*> trials;
  if (trial_.empty()) {
    for (const tune::Trial& trial : run->analysis.trials()) trials.push_back(&trial);
  } else {
    const auto found = tune::find_trial(run->analysis.trials(), trial_);
    if (!found) return fail(found.error());
    trials.push_back(*found);
  }
  const tune::CheckpointStore store(*directory);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  Table table({{"trial"}, {"step", Align::kRight}, {"size", Align::kRight}, {"directory"}});
  for (const tune::Trial* trial : trials) {
    const tune::FoundCheckpoints found = store.list(folder_of(*trial));
    for (const std::string& torn : found.torn) context.terminal.note(torn);
    for (const StoredCheckpoint& one : found.valid) {
      rows.push_back(checkpoint_json(*trial, one));
      table.add({to_string(trial->id), std::to_string(one.step), format_bytes(one.bytes()),
                 printable(one.directory.string())});
    }
  }
  if (wants_json()) {
    context.terminal.print(text_of({{"api_version", "v1"}, {"checkpoints", std::move(rows)}}));
  } else {
    context.terminal.print(rows.empty() ? "no checkpoints\n" : table.text());
  }
  return {};
}

CLI::App* TuneCheckpointExtractCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("extract", "Unpack a checkpoint: the files that save_checkpoint wrote");
  app->footer(
      "Examples:\n  volador tune checkpoint extract DIR 3f2a --out=model              the last one of trial 3f2a…\n"
      "  volador tune checkpoint extract DIR 3f2a --step=10 --out=model");
  app->add_option("directory", directory_, kRunDirectoryHelp)->required();
  app->add_option("trial", trial_, kTrialHelp)->required();
  app->add_option("--step", step_, "Of this step; the last one where not given")
      ->check(positive_number())
      ->type_name("INTEGER");
  app->add_option("--out", out_, "Folder for its files, which does not exist yet or is empty")
      ->required()
      ->type_name("FOLDER");
  declare_json(*app);
  return app;
}

Outcome TuneCheckpointExtractCommand::run(const Context& context) {
  const auto directory = run_directory(directory_);
  if (!directory) return tl::unexpected(directory.error());
  const auto run = tune::load_run(*directory);
  if (!run) return refuse_run(run.error());
  const auto trial = tune::find_trial(run->analysis.trials(), trial_);
  if (!trial) return fail(trial.error());
  const fs::path out = out_;
  std::error_code code;
  if (fs::exists(out, code) && !(fs::is_directory(out, code) && fs::is_empty(out, code)))
    return usage_error(fmt::format("--out: {} is not an empty folder; name another one", out_));
  const tune::FoundCheckpoints found = tune::CheckpointStore(*directory).list(folder_of(**trial));
  for (const std::string& torn : found.torn) context.terminal.note(torn);
  const StoredCheckpoint* chosen = nullptr;
  for (const StoredCheckpoint& one : found.valid) {
    if (step_ == 0 || one.step == step_) chosen = &one;
  }
  if (chosen == nullptr && found.valid.empty())
    return fail({ErrorCode::kNotFound,
                 fmt::format("trial {} has no checkpoint; volador tune checkpoint list {} shows those of the run",
                             to_string((*trial)->id), directory_)});
  if (chosen == nullptr)
    return fail({ErrorCode::kNotFound, fmt::format("trial {} has no checkpoint of step {}; it has those of {}",
                                                   to_string((*trial)->id), step_, steps_text(found.valid))});
  if (out.has_parent_path()) fs::create_directories(out.parent_path(), code);  // Unpacking reports errors.
  if (auto unpacked = unpack_archives(chosen->archives(), out); !unpacked) return fail_here(unpacked.error());
  if (wants_json()) {
    nlohmann::ordered_json json{{"api_version", "v1"}, {"files", fs::absolute(out).string()}};
    json.update(checkpoint_json(**trial, *chosen));
    context.terminal.print(text_of(json));
  } else {
    context.terminal.print(fmt::format("checkpoint of trial {} at step {} is in {}\n", to_string((*trial)->id),
                                       chosen->step, printable(out.string())));
  }
  return {};
}

}  // namespace volador::cli
