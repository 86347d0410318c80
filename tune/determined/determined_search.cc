#include "tune/determined/determined_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>

#include "tune/determined/determined_asha.h"
#include "tune/determined/determined_methods.h"
#include "tune/snapshot.h"

namespace volador::tune::determined {
namespace {

tl::unexpected<Error> refuse(const std::string& option, const std::string& rule, const std::string& got) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("searcher.{}: expected {}, got {}", option, rule, got));
}

Result<void> validate(const SearchOptions& options) {
  constexpr int64_t kMost = int64_t{1} << 53;
  const auto whole = [](int64_t value) { return std::to_string(value); };
  if (options.max_length < 1 || options.max_length > kMost)
    return refuse("max_length", "1 to 2^53 units", whole(options.max_length));
  if (options.max_trials < 1 || options.max_trials > 1'000'000)
    return refuse("max_trials", "1 to 1000000", whole(options.max_trials));
  if (options.max_concurrent_trials < 0)
    return refuse("max_concurrent_trials", "at least 1, or 0 for no limit", whole(options.max_concurrent_trials));
  if (!(options.divisor > 1) || !std::isfinite(options.divisor))
    return refuse("divisor", "a number above 1", format_real(options.divisor));
  if (options.num_rungs < 1 || options.num_rungs > 1'000)
    return refuse("num_rungs", "1 to 1000", whole(options.num_rungs));
  if (options.max_rungs < 1 || options.max_rungs > 1'000)
    return refuse("max_rungs", "1 to 1000", whole(options.max_rungs));
  for (const int64_t rungs : options.bracket_rungs) {
    if (rungs < 1 || rungs > 1'000) return refuse("bracket_rungs", "1 to 1000 each", whole(rungs));
  }
  return {};
}

int64_t log_steps(int64_t value, double divisor) {
  return static_cast<int64_t>(std::log(static_cast<double>(value)) / std::log(divisor)) + 1;
}

std::vector<int64_t> rungs_of_brackets(const SearchOptions& options) {
  std::vector<int64_t> rungs = options.bracket_rungs;
  if (rungs.empty()) {
    const int64_t most = std::min({options.max_rungs, log_steps(options.max_length, options.divisor),
                                   log_steps(options.max_trials, options.divisor)});
    const int64_t least = options.mode == AdaptiveMode::kAggressive ? most
                          : options.mode == AdaptiveMode::kStandard ? (most - 1) / 2 + 1
                                                                    : 1;
    for (int64_t one = most; one >= least; --one) rungs.push_back(one);
  }
  std::stable_sort(rungs.begin(), rungs.end(), std::greater<>());
  return rungs;
}

std::vector<int64_t> trials_of_brackets(int64_t max_trials, double divisor, const std::vector<int64_t>& rungs) {
  std::vector<double> weights;
  for (const int64_t one : rungs)
    weights.push_back(std::pow(divisor, static_cast<double>(one - 1)) / static_cast<double>(one));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> trials;
  int64_t given = 0;
  for (const double weight : weights) {
    trials.push_back(std::max<int64_t>(static_cast<int64_t>(weight / sum * static_cast<double>(max_trials)), 1));
    given += trials.back();
  }
  trials[0] += std::max<int64_t>(max_trials - given, 0);
  return trials;
}

std::vector<int64_t> concurrency_of_brackets(const SearchOptions& options, const std::vector<int64_t>& trials) {
  const auto count = static_cast<int64_t>(trials.size());
  if (options.max_concurrent_trials == 0)
    return std::vector<int64_t>(trials.size(), std::max(trials.back(), static_cast<int64_t>(options.divisor)));
  const int64_t all = std::max(options.max_concurrent_trials, count);
  std::vector<int64_t> out(trials.size(), all / count);
  for (int64_t i = 0; i < all % count; ++i) ++out[static_cast<size_t>(i)];
  return out;
}

// Initial state of a bracket.
AshaBracket bracket_of(const SearchOptions& options, std::vector<int64_t> lengths, int64_t trials, int64_t concurrent) {
  const double natural = std::min(std::pow(options.divisor, static_cast<double>(lengths.size() - 1)), 1e9);
  const int64_t begins = concurrent > 0 ? std::min(concurrent, trials)
                                        : std::max<int64_t>(std::min(static_cast<int64_t>(natural), trials), 1);
  return {std::move(lengths), trials, begins, options.divisor, options.stop_once};
}

}  // namespace

std::vector<int64_t> rung_lengths(int64_t num_rungs, double divisor, int64_t max_length) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < num_rungs; ++i)
    out.push_back(std::max<int64_t>(static_cast<int64_t>(static_cast<double>(max_length) /
                                                         std::pow(divisor, static_cast<double>(num_rungs - i - 1))),
                                    1));
  return out;
}

