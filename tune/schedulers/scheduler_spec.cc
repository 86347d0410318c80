#include "tune/schedulers/scheduler_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/nearest_word.h"
#include "tune/schedulers/asha_scheduler.h"
#include "tune/schedulers/fifo_scheduler.h"
#include "tune/schedulers/hyperband_scheduler.h"
#include "tune/schedulers/median_stopping_scheduler.h"
#include "tune/schedulers/pbt_scheduler.h"
#include "tune/schedulers/percentile_scheduler.h"
#include "tune/schedulers/resource_changing_scheduler.h"
#include "tune/schedulers/wilcoxon_scheduler.h"
#include "tune/spec_options.h"

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
  if (options.one_of("rule", {"ray"}) == "ray") made.rule = HyperBandRule::kRay;
  if (one_bracket) {
    const int64_t steps = std::max<int64_t>(made.max_t, 1);
    const double eta = std::max(made.eta, 1.0001);
    made.only_bracket = hyperband_brackets(steps, eta, made.rule) - 1;
    if (hyperband_ladder(steps, eta, made.only_bracket, made.rule).empty()) --made.only_bracket;
  }
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

Result<SchedulerFactory> pbt_of(SpecOptions options, int64_t max_t, const Space& space) {
  PbtOptions made;
  made.perturbation_interval = options.integer("perturbation_interval", std::max<int64_t>(max_t / 10, 1));
  made.burn_in_period = options.integer("burn_in_period", made.burn_in_period);
  made.quantile_fraction = options.real("quantile_fraction", made.quantile_fraction);
  made.resample_probability = options.real("resample_probability", made.resample_probability);
  made.synch = options.boolean("synch", made.synch);
  made.hyperparam_mutations = space;
  return options.make(pbt(made));
}

Result<SchedulerFactory> pb2_of(SpecOptions options, int64_t max_t, const Space& space) {
  Pb2Options made;
  made.perturbation_interval = options.integer("perturbation_interval", std::max<int64_t>(max_t / 10, 1));
  made.burn_in_period = options.integer("burn_in_period", made.burn_in_period);
  made.quantile_fraction = options.real("quantile_fraction", made.quantile_fraction);
  made.synch = options.boolean("synch", made.synch);
  made.hyperparam_bounds = space;
  return options.make(pb2(made));
}

Result<SchedulerFactory> resource_changing_of(SpecOptions options, int64_t max_t) {
  ResourceChangingOptions made;
  const std::string base = options.one_of("base", scheduler_names());
  if (options.boolean("top_job", false)) made.resources_allocation_function = distribute_resources_to_top_job();
  if (!base.empty()) {
    auto scheduler = scheduler_of(base, max_t);
    if (!scheduler) return scheduler;
    made.base_scheduler = std::move(*scheduler);
  }
  return options.make(resource_changing(made));
}

std::vector<std::string> simulated_names() {
  std::vector<std::string> names = scheduler_names();
  names.insert(names.end(), {"pbt", "pb2", "resource_changing"});
  return names;
}

tl::unexpected<Error> no_scheduler(const std::string& name, const std::vector<std::string>& known) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("there is no scheduler \"{}\"{}; known: {}", name,
                                                             did_you_mean(name, known), fmt::join(known, ", ")));
}

}  // namespace

const std::vector<std::string>& scheduler_names() {
  static const std::vector<std::string> names{
      "fifo", "asha", "hyperband", "hb_bohb", "successive_halving", "median_stopping", "percentile", "wilcoxon"};
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
  return no_scheduler(name, scheduler_names());
}

Result<SimulatedScheduler> simulated_scheduler_of(std::string_view text, int64_t max_t, const Space& space) {
  auto spec = SpecOptions::parse(text);
  if (!spec) return make_error(spec.error());
  const std::string name = spec->name();
  const auto made = [](Result<SchedulerFactory> factory, SimulatedKind kind) -> Result<SimulatedScheduler> {
    if (!factory) return make_error(factory.error());
    return SimulatedScheduler{std::move(*factory), kind};
  };
  if (name == "pbt") return made(pbt_of(std::move(*spec), max_t, space), SimulatedKind::kPopulation);
  if (name == "pb2") return made(pb2_of(std::move(*spec), max_t, space), SimulatedKind::kPopulation);
  if (name == "resource_changing")
    return made(resource_changing_of(std::move(*spec), max_t), SimulatedKind::kResources);
  const std::vector<std::string> known = simulated_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) return no_scheduler(name, known);
  return made(scheduler_of(text, max_t), SimulatedKind::kPlain);
}

}  // namespace volador::tune
