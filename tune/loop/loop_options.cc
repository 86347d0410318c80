#include "tune/loop/loop_options.h"

#include <fmt/format.h>

namespace volador::tune {

Result<void> validate(const LoopOptions& options, const Searcher& searcher, const Scheduler& scheduler) {
  const auto refuse = [](std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); };
  if (options.max_concurrent_trials < 0) {
    return refuse(fmt::format("max_concurrent_trials: expected at least 1, or 0 for no limit, got {}",
                              options.max_concurrent_trials));
  }
  if (options.max_failures < -1)
    return refuse(fmt::format("max_failures: expected at least 0, or -1 for no limit, got {}", options.max_failures));
  if (options.max_losses < -1)
    return refuse(fmt::format("max_losses: expected at least 0, or -1 for no limit, got {}", options.max_losses));
  if (options.retry_backoff.count() < 0 || options.retry_backoff_max < options.retry_backoff) {
    return refuse("retry_backoff: expected a positive duration, or 0 for none, and retry_backoff_max not below it");
  }
  if (options.fail_fast && options.max_failures != 0) {
    return refuse(
        fmt::format("fail_fast ends the run with the first failure, and max_failures {} tries again after it: leave "
                    "one of them out",
                    options.max_failures));
  }
  const CheckpointOptions& checkpoint = options.checkpoint;
  if (checkpoint.frequency < 0)
    return refuse(
        fmt::format("checkpoint.frequency: expected at least 1 step, or 0 for none, got {}", checkpoint.frequency));
  if (checkpoint.num_to_keep < 0)
    return refuse(
        fmt::format("checkpoint.num_to_keep: expected at least 1, or 0 for all, got {}", checkpoint.num_to_keep));
  if ((checkpoint.frequency > 0 || checkpoint.at_end) && !options.can_checkpoint) {
    return refuse(
        "checkpoint: the trainable does not save checkpoints: give it save_checkpoint and load_checkpoint, or set "
        "frequency 0 and at_end false");
  }
  if (options.time_budget.count() < 0 || options.stop_grace.count() < 0)
    return refuse("time_budget: expected a positive duration, or 0 for none");
  VOLADOR_TRY(options.stop.validate(options.metric));
  VOLADOR_TRY(validate(options.goals));
  if (!options.goals.empty() && !searcher.takes_goals()) {
    return refuse(
        fmt::format("{}: {} learns from one metric: take tune::tpe(), tune::gp(), tune::nsga2(), or a searcher that "
                    "does not learn, as tune::random_search()",
                    options.goals.objectives.empty() ? "constraints" : "objectives", searcher.describe()));
  }
  if (options.metric.empty() && (scheduler.needs_metric() || searcher.needs_metric())) {
    return refuse(fmt::format("metric: {} compares trials: name a metric that they report",
                              scheduler.needs_metric() ? scheduler.describe() : searcher.describe()));
  }
  if (scheduler.pauses() && !options.can_checkpoint) {
    return refuse(fmt::format(
        "scheduler: {} pauses trials, and the trainable does not save checkpoints: give it save_checkpoint and "
        "load_checkpoint, or take a scheduler that does not pause, as asha",
        scheduler.describe()));
  }
  if (scheduler.clones() && searcher.learns()) {
    return refuse(fmt::format(
        "searcher: {} learns from configurations, which {} changes on the way: take tune::random_search() with it",
        searcher.describe(), scheduler.describe()));
  }
  return {};
}

}  // namespace volador::tune
