// Models, versions, aliases, and the checkpoints that versions keep.
#include "experiments/models/model_registry.h"

#include <algorithm>
#include <memory>
#include <set>

#include "experiments/core/shared_rules.h"
#include "tests/experiments/runs/experiment_harness.h"

namespace volador::experiments {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// A registry beside the experiments of the harness; both are loaded from their rows after a restart.
class RegistryHarness {
 public:
  RegistryHarness()
      : models_(std::make_unique<ModelRegistry>(ModelLimits{.models = 20, .versions = 20}, cluster.core())) {
    models_->start();
    cluster.on_core = [this](ExperimentCore& core) {
      models_ = std::make_unique<ModelRegistry>(ModelLimits{.models = 20, .versions = 20}, core);
      for (const auto& [where, value] : rows) {
        EXPECT_TRUE(ModelRegistry::has_table(where.first));
        EXPECT_TRUE(models_->load(where.first, where.second, value)) << where.first;
      }
      models_->start();
      models_->check_invariants();
    };
  }

  Result<v1::Model> create(const std::string& name, const ExperimentRequester& by = kAda, const std::string& id = {}) {
    v1::CreateModelRequest request;
    request.mutable_model()->set_name(name);
    request.set_request_id(id);
    return done(models().create(request, by, ++cluster.now));
  }
  Result<v1::ModelVersion> add(const std::string& model, const std::string& checkpoint,
                               const ExperimentRequester& by = kAda, const std::string& id = {}) {
    v1::RegisterModelVersionRequest request;
    request.set_model(model);
    request.mutable_version()->set_checkpoint(checkpoint);
    request.set_request_id(id);
    return done(models().register_version(request, by, ++cluster.now));
  }
  Result<v1::Model> edit(v1::EditModelRequest request, const ExperimentRequester& by = kAda) {
    return done(models().edit(request, by, ++cluster.now));
  }
  Result<v1::Model> promote(const std::string& model, int64_t version, const std::string& alias) {
    v1::EditModelRequest request;
    request.set_model(model);
    (*request.mutable_set_aliases())[alias] = version;
    return edit(request);
  }
  Result<void> remove(const std::string& model, const ExperimentRequester& by = kAda) {
    v1::DeleteModelRequest request;
    request.set_model(model);
    return done(models().remove(request, by));
  }
  Result<void> remove_version(const std::string& model, int64_t version, const ExperimentRequester& by = kAda) {
    v1::DeleteModelVersionRequest request;
    request.set_model(model);
    request.set_version(version);
    return done(models().remove_version(request, by, ++cluster.now));
  }
  Result<v1::ModelVersion> version(const std::string& model, const std::string& version) {
    v1::GetModelVersionRequest request;
    request.set_model(model);
    request.set_version(version);
    return models().version(request, kBob);
  }
  std::vector<std::string> names(const v1::ListModelsRequest& request = {}) {
    const auto found = models().list(request);
    std::vector<std::string> all;
    if (!found) return {found.error().message};
    for (const v1::Model& model : found->models()) all.push_back(model.name());
    return all;
  }

  template <class Outcome>
  Outcome done(Outcome outcome) {
    models().check_invariants();
    ModelActions actions = models().take();
    std::set<std::pair<std::string, std::string>> seen;
    for (const ExperimentRow& row : actions.rows) {
      EXPECT_TRUE(seen.insert({row.table, row.key}).second) << "twice in one action: " << row.table;
      if (row.value) {
        rows[{row.table, row.key}] = *row.value;
      } else {
        rows.erase({row.table, row.key});
      }
    }
    return outcome;
  }

  ModelRegistry& models() { return *models_; }
  // A trial that runs, with checkpoints keep-1 to keep-3.
  void begin(const std::string& config = single_config()) {
    cluster.create(config);
    cluster.run_job(1);
    ASSERT_TRUE(cluster.start_run(1, 1));
    for (int i = 1; i <= 3; ++i) ASSERT_TRUE(cluster.checkpoint(1, 1, "keep-" + std::to_string(i), 10 * i));
  }
  void end() {
    ASSERT_TRUE(cluster.report(1, 1, "validation", 30, R"({"loss": 0.5})"));
    ASSERT_TRUE(cluster.complete(1, 1, 30, 0.5));
    cluster.end_job(1);
  }
  std::map<std::string, std::string> states(int64_t experiment) {
    std::map<std::string, std::string> states;
    for (const v1::CheckpointInfo& one : cluster.checkpoints(experiment, true)) states[one.id()] = one.state();
    return states;
  }

