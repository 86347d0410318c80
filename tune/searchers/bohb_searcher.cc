#include "tune/searchers/bohb_searcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "tune/searchers/model_searcher.h"
#include "tune/snapshot.h"
#include "tune/space/drawing.h"

namespace volador::tune {
namespace {

constexpr double kLeastDensity = 1e-32;

using Kind = SearchDimensions::Kind;

double normal_below(double z) { return 0.5 * std::erfc(-z * M_SQRT1_2); }

// Product kernel density with bandwidths by the normal reference rule; all coordinates active.
class Density {
 public:
  Density(const SearchDimensions& dimensions, std::vector<Point> data, double min_bandwidth)
      : dimensions_(dimensions), data_(std::move(data)) {
    const auto count = static_cast<double>(data_.size());
    const double shrink = std::pow(count, -1 / (4 + static_cast<double>(dimensions.size())));
    for (size_t i = 0; i < dimensions.size(); ++i) {
      double sum = 0, squares = 0;
      for (const Point& point : data_) sum += at(i, point[i]);
      for (const Point& point : data_) squares += std::pow(at(i, point[i]) - sum / count, 2);
      double width = std::max(1.06 * std::sqrt(squares / count) * shrink, min_bandwidth);
      if (is_choice(i)) width = std::min(width, 1 - 1 / options(i));
      widths_.push_back(width);
    }
  }

  const std::vector<Point>& data() const { return data_; }
  double width(size_t dimension) const { return widths_[dimension]; }

  // Logarithm up to a constant that densities over the same dimensions share.
  double log_density(const Point& point) const {
    double norm = 0;
    for (size_t i = 0; i < widths_.size(); ++i) norm -= is_choice(i) ? 0 : std::log(widths_[i]);
    double sum = 0;
    for (const Point& one : data_) sum += std::exp(std::max(log_kernel(one, point), -700.0));
    return std::log(std::max(sum / static_cast<double>(data_.size()) * std::exp(norm), kLeastDensity));
  }

 private:
  bool is_choice(size_t i) const { return dimensions_[i].kind == Kind::kCategorical; }
  double options(size_t i) const { return static_cast<double>(std::max<uint64_t>(dimensions_[i].cells, 2)); }
  // Options of a choice are numbered from 0.
  double at(size_t i, double coordinate) const {
    return is_choice(i) ? static_cast<double>(dimensions_.cell_of(i, coordinate)) : coordinate;
  }
  double log_kernel(const Point& centre, const Point& point) const {
    double log = 0;
    for (size_t i = 0; i < widths_.size(); ++i) {
      if (is_choice(i)) {
        const bool same = dimensions_.cell_of(i, centre[i]) == dimensions_.cell_of(i, point[i]);
        log += std::log(same ? 1 - widths_[i] : widths_[i] / (options(i) - 1));
      } else {
        const double z = (point[i] - centre[i]) / widths_[i];
        log -= 0.5 * z * z;
      }
    }
    return log;
  }

  const SearchDimensions& dimensions_;
  const std::vector<Point> data_;
  std::vector<double> widths_;
};

class BohbModel final : public SearchModel {
 public:
  BohbModel(const ModelContext& context, const BohbOptions& options)
      : dimensions_(context.dimensions),
        seed_(context.seed),
        options_(options),
        budgets_(bohb_budgets(options.max_t, options.eta)) {}

  std::vector<Point> propose(int64_t index, int attempt) override {
    SeededRandom random = model_random(seed_, index, attempt);
    const bool at_random = random.real() < options_.random_fraction;
    for (size_t budget = budgets_.size(); budget-- > 0 && !at_random && dimensions_.size() > 0;) {
      if (auto found = modelled(budget, random); !found.empty()) return found;
    }
    return {dimensions_.random_point(random)};
  }

  void taken(int64_t index, const Point& point) override {
    if (const auto found = trials_.find(index); found != trials_.end() && found->second.ended) --ended_;
    trials_[index] = {.point = point};
  }

  void reported(int64_t index, int64_t step, double value) override {
    const auto found = trials_.find(index);
    if (found == trials_.end() || found->second.ended || step <= found->second.last_step) return;
    found->second.last_step = step;
    const auto above = std::upper_bound(budgets_.begin(), budgets_.end(), step);
    if (above != budgets_.begin()) record(found->second, static_cast<size_t>(above - budgets_.begin()) - 1, value);
  }

