#include "tune/searchers/search_wrappers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "runtime/quantities.h"
#include "tune/refusal.h"
#include "tune/searchers/variant_searcher.h"
#include "tune/snapshot.h"
#include "tune/space/given_config.h"

namespace volador::tune {
namespace {

Result<std::unique_ptr<Searcher>> make_inner(const SearcherFactory& inner, const SearchContext& context) {
  return inner ? inner(context) : random_search()(context);
}

// Forwards all calls; subclasses override what differs.
class Wrapper : public Searcher {
 public:
  explicit Wrapper(std::unique_ptr<Searcher> inner) : inner_(std::move(inner)) {}

  Result<Suggestion> suggest(int64_t index) override { return inner_->suggest(index); }
  Result<void> learn(const std::vector<EarlierTrial>& trials) override { return inner_->learn(trials); }
  bool skip(int64_t index, const Config& config) override { return inner_->skip(index, config); }
  void on_start(int64_t index, const Config& config) override { inner_->on_start(index, config); }
  void on_result(const Observation& observation) override { inner_->on_result(observation); }
  void on_complete(int64_t index, const std::optional<Observation>& last) override { inner_->on_complete(index, last); }
  std::optional<int64_t> total() const override { return inner_->total(); }
  bool learns() const override { return inner_->learns(); }
  bool needs_metric() const override { return inner_->needs_metric(); }
  bool takes_goals() const override { return inner_->takes_goals(); }

  std::string snapshot() const final {
    Config state = own_state();
    state.set("version", 1);
    state.set("inner", inner_->snapshot());
    return state.to_json();
  }
  Result<void> restore(std::string_view snapshot) final {
    return read_snapshot(describe(), snapshot, [this](const Config& state) -> Result<void> {
      auto apply = read_own(state);
      if (!apply) return make_error(apply.error());
      VOLADOR_TRY(inner_->restore(state.text("inner")));
      (*apply)();
      return {};
    });
  }

 protected:
  virtual Config own_state() const { return Config::map(); }
  // Validates the own state, which is applied once the inner searcher was restored too.
  virtual Result<std::function<void()>> read_own(const Config&) {
    return [] {};
  }

  const std::unique_ptr<Searcher> inner_;
};

// ---- points_to_evaluate.

class PointsFirst final : public Wrapper {
 public:
  PointsFirst(std::unique_ptr<Searcher> inner, std::vector<Config> points, Space space)
      : Wrapper(std::move(inner)), points_(std::move(points)), space_(std::move(space)) {}

  Result<Suggestion> suggest(int64_t index) override {
    auto suggestion = inner_->suggest(index);
    const bool first = index >= 0 && index < static_cast<int64_t>(points_.size());
    if (suggestion && suggestion->kind == Suggestion::Kind::kConfig && first) {
      lay_over(suggestion->config, points_[static_cast<size_t>(index)], space_);
      inner_->on_start(index, suggestion->config);
    }
    return suggestion;
  }
  std::string describe() const override {
    return fmt::format("{}, then {}", counted(points_.size(), "point"), inner_->describe());
  }

 private:
  const std::vector<Config> points_;
  const Space space_;
};

// ---- concurrency_limiter.

class Limiter final : public Wrapper {
 public:
  Limiter(std::unique_ptr<Searcher> inner, const ConcurrencyLimiterOptions& options)
      : Wrapper(std::move(inner)), options_(options) {}

  Result<Suggestion> suggest(int64_t index) override {
    const auto live = static_cast<int64_t>(live_.size());
    if (live == 0) draining_ = false;
    if (draining_ || live >= options_.max_concurrent) return Suggestion{Suggestion::Kind::kWait, {}};
    auto suggestion = inner_->suggest(index);
    if (suggestion && suggestion->kind == Suggestion::Kind::kConfig) live_.insert(index);
    draining_ = options_.batch && static_cast<int64_t>(live_.size()) >= options_.max_concurrent;
    return suggestion;
  }
  bool skip(int64_t index, const Config& config) override {
    if (live_.empty()) draining_ = false;
    if (draining_ || static_cast<int64_t>(live_.size()) >= options_.max_concurrent) return false;
    if (!inner_->skip(index, config)) return false;
    live_.insert(index);
    draining_ = options_.batch && static_cast<int64_t>(live_.size()) >= options_.max_concurrent;
    return true;
  }
  void on_complete(int64_t index, const std::optional<Observation>& last) override {
    live_.erase(index);
    inner_->on_complete(index, last);
  }
  bool learns() const override { return true; }  // Its suggestions depend at least on which trials have ended.
  std::string describe() const override {
    return fmt::format("{}, at most {} at once", inner_->describe(), options_.max_concurrent);
  }

