#include "tune/scheduler_spec.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/nearest_word.h"
#include "tune/asha_scheduler.h"
#include "tune/fifo_scheduler.h"
#include "tune/hyperband_scheduler.h"
#include "tune/median_stopping_scheduler.h"
#include "tune/percentile_scheduler.h"
#include "tune/spec_options.h"
#include "tune/wilcoxon_scheduler.h"

namespace volador::tune {
namespace {

Result<SchedulerFactory> asha_of(SpecOptions options, int64_t max_t) {
  AshaOptions made;
  made.grace_period = options.integer("grace_period", made.grace_period);
  made.max_t = options.integer("max_t", max_t);
  made.reduction_factor = options.real("reduction_factor", made.reduction_factor);
  made.brackets = static_cast<int>(options.integer("brackets", made.brackets));
  if (options.one_of("rule", {"ray"}) == "ray") made.rule = AshaRule::kRay;
  if (options.boolean("promotion", false)) made.variant = AshaVariant::kPromotion;
  return options.make(asha(made));
}

Result<SchedulerFactory> hyperband_of(SpecOptions options, int64_t max_t, bool one_bracket, bool largest_first) {
  HyperBandOptions made;
  made.largest_first = largest_first;
  made.max_t = options.integer("max_t", max_t);
  made.eta = options.real("eta", made.eta);
  if (one_bracket)
    made.only_bracket = hyperband_brackets(std::max<int64_t>(made.max_t, 1), std::max(made.eta, 1.0001)) - 1;
  if (options.one_of("rule", {"ray"}) == "ray") made.rule = HyperBandRule::kRay;
  return options.make(hyperband(made));
}

Result<SchedulerFactory> median_of(SpecOptions options) {
  MedianStoppingOptions made;
  made.grace_period = options.integer("grace_period", made.grace_period);
  made.min_samples_required = options.integer("min_samples_required", made.min_samples_required);
  made.hard_stop = options.boolean("hard_stop", made.hard_stop);
  return options.make(median_stopping(made));
}

Result<SchedulerFactory> percentile_of(SpecOptions options) {
  PercentileOptions made;
  made.percentile = options.real("percentile", made.percentile);
  made.n_startup_trials = options.integer("n_startup_trials", made.n_startup_trials);
  made.n_warmup_steps = options.integer("n_warmup_steps", made.n_warmup_steps);
  made.interval_steps = options.integer("interval_steps", made.interval_steps);
  made.n_min_trials = options.integer("n_min_trials", made.n_min_trials);
  return options.make(percentile_pruner(made));
}

Result<SchedulerFactory> wilcoxon_of(SpecOptions options) {
  WilcoxonOptions made;
  made.p_threshold = options.real("p_threshold", made.p_threshold);
  made.n_startup_steps = options.integer("n_startup_steps", made.n_startup_steps);
  return options.make(wilcoxon_pruner(made));
}

}  // namespace

const std::vector<std::string>& scheduler_names() {
  static const std::vector<std::string> names{"fifo", "asha", "hyperband", "hb_bohb", "successive_halving", "median_stopping",
                                              "percentile", "wilcoxon"};
  return names;
}

Result<SchedulerFactory> scheduler_of(std::string_view text, int64_t max_t) {
  auto spec = SpecOptions::parse(text);
  if (!spec) return make_error(spec.error());
  SpecOptions& options = *spec;
  const std::string name = options.name();
  if (name == "fifo") return options.make(fifo());
  if (name == "asha") return asha_of(std::move(options), max_t);
  if (name == "hyperband" || name == "successive_halving" || name == "hb_bohb")
    return hyperband_of(std::move(options), max_t, name == "successive_halving", name == "hb_bohb");
  if (name == "median_stopping") return median_of(std::move(options));
  if (name == "percentile") return percentile_of(std::move(options));
  if (name == "wilcoxon") return wilcoxon_of(std::move(options));
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("there is no scheduler \"{}\"{}; known: {}", name,
                                did_you_mean(name, scheduler_names()), fmt::join(scheduler_names(), ", ")));
}

}  // namespace volador::tune
