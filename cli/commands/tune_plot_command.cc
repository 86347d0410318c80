#include "cli/commands/tune_plot_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "cli/commands/tune_command.h"
#include "cli/run_directory.h"
#include "runtime/files/durable_file.h"
#include "runtime/nearest_word.h"
#include "tune/plots/plot.h"
#include "tune/results/experiment_directory.h"
#include "tune/results/saved_run.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;
using tune::PlotKind;

tl::expected<std::optional<tune::Mode>, Failure> mode_of(std::string_view flag, const std::string& word) {
  if (word.empty()) return std::nullopt;
  const auto mode = choice_of(flag, word, {"max", "min"});
  if (!mode) return tl::unexpected(mode.error());
  return *mode == 0 ? tune::Mode::kMax : tune::Mode::kMin;
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names{"all"};
  for (const PlotKind kind : tune::kPlotKinds) names.emplace_back(tune::to_string(kind));
  return names;
}

struct Picture {
  PlotKind kind = PlotKind::kCurves;
  fs::path file;
};

std::string drawn_json(const std::vector<Picture>& drawn) {
  nlohmann::ordered_json plots = nlohmann::ordered_json::array();
  for (const Picture& one : drawn) plots.push_back({{"kind", tune::to_string(one.kind)}, {"file", one.file.string()}});
  return nlohmann::ordered_json{{"api_version", "v1"}, {"plots", plots}}.dump(2) + "\n";
}

}  // namespace

CLI::App* TunePlotCommand::declare(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("plot", "Draw a run as SVG: learning curves, parameters, importance, rungs, front, slots");
  app->footer(
      "Examples:\n  volador tune plot DIR                                     every kind there is ground for, to "
      "DIR/plots\n"
      "  volador tune plot DIR --kind=curves --group-by=batch --log=y --out=curves.svg\n"
      "  volador tune plot DIR --kind=pareto --metric=accuracy --versus=seconds --out=-");
  app->add_option("directory", directory_, kRunDirectoryHelp)->required();
  app->add_option("--kind", kind_,
                  "Kind of plot: all, curves, parallel, importance, rungs, pareto or gantt; all by default")
      ->type_name("KIND");
  app->add_option("--out", out_, "File to write, - for stdout; with several kinds the folder; DIR/plots by default")
      ->type_name("FILE");
  app->add_option("--metric", metric_, "Metric to draw; by default that of the run")->type_name("NAME");
  app->add_option("--mode", mode_, "max or min; by default that of the run")->type_name("MODE");
  app->add_option("--scope", scope_, "Which value of a trial counts: last, all (its best) or average; last by default")
      ->type_name("SCOPE");
  app->add_option("--group-by", group_by_, "Curves: colour by the values of this parameter")->type_name("PARAMETER");
  app->add_option("--x", x_, "Curves: over training_iteration, time_total_s or another reported number")
      ->type_name("NAME");
  app->add_option("--versus", versus_, "Front: the metric on the other axis; by default the run's objectives")
      ->type_name("NAME");
  app->add_option("--versus-mode", versus_mode_, "max or min for that metric; min by default")->type_name("MODE");
  app->add_option("--log", log_, "Logarithmic axes: x, y or xy")->type_name("AXES");
  app->add_option("--size", size_, "Size in pixels; 960x540 by default")->type_name("WIDTHxHEIGHT");
  declare_json(*app);
  return app;
}

// Rejects unreported metrics as typing errors, even if the plot does not need them.
Outcome TunePlotCommand::check_metrics(const tune::ExperimentState& state) const {
  std::set<std::string> reported;
  for (const tune::Trial& trial : state.trials) {
    for (const auto& [name, value] : trial.last_result) reported.insert(name);
    for (const auto& [name, summary] : trial.metrics) reported.insert(name);
  }
  if (reported.empty()) return {};  // Nothing can be drawn yet; each plot reports that itself.
  for (const auto& [option, name] : {std::pair("--metric", &metric_), {"--versus", &versus_}, {"--x", &x_}}) {
    const bool own = *name == "training_iteration" || *name == "time_total_s";  // Present in every result.
    if (name->empty() || own || reported.contains(*name)) continue;
    return usage_error(
        fmt::format("{}: no trial reported \"{}\"; reported: {}", option, *name, fmt::join(reported, ", ")));
  }
  return {};
}