 protected:
  Config own_state() const override {
    return {{"live", std::vector<int64_t>(live_.begin(), live_.end())}, {"draining", draining_}};
  }
  Result<std::function<void()>> read_own(const Config& state) override {
    std::set<int64_t> live;
    const Config all = state["live"];
    for (const Config& index : all.items()) live.insert(index.integer());
    return [this, live = std::move(live), draining = state.boolean("draining")]() mutable {
      live_ = std::move(live);
      draining_ = draining;
    };
  }

 private:
  const ConcurrencyLimiterOptions options_;
  std::set<int64_t> live_;
  bool draining_ = false;  // A batch is full and not all of it has ended.
};

// ---- repeater.

class Repeater final : public Wrapper {
 public:
  Repeater(std::unique_ptr<Searcher> inner, const RepeaterOptions& options, std::optional<int64_t> total)
      : Wrapper(std::move(inner)), options_(options), total_(total) {}

  Result<Suggestion> suggest(int64_t index) override {
    if (total_ && index >= *total_) return Suggestion{};
    const int64_t group = index / options_.repeat;
    if (!groups_.contains(group)) {
      auto suggestion = inner_->suggest(group);
      if (!suggestion || suggestion->kind != Suggestion::Kind::kConfig) return suggestion;
      const int64_t size = total_ ? std::min(options_.repeat, *total_ - group * options_.repeat) : options_.repeat;
      groups_[group] = {.config = std::move(suggestion->config), .left = size};
    }
    Group& of = groups_.at(group);
    of.started.insert(index);
    Config config = of.config;
    if (options_.set_index) config.set("__trial_index__", index % options_.repeat);
    return Suggestion{Suggestion::Kind::kConfig, std::move(config)};
  }

  bool skip(int64_t, const Config&) override { return false; }  // A group needs its own configuration first.
  void on_start(int64_t index, const Config& config) override {
    const auto found = groups_.find(index < 0 ? -1 : index / options_.repeat);
    if (found == groups_.end()) return;
    found->second.config = config;
    inner_->on_start(found->first, config);
  }
  // Steps of one repetition are not representative of the others: only the end counts.
  void on_result(const Observation&) override {}

  void on_complete(int64_t index, const std::optional<Observation>& last) override {
    const auto found = groups_.find(index < 0 ? -1 : index / options_.repeat);
    if (found == groups_.end() || found->second.started.erase(index) == 0) return;
    Group& group = found->second;
    if (last) group.step = std::max(group.step, last->step);
    if (last && last->value && is_result(*last->value)) {
      group.sum += *last->value;
      ++group.count;
    }
    if (--group.left > 0) return;
    std::optional<Observation> mean;
    if (group.count > 0) mean = Observation{found->first, group.step, group.sum / static_cast<double>(group.count)};
    inner_->on_complete(found->first, mean);
    groups_.erase(found);
  }

  std::optional<int64_t> total() const override { return total_; }
  bool takes_goals() const override { return !inner_->learns(); }  // It passes on the mean of the metric only.
  std::string describe() const override {
    return fmt::format("{}, each {}", inner_->describe(), counted(options_.repeat, "time"));
  }

 protected:
  Config own_state() const override {
    Config groups = Config::list({});
    for (const auto& [number, group] : groups_) {
      groups.push_back({{"group", number},
                        {"config", group.config},
                        {"started", std::vector<int64_t>(group.started.begin(), group.started.end())},
                        {"left", group.left},
                        {"step", group.step},
                        {"sum", group.sum},
                        {"count", group.count}});
    }
    return {{"groups", groups}};
  }
  Result<std::function<void()>> read_own(const Config& state) override {
    std::map<int64_t, Group> groups;
    const Config all = state["groups"];
    for (const Config& entry : all.items()) {
      (void)entry["config"];  // Throws if it is absent.
      Group group{.config = *entry.find("config"),
                  .left = entry.integer("left"),
                  .step = entry.integer("step"),
                  .sum = entry.real("sum"),
                  .count = entry.integer("count")};
      if (!group.config.is_map()) return snapshot_does_not_fit("repeater", "a configuration that is no map");
      const Config started = entry["started"];
      for (const Config& index : started.items()) group.started.insert(index.integer());
      groups.emplace(entry.integer("group"), std::move(group));
    }
    return [this, groups = std::move(groups)]() mutable { groups_ = std::move(groups); };
  }