  void ended(int64_t index, double value) override {
    const auto found = trials_.find(index);
    if (found == trials_.end() || found->second.ended) return;
    Trial& trial = found->second;
    const auto above =
        static_cast<size_t>(std::upper_bound(budgets_.begin(), budgets_.end(), trial.last_step) - budgets_.begin());
    const bool failed = std::isnan(value);
    record(trial, failed ? std::min(above, budgets_.size() - 1) : std::max<size_t>(above, 1) - 1, value);
    trial.ended = true;
    if (++ended_ > options_.history_max) forget_one();
  }

  std::string describe() const override { return "BOHB"; }

  Config state() const override {
    Config trials = Config::list({});
    for (const auto& [index, trial] : trials_) {
      Config values = Config::list({});
      for (const auto& [budget, value] : trial.values) values.push_back(Config::list({budget, value}));
      trials.push_back({{"index", index},
                        {"point", SearchDimensions::to_text(trial.point)},
                        {"step", trial.last_step},
                        {"ended", trial.ended},
                        {"values", std::move(values)}});
    }
    return {{"trials", std::move(trials)}};
  }

  Result<std::function<void()>> read(const Config& state) override {
    std::map<int64_t, Trial> trials;
    int64_t ended = 0;
    const Config all = state["trials"];
    for (const Config& entry : all.items()) {
      auto point = dimensions_.from_text(entry.text("point"));
      if (!point) return snapshot_does_not_fit(describe(), "a point of another space");
      Trial trial{.point = std::move(*point), .last_step = entry.integer("step"), .ended = entry.boolean("ended")};
      const Config values = entry["values"];
      for (const Config& pair : values.items()) {
        const int64_t budget = pair[0].integer();
        const bool fits = budget >= 0 && budget < static_cast<int64_t>(budgets_.size()) &&
                          (trial.values.empty() || static_cast<int64_t>(trial.values.back().first) < budget);
        if (!fits || std::isnan(pair[1].real())) return snapshot_does_not_fit(describe(), "another max_t or eta");
        trial.values.emplace_back(static_cast<size_t>(budget), pair[1].real());
      }
      ended += trial.ended;
      if (!trials.emplace(entry.integer("index"), std::move(trial)).second)
        return snapshot_does_not_fit(describe(), "a trial twice");
    }
    return [this, trials = std::move(trials), ended]() mutable {
      trials_ = std::move(trials);
      ended_ = ended;
    };
  }

 private:
  struct Trial {
    Point point = {};
    int64_t last_step = 0;
    bool ended = false;
    std::vector<std::pair<size_t, double>> values = {};  // By budget, ascending; infinite if not a number.
  };

  static void record(Trial& trial, size_t budget, double value) {
    if (!trial.values.empty() && trial.values.back().first >= budget) return;
    trial.values.emplace_back(budget, std::isnan(value) ? std::numeric_limits<double>::infinity() : value);
  }

  void forget_one() {
    const auto oldest =
        std::find_if(trials_.begin(), trials_.end(), [](const auto& entry) { return entry.second.ended; });
    trials_.erase(oldest);
    --ended_;
  }

