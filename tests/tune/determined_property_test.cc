// Determined's searchers with trials that answer in any order, fail, are cancelled, call their hyperparameters invalid
// and repeat themselves.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <numeric>

#include "tests/how_many.h"
#include "tune/determined/determined_search.h"

namespace volador::tune::determined {
namespace {

const char* const kPropertySpace =
    R"({"x": {"type": "double", "minval": 0, "maxval": 1, "count": 4}, "y": {"type": "int", "minval": 1, "maxval": 4, "count": 4}})";

class Cluster {
 public:
  Cluster(const SearchOptions& options, uint32_t seed)
      : options_(options),
        hyperparameters_(Hyperparameters::from(Config::from_json(kPropertySpace).value()).value()),
        search_(Search::create(options, hyperparameters_, seed).value()),
        dice_(seed * 7919 + 1),
        fails_(dice_.below(3) == 0 ? 100 : 12) {}

  void run() {
    take(search_->initial_operations());
    while (!shut_down_) {
      ASSERT_LT(++events_, 20'000) << "it does not end";
      ASSERT_FALSE(ready_.empty()) << "it waits for ever: " << search_->snapshot();
      step();
      check();
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(search_->counts().closed, search_->counts().requested);
    EXPECT_EQ(search_->counts().requested, static_cast<int64_t>(trials_.size())) << "a trial is lost";
    EXPECT_EQ(search_->progress(), 1);
    EXPECT_EQ(shutdown_.failure, search_->counts().failed == search_->counts().requested);
    EXPECT_EQ(shutdown_.cancel, search_->counts().cancelled == search_->counts().requested);
    if (options_.name != "single" && options_.name != "grid") {
      EXPECT_EQ(search_->counts().requested - search_->counts().invalid, budget());
    }
  }

 private:
  struct Trial {
    RequestId request;
    std::deque<Operation> operations;
    bool created = false, ended = false;
    int64_t units = 0;
  };

  int64_t budget() const {
    if (options_.name == "single") return 1;
    if (options_.name == "grid") return 16;
    if (options_.name != "adaptive_asha") return options_.max_trials;
    const auto brackets = adaptive_brackets(options_);
    return std::accumulate(brackets.begin(), brackets.end(), int64_t{0},
                           [](int64_t sum, const Bracket& one) { return sum + one.trials; });
  }

  void take(const Operations& operations) {
    for (const Operation& operation : operations) {
      ASSERT_FALSE(shut_down_) << "nothing comes after Shutdown";
      if (const auto* create = std::get_if<Create>(&operation)) {
        ASSERT_FALSE(trials_.contains(create->request));
        trials_[create->request].request = create->request;
        push(create->request, operation);
      } else if (const auto* validate = std::get_if<ValidateAfter>(&operation)) {
        Trial& trial = trials_.at(validate->request);
        ASSERT_FALSE(trial.ended) << "a trial that has ended is asked for more";
        ASSERT_GE(validate->length, trial.units);
        ASSERT_LE(validate->length, options_.max_length);
        trial.units = validate->length;
        push(validate->request, operation);
      } else if (const auto* close = std::get_if<Close>(&operation)) {
        push(close->request, operation);
      } else {
        shut_down_ = true;
        shutdown_ = std::get<Shutdown>(operation);
      }
    }
  }
  void push(const RequestId& request, const Operation& operation) {
    Trial& trial = trials_.at(request);
    trial.operations.push_back(operation);
    // A timed trial is ready to report for as long as it runs.
    if (std::find(ready_.begin(), ready_.end(), request) == ready_.end()) ready_.push_back(request);
  }

  // Tells the search and a copy of it from a snapshot, which must decide the same.
  template <class F>
  Operations tell(F&& event) {
    std::unique_ptr<Search> copy;
    if (events_ % how_many(13, 31) == 0) {
      copy = Search::create(options_, hyperparameters_, 99).value();
      const std::string state = search_->snapshot();
      EXPECT_TRUE(copy->restore(state).has_value());
      EXPECT_EQ(copy->snapshot(), state);
    }
    Operations operations = event(*search_);
    if (copy) {
      (void)event(*copy);
      EXPECT_EQ(copy->snapshot(), search_->snapshot());
    }
    return operations;
  }

  void step() {
    // Now and then a trial that waits at a rung is cancelled.
    if (options_.name != "random" && dice_.below(40) == 0) {
      for (auto& [request, trial] : trials_) {
        if (trial.created && !trial.ended && trial.operations.empty() && !options_.timed)
          return end(trial, ExitReason::kUserCancelled);
      }
    }
    const auto pick = static_cast<size_t>(dice_.below(static_cast<int64_t>(ready_.size())));
    Trial& trial = trials_.at(ready_[pick]);
    if (trial.operations.empty()) {
      ready_.erase(ready_.begin() + static_cast<ptrdiff_t>(pick));
      if (options_.timed && !trial.ended) report(trial);
      return;
    }
    const Operation operation = trial.operations.front();
    trial.operations.pop_front();
    if (std::holds_alternative<Create>(operation)) {
      trial.created = true;
      return take(tell([&](Search& search) { return search.created(trial.request); }));
    }
    if (trial.ended) return;
    if (std::holds_alternative<Close>(operation)) return close(trial);
    if (dice_.below(fails_) == 0) return end(trial, any_reason());
    const int64_t length = std::get<ValidateAfter>(operation).length;
    const double metric = dice_.below(20) == 0 ? std::nan("") : dice_.unit();
    search_->trained(trial.request, static_cast<double>(length));
    take(tell([&](Search& search) { return search.validated(trial.request, length, metric); }));
    if (trial.operations.empty()) {
      EXPECT_TRUE(search_->validated(trial.request, length, metric).empty()) << "repeated";
    }
  }

  void report(Trial& trial) {
    if (dice_.below(fails_) == 0) return end(trial, any_reason());
    trial.units += 1 + dice_.below(options_.max_length / 2);
    ready_.push_back(trial.request);
    const double metric = dice_.unit();
    search_->trained(trial.request, static_cast<double>(trial.units));
    take(tell([&](Search& search) { return search.reported(trial.request, trial.units, metric); }));
    if (trial.units > options_.max_length && trial.operations.empty() && !trial.ended) close(trial);
  }

  ExitReason any_reason() { return static_cast<ExitReason>(dice_.below(5)); }

  void end(Trial& trial, ExitReason reason) {
    trial.operations.clear();
    take(tell([&](Search& search) { return search.exited(trial.request, reason); }));
    EXPECT_TRUE(search_->exited(trial.request, reason).empty()) << "a repeated exit";
    close(trial);
  }
  void close(Trial& trial) {
    trial.ended = true;
    trial.operations.clear();
    take(tell([&](Search& search) { return search.closed(trial.request); }));
    EXPECT_TRUE(search_->closed(trial.request).empty()) << "a repeated end";
  }

  void check() {
    const double progress = search_->progress();
    ASSERT_GE(progress, last_progress_);
    ASSERT_LE(progress, 1);
    last_progress_ = progress;
    ASSERT_LE(search_->counts().requested - search_->counts().invalid, budget() + (options_.name == "random"));
    int64_t awaited = 0;
    for (const auto& [request, trial] : search_->trials()) awaited += trial.awaited > 0;
    ASSERT_LE(awaited, std::max<int64_t>(options_.max_concurrent_trials, options_.name == "grid" ? 16 : 0));
  }

  const SearchOptions options_;
  const Hyperparameters hyperparameters_;
  std::unique_ptr<Search> search_;
  Random dice_;
  const int64_t fails_;
  std::map<RequestId, Trial> trials_;
  std::vector<RequestId> ready_;
  int events_ = 0;
  double last_progress_ = 0;
  bool shut_down_ = false;
  Shutdown shutdown_;
};

std::vector<SearchOptions> searches() {
  std::vector<SearchOptions> out;
  const SearchOptions base{
      .max_length = 27, .max_trials = 30, .max_concurrent_trials = 5, .divisor = 3, .num_rungs = 3};
  for (const char* name : {"single", "random", "grid", "async_halving", "adaptive_asha"}) {
    for (const int kind : {0, 1, 2}) {
      SearchOptions options = base;
      options.name = name;
      options.stop_once = kind == 1;
      options.timed = kind == 2;
      options.mode = kind == 1 ? AdaptiveMode::kConservative : AdaptiveMode::kStandard;
      options.smaller_is_better = kind != 1;
      out.push_back(options);
    }
  }
  return out;
}

TEST(DeterminedProperties, NoTrialIsLostAndEverySearchEnds) {
  for (const SearchOptions& options : searches()) {
    for (uint32_t seed = 0; seed < how_many(12u, 3u); ++seed) {
      SCOPED_TRACE(options.name + (options.stop_once ? " stop_once" : "") + (options.timed ? " timed" : "") + " seed " +
                   std::to_string(seed));
      Cluster(options, seed).run();
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace volador::tune::determined
