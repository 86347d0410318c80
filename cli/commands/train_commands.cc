#include "cli/commands/train_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cli/commands/tune_command.h"
#include "cli/render/json_text.h"
#include "cli/render/json_view.h"
#include "cli/render/table.h"
#include "cli/render/train_view.h"
#include "cli/render/tune_view.h"
#include "cli/run_directory.h"
#include "runtime/clock.h"
#include "runtime/control/cluster_api.h"
#include "runtime/nearest_word.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/protocol/volador/v1/live.pb.h"
#include "tune/results/saved_run.h"

namespace volador::cli {
namespace {

constexpr int kRowsMax = 20'000;                  // Experiments of the head that are searched.
constexpr std::chrono::seconds kLookInterval{1};  // Programs write the state of a run once a second at most.

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
  CLI::App* app =
      root.add_subcommand("list", "List training runs of a cluster: state, best value, time left, newest first");
  app->footer(
      "Examples:\n  volador train list --state=running\n  volador train list --json | jq '.runs[].best.value'\n"
      "volador tune list shows runs on disk, without a cluster.");
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
  std::vector<nlohmann::json> rows;
  int64_t total = 0;
  for (const auto& row : page.value("rows", nlohmann::json::array())) {
    if (!is_training_run(scheduler_of(row))) continue;
    if (++total <= limit_) rows.push_back(row);
  }
  if (wants_json()) {
    nlohmann::ordered_json json{{"api_version", "v1"}};
    json["total"] = total;
    json["runs"] = std::move(rows);
    context.terminal.print(text_of(json));
    return {};
  }
  context.terminal.print(train_runs_text(rows, table_terminal(context), unix_ms(SystemClock().wall())));
  if (total > limit_)
    context.terminal.print(context.terminal.fill("… {} more: --limit={}", total - limit_, total) + "\n");
  return {};
}

CLI::App* TrainShowCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("show", "Show a training run: its state, last metrics, ranks and faults");
  app->footer(
      "Examples:\n  volador train show digits         the newest run of this name\n"
      "  volador train show digits -f      with a bar and the time left, until the run ends\n"
      "  volador train show DIR --json | jq '.trials[0].last_result'");
  app->add_option("directory", directory_, kRunDirectoryHelp)->required();
  app->add_flag("-f,--follow", follow_, "Show progress, faults and changes as they come, until the run ends or Ctrl-C");
  declare_wide(*app);
  declare_json(*app);
  return app;
}

Outcome TrainShowCommand::run(const Context& context) {
  if (follow_ && wants_json())
    return usage_error("--follow: it prints lines for people; leave --json out, or ask again and again");
  const auto directory = run_directory(directory_);
  if (!directory) return tl::unexpected(directory.error());
  auto run = tune::load_run(*directory);
  if (!run) return refuse_run(run.error());
  if (!is_training_run(run->analysis.state().scheduler))
    return refuse_run({ErrorCode::kNotFound,
                       fmt::format("{}: it is a run of tune::run, not a training run; volador tune show {} shows it",
                                   directory->string(), directory_)});
  if (wants_json()) {
    context.terminal.print(run_json(*run));
    return {};
  }
  context.terminal.print(train_text(*run, table_terminal(context), SystemClock().wall()));
  return follow_ ? follow(context, *directory, std::move(*run)) : Outcome();
}

// In a terminal the line of progress is drawn again in its place; elsewhere each report is a line.
Outcome TrainShowCommand::follow(const Context& context, const std::filesystem::path& directory,
                                 tune::SavedRun run) const {
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  const auto reports_of = [](const tune::SavedRun& of) {
    return of.analysis.state().trials.empty() ? 0 : of.analysis.state().trials.front().step;
  };
  int64_t reports = reports_of(run);
  const auto last_event = [](const std::vector<TrainEvent>& events) {
    return events.empty() ? 0 : events.back().number;
  };
  int64_t shown = last_event(train_events(run.analysis.state()));
  while (run.goes_on()) {
    if (is_terminal) {
      const size_t columns = context.terminal.columns();
      context.terminal.print(fmt::format(
          "\r{}\x1b[K", train_line(run, context.terminal, SystemClock().wall(), columns > 0 ? columns - 1 : 0)));
    }
    std::this_thread::sleep_for(kLookInterval);
    auto next = tune::load_run(directory);
    if (!next) return refuse_run(next.error());
    run = std::move(*next);
    std::string lines;
    for (const TrainEvent& event : train_events(run.analysis.state())) {
      if (event.number > std::exchange(shown, std::max(shown, event.number)))
        lines += train_event_line(event, context.terminal);
    }
    if (!is_terminal && reports_of(run) > std::exchange(reports, reports_of(run)))
      lines += train_line(run, context.terminal, SystemClock().wall(), 0) + "\n";
    if (!lines.empty()) context.terminal.print((is_terminal ? "\r\x1b[K" : "") + lines);
  }
  context.terminal.print(fmt::format("{}{} · {}\n", is_terminal ? "\r\x1b[K" : "", printable(run.analysis.state().name),
                                     context.terminal.paint_state(run.state)));
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