 private:
  struct Group {
    Config config;
    std::set<int64_t> started = {};  // Trials that have not ended.
    int64_t left = 0;                // Trials that have not ended or not started.
    int64_t step = 0;
    double sum = 0;
    int64_t count = 0;
  };
  const RepeaterOptions options_;
  const std::optional<int64_t> total_;
  std::map<int64_t, Group> groups_;
};

// ---- deterministic.

class InOrder final : public Wrapper {
 public:
  InOrder(std::unique_ptr<Searcher> inner, const DeterministicOptions& options)
      : Wrapper(std::move(inner)), options_(options) {}

  // Before its suggestion `inner` has received the results of trials 0 to index - window, in that order, and no others.
  Result<Suggestion> suggest(int64_t index) override {
    for (; told_ <= index - options_.window; ++told_) {
      const auto found = trials_.find(told_);
      if (found == trials_.end()) continue;  // It was never suggested.
      if (!found->second.ended) return Suggestion{Suggestion::Kind::kWait, {}};
      tell(told_, found->second);
      trials_.erase(found);
    }
    auto suggestion = inner_->suggest(index);
    if (suggestion && suggestion->kind == Suggestion::Kind::kConfig) trials_.try_emplace(index);
    return suggestion;
  }
  bool skip(int64_t index, const Config& config) override {
    if (!inner_->skip(index, config)) return false;
    trials_.try_emplace(index);
    return true;
  }
  // A trial's last result is passed on with its end: the order of earlier ones depends on timing.
  void on_result(const Observation&) override {}
  void on_complete(int64_t index, const std::optional<Observation>& last) override {
    const auto found = trials_.find(index);
    if (found == trials_.end() || found->second.ended) return;
    found->second.ended = true;
    found->second.last = last;
  }
  bool learns() const override { return true; }  // Its suggestions depend at least on which trials have ended.
  std::string describe() const override {
    return fmt::format("{}, told in order, {} at once", inner_->describe(), counted(options_.window, "trial"));
  }

 protected:
  Config own_state() const override {
    Config trials = Config::list({});
    for (const auto& [index, trial] : trials_) {
      Config entry = {{"index", index}, {"ended", trial.ended}};
      if (trial.last) entry.set("last", config_of(*trial.last));
      trials.push_back(std::move(entry));
    }
    return {{"told", told_}, {"trials", std::move(trials)}};
  }
  Result<std::function<void()>> read_own(const Config& state) override {
    std::map<int64_t, Trial> trials;
    const Config all = state["trials"];
    for (const Config& entry : all.items()) {
      const int64_t index = entry.integer("index");
      Trial trial;
      trial.ended = entry.boolean("ended");
      if (entry.contains("last")) trial.last = observation_of(index, entry["last"]);
      trials.emplace(index, std::move(trial));
    }
    const int64_t told = state.integer("told");
    if (told < 0) return snapshot_does_not_fit("deterministic", "a negative number of trials");
    return [this, trials = std::move(trials), told]() mutable {
      trials_ = std::move(trials);
      told_ = told;
    };
  }

 private:
  struct Trial {
    std::optional<Observation> last;
    bool ended = false;
  };

  void tell(int64_t index, const Trial& trial) {
    if (trial.last) inner_->on_result(*trial.last);
    inner_->on_complete(index, trial.last);
  }
  static Config config_of(const Observation& one) {
    Config out = {{"step", one.step}, {"objectives", one.objectives}, {"constraints", one.constraints}};
    if (one.value) out.set("value", *one.value);
    return out;
  }
  static Observation observation_of(int64_t index, const Config& config) {
    Observation out{index, config.integer("step"), std::nullopt};
    if (config.contains("value")) out.value = config.real("value");
    const Config objectives = config["objectives"], constraints = config["constraints"];
    for (const Config& one : objectives.items()) out.objectives.push_back(one.real());
    for (const Config& one : constraints.items()) out.constraints.push_back(one.real());
    return out;
  }

