#include "tune/searchers/added_configs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tune/trial_simulator.h"
#include "tune/results/experiment_journal.h"
#include "tune/results/experiment_resume.h"
#include "tune/results/experiment_state.h"
#include "tune/results/replay_audit.h"
#include "tune/results/trial_story.h"
#include "tune/schedulers/asha_scheduler.h"
#include "tune/schedulers/fifo_scheduler.h"
#include "tune/searchers/cmaes_searcher.h"
#include "tune/searchers/recording_searcher.h"
#include "tune/searchers/search_wrappers.h"
#include "tune/searchers/tpe_searcher.h"
#include "tune/searchers/variant_searcher.h"
#include "tune/space/given_config.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

const Space kAddedSpace = {{"lr", uniform(0.0, 1.0)}, {"width", randint(8, 65)}};

std::unique_ptr<AddedConfigs> adding(const SearcherFactory& factory, const Space& space, int64_t samples) {
  return std::make_unique<AddedConfigs>(
      factory({.space = space, .metric = "accuracy", .num_samples = samples, .seed = 5}).value());
}

TEST(AddedConfigs, TakeTheNextIndexAndDisplaceNothing) {
  const Space grid = {{"a", grid_search({1, 2, 3})}};
  const auto plain = random_search()({.space = grid, .num_samples = 1, .seed = 5}).value();
  const auto searcher = adding(random_search(), grid, 1);
  EXPECT_EQ(searcher->total(), 3);
  EXPECT_EQ(searcher->suggest(0)->config, plain->suggest(0)->config);
  ASSERT_TRUE(searcher->add({{"a", 7}}));
  ASSERT_TRUE(searcher->add({{"a", 8}}));
  EXPECT_EQ(searcher->total(), 5);
  EXPECT_EQ(searcher->suggest(1)->config, Config({{"a", 7}}));
  EXPECT_EQ(searcher->suggest(2)->config, Config({{"a", 8}}));
  EXPECT_EQ(searcher->suggest(3)->config, plain->suggest(1)->config);
  EXPECT_EQ(searcher->suggest(4)->config, plain->suggest(2)->config);
  EXPECT_EQ(searcher->suggest(5)->kind, Suggestion::Kind::kExhausted);
  ASSERT_TRUE(searcher->add({{"a", 9}})) << "also behind the last one";
  EXPECT_EQ(searcher->suggest(5)->config, Config({{"a", 9}}));
}

TEST(AddedConfigs, HaveALimit) {
  const auto searcher = adding(random_search(), kAddedSpace, 1);
  for (size_t i = 0; i < AddedConfigs::kWaitingMax; ++i) ASSERT_TRUE(searcher->add({{"lr", 0.5}, {"width", 8}}));
  EXPECT_FALSE(searcher->add({{"lr", 0.5}, {"width", 8}}));
  EXPECT_EQ(searcher->total(), 1 + static_cast<int64_t>(AddedConfigs::kWaitingMax));
}

// A searcher that learns changes its proposals once it has the result of an added configuration.
TEST(AddedConfigs, AreLearntFrom) {
  for (const SearcherFactory& factory : {tpe({.n_startup_trials = 4}), cmaes()}) {
    const auto proposed = [&](double value) {
      const auto searcher = adding(factory, kAddedSpace, 60);
      (void)searcher->add({{"lr", 0.123}, {"width", 9}});
      std::vector<Config> out;
      for (int64_t i = 0; i < 40; ++i) {
        out.push_back(searcher->suggest(i)->config);
        searcher->on_complete(i, Observation{i, 1, i == 0 ? value : out.back().real("lr")});
      }
      return out;
    };
    const auto bad = proposed(-1), good = proposed(2);
    EXPECT_EQ(bad.front(), good.front());
    EXPECT_NE(bad.back(), good.back());
  }
}

