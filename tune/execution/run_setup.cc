#include "tune/execution/run_setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/quantities.h"
#include "tune/execution/callback_runner.h"
#include "tune/execution/trial_tags.h"
#include "tune/results/experiment_resume.h"
#include "tune/schedulers/fifo_scheduler.h"
#include "tune/searchers/added_configs.h"
#include "tune/searchers/search_wrappers.h"
#include "tune/searchers/variant_searcher.h"
#include "tune/searchers/warm_start.h"

namespace volador::tune {
namespace {

// Whether the program says what a trial asks for; false: the default.
bool has_resources_per_trial(const RunOptions& options) {
  const auto given = ResourceSet::from(options.resources_per_trial);
  return !given || *given != *ResourceSet::from(RunOptions().resources_per_trial);
}

// Sum of all bundles.
Result<ResourceSet> resources_of_bundles(const TrainableRef& trainable, const RunOptions& options) {
  const auto refuse = [](std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); };
  if (trainable.resources)
    return refuse("bundles_per_trial: tune::with_resources says what each trial asks for as well: give one of them");
  if (has_resources_per_trial(options)) {
    return refuse(
        "bundles_per_trial: resources_per_trial says what each trial asks for as well; bundles_per_trial[0] is what it "
        "runs in: leave the other one out");
  }
  if (options.reuse_actors)
    return refuse(
        "bundles_per_trial: a placement group ends with its trial, and reuse_actors keeps the trial's process: leave "
        "one of them out");
  ResourceSet all;
  for (size_t i = 0; i < options.bundles_per_trial.size(); ++i) {
    auto bundle = ResourceSet::from(options.bundles_per_trial[i]);
    if (!bundle) return refuse(fmt::format("bundles_per_trial[{}]: {}", i, bundle.error().message));
    if (bundle->empty()) return refuse(fmt::format("bundles_per_trial[{}] is empty: each bundle holds something", i));
    all += *bundle;
  }
  return all;
}

// Takes the bundles of a trainable that knows them itself.
Result<void> take_bundles(const TrainableRef& trainable, RunOptions& options) {
  if (trainable.bundles.empty()) return {};
  ResourceSet all;
  for (const Resources& bundle : trainable.bundles) {
    auto set = ResourceSet::from(bundle);
    if (!set)
      return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", trainable.label, set.error().message));
    all += *set;
  }
  const auto given = ResourceSet::from(options.resources_per_trial);
  const bool has_resources = has_resources_per_trial(options);
  if (has_resources || !options.bundles_per_trial.empty()) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "{} is given, but the workers of {} ask for resources themselves ({} a trial, in {} bundles): leave it "
            "out, and change num_workers or resources_per_worker of the trainer instead",
            has_resources ? fmt::format("resources_per_trial ({})", given ? to_string(*given) : "invalid")
                          : "bundles_per_trial",
            trainable.label, to_string(all), trainable.bundles.size()));
  }
  options.bundles_per_trial = trainable.bundles;
  return {};
}