  const DeterministicOptions options_;
  int64_t told_ = 0;                 // `inner` has received all trials before this one.
  std::map<int64_t, Trial> trials_;  // Suggested trials that `inner` has not received.
};

// ---- forbid.

class Forbidding final : public Wrapper {
 public:
  Forbidding(std::unique_ptr<Searcher> inner, std::function<bool(const Config&)> forbidden,
             std::optional<int64_t> total)
      : Wrapper(std::move(inner)), forbidden_(std::move(forbidden)), total_(total) {}

  // A forbidden configuration counts as failed for `inner`: a searcher that learns avoids its neighbourhood.
  Result<Suggestion> suggest(int64_t index) override {
    if (total_ && index >= *total_) return Suggestion{};
    for (int64_t tried = 0; tried < kForbiddenMax; ++tried) {
      auto suggestion = inner_->suggest(next_);
      if (!suggestion || suggestion->kind != Suggestion::Kind::kConfig) return suggestion;
      auto bad = judge(suggestion->config);
      if (!bad) return make_error(bad.error());
      if (!*bad) {
        numbers_.insert_or_assign(index, next_++);
        return suggestion;
      }
      inner_->on_complete(next_++, std::nullopt);
    }
    return refuse(
        fmt::format("forbid: {} proposed {} forbidden configurations in a row for trial {}: allow more of the "
                    "space, or narrow the space itself",
                    inner_->describe(), kForbiddenMax, index));
  }
  bool skip(int64_t index, const Config& config) override {
    if ((total_ && index >= *total_) || !inner_->skip(next_, config)) return false;
    numbers_.insert_or_assign(index, next_++);
    return true;
  }
  void on_start(int64_t index, const Config& config) override {
    if (const auto found = numbers_.find(index); found != numbers_.end()) inner_->on_start(found->second, config);
  }
  void on_result(const Observation& observation) override {
    const auto found = numbers_.find(observation.index);
    if (found == numbers_.end()) return;
    Observation numbered = observation;
    numbered.index = found->second;
    inner_->on_result(numbered);
  }
  void on_complete(int64_t index, const std::optional<Observation>& last) override {
    const auto found = numbers_.find(index);
    if (found == numbers_.end()) return;
    std::optional<Observation> numbered = last;
    if (numbered) numbered->index = found->second;
    inner_->on_complete(found->second, numbered);
    numbers_.erase(found);
  }
  std::optional<int64_t> total() const override { return total_; }
  std::string describe() const override { return fmt::format("{} without what is forbidden", inner_->describe()); }

 protected:
  Config own_state() const override {
    Config numbers = Config::list({});
    for (const auto& [index, number] : numbers_) numbers.push_back(Config::list({index, number}));
    return {{"next", next_}, {"numbers", std::move(numbers)}};
  }
  Result<std::function<void()>> read_own(const Config& state) override {
    std::map<int64_t, int64_t> numbers;
    const Config all = state["numbers"];
    for (const Config& pair : all.items()) numbers.emplace(pair[0].integer(), pair[1].integer());
    const int64_t next = state.integer("next");
    if (next < 0) return snapshot_does_not_fit("forbid", "a negative number of proposals");
    return [this, numbers = std::move(numbers), next]() mutable {
      numbers_ = std::move(numbers);
      next_ = next;
    };
  }

 private:
  static constexpr int64_t kForbiddenMax = 10'000;  // Consecutive.

  Result<bool> judge(const Config& config) const {
    try {
      return forbidden_(config);
    } catch (const std::exception& error) {
      return make_error(ErrorCode::kApplication,
                        fmt::format("forbid: the rule threw on {}: {}", config.to_json(), error.what()));
    }
  }