  ExperimentHarness cluster;
  std::map<std::pair<std::string, std::string>, std::string> rows;

 private:
  std::unique_ptr<ModelRegistry> models_;
};

TEST(ModelRegistry, NamesAreUniqueAndReadable) {
  RegistryHarness registry;
  const auto made = registry.create("digits 2.0");
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->id(), 1);
  EXPECT_EQ(made->user(), "ada");
  EXPECT_EQ(made->metadata(), "{}");
  EXPECT_EQ(registry.create("digits 2.0").error().message,
            "name: model 1 has the name \"digits 2.0\" already; names are unique");
  EXPECT_TRUE(registry.create("数字识别"));
  for (const std::string name : {"", "12", " a", "a ", "a/b", "a@b", "a:b", "a\nb", "\xff"}) {
    const auto refused = registry.create(name);
    ASSERT_FALSE(refused.has_value()) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("name: expected letters, digits, spaces and ._- "));
  }
  EXPECT_FALSE(registry.create(std::string(129, 'a')));
  EXPECT_EQ(registry.models().get("1")->name(), "digits 2.0");
  EXPECT_EQ(registry.models().get("digit 2.0").error().message,
            "there is no model \"digit 2.0\"; did you mean digits 2.0?");
  EXPECT_EQ(registry.models().get("7").error().code, ErrorCode::kNotFound);
}

TEST(ModelRegistry, TextsHaveLimits) {
  RegistryHarness registry;
  v1::CreateModelRequest request;
  v1::Model& model = *request.mutable_model();
  model.set_name("digits");
  model.set_metadata("[1]");
  EXPECT_EQ(registry.models().create(request, kAda, 1).error().message, "metadata: expected a JSON object, got [1]");
  model.set_metadata(R"({"a": 1})");
  model.set_notes(std::string(kTextMax + 1, 'a'));
  EXPECT_THAT(registry.models().create(request, kAda, 1).error().message, HasSubstr("notes: expected at most 65536"));
  model.set_notes("two\nlines");
  for (const char* label : {"b", "a", "b"}) model.add_labels(label);
  const auto made = registry.done(registry.models().create(request, kAda, 1));
  ASSERT_TRUE(made.has_value());
  EXPECT_THAT(made->labels(), ElementsAre("a", "b"));
  v1::EditModelRequest edit;
  edit.set_model("digits");
  edit.add_remove_labels("a");
  edit.add_add_labels("two\nlines");
  EXPECT_THAT(registry.edit(edit).error().message, HasSubstr("label: expected 1 to 128 bytes in one line"));
  EXPECT_THAT(registry.models().get("digits")->labels(), ElementsAre("a", "b")) << "nothing has changed";
}

TEST(ModelVersions, NameCompletedCheckpoints) {
  RegistryHarness registry;
  registry.begin();
  ASSERT_TRUE(registry.create("digits"));
  EXPECT_EQ(registry.version("digits", "").error().message, "model digits has no versions yet");
  EXPECT_EQ(registry.add("digits", "keep-1")->version(), 1);
  EXPECT_EQ(registry.add("digits", "keep-2")->version(), 2);
  EXPECT_EQ(registry.add("digits", "moon").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(registry.add("digit", "keep-2").error().message, "there is no model \"digit\"; did you mean digits?");
  const auto newest = registry.version("digits", "");
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->checkpoint_info().batches(), 20);
  EXPECT_EQ(newest->model(), "digits");
  EXPECT_EQ(registry.version("digits", "7").error().message, "model digits has no version 7; its newest is 2");
  v1::DeleteCheckpointsRequest request;
  request.add_ids("keep-3");
  ASSERT_TRUE(registry.cluster.checkpoint(1, 1, "keep-4", 40));
  ASSERT_TRUE(registry.cluster.core().delete_checkpoints(request, kAda));
  EXPECT_EQ(registry.add("digits", "keep-3").error().message,
            "checkpoint keep-3 is DELETING: expected one that is COMPLETED");
  ASSERT_TRUE(registry.remove_version("digits", 2));
  EXPECT_EQ(registry.add("digits", "keep-2")->version(), 3) << "numbers are not used again";
  EXPECT_EQ(registry.models().get("digits")->versions(), 2);
  EXPECT_EQ(registry.models().get("digits")->newest_version(), 3);
}