std::vector<Bracket> adaptive_brackets(const SearchOptions& options) {
  const std::vector<int64_t> rungs = rungs_of_brackets(options);
  const std::vector<int64_t> trials = trials_of_brackets(options.max_trials, options.divisor, rungs);
  const std::vector<int64_t> concurrent = concurrency_of_brackets(options, trials);
  std::vector<Bracket> out;
  for (size_t i = 0; i < rungs.size(); ++i)
    out.push_back({rungs[i], trials[i], concurrent[i], rung_lengths(rungs[i], options.divisor, options.max_length)});
  return out;
}

Create Creator::create() {
  Config hyperparameters = hyperparameters_.sample(random_);
  return create(std::move(hyperparameters));
}

Create Creator::create(Config hyperparameters) {
  Create made{.request = random_.uuid(), .hyperparameters = std::move(hyperparameters)};
  made.trial_seed = static_cast<uint32_t>(random_.up_to((uint64_t{1} << 31) - 1));
  return made;
}

Result<std::unique_ptr<Method>> make_method(const SearchOptions& options, const Hyperparameters& hyperparameters) {
  VOLADOR_TRY(validate(options));
  using Made = Result<std::unique_ptr<Method>>;
  if (options.name == "single" || options.name == "random") return Made(std::make_unique<RandomMethod>(options));
  if (options.name == "grid") {
    auto points = hyperparameters.grid();
    if (!points) return make_error(points.error());
    return Made(std::make_unique<GridMethod>(options, std::move(*points)));
  }
  if (options.name == "async_halving") {
    return Made(std::make_unique<AshaMethod>(
        bracket_of(options, rung_lengths(options.num_rungs, options.divisor, options.max_length), options.max_trials,
                   options.max_concurrent_trials)));
  }
  if (options.name != "adaptive_asha")
    return refuse("name", "single, random, grid, async_halving or adaptive_asha", "\"" + options.name + "\"");
  std::vector<std::unique_ptr<Method>> brackets;
  for (const Bracket& bracket : adaptive_brackets(options))
    brackets.push_back(
        std::make_unique<AshaMethod>(bracket_of(options, bracket.lengths, bracket.trials, bracket.concurrent)));
  return Made(std::make_unique<TournamentMethod>(std::move(brackets)));
}

// ---- The search.

Search::Search(const SearchOptions& options, Hyperparameters hyperparameters, uint32_t seed,
               std::unique_ptr<Method> method)
    : options_(options), hyperparameters_(std::move(hyperparameters)), random_(seed), method_(std::move(method)) {}

Result<std::unique_ptr<Search>> Search::create(const SearchOptions& options, const Hyperparameters& hyperparameters,
                                               uint32_t seed) {
  auto method = make_method(options, hyperparameters);
  if (!method) return make_error(method.error());
  return std::unique_ptr<Search>(new Search(options, hyperparameters, seed, std::move(*method)));
}

Operations Search::take(Operations operations) {
  for (const Operation& operation : operations) {
    if (const auto* create = std::get_if<Create>(&operation)) requested_.insert(create->request);
  }
  return operations;
}

Operations Search::with_end(Operations operations) {
  operations = take(std::move(operations));
  if (shut_down_ || requested_.empty() || closed_.size() < requested_.size()) return operations;
  shut_down_ = true;
  const auto all = static_cast<int64_t>(requested_.size());
  operations.emplace_back(Shutdown{.failure = failures_ >= all, .cancel = cancels_ >= all});
  return operations;
}

Operations Search::initial_operations() {
  if (!requested_.empty()) return {};
  Creator creator(hyperparameters_, random_);
  return take(method_->initial_operations(creator));
}

Operations Search::created(const RequestId& request) {
  if (requested_.contains(request) && created_.insert(request).second) method_->created(request);
  return {};
}

