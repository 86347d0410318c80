#include "experiments/katib/own_suggestions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <unordered_set>
#include <utility>

#include "experiments/katib/algorithm_settings.h"
#include "experiments/katib/parameter_space.h"
#include "tune/searchers/cmaes_searcher.h"
#include "tune/searchers/gp_searcher.h"
#include "tune/searchers/model_searcher.h"
#include "tune/searchers/sobol_searcher.h"
#include "tune/searchers/tpe_searcher.h"
#include "tune/searchers/trees_searcher.h"

namespace volador::experiments::katib {
namespace {

using api::v1::beta1::Experiment;
using api::v1::beta1::GetSuggestionsReply;
using api::v1::beta1::GetSuggestionsRequest;
using api::v1::beta1::Trial;
using api::v1::beta1::TrialStatus;

constexpr int64_t kRequestMax = 10'000;   // Trials of one reply.
constexpr int kRepeats = 4;               // Draws of a combination that was not suggested before.
constexpr uint64_t kListedMax = 100'000;  // Combinations that are tried in turn after that.
constexpr int64_t kPopulation = 40;       // For pbt, as in Katib.
constexpr double kTruncation = 0.2;       // Likewise.
constexpr double kXi = 0.01;              // For bayesianoptimization, as in scikit-optimize.
constexpr double kKappa = 1.96;           // Likewise.

tl::unexpected<Error> refused_experiment(std::string what) {
  return make_error(ErrorCode::kInvalidArgument, std::move(what));
}

// FNV-1a.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  return hash;
}

// Draws points at random; that none repeats is the work of ModelSearcher.
class RandomModel final : public tune::SearchModel {
 public:
  explicit RandomModel(const tune::ModelContext& context) : dimensions_(context.dimensions), seed_(context.seed) {}
  std::vector<tune::Point> propose(int64_t index, int attempt) override {
    SeededRandom random = tune::model_random(seed_, index, attempt);
    return {dimensions_.random_point(random)};
  }
  void taken(int64_t, const tune::Point&) override {}
  void ended(int64_t, double) override {}
  std::string describe() const override { return "random search"; }
  tune::Config state() const override { return tune::Config::map(); }
  Result<std::function<void()>> read(const tune::Config&) override {
    return [] {};
  }

 private:
  const tune::SearchDimensions& dimensions_;
  const uint64_t seed_;
};

Result<std::unique_ptr<tune::Searcher>> random_without_repeats(const tune::SearchContext& context) {
  return tune::ModelSearcher::create(
      context, context.seed, [](const tune::ModelContext& model) { return std::make_unique<RandomModel>(model); });
}

bool is_active(const Trial& trial) {
  switch (trial.status().condition()) {
    case TrialStatus::CREATED:
    case TrialStatus::RUNNING:
    case TrialStatus::UNKNOWN:
      return true;
    default:
      return false;
  }
}

// A finite value of the objective of a trial that has ended.
std::optional<double> value_of(const Trial& trial, const std::string& metric) {
  const auto condition = trial.status().condition();
  if (condition != TrialStatus::SUCCEEDED && condition != TrialStatus::EARLYSTOPPED) return std::nullopt;
  for (const auto& one : trial.status().observation().metrics()) {
    if (one.name() != metric) continue;
    const std::string& text = one.value();
    double value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed == std::errc() && end == text.data() + text.size() && std::isfinite(value)) return value;
  }
  return std::nullopt;
}

// Space and settings of an experiment, checked.
struct Search {
  AlgorithmSettings settings;
  ParameterSpace space;
  std::string algorithm, metric;
  bool maximize = false;
  uint64_t seed = 0;

