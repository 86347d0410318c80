#include "experiments/katib/own_suggestions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "experiments/katib/algorithm_settings.h"
#include "experiments/katib/parameter_space.h"
#include "tests/experiments/katib/request_of.h"
#include "tests/how_many.h"

namespace volador::experiments::katib {
namespace {

using testing::HasSubstr;

double number_in(const Values& values, const std::string& name) { return std::stod(values.at(name)); }

// x and y in [-4, 6].
wire::Experiment plane_experiment(const std::string& algorithm,
                                  const std::vector<std::pair<std::string, std::string>>& settings = {}) {
  auto experiment = experiment_of(algorithm, settings);
  add_range(experiment, "x", wire::DOUBLE, "-4", "6");
  add_range(experiment, "y", wire::DOUBLE, "-4", "6");
  return experiment;
}
double sphere_loss(const Values& values) {
  return std::pow(number_in(values, "x"), 2) + std::pow(number_in(values, "y"), 2);
}

double best_loss(wire::Experiment experiment, int trials, int parallel,
                 const std::function<double(const Values&)>& loss) {
  SuggestionClient client(std::move(experiment));
  double best = INFINITY;
  while (client.size() < trials) {
    const int before = client.size();
    if (client.ask(parallel) <= 0) return NAN;
    for (int i = before; i < client.size(); ++i) best = std::min(best, loss(assigned_to(client.trial(i))));
    client.end_all(loss);
  }
  return best;
}

std::string suggestion_refusal(const wire::Experiment& experiment) {
  const auto checked = OwnSuggestions().validate(experiment);
  return checked ? "" : checked.error().message;
}

}  // namespace

// ---- Texts of values.

TEST(ParameterTexts, StepsAddAsDecimalNumbers) {
  auto experiment = experiment_of("grid");
  const auto step = [&](const char* min, const char* max, const char* by) {
    auto& spec = add_range(experiment, "lr", wire::DOUBLE, min, max, by);
    std::vector<std::string> out;
    const auto values = ParameterValues::create(spec);
    if (!values) return std::vector<std::string>{values.error().message};
    for (uint64_t i = 0; i < *values->count(); ++i) {
      out.push_back(values->value(i));
      EXPECT_EQ(values->index_of(out.back()), i);
      EXPECT_EQ(values->text_of(*values->drawn_of(out.back())), out.back());
    }
    return out;
  };
  EXPECT_THAT(step("0.01", "0.05", "0.01"), testing::ElementsAre("0.01", "0.02", "0.03", "0.04", "0.05"));
  EXPECT_THAT(step("0.1", "0.3", "0.1"), testing::ElementsAre("0.1", "0.2", "0.3"));
  EXPECT_THAT(step("-1", "1", "0.5"), testing::ElementsAre("-1", "-0.5", "0", "0.5", "1"));
  EXPECT_THAT(step("1e-3", "2.5e-3", "1e-3"), testing::ElementsAre("0.001", "0.002"));
  EXPECT_THAT(step("0", "100", "50"), testing::ElementsAre("0", "50", "100"));
  EXPECT_THAT(step("0.1234567890123456789", "0.33", "0.1"),
              testing::ElementsAre("0.123456789012346", "0.223456789012346", "0.323456789012346"));
}

TEST(ParameterTexts, EveryDrawnTextReadsBackAsTheSameValue) {
  for (const auto distribution : {wire::UNIFORM, wire::LOG_UNIFORM, wire::NORMAL, wire::LOG_NORMAL}) {
    auto experiment = experiment_of("random", {{"random_state", "3"}});
    add_range(experiment, "lr", wire::DOUBLE, "0.001", "1").mutable_feasible_space()->set_distribution(distribution);
    add_range(experiment, "rate", wire::DOUBLE, "0.01", "0.5", "0.01")
        .mutable_feasible_space()
        ->set_distribution(distribution);
    add_range(experiment, "layers", wire::INT, "1", "64").mutable_feasible_space()->set_distribution(distribution);
    add_range(experiment, "width", wire::INT, "16", "256", "16")
        .mutable_feasible_space()
        ->set_distribution(distribution);
    SuggestionClient client(experiment);
    ASSERT_EQ(client.ask(200), 200) << client.error;
    const auto space = ParameterSpace::create(experiment.spec().parameter_specs());
    std::set<std::string> widths;
    for (int i = 0; i < client.size(); ++i) {
      const Values values = assigned_to(client.trial(i));
      EXPECT_GE(number_in(values, "lr"), 0.001);
      EXPECT_LE(number_in(values, "lr"), 1);
      EXPECT_THAT(values.at("layers"), testing::Not(HasSubstr(".")));
      EXPECT_LE(values.at("rate").size(), 4u) << values.at("rate");
      EXPECT_EQ(std::stoi(values.at("width")) % 16, 0) << values.at("width");
      widths.insert(values.at("width"));
      const auto texts = space->texts_of(client.trial(i));
      for (size_t p = 0; p < texts->size(); ++p) {
        const auto drawn = space->parameters()[p].drawn_of((*texts)[p]);
        ASSERT_TRUE(drawn) << (*texts)[p];
        EXPECT_EQ(std::stod(space->parameters()[p].text_of(*drawn)), std::stod((*texts)[p]));
      }
    }
    EXPECT_GT(widths.size(), 5u);
  }
}

TEST(ParameterTexts, NormalDistributionsCentreOnTheMiddleOfTheRange) {
  auto experiment = experiment_of("random");
  add_range(experiment, "x", wire::DOUBLE, "10", "16").mutable_feasible_space()->set_distribution(wire::NORMAL);
  SuggestionClient client(experiment);
  ASSERT_EQ(client.ask(500), 500);
  double sum = 0, squares = 0;
  for (int i = 0; i < 500; ++i) {
    const double x = number_in(assigned_to(client.trial(i)), "x");
    sum += x;
    squares += (x - 13) * (x - 13);
  }
  EXPECT_NEAR(sum / 500, 13, 0.2);
  EXPECT_NEAR(std::sqrt(squares / 500), 1, 0.15);
}

// ---- Refusals.

TEST(AlgorithmSettings, EverySettingHasItsRange) {
  struct Case {
    std::string algorithm, setting, good, wrong, says;
  };
  const std::vector<Case> cases = {
      {"random", "random_state", "0", "-1", "an integer from 0"},
      {"tpe", "gamma", "0.25", "1", "(0, 1)"},
      {"tpe", "gamma", "0.99", "0", "(0, 1)"},
      {"tpe", "prior_weight", "0.5", "0", "above 0"},
      {"tpe", "n_EI_candidates", "1", "0", "an integer from 1"},
      {"tpe", "random_state", "7", "x", "an integer from 0"},
      {"multivariate-tpe", "n_startup_trials", "5", "0", "an integer from 1"},
      {"multivariate-tpe", "n_ei_candidates", "10", "1.5", "an integer from 1"},
      {"bayesianoptimization", "base_estimator", "GP", "SVM", "GP, RF, ET, GBRT"},
      {"bayesianoptimization", "n_initial_points", "10", "0", "an integer from 1"},
      {"bayesianoptimization", "acq_func", "LCB", "ei", "gp_hedge, LCB, EI, PI, EIps, PIps"},
      {"bayesianoptimization", "acq_optimizer", "lbfgs", "adam", "auto, sampling, lbfgs"},
      {"cmaes", "sigma", "0.1", "0", "above 0"},
      {"cmaes", "restart_strategy", "ipop", "always", "none, ipop, bipop"},
      {"sobol", "random_state", "1", "", "an integer from 0"},
      {"pbt", "n_population", "5", "4", "an integer from 5"},
      {"pbt", "truncation_threshold", "0.2", "1.1", "from 0 to 1"},
      {"pbt", "resample_probability", "1", "-0.1", "from 0 to 1"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(suggestion_refusal(plane_experiment(one.algorithm, {{one.setting, one.good}})), "")
        << one.algorithm << " " << one.setting;
    const std::string said = suggestion_refusal(plane_experiment(one.algorithm, {{one.setting, one.wrong}}));
    EXPECT_THAT(said, HasSubstr("setting " + one.setting + " of algorithm " + one.algorithm)) << one.wrong;
    EXPECT_THAT(said, HasSubstr(one.says));
  }
}

TEST(AlgorithmSettings, UnknownNamesAreRefusedWithTheNearest) {
  EXPECT_EQ(suggestion_refusal(plane_experiment("tpe", {{"gama", "0.5"}})),
            "unknown setting gama for algorithm tpe; did you mean gamma?; it has gamma, prior_weight, n_EI_candidates, "
            "random_state");
  EXPECT_EQ(suggestion_refusal(plane_experiment("grid", {{"seed", "1"}})),
            "unknown setting seed for algorithm grid; it has none");
  EXPECT_THAT(suggestion_refusal(plane_experiment("bayesianoptimisation")),
              HasSubstr("did you mean bayesianoptimization?"));
  EXPECT_THAT(suggestion_refusal(plane_experiment("random", {{"random_state", "1"}, {"random_state", "2"}})),
              HasSubstr("given twice"));
  for (const char* name : {"enas", "darts"}) {
    EXPECT_THAT(suggestion_refusal(plane_experiment(name)),
                HasSubstr("is not built in; register its service under this name in the setting katib.suggestions"));
  }
}

TEST(AlgorithmRules, ParametersMustSuitTheAlgorithm) {
  EXPECT_THAT(suggestion_refusal(plane_experiment("grid")),
              HasSubstr("parameter \"x\" is continuous; set feasibleSpace.step"));
  auto one = experiment_of("cmaes");
  add_range(one, "x", wire::DOUBLE, "0", "1");
  add_list(one, "opt", wire::CATEGORICAL, {"sgd", "adam"});
  EXPECT_THAT(suggestion_refusal(one), HasSubstr("at least 2 parameters of type double or int, got 1"));
  one.mutable_spec()->mutable_algorithm()->set_algorithm_name("sobol");
  EXPECT_THAT(suggestion_refusal(one), HasSubstr("parameter \"opt\" is categorical"));
  auto none = experiment_of("random");
  EXPECT_THAT(suggestion_refusal(none), HasSubstr("has no parameters"));
  auto no_objective = plane_experiment("random");
  no_objective.mutable_spec()->mutable_objective()->set_type(wire::UNKNOWN);
  EXPECT_THAT(suggestion_refusal(no_objective), HasSubstr("expected minimize or maximize"));

  auto grid = experiment_of("grid");
  add_range(grid, "layers", wire::INT, "1", "3");
  add_list(grid, "opt", wire::CATEGORICAL, {"sgd", "adam"});
  grid.mutable_spec()->set_max_trial_count(6);
  EXPECT_EQ(suggestion_refusal(grid), "");
  grid.mutable_spec()->set_max_trial_count(7);
  EXPECT_THAT(suggestion_refusal(grid), HasSubstr("maxTrialCount 7 is above the number of combinations, 6"));
}

TEST(AlgorithmRules, RangesMustMakeSense) {
  const auto range = [](const char* min, const char* max, const char* step, wire::ParameterType type = wire::DOUBLE,
                        wire::Distribution distribution = wire::UNIFORM) {
    auto experiment = experiment_of("random");
    add_range(experiment, "x", type, min, max, step).mutable_feasible_space()->set_distribution(distribution);
    return suggestion_refusal(experiment);
  };
  EXPECT_THAT(range("", "1", ""), HasSubstr("parameter \"x\": feasibleSpace.min: expected a number, got \"\""));
  EXPECT_THAT(range("0", "one", ""), HasSubstr("feasibleSpace.max: expected a number, got \"one\""));
  EXPECT_THAT(range("2", "1", ""), HasSubstr("min 2 is above max 1"));
  EXPECT_THAT(range("0", "1", "0"), HasSubstr("feasibleSpace.step: expected a number above 0"));
  EXPECT_THAT(range("0", "1.5", "", wire::INT), HasSubstr("feasibleSpace.max: expected an integer, got \"1.5\""));
  EXPECT_THAT(range("0", "1", "", wire::DOUBLE, wire::LOG_UNIFORM),
              HasSubstr("logUniform needs a number above 0, got 0"));
  EXPECT_THAT(range("-1", "1", "", wire::DOUBLE, wire::LOG_NORMAL), HasSubstr("logNormal needs a number above 0"));
  EXPECT_EQ(range("1", "1", ""), "");
  auto list = experiment_of("random");
  add_list(list, "x", wire::DISCRETE, {"1", "two"});
  EXPECT_THAT(suggestion_refusal(list), HasSubstr("a discrete parameter has numbers, got \"two\""));
  auto empty = experiment_of("random");
  add_list(empty, "x", wire::CATEGORICAL, {});
  EXPECT_THAT(suggestion_refusal(empty), HasSubstr("feasibleSpace.list: expected at least one value"));
}

// ---- Hyperband.

TEST(HyperbandPlan, BracketsAreThoseOfTheTable) {
  using Plan = std::vector<std::vector<HyperbandRung>>;
  EXPECT_EQ(hyperband_brackets(9, 3), (Plan{{{9, 1}, {3, 3}, {1, 9}}, {{5, 3}, {2, 9}}, {{3, 9}}}));
  EXPECT_EQ(hyperband_brackets(27, 3),
            (Plan{{{27, 1}, {9, 3}, {3, 9}, {1, 27}}, {{12, 3}, {4, 9}, {2, 27}}, {{6, 9}, {2, 27}}, {{4, 27}}}));
  EXPECT_EQ(hyperband_brackets(81, 3), (Plan{{{81, 1}, {27, 3}, {9, 9}, {3, 27}, {1, 81}},
                                             {{34, 3}, {12, 9}, {4, 27}, {2, 81}},
                                             {{15, 9}, {5, 27}, {2, 81}},
                                             {{8, 27}, {3, 81}},
                                             {{5, 81}}}));
}

TEST(HyperbandPlan, RungsFollowTheResultsAndTheEndIsAnEmptyReply) {
  auto experiment = plane_experiment("hyperband", {{"r_l", "9"}, {"resource_name", "epochs"}});
  add_range(experiment, "epochs", wire::INT, "1", "9");
  experiment.mutable_spec()->set_parallel_trial_count(9);
  SuggestionClient client(experiment);
  EXPECT_EQ(client.ask(4), 4) << client.error;  // Fewer than the rung has.
  EXPECT_EQ(client.ask(9), 5);
  EXPECT_EQ(client.ask(9), 0);  // The rung runs.
  client.end_all(sphere_loss);
  client.trial(2).mutable_status()->set_condition(wire::TrialStatus::FAILED);
  EXPECT_EQ(client.ask(9), 3);
  for (int i = 9; i < 12; ++i) EXPECT_EQ(assigned_to(client.trial(i)).at("epochs"), "3");
  std::vector<double> losses;
  for (int i = 0; i < 9; ++i) {
    if (i != 2) losses.push_back(sphere_loss(assigned_to(client.trial(i))));
  }
  std::sort(losses.begin(), losses.end());
  EXPECT_DOUBLE_EQ(sphere_loss(assigned_to(client.trial(9))), losses[0]);
  EXPECT_DOUBLE_EQ(sphere_loss(assigned_to(client.trial(11))), losses[2]);
  client.end_all(sphere_loss);
  EXPECT_EQ(client.ask(9), 1);
  EXPECT_EQ(assigned_to(client.trial(12)).at("epochs"), "9");
  client.end_all(sphere_loss);
  EXPECT_EQ(client.ask(9), 5);
  client.end_all(sphere_loss);
  EXPECT_EQ(client.ask(9), 2);
  client.end_all(sphere_loss);
  EXPECT_EQ(client.ask(9), 3);
  client.end_all(sphere_loss);
  EXPECT_EQ(client.ask(9), 0);
}

TEST(HyperbandPlan, SettingsAreChecked) {
  EXPECT_EQ(suggestion_refusal(plane_experiment("hyperband")), "r_l and resource_name must be set.");
  EXPECT_EQ(suggestion_refusal(plane_experiment("hyperband", {{"r_l", "9"}})), "r_l and resource_name must be set.");
  EXPECT_THAT(suggestion_refusal(plane_experiment("hyperband", {{"r_l", "9"}, {"resource_name", "epochs"}})),
              HasSubstr("\"epochs\" is not a parameter"));
  EXPECT_THAT(suggestion_refusal(plane_experiment("hyperband", {{"r_l", "9"}, {"resource_name", "x"}, {"eta", "1"}})),
              HasSubstr("above 1"));
  auto experiment = plane_experiment("hyperband", {{"r_l", "9"}, {"resource_name", "x"}});
  experiment.mutable_spec()->set_parallel_trial_count(8);
  EXPECT_EQ(suggestion_refusal(experiment), "parallelTrialCount must be not less than 9.");
}

// ---- Grid, Sobol.

TEST(GridSearch, EachCombinationComesOnceThenTheReplyIsEmpty) {
  auto experiment = experiment_of("grid");
  add_range(experiment, "lr", wire::DOUBLE, "0.01", "0.03", "0.01");
  add_list(experiment, "batch", wire::DISCRETE, {"32", "64"});
  SuggestionClient client(experiment);
  EXPECT_EQ(client.ask(4), 4);
  EXPECT_EQ(client.ask(4), 2);
  EXPECT_EQ(client.ask(4), 0);
  std::set<Values> seen;
  for (int i = 0; i < client.size(); ++i) seen.insert(assigned_to(client.trial(i)));
  EXPECT_EQ(seen.size(), 6u);
  EXPECT_EQ(assigned_to(client.trial(0)), (Values{{"lr", "0.01"}, {"batch", "32"}}));
  EXPECT_EQ(assigned_to(client.trial(1)), (Values{{"lr", "0.01"}, {"batch", "64"}}));
  EXPECT_TRUE(seen.contains({{"lr", "0.03"}, {"batch", "64"}}));
}

TEST(SobolSuggestions, ValuesAreThoseOfTheSequence) {
  auto experiment = experiment_of("sobol");
  add_range(experiment, "x", wire::DOUBLE, "0", "1");
  add_range(experiment, "y", wire::DOUBLE, "0", "8");
  SuggestionClient client(experiment);
  ASSERT_EQ(client.ask(3), 3);
  ASSERT_EQ(client.ask(1), 1);
  const std::vector<std::pair<double, double>> known = {{0, 0}, {0.5, 4}, {0.25, 6}, {0.75, 2}};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(number_in(assigned_to(client.trial(i)), "x"), known[static_cast<size_t>(i)].first);
    EXPECT_EQ(number_in(assigned_to(client.trial(i)), "y"), known[static_cast<size_t>(i)].second);
  }
}

// ---- What all of them promise.

TEST(Suggestions, NoCombinationRepeatsUntilAllWereSuggested) {
  for (const char* algorithm : {"random", "tpe", "multivariate-tpe", "bayesianoptimization"}) {
    auto experiment = experiment_of(algorithm);
    add_range(experiment, "layers", wire::INT, "1", "4");
    // The searchers see a continuous range here.
    add_range(experiment, "lr", wire::DOUBLE, "0.1", "0.3", "0.1")
        .mutable_feasible_space()
        ->set_distribution(wire::LOG_UNIFORM);
    add_list(experiment, "opt", wire::CATEGORICAL, {"sgd", "adam"});
    SuggestionClient client(experiment);
    std::set<Values> seen;
    while (client.size() < 24) {
      ASSERT_EQ(client.ask(4), 4) << algorithm << client.error;
      if (client.size() % 8 == 0)
        client.end_all([](const Values& values) { return number_in(values, "lr") * number_in(values, "layers"); });
    }
    for (int i = 0; i < client.size(); ++i) seen.insert(assigned_to(client.trial(i)));
    EXPECT_EQ(seen.size(), 24u) << algorithm;
    EXPECT_EQ(client.ask(2), 2) << algorithm;
  }
}

TEST(Suggestions, TheSameRequestGetsTheSameReply) {
  for (const std::string& algorithm : own_algorithms()) {
    auto experiment =
        experiment_of(algorithm, algorithm == "grid" ? std::vector<std::pair<std::string, std::string>>{}
                                 : algorithm == "hyperband"
                                     ? std::vector<std::pair<std::string, std::string>>{{"r_l", "9"},
                                                                                        {"resource_name", "b"},
                                                                                        {"random_state", "4"}}
                                     : std::vector<std::pair<std::string, std::string>>{{"random_state", "4"}});
    add_range(experiment, "a", wire::DOUBLE, "0", "1", algorithm == "grid" ? "0.1" : "");
    add_range(experiment, "b", wire::INT, "1", "9");
    SuggestionClient client(experiment);
    for (int round = 0; round < 4; ++round) {
      ASSERT_GE(client.ask(5), 0) << algorithm << client.error;
      client.end_all([](const Values& values) { return number_in(values, "a") + number_in(values, "b"); });
    }
    client.request().set_current_request_number(3);
    const auto first = OwnSuggestions().suggest(client.request()), again = OwnSuggestions().suggest(client.request());
    ASSERT_TRUE(first && again);
    EXPECT_EQ(first->DebugString(), again->DebugString()) << algorithm;
    // Three at once are the same as one after the other that runs meanwhile.
    if (algorithm == "hyperband" || algorithm == "pbt") continue;
    SuggestionClient other(experiment);
    other.request() = client.request();
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(other.ask(1), 1);
      Values expected;
      for (const auto& one : first->parameter_assignments(i).assignments()) expected[one.name()] = one.value();
      EXPECT_EQ(assigned_to(other.trial(other.size() - 1)), expected) << algorithm;
    }
  }
}

