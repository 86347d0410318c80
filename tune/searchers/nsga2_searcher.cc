#include "tune/searchers/nsga2_searcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "tune/loop/objectives.h"
#include "tune/searchers/model_searcher.h"
#include "tune/snapshot.h"
#include "tune/space/drawing.h"

namespace volador::tune {
namespace {

struct Member {
  int64_t index = 0;
  Point point;
  Outcome outcome;
};

class Nsga2Model final : public SearchModel {
 public:
  Nsga2Model(const ModelContext& context, const Nsga2Options& options)
      : dimensions_(context.dimensions), seed_(context.seed), options_(options) {}

  std::vector<Point> propose(int64_t index, int attempt) override {
    SeededRandom random = model_random(seed_, index, attempt);
    if (parents_.empty() || dimensions_.size() == 0) return {dimensions_.random_point(random)};
    Point child = parent(random).point;
    const bool crossed = random.real() < options_.crossover_prob;
    if (crossed) cross(child, parent(random).point, random);
    mutate(child, !crossed, random);
    return {complete(std::move(child), random)};
  }

  void taken(int64_t index, const Point& point) override { running_.insert_or_assign(index, point); }
  void ended(int64_t index, double value) override { judged(index, {{value}, 0}); }

  void judged(int64_t index, const Outcome& outcome) override {
    const auto found = running_.find(index);
    if (found == running_.end()) return;
    Member member{index, std::move(found->second), outcome};
    running_.erase(found);
    if (!is_comparable(outcome)) return;
    members_.push_back(std::move(member));
    if (static_cast<int64_t>(members_.size()) >= options_.population_size) next_generation();
  }

  bool takes_goals() const override { return true; }
  std::string describe() const override { return "NSGA-II"; }

  Config state() const override {
    Config running = Config::list({});
    for (const auto& [index, point] : running_)
      running.push_back({{"index", index}, {"point", SearchDimensions::to_text(point)}});
    return {{"running", std::move(running)}, {"members", texts(members_)}, {"parents", texts(parents_)}};
  }

  Result<std::function<void()>> read(const Config& state) override {
    std::map<int64_t, Point> running;
    const Config all = state["running"];
    for (const Config& entry : all.items()) {
      auto point = dimensions_.from_text(entry.text("point"));
      if (!point) return snapshot_does_not_fit(describe(), "a point of another space");
      running.emplace(entry.integer("index"), std::move(*point));
    }
    auto members = from_texts(state["members"]), parents = from_texts(state["parents"]);
    if (!members) return make_error(members.error());
    if (!parents) return make_error(parents.error());
    const size_t most = static_cast<size_t>(options_.population_size);
    if (members->size() >= most || parents->size() > most)
      return snapshot_does_not_fit(describe(), "another population_size");
    if (!alike(*members, *parents)) return snapshot_does_not_fit(describe(), "another number of objectives");
    return
        [this, running = std::move(running), members = std::move(*members), parents = std::move(*parents)]() mutable {
          running_ = std::move(running);
          members_ = std::move(members);
          parents_ = std::move(parents);
          rank_parents();
        };
  }

 private:
  static bool is_comparable(const Outcome& outcome) {
    const auto nan = [](double value) { return std::isnan(value); };
    return !outcome.values.empty() && std::none_of(outcome.values.begin(), outcome.values.end(), nan) &&
           outcome.violation >= 0;
  }

  void next_generation() {
    std::vector<Member> pool = std::move(parents_);
    std::move(members_.begin(), members_.end(), std::back_inserter(pool));
    members_.clear();
    parents_.clear();
    for (const size_t one : select_elite(outcomes(pool), static_cast<size_t>(options_.population_size)))
      parents_.push_back(std::move(pool[one]));
    rank_parents();
  }

  static std::vector<Outcome> outcomes(const std::vector<Member>& members) {
    std::vector<Outcome> out;
    for (const Member& member : members) out.push_back(member.outcome);
    return out;
  }

  // Elite order is by rank, then by crowding distance; a tournament needs only the position of each parent.
  void rank_parents() {
    const std::vector<Outcome> all = outcomes(parents_);
    const std::vector<size_t> order = select_elite(all, all.size());
    places_.assign(parents_.size(), 0);
    for (size_t place = 0; place < order.size(); ++place) places_[order[place]] = place;
  }

  // Binary tournament.
  const Member& parent(Random& random) const {
    const size_t a = random.below(parents_.size()), b = random.below(parents_.size());
    return parents_[places_[a] <= places_[b] ? a : b];
  }

  void cross(Point& child, const Point& other, Random& random) const {
    for (size_t i = 0; i < child.size(); ++i) {
      const bool swaps = random.real() < options_.swapping_prob;
      const bool blends = options_.crossover == Nsga2Crossover::kSbx && child[i] != kInactive &&
                          other[i] != kInactive && dimensions_[i].kind != SearchDimensions::Kind::kCategorical;
      if (blends) {
        child[i] = blend(swaps ? other[i] : child[i], swaps ? child[i] : other[i], random);
      } else if (swaps) {
        child[i] = other[i];
      }
    }
  }

