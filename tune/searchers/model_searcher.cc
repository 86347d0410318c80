#include "tune/searchers/model_searcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tune/searchers/variant_searcher.h"
#include "tune/snapshot.h"

namespace volador::tune {
namespace {

constexpr int kAttempts = 4;

}  // namespace

SeededRandom model_random(uint64_t seed, int64_t index, int attempt) {
  SeededRandom first(seed ^ (static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15ULL));
  return SeededRandom(first.next() + static_cast<uint64_t>(attempt));
}

Result<std::unique_ptr<Searcher>> ModelSearcher::create(const SearchContext& context, uint64_t seed,
                                                        const ModelFactory& make_model) {
  // The validation of random search applies here as well.
  auto plain = VariantSearcher::create({}, context);
  if (!plain) return make_error(plain.error());
  const int64_t grid = *context.space.grid_size();
  if (grid > kGridMax) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("space: the grid_search axes have {} points; a searcher that learns takes at most {}, "
                    "each with a model of its own: use choice for some of them",
                    grid, kGridMax));
  }
  std::unique_ptr<ModelSearcher> searcher(new ModelSearcher());
  searcher->seed_ = seed;
  searcher->sign_ = context.mode == Mode::kMin ? 1 : -1;
  searcher->goals_ = context.goals;
  searcher->total_ = (*plain)->total();
  for (int64_t point = 0; point < grid; ++point) {
    Branch branch;
    branch.dimensions = std::make_unique<SearchDimensions>(context.space, point);
    branch.model = make_model({*branch.dimensions, seed + static_cast<uint64_t>(point),
                               std::max<size_t>(context.goals.objectives.size(), 1)});
    searcher->branches_.push_back(std::move(branch));
  }
  return searcher;
}

Result<Suggestion> ModelSearcher::suggest(int64_t index) {
  if (index < 0 || (total_ && index >= *total_)) return Suggestion{};
  const auto grid = static_cast<int64_t>(branches_.size());
  Branch& branch = branches_[static_cast<size_t>(index % grid)];
  Point point = choose(branch, index / grid);
  auto config = branch.dimensions->config({.seed = seed_, .index = index}, point);
  if (!config) return make_error(config.error());
  begin(branch, index / grid, std::move(point));
  return Suggestion{Suggestion::Kind::kConfig, std::move(*config)};
}

bool ModelSearcher::skip(int64_t index, const Config& config) {
  if (index < 0 || (total_ && index >= *total_)) return false;
  on_start(index, config);
  return true;
}

void ModelSearcher::on_start(int64_t index, const Config& config) {
  if (index < 0) return;
  const auto grid = static_cast<int64_t>(branches_.size());
  Branch& branch = branches_[static_cast<size_t>(index % grid)];
  auto point = branch.dimensions->point_of(config);
  if (point) begin(branch, index / grid, std::move(*point));
}

Point ModelSearcher::choose(Branch& branch, int64_t number) const {
  const auto count = branch.dimensions->count();
  const bool used_up = !branch.dimensions->is_discrete() || (count && branch.proposed.size() >= *count);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto points = branch.model->propose(number, attempt);
    if (used_up) return std::move(points.front());
    for (Point& point : points) {
      if (is_new(branch, point)) return std::move(point);
    }
  }
  return unused_point(branch, number);
}

// Used if the model proposes nothing new: returns a random unused point.
Point ModelSearcher::unused_point(const Branch& branch, int64_t number) const {
  SeededRandom random = model_random(seed_, number, kAttempts);
  const auto count = branch.dimensions->count();
  if (!count) return branch.dimensions->random_point(random);
  uint64_t candidate = random.below(*count);
  while (branch.proposed.contains(candidate)) candidate = (candidate + 1) % *count;
  return branch.dimensions->numbered(candidate);
}

bool ModelSearcher::is_new(const Branch& branch, const Point& point) {
  return !branch.proposed.contains(branch.dimensions->number(point));
}

void ModelSearcher::begin(Branch& branch, int64_t number, Point point) {
  if (branch.dimensions->is_discrete()) {
    const auto before = branch.running.find(number);
    if (before != branch.running.end()) branch.proposed.erase(branch.dimensions->number(before->second));
    branch.proposed.insert(branch.dimensions->number(point));
  }
  branch.model->taken(number, point);
  branch.running.insert_or_assign(number, std::move(point));
}

void ModelSearcher::on_result(const Observation& observation) {
  if (observation.index < 0) return;
  const auto grid = static_cast<int64_t>(branches_.size());
  Branch& branch = branches_[static_cast<size_t>(observation.index % grid)];
  const int64_t number = observation.index / grid;
  if (!branch.running.contains(number)) return;
  const double value = sign_ * result_or_nan(observation.value.value_or(std::numeric_limits<double>::quiet_NaN()));
  branch.model->reported(number, observation.step, value);
}