TEST(Suggestions, RandomStateDecides) {
  const auto first = [](const char* state) {
    SuggestionClient client(plane_experiment("random", {{"random_state", state}}));
    client.ask(1);
    return assigned_to(client.trial(0));
  };
  EXPECT_EQ(first("1"), first("1"));
  EXPECT_NE(first("1"), first("2"));
}

TEST(Suggestions, TrialsWithoutAValueDoNotStopASearch) {
  for (const char* algorithm : {"tpe", "bayesianoptimization", "cmaes"}) {
    SuggestionClient client(plane_experiment(algorithm));
    for (int round = 0; round < 8; ++round) {
      ASSERT_GT(client.ask(3), 0) << algorithm;
      const int last = client.size() - 1;
      if (round % 3 == 0) client.trial(last).mutable_status()->set_condition(wire::TrialStatus::FAILED);
      if (round % 3 == 1) client.trial(last).mutable_status()->set_condition(wire::TrialStatus::KILLED);
      if (round % 3 == 2) client.end(last, NAN, wire::TrialStatus::METRICSUNAVAILABLE);
      client.end_all(sphere_loss);
    }
  }
}

TEST(CmaesSuggestions, ItFindsTheMinimumOfTheSphere) {
  EXPECT_LT(best_loss(plane_experiment("cmaes", {{"random_state", "1"}}), 240, 6, sphere_loss), 1e-3);
}