Operations Search::validated(const RequestId& request, double metric) {
  if (!created_.contains(request) || closed_.contains(request) || exited_.contains(request)) return {};
  if (std::isnan(metric))
    metric = std::numeric_limits<double>::max();
  else if (!options_.smaller_is_better)
    metric = -metric;
  Creator creator(hyperparameters_, random_);
  return take(method_->validated(creator, request, metric));
}

Operations Search::closed(const RequestId& request) {
  if (!created_.contains(request) || !closed_.insert(request).second) return {};
  Creator creator(hyperparameters_, random_);
  return with_end(method_->closed(creator, request));
}

Operations Search::exited(const RequestId& request, ExitReason reason) {
  if (!created_.contains(request) || closed_.contains(request) || !exited_.insert(request).second) return {};
  failures_ += reason == ExitReason::kErrored;
  cancels_ += reason == ExitReason::kUserCancelled;
  Creator creator(hyperparameters_, random_);
  return with_end(method_->exited(creator, request, reason));
}

double Search::progress() const { return shut_down_ ? 1 : method_->progress(units_); }

std::string Search::snapshot() const {
  const auto names = [](const std::set<RequestId>& all) {
    Config out = Config::list({});
    for (const RequestId& one : all) out.push_back(one);
    return out;
  };
  Config units = Config::list({});
  for (const auto& [request, trained] : units_) units.push_back(Config::list({request, trained}));
  return Config({{"version", 1},
                 {"random", random_.state()},
                 {"method", method_->state()},
                 {"requested", names(requested_)},
                 {"created", names(created_)},
                 {"closed", names(closed_)},
                 {"exited", names(exited_)},
                 {"failures", failures_},
                 {"cancels", cancels_},
                 {"shut_down", shut_down_},
                 {"units", std::move(units)}})
      .to_json();
}

Result<void> Search::restore(std::string_view snapshot) {
  return read_snapshot(options_.name, snapshot, [this](const Config& state) -> Result<void> {
    const auto names = [&state](const char* field) {
      std::set<RequestId> out;
      const Config all = state[field];
      for (const Config& one : all.items()) out.insert(one.text());
      return out;
    };
    Random random(0);
    VOLADOR_TRY(random.restore(state.text("random")));
    auto method = make_method(options_, hyperparameters_);
    if (!method) return make_error(method.error());
    (*method)->read(state["method"]);
    auto requested = names("requested"), created = names("created"), closed = names("closed"), exited = names("exited");
    const int64_t failures = state.integer("failures"), cancels = state.integer("cancels");
    const bool shut_down = state.boolean("shut_down");
    std::map<RequestId, double> units;
    const Config all = state["units"];
    for (const Config& one : all.items()) units[one[0].text()] = one[1].real();
    random_ = random;
    method_ = std::move(*method);
    requested_ = std::move(requested);
    created_ = std::move(created);
    closed_ = std::move(closed);
    exited_ = std::move(exited);
    failures_ = failures;
    cancels_ = cancels;
    shut_down_ = shut_down;
    units_ = std::move(units);
    return {};
  });
}

std::vector<std::vector<int64_t>> simulate_fifo(Search& search, const std::function<double(int64_t)>& metric,
                                                const EarlyExit& exit) {
  std::vector<std::vector<int64_t>> lengths;
  std::map<RequestId, size_t> numbers;
  const Operations first = search.initial_operations();
  std::deque<Operation> queue(first.begin(), first.end());
  const auto enqueue = [&queue](Operations more) { std::move(more.begin(), more.end(), std::back_inserter(queue)); };
  while (!queue.empty()) {
    const Operation operation = std::move(queue.front());
    queue.pop_front();
    if (const auto* create = std::get_if<Create>(&operation)) {
      numbers[create->request] = lengths.size();
      lengths.emplace_back();
      enqueue(search.created(create->request));
    } else if (const auto* validate = std::get_if<ValidateAfter>(&operation)) {
      const size_t number = numbers.at(validate->request);
      const bool exits =
          static_cast<int64_t>(number) == exit.trial && static_cast<int64_t>(lengths[number].size()) == exit.operation;
      lengths[number].push_back(validate->length);
      enqueue(exits ? search.exited(validate->request, ExitReason::kErrored)
                    : search.validated(validate->request, metric(static_cast<int64_t>(number))));
    } else if (const auto* close = std::get_if<Close>(&operation)) {
      enqueue(search.closed(close->request));
    }
  }
  return lengths;
}

}  // namespace volador::tune::determined
