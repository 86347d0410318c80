// Searchers and schedulers that pause, copy and promote trials, with real processes on a private cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <volador/volador.h>

#include <cmath>
#include <deque>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "tests/temporary_directory.h"
#include "tune/results/trial_story.h"

namespace {

namespace fs = std::filesystem;
namespace tune = volador::tune;
namespace determined = tune::determined;
using testing::IsSubsetOf;
using testing::UnorderedElementsAre;

// A step gains most at a rate of 0.01. Its own counter shows whether its checkpoints were restored.
class Climber : public tune::Trainable {
 public:
  void setup(const tune::Config& config) override { gain_ = 1 - std::abs(std::log10(config.real("lr")) + 2); }
  tune::Metrics step() override {
    ++steps_;
    height_ += gain_;
    return {{"height", height_}, {"own_step", static_cast<double>(steps_)}, {"process", static_cast<double>(getpid())}};
  }
  void save_checkpoint(const fs::path& directory) override {
    std::ofstream file(directory / "state");
    file.precision(17);
    file << steps_ << ' ' << height_;
  }
  void load_checkpoint(const fs::path& directory) override { std::ifstream(directory / "state") >> steps_ >> height_; }

 private:
  double gain_ = 0, height_ = 0;
  int64_t steps_ = 0;
};
VOLADOR_TRAINABLE(Climber);

struct Ran {
  std::map<tune::TrialId, int64_t> steps;                // Steps that each trial reported, up to the last.
  std::map<tune::TrialId, std::set<int64_t>> processes;  // Processes in which each trial ran.
  int64_t results = 0;
};

// Fails if a trial continued from anything other than its own checkpoint.
Ran what_ran(const tune::Analysis& analysis) {
  Ran ran;
  for (const auto& row : analysis.results()) {
    const auto step = static_cast<int64_t>(row.result.get("training_iteration").value());
    EXPECT_EQ(static_cast<int64_t>(row.result.get("own_step").value()), step) << to_string(row.trial);
    ran.steps[row.trial] = std::max(ran.steps[row.trial], step);
    ran.processes[row.trial].insert(static_cast<int64_t>(row.result.get("process").value()));
    ++ran.results;
  }
  return ran;
}

int64_t trials_with(const Ran& ran, int64_t steps) {
  int64_t count = 0;
  for (const auto& [trial, done] : ran.steps) count += done == steps;
  return count;
}

TEST(Bohb, RunsItsBracketsInProcesses) {
  const volador::TemporaryDirectory folder;
  const auto analysis =
      tune::run<Climber>({.name = "bohb",
                          .space = {{"lr", tune::loguniform(1e-5, 1)}},
                          .metric = "height",
                          .num_samples = 9 + 5 + 3,
                          .searcher = tune::bohb({.max_t = 9, .eta = 3}),
                          .scheduler = tune::hyperband_for_bohb({.max_t = 9, .eta = 3}),
                          .max_concurrent_trials = 1,  // All but the last to arrive have left when a bracket halves.
                          .storage_path = folder.path(),
                          .seed = 5,
                          .progress = tune::Progress::kSilent});
  const Ran ran = what_ran(analysis);
  EXPECT_EQ(trials_with(ran, 1), 6) << "of nine";
  EXPECT_EQ(trials_with(ran, 3), 2 + 4) << "of the three that were left, and of five";
  EXPECT_EQ(trials_with(ran, 9), 1 + 1 + 3);
  EXPECT_EQ(ran.results, 69);
  const auto in_several =
      std::count_if(ran.processes.begin(), ran.processes.end(), [](const auto& one) { return one.second.size() > 1; });
  EXPECT_GE(in_several, 3) << "what was paused goes on in another process";
}

TEST(Pb2, CopiesTrialsBetweenProcessesWithinTheirBounds) {
  const volador::TemporaryDirectory folder;
  const auto analysis = tune::run<Climber>(
      {.name = "pb2",
       .space = {{"lr", tune::loguniform(1e-4, 1e-1)}},
       .metric = "height",
       .num_samples = 4,
       .scheduler = tune::pb2(
           {.perturbation_interval = 3, .hyperparam_bounds = {{"lr", tune::loguniform(1e-4, 1e-1)}}, .synch = true}),
       .stop = tune::max_steps(15),
       .storage_path = folder.path(),
       .seed = 3,
       .progress = tune::Progress::kSilent});
  const Ran ran = what_ran(analysis);
  EXPECT_EQ(trials_with(ran, 15), 4);
  std::ifstream log(analysis.directory() / "pbt_global.txt");
  int copies = 0;
  for (std::string line; std::getline(log, line);) {
    const auto row = tune::Config::from_json(line).value();
    const double before = row[4].real("lr"), after = row[5].real("lr");
    EXPECT_NE(before, after);
    EXPECT_GE(after, 1e-4);
    EXPECT_LT(after, 1e-1);
    ++copies;
  }
  EXPECT_EQ(copies, 4) << "after 3, 6, 9 and 12 steps the worst of four";
  const auto in_several =
      std::count_if(ran.processes.begin(), ran.processes.end(), [](const auto& one) { return one.second.size() > 1; });
  EXPECT_GE(in_several, 1);
}

// ---- Resources.

class Resized : public tune::Trainable {
 public:
  void setup(const tune::Config& config) override { last_ = config.integer("steps"); }
  tune::Metrics step() override {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++steps_;
    return {{"own_step", static_cast<double>(steps_)},
            {"process", static_cast<double>(getpid())},
            {"cpus", tune::get_context().resources.cpus},
            {"done", steps_ >= last_ ? 1.0 : 0.0}};
  }
  void save_checkpoint(const fs::path& directory) override { std::ofstream(directory / "state") << steps_; }
  void load_checkpoint(const fs::path& directory) override { std::ifstream(directory / "state") >> steps_; }

