#include "cli/commands/train_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "cli/commands/tune_command.h"
#include "cli/render/json_text.h"
#include "cli/render/json_view.h"
#include "cli/render/row_view.h"
#include "cli/render/table.h"
#include "cli/render/tune_view.h"
#include "cli/run_directory.h"
#include "runtime/control/cluster_api.h"
#include "runtime/nearest_word.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/protocol/volador/v1/live.pb.h"
#include "tune/results/saved_run.h"

namespace volador::cli {
namespace {

constexpr int kRowsMax = 20'000;     // Experiments of the head that are searched.
constexpr size_t kTrialsMax = 5000;  // Rows of a run: itself and its ranks.

// As train::is_training_run(); this binary does not link train/.
bool is_training_run(std::string_view scheduler) { return scheduler == "train" || scheduler.starts_with("train: "); }

std::string scheduler_of(const nlohmann::json& row) {
  const auto scheduler = row.find("scheduler");
  return scheduler != row.end() && scheduler->is_object() ? scheduler->value("text", "") : "";
}

}  // namespace

TrainCommand::TrainCommand() {
  add(std::make_unique<TrainListCommand>());
  add(std::make_unique<TrainShowCommand>());
  add(std::make_unique<TrainLogsCommand>());
  add(std::make_unique<TrainStopCommand>());
}

CLI::App* TrainCommand::declare(CLI::App& root) {
  CLI::App* app = declare_group(root, "train", "Show and stop training runs, and print the output of their ranks");
  app->footer("Examples:\n  volador train list\n  volador train show digits\n  volador train logs digits --rank=1");
  return app;
}

CLI::App* TrainListCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("list", "List training runs of a cluster: state, best value, newest first");
  app->footer(
      "Examples:\n  volador train list --state=running\n  volador train list --json | jq '.runs[].best.value'\n"
      "The column trials counts the run itself and its ranks. volador tune list shows runs on disk, without a "
      "cluster.");
  app->add_option("--state", state_, "Only runs of this state")->type_name("STATE");
  app->add_option("--limit", limit_, "Show at most this many runs; 100 by default")
      ->check(CLI::Range(1, kRowsMax))
      ->type_name("INTEGER");
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome TrainListCommand::run(const Context& context) {
  const std::vector<std::string> states{"running", "finished", "failed", "interrupted", "crashed"};
  if (!state_.empty() && std::find(states.begin(), states.end(), state_) == states.end())
    return usage_error(fmt::format("--state: expected {}, got \"{}\"{}", fmt::join(states, ", "), state_,
                                   did_you_mean(state_, states)));
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::ListRowsRequest request;
  request.set_topic("experiments");
  request.set_order("-started_ms");
  request.set_page_size(kRowsMax);
  if (!state_.empty()) request.set_filter("state=" + state_);
  const auto reply = (*api)->call<v1::ListRowsReply>("Live/List", request);
  if (!reply) return fail(reply.error());
  const auto page = nlohmann::json::parse(reply->json(), nullptr, /*allow_exceptions=*/false);
  if (!page.is_object())
    return fail(Error{ErrorCode::kInternal, "the head answered a list of experiments that is no JSON object"});
  auto rows = nlohmann::json::array();
  int64_t total = 0;
  for (const auto& row : page.value("rows", nlohmann::json::array())) {
    if (!row.is_object() || !is_training_run(scheduler_of(row))) continue;
    if (++total <= limit_) rows.push_back(row);
  }
  if (wants_json()) {
    nlohmann::ordered_json json{{"api_version", "v1"}};
    json["total"] = total;
    json["runs"] = std::move(rows);
    context.terminal.print(text_of(json));
    return {};
  }
  context.terminal.print(experiments_text({{"rows", std::move(rows)}, {"total", total}}, table_terminal(context)));
  return {};
}

CLI::App* TrainShowCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("show", "Show a training run: its state, last metrics, ranks and faults");
  app->footer(
      "Examples:\n  volador train show digits         the newest run of this name\n"
      "  volador train show DIR --json | jq '.trials[0].last_result'");
  app->add_option("directory", directory_, kRunDirectoryHelp)->required();
  declare_wide(*app);
  declare_json(*app);
  return app;
}

Outcome TrainShowCommand::run(const Context& context) {
  const auto directory = run_directory(directory_);
  if (!directory) return tl::unexpected(directory.error());
  const auto run = tune::load_run(*directory);
  if (!run) return refuse_run(run.error());
  if (!is_training_run(run->analysis.state().scheduler))
    return refuse_run({ErrorCode::kNotFound,
                       fmt::format("{}: it is a run of tune::run, not a training run; volador tune show {} shows it",
                                   directory->string(), directory_)});
  context.terminal.print(wants_json() ? run_json(*run) : run_text(*run, kTrialsMax, table_terminal(context)));
  return {};
}

CLI::App* TrainLogsCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("logs", "Print the output of a rank of a training run");
  app->footer("Examples:\n  volador train logs digits\n  volador train logs digits --rank=3 --follow");
  app->add_option("run", run_, "Name of the run, or the start of it: the newest run of a name counts")->required();
  app->add_option("--rank", rank_, "Rank; 0 by default")->check(CLI::Range(0, 1'000'000))->type_name("INTEGER");
  app->add_flag("-f,--follow", follow_, "Print new lines as they are written, until Ctrl-C");
  app->add_option("--tail", tail_, "Start with this many of the last lines; 100 by default")
      ->check(CLI::Range(1, 10'000))
      ->type_name("LINES");
  declare_connection(*app);
  return app;
}

Outcome TrainLogsCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::LogsRequest request;
  request.set_id(fmt::format("{}/rank {}", run_, rank_));
  request.set_follow(follow_);
  request.set_tail(tail_);
  const auto ended = (*api)->logs(request, [&](const v1::LogLine& line) {
    context.terminal.print(wants_json() ? log_line_json(line) : printable_line(line.text()) + "\n");
    return true;
  });
  if (!ended) return fail(ended.error());
  return {};
}

CLI::App* TrainStopCommand::declare(CLI::App& root) {
  CLI::App* app = TuneControlCommand::declare(root);
  app->description("Stop a training run after its iteration: its program saves what it saves at an end");
  app->footer(
      "Examples:\n  volador train stop digits              the one run that goes on and starts so, here or in the "
      "cluster\n"
      "  volador train stop ~/volador_results/digits_2026-11-21_10-02-11");
  return app;
}

}  // namespace volador::cli
