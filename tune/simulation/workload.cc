#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "runtime/random.h"
#include "tune/simulation/simulation.h"

namespace volador::tune {
namespace {

// An independent random stream for each purpose, trial and number.
SeededRandom stream(uint64_t seed, uint64_t purpose, TrialId trial, int64_t number) {
  SeededRandom mixer(seed * 0x9e3779b97f4a7c15ULL ^ purpose << 56 ^ uint64_t{trial.value()} << 20 ^
                     static_cast<uint64_t>(number));
  return SeededRandom(mixer.next());
}

double normal(SeededRandom& random) {
  const double u = std::max(random.real(), 1e-300);
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * random.real());
}

enum Purpose : uint64_t { kCurve = 1, kNoise, kSpeed, kStretch, kFailure };

// Index and length of the stretch that a step belongs to: 1, then up to stretch, up to stretch²…
struct Stretch {
  int64_t number = 0;
  double steps = 1;
};
Stretch stretch_of(int64_t step, double factor) {
  double end = 1, begin = 0;
  int64_t number = 0;
  while (static_cast<double>(step) > end + 1e-9) {
    begin = std::floor(end + 1e-9);
    end *= factor;
    ++number;
  }
  return {number, std::max(std::floor(end + 1e-9) - begin, 1.0)};
}

double value_at(const SyntheticOptions& options, const Workload::At& at) {
  SeededRandom random = stream(options.seed, kCurve, at.trial, 0);
  const double start = 0.1 * random.real();
  const double limit = start + (1 - start) * random.real();
  const double rate = 0.3 + 1.2 * random.real();  // Slow curves may end above quick ones.
  const double value = limit - (limit - start) * std::pow(static_cast<double>(at.step), -rate);
  if (options.noise == 0) return value;
  SeededRandom noise = stream(options.seed, kNoise, at.trial, at.step);
  return value + options.noise * normal(noise);
}

double moved_value(const MovingTarget& target, const Workload::At& at) {
  const double before = std::isnan(at.before) ? 0 : at.before;
  const double wanted = 1 - std::min(static_cast<double>(at.step) / static_cast<double>(target.horizon), 1.0);
  const double good = std::max(0.0, 1 - 3 * std::abs(at.config.real(target.parameter) - wanted));
  return before + (1 - before) * 5 / static_cast<double>(target.horizon) * good;
}

double seconds_at(const SyntheticOptions& options, const Workload::At& at) {
  double each = options.step_s;
  if (at.cpus != 1) each *= 1 - options.parallel + options.parallel / at.cpus;
  if (options.speed_sd > 0) {
    SeededRandom random = stream(options.seed, kSpeed, at.trial, 0);
    each *= 1 + std::abs(options.speed_sd * normal(random));
  }
  if (options.straggler_sd == 0 && options.drop_per_s == 0) return each;
  const Stretch stretch = stretch_of(at.step, options.stretch);
  SeededRandom random = stream(options.seed, kStretch, at.trial, stretch.number);
  // Repeats until an attempt is not lost; a lost one costs the time until then.
  constexpr int kTriesMax = 100'000;
  double spent = 0;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    const double needed = each * stretch.steps * (1 + std::abs(options.straggler_sd * normal(random)));
    const double lost_at =
        options.drop_per_s > 0 ? std::log(std::max(random.real(), 1e-300)) / std::log1p(-options.drop_per_s) : needed;
    if (lost_at >= needed) return (spent + needed) / stretch.steps;
    spent += lost_at;
  }
  return spent / stretch.steps;
}

struct Recorded {
  std::vector<double> values, seconds;  // By step, from 1.
  double mean_s = 1;
};

}  // namespace