TEST(ModelVersions, AliasesMove) {
  RegistryHarness registry;
  registry.begin();
  ASSERT_TRUE(registry.create("digits"));
  ASSERT_TRUE(registry.add("digits", "keep-1"));
  ASSERT_TRUE(registry.add("digits", "keep-2"));
  EXPECT_EQ(registry.version("digits", "production").error().message,
            "model digits has no alias \"production\"; it has no aliases");
  ASSERT_TRUE(registry.promote("digits", 1, "production"));
  EXPECT_EQ(registry.version("digits", "production")->version(), 1);
  EXPECT_THAT(registry.version("digits", "1")->aliases(), ElementsAre("production"));
  ASSERT_TRUE(registry.promote("digits", 2, "production"));
  EXPECT_EQ(registry.version("digits", "production")->checkpoint(), "keep-2");
  EXPECT_THAT(registry.version("digits", "1")->aliases(), IsEmpty());
  EXPECT_EQ(registry.version("digits", "prodution").error().message,
            "model digits has no alias \"prodution\"; did you mean production?");
  EXPECT_EQ(registry.promote("digits", 9, "staging").error().code, ErrorCode::kNotFound);
  for (const std::string alias : {"", "7", "a b", "a@b"}) EXPECT_FALSE(registry.promote("digits", 1, alias)) << alias;
  ASSERT_TRUE(registry.promote("digits", 1, "staging"));
  ASSERT_TRUE(registry.promote("digits", 0, "production"));
  EXPECT_THAT(registry.models().get("digits")->aliases(), UnorderedElementsAre(Pair("staging", 1)));
  ASSERT_TRUE(registry.remove_version("digits", 1));
  EXPECT_TRUE(registry.models().get("digits")->aliases().empty()) << "they leave with their version";
}

