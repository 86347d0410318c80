#include "tune/run_setup.h"

#include <fmt/format.h>

#include "tune/added_configs.h"
#include "tune/experiment_resume.h"
#include "tune/fifo_scheduler.h"
#include "tune/variant_searcher.h"

namespace volador::tune {
namespace {

Result<ResourceSet> resources_of(const TrainableRef& trainable, const RunOptions& options) {
  auto set = ResourceSet::from(options.resources_per_trial);
  if (!set) {
    Error error = set.error();
    if (error.message.starts_with("resources"))
      error.message.replace(0, std::string_view("resources").size(), "resources_per_trial");
    return make_error(std::move(error));
  }
  if (!trainable.resources) return set;
  auto own = ResourceSet::from(*trainable.resources);
  if (!own) return make_error(ErrorCode::kInvalidArgument, "tune::with_resources: " + own.error().message);
  const auto by_default = ResourceSet::from(RunOptions().resources_per_trial);
  if (*set != *by_default && *set != *own) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("resources_per_trial asks for {}, tune::with_resources for {}: give one of them",
                                  to_string(*set), to_string(*own)));
  }
  return own;
}

LoopOptions loop_options_of(const RunOptions& options, uint64_t seed) {
  return {.metric = options.metric,
          .mode = options.mode,
          .goals = {options.objectives, options.constraints},
          .seed = seed,
          .max_concurrent_trials = options.max_concurrent_trials,
          .stop = options.stop,
          .time_budget = options.time_budget,
          .max_failures = options.max_failures,
          .max_losses = options.max_losses,
          .checkpoint = options.checkpoint};
}

JournalHeader header_of(const RunOptions& options, const LoopOptions& loop, const Searcher& searcher,
                        const Scheduler& scheduler) {
  return {.name = options.name,
          .metric = options.metric,
          .mode = std::string(to_string(options.mode)),
          .seed = loop.seed,
          .space = space_text(options.space),
          .searcher = searcher.describe(),
          .scheduler = scheduler.describe(),
          .limits = limits_text(loop),
          .total = searcher.total().value_or(-1)};
}

// One objective is a metric; of several the first is, where none is given.
void settle_objectives(RunOptions& options) {
  if (options.objectives.empty()) return;
  if (options.metric.empty()) {
    options.metric = options.objectives[0].metric;
    options.mode = options.objectives[0].mode;
  }
  const bool alone = options.objectives.size() == 1 && options.objectives[0] == Objective{options.metric, options.mode};
  if (alone) options.objectives.clear();
}

Result<void> check_counts(const RunOptions& options) {
  if (options.step_timeout.count() < 0)
    return make_error(ErrorCode::kInvalidArgument, "step_timeout: expected a positive duration, or 0 for none");
  if (options.num_samples < -1 || options.num_samples == 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("num_samples: expected at least 1, or -1 for no end, got {}", options.num_samples));
  }
  return {};
}

}  // namespace

Result<PreparedRun> prepare_run(const TrainableRef& trainable, RunOptions options, Random& random) {
  PreparedRun run;
  if (options.name.empty()) options.name = trainable.label;
  VOLADOR_TRY(check_counts(options));
  auto resources = resources_of(trainable, options);
  if (!resources) return make_error(resources.error());
  run.resources = std::move(*resources);
  if (!options.resume.empty()) {
    auto read = read_journal(options.resume);
    if (!read)
      return make_error(read.error().code,
                        fmt::format("resume: {}; it takes the directory of an earlier run", read.error().message));
    run.earlier = std::move(*read);
    options.name = run.earlier->header.name;
    if (!options.seed) options.seed = run.earlier->header.seed;
  }
  settle_objectives(options);
  run.seed = options.seed ? *options.seed : random.next() >> 1;
  const SearchContext search{options.space, options.metric, options.mode, options.num_samples, run.seed, true, {options.objectives, options.constraints}};
  auto searcher = options.searcher ? options.searcher(search) : random_search()(search);
  if (!searcher) return make_error(searcher.error());
  const SchedulerContext schedule{options.metric, options.mode, run.seed, run.resources};
  auto scheduler = options.scheduler ? options.scheduler(schedule) : fifo()(schedule);
  if (!scheduler) return make_error(scheduler.error());
  if (options.reuse_actors && (*scheduler)->changes_resources()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "reuse_actors: a process keeps the resources that it was started with, and tune::resource_changing() starts trials again with other "
                      "ones: leave reuse_actors off");
  }
  LoopOptions loop_options = loop_options_of(options, run.seed);
  run.total = (*searcher)->total();
  run.header = header_of(options, loop_options, **searcher, **scheduler);
  auto first_total = run.total;
  if (run.earlier) {
    VOLADOR_TRY(check_same_run(run.earlier->header, run.header));
    first_total = run.earlier->header.total < 0 ? std::nullopt : std::optional<int64_t>(run.earlier->header.total);
  }
  auto recorded = run.earlier ? recorded_suggestions(run.earlier->records) : std::vector<Config>();
  auto adding = std::make_unique<AddedConfigs>(std::move(*searcher));
  auto recording = std::make_unique<RecordingSearcher>(std::move(adding), std::move(recorded), first_total);
  run.recording = recording.get();
  auto loop = TrialLoop::create(std::move(loop_options), std::move(recording), std::move(*scheduler));
  if (!loop) return make_error(loop.error());
  run.loop = std::move(*loop);
  run.options = std::move(options);
  return run;
}

}  // namespace volador::tune
