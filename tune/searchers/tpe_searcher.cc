#include "tune/searchers/tpe_searcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "tune/loop/objectives.h"
#include "tune/searchers/model_searcher.h"
#include "tune/searchers/parzen_estimator.h"
#include "tune/snapshot.h"
#include "tune/space/drawing.h"
#include "tune/space/given_config.h"

namespace volador::tune {
namespace {

constexpr uint32_t kNoKernel = UINT32_MAX;
constexpr size_t kFullWeight = 25;  // Newest observations with full weight; older ones fade.

class TpeModel final : public SearchModel {
 public:
  TpeModel(const ModelContext& context, const TpeOptions& options)
      : dimensions_(context.dimensions),
        seed_(context.seed),
        objectives_(context.objectives),
        options_(options),
        orders_(dimensions_.size()) {
    parzen_ = {.prior_weight = options.prior_weight, .magic_clip = options.magic_clip, .endpoints = options.endpoints};
    good_parzen_ = parzen_;
    make_blocks();
  }

  // Sets the prior: one coordinate per dimension, kInactive if it has none.
  void expect(std::vector<double> guess) {
    good_parzen_.guess = std::move(guess);
    good_parzen_.guess_width = options_.prior_width;
  }

  std::vector<Point> propose(int64_t index, int attempt) override {
    SeededRandom random = model_random(seed_, index, attempt);
    if (values_ < options_.n_startup_trials || blocks_.empty()) return {first_point(index, attempt, random)};
    const std::vector<uint32_t> good = good_slots();
    if (blocks_.size() == 1) return ranked(blocks_[0], good, random, Point(dimensions_.size(), 0));
    Point point(dimensions_.size(), 0);
    for (const auto& block : blocks_) {
      if (dimensions_.is_active(block[0], point)) {
        point = std::move(ranked(block, good, random, point).front());
      } else {
        for (const size_t dimension : block) point[dimension] = kInactive;
      }
    }
    return {dimensions_.settled(std::move(point))};
  }

  void taken(int64_t index, const Point& point) override {
    const auto place = position(index);
    if (place < by_index_.size() && slots_[by_index_[place]].index == index) remove(place);
    add({.index = index, .point = point});
  }

  void ended(int64_t index, double value) override { judged(index, {{value}, 0}); }

  void judged(int64_t index, const Outcome& outcome) override {
    const size_t place = position(index);
    if (place == by_index_.size()) return;
    const uint32_t slot = by_index_[place];
    if (slots_[slot].index != index || slots_[slot].ended) return;
    slots_[slot].ended = true;
    slots_[slot].outcome = outcome;
    ++ended_;
    if (gave_numbers(slots_[slot])) {
      ++values_;
      rank(slot);
    }
    if (ended_ > options_.history_max) forget_one();
  }

  bool takes_goals() const override { return true; }
  std::string describe() const override { return "TPE"; }

  Config state() const override {
    Config trials = Config::list({});
    for (const uint32_t slot : by_index_) {
      const Slot& one = slots_[slot];
      Config trial = {{"index", one.index}, {"point", SearchDimensions::to_text(one.point)}};
      if (one.ended && objectives_ == 1) trial.set("value", one.outcome.values.front());
      if (one.ended && objectives_ > 1) trial.set("values", one.outcome.values);
      if (one.outcome.violation > 0) trial.set("violation", one.outcome.violation);
      trials.push_back(std::move(trial));
    }
    return {{"values", values_}, {"trials", std::move(trials)}};
  }

  Result<std::function<void()>> read(const Config& state) override {
    std::vector<Slot> slots;
    const Config trials = state["trials"];
    for (const Config& trial : trials.items()) {
      auto point = dimensions_.from_text(trial.text("point"));
      if (!point) return snapshot_does_not_fit(describe(), "a point of another space");
      Slot slot{.index = trial.integer("index"), .point = std::move(*point)};
      slot.ended = trial.contains(objectives_ == 1 ? "value" : "values");
      slot.outcome.values.clear();
      if (slot.ended && objectives_ == 1) slot.outcome.values = {trial.real("value")};
      if (slot.ended && objectives_ > 1) {
        const Config values = trial["values"];
        for (const Config& value : values.items()) slot.outcome.values.push_back(value.real());
      }
      if (trial.contains("violation")) slot.outcome.violation = trial.real("violation");
      if ((slot.ended && slot.outcome.values.size() != objectives_) || !(slot.outcome.violation >= 0))
        return snapshot_does_not_fit(describe(), "another number of objectives, or impossible numbers");
      if (!slots.empty() && slots.back().index >= slot.index)
        return snapshot_does_not_fit(describe(), "trials out of order");
      slots.push_back(std::move(slot));
    }
    return [this, slots = std::move(slots), values = state.integer("values")]() mutable {
      clear();
      for (Slot& slot : slots) add(std::move(slot));
      values_ = values;
    };
  }

