#include "cli/commands/tune_run_command.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli/commands/tune_command.h"
#include "cli/render/tune_view.h"
#include "cli/run_directory.h"
#include "runtime/control/program_transfer.h"
#include "runtime/files/durable_file.h"
#include "runtime/security/digest.h"
#include "tune/execution/start_order.h"
#include "tune/results/replay_audit.h"
#include "tune/results/saved_run.h"
#include "tune/schedulers/scheduler_spec.h"
#include "tune/simulation/scheduler_comparison.h"

namespace volador::cli {

namespace fs = std::filesystem;

tl::expected<tune::JournalProgram, Failure> program_to_start(const fs::path& directory, const Context& context) {
  const auto journal = tune::load_journal(directory);
  if (!journal) return refuse_run(journal.error());
  auto program = tune::program_of(*journal, directory);
  if (!program) return refuse_run(program.error());
  if (auto there = tune::check_startable(*program); !there) return refuse_run(there.error());
  const auto digest = control::sha256_of_file(program->executable);
  const std::string now = digest ? security::hex(*digest) : "";
  if (!program->sha256.empty() && now != program->sha256)
    context.terminal.note(
        fmt::format("warning: {} is another executable than the one that wrote the journal: it was built again since",
                    program->executable));
  return *program;
}

namespace {

// Removed with its content.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "volador-replay-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~ScratchFolder() {
    std::error_code code;
    if (!path_.empty()) fs::remove_all(path_, code);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string last_lines(const fs::path& file) {
  const auto text = read_file(file, size_t{64} << 20);
  if (!text) return "";
  const size_t begin = text->size() > 2000 ? text->size() - 2000 : 0;
  return text->substr(begin);
}

}  // namespace

CLI::App* TuneReplayCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "replay",
      "Replay the decisions of a run's searcher and scheduler without running trials, and show where they differ");
  app->footer(
      "Examples:\n  volador tune replay DIR && echo the same\n  volador tune replay DIR --json | jq '.shown[]'\n"
      "Exit codes: 0 every suggestion and decision is the same · 1 some differ, or it could not be told");
  app->add_option("directory", directory_, kRunDirectoryHelp)->required();
  declare_json(*app);
  return app;
}

Outcome TuneReplayCommand::run(const Context& context) {
  const auto directory = run_directory(directory_);
  if (!directory) return tl::unexpected(directory.error());
  auto program = program_to_start(*directory, context);
  if (!program) return tl::unexpected(program.error());
  const ScratchFolder scratch;
  const tune::StartOrder order{tune::StartOrder::Kind::kReplay, *directory, scratch.path() / "report.json"};
  const auto status = tune::start_and_wait(*program, tune::environment_of(order), scratch.path() / "output");
  if (!status) return fail_here(status.error());
  const auto text = read_file(order.report, size_t{64} << 20);
  const auto report =
      text ? tune::ReplayReport::from_json(*text) : Result<tune::ReplayReport>(make_error(text.error()));
  if (!report) {
    return fail_here(
        {ErrorCode::kApplication, fmt::format("{} ended without asking them; it wrote:\n{}", program->executable,
                                              last_lines(scratch.path() / "output"))});
  }
  context.terminal.print(wants_json() ? replay_json(*report) : replay_text(*report));
  if (report->differences == 0) return {};
  return fail_here(
      {ErrorCode::kApplication, fmt::format("{} of {} suggestions and decisions would differ", report->differences,
                                            report->suggestions + report->decisions)});
}