  tune::SearchContext context() const {
    tune::SearchContext out;
    out.space = space.space();
    out.metric = metric;
    out.mode = maximize ? tune::Mode::kMax : tune::Mode::kMin;
    out.num_samples = -1;
    out.seed = seed;
    return out;
  }
  Result<std::unique_ptr<tune::Searcher>> searcher() const;
  Result<std::unique_ptr<tune::Searcher>> bayesian(const tune::SearchContext& made) const;
  int64_t population_of_cmaes() const {
    return 4 + static_cast<int64_t>(3 * std::log(static_cast<double>(space.parameters().size())));
  }
  bool better(double a, double b) const { return maximize ? a > b : a < b; }
};

Result<std::unique_ptr<tune::Searcher>> Search::searcher() const {
  const tune::SearchContext made = context();
  if (algorithm == "tpe") {
    tune::TpeOptions options;
    options.multivariate = false;
    options.gamma = settings.real("gamma").value_or(options.gamma);
    options.prior_weight = settings.real("prior_weight").value_or(options.prior_weight);
    options.n_ei_candidates = settings.integer("n_EI_candidates").value_or(options.n_ei_candidates);
    return tune::tpe(options)(made);
  }
  if (algorithm == "multivariate-tpe") {
    tune::TpeOptions options;
    options.n_startup_trials = settings.integer("n_startup_trials").value_or(options.n_startup_trials);
    options.n_ei_candidates = settings.integer("n_ei_candidates").value_or(options.n_ei_candidates);
    return tune::tpe(options)(made);
  }
  if (algorithm == "bayesianoptimization") {
    return bayesian(made);
  }
  if (algorithm == "cmaes") {
    const std::string restarts = settings.text("restart_strategy").value_or("none");
    tune::CmaesOptions options;
    options.population = population_of_cmaes();
    options.sigma = settings.real("sigma").value_or(options.sigma);
    options.restarts = restarts == "ipop"    ? tune::CmaesRestarts::kIpop
                       : restarts == "bipop" ? tune::CmaesRestarts::kBipop
                                             : tune::CmaesRestarts::kNone;
    return tune::cmaes(options)(made);
  }
  if (algorithm == "sobol") return tune::sobol_search({.scramble = settings.text("random_state").has_value()})(made);
  return random_without_repeats(made);
}

Result<std::unique_ptr<tune::Searcher>> Search::bayesian(const tune::SearchContext& made) const {
  const std::string function = settings.text("acq_func").value_or("gp_hedge");
  const std::string estimator = settings.text("base_estimator").value_or("GP");
  const int64_t initial_points = settings.integer("n_initial_points").value_or(10);
  tune::AcquisitionOptions acquisition{.xi = kXi, .kappa = kKappa};
  acquisition.function = function == "EI"    ? tune::Acquisition::kEi
                         : function == "PI"  ? tune::Acquisition::kPi
                         : function == "LCB" ? tune::Acquisition::kLcb
                                             : tune::Acquisition::kHedge;
  if (estimator == "GP") {
    tune::GpOptions options{.n_startup_trials = std::max<int64_t>(initial_points, 2), .acquisition = acquisition};
    if (settings.text("acq_optimizer") == "sampling") options.optimizer = tune::GpOptimizer::kSampling;
    return tune::gp(options)(made);
  }
  const tune::TreeKind kind = estimator == "RF"   ? tune::TreeKind::kRandomForest
                              : estimator == "ET" ? tune::TreeKind::kExtraTrees
                                                  : tune::TreeKind::kBoosted;
  return tune::trees({.kind = kind, .n_startup_trials = initial_points, .acquisition = acquisition})(made);
}

// What scikit-optimize, which computes these in Katib, cannot do: Katib accepts it, and then no trial gets a suggestion
// from what the trials before it reported.
Result<void> check_bayesian(const Search& search) {
  const std::string function = search.settings.text("acq_func").value_or("");
  if (function.ends_with("ps")) {
    return refused_experiment(fmt::format(
        "setting acq_func of algorithm bayesianoptimization: {} divides by the time of a trial, which Katib "
        "does not tell the algorithm; take {}",
        function, function.substr(0, 2)));
  }
  const std::string estimator = search.settings.text("base_estimator").value_or("GP");
  if (estimator != "GP" && search.settings.text("acq_optimizer") == "lbfgs") {
    return refused_experiment(fmt::format(
        "setting acq_optimizer of algorithm bayesianoptimization: lbfgs follows slopes, which base_estimator "
        "{} does not have; take sampling or auto",
        estimator));
  }
  return {};
}