 private:
  // Point before there is a model: random; with a prior first the prior itself, then points around it, every fourth one
  // uniform.
  Point first_point(int64_t index, int attempt, Random& random) const {
    Point point = dimensions_.random_point(random);
    const std::vector<double>& guess = good_parzen_.guess;
    if (guess.empty() || index % 4 == 3) return point;
    for (size_t i = 0; i < point.size(); ++i) {
      if (guess[i] == kInactive) {
        if (point[i] == kInactive) point[i] = random.real();
      } else if (index <= 0 && attempt == 0) {
        point[i] = guess[i];
      } else if (dimensions_[i].kind == SearchDimensions::Kind::kCategorical) {
        point[i] = random.below(2) == 0 ? guess[i] : random.real();
      } else {
        do point[i] = guess[i] + options_.prior_width * normal_deviate(random);
        while (!(point[i] >= 0 && point[i] < 1));
      }
    }
    return dimensions_.settled(std::move(point));
  }

  struct Slot {
    int64_t index = 0;
    Point point = {};
    Outcome outcome = {};
    bool ended = false;
  };
  static bool gave_numbers(const Slot& slot) {
    const auto nan = [](double value) { return std::isnan(value); };
    return slot.ended && !slot.outcome.values.empty() &&
           std::none_of(slot.outcome.values.begin(), slot.outcome.values.end(), nan);
  }

  // Builds the blocks of jointly drawn dimensions; a choice's block comes before those of its options.
  void make_blocks() {
    std::vector<std::pair<size_t, uint64_t>> keys;  // Parent and option of each block.
    for (size_t i = 0; i < dimensions_.size(); ++i) {
      const SearchDimensions::Dimension& dimension = dimensions_[i];
      const std::pair key{dimension.parent.value_or(SIZE_MAX), dimension.option};
      // The good trials of several objectives lie apart: joint draws would stay near individual ones of them.
      const bool joined = options_.multivariate && objectives_ == 1 && (options_.group || !dimension.parent);
      const auto found = std::find(keys.begin(), keys.end(), key);
      if (joined && found != keys.end()) {
        blocks_[static_cast<size_t>(found - keys.begin())].push_back(i);
      } else {
        keys.push_back(key);
        blocks_.push_back({i});
      }
    }
  }

  // Returns `point` with the block's coordinates replaced by candidates, best first.
  std::vector<Point> ranked(const std::vector<size_t>& block, const std::vector<uint32_t>& good, Random& random,
                            const Point& point) const {
    const ParzenData near = data(block, good, true);
    const ParzenData far = data(block, good, false);
    const ParzenEstimator good_density(dimensions_, block, near, good_parzen_);
    const ParzenEstimator bad_density(dimensions_, block, far, parzen_);
    const auto count = static_cast<size_t>(options_.n_ei_candidates);
    std::vector<std::vector<double>> columns(block.size(), std::vector<double>(count));
    for (size_t c = 0; c < count; ++c) {
      const std::vector<double> drawn = good_density.sample(random);
      for (size_t column = 0; column < block.size(); ++column) columns[column][c] = drawn[column];
    }
    const std::vector<float> above = good_density.log_densities(columns);
    const std::vector<float> below = bad_density.log_densities(columns);
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return above[a] - below[a] > above[b] - below[b]; });
    std::vector<Point> out;
    for (const size_t c : order) {
      out.push_back(point);
      for (size_t column = 0; column < block.size(); ++column) out.back()[block[column]] = columns[column][c];
    }
    return out;
  }

  std::vector<uint32_t> good_slots() const {
    const double share = std::ceil(options_.gamma * static_cast<double>(values_));
    const auto count = std::min({static_cast<size_t>(std::max(share, 1.0)),
                                 static_cast<size_t>(options_.gamma_max) * objectives_, best_.size()});
    const std::vector<uint32_t> chosen = objectives_ > 1 ? elite(count) : best_;
    std::vector<uint32_t> out(chosen.begin(), chosen.begin() + static_cast<ptrdiff_t>(count));
    std::sort(out.begin(), out.end());
    return out;
  }

