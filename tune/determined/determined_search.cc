#include "tune/determined/determined_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>

#include "tune/determined/determined_asha.h"
#include "tune/determined/determined_custom.h"
#include "tune/determined/determined_methods.h"
#include "tune/determined/determined_timed.h"
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

std::unique_ptr<Method> asha(const SearchOptions& options, AshaBracket bracket) {
  if (options.timed) return std::make_unique<TimedAshaMethod>(std::move(bracket));
  return std::make_unique<AshaMethod>(std::move(bracket));
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
  if (options.name == "custom") return Made(std::make_unique<CustomMethod>());
  if (options.name == "grid") {
    auto points = hyperparameters.grid();
    if (!points) return make_error(points.error());
    return Made(std::make_unique<GridMethod>(options, std::move(*points)));
  }
  if (options.name == "async_halving") {
    return asha(options, bracket_of(options, rung_lengths(options.num_rungs, options.divisor, options.max_length),
                                    options.max_trials, options.max_concurrent_trials));
  }
  if (options.name != "adaptive_asha")
    return refuse("name", "single, random, grid, async_halving, adaptive_asha or custom", "\"" + options.name + "\"");
  std::vector<std::unique_ptr<Method>> brackets;
  for (const Bracket& bracket : adaptive_brackets(options))
    brackets.push_back(asha(options, bracket_of(options, bracket.lengths, bracket.trials, bracket.concurrent)));
  return Made(std::make_unique<TournamentMethod>(std::move(brackets)));
}

// ---- The search.

Search::Search(const SearchOptions& options, Hyperparameters hyperparameters, uint32_t seed,
               std::unique_ptr<Method> method)
    : options_(options),
      hyperparameters_(std::move(hyperparameters)),
      random_(seed),
      method_(std::move(method)),
      custom_(dynamic_cast<CustomMethod*>(method_.get())) {}

Result<std::unique_ptr<Search>> Search::create(const SearchOptions& options, const Hyperparameters& hyperparameters,
                                               uint32_t seed) {
  auto method = make_method(options, hyperparameters);
  if (!method) return make_error(method.error());
  return std::unique_ptr<Search>(new Search(options, hyperparameters, seed, std::move(*method)));
}

Operations Search::take(Operations operations) {
  for (const Operation& operation : operations) {
    if (const auto* create = std::get_if<Create>(&operation)) {
      trials_.add(create->request);
      ++counts_.requested;
    } else if (const auto* validate = std::get_if<ValidateAfter>(&operation)) {
      if (TrialRecord* trial = trials_.find(validate->request)) trial->awaited = validate->length;
    } else if (const auto* close = std::get_if<Close>(&operation)) {
      if (TrialRecord* trial = trials_.find(close->request)) trial->closing = true;
    }
  }
  return operations;
}

Operations Search::with_end(Operations operations) {
  operations = take(std::move(operations));
  const int64_t all = counts_.requested;
  if (shut_down_ || custom_ != nullptr || all == 0 || counts_.closed < all) return operations;
  shut_down_ = true;
  operations.emplace_back(Shutdown{.failure = counts_.failed >= all, .cancel = counts_.cancelled >= all});
  return operations;
}

double Search::cost(double metric) const {
  if (custom_ != nullptr) return metric;
  if (std::isnan(metric)) return std::numeric_limits<double>::max();
  return options_.smaller_is_better ? metric : -metric;
}

void Search::ensure_created(const RequestId& request, TrialRecord& trial) {
  if (std::exchange(trial.created, true)) return;
  ++counts_.created;
  method_->created(request);
}

Operations Search::initial_operations() {
  if (counts_.requested > 0 || (custom_ != nullptr && custom_->last_event() > 0)) return {};
  Creator creator(hyperparameters_, random_);
  return take(method_->initial_operations(creator));
}

Operations Search::created(const RequestId& request) {
  if (TrialRecord* trial = trials_.find(request)) ensure_created(request, *trial);
  return {};
}