Result<void> check_grid(const Search& search, const Experiment& experiment) {
  for (const ParameterValues& one : search.space.parameters()) {
    if (!one.count()) {
      return refused_experiment(fmt::format(
          "algorithm grid: parameter \"{}\" is continuous; set feasibleSpace.step, or use another algorithm",
          one.name()));
    }
  }
  const auto count = search.space.count();
  const int64_t wanted = experiment.spec().max_trial_count();
  if (count && wanted > 0 && static_cast<uint64_t>(wanted) > *count) {
    return refused_experiment(
        fmt::format("algorithm grid: maxTrialCount {} is above the number of combinations, {}", wanted, *count));
  }
  return {};
}

Result<void> check_hyperband(const Search& search, const Experiment& experiment) {
  const auto r_l = search.settings.real("r_l");
  const auto resource = search.settings.text("resource_name");
  if (!r_l || !resource) return refused_experiment("r_l and resource_name must be set.");
  const ParameterValues* parameter = search.space.find(*resource);
  if (parameter == nullptr) {
    return refused_experiment(
        fmt::format("algorithm hyperband: resource_name \"{}\" is not a parameter of the experiment", *resource));
  }
  if (parameter->is_categorical()) {
    return refused_experiment(fmt::format(
        "algorithm hyperband: resource_name \"{}\" is a categorical parameter; a resource is a number", *resource));
  }
  const int64_t least = hyperband_brackets(*r_l, search.settings.real("eta").value_or(3)).front().front().trials;
  const int64_t parallel = experiment.spec().parallel_trial_count();
  if (parallel != 0 && parallel < least)
    return refused_experiment(fmt::format("parallelTrialCount must be not less than {}.", least));
  return {};
}

Result<void> check_numbers(const Search& search) {
  int64_t ranges = 0;
  for (const ParameterValues& one : search.space.parameters()) {
    ranges += one.is_range() ? 1 : 0;
    if (search.algorithm == "sobol" && one.is_categorical()) {
      return refused_experiment(
          fmt::format("algorithm sobol takes numbers only; parameter \"{}\" is categorical", one.name()));
    }
  }
  if (search.algorithm == "cmaes" && ranges < 2) {
    return refused_experiment(
        fmt::format("algorithm cmaes needs at least 2 parameters of type double or int, got {}", ranges));
  }
  return {};
}

// A checked experiment.
Result<Search> search_of(const Experiment& experiment) {
  const auto& spec = experiment.spec();
  auto settings = AlgorithmSettings::read(spec.algorithm());
  if (!settings) return make_error(settings.error());
  if (spec.has_nas_config() && spec.nas_config().graph_config().num_layers() > 0) {
    return refused_experiment(fmt::format("algorithm {} does not search neural architectures; remove nasConfig",
                                          spec.algorithm().algorithm_name()));
  }
  auto space = ParameterSpace::create(spec.parameter_specs());
  if (!space) return make_error(space.error());
  const auto type = spec.objective().type();
  if (type != api::v1::beta1::MINIMIZE && type != api::v1::beta1::MAXIMIZE)
    return refused_experiment("objective.type: expected minimize or maximize");
  Search search{.settings = std::move(*settings),
                .space = std::move(*space),
                .algorithm = spec.algorithm().algorithm_name(),
                .metric = spec.objective().objective_metric_name(),
                .maximize = type == api::v1::beta1::MAXIMIZE};
  const auto state = search.settings.integer("random_state");
  search.seed = state ? static_cast<uint64_t>(*state) : hash_of(experiment.name());
  if (search.algorithm == "grid") {
    VOLADOR_TRY(check_grid(search, experiment));
  } else if (search.algorithm == "hyperband") {
    VOLADOR_TRY(check_hyperband(search, experiment));
  } else {
    if (search.algorithm == "bayesianoptimization") VOLADOR_TRY(check_bayesian(search));
    VOLADOR_TRY(check_numbers(search));
    VOLADOR_TRY(search.searcher());  // Limits of the searchers, as the number of dimensions.
  }
  return search;
}