TEST(ModelRegistry, OwnersAndOperatorsChangeIt) {
  RegistryHarness registry;
  registry.begin();
  ASSERT_TRUE(registry.create("digits"));
  ASSERT_TRUE(registry.create("nameless", kNamelessRequester));
  v1::EditModelRequest edit;
  edit.set_model("digits");
  edit.set_notes("mine");
  const auto refused = registry.edit(edit, kBob);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(
      refused.error().message,
      "edit model digits: model digits was created by user ada, this request comes with a token of user bob; only "
      "its owner and operators may change it");
  EXPECT_EQ(registry.add("digits", "keep-1", kBob).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(registry.remove("digits", kBob).error().code, ErrorCode::kPermissionDenied);
  EXPECT_TRUE(registry.edit(edit, kOperator));
  EXPECT_TRUE(registry.add("nameless", "keep-1", kNamelessRequester));
  EXPECT_EQ(registry.remove_version("nameless", 1, kAda).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(registry.version("nameless", "1")->version(), 1) << "readers see it";
}

TEST(ModelRegistry, ArchivedModelsStayAsTheyAre) {
  RegistryHarness registry;
  registry.begin();
  ASSERT_TRUE(registry.create("digits"));
  ASSERT_TRUE(registry.add("digits", "keep-1"));
  v1::EditModelRequest edit;
  edit.set_model("digits");
  edit.set_archived(true);
  EXPECT_TRUE(registry.edit(edit)->archived());
  EXPECT_TRUE(registry.edit(edit)) << "a second time nothing changes";
  EXPECT_THAT(registry.names(), IsEmpty());
  EXPECT_EQ(registry.add("digits", "keep-2").error().message,
            "model digits is archived; `volador model unarchive digits` lets it be changed again");
  EXPECT_FALSE(registry.promote("digits", 1, "production"));
  EXPECT_FALSE(registry.remove_version("digits", 1));
  edit.set_archived(false);
  EXPECT_TRUE(registry.edit(edit));
  EXPECT_TRUE(registry.add("digits", "keep-2"));
}

TEST(ModelRegistry, RepeatedRequestsGetTheSameAlsoAfterARestart) {
  RegistryHarness registry;
  registry.begin();
  ASSERT_TRUE(registry.create("digits", kAda, "one"));
  ASSERT_TRUE(registry.add("digits", "keep-1", kAda, "two"));
  registry.cluster.restart();
  EXPECT_EQ(registry.create("digits", kAda, "one")->id(), 1);
  EXPECT_FALSE(registry.create("digits", kAda, "other"));
  EXPECT_EQ(registry.add("digits", "keep-1", kAda, "two")->version(), 1);
  EXPECT_EQ(registry.add("digits", "keep-1", kAda, "three")->version(), 2);
}

TEST(ModelRegistry, IdsAreNotUsedAgain) {
  RegistryHarness registry;
  ASSERT_TRUE(registry.create("a"));
  ASSERT_TRUE(registry.create("b"));
  ASSERT_TRUE(registry.remove("b"));
  registry.cluster.restart();
  EXPECT_EQ(registry.create("b")->id(), 3);
}

TEST(ModelRegistry, ListsAreFilteredAndOrdered) {
  RegistryHarness registry;
  registry.begin();
  for (const char* name : {"beta", "alpha", "gamma"}) ASSERT_TRUE(registry.create(name));
  ASSERT_TRUE(registry.add("beta", "keep-1"));
  v1::EditModelRequest edit;
  edit.set_model("alpha");
  edit.add_add_labels("vision");
  edit.set_name("alphabet");
  ASSERT_TRUE(registry.edit(edit));
  EXPECT_THAT(registry.names(), ElementsAre("alphabet", "beta", "gamma")) << "the last changed first";
  v1::ListModelsRequest request;
  request.set_order("-name");
  EXPECT_THAT(registry.names(request), ElementsAre("gamma", "beta", "alphabet"));
  request.set_order("created");
  EXPECT_THAT(registry.names(request), ElementsAre("beta", "alphabet", "gamma"));
  request.set_order("-versions");
  request.set_limit(1);
  EXPECT_THAT(registry.names(request), ElementsAre("beta"));
  request.set_order("nme");
  EXPECT_THAT(registry.names(request), ElementsAre(HasSubstr("did you mean name?")));
  v1::ListModelsRequest labelled;
  labelled.add_labels("vision");
  EXPECT_THAT(registry.names(labelled), ElementsAre("alphabet"));
  v1::ListModelsRequest named;
  named.set_name("mm");
  EXPECT_THAT(registry.names(named), ElementsAre("gamma"));
  named.set_user("bob");
  EXPECT_THAT(registry.names(named), IsEmpty());
}

TEST(ModelCheckpoints, StayWhileAVersionNamesThem) {
  RegistryHarness registry;
  registry.begin(
      single_config("checkpoint_storage: {type: shared_fs, host_path: /shared, storage_path: c, "
                    "save_trial_best: 0, save_trial_latest: 0}\n"));
  ASSERT_TRUE(registry.create("digits"));
  ASSERT_TRUE(registry.add("digits", "keep-2"));
  registry.end();
  EXPECT_THAT(registry.states(1), UnorderedElementsAre(Pair("keep-1", "DELETING"), Pair("keep-2", "COMPLETED"),
                                                       Pair("keep-3", "DELETING")));
  registry.cluster.restart();
  EXPECT_EQ(registry.states(1).at("keep-2"), "COMPLETED");
  v1::DeleteCheckpointsRequest request;
  request.add_ids("keep-2");
  EXPECT_EQ(registry.cluster.core().delete_checkpoints(request, kAda).error().message,
            "checkpoint keep-2: it is version 1 of model digits; delete that version first");
  EXPECT_EQ(registry.cluster.change(1, "delete").error().message,
            "delete: checkpoint keep-2 of experiment 1 is version 1 of model digits; delete that version first");
  EXPECT_EQ(registry.cluster.info(1).state(), "COMPLETED");
  ASSERT_TRUE(registry.remove_version("digits", 1));
  EXPECT_TRUE(registry.cluster.core().delete_checkpoints(request, kAda));
  EXPECT_TRUE(registry.cluster.change(1, "delete"));
  EXPECT_EQ(registry.add("digits", "keep-2").error().code, ErrorCode::kInvalidArgument);
}

TEST(ModelCheckpoints, OfAnExperimentThatIsBeingDeletedCannotBeRegistered) {
  RegistryHarness registry;
  registry.begin();
  ASSERT_TRUE(registry.create("digits"));
  registry.end();
  ASSERT_TRUE(registry.cluster.change(1, "delete"));
  EXPECT_EQ(registry.add("digits", "keep-3").error().message,
            "checkpoint keep-3: its experiment 1 is DELETING: expected one that is not deleted");
}

// Random requests of models and of experiments, with restarts: a checkpoint that a version names is never collected.
TEST(ModelCheckpoints, AreNeverCollectedWhileAVersionNamesThem) {
  int registered = 0, refused = 0, collected = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    RegistryHarness registry;
    SeededRandom random(seed);
    const auto below = [&](uint64_t n) { return random.next() % n; };
    const auto model = [&] { return "model-" + std::to_string(below(3)); };
    std::vector<std::string> checkpoints;
    int64_t experiments = 0;
    for (int step = 0; step < 250; ++step) {
      registry.cluster.now += 10;
      switch (below(10)) {
        case 0: {
          const auto made = registry.cluster.create(single_config());
          experiments = made.id();
          registry.cluster.run_all();
          for (const v1::CheckpointInfo& one : registry.cluster.checkpoints(made.id())) checkpoints.push_back(one.id());
          break;
        }
        case 1:
          static_cast<void>(registry.create(model()));
          break;
        case 2:
        case 3:
          if (checkpoints.empty()) break;
          registered += registry.add(model(), checkpoints[below(checkpoints.size())]).has_value() ? 1 : 0;
          break;
        case 4:
          static_cast<void>(registry.promote(model(), static_cast<int64_t>(below(4)), "production"));
          break;
        case 5:
          static_cast<void>(registry.remove_version(model(), static_cast<int64_t>(1 + below(5))));
          break;
        case 6:
          if (below(4) == 0) static_cast<void>(registry.remove(model()));
          break;
        case 7: {
          if (checkpoints.empty()) break;
          v1::DeleteCheckpointsRequest request;
          request.add_ids(checkpoints[below(checkpoints.size())]);
          const auto outcome = registry.cluster.core().delete_checkpoints(request, kAda);
          refused += outcome ? 0 : 1;
          registry.cluster.settle();
          break;
        }
        case 8: {
          if (experiments == 0) break;
          const auto id = static_cast<int64_t>(1 + below(static_cast<uint64_t>(experiments)));
          if (below(2) == 0) {
            static_cast<void>(registry.cluster.change(id, "delete"));
          } else {
            v1::EditExperimentRequest edit;
            edit.set_id(id);
            edit.set_save_trial_latest(0);
            edit.set_save_trial_best(0);
            static_cast<void>(registry.cluster.core().edit(edit, kAda, registry.cluster.now));
            registry.cluster.settle();
          }
          break;
        }
        default:
          registry.cluster.restart();
      }
      // What a job deletes now.
      for (int64_t id = 1; id <= experiments; ++id) {
        const std::string token = "gc-" + std::to_string(step);
        if (below(2) == 0 || !registry.cluster.core().garbage_job(id, {token, "x"})) continue;
        const auto garbage = registry.cluster.core().garbage(id, {.token_id = token});
        ASSERT_TRUE(garbage.has_value());
        v1::ReportGarbageRequest report;
        report.set_experiment(id);
        for (const std::string& each : garbage->ids()) {
          ASSERT_EQ(registry.models().keeper_of(each), "");
          report.add_deleted(each);
          ++collected;
        }
        ASSERT_TRUE(registry.cluster.core().garbage_collected(report, {.token_id = token}, registry.cluster.now));
        registry.cluster.settle();
      }
      for (const std::string& each : checkpoints) {
        if (registry.models().keeper_of(each).empty()) continue;
        const auto kept = registry.cluster.core().checkpoint(each, kAda);
        ASSERT_TRUE(kept.has_value()) << each;
        ASSERT_EQ(kept->state(), "COMPLETED") << each;
      }
    }
  }
  EXPECT_GT(registered, 100);
  EXPECT_GT(refused, 0);
  EXPECT_GT(collected, 100);
}

}  // namespace
}  // namespace volador::experiments