Result<ResourceSet> resources_of(const TrainableRef& trainable, const RunOptions& options) {
  if (!options.bundles_per_trial.empty()) return resources_of_bundles(trainable, options);
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

LoopOptions loop_options_of(const RunOptions& options, uint64_t trial_key) {
  return {.metric = options.metric,
          .mode = options.mode,
          .goals = {options.objectives, options.constraints},
          .trial_key = trial_key,
          .max_concurrent_trials = options.max_concurrent_trials,
          .stop = options.stop,
          .time_budget = options.time_budget,
          .max_failures = options.max_failures,
          .max_losses = options.max_losses,
          .fail_fast = options.fail_fast,
          .retry_backoff = options.retry_backoff,
          .retry_backoff_max = options.retry_backoff_max,
          .strict_metric = options.strict_metric,
          .checkpoint = options.checkpoint};
}

// Empty for defaults, so that runs of an earlier Volador can be resumed.
std::string names_text(const RunOptions& options) {
  std::string text;
  for (const auto& run : options.warm_start) text += fmt::format("warm_start {}\n", run.string());
  if (!options.trial_name.empty()) text += fmt::format("trial_name {}\n", options.trial_name);
  if (!options.trial_folder.empty()) text += fmt::format("trial_folder {}\n", options.trial_folder);
  return text;
}

Result<TrialNaming> naming_of(const RunOptions& options) {
  auto name = NameTemplate::parse("trial_name", options.trial_name, options.space);
  if (!name) return make_error(name.error());
  auto folder = NameTemplate::parse_folder("trial_folder", options.trial_folder, options.space);
  if (!folder) return make_error(folder.error());
  return TrialNaming{options.name, std::move(*name), std::move(*folder)};
}

// Describes the case that trials end before their scheduler compares them for the first time; empty: not the case.
std::string too_short_notice(const RunOptions& options, const Scheduler& scheduler) {
  const auto most = options.stop.steps_max();
  const auto rungs = scheduler.rungs(0);
  if (!most || rungs.empty()) return {};
  double first = rungs.front().milestone;
  for (const RungState& rung : rungs) first = std::min(first, static_cast<double>(rung.milestone));
  if (static_cast<double>(*most) >= first) return {};
  return fmt::format(
      "scheduler: {} compares trials after {} first (its grace_period {}), and .stop ends them after {}: it stops none "
      "of them",
      scheduler.describe(), counted(format_real(first), "step"), format_real(first), *most);
}

JournalHeader header_of(const RunOptions& options, uint64_t seed, const LoopOptions& loop, const Searcher& searcher,
                        const Scheduler& scheduler) {
  return {.name = options.name,
          .metric = options.metric,
          .mode = std::string(to_string(options.mode)),
          .seed = seed,
          .space = space_text(options.space),
          .searcher = searcher.describe(),
          .scheduler = scheduler.describe(),
          .limits = limits_text(loop) + names_text(options),
          .total = searcher.total().value_or(-1),
          .key = loop.trial_key};
}

// A single objective is the metric; of several the first is the default.
void settle_objectives(RunOptions& options) {
  if (options.objectives.empty()) return;
  if (options.metric.empty()) {
    options.metric = options.objectives[0].metric;
    options.mode = options.objectives[0].mode;
  }
  const bool alone = options.objectives.size() == 1 && options.objectives[0] == Objective{options.metric, options.mode};
  if (alone) options.objectives.clear();
}

Result<void> check_tags(const std::vector<std::string>& tags) {
  if (tags.size() > kTagsMax)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tags: a run has at most {}, got {}", kTagsMax, tags.size()));
  for (const std::string& tag : tags) {
    if (const auto fine = check_tag(tag); !fine)
      return make_error(ErrorCode::kInvalidArgument, "tags: " + fine.error().message);
  }
  return {};
}

Result<void> check_counts(const RunOptions& options) {
  const bool retries = options.resume_errored || options.restart_errored;
  if (retries && options.resume.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "resume_errored, restart_errored: they say what becomes of failed trials of an earlier run: give "
                      ".resume its directory");
  }
  if (options.resume_errored && options.restart_errored) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "resume_errored, restart_errored: failed trials go on from their checkpoints, or begin anew: give one of them");
  }
  VOLADOR_TRY(check_tags(options.tags));
  if (options.artifact_bytes_max < 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("artifact_bytes_max: expected a number of bytes, or 0 for no artifacts, got {}",
                                  options.artifact_bytes_max));
  }
  if (options.step_timeout.count() < 0)
    return make_error(ErrorCode::kInvalidArgument, "step_timeout: expected a positive duration, or 0 for none");
  if (options.num_samples < -1 || options.num_samples == 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("num_samples: expected at least 1, or -1 for no end, got {}", options.num_samples));
  }
  return {};
}

std::shared_ptr<EarlierRun> earlier_run_of(const std::filesystem::path& directory, const JournalContents& journal) {
  auto earlier = std::make_shared<EarlierRun>();
  earlier->directory = directory;
  for (const JournalRecord& record : journal.records) {
    const auto* decision = std::get_if<JournalDecision>(&record);
    if (decision != nullptr) earlier->decisions.push_back({decision->event, decision->record});
    const auto* event = std::get_if<JournalEvent>(&record);
    const auto* result = event == nullptr ? nullptr : std::get_if<ResultReported>(&event->event);
    if (result == nullptr) continue;
    int64_t& step = earlier->last_steps[result->trial];
    step = std::max(step, result->step);
  }
  return earlier;
}

}  // namespace