// ---- Replies.

using ReplyAssignments = GetSuggestionsReply::ParameterAssignments;

void assign(ReplyAssignments& to, const std::string& name, std::string value) {
  auto& one = *to.add_assignments();
  one.set_name(name);
  one.set_value(std::move(value));
}

ReplyAssignments& add_trial(GetSuggestionsReply& reply, const ParameterSpace& space,
                            const ParameterSpace::Texts& texts) {
  ReplyAssignments& added = *reply.add_parameter_assignments();
  for (size_t i = 0; i < texts.size(); ++i) assign(added, space.parameters()[i].name(), texts[i]);
  return added;
}

// A searcher that has seen the trials of a request, and draws new combinations.
class Replay {
 public:
  static Result<Replay> of(const Search& search, const GetSuggestionsRequest& request) {
    auto searcher = search.searcher();
    if (!searcher) return make_error(searcher.error());
    Replay replay(search, std::move(*searcher));
    for (const Trial& trial : request.trials()) replay.show(search, trial);
    return replay;
  }

  Result<ParameterSpace::Texts> next() {
    const auto count = space_->is_exact() ? std::nullopt : space_->count();
    std::optional<ParameterSpace::Texts> drawn;
    for (int attempt = 0; attempt < kRepeats; ++attempt) {
      auto suggestion = searcher_->suggest(index_);
      if (!suggestion) return make_error(suggestion.error());
      if (suggestion->kind != tune::Suggestion::Kind::kConfig)
        return make_error(ErrorCode::kInternal, "the searcher gave no configuration");
      ++index_;
      drawn = space_->texts_of(suggestion->config);
      if (!count || seen_.size() >= *count) return *drawn;
      if (seen_.insert(*space_->number_of(*drawn)).second) return *drawn;
    }
    const uint64_t start = tune::model_random(seed_, index_, 0).below(*count);
    for (uint64_t i = 0; i < std::min(*count, kListedMax); ++i) {
      const uint64_t number = (start + i) % *count;
      if (seen_.insert(number).second) return space_->combination(number);
    }
    return *drawn;
  }

 private:
  Replay(const Search& search, std::unique_ptr<tune::Searcher> searcher)
      : space_(&search.space), seed_(search.seed), searcher_(std::move(searcher)) {}

  void show(const Search& search, const Trial& trial) {
    const int64_t index = index_++;
    const auto texts = space_->texts_of(trial);
    const auto drawn = texts ? space_->drawn_of(*texts) : std::nullopt;
    if (!drawn) return;  // The trial of another space.
    if (!space_->is_exact() && space_->count()) seen_.insert(*space_->number_of(*texts));
    searcher_->on_start(index, *drawn);
    // A trial that was ended by a user says nothing about its values.
    if (is_active(trial) || trial.status().condition() == TrialStatus::KILLED) return;
    const auto value = value_of(trial, search.metric);
    if (!value) return searcher_->on_complete(index, std::nullopt);
    searcher_->on_complete(index, tune::Observation{.index = index, .step = 1, .value = *value});
  }

  const ParameterSpace* space_;
  uint64_t seed_;
  std::unique_ptr<tune::Searcher> searcher_;
  int64_t index_ = 0;
  std::unordered_set<uint64_t> seen_;  // Combinations, if the searcher cannot see that one repeats.
};

