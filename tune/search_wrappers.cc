#include "tune/search_wrappers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "tune/given_config.h"
#include "tune/refusal.h"
#include "tune/snapshot.h"
#include "tune/variant_searcher.h"

namespace volador::tune {
namespace {

Result<std::unique_ptr<Searcher>> make_inner(const SearcherFactory& inner, const SearchContext& context) {
  return inner ? inner(context) : random_search()(context);
}

// Hands everything on; what differs is overridden.
class Wrapper : public Searcher {
 public:
  explicit Wrapper(std::unique_ptr<Searcher> inner) : inner_(std::move(inner)) {}

  Result<Suggestion> suggest(int64_t index) override { return inner_->suggest(index); }
  Result<void> learn(const std::vector<EarlierTrial>& trials) override { return inner_->learn(trials); }
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
  // Checked, and taken over once the inner one was restored as well.
  virtual Result<std::function<void()>> read_own(const Config&) {
    return [] {};
  }

  const std::unique_ptr<Searcher> inner_;
};

// ---- Points first.

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
    return fmt::format("{} points, then {}", points_.size(), inner_->describe());
  }

 private:
  const std::vector<Config> points_;
  const Space space_;
};

// ---- Fewer at once.

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
  void on_complete(int64_t index, const std::optional<Observation>& last) override {
    live_.erase(index);
    inner_->on_complete(index, last);
  }
  bool learns() const override { return true; }  // At least when others have ended.
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
  bool draining_ = false;  // A batch is full, and not all of it has ended.
};

// ---- Each several times.

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

  void on_start(int64_t index, const Config& config) override {
    const auto found = groups_.find(index < 0 ? -1 : index / options_.repeat);
    if (found == groups_.end()) return;
    found->second.config = config;
    inner_->on_start(found->first, config);
  }
  // Steps of one repetition say little of the others: only the end counts.
  void on_result(const Observation&) override {}

  void on_complete(int64_t index, const std::optional<Observation>& last) override {
    const auto found = groups_.find(index < 0 ? -1 : index / options_.repeat);
    if (found == groups_.end() || found->second.started.erase(index) == 0) return;
    Group& group = found->second;
    if (last) group.step = std::max(group.step, last->step);
    if (last && last->value && !std::isnan(*last->value)) {
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
  bool takes_goals() const override { return !inner_->learns(); }  // It gives the mean of the metric alone.
  std::string describe() const override {
    return fmt::format("{}, each {} times", inner_->describe(), options_.repeat);
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
      (void)entry["config"];  // Throws where it is absent.
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
    int64_t left = 0;                // Trials that have not ended or not begun.
    int64_t step = 0;
    double sum = 0;
    int64_t count = 0;
  };
  const RepeaterOptions options_;
  const std::optional<int64_t> total_;
  std::map<int64_t, Group> groups_;
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
      return refuse(fmt::format("points_to_evaluate: {} points and {} trials: set num_samples to {} at least",
                                points.size(), *total, points.size()));
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
    // With a grid each point of it is repeated.
    std::optional<int64_t> total;
    const auto groups = (*made)->total();
    if (groups && context.num_samples > 0) {
      const bool grid = *groups != fewer.num_samples;
      total = grid ? *groups * options.repeat : context.num_samples;
    }
    return std::make_unique<Repeater>(std::move(*made), options, total);
  };
}

}  // namespace volador::tune