Result<PreparedRun> prepare_run(const TrainableRef& trainable, RunOptions options, Random& random, Replay replay) {
  PreparedRun run;
  if (options.name.empty()) options.name = trainable.label;
  VOLADOR_TRY(check_counts(options));
  VOLADOR_TRY(CallbackRunner::check(options.callbacks));
  VOLADOR_TRY(take_bundles(trainable, options));
  auto resources = resources_of(trainable, options);
  if (!resources) return make_error(resources.error());
  run.resources = std::move(*resources);
  if (!options.resume.empty()) {
    auto read = read_journal(options.resume);
    if (!read)
      return make_error(read.error().code,
                        fmt::format("resume: {}; it takes the directory of an earlier run", read.error().message));
    run.earlier = std::move(*read);
    VOLADOR_TRY(check_same_trainable(run.earlier->records, trainable.name));
    options.name = run.earlier->header.name;
    if (!options.seed) options.seed = run.earlier->header.seed;
    if (replay == Replay::kRestores) run.replayed = earlier_run_of(options.resume, *run.earlier);
  }
  settle_objectives(options);
  run.seed = options.seed ? *options.seed : random.next() >> 1;
  const SearchContext search{options.space,
                             options.metric,
                             options.mode,
                             options.num_samples,
                             run.seed,
                             true,
                             {options.objectives, options.constraints},
                             run.replayed};
  if (options.deterministic) {
    DeterministicOptions in_order;
    if (options.max_concurrent_trials > 0) in_order.window = options.max_concurrent_trials;
    options.searcher = deterministic(in_order, std::move(options.searcher));
  }
  auto searcher = options.searcher ? options.searcher(search) : random_search()(search);
  if (!searcher) return make_error(searcher.error());
  const SchedulerContext schedule{options.metric, options.mode, run.seed, run.resources, run.replayed};
  auto scheduler = options.scheduler ? options.scheduler(schedule) : fifo()(schedule);
  if (!scheduler) return make_error(scheduler.error());
  if (options.deterministic && (*searcher)->learns() && (*scheduler)->needs_metric()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("deterministic: {} decides by what other trials have reported so far, which depends "
                                  "on timing: leave .scheduler "
                                  "out, or deterministic off",
                                  (*scheduler)->describe()));
  }
  if (!options.bundles_per_trial.empty() && (*scheduler)->changes_resources()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "bundles_per_trial: tune::resource_changing() changes what a trial asks for, and its bundles "
                      "stay as they are: leave one of them out");
  }
  if (options.reuse_actors && (*scheduler)->changes_resources()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "reuse_actors: a process keeps the resources that it was started with, and "
                      "tune::resource_changing() starts trials again with other "
                      "ones: leave reuse_actors off");
  }
  if (auto notice = too_short_notice(options, **scheduler); !notice.empty()) run.notices.push_back(std::move(notice));
  // Runs with the same seed have the same configurations; their trial ids differ, because a cluster identifies trials
  // by id.
  const uint64_t trial_key = run.earlier ? run.earlier->header.trial_key() : random.next();
  LoopOptions loop_options = loop_options_of(options, trial_key);
  auto naming = naming_of(options);
  if (!naming) return make_error(naming.error());
  loop_options.naming = std::move(*naming);
  run.total = (*searcher)->total();
  run.header = header_of(options, run.seed, loop_options, **searcher, **scheduler);
  auto first_total = run.total;
  if (run.earlier) {
    VOLADOR_TRY(check_same_run(run.earlier->header, run.header));
    first_total = run.earlier->header.total < 0 ? std::nullopt : std::optional<int64_t>(run.earlier->header.total);
  }
  if (run.earlier) {
    run.warm_start = earlier_trials_of(run.earlier->records);
  } else if (!options.warm_start.empty()) {
    VOLADOR_TRY((*searcher)->learn({}));  // Fails before anything is read.
    auto read = read_earlier_runs(
        {options.warm_start, options.space, options.metric, {options.objectives, options.constraints}});
    if (!read) return make_error(read.error());
    run.warm_start = std::move(read->trials);
    run.notices.insert(run.notices.end(), read->notices.begin(), read->notices.end());
  }
  if (!run.warm_start.empty()) VOLADOR_TRY((*searcher)->learn(run.warm_start));
  auto recorded = run.earlier ? recorded_suggestions(run.earlier->records) : std::vector<RecordedSuggestion>();
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