Result<GetSuggestionsReply> suggest_by_searcher(const Search& search, const GetSuggestionsRequest& request,
                                                int64_t wanted) {
  GetSuggestionsReply reply;
  if (search.algorithm == "cmaes") {
    // A generation is drawn of one distribution: more trials at a time would learn nothing from each other.
    const auto active = std::count_if(request.trials().begin(), request.trials().end(), is_active);
    wanted = std::min<int64_t>(wanted, search.population_of_cmaes() - active);
    if (wanted <= 0) return reply;
  }
  auto replay = Replay::of(search, request);
  if (!replay) return make_error(replay.error());
  for (int64_t i = 0; i < wanted; ++i) {
    auto texts = replay->next();
    if (!texts) return make_error(texts.error());
    add_trial(reply, search.space, *texts);
  }
  return reply;
}

// ---- Grid.

Result<GetSuggestionsReply> suggest_grid(const Search& search, const GetSuggestionsRequest& request, int64_t wanted) {
  std::set<ParameterSpace::Texts> seen;
  for (const Trial& trial : request.trials()) {
    auto texts = search.space.texts_of(trial);
    if (!texts) continue;
    // As we write them: "1" and "1.0" are the same value.
    bool is_inside = true;
    for (size_t i = 0; i < texts->size(); ++i) {
      const ParameterValues& values = search.space.parameters()[i];
      const auto index = values.index_of((*texts)[i]);
      is_inside = is_inside && index;
      if (index) (*texts)[i] = values.value(*index);
    }
    if (is_inside) seen.insert(std::move(*texts));
  }
  GetSuggestionsReply reply;
  const uint64_t count = search.space.count().value_or(std::numeric_limits<uint64_t>::max());
  for (uint64_t number = 0; number < count && reply.parameter_assignments_size() < wanted; ++number) {
    const auto texts = search.space.combination(number);
    if (!seen.contains(texts)) add_trial(reply, search.space, texts);
  }
  return reply;
}

// ---- Hyperband.

// Trials with a value first, the best first; otherwise in their order.
std::vector<const Trial*> ranked(const Search& search, std::vector<const Trial*> trials) {
  std::stable_sort(trials.begin(), trials.end(), [&](const Trial* a, const Trial* b) {
    const auto left = value_of(*a, search.metric), right = value_of(*b, search.metric);
    if (!left || !right) return left.has_value() && !right.has_value();
    return search.better(*left, *right);
  });
  return trials;
}

std::vector<const Trial*> labelled(const GetSuggestionsRequest& request, const char* label, int64_t value,
                                   const char* other_label = nullptr, int64_t other = 0) {
  const auto has = [](const Trial& trial, const char* name, int64_t number) {
    const auto found = trial.spec().labels().find(name);
    return found != trial.spec().labels().end() && found->second == std::to_string(number);
  };
  std::vector<const Trial*> out;
  for (const Trial& trial : request.trials()) {
    if (has(trial, label, value) && (other_label == nullptr || has(trial, other_label, other))) out.push_back(&trial);
  }
  return out;
}

bool any_active(const std::vector<const Trial*>& trials) {
  return std::any_of(trials.begin(), trials.end(), [](const Trial* trial) { return is_active(*trial); });
}