Outcome TunePlotCommand::run(const Context& context) {
  tune::PlotOptions options{.metric = metric_, .group_by = group_by_, .x = x_, .versus = versus_};
  const auto kind = choice_of("--kind", kind_, kind_names());
  const auto mode = mode_of("--mode", mode_), versus_mode = mode_of("--versus-mode", versus_mode_);
  const auto scope = choice_of("--scope", scope_, {"last", "all", "average"});
  const auto log = choice_of("--log", log_.empty() ? "none" : log_, {"none", "x", "y", "xy"});
  if (!kind) return tl::unexpected(kind.error());
  if (!mode) return tl::unexpected(mode.error());
  if (!versus_mode) return tl::unexpected(versus_mode.error());
  if (!scope) return tl::unexpected(scope.error());
  if (!log) return tl::unexpected(log.error());
  options.mode = *mode;
  options.versus_mode = *versus_mode;
  options.scope = static_cast<tune::Scope>(*scope);
  options.log_x = log_.find('x') != std::string::npos;
  options.log_y = log_.find('y') != std::string::npos;
  char rest = 0;
  if (!size_.empty() && std::sscanf(size_.c_str(), "%dx%d%c", &options.size.width, &options.size.height, &rest) != 2)
    return usage_error(fmt::format("--size: expected WIDTHxHEIGHT in pixels, as 960x540, got \"{}\"", size_));
  const bool all = *kind == 0;
  if (all && out_ == "-") return usage_error("tune plot: stdout takes one kind: give --kind=…, or a folder as --out");
  if (wants_json() && out_ == "-")
    return usage_error("tune plot: --json says where files are; with --out=- there is none");

  const auto directory = run_directory(directory_);
  if (!directory) return tl::unexpected(directory.error());
  const auto run = tune::load_run(*directory);
  if (!run)
    return fail(run.error().code == ErrorCode::kNotFound ? ExitCode::kNotFound : ExitCode::kFailed, run.error());
  if (const auto checked = check_metrics(run->analysis.state()); !checked) return tl::unexpected(checked.error());
  std::vector<Picture> drawn;
  const fs::path folder = all && !out_.empty() ? fs::path(out_) : *directory / "plots";
  for (size_t i = 0; i < tune::kPlotKinds.size(); ++i) {
    if (!all && i + 1 != *kind) continue;
    options.kind = tune::kPlotKinds[i];
    const std::string name(tune::to_string(options.kind));
    try {
      const std::string svg = tune::plot(run->analysis, options);
      if (out_ == "-") {
        context.terminal.print(svg);
        return {};
      }
      const fs::path file = all || out_.empty() ? folder / (name + ".svg") : fs::path(out_);
      std::error_code code;
      if (file.has_parent_path())
        fs::create_directories(file.parent_path(), code);  // Errors are reported by the write.
      if (auto written = write_file_atomically(file, svg); !written) return fail_here(written.error());
      drawn.push_back({options.kind, file});
    } catch (const Exception& exception) {
      if (!all) return fail(exception.error());
      context.terminal.note(fmt::format("no {}: {}", name, exception.error().message));
    }
  }
  if (wants_json()) {
    context.terminal.print(drawn_json(drawn));
  } else {
    for (const Picture& one : drawn)
      context.terminal.print(fmt::format("{:<11} {}\n", tune::to_string(one.kind), one.file.string()));
  }
  if (drawn.empty())
    return fail(ExitCode::kFailed, {ErrorCode::kInvalidArgument,
                                    fmt::format("{}: there is nothing to draw; see above", directory->string())});
  return {};
}

}  // namespace volador::cli