Operations Search::validated(const RequestId& request, double metric) {
  TrialRecord* trial = trials_.find(request);
  if (trial == nullptr || !trial->created || trial->closed || trial->exited || trial->awaited == 0) return {};
  trial->awaited = 0;
  Creator creator(hyperparameters_, random_);
  return take(method_->validated(creator, request, cost(metric)));
}

Operations Search::validated(const RequestId& request, int64_t length, double metric) {
  const TrialRecord* trial = trials_.find(request);
  if (trial == nullptr || trial->awaited != length) return {};
  return validated(request, metric);
}

Operations Search::reported(const RequestId& request, int64_t units, double metric) {
  TrialRecord* trial = trials_.find(request);
  if (trial == nullptr || !trial->created || trial->closed || trial->exited) return {};
  Creator creator(hyperparameters_, random_);
  return take(method_->reported(creator, request, units, cost(metric)));
}

Operations Search::closed(const RequestId& request) {
  TrialRecord* trial = trials_.find(request);
  if (trial == nullptr || trial->closed) return {};
  ensure_created(request, *trial);
  Operations operations;
  if (trial->awaited > 0 && !trial->exited) operations = exited(request, ExitReason::kUserRequestedStop);
  trial->closed = true;
  ++counts_.closed;
  Creator creator(hyperparameters_, random_);
  Operations more = with_end(method_->closed(creator, request));
  std::move(more.begin(), more.end(), std::back_inserter(operations));
  return operations;
}

Operations Search::exited(const RequestId& request, ExitReason reason) {
  TrialRecord* trial = trials_.find(request);
  if (trial == nullptr || trial->closed || trial->exited) return {};
  ensure_created(request, *trial);
  trial->exited = true;
  trial->invalid = is_invalid_hp(reason);
  trial->awaited = 0;
  counts_.failed += reason == ExitReason::kErrored;
  counts_.cancelled += reason == ExitReason::kUserCancelled;
  counts_.invalid += trial->invalid;
  Creator creator(hyperparameters_, random_);
  return take(method_->exited(creator, request, reason));
}

void Search::trained(const RequestId& request, double units) {
  TrialRecord* trial = trials_.find(request);
  if (trial == nullptr || trial->closed || !std::isfinite(units)) return;
  trial->units = units;
  method_->trained(request, units);
}

Result<Operations> Search::checked(const Operations& operations) const {
  const auto refuse_operation = [](const char* kind, const RequestId& request, const char* rule) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{} of trial \"{}\": {}", kind, request, rule));
  };
  std::map<RequestId, TrialRecord> changed;  // As they are after the operations so far.
  const auto at = [&](const RequestId& request) -> TrialRecord* {
    const TrialRecord* known = trials_.find(request);
    if (known != nullptr) return &changed.try_emplace(request, *known).first->second;
    const auto made = changed.find(request);
    return made == changed.end() ? nullptr : &made->second;
  };
  Operations out;
  for (size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    if (const auto* create = std::get_if<Create>(&operation)) {
      if (create->request.empty() || at(create->request) != nullptr)
        return refuse_operation("create", create->request, "expected a new id of at least one character");
      changed.try_emplace(create->request);
    } else if (const auto* validate = std::get_if<ValidateAfter>(&operation)) {
      TrialRecord* trial = at(validate->request);
      if (trial == nullptr) return refuse_operation("validate_after", validate->request, "create the trial first");
      if (validate->length < 1)
        return refuse_operation("validate_after", validate->request, "expected a length of at least 1");
      if (trial->exited || trial->closed) continue;
      if (trial->closing) return refuse_operation("validate_after", validate->request, "it was closed before");
      if (trial->awaited > 0)
        return refuse_operation("validate_after", validate->request, "it has not completed the length before");
      trial->awaited = validate->length;
    } else if (const auto* close = std::get_if<Close>(&operation)) {
      TrialRecord* trial = at(close->request);
      if (trial == nullptr) return refuse_operation("close", close->request, "create the trial first");
      if (trial->exited || trial->closing || trial->closed) continue;
      trial->closing = true;
    } else if (i + 1 < operations.size()) {
      return make_error(ErrorCode::kInvalidArgument, "shutdown: expected no operation after it");
    }
    out.push_back(operation);
  }
  return out;
}