  // Empty if the budget has too few trials.
  std::vector<Point> modelled(size_t budget, Random& random) const {
    std::vector<std::pair<double, const Point*>> results;
    for (const auto& [index, trial] : trials_) {
      for (const auto& [at, value] : trial.values) {
        if (at == budget) results.emplace_back(value, &trial.point);
      }
    }
    const size_t count = results.size();
    const auto split = bohb_split(static_cast<int64_t>(count), static_cast<int64_t>(dimensions_.size()), options_);
    if (!split) return {};
    const auto good = static_cast<size_t>(split->good);
    std::stable_sort(results.begin(), results.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Point> near, far;
    for (size_t i = 0; i < count; ++i) (i < good ? near : far).push_back(*results[i].second);
    fill_gaps(near, random);
    fill_gaps(far, random);
    return ranked(Density(dimensions_, std::move(near), options_.min_bandwidth),
                  Density(dimensions_, std::move(far), options_.min_bandwidth), random);
  }

  // Fills inactive coordinates of a point with those of another point, or random ones.
  void fill_gaps(std::vector<Point>& points, Random& random) const {
    for (size_t i = 0; i < dimensions_.size(); ++i) {
      std::vector<double> there;
      for (const Point& point : points) {
        if (point[i] != kInactive) there.push_back(point[i]);
      }
      for (Point& point : points) {
        if (point[i] == kInactive) point[i] = there.empty() ? random.real() : there[random.below(there.size())];
      }
    }
  }

  std::vector<Point> ranked(const Density& good, const Density& bad, Random& random) const {
    std::vector<std::pair<double, Point>> drawn;
    for (int64_t i = 0; i < options_.num_samples; ++i) {
      Point point = draw(good, random);
      const double score = good.log_density(point) - bad.log_density(point);
      drawn.emplace_back(score, dimensions_.settled(std::move(point)));
    }
    std::stable_sort(drawn.begin(), drawn.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<Point> out;
    for (auto& [score, point] : drawn) out.push_back(std::move(point));
    return out;
  }

  Point draw(const Density& good, Random& random) const {
    Point point = good.data()[random.below(good.data().size())];
    for (size_t i = 0; i < point.size(); ++i) {
      if (dimensions_[i].kind == Kind::kCategorical) {
        if (random.real() < good.width(i)) point[i] = random.real();
        continue;
      }
      const double width = good.width(i) * options_.bandwidth_factor;
      const double low = normal_below((0 - point[i]) / width), high = normal_below((1 - point[i]) / width);
      const double u = low + (high - low) * random.real();
      point[i] = std::clamp(point[i] + width * normal_quantile(std::clamp(u, 1e-300, kBelowOne)), 0.0, kBelowOne);
    }
    return point;
  }

  const SearchDimensions& dimensions_;
  const uint64_t seed_;
  const BohbOptions options_;
  const std::vector<int64_t> budgets_;  // In steps, ascending.
  std::map<int64_t, Trial> trials_;
  int64_t ended_ = 0;  // Number of stored ended trials.
};

Result<void> validate(const BohbOptions& options) {
  const auto refuse = [](std::string_view option, std::string_view rule, double got) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("bohb.{}: expected {}, got {}", option, rule, format_real(got)));
  };
  const auto real = [](int64_t value) { return static_cast<double>(value); };
  const auto positive = [](double value) { return value > 0 && std::isfinite(value); };
  if (options.max_t < 1 || options.max_t > int64_t{1} << 53)
    return refuse("max_t", "1 to 2^53 steps", real(options.max_t));
  if (!(options.eta > 1.001) || !std::isfinite(options.eta)) return refuse("eta", "a number above 1.001", options.eta);
  if (options.min_points_in_model < 0)
    return refuse("min_points_in_model", "at least 1, or 0 for the default", real(options.min_points_in_model));
  if (!(options.top_n_percent > 0 && options.top_n_percent < 100))
    return refuse("top_n_percent", "a number above 0 and below 100", options.top_n_percent);
  if (options.num_samples < 1 || options.num_samples > 100'000)
    return refuse("num_samples", "1 to 100000", real(options.num_samples));
  if (!(options.random_fraction >= 0 && options.random_fraction <= 1))
    return refuse("random_fraction", "0 to 1", options.random_fraction);
  if (!positive(options.bandwidth_factor))
    return refuse("bandwidth_factor", "a number above 0", options.bandwidth_factor);
  if (!positive(options.min_bandwidth)) return refuse("min_bandwidth", "a number above 0", options.min_bandwidth);
  if (options.history_max < 10) return refuse("history_max", "at least 10 trials", real(options.history_max));
  return {};
}

}  // namespace

std::vector<int64_t> bohb_budgets(int64_t max_t, double eta) {
  std::vector<int64_t> budgets;
  for (double budget = static_cast<double>(max_t); budget >= 1 - 1e-9; budget /= eta) {
    const auto steps = static_cast<int64_t>(budget + 1e-9);
    if (budgets.empty() || budgets.back() != steps) budgets.push_back(steps);
  }
  std::reverse(budgets.begin(), budgets.end());
  return budgets;
}

std::optional<BohbSplit> bohb_split(int64_t results, int64_t parameters, const BohbOptions& options) {
  const int64_t least = std::max(parameters + 1, options.min_points_in_model);
  if (results / 2 < least) return std::nullopt;
  const auto share = static_cast<int64_t>(options.top_n_percent * static_cast<double>(results) / 100);
  const int64_t good = std::clamp(share, least, results - least);
  return BohbSplit{good, results - good};
}

SearcherFactory bohb(const BohbOptions& options) {
  return [options](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    VOLADOR_TRY(validate(options));
    return ModelSearcher::create(context, options.seed.value_or(context.seed), [options](const ModelContext& model) {
      return std::make_unique<BohbModel>(model, options);
    });
  };
}

}  // namespace volador::tune