Result<GetSuggestionsReply> suggest_hyperband(const Search& search, const GetSuggestionsRequest& request,
                                              int64_t wanted) {
  const std::string resource = *search.settings.text("resource_name");
  Search drawn = search;  // The resource is not drawn.
  drawn.space.remove(resource);
  const auto brackets = hyperband_brackets(*search.settings.real("r_l"), search.settings.real("eta").value_or(3));
  GetSuggestionsReply reply;
  const auto add = [&](const ParameterSpace::Texts& texts, size_t bracket, size_t rung, int64_t amount) {
    ReplyAssignments& added = add_trial(reply, drawn.space, texts);
    assign(added, resource, std::to_string(amount));
    (*added.mutable_labels())[kHyperbandBracket] = std::to_string(bracket);
    (*added.mutable_labels())[kHyperbandRung] = std::to_string(rung);
  };
  for (size_t bracket = 0; bracket < brackets.size(); ++bracket) {
    std::vector<const Trial*> before;  // Trials of the rung before, best first.
    for (size_t rung = 0; rung < brackets[bracket].size(); ++rung) {
      const HyperbandRung& plan = brackets[bracket][rung];
      const auto trials = labelled(request, kHyperbandBracket, static_cast<int64_t>(bracket), kHyperbandRung,
                                   static_cast<int64_t>(rung));
      int64_t size = plan.trials;
      if (rung > 0) {
        const auto good = std::count_if(before.begin(), before.end(), [&](const Trial* trial) {
          return value_of(*trial, search.metric).has_value();
        });
        size = std::min<int64_t>(size, good);
      }
      const int64_t missing = std::min(wanted, size - static_cast<int64_t>(trials.size()));
      if (missing > 0 && rung == 0 && !drawn.space.parameters().empty()) {
        auto replay = Replay::of(drawn, request);
        if (!replay) return make_error(replay.error());
        for (int64_t i = 0; i < missing; ++i) {
          auto texts = replay->next();
          if (!texts) return make_error(texts.error());
          add(*texts, bracket, rung, plan.resource);
        }
        return reply;
      }
      for (int64_t i = 0; i < missing; ++i) {
        const auto at = trials.size() + static_cast<size_t>(i);
        add(rung == 0 ? ParameterSpace::Texts() : *drawn.space.texts_of(*before[at]), bracket, rung, plan.resource);
      }
      if (missing > 0 || any_active(trials)) return reply;
      before = ranked(search, trials);
      if (size == 0) break;  // No trial of the rung before has a value.
    }
  }
  return reply;
}

// ---- Population based training.

// The values of the parent, each times one of two factors or drawn anew; `draw` numbers the call.
Result<ParameterSpace::Texts> explored(const Search& search, const ParameterSpace::Texts& parent, int64_t draw) {
  constexpr double kFactors[] = {0.8, 1.2};
  const double resample = search.settings.real("resample_probability").value_or(0);
  const auto anew = search.space.space().sample({.seed = search.seed, .index = draw});
  if (!anew) return make_error(anew.error());
  const auto drawn = search.space.texts_of(*anew);
  SeededRandom random = tune::model_random(search.seed, draw, 0);
  ParameterSpace::Texts texts;
  for (size_t i = 0; i < parent.size(); ++i) {
    const bool is_new = random.real() < resample;
    const double factor = kFactors[random.below(2)];
    texts.push_back(is_new ? drawn[i] : search.space.parameters()[i].moved(parent[i], factor));
  }
  return texts;
}

Result<GetSuggestionsReply> suggest_pbt(const Search& search, const GetSuggestionsRequest& request, int64_t wanted) {
  const int64_t population = search.settings.integer("n_population").value_or(kPopulation);
  const double truncation = search.settings.real("truncation_threshold").value_or(kTruncation);
  int64_t generation = 0;  // The latest one.
  while (!labelled(request, kPbtGeneration, generation + 1).empty()) ++generation;
  auto members = labelled(request, kPbtGeneration, generation);
  std::vector<const Trial*> before;  // Trials of the generation before, best first.
  if (generation > 0) before = ranked(search, labelled(request, kPbtGeneration, generation - 1));
  if (static_cast<int64_t>(members.size()) >= population && !any_active(members)) {
    before = ranked(search, members);
    members.clear();
    ++generation;
  }
  const auto good = std::count_if(before.begin(), before.end(),
                                  [&](const Trial* trial) { return value_of(*trial, search.metric).has_value(); });
  GetSuggestionsReply reply;
  const int64_t missing = std::min(wanted, population - static_cast<int64_t>(members.size()));
  if (missing <= 0) return reply;
  const auto label = [&](ReplyAssignments& added, const std::string& parent) {
    (*added.mutable_labels())[kPbtGeneration] = std::to_string(generation);
    if (!parent.empty()) (*added.mutable_labels())[kPbtParent] = parent;
  };
  if (good == 0) {  // The first generation, or one after which there is nothing to continue.
    auto replay = Replay::of(search, request);
    if (!replay) return make_error(replay.error());
    for (int64_t i = 0; i < missing; ++i) {
      auto texts = replay->next();
      if (!texts) return make_error(texts.error());
      label(add_trial(reply, search.space, *texts), "");
    }
    return reply;
  }
  const auto cut = static_cast<int64_t>(std::floor(truncation * static_cast<double>(population)));
  const int64_t top = std::clamp<int64_t>(cut, 1, good);
  for (int64_t i = 0; i < missing; ++i) {
    const int64_t place = static_cast<int64_t>(members.size()) + i;
    const int64_t draw = generation * 1'000'000 + place;
    const bool goes_on = place < std::min(good, std::max<int64_t>(population - cut, 1));
    SeededRandom random = tune::model_random(search.seed, draw, 1);
    const Trial& parent = *before[goes_on ? static_cast<size_t>(place) : random.below(static_cast<uint64_t>(top))];
    auto texts = search.space.texts_of(parent);
    if (!texts) return refused_experiment(fmt::format("trial {} lacks a parameter of the experiment", parent.name()));
    if (!goes_on) {
      auto moved = explored(search, *texts, draw);
      if (!moved) return make_error(moved.error());
      texts = std::move(*moved);
    }
    label(add_trial(reply, search.space, *texts), parent.name());
  }
  return reply;
}

}  // namespace