TEST(AddedConfigs, ASnapshotGoesOnAsTheOriginal) {
  const auto one = adding(tpe({.n_startup_trials = 2}), kAddedSpace, 40);
  for (int64_t i = 0; i < 12; ++i) {
    if (i % 5 == 3) (void)one->add({{"lr", 0.01 * static_cast<double>(i)}, {"width", 10}});
    const auto config = one->suggest(i)->config;
    if (i % 2 == 0) one->on_complete(i, Observation{i, 1, config.real("lr")});
  }
  (void)one->add({{"lr", 0.25}, {"width", 11}});
  const auto other = adding(tpe({.n_startup_trials = 2}), kAddedSpace, 40);
  ASSERT_TRUE(other->restore(one->snapshot()));
  EXPECT_EQ(other->snapshot(), one->snapshot());
  for (int64_t i = 12; i < 30; ++i) {
    const auto config = one->suggest(i)->config;
    ASSERT_EQ(other->suggest(i)->config, config) << i;
    for (const auto& searcher : {one.get(), other.get()})
      searcher->on_complete(i - 1, Observation{i - 1, 1, config.real("lr")});
  }
  EXPECT_FALSE(other->restore("{\"version\":1,\"inner\":\"\",\"waiting\":[],\"added\":[3,2]}"));
}

// An experiment on simulated actors to which configurations are added, each requested twice.
struct AddedRun {
  JournalContents journal;
  std::vector<Config> configs;
  TrialCounts counts;
};
struct AddedParts {
  std::unique_ptr<TrialLoop> loop;
  RecordingSearcher* recording = nullptr;
};
AddedParts added_parts(const SearcherFactory& factory, std::vector<RecordedSuggestion> recorded) {
  AddedParts parts;
  auto recording = std::make_unique<RecordingSearcher>(adding(factory, kAddedSpace, 12), std::move(recorded), 12);
  parts.recording = recording.get();
  parts.loop =
      TrialLoop::create({.metric = "accuracy", .trial_key = 5, .max_failures = -1, .checkpoint = {.frequency = 1}},
                        std::move(recording),
                        asha({.max_t = 9, .reduction_factor = 3})({.metric = "accuracy", .seed = 5}).value())
          .value();
  return parts;
}
AddedRun added_run(const SearcherFactory& factory, uint64_t seed, std::optional<double> interrupt_at_s = std::nullopt) {
  AddedRun run;
  run.journal.header = {
      .name = "digits", .metric = "accuracy", .mode = "max", .seed = 5, .searcher = "the searcher", .total = 12};
  AddedParts parts = added_parts(factory, {});
  parts.recording->on_suggestion = [&](int64_t index, const Config& config) {
    run.journal.records.push_back(JournalSuggestion{index, config});
  };
  testing::SimulationOptions options{
      .seed = seed, .faults = {.crash = 0.05, .repeated = 0.1}, .interrupt_at_s = interrupt_at_s};
  for (int i = 0; i < 4; ++i) options.added.push_back({{"lr", 0.5}, {"width", 20 + i}});
  testing::TrialSimulator simulator(options, *parts.loop);
  simulator.on_event = [&](BootTime now, const Event& event) {
    run.journal.records.push_back(JournalEvent{now - BootTime{}, {}, event});
  };
  EXPECT_EQ(simulator.run(), "") << seed;
  for (const Trial& trial : parts.loop->trials()) run.configs.push_back(trial.config);
  run.counts = parts.loop->counts();
  return run;
}

TEST(AddedConfigs, EachIsTriedOnceAndAReplayKnowsThem) {
  for (const SearcherFactory& factory : {random_search(), tpe({.n_startup_trials = 3})}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const AddedRun run = added_run(factory, seed);
      ASSERT_EQ(run.counts.total, 16) << seed;
      ASSERT_EQ(run.configs.size(), 16U);
      for (int i = 0; i < 4; ++i) {
        const Config wanted{{"lr", 0.5}, {"width", 20 + i}};
        EXPECT_EQ(std::count(run.configs.begin(), run.configs.end(), wanted), 1) << seed;
      }
      AddedParts again = added_parts(factory, recorded_suggestions(run.journal.records));
      const ReplayReport report = audit_replay(run.journal, *again.loop, *again.recording);
      EXPECT_EQ(report.differences, 0) << (report.shown.empty() ? "" : report.shown.front());
      ASSERT_EQ(again.loop->trials().size(), 16U);
      for (size_t i = 0; i < 16; ++i) EXPECT_EQ(again.loop->trials()[i].config, run.configs[i]) << seed << " " << i;
    }
  }
}

