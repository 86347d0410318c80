#include "experiments/katib/katib_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace volador::experiments::katib {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

const ExperimentRequester kAda{.token_id = "token-ada", .user = "ada"};
const ExperimentRequester kBob{.token_id = "token-bob", .user = "bob"};
const ExperimentRequester kRoot{.token_id = "token-root", .user = "root", .operates = true};

struct Wanted {
  std::string name = "random";
  int parallel = 3;
  int most = 12;   // 0: no maximum.
  int failed = 0;  // 0: no maximum.
  std::string goal = {};
  std::string resume = "Never";
  std::string strategy = {};
};

std::string yaml_of(const Wanted& wanted) {
  std::string text = "apiVersion: kubeflow.org/v1beta1\nkind: Experiment\nmetadata: {name: " + wanted.name +
                     "}\nspec:\n  objective:\n    type: maximize\n    objectiveMetricName: accuracy\n";
  if (!wanted.goal.empty()) text += "    goal: " + wanted.goal + "\n";
  if (!wanted.strategy.empty()) text += "    metricStrategies: [{name: accuracy, value: " + wanted.strategy + "}]\n";
  text += "  algorithm: {algorithmName: random}\n  resumePolicy: " + wanted.resume + "\n";
  text += "  parallelTrialCount: " + std::to_string(wanted.parallel) + "\n";
  if (wanted.most > 0) text += "  maxTrialCount: " + std::to_string(wanted.most) + "\n";
  if (wanted.failed > 0) text += "  maxFailedTrialCount: " + std::to_string(wanted.failed) + "\n";
  text += R"(  parameters:
    - {name: lr, parameterType: double, feasibleSpace: {min: "0.0", max: "1.0"}}
  trialTemplate:
    primaryContainerName: main
    trialParameters: [{name: rate, description: rate, reference: lr}]
    trialSpec:
      apiVersion: batch/v1
      kind: Job
      spec:
        template:
          spec:
            containers: [{name: main, image: example, command: [train, "--lr=${trialParameters.rate}"]}]
            restartPolicy: Never
)";
  return text;
}