  const std::function<bool(const Config&)> forbidden_;
  const std::optional<int64_t> total_;
  std::map<int64_t, int64_t> numbers_;  // By the index of a running trial: its index in `inner`.
  int64_t next_ = 0;                    // Index in `inner` of the next proposal.
};

}  // namespace

SearcherFactory points_to_evaluate(std::vector<Config> points, SearcherFactory inner) {
  return [points = std::move(points),
          inner = std::move(inner)](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    VOLADOR_TRY(context.space.validate());
    const auto grid = context.space.grid_size();
    if (!grid) return make_error(grid.error());
    if (*grid != 1) {
      return refuse(
          "points_to_evaluate: the space has grid_search axes, whose points are tried anyway: make them tune::choice, "
          "or leave the points out");
    }
    std::vector<Config> read;
    for (const Config& point : points) {
      auto one = given_config("points_to_evaluate", context.space, point);
      if (!one) return make_error(one.error());
      read.push_back(std::move(*one));
    }
    auto made = make_inner(inner, context);
    if (!made) return made;
    const auto total = (*made)->total();
    if (total && static_cast<int64_t>(points.size()) > *total) {
      return refuse(fmt::format("points_to_evaluate: {} and {}: set num_samples to {} at least",
                                counted(points.size(), "point"), counted(*total, "trial"), points.size()));
    }
    return std::make_unique<PointsFirst>(std::move(*made), std::move(read), context.space);
  };
}

SearcherFactory concurrency_limiter(const ConcurrencyLimiterOptions& options, SearcherFactory inner) {
  return [options, inner = std::move(inner)](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    if (options.max_concurrent < 1)
      return refuse(
          fmt::format("concurrency_limiter.max_concurrent: expected at least 1 trial, got {}", options.max_concurrent));
    auto made = make_inner(inner, context);
    if (!made) return made;
    return std::make_unique<Limiter>(std::move(*made), options);
  };
}

SearcherFactory repeater(const RepeaterOptions& options, SearcherFactory inner) {
  return [options, inner = std::move(inner)](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    if (options.repeat < 1)
      return refuse(fmt::format("repeater.repeat: expected at least 1 trial, got {}", options.repeat));
    for (const SpaceEntry& entry : context.space.entries()) {
      if (options.set_index && entry.name == "__trial_index__") {
        return refuse(
            "repeater: the space has a parameter \"__trial_index__\" of its own: rename it, or set set_index = false");
      }
    }
    SearchContext fewer = context;
    if (context.num_samples > 0)
      fewer.num_samples = context.num_samples / options.repeat + (context.num_samples % options.repeat != 0 ? 1 : 0);
    auto made = make_inner(inner, fewer);
    if (!made) return made;
    // With a grid each of its points is repeated.
    std::optional<int64_t> total;
    const auto groups = (*made)->total();
    if (groups && context.num_samples > 0) {
      const bool grid = *groups != fewer.num_samples;
      total = grid ? *groups * options.repeat : context.num_samples;
    }
    return std::make_unique<Repeater>(std::move(*made), options, total);
  };
}

SearcherFactory deterministic(const DeterministicOptions& options, SearcherFactory inner) {
  return [options, inner = std::move(inner)](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    if (options.window < 1 || options.window > DeterministicOptions::kWindowMax) {
      return refuse(fmt::format("deterministic.window: expected 1 to {} trials, got {}",
                                DeterministicOptions::kWindowMax, options.window));
    }
    auto made = make_inner(inner, context);
    if (!made || !(*made)->learns()) return made;
    return std::make_unique<InOrder>(std::move(*made), options);
  };
}

SearcherFactory forbid(std::function<bool(const Config&)> forbidden, SearcherFactory inner) {
  return [forbidden = std::move(forbidden),
          inner = std::move(inner)](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    if (!forbidden) return refuse("forbid: expected a function that says which configurations are forbidden, got none");
    VOLADOR_TRY(context.space.validate());
    const auto grid = context.space.grid_size();
    if (!grid) return make_error(grid.error());
    // On a grid each point is visited and forbidden ones are skipped; otherwise others replace them.
    SearchContext within = context;
    if (*grid == 1) within.num_samples = -1;
    auto made = make_inner(inner, within);
    if (!made) return made;
    std::optional<int64_t> total;
    if (*grid == 1 && context.num_samples >= 0) total = context.num_samples;
    return std::make_unique<Forbidding>(std::move(*made), forbidden, total);
  };
}

}  // namespace volador::tune