  // Returns the trials in which the block is active, oldest first: the good ones, or all others.
  ParzenData data(const std::vector<size_t>& block, const std::vector<uint32_t>& good, bool want_good) const {
    std::vector<uint32_t> kernel_of(slots_.size(), kNoKernel);
    std::vector<uint32_t> members;
    for (const uint32_t slot : by_index_) {
      const Slot& one = slots_[slot];
      if (!one.ended && !options_.constant_liar) continue;
      if (std::binary_search(good.begin(), good.end(), slot) != want_good) continue;
      if (one.point[block[0]] == kInactive) continue;
      kernel_of[slot] = static_cast<uint32_t>(members.size());
      members.push_back(slot);
    }
    ParzenData out{.weights = weights(members.size())};
    for (const size_t dimension : block) {
      std::vector<double> column;
      column.reserve(members.size());
      for (const uint32_t slot : members) column.push_back(slots_[slot].point[dimension]);
      std::vector<uint32_t> order;
      order.reserve(members.size());
      for (const uint32_t slot : orders_[dimension]) {
        if (kernel_of[slot] != kNoKernel) order.push_back(kernel_of[slot]);
      }
      out.columns.push_back(std::move(column));
      out.orders.push_back(std::move(order));
    }
    return out;
  }

  static std::vector<double> weights(size_t count) {
    std::vector<double> out(count, 1);
    if (count <= kFullWeight) return out;
    const size_t fading = count - kFullWeight;
    const double first = 1 / static_cast<double>(count);
    for (size_t i = 0; i < fading; ++i) {
      const double way = fading > 1 ? static_cast<double>(i) / static_cast<double>(fading - 1) : 0;
      out[i] = first + (1 - first) * way;
    }
    return out;
  }

  // ---- Trials.

  size_t position(int64_t index) const {
    const auto found = std::lower_bound(by_index_.begin(), by_index_.end(), index,
                                        [&](uint32_t slot, int64_t wanted) { return slots_[slot].index < wanted; });
    return static_cast<size_t>(found - by_index_.begin());
  }
  auto before(size_t dimension) const {
    return [this, dimension](uint32_t a, uint32_t b) {
      return std::tie(slots_[a].point[dimension], slots_[a].index) <
             std::tie(slots_[b].point[dimension], slots_[b].index);
    };
  }
  // Order for one objective: feasible trials first, then the smallest violation.
  bool better(uint32_t a, uint32_t b) const {
    const Outcome &one = slots_[a].outcome, &other = slots_[b].outcome;
    return std::tie(one.violation, one.values.front(), slots_[a].index) <
           std::tie(other.violation, other.values.front(), slots_[b].index);
  }
  // For several objectives: the best of best_ by fronts, best first.
  std::vector<uint32_t> elite(size_t count) const {
    std::vector<Outcome> outcomes;
    for (const uint32_t slot : best_) outcomes.push_back(slots_[slot].outcome);
    std::vector<uint32_t> out;
    for (const size_t one : select_elite(outcomes, count)) out.push_back(best_[one]);
    return out;
  }