TEST(CmaesSuggestions, NoMoreThanAGenerationRuns) {
  SuggestionClient client(plane_experiment("cmaes"));
  EXPECT_EQ(client.ask(20), 6);  // 4 + 3 ln 2.
  EXPECT_EQ(client.ask(20), 0);
  client.end(0, 1);
  EXPECT_EQ(client.ask(20), 1);
}

TEST(BayesianOptimization, ItBeatsRandomSearch) {
  const std::vector<std::pair<const char*, std::function<double(const Values&)>>> functions = {
      {"sphere_loss", sphere_loss},
      {"Rosenbrock",
       [](const Values& v) {
         const double x = number_in(v, "x") / 2, y = number_in(v, "y") / 2;
         return 100 * std::pow(y - x * x, 2) + std::pow(1 - x, 2);
       }},
      {"Branin",
       [](const Values& v) {
         const double x = number_in(v, "x") * 1.5 + 1, y = number_in(v, "y") * 1.5 + 6;
         return std::pow(y - 5.1 / (4 * M_PI * M_PI) * x * x + 5 / M_PI * x - 6, 2) +
                10 * (1 - 1 / (8 * M_PI)) * std::cos(x) + 10;
       }},
      {"Booth",
       [](const Values& v) {
         const double x = number_in(v, "x"), y = number_in(v, "y");
         return std::pow(x + 2 * y - 7, 2) + std::pow(2 * x + y - 5, 2);
       }},
      {"Ackley", [](const Values& v) {
         const double x = number_in(v, "x"), y = number_in(v, "y");
         return -20 * std::exp(-0.2 * std::sqrt((x * x + y * y) / 2)) -
                std::exp((std::cos(2 * M_PI * x) + std::cos(2 * M_PI * y)) / 2) + 20 + M_E;
       }}};
  for (const auto& [name, loss] : functions) {
    double guided = 0, random = 0;
    for (const char* state : {"1", "2", "3"}) {
      guided += best_loss(plane_experiment("bayesianoptimization", {{"random_state", state}}), 40, 2, loss);
      random += best_loss(plane_experiment("random", {{"random_state", state}}), 40, 2, loss);
    }
    EXPECT_LT(guided, random) << name;
  }
}