 private:
  int64_t steps_ = 0, last_ = 0;
};
VOLADOR_TRAINABLE(Resized);

TEST(ResourceChanging, ATrialGoesOnWithWhatAnotherOneLeaves) {
  const volador::TemporaryDirectory folder;
  tune::RunOptions options{.name = "resized",
                           .space = {{"steps", tune::grid_search({3, 60})}},
                           .scheduler = tune::resource_changing(),
                           .storage_path = folder.path(),
                           .progress = tune::Progress::kSilent};
  const auto analysis = tune::run<Resized>(options);
  const Ran ran = what_ran(analysis);
  const tune::TrialId longer = analysis.trials()[1].id;
  EXPECT_EQ(ran.steps.at(analysis.trials()[0].id), 3);
  EXPECT_EQ(ran.steps.at(longer), 60);
  EXPECT_GE(ran.processes.at(longer).size(), 2U) << "a change of resources is a new process";
  std::vector<double> cpus;
  for (const auto& row : analysis.results()) {
    const double now = row.result.get("cpus").value();
    if (row.trial == longer && (cpus.empty() || cpus.back() != now)) cpus.push_back(now);
  }
  EXPECT_EQ(cpus.front(), 1);
  EXPECT_EQ(cpus.back(), 4) << "all of the cluster, once it is alone";
  EXPECT_TRUE(std::is_sorted(cpus.begin(), cpus.end()));
  const auto story = tune::tell_story(tune::read_journal(analysis.directory()).value(), to_string(longer), 5).value();
  const auto told = std::count_if(story.moments.begin(), story.moments.end(), [](const auto& moment) {
    return moment.text.text().starts_with("resized after step");
  });
  EXPECT_EQ(told, static_cast<std::ptrdiff_t>(cpus.size()) - 1);
  // Replaying the same events gives the same decisions.
  options.resume = analysis.directory();
  EXPECT_EQ(what_ran(tune::run<Resized>(options)).results, ran.results);
  options.resume.clear();
  options.reuse_actors = true;
  try {
    (void)tune::run<Resized>(options);
    FAIL() << "hosts keep their resources";
  } catch (const volador::Exception& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("reuse_actors"));
  }
}