std::vector<std::vector<HyperbandRung>> hyperband_brackets(double r_l, double eta) {
  // Rounding must not move a whole number to the one below or above.
  constexpr double kRounding = 1e-9;
  const auto most = static_cast<int64_t>(std::floor(std::log(r_l) / std::log(eta) + kRounding));
  std::vector<std::vector<HyperbandRung>> brackets;
  for (int64_t s = most; s >= 0; --s) {
    const double trials = std::ceil(
        static_cast<double>(most + 1) / static_cast<double>(s + 1) * std::pow(eta, static_cast<double>(s)) - kRounding);
    std::vector<HyperbandRung>& rungs = brackets.emplace_back();
    for (int64_t i = 0; i <= s; ++i) {
      const double left = trials * std::pow(eta, static_cast<double>(-i));
      const double resource = r_l * std::pow(eta, static_cast<double>(i - s));
      rungs.push_back({.trials = static_cast<int64_t>(std::ceil(left - kRounding)),
                       .resource = static_cast<int64_t>(std::floor(resource + kRounding))});
    }
  }
  return brackets;
}

Result<GetSuggestionsReply> OwnSuggestions::suggest(const GetSuggestionsRequest& request) {
  const auto search = search_of(request.experiment());
  if (!search) return make_error(search.error());
  const int64_t wanted = request.current_request_number();
  if (wanted < 0 || wanted > kRequestMax) {
    return refused_experiment(fmt::format("current_request_number: expected 0 to {}, got {}", kRequestMax, wanted));
  }
  if (search->algorithm == "grid") return suggest_grid(*search, request, wanted);
  if (search->algorithm == "hyperband") return suggest_hyperband(*search, request, wanted);
  if (search->algorithm == "pbt") return suggest_pbt(*search, request, wanted);
  return suggest_by_searcher(*search, request, wanted);
}

Result<void> OwnSuggestions::validate(const Experiment& experiment) {
  const auto search = search_of(experiment);
  return search ? Result<void>() : make_error(search.error());
}

std::optional<CheckpointFolder> checkpoint_folder(const Algorithm& algorithm,
                                                  const google::protobuf::Map<std::string, std::string>& labels) {
  const auto setting = std::ranges::find(algorithm.settings, "suggestion_trial_dir", &Setting::name);
  if (algorithm.name != "pbt" || setting == algorithm.settings.end() || setting->value.empty()) return std::nullopt;
  const auto parent = labels.find(kPbtParent);
  return CheckpointFolder{setting->value, parent == labels.end() ? "" : parent->second};
}

}  // namespace volador::experiments::katib