double valley_loss(const Values& values) {
  const double x = number_in(values, "x") / 2, y = number_in(values, "y") / 2;
  return std::abs(x - 1) + std::abs(y + 1) + (values.at("opt") == "adam" ? 0 : 1);
}

TEST(BayesianOptimization, EachEstimatorAndEachFunctionBeatsRandomSearch) {
  const auto best = [](const std::string& algorithm, const std::string& setting, const std::string& value) {
    double sum = 0;
    constexpr int kSearches = how_many(3, 1);
    for (int state = 1; state <= kSearches; ++state) {
      std::vector<std::pair<std::string, std::string>> settings{{"random_state", std::to_string(state)}};
      if (!setting.empty()) settings.emplace_back(setting, value);
      auto experiment = plane_experiment(algorithm, settings);
      add_list(experiment, "opt", wire::CATEGORICAL, {"sgd", "adam", "ftrl"});
      sum += best_loss(experiment, 40, 2, valley_loss) / kSearches;
    }
    return sum;
  };
  const double random = best("random", "", "");
  for (const char* estimator : {"RF", "ET", "GBRT"})
    EXPECT_LT(best("bayesianoptimization", "base_estimator", estimator), random) << estimator;
  for (const char* function : {"gp_hedge", "EI", "PI", "LCB"})
    EXPECT_LT(best("bayesianoptimization", "acq_func", function), random / 4) << function;
  EXPECT_LT(best("bayesianoptimization", "acq_optimizer", "sampling"), random / 4);
}