Result<Workload> synthetic_workload(const SyntheticOptions& options) {
  const auto at_least = [](std::string_view name, double value, double least) -> Result<void> {
    if (value >= least && std::isfinite(value)) return {};
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: expected a number of at least {}, got {}", name, least, value));
  };
  VOLADOR_TRY(at_least("step_s", options.step_s, 1e-6));
  VOLADOR_TRY(at_least("speed_sd", options.speed_sd, 0));
  VOLADOR_TRY(at_least("straggler_sd", options.straggler_sd, 0));
  VOLADOR_TRY(at_least("noise", options.noise, 0));
  if (!(options.parallel >= 0 && options.parallel <= 1))
    return make_error(ErrorCode::kInvalidArgument, fmt::format("parallel: expected 0 to 1, got {}", options.parallel));
  VOLADOR_TRY(at_least("stretch", options.stretch, 1.01));
  for (const auto& [name, chance] :
       {std::pair("drop_per_s", options.drop_per_s), std::pair("fail_per_step", options.fail_per_step)}) {
    if (!(chance >= 0 && chance < 1))
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: expected 0 to less than 1, got {}", name, chance));
  }
  Workload workload;
  workload.value = [options](const Workload::At& at) { return value_at(options, at); };
  workload.seconds = [options](const Workload::At& at) { return seconds_at(options, at); };
  if (options.fail_per_step > 0) {
    workload.fails = [options](const Workload::At& at) {
      return stream(options.seed, kFailure, at.trial, at.attempt << 40 ^ at.step).real() < options.fail_per_step;
    };
  }
  return workload;
}

Result<Workload> moving_target_workload(const SyntheticOptions& options, const MovingTarget& target) {
  auto workload = synthetic_workload(options);
  if (!workload) return workload;
  if (target.horizon < 1)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("horizon: expected at least 1 step, got {}", target.horizon));
  workload->value = [target](const Workload::At& at) { return moved_value(target, at); };
  return workload;
}

Result<RecordedWorkload> recorded_workload(const Analysis& analysis, const std::string& metric) {
  auto recorded = std::make_shared<std::vector<Recorded>>();
  RecordedWorkload out;
  std::map<TrialId, Recorded> by_trial;
  bool any = false;
  try {
    for (const Analysis::Row& row : analysis.results()) {
      Recorded& one = by_trial[row.trial];
      const auto value = row.result.get(metric);
      any = any || value.has_value();
      one.values.push_back(value.value_or(std::nan("")));
      one.seconds.push_back(std::max(row.result.get("time_this_iter_s").value_or(1), 1e-9));
    }
    if (by_trial.empty())
      return make_error(ErrorCode::kNotFound,
                        fmt::format("{}: the run recorded no results", analysis.directory().string()));
    if (!any) (void)analysis.best_trial({.metric = metric});  // Throws and names the available metrics.
  } catch (const Exception& exception) {
    return make_error(exception.error());
  }
  for (const Trial& trial : analysis.trials()) {
    const auto found = by_trial.find(trial.id);
    if (found == by_trial.end()) continue;  // It never reported.
    Recorded& one = found->second;
    double sum = 0;
    for (const double seconds : one.seconds) sum += seconds;
    one.mean_s = sum / static_cast<double>(one.seconds.size());
    out.steps_max = std::max(out.steps_max, static_cast<int64_t>(one.values.size()));
    out.configs.push_back(trial.config);
    recorded->push_back(std::move(one));
  }
  const auto of = [recorded](const Workload::At& at) -> const Recorded& {
    return (*recorded)[static_cast<size_t>(at.index) % recorded->size()];
  };
  out.workload.value = [of](const Workload::At& at) {
    const std::vector<double>& values = of(at).values;
    return values[std::min(static_cast<size_t>(at.step), values.size()) - 1];
  };
  out.workload.seconds = [of](const Workload::At& at) {
    const Recorded& one = of(at);
    return static_cast<size_t>(at.step) <= one.seconds.size() ? one.seconds[static_cast<size_t>(at.step) - 1]
                                                              : one.mean_s;
  };
  return out;
}

}  // namespace volador::tune