TEST(AddedConfigs, MoreSamplesComeBesideThem) {
  AddedParts parts = added_parts(random_search(), {});
  (void)parts.loop->begin(BootTime{});
  (void)parts.loop->handle(BootTime{}, ConfigAdded{"1", {{"lr", 0.5}, {"width", 9}}});
  (void)parts.loop->handle(BootTime{}, ConfigAdded{"1", {{"lr", 0.5}, {"width", 9}}});
  EXPECT_EQ(parts.loop->counts().total, 13) << "one request, whatever it is repeated";
  (void)parts.loop->handle(BootTime{}, MoreSamples{20});
  EXPECT_EQ(parts.loop->counts().total, 21);
  (void)parts.loop->handle(BootTime{}, Interrupt{});
  const Actions refused = parts.loop->handle(BootTime{}, ConfigAdded{"2", {{"lr", 0.5}, {"width", 9}}});
  EXPECT_EQ(parts.loop->counts().total, 21) << "an experiment that ends takes none";
  ASSERT_FALSE(refused.empty());
  EXPECT_THAT(std::get<Notice>(refused.front()).text, HasSubstr("is not added: the experiment ends"));
}

TEST(AddedConfigs, AreToldInTheStoryOfTheirTrial) {
  const AddedRun run = added_run(random_search(), 1);
  const auto at = std::find(run.configs.begin(), run.configs.end(), Config({{"lr", 0.5}, {"width", 20}}));
  ASSERT_NE(at, run.configs.end());
  const TrialStory story = tell_story(run.journal, to_string(TrialId::of(5, at - run.configs.begin())), 3).value();
  EXPECT_THAT(story.moments.front().text, HasSubstr("added on request, as number"));
}

TEST(AddedConfigs, AClonedTrialSaysWhereItsValuesComeFrom) {
  AddedParts parts = added_parts(random_search(), {});
  JournalContents journal{
      .header = {
          .name = "digits", .metric = "accuracy", .mode = "max", .seed = 5, .searcher = "the searcher", .total = 12}};
  parts.recording->on_suggestion = [&](int64_t index, const Config& config) {
    journal.records.push_back(JournalSuggestion{index, config});
  };
  const auto tell = [&](const Event& event) {
    journal.records.push_back(JournalEvent{{}, {}, event});
    return parts.loop->handle(BootTime{}, event);
  };
  (void)parts.loop->begin(BootTime{});
  const Trial original = parts.loop->trials().front();
  EXPECT_FALSE(original.cloned_from);
  const Actions added = tell(ConfigAdded{"1", original.config, original.id});
  EXPECT_THAT(std::get<Notice>(added.front()).text, HasSubstr("cloned from trial " + to_string(original.id)));
  (void)tell(ConfigAdded{"2", {{"lr", 0.5}, {"width", 9}}});
  (void)tell(CapacityChanged{20});
  std::vector<const Trial*> with_origin;
  for (const Trial& trial : parts.loop->trials()) {
    if (trial.cloned_from) with_origin.push_back(&trial);
  }
  ASSERT_EQ(with_origin.size(), 1U);
  const Trial& clone = *with_origin.front();
  EXPECT_EQ(clone.cloned_from, original.id);
  EXPECT_EQ(clone.config, original.config);
  EXPECT_NE(clone.id, original.id);
  const auto story = [&](TrialId id) { return tell_story(journal, to_string(id), 0).value().moments.front().text; };
  EXPECT_THAT(story(clone.id).text(), HasSubstr("cloned from trial " + to_string(original.id)));
  EXPECT_THAT(story(clone.id).text(Language::kChinese), HasSubstr("以试验 " + to_string(original.id)));
  EXPECT_THAT(story(original.id).text(), HasSubstr("suggested by the searcher"))
      << "the same values, but it was there before";
  EXPECT_THAT(story(TrialId::of(5, clone.index + 1)).text(), HasSubstr("added on request, as number"));
  ExperimentState state{.name = "digits", .state = "running"};
  state.trials = {original, clone};
  state.notices = {"words of user code", std::get<Notice>(added.front()).text};
  const auto read = experiment_state_from_json(to_json(state)).value();
  EXPECT_EQ(read.trials[1].cloned_from, original.id);
  EXPECT_EQ(read.notices[0].text(Language::kChinese), "words of user code");
  EXPECT_THAT(read.notices[1].text(Language::kChinese), HasSubstr("按请求添加"));
  EXPECT_FALSE(read.trials[0].cloned_from);
}