// ---- Determined's searchers determine the trials and their lengths: a matching searcher and scheduler.

struct Determined {
  explicit Determined(const determined::SearchOptions& options, const determined::Hyperparameters& hyperparameters,
                      uint32_t seed)
      : max_length(options.max_length), search(determined::Search::create(options, hyperparameters, seed).value()) {
    take(search->initial_operations());
  }

  void take(const determined::Operations& operations) {
    for (const auto& operation : operations) std::visit([this](const auto& one) { on(one); }, operation);
  }
  void on(const determined::Create& one) { to_start.push_back(one); }
  void on(const determined::ValidateAfter& one) {
    length[one.request] = one.length;
    if (paused.erase(one.request) > 0) orders.push_back(tune::ResumeOrder{trials.at(one.request)});
  }
  void on(const determined::Close& one) {
    closed.insert(one.request);
    if (paused.erase(one.request) > 0) orders.push_back(tune::EndOrder{trials.at(one.request), ending(one.request)});
  }
  void on(const determined::Shutdown& one) {
    over = true;
    failed = one.failure;
  }
  tune::Decision ending(const determined::RequestId& request) const {
    return length.at(request) == max_length ? tune::Decision::kFinish : tune::Decision::kStop;
  }

  const int64_t max_length;
  const std::unique_ptr<determined::Search> search;
  std::deque<determined::Create> to_start;
  std::deque<determined::RequestId> started;  // Requests whose trials are not known yet.
  std::map<determined::RequestId, tune::TrialId> trials;
  std::map<tune::TrialId, determined::RequestId> requests;
  std::map<determined::RequestId, int64_t> length;
  std::set<determined::RequestId> paused, closed;
  std::vector<tune::Order> orders;
  bool over = false, failed = false;
};

class AsSearcher final : public tune::Searcher {
 public:
  explicit AsSearcher(std::shared_ptr<Determined> state) : state_(std::move(state)) {}
  volador::Result<tune::Suggestion> suggest(int64_t) override {
    if (state_->to_start.empty())
      return tune::Suggestion{state_->over ? tune::Suggestion::Kind::kExhausted : tune::Suggestion::Kind::kWait, {}};
    const determined::Create next = state_->to_start.front();
    state_->to_start.pop_front();
    state_->started.push_back(next.request);
    return tune::Suggestion{tune::Suggestion::Kind::kConfig, next.hyperparameters};
  }
  void on_result(const tune::Observation&) override {}
  void on_complete(int64_t, const std::optional<tune::Observation>&) override {}
  std::optional<int64_t> total() const override { return std::nullopt; }
  bool learns() const override { return true; }
  bool needs_metric() const override { return true; }
  std::string describe() const override { return "Determined"; }
  std::string snapshot() const override { return "{}"; }
  volador::Result<void> restore(std::string_view) override { return {}; }

 private:
  const std::shared_ptr<Determined> state_;
};

class AsScheduler final : public tune::Scheduler {
 public:
  explicit AsScheduler(std::shared_ptr<Determined> state) : state_(std::move(state)) {}
  void on_trial_add(tune::TrialId trial) override {
    const determined::RequestId request = state_->started.front();
    state_->started.pop_front();
    state_->trials[request] = trial;
    state_->requests[trial] = request;
    state_->take(state_->search->created(request));
  }
  volador::Result<tune::Decision> on_report(const tune::Report& report) override {
    const determined::RequestId& request = state_->requests.at(report.trial);
    if (report.step < state_->length.at(request)) return tune::Decision::kContinue;
    state_->take(state_->search->validated(request, -report.value));
    if (state_->closed.contains(request)) return state_->ending(request);
    if (report.step < state_->length.at(request)) return tune::Decision::kContinue;
    state_->paused.insert(request);
    return tune::Decision::kPause;
  }
  void on_complete(tune::TrialId trial) override { state_->take(state_->search->closed(state_->requests.at(trial))); }
  std::vector<tune::Order> take_orders() override { return std::exchange(state_->orders, {}); }
  bool pauses() const override { return true; }
  bool needs_metric() const override { return true; }
  std::string describe() const override { return "Determined"; }
  std::string snapshot() const override { return "{}"; }
  volador::Result<void> restore(std::string_view) override { return {}; }
  void check_invariants() const override {}

