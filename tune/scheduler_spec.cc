#include "tune/scheduler_spec.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "runtime/nearest_word.h"
#include "runtime/quantities.h"
#include "tune/asha_scheduler.h"
#include "tune/fifo_scheduler.h"
#include "tune/hyperband_scheduler.h"
#include "tune/median_stopping_scheduler.h"
#include "tune/percentile_scheduler.h"
#include "tune/wilcoxon_scheduler.h"

namespace volador::tune {
namespace {

// Options of a text; each is taken once, and what is left is unknown.
class Options {
 public:
  Options(std::string name, std::map<std::string, std::string> values)
      : name_(std::move(name)), values_(std::move(values)) {}

  int64_t integer(const std::string& option, int64_t otherwise) {
    return take(option, otherwise, [](const std::string& text) { return parse_integer(text); });
  }
  double real(const std::string& option, double otherwise) {
    return take(option, otherwise, [](const std::string& text) { return parse_real(text); });
  }
  bool boolean(const std::string& option, bool otherwise) {
    return take(option, otherwise, [](const std::string& text) { return parse_boolean(text); });
  }
  bool ray() {
    known_.push_back("rule");
    const auto found = values_.find("rule");
    if (found == values_.end()) return false;
    const std::string rule = found->second;
    values_.erase(found);
    if (rule != "ray") fail(fmt::format("{}.rule: expected ray, got \"{}\"", name_, rule));
    return true;
  }
  // After all were taken.
  Result<SchedulerFactory> make(SchedulerFactory factory) const {
    if (error_) return make_error(*error_);
    if (values_.empty()) return factory;
    const std::string& word = values_.begin()->first;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: there is no option \"{}\"{}; known: {}", name_, word, did_you_mean(word, known_),
                                  known_.empty() ? "none" : fmt::format("{}", fmt::join(known_, ", "))));
  }

 private:
  template <class T, class F>
  T take(const std::string& option, T otherwise, F parse) {
    known_.push_back(option);
    const auto found = values_.find(option);
    if (found == values_.end()) return otherwise;
    const auto value = parse(found->second);
    if (!value) fail(fmt::format("{}.{}: {}", name_, option, value.error().message));
    values_.erase(found);
    return value ? static_cast<T>(*value) : otherwise;
  }
  void fail(std::string message) {
    if (!error_) error_ = Error{ErrorCode::kInvalidArgument, std::move(message)};
  }

  std::string name_;
  std::map<std::string, std::string> values_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

Result<SchedulerFactory> asha_of(Options options, int64_t max_t) {
  AshaOptions made;
  made.grace_period = options.integer("grace_period", made.grace_period);
  made.max_t = options.integer("max_t", max_t);
  made.reduction_factor = options.real("reduction_factor", made.reduction_factor);
  made.brackets = static_cast<int>(options.integer("brackets", made.brackets));
  if (options.ray()) made.rule = AshaRule::kRay;
  if (options.boolean("promotion", false)) made.variant = AshaVariant::kPromotion;
  return options.make(asha(made));
}

Result<SchedulerFactory> hyperband_of(Options options, int64_t max_t, bool one_bracket, bool largest_first) {
  HyperBandOptions made;
  made.largest_first = largest_first;
  made.max_t = options.integer("max_t", max_t);
  made.eta = options.real("eta", made.eta);
  if (one_bracket)
    made.only_bracket = hyperband_brackets(std::max<int64_t>(made.max_t, 1), std::max(made.eta, 1.0001)) - 1;
  if (options.ray()) made.rule = HyperBandRule::kRay;
  return options.make(hyperband(made));
}

Result<SchedulerFactory> median_of(Options options) {
  MedianStoppingOptions made;
  made.grace_period = options.integer("grace_period", made.grace_period);
  made.min_samples_required = options.integer("min_samples_required", made.min_samples_required);
  made.hard_stop = options.boolean("hard_stop", made.hard_stop);
  return options.make(median_stopping(made));
}

Result<SchedulerFactory> percentile_of(Options options) {
  PercentileOptions made;
  made.percentile = options.real("percentile", made.percentile);
  made.n_startup_trials = options.integer("n_startup_trials", made.n_startup_trials);
  made.n_warmup_steps = options.integer("n_warmup_steps", made.n_warmup_steps);
  made.interval_steps = options.integer("interval_steps", made.interval_steps);
  made.n_min_trials = options.integer("n_min_trials", made.n_min_trials);
  return options.make(percentile_pruner(made));
}

Result<SchedulerFactory> wilcoxon_of(Options options) {
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
  const size_t colon = text.find(':');
  const std::string name(text.substr(0, colon));
  auto pairs = parse_pairs(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  if (!pairs) return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", name, pairs.error().message));
  Options options(name, std::move(*pairs));
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