void ModelSearcher::on_complete(int64_t index, const std::optional<Observation>& last) {
  if (index < 0) return;
  const auto grid = static_cast<int64_t>(branches_.size());
  Branch& branch = branches_[static_cast<size_t>(index % grid)];
  const int64_t number = index / grid;
  if (branch.running.erase(number) == 0) return;
  const Outcome outcome = outcome_of_last(last);
  if (goals_.empty()) return branch.model->ended(number, outcome.values.front());
  branch.model->judged(number, outcome);
}

Outcome ModelSearcher::outcome_of_last(const std::optional<Observation>& last) const {
  const double value =
      last && last->value ? sign_ * result_or_nan(*last->value) : std::numeric_limits<double>::quiet_NaN();
  Outcome outcome{{value}, 0};
  if (goals_.empty()) return outcome;
  if (last) {
    const Outcome told = outcome_of(last->objectives, last->constraints, goals_.objectives);
    outcome.violation = goals_.constraints.size() == last->constraints.size() ? told.violation
                                                                              : std::numeric_limits<double>::infinity();
    if (!goals_.objectives.empty()) outcome.values = told.values;
  } else if (!goals_.objectives.empty()) {
    outcome.values.assign(goals_.objectives.size(), std::numeric_limits<double>::quiet_NaN());
  }
  return outcome;
}

void SearchModel::warm_up(const std::vector<Lesson>& lessons, bool has_goals) {
  auto index = -static_cast<int64_t>(lessons.size());
  for (const Lesson& lesson : lessons) {
    taken(index, lesson.point);
    for (const auto& [step, value] : lesson.curve) reported(index, step, value);
    has_goals ? judged(index, lesson.outcome) : ended(index, lesson.outcome.values.front());
    ++index;
  }
}

Result<void> ModelSearcher::learn(const std::vector<EarlierTrial>& trials) {
  for (Branch& branch : branches_) {
    std::vector<SearchModel::Lesson> lessons;
    for (const EarlierTrial& trial : trials) {
      auto point = branch.dimensions->point_of(trial.config);
      if (!point) continue;
      if (branch.dimensions->is_discrete()) branch.proposed.insert(branch.dimensions->number(*point));
      SearchModel::Lesson lesson{std::move(*point), trial.curve, outcome_of_last(trial.last)};
      for (auto& [step, value] : lesson.curve) value = sign_ * result_or_nan(value);
      lessons.push_back(std::move(lesson));
    }
    branch.model->warm_up(lessons, !goals_.empty());
  }
  return {};
}

std::string ModelSearcher::snapshot() const {
  Config branches = Config::list({});
  for (const Branch& branch : branches_) {
    Config running = Config::list({});
    for (const auto& [number, point] : branch.running)
      running.push_back({{"number", number}, {"point", SearchDimensions::to_text(point)}});
    std::vector<int64_t> proposed;
    for (const uint64_t number : branch.proposed) proposed.push_back(static_cast<int64_t>(number));
    std::sort(proposed.begin(), proposed.end());
    branches.push_back({{"running", std::move(running)}, {"proposed", proposed}, {"model", branch.model->state()}});
  }
  return Config({{"version", 1}, {"branches", std::move(branches)}}).to_json();
}

Result<void> ModelSearcher::restore(std::string_view snapshot) {
  return read_snapshot(describe(), snapshot, [this](const Config& state) -> Result<void> {
    const Config branches = state["branches"];
    if (branches.size() != branches_.size() || !branches.is_list())
      return snapshot_does_not_fit(describe(), "another size of the grid");
    std::vector<std::function<void()>> apply;
    for (size_t i = 0; i < branches_.size(); ++i) {
      auto one = read_branch(branches_[i], branches.items()[i]);
      if (!one) return make_error(one.error());
      apply.push_back(std::move(*one));
    }
    for (const auto& one : apply) one();
    return {};
  });
}

Result<std::function<void()>> ModelSearcher::read_branch(Branch& branch, const Config& state) {
  std::map<int64_t, Point> running;
  const Config all = state["running"];
  for (const Config& entry : all.items()) {
    auto point = branch.dimensions->from_text(entry.text("point"));
    if (!point) return snapshot_does_not_fit(branch.model->describe(), "a point of another space");
    running.emplace(entry.integer("number"), std::move(*point));
  }
  std::unordered_set<uint64_t> proposed;
  const auto count = branch.dimensions->count();
  const Config numbers = state["proposed"];
  for (const Config& number : numbers.items()) {
    const auto value = static_cast<uint64_t>(number.integer());
    if (number.integer() < 0 || (count && value >= *count))
      return snapshot_does_not_fit(branch.model->describe(), "a point of another space");
    proposed.insert(value);
  }
  auto model = branch.model->read(state["model"]);
  if (!model) return make_error(model.error());
  return [&branch, running = std::move(running), proposed = std::move(proposed), model = std::move(*model)]() mutable {
    branch.running = std::move(running);
    branch.proposed = std::move(proposed);
    model();
  };
}

}  // namespace volador::tune