  // Simulated binary crossover (Deb, Agrawal, 1995): the child nearer to the first parent.
  double blend(double first, double second, Random& random) const {
    const double u = random.real(), power = 1 / (options_.eta + 1);
    const double spread = u <= 0.5 ? std::pow(2 * u, power) : std::pow(1 / (2 * (1 - u)), power);
    return std::clamp(0.5 * ((1 + spread) * first + (1 - spread) * second), 0.0, kBelowOne);
  }

  void mutate(Point& child, bool at_least_one, Random& random) const {
    const double chance = options_.mutation_prob.value_or(1 / static_cast<double>(child.size()));
    const size_t forced = random.below(child.size());
    for (size_t i = 0; i < child.size(); ++i) {
      const bool mutates = random.real() < chance || (at_least_one && i == forced);
      if (!mutates || child[i] == kInactive) continue;
      const bool near =
          options_.crossover == Nsga2Crossover::kSbx && dimensions_[i].kind != SearchDimensions::Kind::kCategorical;
      child[i] = near ? nudged(child[i], random) : random.real();
    }
  }

  // Polynomial mutation within [0, 1) (Deb, 2001).
  double nudged(double value, Random& random) const {
    const double u = random.real(), power = options_.eta + 1;
    double moved = value;
    if (u < 0.5) {
      moved += std::pow(2 * u + (1 - 2 * u) * std::pow(1 - value, power), 1 / power) - 1;
    } else {
      moved += 1 - std::pow(2 * (1 - u) + (2 * u - 1) * std::pow(value, power), 1 / power);
    }
    return std::clamp(moved, 0.0, kBelowOne);
  }

  // Draws values that the child's new option needs and no parent had.
  Point complete(Point child, Random& random) const {
    const Point fresh = dimensions_.random_point(random);
    for (size_t i = 0; i < child.size(); ++i) {
      if (child[i] == kInactive) child[i] = fresh[i] == kInactive ? random.real() : fresh[i];
    }
    return dimensions_.settled(std::move(child));
  }

  static Config texts(const std::vector<Member>& members) {
    Config out = Config::list({});
    for (const Member& member : members) {
      out.push_back({{"index", member.index},
                     {"point", SearchDimensions::to_text(member.point)},
                     {"values", member.outcome.values},
                     {"violation", member.outcome.violation}});
    }
    return out;
  }

  Result<std::vector<Member>> from_texts(const Config& texts) const {
    std::vector<Member> out;
    for (const Config& entry : texts.items()) {
      auto point = dimensions_.from_text(entry.text("point"));
      if (!point) return snapshot_does_not_fit(describe(), "a point of another space");
      Member member{entry.integer("index"), std::move(*point), {.violation = entry.real("violation")}};
      const Config values = entry["values"];
      for (const Config& value : values.items()) member.outcome.values.push_back(value.real());
      if (!is_comparable(member.outcome)) return snapshot_does_not_fit(describe(), "values that are no numbers");
      out.push_back(std::move(member));
    }
    return out;
  }

  static bool alike(const std::vector<Member>& members, const std::vector<Member>& parents) {
    std::optional<size_t> size;
    for (const auto* list : {&members, &parents}) {
      for (const Member& member : *list) {
        if (size.value_or(member.outcome.values.size()) != member.outcome.values.size()) return false;
        size = member.outcome.values.size();
      }
    }
    return true;
  }

  const SearchDimensions& dimensions_;
  const uint64_t seed_;
  const Nsga2Options options_;
  std::map<int64_t, Point> running_;
  std::vector<Member> members_;  // Members of the current generation, in the order in which they ended.
  std::vector<Member> parents_;  // The best so far; empty in the first generation.
  std::vector<size_t> places_;   // Positions of the parents; the best has 0.
};

Result<void> validate(const Nsga2Options& options) {
  const auto refuse = [](std::string_view option, std::string_view rule, double got) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("nsga2.{}: expected {}, got {}", option, rule, format_real(got)));
  };
  const auto share = [](double value) { return value >= 0 && value <= 1; };
  if (options.population_size < 2 || options.population_size > 10'000)
    return refuse("population_size", "2 to 10000 trials", static_cast<double>(options.population_size));
  if (!share(options.crossover_prob)) return refuse("crossover_prob", "0 to 1", options.crossover_prob);
  if (!share(options.swapping_prob)) return refuse("swapping_prob", "0 to 1", options.swapping_prob);
  if (options.mutation_prob && !share(*options.mutation_prob))
    return refuse("mutation_prob", "0 to 1", *options.mutation_prob);
  if (!(options.eta > 0) || !std::isfinite(options.eta)) return refuse("eta", "a number above 0", options.eta);
  return {};
}

}  // namespace

SearcherFactory nsga2(const Nsga2Options& options) {
  return [options](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    VOLADOR_TRY(validate(options));
    return ModelSearcher::create(context, options.seed.value_or(context.seed), [options](const ModelContext& model) {
      return std::make_unique<Nsga2Model>(model, options);
    });
  };
}

}  // namespace volador::tune