TEST(GivenConfig, ChangesOfATrialTakeThePlaceOfItsValues) {
  const Space space = {{"lr", uniform(0.0, 2.0)},
                       {"model", {{"depth", randint(1, 5)}, {"norm", "layer"}}},
                       {"optimizer", choice({SpaceNode{{"name", "adam"}, {"beta", uniform(0, 1)}},
                                             SpaceNode{{"name", "sgd"}, {"momentum", uniform(0, 1)}}})}};
  const Config like{
      {"lr", 1.5}, {"model", {{"depth", 4}, {"norm", "layer"}}}, {"optimizer", {{"name", "adam"}, {"beta", 0.5}}}};
  SeededRandom random(1);
  const auto changed = [&](const Config& of, const Config& given) {
    return changed_config("config", space, of, given, random);
  };
  EXPECT_EQ(changed(like, Config::map()).value(), like) << "a repetition";
  EXPECT_EQ(changed(like, {{"lr", 1}, {"model", {{"depth", 2}}}})->to_json(),
            R"({"lr":1.0,"model":{"depth":2,"norm":"layer"},"optimizer":{"name":"adam","beta":0.5}})");
  EXPECT_EQ(changed(like, {{"optimizer", {{"name", "sgd"}, {"momentum", 0.25}}}})->to_json(),
            R"({"lr":1.5,"model":{"depth":4,"norm":"layer"},"optimizer":{"name":"sgd","momentum":0.25}})")
      << "the parameters of the former option go with it";
  EXPECT_THAT(changed(like, {{"optimizer", {{"momentum", 0.25}}}}).error().message,
              HasSubstr("config: optimizer is {\"momentum\":0.25}: expected a value of choice"));
  EXPECT_EQ(changed(like, {{"momentum", 0.25}}).error().message,
            "config: momentum is 0.25: the space has no such parameter");
  Config perturbed = like;
  perturbed.set("lr", 2.5);
  EXPECT_EQ(changed(perturbed, Config::map()).error().message,
            "config of the trial: lr is 2.5: expected a value of uniform(0, 2). Its scheduler has set that value; give "
            "another one");
  EXPECT_EQ(changed(perturbed, {{"lr", 0.5}})->real("lr"), 0.5);
}

TEST(GivenConfig, IsReadAsTheSpaceWouldDrawIt) {
  const Space space = {{"lr", uniform(0.0, 2.0)},
                       {"kind", choice({1.0, 2.0})},
                       {"width", randint(8, 65)},
                       {"model", {{"depth", randint(1, 5)}, {"norm", "layer"}}},
                       {"optimizer", choice({SpaceNode{{"name", "adam"}, {"beta", uniform(0, 1)}}, SpaceNode("sgd")})}};
  const auto read = [&](const Config& given) {
    const auto config = given_config("config", space, given);
    return config ? config->to_json() : config.error().message;
  };
  EXPECT_EQ(read({{"lr", 1}, {"kind", 2}}), R"({"lr":1.0,"kind":2.0})")
      << "whole numbers are real ones where those are expected";
  EXPECT_EQ(read({{"optimizer", {{"name", "adam"}, {"beta", 0}}}}), R"({"optimizer":{"name":"adam","beta":0.0}})");
  EXPECT_EQ(read({{"optimizer", "sgd"}}), R"({"optimizer":"sgd"})");
  EXPECT_THAT(read({{"optimizer", {{"name", "adam"}}}}),
              HasSubstr("config: optimizer is {\"name\":\"adam\"}: expected a value of choice"));
  EXPECT_EQ(read({{"lr", 3.0}}), "config: lr is 3: expected a value of uniform(0, 2)");
  EXPECT_EQ(read({{"model", {{"depth", 9}}}}), "config: model.depth is 9: expected a value of randint(1, 5)");
  EXPECT_EQ(read({{"model", {{"norm", "batch"}}}}),
            "config: model.norm is batch: the space has the constant layer there");
  EXPECT_EQ(read({{"momentum", 0.9}}), "config: momentum is 0.9: the space has no such parameter");
  EXPECT_EQ(read(Config(3)), "config: 3: expected a map");
  SeededRandom random(1);
  const Config whole = completed_config("config", space, {{"model", {{"depth", 2}}}}, random).value();
  EXPECT_EQ(whole.integer("model.depth"), 2);
  EXPECT_EQ(whole.text("model.norm"), "layer");
  EXPECT_EQ(whole.size(), 5U);
  EXPECT_EQ(given_config("config", space, whole).value(), whole) << "what is drawn may be given";
}

}  // namespace
}  // namespace volador::tune