 private:
  const std::shared_ptr<Determined> state_;
};

struct Searched {
  std::shared_ptr<Determined> state;
  Ran ran;
  std::vector<tune::Config> configs;
};

Searched searched(const determined::SearchOptions& options) {
  const tune::Config lr = options.name == "grid" || options.name == "single"
                              ? tune::Config{{"type", "categorical"}, {"vals", tune::Config::list({0.001, 0.01, 0.1})}}
                              : tune::Config{{"type", "log"}, {"base", 10}, {"minval", -4}, {"maxval", -1}};
  const auto hyperparameters = determined::Hyperparameters::from({{"lr", lr}}).value();
  Searched out{std::make_shared<Determined>(options, hyperparameters, 7), {}, {}};
  const volador::TemporaryDirectory folder;
  const auto analysis = tune::run<Climber>(
      {.name = options.name,
       .metric = "height",
       .num_samples = -1,
       .searcher = [state = out.state](const auto&) -> volador::Result<std::unique_ptr<tune::Searcher>> {
         return std::make_unique<AsSearcher>(state);
       },
       .scheduler = [state = out.state](const auto&) -> volador::Result<std::unique_ptr<tune::Scheduler>> {
         return std::make_unique<AsScheduler>(state);
       },
       .storage_path = folder.path(),
       .progress = tune::Progress::kSilent});
  out.ran = what_ran(analysis);
  for (const auto& trial : analysis.trials()) out.configs.push_back(trial.config);
  return out;
}

TEST(DeterminedSearchers, SingleRandomAndGridTrainEachTrialInFull) {
  for (const auto& [name, asked, trials] :
       {std::tuple("single", 1, 1), std::tuple("random", 4, 4), std::tuple("grid", 1, 3)}) {
    const Searched one = searched({.name = name, .max_length = 4, .max_trials = asked, .max_concurrent_trials = 2});
    EXPECT_EQ(trials_with(one.ran, 4), trials) << name;
    EXPECT_EQ(one.ran.results, 4 * trials) << name;
    EXPECT_TRUE(one.state->over && !one.state->failed) << name;
    EXPECT_DOUBLE_EQ(one.state->search->progress(), 1) << name;
    if (std::string_view(name) != "grid") continue;
    std::vector<double> rates;
    for (const tune::Config& config : one.configs) rates.push_back(config.real("lr"));
    EXPECT_THAT(rates, UnorderedElementsAre(0.001, 0.01, 0.1));
  }
}

TEST(DeterminedSearchers, AdaptiveAshaStopsAndPromotesTrials) {
  for (const bool stop_once : {true, false}) {
    const determined::SearchOptions options{.name = "adaptive_asha",
                                            .max_length = 16,
                                            .max_trials = 12,
                                            .max_concurrent_trials = 3,
                                            .smaller_is_better = true,
                                            .divisor = 4,
                                            .stop_once = stop_once,
                                            .max_rungs = 3};
    std::set<int64_t> lengths;
    for (const auto& bracket : determined::adaptive_brackets(options))
      lengths.insert(bracket.lengths.begin(), bracket.lengths.end());
    const Searched one = searched(options);
    EXPECT_EQ(one.ran.steps.size(), 12U);
    std::set<int64_t> reached;
    for (const auto& [trial, steps] : one.ran.steps) reached.insert(steps);
    EXPECT_THAT(reached, IsSubsetOf(lengths));
    EXPECT_TRUE(reached.contains(16));
    EXPECT_LT(trials_with(one.ran, 16), 12) << "some were stopped";
    EXPECT_TRUE(one.state->over && !one.state->failed);
  }
}

}  // namespace

int main(int argc, char** argv) {
  auto cluster = volador::init(argc, argv, {.address = "local", .num_cpus = 4});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