const std::string kJobYaml =
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: hello}\nspec: {template: {spec: {restartPolicy: Never, "
    "containers: [{name: main, image: example, command: [echo, hello]}]}}}\n";

struct Crash {};

// The experiments, jobs and algorithms of a cluster, which outlive the core.
class World {
 public:
  struct Experiment {
    v1::ExperimentInfo info;
    std::string request;
    std::map<std::string, v1::TrialInfo> trials;
  };

  v1::ExperimentInfo create(const KatibActions::Create& action) {
    for (auto& [id, one] : experiments) {
      if (one.request == action.request.request_id()) return one.info;
    }
    Experiment& made = experiments[++last_experiment];
    made.request = action.request.request_id();
    made.info.set_id(last_experiment);
    made.info.set_state("ACTIVE");
    made.info.set_katib(action.of.name_space + "/" + action.of.name);
    return made.info;
  }
  void run(const KatibActions::Run& action) {
    Experiment& of = experiments.at(action.experiment);
    for (const auto& program : action.programs) {
      if (of.trials.contains(program.name())) continue;
      EXPECT_TRUE(names.insert(program.name()).second) << program.name() << " was created twice";
      v1::TrialInfo& trial = of.trials[program.name()];
      trial.set_id(++last_trial);
      trial.set_experiment(action.experiment);
      trial.set_name(program.name());
      trial.set_state("ACTIVE");
      trial.set_hparams(program.hparams());
      programs[program.name()] = program;
    }
  }
  void end(const KatibActions::End& action) {
    const auto found = experiments.find(action.experiment);
    if (found == experiments.end() || found->second.info.state() != "ACTIVE") return;
    for (auto& [name, trial] : found->second.trials) kill(trial);
    found->second.info.set_state(action.failed ? "ERROR" : "COMPLETED");
  }
  static void kill(v1::TrialInfo& trial) {
    if (trial.state() == "ACTIVE") trial.set_state("CANCELED");
  }
  void kill_trial(int64_t id) {
    for (auto& [number, one] : experiments) {
      for (auto& [name, trial] : one.trials) {
        if (trial.id() == id) kill(trial);
      }
    }
  }
  void change(int64_t id, const std::string& command) {
    const auto found = experiments.find(id);
    if (found == experiments.end()) return;
    if (command == "delete") {
      experiments.erase(found);
      return;
    }
    for (auto& [name, trial] : found->second.trials) kill(trial);
    found->second.info.set_state("CANCELED");
  }
  v1::Job submit(const KatibActions::Submit& action) {
    for (auto& [id, job] : jobs) {
      if (job.spec().trial() == action.spec.trial()) return job;
    }
    const std::string id = "job-" + std::to_string(++last_job);
    v1::Job& job = jobs[id];
    job.set_id(id);
    *job.mutable_spec() = action.spec;
    job.set_state("queued");
    return job;
  }

  // The first trial that has not ended, by its id. Null: there is none.
  v1::TrialInfo* open_trial(bool started) {
    v1::TrialInfo* first = nullptr;
    for (auto& [number, one] : experiments) {
      for (auto& [name, trial] : one.trials) {
        if (trial.state() == "ACTIVE" && (trial.started_ms() != 0) == started &&
            (first == nullptr || trial.id() < first->id()))
          first = &trial;
      }
    }
    return first;
  }
  int64_t open_trials() {
    int64_t count = 0;
    for (auto& [number, one] : experiments) {
      for (auto& [name, trial] : one.trials) count += trial.state() == "ACTIVE";
    }
    return count;
  }

  std::map<int64_t, Experiment> experiments;
  std::map<std::string, v1::Job> jobs;
  std::map<std::string, protocol::KatibTrialProgram> programs;
  std::set<std::string> names;
  int64_t last_experiment = 0, last_trial = 0, last_job = 0;
};

// The core with a journal and a world. `crash_at`: the number of the commit or action before which the head ends.
class Harness {
 public:
  explicit Harness(std::optional<int> crash_at = std::nullopt, const KatibLimits& limits = {})
      : limits_(limits), crash_at_(crash_at) {
    restart();
  }

  void restart() {
    events_.clear();
    core_ = std::make_unique<KatibCore>(limits_, random_);
    for (const auto& [at, value] : rows_) EXPECT_TRUE(core_->load(at.first, at.second, value)) << at.first;
    core_->start(now);
    for (auto& [id, one] : world.experiments) tell(one);
    for (auto& [id, job] : world.jobs) core_->on_job(job, now);
    core_->on_heard(now);
    pump();
  }

  // Applies; a crash before its end means that the request is sent again.
  std::vector<v1::AppliedKatibResource> apply(const std::string& yaml, const ExperimentRequester& by = kAda) {
    auto applied = try_apply(yaml, by);
    EXPECT_TRUE(applied.has_value()) << (applied ? "" : applied.error().message);
    return applied.value_or(std::vector<v1::AppliedKatibResource>());
  }
  Result<std::vector<v1::AppliedKatibResource>> try_apply(const std::string& yaml, const ExperimentRequester& by = kAda,
                                                          KatibCore::Applying how = {}) {
    const ResourceReading reading = read_resources(yaml, "test.yaml");
    EXPECT_TRUE(reading.is_valid()) << reading.error().message;
    auto applied = core_->apply(reading.resources, how, by, now);
    pump();
    return applied;
  }
  Result<v1::KatibResource> remove(const std::string& kind, const std::string& name,
                                   const ExperimentRequester& by = kAda) {
    v1::DeleteKatibResourceRequest request;
    request.set_kind(kind);
    request.set_name(name);
    auto gone = core_->remove(request, by, now);
    pump();
    return gone;
  }

  // One trial starts, or ends with the objective; returns false if nothing is left to do.
  bool step() {
    ++now;
    if (v1::TrialInfo* trial = world.open_trial(false)) {
      trial->set_started_ms(now);
      tell_trial(*trial);
    } else if (v1::TrialInfo* running = world.open_trial(true)) {
      finish(*running);
    } else if (const auto deadline = core_->deadline_ms()) {
      now = std::max(now, *deadline);
      core_->on_tick(now);
    } else {
      return false;
    }
    pump();
    return true;
  }
  void run_to_end() {
    for (int i = 0; i < 10'000; ++i) {
      if (!step()) return;
    }
    ADD_FAILURE() << "it does not end";
  }
  void finish(v1::TrialInfo& trial) {
    if (fate) {
      fate(trial);
    } else {
      const double rate = json::parse(trial.hparams()).at("lr").get<double>();
      report(trial, rate, rate / 2, rate);
    }
    trial.set_ended_ms(now);
    if (trial.state() == "ACTIVE") trial.set_state("COMPLETED");
    tell_trial(trial);
  }
  static void report(v1::TrialInfo& trial, double latest, double min, double max) {
    const auto text = [](double value) { return json(value).dump(); };
    trial.set_metrics(json{
        {"accuracy", max},
        {"observation", {{{"name", "accuracy"}, {"min", text(min)}, {"max", text(max)}, {"latest", text(latest)}}}}}
                          .dump());
  }
  void tell_trial(const v1::TrialInfo& trial) {
    core_->on_experiment(world.experiments.at(trial.experiment()).info, {trial}, now);
  }
  void tell(const World::Experiment& one) {
    std::vector<v1::TrialInfo> trials;
    for (const auto& [name, trial] : one.trials) trials.push_back(trial);
    core_->on_experiment(one.info, trials, now);
  }
  void end_job(const std::string& id, const std::string& state) {
    world.jobs.at(id).set_state(state);
    world.jobs.at(id).set_ended_ms(now);
    core_->on_job(world.jobs.at(id), now);
    pump();
  }

  json object(const std::string& kind, const std::string& name) {
    v1::ListKatibResourcesRequest request;
    request.set_kind(kind);
    request.set_name(name);
    const auto found = core_->list(request);
    EXPECT_TRUE(found && found->resources_size() == 1) << kind << " " << name;
    return found && found->resources_size() == 1 ? json::parse(found->resources(0).object()) : json::object();
  }
  json status(const std::string& name = "random") { return object("Experiment", name).value("status", json::object()); }
  std::vector<std::string> conditions(const json& of) {
    std::vector<std::string> all;
    for (const json& one : of.at("conditions"))
      all.push_back(one.at("type").get<std::string>() + "=" + one.at("status").get<std::string>());
    return all;
  }
  std::string reason(const json& of) { return of.at("conditions").back().at("reason"); }

  // Executes what the core asks for, with everything that follows from it.
  void pump() {
    while (true) {
      KatibActions todo = core_->take();
      if (!todo.rows.empty()) {
        count();
        for (ExperimentRow& row : todo.rows) {
          if (row.value) {
            rows_[{row.table, row.key}] = *row.value;
          } else {
            rows_.erase({row.table, row.key});
          }
        }
      }
      core_->check_invariants();
      for (const auto& one : todo.create) {
        count();
        creates.push_back(one);
        const auto made = refuse_creation ? Result<v1::ExperimentInfo>(make_error(*refuse_creation))
                                          : Result<v1::ExperimentInfo>(world.create(one));
        events_.push_back([this, one, made] { core_->on_created(one.of, one.uid, made, now); });
      }
      for (const auto& one : todo.ask) {
        count();
        asks.push_back(one);
        const auto reply = suggest(one);
        events_.push_back([this, one, reply] { core_->on_suggestions(one.of, one.uid, reply, now); });
      }
      for (const auto& one : todo.run) {
        count();
        world.run(one);
        tell_later(one.experiment);
        events_.push_back([this, one] { core_->on_run(one.of, one.uid, {}, now); });
      }
      for (const auto& one : todo.end) {
        count();
        world.end(one);
        tell_later(one.experiment);
      }
      for (const int64_t trial : todo.kill_trials) {
        count();
        world.kill_trial(trial);
        for (const auto& [id, one] : world.experiments) tell_later(id);
      }
      for (const auto& [id, command] : todo.change) {
        count();
        world.change(id, command);
        tell_later(id);
      }
      for (const auto& one : todo.submit) {
        count();
        const v1::Job job = world.submit(one);
        events_.push_back([this, one, job] { core_->on_submitted(one.of, one.uid, job, now); });
      }
      for (const std::string& job : todo.stop_jobs) {
        count();
        world.jobs.at(job).set_state("stopped");
        events_.push_back([this, job] { core_->on_job(world.jobs.at(job), now); });
      }
      ended.insert(ended.end(), todo.ended.begin(), todo.ended.end());
      for (const std::string& job : todo.delete_jobs) {
        count();
        world.jobs.erase(job);
      }
      if (events_.empty()) return;
      const auto event = std::move(events_.front());
      events_.pop_front();
      event();
    }
  }

  KatibCore& core() { return *core_; }
  int counted() const { return counted_; }
  size_t rows() const { return rows_.size(); }

  World world;
  int64_t now = 1'000'000;
  std::function<void(v1::TrialInfo& trial)> fate;                  // How a trial ends.
  std::function<Result<int>(const KatibActions::Ask& ask)> gives;  // How many trials it suggests.
  std::optional<Error> refuse_creation;
  std::vector<ResourceKey> ended;
  std::vector<KatibActions::Create> creates;
  std::vector<KatibActions::Ask> asks;

 private:
  void count() {
    if (crash_at_ && counted_ == *crash_at_) {
      crash_at_.reset();
      throw Crash();
    }
    ++counted_;
  }
  void tell_later(int64_t id) {
    events_.push_back([this, id] {
      const auto found = world.experiments.find(id);
      if (found == world.experiments.end()) return core_->on_experiment_gone(id, now);
      tell(found->second);
    });
  }
  Result<api::v1::beta1::GetSuggestionsReply> suggest(const KatibActions::Ask& ask) {
    Result<int> number = gives ? gives(ask) : Result<int>(ask.request.current_request_number());
    if (!number) return make_error(number.error());
    api::v1::beta1::GetSuggestionsReply reply;
    for (int i = 0; i < *number; ++i) {
      auto& one = *reply.add_parameter_assignments()->add_assignments();
      one.set_name("lr");
      one.set_value(json(0.01 * (ask.request.trials_size() + i + 1)).dump());
    }
    return reply;
  }

  const KatibLimits limits_;
  std::optional<int> crash_at_;
  int counted_ = 0;
  SeededRandom random_{7};
  std::map<std::pair<std::string, std::string>, std::string> rows_;
  std::deque<std::function<void()>> events_;
  std::unique_ptr<KatibCore> core_;
};

// ---- conditions ----

TEST(Conditions, AnEndTakesRunningWithIt) {
  ConditionList list;
  set_condition(list, "Created", true, "C", "created", 1);
  set_condition(list, "Running", true, "R", "running", 2);
  EXPECT_FALSE(set_condition(list, "Running", true, "R", "running", 3));
  set_end(list, "Succeeded", "S", "done", 4);
  ASSERT_EQ(list.size(), 3);
  EXPECT_EQ(list[1].type() + list[1].status() + list[1].message(), "RunningFalserunning");
  EXPECT_EQ(list[1].changed_ms(), 4);
  EXPECT_EQ(list[2].type() + list[2].status(), "SucceededTrue");
  EXPECT_TRUE(has_condition(list, "Created"));
  EXPECT_FALSE(has_condition(list, "Running"));
}

TEST(Conditions, TheTimeOfAChangeStaysWithTheStatus) {
  ConditionList list;
  set_condition(list, "Running", true, "R", "a", 2);
  EXPECT_TRUE(set_condition(list, "Running", true, "R", "b", 5));
  EXPECT_EQ(list[0].changed_ms(), 2);
  EXPECT_EQ(list[0].updated_ms(), 5);
}

ExperimentSpec spec_of(std::optional<int64_t> most, int64_t parallel, std::optional<int64_t> failed = std::nullopt) {
  ExperimentSpec spec;
  spec.objective = {
      .maximize = true, .goal = std::nullopt, .metric = "accuracy", .additional_metrics = {}, .strategies = {}};
  spec.max_trials = most;
  spec.parallel_trials = parallel;
  spec.max_failed_trials = failed;
  return spec;
}

TrialCounts counts(std::vector<std::pair<TrialCondition, int64_t>> all) {
  TrialCounts out;
  for (const auto& [condition, number] : all) out.by_condition[static_cast<size_t>(condition)] = number;
  return out;
}

TEST(Counts, AsManyAsAreLeftRunAtOnce) {
  using enum TrialCondition;
  EXPECT_EQ(wanted_trials(spec_of(12, 3), {}), 3);
  EXPECT_EQ(wanted_trials(spec_of(12, 3), counts({{kSucceeded, 10}, {kRunning, 1}})), 2);
  EXPECT_EQ(wanted_trials(spec_of(12, 3), counts({{kSucceeded, 5}, {kMetricsUnavailable, 6}})), 1);
  EXPECT_EQ(wanted_trials(spec_of(12, 3), counts({{kSucceeded, 5}, {kKilled, 5}, {kEarlyStopped, 5}})), 0);
  EXPECT_EQ(wanted_trials(spec_of(std::nullopt, 3), counts({{kSucceeded, 500}})), 3);
}

TEST(Counts, EndsAreJudgedInTheirOrder) {
  using enum TrialCondition;
  ExperimentSpec spec = spec_of(4, 2, 2);
  const auto reason = [&](const TrialCounts& have, std::optional<double> best, bool exhausted = false) {
    const auto end = end_of(spec, have, best, exhausted);
    return end ? std::string(end->reason) : "";
  };
  EXPECT_EQ(reason({}, std::nullopt), "");
  EXPECT_EQ(reason(counts({{kSucceeded, 3}}), 0.5), "");
  EXPECT_EQ(reason(counts({{kSucceeded, 4}}), 0.5), "ExperimentMaxTrialsReached");
  EXPECT_EQ(reason(counts({{kSucceeded, 1}, {kFailed, 1}, {kKilled, 1}, {kEarlyStopped, 1}}), 0.5),
            "ExperimentMaxTrialsReached");
  EXPECT_EQ(reason(counts({{kSucceeded, 2}, {kFailed, 1}, {kMetricsUnavailable, 1}}), 0.5), "ExperimentFailed");
  EXPECT_EQ(reason(counts({{kFailed, 2}}), std::nullopt), "ExperimentFailed");
  EXPECT_EQ(reason(counts({{kSucceeded, 1}, {kRunning, 1}}), 0.5, true), "");
  EXPECT_EQ(reason(counts({{kSucceeded, 1}}), 0.5, true), "ExperimentSuggestionEndReached");
  spec.objective.goal = 0.9;
  EXPECT_EQ(reason(counts({{kFailed, 2}, {kSucceeded, 2}}), 0.9), "ExperimentGoalReached");
  EXPECT_EQ(reason(counts({{kSucceeded, 1}}), 0.89), "");
  spec.objective.maximize = false;
  EXPECT_EQ(reason(counts({{kSucceeded, 1}}), 0.89), "ExperimentGoalReached");
  EXPECT_EQ(reason(counts({{kSucceeded, 1}}), 0.91), "");
  // A maximum of 0 failed trials: the first one ends it, none does not.
  spec = spec_of(4, 2, 0);
  EXPECT_EQ(reason(counts({{kSucceeded, 1}}), 0.5), "");
  EXPECT_EQ(reason(counts({{kFailed, 1}}), std::nullopt), "ExperimentFailed");
}

TEST(Counts, AMetricCountsByItsStrategy) {
  protocol::KatibMetric metric;
  metric.set_min("0.1");
  metric.set_max("0.9");
  metric.set_latest("unavailable");
  EXPECT_EQ(value_of(metric, MetricStrategy::kMin), 0.1);
  EXPECT_EQ(value_of(metric, MetricStrategy::kMax), 0.9);
  EXPECT_EQ(value_of(metric, MetricStrategy::kLatest), std::nullopt);
  metric.set_max("nan");
  EXPECT_EQ(value_of(metric, MetricStrategy::kMax), std::nullopt);
}

// ---- experiments ----

TEST(KatibCore, AnExperimentReachesItsMaximum) {
  Harness harness;
  EXPECT_EQ(harness.apply(yaml_of({}))[0].action(), "created");
  EXPECT_EQ(harness.world.open_trials(), 3);
  EXPECT_THAT(harness.conditions(harness.status()), ElementsAre("Created=True", "Running=True"));
  EXPECT_EQ(harness.status().at("trialsPending"), 3);
  harness.run_to_end();
  const json status = harness.status();
  EXPECT_THAT(harness.conditions(status), ElementsAre("Created=True", "Running=False", "Succeeded=True"));
  EXPECT_EQ(harness.reason(status), "ExperimentMaxTrialsReached");
  EXPECT_EQ(status.at("trials"), 12);
  EXPECT_EQ(status.at("trialsSucceeded"), 12);
  EXPECT_EQ(status.at("currentOptimalTrial").at("parameterAssignments")[0].at("value"), "0.12");
  EXPECT_EQ(status.at("currentOptimalTrial").at("observation").at("metrics")[0].at("max"), "0.12");
  EXPECT_EQ(harness.world.experiments.at(1).info.state(), "COMPLETED");
  EXPECT_EQ(harness.world.names.size(), 12u);
  for (const std::string& name : harness.world.names) EXPECT_THAT(name, testing::MatchesRegex("random-[a-z0-9]{8}"));
  const json suggestion = harness.object("Suggestion", "random");
  EXPECT_EQ(suggestion.at("status").at("suggestionCount"), 12);
  EXPECT_EQ(suggestion.at("spec").at("requests"), 12);
}

TEST(KatibCore, ATrialRunsTheCommandOfItsTemplate) {
  Harness harness;
  harness.apply(yaml_of({.parallel = 1}));
  const auto& program = harness.world.programs.begin()->second;
  EXPECT_THAT(program.job().command(), ElementsAre("train", "--lr=0.01"));
  EXPECT_EQ(program.hparams(), R"({"lr":0.01})");
  const json collection = json::parse(program.collection());
  EXPECT_THAT(collection.dump(), HasSubstr(program.name()));
  EXPECT_EQ(json::parse(harness.creates.at(0).request.config()).at("searcher"),
            (json{{"name", "custom"}, {"metric", "accuracy"}, {"smaller_is_better", false}}));
}

TEST(KatibCore, TheGoalEndsItAndKillsTheRest) {
  Harness harness;
  harness.apply(yaml_of({.goal = "0.05"}));
  harness.run_to_end();
  const json status = harness.status();
  EXPECT_EQ(harness.reason(status), "ExperimentGoalReached");
  EXPECT_EQ(status.at("trialsSucceeded"), 5);
  EXPECT_EQ(status.at("trialsKilled"), 2);
  EXPECT_EQ(harness.world.open_trials(), 0);
}

TEST(KatibCore, TooManyFailedTrialsFailIt) {
  Harness harness;
  harness.fate = [](v1::TrialInfo& trial) {
    trial.set_state("ERROR");
    trial.set_reason("its command ended with exit code 3");
  };
  harness.apply(yaml_of({.failed = 2}));
  harness.run_to_end();
  const json status = harness.status();
  EXPECT_THAT(harness.conditions(status), ElementsAre("Created=True", "Running=False", "Failed=True"));
  EXPECT_EQ(status.at("conditions").back().at("message"), "Experiment has failed because max failed count has reached");
  EXPECT_EQ(status.at("trialsFailed"), 2);
  EXPECT_EQ(harness.world.experiments.at(1).info.state(), "ERROR");
  const json trial = harness.object("Trial", status.at("failedTrialList")[0]);
  EXPECT_EQ(harness.reason(trial.at("status")), "TrialFailed. Job reason: BackoffLimitExceeded");
  EXPECT_EQ(trial.at("status").at("conditions").back().at("message"),
            "Trial has failed. Job message: Job has reached the specified backoff limit");
}

TEST(KatibCore, TrialsEndInEachWay) {
  Harness harness;
  int number = 0;
  harness.fate = [&number](v1::TrialInfo& trial) {
    switch (number++) {
      case 0:
        trial.set_why(R"(["trial.early_stopped"])");
        return Harness::report(trial, 0.2, 0.1, 0.3);
      case 1:
        trial.set_why(R"(["trial.metrics_unavailable","accuracy"])");
        return;
      case 2:  // It succeeded without a report.
        return;
      case 3:
        trial.set_state("CANCELED");
        return;
      default:
        return Harness::report(trial, 0.2, 0.1, 0.25);
    }
  };
  harness.apply(yaml_of({.most = 5}));
  harness.run_to_end();
  const json status = harness.status();
  EXPECT_EQ(harness.reason(status), "ExperimentMaxTrialsReached");
  EXPECT_EQ(status.at("trialsEarlyStopped"), 1);
  EXPECT_EQ(status.at("trialMetricsUnavailable"), 2);
  EXPECT_EQ(status.at("trialsKilled"), 1);
  EXPECT_EQ(status.at("trialsSucceeded"), 1);
  // The observation of a trial that was stopped early counts.
  EXPECT_EQ(status.at("currentOptimalTrial").at("bestTrialName"), status.at("earlyStoppedTrialList")[0]);
  const json trial = harness.object("Trial", status.at("metricsUnavailableTrialList")[0]);
  EXPECT_EQ(trial.at("status").at("observation").at("metrics")[0].at("latest"), "unavailable");
  EXPECT_EQ(trial.at("metadata").at("labels").at("katib.kubeflow.org/experiment"), "random");
}

TEST(KatibCore, TheBestTrialCountsByTheStrategy) {
  Harness harness;
  double value = 0;
  harness.fate = [&value](v1::TrialInfo& trial) {
    value += 0.1;
    Harness::report(trial, 1 - value, 0, value);
  };
  harness.apply(yaml_of({.parallel = 1, .most = 3, .strategy = "latest"}));
  harness.run_to_end();
  const json status = harness.status();
  EXPECT_EQ(status.at("currentOptimalTrial").at("bestTrialName"), status.at("succeededTrialList")[0]);
}

TEST(KatibCore, AnAlgorithmThatHasNoMoreEndsIt) {
  Harness harness;
  harness.gives = [](const KatibActions::Ask& ask) {
    return std::min(ask.request.current_request_number(), 4 - ask.request.trials_size());
  };
  harness.apply(yaml_of({}));
  harness.run_to_end();
  const json status = harness.status();
  EXPECT_EQ(harness.reason(status), "ExperimentSuggestionEndReached");
  EXPECT_EQ(status.at("trialsSucceeded"), 4);
}

TEST(KatibCore, FewerTrialsThanAskedAreNoEnd) {
  Harness harness;  // One trial at a time, which waits for the end of the one before.
  harness.gives = [](const KatibActions::Ask& ask) {
    for (const auto& trial : ask.request.trials()) {
      if (trial.status().condition() < api::v1::beta1::TrialStatus::SUCCEEDED) return 0;
    }
    return 1;
  };
  harness.apply(yaml_of({.most = 4}));
  EXPECT_EQ(harness.world.open_trials(), 1);
  EXPECT_EQ(harness.asks.size(), 1u);
  harness.run_to_end();
  EXPECT_EQ(harness.reason(harness.status()), "ExperimentMaxTrialsReached");
}

TEST(KatibCore, WhatAnAlgorithmRefusesFailsTheExperiment) {
  Harness harness;
  harness.gives = [](const KatibActions::Ask&) { return make_error(ErrorCode::kInvalidArgument, "no such space"); };
  harness.apply(yaml_of({}));
  const json status = harness.status();
  EXPECT_EQ(status.at("conditions").back().at("message"),
            "Experiment has failed because suggestion has failed: no such space");
  EXPECT_EQ(harness.object("Suggestion", "random").at("status").at("conditions").back().at("reason"),
            "SuggestionSucceeded");
}

TEST(KatibCore, AnAlgorithmThatIsAwayIsAskedAgain) {
  Harness harness;
  int asked = 0;
  harness.gives = [&asked](const KatibActions::Ask& ask) -> Result<int> {
    if (++asked <= 2) return make_error(ErrorCode::kUnavailable, "it starts");
    return ask.request.current_request_number();
  };
  harness.apply(yaml_of({.most = 3}));
  EXPECT_EQ(harness.world.open_trials(), 0);
  harness.run_to_end();
  EXPECT_EQ(harness.reason(harness.status()), "ExperimentMaxTrialsReached");
  EXPECT_EQ(asked, 3);
}

TEST(KatibCore, ServicesGetAllTrials) {
  Harness harness;
  harness.apply(yaml_of({.parallel = 2, .most = 4}));
  harness.step();
  harness.step();
  harness.step();  // The first has ended.
  const auto& request = harness.asks.back().request;
  ASSERT_EQ(request.trials_size(), 2);
  EXPECT_EQ(request.current_request_number(), 1);
  EXPECT_EQ(request.total_request_number(), 3);
  const auto& trial = request.trials(0);
  EXPECT_EQ(trial.status().condition(), api::v1::beta1::TrialStatus::SUCCEEDED);
  EXPECT_EQ(trial.status().observation().metrics(0).value(), "0.01");
  EXPECT_EQ(trial.spec().parameter_assignments().assignments(0).name(), "lr");
}

TEST(KatibCore, CountsCanBeEdited) {
  Harness harness;
  harness.apply(yaml_of({.parallel = 3}));
  EXPECT_EQ(harness.apply(yaml_of({.parallel = 5}))[0].action(), "configured");
  EXPECT_EQ(harness.world.open_trials(), 5);
  harness.apply(yaml_of({.parallel = 2}));
  EXPECT_EQ(harness.world.open_trials(), 2);
  EXPECT_EQ(harness.status().at("trials"), 2);
  EXPECT_EQ(harness.apply(yaml_of({.parallel = 2}))[0].action(), "unchanged");
  harness.apply(yaml_of({.parallel = 2, .most = 3}));
  harness.run_to_end();
  const json status = harness.status();
  EXPECT_EQ(status.at("trialsSucceeded"), 3);
  EXPECT_FALSE(status.contains("trialsKilled"));
}

TEST(KatibCore, OnlyWhatReachedItsMaximumIsRestarted) {
  Harness harness;
  harness.apply(yaml_of({.parallel = 2, .most = 2, .resume = "Never"}));
  harness.run_to_end();
  const auto never = harness.try_apply(yaml_of({.parallel = 2, .most = 4, .resume = "Never"}));
  ASSERT_FALSE(never.has_value());
  EXPECT_THAT(never.error().message, HasSubstr("resumePolicy is LongRunning or FromVolume"));

  harness.apply(yaml_of({.name = "long", .parallel = 2, .most = 2, .resume = "LongRunning"}));
  harness.run_to_end();
  EXPECT_FALSE(harness.try_apply(yaml_of({.name = "long", .parallel = 1, .most = 2, .resume = "LongRunning"})));
  const json before = harness.status("long").at("succeededTrialList");
  harness.apply(yaml_of({.name = "long", .parallel = 2, .most = 5, .resume = "LongRunning"}));
  EXPECT_THAT(harness.conditions(harness.status("long")), ElementsAre("Created=True", "Running=True"));
  harness.run_to_end();
  const json status = harness.status("long");
  EXPECT_EQ(status.at("trialsSucceeded"), 5);
  EXPECT_EQ(status.at("succeededTrialList")[0], before[0]);
  EXPECT_EQ(harness.world.experiments.size(), 3u);

  harness.apply(yaml_of({.name = "goal", .most = 9, .goal = "0.01", .resume = "LongRunning"}));
  harness.run_to_end();
  EXPECT_FALSE(harness.try_apply(yaml_of({.name = "goal", .most = 20, .goal = "0.01", .resume = "LongRunning"})));
}

TEST(KatibCore, AnExperimentThatIsKilledByItselfFails) {
  Harness harness;
  harness.apply(yaml_of({}));
  harness.world.change(1, "kill");
  harness.tell(harness.world.experiments.at(1));
  harness.pump();
  EXPECT_EQ(harness.reason(harness.status()), "ExperimentFailed");
  EXPECT_EQ(harness.status().at("trialsKilled"), 3);
}

TEST(KatibCore, WhatCannotBeCreatedYetIsTriedAgain) {
  Harness harness;
  harness.refuse_creation = Error{ErrorCode::kUnavailable, "too many"};
  harness.apply(yaml_of({.parallel = 1, .most = 1}));
  EXPECT_TRUE(harness.world.experiments.empty());
  harness.refuse_creation.reset();
  harness.run_to_end();
  EXPECT_EQ(harness.reason(harness.status()), "ExperimentMaxTrialsReached");
  harness.refuse_creation = Error{ErrorCode::kInvalidArgument, "a bad name"};
  harness.apply(yaml_of({.name = "bad"}));
  EXPECT_THAT(harness.status("bad").at("conditions").back().at("message").get<std::string>(), HasSubstr("a bad name"));
}

TEST(KatibCore, DeletionEndsWhatRuns) {
  Harness harness;
  harness.apply(yaml_of({}) + "---\n" + kJobYaml);
  ASSERT_EQ(harness.world.jobs.size(), 1u);
  EXPECT_FALSE(harness.remove("experiments", "other"));
  EXPECT_FALSE(harness.remove("Suggestion", "random"));
  EXPECT_TRUE(harness.remove("experiments", "random"));
  EXPECT_TRUE(harness.world.experiments.empty());
  EXPECT_TRUE(harness.remove("job", "hello"));
  EXPECT_TRUE(harness.world.jobs.empty());
  EXPECT_EQ(harness.rows(), 0u);
}

TEST(KatibCore, ADeletedTrialIsKilled) {
  Harness harness;
  harness.apply(yaml_of({}));
  const std::string name = harness.status().at("pendingTrialList")[1];
  EXPECT_TRUE(harness.remove("trial", name));
  EXPECT_THAT(harness.status().at("killedTrialList"), testing::ElementsAre(name));
  EXPECT_EQ(harness.world.open_trials(), 3);
}

TEST(KatibCore, OnlyOwnersAndOperatorsChangeResources) {
  Harness harness;
  harness.apply(yaml_of({}));
  EXPECT_EQ(harness.try_apply(yaml_of({.parallel = 1}), kBob).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(harness.remove("Experiment", "random", kBob).error().code, ErrorCode::kPermissionDenied);
  EXPECT_TRUE(harness.try_apply(yaml_of({.parallel = 1}), kRoot));
  EXPECT_EQ(harness.creates.at(0).as.user, "ada");
  EXPECT_TRUE(harness.remove("Experiment", "random", kRoot));
}

TEST(KatibCore, AllResourcesOrNone) {
  Harness harness;
  harness.apply(yaml_of({}));
  EXPECT_FALSE(harness.try_apply(kJobYaml + "---\n" + yaml_of({.parallel = 1}), kBob));
  EXPECT_TRUE(harness.world.jobs.empty());
  EXPECT_TRUE(harness.try_apply(kJobYaml, kBob, {.files_sha256 = {}, .dry_run = true, .create_only = false}));
  EXPECT_TRUE(harness.world.jobs.empty());
  EXPECT_FALSE(harness.try_apply(yaml_of({}), kAda, {.files_sha256 = {}, .dry_run = false, .create_only = true}));
}

TEST(KatibCore, AWatchHearsOfChangesAndDeletions) {
  Harness harness;
  v1::WatchKatibResourcesRequest watch;
  watch.mutable_selection()->set_kind("experiment");
  auto seen = *harness.core().changes(watch);
  ASSERT_TRUE(seen && seen->resources_size() == 0);
  watch.set_after(seen->version());
  EXPECT_FALSE(*harness.core().changes(watch));
  harness.apply(yaml_of({}));
  seen = *harness.core().changes(watch);
  ASSERT_TRUE(seen && seen->resources_size() == 1);
  watch.set_after(seen->version());
  EXPECT_FALSE(*harness.core().changes(watch));
  harness.step();
  seen = *harness.core().changes(watch);
  ASSERT_TRUE(seen && seen->resources_size() == 1);
  watch.set_after(seen->version());
  harness.remove("Experiment", "random");
  seen = *harness.core().changes(watch);
  ASSERT_TRUE(seen && seen->resources_size() == 1);
  EXPECT_TRUE(seen->resources(0).deleted());
  watch.set_after(seen->version() + 1);  // A version of another store.
  EXPECT_TRUE(*harness.core().changes(watch));
  watch.mutable_selection()->set_kind("moon");
  EXPECT_FALSE(harness.core().changes(watch));
}

TEST(KatibCore, AWatchFromBeforeARestartGetsAllThatIsThere) {
  Harness harness;
  harness.apply(yaml_of({}));
  harness.apply(yaml_of({.name = "other"}));
  v1::WatchKatibResourcesRequest watch;
  watch.mutable_selection()->set_kind("experiment");
  auto seen = *harness.core().changes(watch);
  ASSERT_TRUE(seen && seen->resources_size() == 2 && seen->complete());
  watch.set_after(seen->version());
  harness.remove("Experiment", "other");
  ++harness.now;
  harness.restart();
  seen = *harness.core().changes(watch);
  ASSERT_TRUE(seen && seen->resources_size() == 1 && seen->complete());
  EXPECT_EQ(seen->resources(0).name(), "random");
  watch.set_after(seen->version());
  EXPECT_FALSE(*harness.core().changes(watch));
  // Also where nothing is left of the selection.
  watch.set_after(1);
  watch.mutable_selection()->set_name("other");
  seen = *harness.core().changes(watch);
  EXPECT_TRUE(seen && seen->resources().empty() && seen->complete());
}

TEST(KatibCore, AWatchThatIsFarBehindGetsAllThatIsThere) {
  Harness harness(std::nullopt, {.resources = 10, .deleted = 2});
  v1::WatchKatibResourcesRequest watch;
  watch.mutable_selection()->set_kind("job");
  watch.set_after((*harness.core().changes(watch))->version());
  harness.apply(kJobYaml);
  harness.remove("Job", "hello");
  EXPECT_FALSE((*harness.core().changes(watch))->complete());
  for (int i = 0; i < 2; ++i) {
    harness.apply(kJobYaml);
    harness.remove("Job", "hello");
  }
  EXPECT_TRUE((*harness.core().changes(watch))->complete());
}

TEST(KatibCore, JobsOfDeletedTrialsAreDeleted) {
  Harness harness;
  harness.apply(yaml_of({.parallel = 2, .most = 4}));
  int count = 0;
  harness.fate = [&](v1::TrialInfo& trial) {
    trial.set_job("job-" + std::to_string(100 + ++count));
    harness.world.jobs[trial.job()].set_id(trial.job());
    Harness::report(trial, 0.5, 0.5, 0.5);
  };
  while (count < 2) harness.step();
  EXPECT_EQ(harness.world.jobs.size(), 2u);
  // A trial that runs has a job too.
  v1::TrialInfo& running = *harness.world.open_trial(false);
  running.set_job("job-200");
  harness.world.jobs["job-200"].set_id("job-200");
  harness.remove("Experiment", "random");
  harness.run_to_end();
  EXPECT_TRUE(harness.world.jobs.empty());
}

TEST(KatibCore, ServicesEndByNamespaceAndName) {
  Harness harness;
  harness.apply(yaml_of({.parallel = 1, .most = 1}));
  harness.run_to_end();
  ASSERT_FALSE(harness.ended.empty());
  EXPECT_EQ(harness.ended.front(), (ResourceKey{"Experiment", "default", "random"}));
}

// ---- training jobs ----

TEST(KatibCore, ATrainingJobBecomesAJob) {
  Harness harness;
  harness.apply(kJobYaml);
  const v1::Job& job = harness.world.jobs.at("job-1");
  EXPECT_THAT(job.spec().command(), ElementsAre("echo", "hello"));
  EXPECT_EQ(job.spec().name(), "hello");
  harness.restart();
  harness.restart();
  EXPECT_EQ(harness.world.jobs.size(), 1u);
  harness.end_job("job-1", "succeeded");
  EXPECT_EQ(harness.object("Job", "hello").at("status").at("succeeded"), 1);
  harness.restart();
  EXPECT_EQ(harness.world.jobs.size(), 1u);
}

TEST(KatibCore, AFailedTrainingJobSaysWhy) {
  Harness harness;
  harness.apply(kJobYaml);
  harness.end_job("job-1", "failed");
  EXPECT_EQ(harness.reason(harness.object("Job", "hello").at("status")), "BackoffLimitExceeded");
}

TEST(KatibCore, ATrainingJobThatIsDeletedByItselfIsGone) {
  Harness harness;
  harness.apply(kJobYaml);
  harness.world.jobs.clear();
  harness.restart();
  EXPECT_TRUE(harness.world.jobs.empty());
  EXPECT_THAT(harness.object("Job", "hello").at("status").at("conditions").back().at("message").get<std::string>(),
              HasSubstr("not there"));
}

// ---- crashes ----

// A scenario that ends; `again` makes it idempotent after a crash.
using Scenario = std::function<void(Harness& harness)>;

// Runs the scenario with the head's end before each commit and action, and restarts. Returns the number of points.
int crash_everywhere(const Scenario& scenario, const std::function<void(Harness& harness)>& check) {
  Harness whole;
  scenario(whole);
  whole.run_to_end();
  check(whole);
  for (int at = 0; at < whole.counted(); ++at) {
    SCOPED_TRACE("crash at " + std::to_string(at));
    Harness harness(at);
    const auto go_on = [&](const auto& what) {
      try {
        what();
      } catch (const Crash&) {
        harness.restart();
        return false;
      }
      return true;
    };
    if (!go_on([&] { scenario(harness); })) scenario(harness);
    if (!go_on([&] { harness.run_to_end(); })) harness.run_to_end();
    check(harness);
    if (testing::Test::HasFailure()) break;
  }
  return whole.counted();
}

TEST(KatibCrashes, NoTrialIsCreatedTwice) {
  const int points = crash_everywhere([](Harness& harness) { harness.apply(yaml_of({.most = 6})); },
                                      [](Harness& harness) {
                                        const json status = harness.status();
                                        EXPECT_EQ(harness.reason(status), "ExperimentMaxTrialsReached");
                                        EXPECT_EQ(status.at("trialsSucceeded"), 6);
                                        EXPECT_EQ(harness.world.names.size(), 6u);
                                        EXPECT_EQ(harness.world.experiments.size(), 1u);
                                        EXPECT_EQ(harness.world.experiments.at(1).info.state(), "COMPLETED");
                                      });
  EXPECT_GT(points, 30);
}

TEST(KatibCrashes, AGoalKillsTheRest) {
  crash_everywhere([](Harness& harness) { harness.apply(yaml_of({.goal = "0.04"})); },
                   [](Harness& harness) {
                     EXPECT_EQ(harness.reason(harness.status()), "ExperimentGoalReached");
                     EXPECT_EQ(harness.world.open_trials(), 0);
                     EXPECT_NE(harness.world.experiments.at(1).info.state(), "ACTIVE");
                   });
}

TEST(KatibCrashes, ADeletedExperimentLeavesNothing) {
  crash_everywhere(
      [](Harness& harness) {
        v1::ListKatibResourcesRequest all;
        if (harness.world.last_experiment == 0) harness.apply(yaml_of({}) + "---\n" + kJobYaml);
        for (const char* kind : {"Experiment", "Job"}) {
          all.set_kind(kind);
          const auto found = harness.core().list(all);
          if (found && found->resources_size() > 0) harness.remove(kind, found->resources(0).name());
        }
      },
      [](Harness& harness) {
        EXPECT_TRUE(harness.world.experiments.empty());
        EXPECT_TRUE(harness.world.jobs.empty());
        EXPECT_EQ(harness.rows(), 0u);
      });
}

TEST(KatibCrashes, ARestartedExperimentGoesOn) {
  crash_everywhere(
      [](Harness& harness) {
        v1::ListKatibResourcesRequest all;
        all.set_kind("Experiment");
        const auto found = harness.core().list(all);
        const bool was_changed = found && found->resources_size() > 0 &&
                                 json::parse(found->resources(0).object()).at("spec").at("maxTrialCount").dump() == "4";
        if (!was_changed) {
          harness.apply(yaml_of({.parallel = 2, .most = 2, .resume = "LongRunning"}));
          harness.run_to_end();
        }
        harness.apply(yaml_of({.parallel = 2, .most = 4, .resume = "LongRunning"}));
      },
      [](Harness& harness) {
        const json status = harness.status();
        EXPECT_EQ(harness.reason(status), "ExperimentMaxTrialsReached");
        EXPECT_EQ(status.at("trialsSucceeded"), 4);
        EXPECT_EQ(harness.world.names.size(), 4u);
      });
}

TEST(KatibCrashes, FewerTrialsAtOnce) {
  crash_everywhere(
      [](Harness& harness) {
        harness.apply(yaml_of({.parallel = 4, .most = 4}));
        harness.apply(yaml_of({.parallel = 1, .most = 4}));
      },
      [](Harness& harness) {
        EXPECT_EQ(harness.status().at("trialsSucceeded"), 4);
        EXPECT_EQ(harness.world.open_trials(), 0);
      });
}

TEST(KatibCrashes, ATrainingJobRunsOnce) {
  crash_everywhere([](Harness& harness) { harness.apply(kJobYaml); },
                   [](Harness& harness) {
                     EXPECT_EQ(harness.world.last_job, 1);
                     EXPECT_EQ(harness.object("Job", "hello").at("metadata").at("name"), "hello");
                   });
}

}  // namespace
}  // namespace volador::experiments::katib