Result<Operations> Search::answer(int64_t event, const Operations& operations, std::optional<double> progress) {
  const auto refuse_answer = [](const std::string& text) { return make_error(ErrorCode::kInvalidArgument, text); };
  if (custom_ == nullptr)
    return refuse_answer(fmt::format("searcher.name is {}: only a custom one takes operations", options_.name));
  if (event != 0 && event <= custom_->answered()) return Operations();
  if (event > custom_->last_event())
    return refuse_answer(fmt::format("event {}: expected at most {}, the last one", event, custom_->last_event()));
  if (shut_down_) return refuse_answer("the search has shut down: it takes no more operations");
  if (progress && !(*progress >= 0 && *progress <= 1))
    return refuse_answer(fmt::format("progress: expected 0 to 1, got {}", format_real(*progress)));
  auto good = checked(operations);
  if (!good) return good;
  custom_->answer(event == 0 ? custom_->answered() : event, *good, progress);
  for (const Operation& operation : *good) shut_down_ = shut_down_ || std::holds_alternative<Shutdown>(operation);
  return take(std::move(*good));
}

std::vector<SearchRung> Search::rungs() const {
  std::vector<SearchRung> all = method_->rungs();
  if (options_.smaller_is_better) return all;
  for (SearchRung& rung : all) {
    for (SearchRung::Member& member : rung.members) member.metric = -member.metric;
  }
  return all;
}

double Search::progress() {
  progress_ = shut_down_ ? 1 : std::max(progress_, std::clamp(method_->progress(trials_), 0.0, 1.0));
  return progress_;
}

std::string Search::snapshot() const {
  Config trials = Config::list({});
  for (const auto& [request, trial] : trials_)
    trials.push_back(Config::list({request, trial.created, trial.closing, trial.closed, trial.exited, trial.invalid,
                                   trial.units, trial.awaited}));
  return Config({{"version", 1},
                 {"random", random_.state()},
                 {"method", method_->state()},
                 {"trials", std::move(trials)},
                 {"failed", counts_.failed},
                 {"cancelled", counts_.cancelled},
                 {"shut_down", shut_down_},
                 {"progress", progress_}})
      .to_json();
}

Result<void> Search::restore(std::string_view snapshot) {
  return read_snapshot(options_.name, snapshot, [this](const Config& state) -> Result<void> {
    Random random(0);
    VOLADOR_TRY(random.restore(state.text("random")));
    auto method = make_method(options_, hyperparameters_);
    if (!method) return make_error(method.error());
    (*method)->read(state["method"]);
    TrialRecords trials;
    SearchCounts counts{.failed = state.integer("failed"), .cancelled = state.integer("cancelled")};
    const Config all = state["trials"];
    for (const Config& one : all.items()) {
      const TrialRecord trial{.created = one[1].boolean(),
                              .closing = one[2].boolean(),
                              .closed = one[3].boolean(),
                              .exited = one[4].boolean(),
                              .invalid = one[5].boolean(),
                              .units = one[6].real(),
                              .awaited = one[7].integer()};
      if (trials.find(one[0].text()) != nullptr)
        return snapshot_does_not_fit(options_.name, "a trial stands in it twice");
      trials.add(one[0].text(), trial);
      ++counts.requested;
      counts.created += trial.created;
      counts.closed += trial.closed;
      counts.invalid += trial.invalid;
    }
    const bool shut_down = state.boolean("shut_down");
    const double progress = state.real("progress");
    random_ = random;
    method_ = std::move(*method);
    custom_ = dynamic_cast<CustomMethod*>(method_.get());
    trials_ = std::move(trials);
    counts_ = counts;
    shut_down_ = shut_down;
    progress_ = progress;
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