  void add(Slot one) {
    uint32_t slot = static_cast<uint32_t>(slots_.size());
    if (free_.empty()) {
      slots_.emplace_back();
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    by_index_.insert(by_index_.begin() + static_cast<ptrdiff_t>(position(one.index)), slot);
    slots_[slot] = std::move(one);
    for (size_t dimension = 0; dimension < orders_.size(); ++dimension) {
      if (slots_[slot].point[dimension] == kInactive) continue;
      auto& order = orders_[dimension];
      order.insert(std::upper_bound(order.begin(), order.end(), slot, before(dimension)), slot);
    }
    if (!slots_[slot].ended) return;
    ++ended_;
    if (gave_numbers(slots_[slot])) rank(slot);
  }

  void remove(size_t place) {
    const uint32_t slot = by_index_[place];
    for (size_t dimension = 0; dimension < orders_.size(); ++dimension) {
      if (slots_[slot].point[dimension] == kInactive) continue;
      auto& order = orders_[dimension];
      order.erase(std::lower_bound(order.begin(), order.end(), slot, before(dimension)));
    }
    std::erase(best_, slot);
    if (slots_[slot].ended) --ended_;
    by_index_.erase(by_index_.begin() + static_cast<ptrdiff_t>(place));
    free_.push_back(slot);
  }

  void rank(uint32_t slot) {
    if (objectives_ > 1) {
      best_.push_back(slot);
      const size_t kept = static_cast<size_t>(options_.gamma_max) * objectives_;
      if (best_.size() > 2 * kept) best_ = elite(kept);
      return;
    }
    best_.insert(
        std::upper_bound(best_.begin(), best_.end(), slot, [this](uint32_t a, uint32_t b) { return better(a, b); }),
        slot);
    if (static_cast<int64_t>(best_.size()) > options_.gamma_max) best_.pop_back();
  }

  void forget_one() {
    for (size_t place = 0; place < by_index_.size(); ++place) {
      const uint32_t slot = by_index_[place];
      if (!slots_[slot].ended || std::find(best_.begin(), best_.end(), slot) != best_.end()) continue;
      return remove(place);
    }
  }

  void clear() {
    slots_.clear();
    free_.clear();
    by_index_.clear();
    best_.clear();
    for (auto& order : orders_) order.clear();
    ended_ = values_ = 0;
  }

  const SearchDimensions& dimensions_;
  const uint64_t seed_;
  const size_t objectives_;
  const TpeOptions options_;
  ParzenOptions parzen_, good_parzen_;  // For the densities of the other trials, and of the good ones.
  std::vector<std::vector<size_t>> blocks_;

  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> by_index_;             // Slots by trial.
  std::vector<std::vector<uint32_t>> orders_;  // By dimension: slots by coordinate, where it is active.
  // The gamma_max best, best first; with several objectives up to 2 × gamma_max × objectives, unordered.
  std::vector<uint32_t> best_;
  int64_t ended_ = 0;   // Number of stored ended trials.
  int64_t values_ = 0;  // Trials that ever reported a number.
};

Result<void> validate(const TpeOptions& options) {
  const auto refuse = [](std::string_view option, std::string_view rule, double got) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tpe.{}: expected {}, got {}", option, rule, format_real(got)));
  };
  const auto real = [](int64_t value) { return static_cast<double>(value); };
  if (options.n_startup_trials < 1) return refuse("n_startup_trials", "at least 1", real(options.n_startup_trials));
  if (options.n_ei_candidates < 1 || options.n_ei_candidates > 100'000)
    return refuse("n_ei_candidates", "1 to 100000", real(options.n_ei_candidates));
  if (!(options.gamma > 0 && options.gamma < 1)) return refuse("gamma", "a share above 0 and below 1", options.gamma);
  if (options.gamma_max < 1) return refuse("gamma_max", "at least 1", real(options.gamma_max));
  if (!(options.prior_weight > 0) || !std::isfinite(options.prior_weight))
    return refuse("prior_weight", "a number above 0", options.prior_weight);
  if (!(options.prior_width > 0 && options.prior_width <= 1))
    return refuse("prior_width", "a share of the range above 0, at most 1", options.prior_width);
  if (options.history_max / 2 < options.gamma_max)
    return refuse("history_max", fmt::format("at least twice gamma_max, {}", options.gamma_max),
                  real(options.history_max));
  return {};
}

// Converts "model#1.depth", the depth below option 1 of the model, to "model.depth" as in configurations.
std::string path_of(const std::string& key) {
  std::string path;
  for (size_t i = 0; i < key.size(); ++i) {
    if (key[i] == '#') {
      while (i + 1 < key.size() && key[i + 1] >= '0' && key[i + 1] <= '9') ++i;
    } else {
      path += key[i];
    }
  }
  return path;
}

// Returns the coordinates given by `prior`, a validated partial configuration; missing values are drawn to parse it.
std::vector<double> guess_of(const SearchDimensions& dimensions, const Space& space, const Config& prior) {
  std::vector<double> guess(dimensions.size(), kInactive);
  SeededRandom random(0);
  auto config = dimensions.config({}, dimensions.random_point(random));
  if (!config) return guess;
  lay_over(*config, prior, space);
  const auto point = dimensions.point_of(*config);
  if (!point) return guess;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    if (prior.find(path_of(dimensions[i].key)) != nullptr) guess[i] = (*point)[i];
  }
  return guess;
}

}  // namespace

SearcherFactory tpe(const TpeOptions& options) {
  return [options](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    VOLADOR_TRY(validate(options));
    std::optional<Config> prior;
    if (options.prior.is_map() && options.prior.size() > 0) {
      VOLADOR_TRY(context.space.validate());
      auto checked = given_config("tpe.prior", context.space, options.prior);
      if (!checked) return make_error(checked.error());
      prior = std::move(*checked);
    }
    return ModelSearcher::create(context, options.seed.value_or(context.seed), [&](const ModelContext& model) {
      auto made = std::make_unique<TpeModel>(model, options);
      if (prior) made->expect(guess_of(model.dimensions, context.space, *prior));
      return made;
    });
  };
}

}  // namespace volador::tune