TEST(BayesianOptimization, SettingsChangeTheSuggestions) {
  const auto next = [](const std::vector<std::pair<std::string, std::string>>& settings) {
    auto all = settings;
    all.emplace_back("random_state", "1");
    SuggestionClient client(plane_experiment("bayesianoptimization", all));
    client.ask(12);  // Random ones.
    client.end_all(sphere_loss);
    client.ask(1);
    return assigned_to(client.trial(12));
  };
  const std::vector<std::vector<std::pair<std::string, std::string>>> different = {
      {{"acq_func", "EI"}},
      {{"acq_func", "PI"}},
      {{"acq_func", "LCB"}},
      {{"base_estimator", "RF"}},
      {{"base_estimator", "ET"}},
      {{"base_estimator", "GBRT"}},
      {{"acq_func", "EI"}, {"acq_optimizer", "sampling"}}};
  std::set<Values> seen;
  for (const auto& settings : different) EXPECT_TRUE(seen.insert(next(settings)).second) << settings.front().second;
  EXPECT_EQ(next({}), next({{"acq_func", "gp_hedge"}, {"base_estimator", "GP"}, {"acq_optimizer", "auto"}}));
  EXPECT_EQ(next({{"acq_func", "EI"}}), next({{"acq_func", "EI"}, {"acq_optimizer", "lbfgs"}}));
  EXPECT_EQ(next({{"base_estimator", "RF"}}), next({{"base_estimator", "RF"}, {"acq_optimizer", "sampling"}}));
}

