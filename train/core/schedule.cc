#include "train/core/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string_view>
#include <utility>

#include "runtime/result.h"

namespace volador::train {
namespace schedules {
namespace {

template <class T>
void require(bool holds, std::string_view option, std::string_view rule, const T& value) {
  if (holds) return;
  throw Exception(Error{ErrorCode::kInvalidArgument, fmt::format("{}: expected {}, got {}", option, rule, value)});
}

void require_at_least(int64_t least, std::string_view option, int64_t value) {
  require(value >= least, option, fmt::format("a number of steps of at least {}", least), value);
}

void require_above_zero(std::string_view option, double value) {
  require(value > 0 && std::isfinite(value), option, "a finite number above 0", value);
}

void require_not_negative(std::string_view option, double value) {
  require(value >= 0 && std::isfinite(value), option, "a finite number of at least 0", value);
}

void require_fraction(std::string_view option, double value) {
  require(value >= 0 && value <= 1, option, "a number from 0 to 1", value);
}

void require_momentum(std::string_view option, double value) {
  require(value >= 0 && value < 1, option, "a number of at least 0 and below 1", value);
}

// Whether the milestones ascend from 0; `strictly` refuses equal ones.
void require_ascending(std::string_view option, const std::vector<int64_t>& milestones, bool strictly) {
  for (size_t i = 0; i < milestones.size(); ++i) {
    require(milestones[i] >= 0, fmt::format("{}[{}]", option, i), "a step of at least 0", milestones[i]);
    if (i == 0) continue;
    const int64_t least = milestones[i - 1] + (strictly ? 1 : 0);
    require(milestones[i] >= least, fmt::format("{}[{}]", option, i),
            fmt::format("milestones in {}ascending order, so at least {}", strictly ? "strictly " : "", least),
            milestones[i]);
  }
}

void require_schedules(std::string_view option, const std::vector<SchedulePtr>& schedules) {
  require(!schedules.empty(), option, "at least one schedule", "none");
  for (size_t i = 0; i < schedules.size(); ++i) {
    require(schedules[i] != nullptr, fmt::format("{}[{}]", option, i), "a schedule", "a null pointer");
  }
}

void require_step(int64_t step) { require(step >= 0, "schedule step", "a number of at least 0", step); }

double ratio(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

// Half a cosine wave from 0 to 1 as x goes from 0 to 1. Equals (1 + cos(π(1 - x))) / 2, without its cancellation near
// 0; exactly 0 at 0 and 1 at 1.
double half_cosine(double x) {
  const double root = std::sin(std::numbers::pi / 2 * x);
  return root * root;
}

// floor + (base_rate - floor) · factor(step).
template <class Factor>
class Scaled final : public Schedule {
 public:
  Scaled(double floor, Factor factor) : floor_(floor), factor_(std::move(factor)) {}

  double rate(double base_rate, int64_t step) const override {
    require_step(step);
    return floor_ + (base_rate - floor_) * factor_(step);
  }

 private:
  double floor_;
  Factor factor_;
};

template <class Factor>
SchedulePtr scaled(Factor factor, double floor = 0) {
  return std::make_shared<Scaled<Factor>>(floor, std::move(factor));
}

class OneCycle final : public Schedule {
 public:
  explicit OneCycle(const OneCycleOptions& options) : options_(options) {}

  double rate(double base_rate, int64_t step) const override {
    const double highest = options_.max_lr.value_or(base_rate);
    const double first = highest / options_.div_factor;
    return value(step, {.start = first, .peak = highest, .end = first / options_.final_div_factor});
  }

  std::optional<double> momentum(int64_t step) const override {
    if (!options_.cycle_momentum) return std::nullopt;
    return value(step, {.start = options_.max_momentum, .peak = options_.base_momentum, .end = options_.max_momentum});
  }

 private:
  struct Levels {
    double start, peak, end;
  };
  // Ends at step `last`, which need not be whole.
  struct Phase {
    double last, from, to;
  };

  double value(int64_t step, const Levels& levels) const {
    require_step(step);
    const auto steps = static_cast<double>(options_.total_steps);
    const double rise = options_.pct_start * steps - 1, last = steps - 1;
    const double position = std::min(static_cast<double>(step), last);
    if (position <= rise) return between(0, position, {rise, levels.start, levels.peak});
    if (!options_.three_phase) return between(rise, position, {last, levels.peak, levels.end});
    const double fall = 2 * options_.pct_start * steps - 2;
    if (position <= fall) return between(rise, position, {fall, levels.peak, levels.start});
    return between(fall, position, {last, levels.start, levels.end});
  }

  double between(double first, double position, const Phase& phase) const {
    const double length = phase.last - first;
    const double left = length > 0 ? (phase.last - position) / length : 0;
    return phase.to + (phase.from - phase.to) * (options_.anneal == Anneal::kCosine ? half_cosine(left) : left);
  }

  OneCycleOptions options_;
};

class Cyclic final : public Schedule {
 public:
  explicit Cyclic(const CyclicOptions& options) : options_(options) {}

  double rate(double base_rate, int64_t step) const override {
    const double lowest = options_.base_lr.value_or(base_rate);
    return lowest + (options_.max_lr - lowest) * height(step);
  }

  std::optional<double> momentum(int64_t step) const override {
    if (!options_.cycle_momentum) return std::nullopt;
    return options_.max_momentum - (options_.max_momentum - options_.base_momentum) * height(step);
  }

 private:
  // Position between the lowest (0) and the highest (1) rate.
  double height(int64_t step) const {
    require_step(step);
    const auto up = static_cast<uint64_t>(options_.step_size_up);
    const auto down = static_cast<uint64_t>(options_.step_size_down.value_or(options_.step_size_up));
    const uint64_t period = up + down, cycle = static_cast<uint64_t>(step) / period;
    const uint64_t position = static_cast<uint64_t>(step) % period;
    const double triangle = position <= up ? static_cast<double>(position) / static_cast<double>(up)
                                           : static_cast<double>(period - position) / static_cast<double>(down);
    switch (options_.mode) {
      case CyclicMode::kTriangular:
        return triangle;
      case CyclicMode::kTriangular2:
        return triangle * std::exp2(-static_cast<double>(cycle));
      case CyclicMode::kExpRange:
        return triangle * std::pow(options_.gamma, static_cast<double>(step));
    }
    return triangle;
  }

  CyclicOptions options_;
};

class Chained final : public Schedule {
 public:
  explicit Chained(std::vector<SchedulePtr> schedules) : schedules_(std::move(schedules)) {}

  double rate(double base_rate, int64_t step) const override {
    for (const SchedulePtr& schedule : schedules_) base_rate = schedule->rate(base_rate, step);
    return base_rate;
  }

  std::optional<double> momentum(int64_t step) const override {
    require_step(step);
    for (auto schedule = schedules_.rbegin(); schedule != schedules_.rend(); ++schedule) {
      if (const auto momentum = (*schedule)->momentum(step)) return momentum;
    }
    return std::nullopt;
  }

 private:
  std::vector<SchedulePtr> schedules_;
};

class Sequential final : public Schedule {
 public:
  explicit Sequential(SequentialOptions options) : options_(std::move(options)) {}

  double rate(double base_rate, int64_t step) const override {
    const Place place = find(step);
    return place.schedule.rate(base_rate, place.step);
  }

  std::optional<double> momentum(int64_t step) const override {
    const Place place = find(step);
    return place.schedule.momentum(place.step);
  }

 private:
  struct Place {
    const Schedule& schedule;
    int64_t step;  // Its own.
  };

  Place find(int64_t step) const {
    require_step(step);
    const auto& milestones = options_.milestones;
    const auto next = std::upper_bound(milestones.begin(), milestones.end(), step);
    const int64_t first = next == milestones.begin() ? 0 : *std::prev(next);
    return {*options_.schedules[static_cast<size_t>(next - milestones.begin())], step - first};
  }

  SequentialOptions options_;
};

}  // namespace
}  // namespace schedules

Schedule::~Schedule() = default;

std::optional<double> Schedule::momentum(int64_t step) const {
  schedules::require_step(step);
  return std::nullopt;
}

namespace schedules {

SchedulePtr constant(const ConstantOptions& options) {
  require_fraction("schedules::constant: factor", options.factor);
  require_at_least(1, "schedules::constant: total_iters", options.total_iters);
  return scaled([options](int64_t step) { return step < options.total_iters ? options.factor : 1; });
}

SchedulePtr linear(const LinearOptions& options) {
  require(options.start_factor > 0 && options.start_factor <= 1, "schedules::linear: start_factor",
          "a number above 0 and at most 1", options.start_factor);
  require_fraction("schedules::linear: end_factor", options.end_factor);
  require_at_least(1, "schedules::linear: total_iters", options.total_iters);
  return scaled([options](int64_t step) {
    if (step >= options.total_iters) return options.end_factor;
    return options.start_factor + (options.end_factor - options.start_factor) * ratio(step, options.total_iters);
  });
}

SchedulePtr step(const StepOptions& options) {
  require_at_least(1, "schedules::step: step_size", options.step_size);
  require_above_zero("schedules::step: gamma", options.gamma);
  return scaled(
      [options](int64_t step) { return std::pow(options.gamma, static_cast<double>(step / options.step_size)); });
}

SchedulePtr multi_step(MultiStepOptions options) {
  require_ascending("schedules::multi_step: milestones", options.milestones, /*strictly=*/false);
  require_above_zero("schedules::multi_step: gamma", options.gamma);
  return scaled([options = std::move(options)](int64_t step) {
    const auto& milestones = options.milestones;
    const auto decays = std::upper_bound(milestones.begin(), milestones.end(), step) - milestones.begin();
    return std::pow(options.gamma, static_cast<double>(decays));
  });
}

SchedulePtr exponential(const ExponentialOptions& options) {
  require_above_zero("schedules::exponential: gamma", options.gamma);
  return scaled([options](int64_t step) { return std::pow(options.gamma, static_cast<double>(step)); });
}

SchedulePtr cosine(const CosineOptions& options) {
  require_at_least(1, "schedules::cosine: t_max", options.t_max);
  require_not_negative("schedules::cosine: eta_min", options.eta_min);
  return scaled(
      [t_max = options.t_max](int64_t step) {
        const bool rises = step / t_max % 2 == 1;
        const int64_t position = step % t_max;
        return half_cosine(ratio(rises ? position : t_max - position, t_max));
      },
      options.eta_min);
}

SchedulePtr cosine_warm_restarts(const CosineWarmRestartsOptions& options) {
  require_at_least(1, "schedules::cosine_warm_restarts: t_0", options.t_0);
  require(options.t_mult >= 1, "schedules::cosine_warm_restarts: t_mult", "a number of at least 1", options.t_mult);
  require_not_negative("schedules::cosine_warm_restarts: eta_min", options.eta_min);
  return scaled(
      [options](int64_t step) {
        int64_t position = step, period = options.t_0;
        if (options.t_mult == 1) position %= period;
        while (position >= period) {
          position -= period;
          const bool fits = period <= std::numeric_limits<int64_t>::max() / options.t_mult;
          period = fits ? period * options.t_mult : std::numeric_limits<int64_t>::max();
        }
        return half_cosine(ratio(period - position, period));
      },
      options.eta_min);
}

SchedulePtr polynomial(const PolynomialOptions& options) {
  require_at_least(1, "schedules::polynomial: total_iters", options.total_iters);
  require_above_zero("schedules::polynomial: power", options.power);
  return scaled([options](int64_t step) {
    const int64_t left = options.total_iters - std::min(step, options.total_iters);
    return std::pow(ratio(left, options.total_iters), options.power);
  });
}

SchedulePtr one_cycle(const OneCycleOptions& options) {
  if (options.max_lr) require_above_zero("schedules::one_cycle: max_lr", *options.max_lr);
  require_at_least(1, "schedules::one_cycle: total_steps", options.total_steps);
  require_fraction("schedules::one_cycle: pct_start", options.pct_start);
  require(!options.three_phase || options.pct_start <= 0.5, "schedules::one_cycle: pct_start",
          "at most 0.5 with three_phase, whose first two phases are equally long", options.pct_start);
  require_momentum("schedules::one_cycle: base_momentum", options.base_momentum);
  require_momentum("schedules::one_cycle: max_momentum", options.max_momentum);
  require_above_zero("schedules::one_cycle: div_factor", options.div_factor);
  require_above_zero("schedules::one_cycle: final_div_factor", options.final_div_factor);
  return std::make_shared<OneCycle>(options);
}

SchedulePtr cyclic(const CyclicOptions& options) {
  if (options.base_lr) require_not_negative("schedules::cyclic: base_lr", *options.base_lr);
  require_above_zero("schedules::cyclic: max_lr", options.max_lr);
  require_at_least(1, "schedules::cyclic: step_size_up", options.step_size_up);
  if (options.step_size_down) require_at_least(1, "schedules::cyclic: step_size_down", *options.step_size_down);
  require_above_zero("schedules::cyclic: gamma", options.gamma);
  require_momentum("schedules::cyclic: base_momentum", options.base_momentum);
  require_momentum("schedules::cyclic: max_momentum", options.max_momentum);
  return std::make_shared<Cyclic>(options);
}

SchedulePtr inverse_sqrt(const InverseSqrtOptions& options) {
  require_at_least(1, "schedules::inverse_sqrt: warmup_steps", options.warmup_steps);
  return scaled([warmup = static_cast<double>(options.warmup_steps)](int64_t step) {
    const double update = static_cast<double>(step) + 1;
    return std::min(update / warmup, std::sqrt(warmup / update));
  });
}

SchedulePtr noam(const NoamOptions& options) {
  require(options.model_size >= 1, "schedules::noam: model_size", "a width of at least 1", options.model_size);
  require_at_least(1, "schedules::noam: warmup_steps", options.warmup_steps);
  return scaled([options](int64_t step) {
    const double update = static_cast<double>(step) + 1, warmup = static_cast<double>(options.warmup_steps);
    return std::min(1 / std::sqrt(update), update / (warmup * std::sqrt(warmup))) /
           std::sqrt(static_cast<double>(options.model_size));
  });
}

SchedulePtr lambda(std::function<double(int64_t step)> factor) {
  require(factor != nullptr, "schedules::lambda: factor", "a function from the step to a factor", "an empty function");
  return scaled(std::move(factor));
}

SchedulePtr chained(std::vector<SchedulePtr> schedules) {
  require_schedules("schedules::chained: schedules", schedules);
  return std::make_shared<Chained>(std::move(schedules));
}

SchedulePtr sequential(SequentialOptions options) {
  require_schedules("schedules::sequential: schedules", options.schedules);
  require(options.milestones.size() + 1 == options.schedules.size(), "schedules::sequential: milestones",
          fmt::format("{} milestones, one fewer than schedules", options.schedules.size() - 1),
          options.milestones.size());
  require_ascending("schedules::sequential: milestones", options.milestones, /*strictly=*/true);
  return std::make_shared<Sequential>(std::move(options));
}

}  // namespace schedules

PlateauSchedule::PlateauSchedule(const PlateauOptions& options) : options_(options) {
  const bool lower_is_better = options.mode == PlateauMode::kMin;
  schedules::require(options.factor > 0 && options.factor < 1, "PlateauSchedule: factor",
                     "a number above 0 and below 1", options.factor);
  schedules::require_at_least(0, "PlateauSchedule: patience", options.patience);
  schedules::require_not_negative("PlateauSchedule: threshold", options.threshold);
  schedules::require(!lower_is_better || options.threshold_mode != PlateauThreshold::kRelative || options.threshold < 1,
                     "PlateauSchedule: threshold", "a number below 1 with kMin and kRelative", options.threshold);
  schedules::require_at_least(0, "PlateauSchedule: cooldown", options.cooldown);
  schedules::require_not_negative("PlateauSchedule: min_lr", options.min_lr);
  schedules::require_not_negative("PlateauSchedule: eps", options.eps);
  const double infinity = std::numeric_limits<double>::infinity();
  state_.best = lower_is_better ? infinity : -infinity;
}

bool PlateauSchedule::is_better(double metric) const {
  const double sign = options_.mode == PlateauMode::kMin ? -1 : 1;
  const double bound = options_.threshold_mode == PlateauThreshold::kRelative
                           ? state_.best * (1 + sign * options_.threshold)
                           : state_.best + sign * options_.threshold;
  return options_.mode == PlateauMode::kMin ? metric < bound : metric > bound;
}

bool PlateauSchedule::step(double metric) {
  if (is_better(metric)) {
    state_.best = metric;
    state_.bad_steps = 0;
  } else {
    ++state_.bad_steps;
  }
  if (state_.cooldown_left > 0) {
    --state_.cooldown_left;
    state_.bad_steps = 0;
  }
  if (state_.bad_steps <= options_.patience) return false;
  ++state_.reductions;
  state_.cooldown_left = options_.cooldown;
  state_.bad_steps = 0;
  return true;
}

double PlateauSchedule::reduce(double current_rate) const {
  const double reduced = std::max(current_rate * options_.factor, options_.min_lr);
  return current_rate - reduced > options_.eps ? reduced : current_rate;
}

double PlateauSchedule::rate(double base_rate) const {
  for (int64_t i = 0; i < state_.reductions; ++i) {
    const double reduced = reduce(base_rate);
    if (!(reduced < base_rate)) break;  // No later reduction changes it either.
    base_rate = reduced;
  }
  return base_rate;
}

void PlateauSchedule::load(const State& state) {
  schedules::require(!std::isnan(state.best), "PlateauSchedule::State: best", "a number", state.best);
  schedules::require_at_least(0, "PlateauSchedule::State: bad_steps", state.bad_steps);
  schedules::require_at_least(0, "PlateauSchedule::State: cooldown_left", state.cooldown_left);
  schedules::require(state.reductions >= 0, "PlateauSchedule::State: reductions", "a number of at least 0",
                     state.reductions);
  state_ = state;
}

}  // namespace volador::train