CLI::App* TuneSimulateCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "simulate", "Compare schedulers under virtual time, on the curves of an earlier run or on synthetic ones");
  app->footer(
      "Examples:\n  volador tune simulate --trials=512 --slots=64 --straggler=0.5\n"
      "  volador tune simulate DIR --schedulers asha:reduction_factor=3 median_stopping     with the results of an "
      "earlier run\n"
      "  volador tune simulate --json | jq '.schedulers[] | {name, best}'\n"
      "  volador tune simulate --plot=curves.csv        the best value over time, a column a scheduler");
  app->add_option("directory", directory_,
                  "Directory or name of an earlier run whose curves are replayed; by default synthetic curves");
  app->add_option(
         "--schedulers", schedulers_,
         "fifo, asha, hyperband, successive_halving, median_stopping, pbt, pb2, resource_changing; with options "
         "as in asha:reduction_factor=3,grace_period=2 or resource_changing:base=asha")
      ->type_name("NAME[:OPTION=VALUE,…]");
  app->add_option("--metric", metric_, "Metric of the earlier run; by default the one that the run used")
      ->type_name("NAME");
  app->add_option("--trials", trials_, "Trials of a synthetic search; 256 by default")
      ->check(CLI::Range(1, 10'000'000))
      ->type_name("INTEGER");
  app->add_option("--slots", slots_, "Trials that run at the same time; 16 by default")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("INTEGER");
  app->add_option("--max-t", max_t_,
                  "Steps of a full trial; 81 by default, or those of the longest trial of the earlier run")
      ->check(CLI::Range(1, 1'000'000'000))
      ->type_name("STEPS");
  app->add_option("--seeds", seeds_, "Number of searches for each scheduler; 10 by default")
      ->check(CLI::Range(1, 100'000))
      ->type_name("INTEGER");
  app->add_option("--time-limit", time_limit_, "Seconds of virtual time; by default until the search ends")
      ->check(number_from_zero())
      ->type_name("SECONDS");
  app->add_option("--step", step_, "Seconds of a synthetic step; 1 by default")
      ->check(positive_number())
      ->type_name("SECONDS");
  app->add_option("--speed", speed_, "Slow each trial down by 1 + |z|, z normal with this standard deviation")
      ->check(number_from_zero())
      ->type_name("NUMBER");
  app->add_option("--straggler", straggler_, "Slow each stretch between powers of 4 steps down in the same way")
      ->check(number_from_zero())
      ->type_name("NUMBER");
  app->add_option("--drop", drop_, "Probability per second that a stretch is lost and run again")
      ->check(CLI::Range(0.0, 0.999))
      ->type_name("NUMBER");
  app->add_option("--fail", fail_, "Probability per step that the trial fails")
      ->check(CLI::Range(0.0, 0.999))
      ->type_name("NUMBER");
  app->add_option("--parallel", parallel_,
                  "Share of a step's work that runs in parallel on the CPUs of a trial; 0.9 by default")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("NUMBER");
  app->add_option("--plot", plot_, "Write the mean best value over time to this CSV file; - is stdout")
      ->type_name("FILE");
  declare_json(*app);
  return app;
}

Outcome TuneSimulateCommand::run(const Context& context) {
  tune::SimulationOptions base{.space = {{"x", tune::uniform(0.0, 1.0)}},
                               .num_samples = trials_,
                               .slots = slots_,
                               .max_steps = max_t_,
                               .time_limit_s = time_limit_};
  const auto synthetic = [this](uint64_t seed) {
    return tune::SyntheticOptions{.seed = seed,
                                  .step_s = step_,
                                  .speed_sd = speed_,
                                  .straggler_sd = straggler_,
                                  .drop_per_s = drop_,
                                  .fail_per_step = fail_,
                                  .parallel = parallel_};
  };
  std::function<Result<tune::Workload>(uint64_t)> workload = [synthetic](uint64_t seed) {
    return tune::synthetic_workload(synthetic(seed));
  };
  int64_t seeds = seeds_;
  if (!directory_.empty()) {
    const auto directory = run_directory(directory_);
    if (!directory) return tl::unexpected(directory.error());
    const auto run = tune::load_run(*directory);
    if (!run) return refuse_run(run.error());
    base.metric = metric_.empty() ? run->analysis.state().metric : metric_;
    base.mode = run->analysis.state().mode;
    if (base.metric.empty()) return usage_error("tune simulate: the run has no metric: name one with --metric");
    auto recorded = tune::recorded_workload(run->analysis, base.metric);
    if (!recorded) return refuse_run(recorded.error());
    base.configs = std::move(recorded->configs);
    base.max_steps = recorded->steps_max;
    workload = [work = recorded->workload](uint64_t) { return Result<tune::Workload>(work); };
    seeds = 1;  // The run is deterministic: more seeds give the same result.
  }
  std::vector<std::pair<std::string, tune::SchedulerFactory>> schedulers;
  bool population = false;
  for (const std::string& text : schedulers_) {
    auto scheduler = tune::simulated_scheduler_of(text, base.max_steps, base.space);
    if (!scheduler) return usage_error("--schedulers: " + scheduler.error().message);
    if (scheduler->kind != tune::SimulatedKind::kPlain && !directory_.empty()) {
      return usage_error(fmt::format(
          "--schedulers: {} gives trials what an earlier run has no record of, {}: leave its directory out", text,
          scheduler->kind == tune::SimulatedKind::kPopulation ? "other configurations" : "other resources"));
    }
    population = population || scheduler->kind == tune::SimulatedKind::kPopulation;
    schedulers.emplace_back(text, std::move(scheduler->factory));
  }
  if (population) {  // Use only curves on which a population can have an effect.
    workload = [plain = synthetic, horizon = base.max_steps](uint64_t seed) {
      return tune::moving_target_workload(plain(seed), {.parameter = "x", .horizon = horizon});
    };
  }
  const auto comparison = tune::compare_schedulers(base, schedulers, seeds, workload);
  if (!comparison) return fail(comparison.error());
  if (plot_ == "-") {
    context.terminal.print(simulation_csv(*comparison));
    return {};
  }
  if (!plot_.empty()) {
    if (auto written = write_file_atomically(plot_, simulation_csv(*comparison)); !written)
      return fail_here(written.error());
  }
  context.terminal.print(wants_json() ? simulation_json(*comparison) : simulation_text(*comparison));
  return {};
}

}  // namespace volador::cli