TEST(BayesianOptimization, WhatKatibCannotDoEitherIsRefused) {
  EXPECT_THAT(suggestion_refusal(plane_experiment("bayesianoptimization", {{"acq_func", "EIps"}})),
              HasSubstr("EIps divides by the time of a trial, which Katib does not tell the algorithm; take EI"));
  EXPECT_THAT(suggestion_refusal(plane_experiment("bayesianoptimization", {{"acq_func", "PIps"}})),
              HasSubstr("take PI"));
  EXPECT_THAT(suggestion_refusal(
                  plane_experiment("bayesianoptimization", {{"base_estimator", "ET"}, {"acq_optimizer", "lbfgs"}})),
              HasSubstr("lbfgs follows slopes, which base_estimator ET does not have; take sampling or auto"));
}

TEST(PopulationBasedTraining, GenerationsContinueTheBestAndReplaceTheWorst) {
  SuggestionClient client(plane_experiment("pbt", {{"n_population", "10"},
                                                   {"truncation_threshold", "0.2"},
                                                   {"suggestion_trial_dir", "/data"},
                                                   {"random_state", "5"}}));
  ASSERT_EQ(client.ask(6), 6) << client.error;
  ASSERT_EQ(client.ask(6), 4);
  EXPECT_EQ(client.ask(6), 0);
  client.end_all(sphere_loss);
  ASSERT_EQ(client.ask(20), 10);
  std::map<std::string, double> losses;
  for (int i = 0; i < 10; ++i) losses[client.trial(i).name()] = sphere_loss(assigned_to(client.trial(i)));
  std::vector<double> sorted;
  for (const auto& [name, loss] : losses) sorted.push_back(loss);
  std::sort(sorted.begin(), sorted.end());
  for (int i = 10; i < 20; ++i) {
    const auto& labels = client.trial(i).spec().labels();
    EXPECT_EQ(labels.at(kPbtGeneration), "1");
    const double of_parent = losses.at(labels.at(kPbtParent));
    if (i < 18) {
      EXPECT_DOUBLE_EQ(sphere_loss(assigned_to(client.trial(i))), of_parent);
    } else {
      EXPECT_LE(of_parent, sorted[1]);
      EXPECT_NE(sphere_loss(assigned_to(client.trial(i))), of_parent);
    }
  }
  Algorithm pbt{.name = "pbt", .settings = {{"suggestion_trial_dir", "/data"}}, .place = {}};
  const auto folder = checkpoint_folder(pbt, client.trial(10).spec().labels());
  ASSERT_TRUE(folder);
  EXPECT_EQ(folder->path, "/data");
  EXPECT_EQ(folder->parent, client.trial(10).spec().labels().at(kPbtParent));
  EXPECT_EQ(checkpoint_folder(pbt, {})->parent, "");
  pbt.name = "random";
  EXPECT_FALSE(checkpoint_folder(pbt, {}));
}

}  // namespace volador::experiments::katib
