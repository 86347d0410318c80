#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/files/directory_archive.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "tests/cli/command_line_fixture.h"
#include "tests/cli/fake_head.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr const char* kDigits = R"(name: digits
entrypoint: python3 train.py
searcher: {name: single, metric: loss, max_length: {batches: 100}}
hyperparameters: {lr: 0.1}
)";

// Against a head of the test, whose experiment 3 has trial 7.
class ExperimentOfCluster : public CommandLineTest {
 protected:
  ExperimentOfCluster() {
    experiment_.set_id(3);
    experiment_.set_name("digits");
    experiment_.set_state("ACTIVE");
    experiment_.set_phase("RUNNING");
    experiment_.set_searcher("random");
    experiment_.set_metric("loss");
    experiment_.set_smaller_is_better(true);
    experiment_.set_progress(0.4);
    experiment_.set_trials(2);
    (*experiment_.mutable_trials_by_state())["ACTIVE"] = 1;
    (*experiment_.mutable_trials_by_state())["COMPLETED"] = 1;
    experiment_.set_best_trial(7);
    experiment_.set_best_metric(0.25);
    experiment_.set_created_ms(1'700'000'000'000);
    experiment_.set_ended_ms(1'700'000'060'000);
    experiment_.set_config(
        R"({"name":"digits","entrypoint":["python3","train.py"],"searcher":{"name":"random","max_length":{"batches":100}},
            "hyperparameters":{"lr":{"type":"log","base":10,"minval":-4,"maxval":-1},"net":{"n":{"type":"const","val":2}}},
            "resources":{"slots_per_trial":2}})");
    experiment_.set_original_config(kDigits);
    trial_.set_id(7);
    trial_.set_experiment(3);
    trial_.set_state("COMPLETED");
    trial_.set_hparams(R"({"lr":0.01,"net":{"n":2}})");
    trial_.set_batches(100);
    trial_.set_best_metric(0.25);
    trial_.set_best_checkpoint("0b5f1c62-7d3c-4a53-9d6e-1f2a3b4c5d6e");
    trial_.set_latest_checkpoint("9c5f1c62-7d3c-4a53-9d6e-1f2a3b4c5d6e");
    trial_.set_job("job-9");
    checkpoint_.set_id(trial_.best_checkpoint());
    checkpoint_.set_experiment(3);
    checkpoint_.set_trial(7);
    checkpoint_.set_batches(100);
    checkpoint_.set_state("COMPLETED");
    (*checkpoint_.mutable_resources())["weights.pt"] = 5;
    checkpoint_.set_bytes(5);
    checkpoint_.set_metadata(R"({"steps_completed":100})");
    head_.on<v1::GetExperimentRequest, v1::ExperimentInfo>(
        "Experiments/GetExperiment", [this](const v1::GetExperimentRequest& request) -> Result<v1::ExperimentInfo> {
          if (request.id() != 3)
            return make_error(ErrorCode::kNotFound, "no experiment " + std::to_string(request.id()));
          return experiment_;
        });
    head_.on<v1::ListTrialInfosRequest, v1::ListTrialInfosReply>(
        "Experiments/ListTrialInfos", [this](const v1::ListTrialInfosRequest&) -> Result<v1::ListTrialInfosReply> {
          v1::ListTrialInfosReply reply;
          *reply.add_trials() = trial_;
          reply.set_total(1);
          return reply;
        });
    head_.on<v1::GetTrialInfoRequest, v1::TrialInfo>(
        "Experiments/GetTrialInfo", [this](const v1::GetTrialInfoRequest&) -> Result<v1::TrialInfo> { return trial_; });
    head_.on<v1::GetCheckpointRequest, v1::CheckpointInfo>(
        "Experiments/GetCheckpoint", [this](const v1::GetCheckpointRequest& request) -> Result<v1::CheckpointInfo> {
          if (!checkpoint_.id().starts_with(request.id()))
            return make_error(ErrorCode::kNotFound, "no checkpoint " + request.id());
          return checkpoint_;
        });
    head_.on<v1::EditExperimentRequest, v1::ExperimentInfo>(
        "Experiments/EditExperiment", [this](const v1::EditExperimentRequest& request) -> Result<v1::ExperimentInfo> {
          edited_ = request;
          return experiment_;
        });
    head_.on<v1::ChangeExperimentRequest, v1::ExperimentInfo>(
        "Experiments/ChangeExperiment",
        [this](const v1::ChangeExperimentRequest& request) -> Result<v1::ExperimentInfo> {
          changed_.push_back(request.command() + " " + std::to_string(request.id()));
          if (request.id() != 3)
            return make_error(ErrorCode::kNotFound, "no experiment " + std::to_string(request.id()));
          return experiment_;
        });
    head_.on<v1::CreateExperimentRequest, v1::CreateExperimentReply>(
        "Experiments/CreateExperiment",
        [this](const v1::CreateExperimentRequest& request) -> Result<v1::CreateExperimentReply> {
          created_.push_back(request);
          v1::CreateExperimentReply reply;
          if (!request.validate_only()) *reply.mutable_experiment() = experiment_;
          reply.add_warnings("digits.yaml:2:1: data: is not set");
          return reply;
        });
    head_.on<v1::PutJobFilesRequest, v1::PutJobFilesReply>(
        "Jobs/PutJobFiles", [](const v1::PutJobFilesRequest&) -> Result<v1::PutJobFilesReply> {
          v1::PutJobFilesReply reply;
          reply.set_complete(true);
          return reply;
        });
    head_.on<v1::GetJobRequest, v1::Job>("Jobs/GetJob", [](const v1::GetJobRequest& request) -> Result<v1::Job> {
      v1::Job job;
      job.set_id(request.job());
      job.set_ended_ms(1);
      return job;
    });
  }

  Output call(std::vector<std::string> arguments) {
    arguments.push_back("--address=" + head_.address());
    arguments.push_back("--token=" + head_.token());
    return run(arguments);
  }
  Json json(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    const Output output = call(std::move(arguments));
    EXPECT_EQ(output.code, 0) << output.error;
    return Json::parse(output.out, nullptr, false);
  }
  std::string write(const std::string& name, const std::string& text) {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }

  FakeHead head_;
  v1::ExperimentInfo experiment_;
  v1::TrialInfo trial_;
  v1::CheckpointInfo checkpoint_;
  v1::EditExperimentRequest edited_;
  std::vector<v1::CreateExperimentRequest> created_;
  std::vector<std::string> changed_;
};

TEST_F(ExperimentOfCluster, CreateChecksFirstAndSendsTheCode) {
  const std::string config = write("digits.yaml", kDigits);
  write("code/train.py", "print()\n");
  const Output output = call({"experiment", "create", config, (folder_.path() / "code").string()});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_EQ(output.out, "created experiment 3\n");
  EXPECT_EQ(output.error, "warning: digits.yaml:2:1: data: is not set\noutput: volador experiment logs 3 --follow\n");
  EXPECT_THAT(head_.called(),
              ElementsAre("Experiments/CreateExperiment", "Jobs/PutJobFiles", "Experiments/CreateExperiment"));
  ASSERT_EQ(created_.size(), 2U);
  EXPECT_TRUE(created_[0].validate_only());
  EXPECT_EQ(created_[1].config(), kDigits);
  EXPECT_EQ(created_[1].config_name(), config);
  EXPECT_EQ(created_[1].files_sha256().size(), 64U);
  EXPECT_FALSE(created_[1].request_id().empty());
}

TEST_F(ExperimentOfCluster, CreateChangesKeysOfTheConfiguration) {
  const std::string config = write("digits.yaml", kDigits);
  const Output output = call({"experiment", "create", config, "--set", "searcher.max_length.batches=7", "--set",
                              "name=other", "--set=resources.slots_per_trial=2", "--paused"});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_THAT(output.error, HasSubstr("it is paused: volador experiment activate 3"));
  ASSERT_EQ(created_.size(), 2U);
  EXPECT_TRUE(created_[1].paused());
  const std::string text = created_[1].config();
  EXPECT_THAT(text, HasSubstr("name: other\n"));
  EXPECT_THAT(text, HasSubstr("batches: 7\n"));
  EXPECT_THAT(text, HasSubstr("slots_per_trial: 2\n"));
  EXPECT_EQ(call({"experiment", "create", config, "--set=name"}).code, 2);
  EXPECT_THAT(call({"experiment", "create", config, "--set=name.first=x"}).error, HasSubstr("has no keys below it"));
}

TEST_F(ExperimentOfCluster, CreateShowsWhatIsWrong) {
  head_.on<v1::CreateExperimentRequest, v1::CreateExperimentReply>(
      "Experiments/CreateExperiment", [](const v1::CreateExperimentRequest&) -> Result<v1::CreateExperimentReply> {
        return make_error(ErrorCode::kInvalidArgument, "digits.yaml:3:1: searcher.metric: is a required property");
      });
  const std::string config = write("digits.yaml", kDigits);
  const Output output = call({"experiment", "create", config});
  EXPECT_EQ(output.code, 3);
  EXPECT_THAT(output.error, HasSubstr("searcher.metric: is a required property"));
  head_.on<v1::CreateExperimentRequest, v1::CreateExperimentReply>(
      "Experiments/CreateExperiment", [](const v1::CreateExperimentRequest&) -> Result<v1::CreateExperimentReply> {
        return make_error(ErrorCode::kInvalidArgument, "a: first (d.yaml:1:1)\nb: second (d.yaml:2:1)");
      });
  const Output several = call({"experiment", "create", config});
  EXPECT_EQ(several.code, 3);
  EXPECT_THAT(several.error, HasSubstr("error: a: first (d.yaml:1:1)\nerror: b: second (d.yaml:2:1)\n"));
  EXPECT_THAT(several.error, HasSubstr("errors in the configuration: 2"));
  EXPECT_EQ(call({"experiment", "create", (folder_.path() / "none.yaml").string()}).code, 1);
  const std::string trial_class = write("class.yaml",
                                        "entrypoint: model_def:Digits\nhyperparameters: {global_batch_size: 8}\n"
                                        "searcher: {name: single, metric: loss, max_length: {batches: 100}}\n");
  const Output without = call({"experiment", "create", trial_class});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.error, HasSubstr("the entrypoint model_def:Digits needs code: name its folder"));
}

TEST_F(ExperimentOfCluster, CreateValidatesOnly) {
  const std::string config = write("digits.yaml", kDigits);
  const Output output = call({"experiment", "create", config, "--validate"});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_EQ(output.out, config + ": the configuration is valid\n");
  EXPECT_EQ(created_.size(), 1U);
}

TEST_F(ExperimentOfCluster, CreateFollowsUntilTheEnd) {
  experiment_.set_state("COMPLETED");
  const std::string config = write("digits.yaml", kDigits);
  const Output output = call({"experiment", "create", config, "--follow"});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_THAT(output.error, HasSubstr("created experiment 3; Ctrl-C leaves it running"));
  experiment_.set_state("ERROR");
  experiment_.set_reason("trial 7 failed");
  const Output failed = call({"experiment", "create", config, "-f"});
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.error, HasSubstr("experiment 3 (digits): ERROR"));
  EXPECT_THAT(failed.error, HasSubstr("trial 7 failed"));
  EXPECT_EQ(call({"experiment", "create", config, "-f", "--paused"}).code, 2);
}

TEST_F(ExperimentOfCluster, ForkTakesTheConfigurationOfItsParent) {
  const Output output = call({"experiment", "fork", "3", "--set=hyperparameters.lr=0.5"});
  EXPECT_EQ(output.code, 0) << output.error;
  ASSERT_EQ(created_.size(), 2U);
  EXPECT_EQ(created_[1].parent(), 3);
  EXPECT_FALSE(created_[1].continues());
  EXPECT_THAT(created_[1].config(), HasSubstr("lr: 0.5\n"));
  EXPECT_EQ(created_[1].files_sha256(), "") << "the head takes the code of the parent";
  EXPECT_EQ(call({"experiment", "continue", "3"}).code, 0);
  EXPECT_TRUE(created_[3].continues());
  experiment_.set_original_config("checkpoint_storage: {secret_key: \"********\"}\n");
  EXPECT_EQ(call({"experiment", "fork", "3"}).code, 0);
  EXPECT_THAT(created_[5].config(), HasSubstr("********")) << "the head takes the secrets of the parent";
  EXPECT_EQ(call({"experiment", "fork", "3", write("digits.yaml", kDigits)}).code, 0);
}

TEST_F(ExperimentOfCluster, ReproduceTakesTheCompleteConfiguration) {
  experiment_.set_config(R"({"name": "digits", "reproducibility": {"experiment_seed": 4711}})");
  const Output output = call({"experiment", "reproduce", "3"});
  EXPECT_EQ(output.code, 0) << output.error;
  ASSERT_EQ(created_.size(), 2U);
  EXPECT_EQ(created_[1].parent(), 3);
  EXPECT_THAT(created_[1].config(), HasSubstr("4711"));
  experiment_.set_config(R"({"checkpoint_storage": {"secret_key": "********"}})");
  EXPECT_EQ(call({"experiment", "reproduce", "3"}).code, 0);
  EXPECT_THAT(created_[3].config(), HasSubstr("********")) << "the head takes the secrets of the parent";
}

TEST_F(ExperimentOfCluster, TheCodeFolderComesInPieces) {
  namespace fs = std::filesystem;
  const fs::path code = folder_.path() / "code";
  fs::create_directories(code / "sub");
  std::ofstream(code / "train.py") << "print(1)\n";
  std::ofstream(code / "sub/data") << std::string(5000, 'x');
  ASSERT_TRUE(pack_directory(code, folder_.path() / "archive"));
  std::ifstream in(folder_.path() / "archive", std::ios::binary);
  const std::string archive{std::istreambuf_iterator<char>(in), {}};
  head_.on<v1::GetExperimentFilesRequest, v1::GetExperimentFilesReply>(
      "Experiments/GetExperimentFiles",
      [&](const v1::GetExperimentFilesRequest& request) -> Result<v1::GetExperimentFilesReply> {
        if (request.id() != 3) return make_error(ErrorCode::kNotFound, "experiment 4 was created without code");
        v1::GetExperimentFilesReply reply;
        reply.set_size_bytes(static_cast<int64_t>(archive.size()));
        reply.set_data(archive.substr(static_cast<size_t>(request.offset()), 7));
        return reply;
      });
  const fs::path target = folder_.path() / "fetched";
  const Output output = call({"experiment", "download-model-def", "3", target.string()});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_THAT(output.out, HasSubstr("the code of experiment 3 is in "));
  EXPECT_EQ(fs::file_size(target / "sub/data"), 5000U);
  EXPECT_TRUE(fs::exists(target / "train.py"));
  const Output none = call({"experiment", "download-model-def", "4"});
  EXPECT_EQ(none.code, 6);
  EXPECT_THAT(none.error, HasSubstr("was created without code"));
}

TEST_F(ExperimentOfCluster, ListAsksForWhatTheFlagsSay) {
  v1::ListExperimentsRequest asked;
  head_.on<v1::ListExperimentsRequest, v1::ListExperimentsReply>(
      "Experiments/ListExperiments",
      [&](const v1::ListExperimentsRequest& request) -> Result<v1::ListExperimentsReply> {
        asked = request;
        v1::ListExperimentsReply reply;
        *reply.add_experiments() = experiment_;
        reply.set_total(5);
        return reply;
      });
  const Output output = call({"experiment", "list", "--state=active", "--state=PAUSED", "--label=a", "--all"});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_THAT(asked.states(), ElementsAre("ACTIVE", "PAUSED"));
  EXPECT_EQ(asked.label(), "a");
  EXPECT_TRUE(asked.archived());
  EXPECT_THAT(output.out, HasSubstr("id  name    state   progress  trials  searcher  best"));
  EXPECT_THAT(output.out, HasSubstr(" 3  digits  ACTIVE       40%       2  random    0.25"));
  EXPECT_THAT(output.out, HasSubstr("… 4 more; --limit shows them"));
  EXPECT_EQ(json({"e", "list"})["experiments"][0]["name"], "digits");
  const Output wrong = call({"experiment", "list", "--state=RUNING"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.error, HasSubstr("--state: expected one of ACTIVE"));
}

TEST_F(ExperimentOfCluster, DescribeShowsTheMainParts) {
  const Output output = call({"experiment", "describe", "3"});
  EXPECT_EQ(output.code, 0) << output.error;
  for (const char* part : {"experiment 3 · digits · ACTIVE, RUNNING\n", "2: 1 ACTIVE, 1 COMPLETED\n",
                           "loss 0.25, trial 7\n", "random, minimizes loss, up to 100 batches\n",
                           "lr: log -4…-1; net.n = 2\n", "python3 train.py\n", "lr=0.01 net.n=2", "job-9"})
    EXPECT_THAT(output.out, HasSubstr(part));
  EXPECT_EQ(json({"experiment", "describe", "3"})["config"]["resources"]["slots_per_trial"], 2);
  EXPECT_EQ(call({"experiment", "describe", "4"}).code, 6);
  EXPECT_EQ(call({"experiment", "describe", "x"}).code, 2);
  EXPECT_THAT(call({"experiment", "list-trials", "3"}).out, HasSubstr("0b5f1c62"));
}

TEST_F(ExperimentOfCluster, ConfigOfAnExperiment) {
  const Output output = call({"experiment", "config", "3"});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_THAT(output.out, HasSubstr("slots_per_trial: 2\n"));
  EXPECT_EQ(json({"experiment", "config", "3"})["name"], "digits");
  EXPECT_EQ(call({"experiment", "config", "3", "--original"}).out, kDigits);
}

TEST_F(ExperimentOfCluster, ChangesAreMadeToEach) {
  EXPECT_THAT(call({"experiment", "pause", "3"}).out, HasSubstr("experiment 3 (digits): ACTIVE"));
  for (const char* command : {"activate", "cancel", "kill", "archive", "unarchive"})
    EXPECT_EQ(call({"experiment", command, "3"}).code, 0);
  EXPECT_EQ(call({"experiment", "delete", "3", "--yes"}).code, 0);
  EXPECT_THAT(changed_,
              ElementsAre("pause 3", "activate 3", "cancel 3", "kill 3", "archive 3", "unarchive 3", "delete 3"));
  changed_.clear();
  const Output some = call({"experiment", "kill", "4", "3"});
  EXPECT_EQ(some.code, 6);
  EXPECT_THAT(some.error, HasSubstr("no experiment 4"));
  EXPECT_THAT(changed_, ElementsAre("kill 4", "kill 3"));
}

TEST_F(ExperimentOfCluster, WaitHasTheExitCodeOfTheEnd) {
  experiment_.set_state("COMPLETED");
  EXPECT_EQ(call({"experiment", "wait", "3"}).code, 0);
  for (const char* state : {"ERROR", "CANCELED"}) {
    experiment_.set_state(state);
    EXPECT_EQ(call({"experiment", "wait", "3"}).code, 1) << state;
  }
  EXPECT_EQ(call({"experiment", "wait", "4"}).code, 6);
}

TEST_F(ExperimentOfCluster, EditSendsWhatIsGiven) {
  EXPECT_EQ(call({"experiment", "edit", "3", "--name=x", "--notes=", "--max-slots=4", "--save-trial-best=0"}).code, 0);
  EXPECT_EQ(edited_.name(), "x");
  EXPECT_TRUE(edited_.has_notes());
  EXPECT_EQ(edited_.max_slots(), 4) << edited_.ShortDebugString();
  EXPECT_TRUE(edited_.has_save_trial_best());
  EXPECT_FALSE(edited_.has_description());
  EXPECT_FALSE(edited_.has_priority());
  EXPECT_EQ(call({"experiment", "edit", "3"}).code, 2);
  EXPECT_EQ(call({"experiment", "label", "add", "3", "a", "b"}).code, 0);
  EXPECT_THAT(edited_.add_labels(), ElementsAre("a", "b"));
  EXPECT_EQ(call({"experiment", "label", "remove", "3", "a"}).code, 0);
  EXPECT_THAT(edited_.remove_labels(), ElementsAre("a"));
  EXPECT_EQ(call({"experiment", "move", "3", "--workspace=w", "--project=p"}).code, 0);
  EXPECT_EQ(edited_.workspace() + "/" + edited_.project(), "w/p");
}

TEST_F(ExperimentOfCluster, MetricsAsTableJsonAndCsv) {
  v1::GetMetricsRequest asked;
  head_.on<v1::GetMetricsRequest, v1::GetMetricsReply>(
      "Experiments/GetMetrics", [&](const v1::GetMetricsRequest& request) -> Result<v1::GetMetricsReply> {
        asked = request;
        v1::GetMetricsReply reply;
        v1::TrialMetricSeries& series = *reply.add_series();
        series.set_trial(7);
        series.set_group("validation");
        series.set_metric("loss,\"a\"");
        for (int i = 1; i <= 3; ++i) {
          series.add_batches(i * 10);
          series.add_values(1.0 / i);
          series.add_times_ms(i);
        }
        return reply;
      });
  const Output table = call({"experiment", "metrics", "3", "--metric=a", "--metric=b"});
  EXPECT_EQ(table.code, 0) << table.error;
  EXPECT_THAT(asked.trials(), ElementsAre(7));
  EXPECT_THAT(asked.metrics(), ElementsAre("a", "b"));
  EXPECT_THAT(table.out, HasSubstr("0.333333  0.333333        1"));
  EXPECT_EQ(json({"trial", "metrics", "7", "--group=training"})["series"][0]["values"][0], 1.0);
  EXPECT_EQ(asked.group(), "training");
  const Output csv = call({"trial", "metrics", "7", "--csv"});
  EXPECT_EQ(asked.max_points(), -1);
  EXPECT_THAT(csv.out, HasSubstr("trial,group,metric,batches,value,time_ms\n7,validation,\"loss,\"\"a\"\"\",10,1,1\n"));
}

TEST_F(ExperimentOfCluster, TrialsAreShownAndKilled) {
  const Output output = call({"trial", "describe", "7"});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_THAT(output.out, HasSubstr("trial 7 of experiment 3 · COMPLETED\n"));
  EXPECT_THAT(output.out, HasSubstr(trial_.best_checkpoint()));
  head_.on<v1::KillTrialRequest, v1::TrialInfo>(
      "Experiments/KillTrial", [this](const v1::KillTrialRequest&) -> Result<v1::TrialInfo> { return trial_; });
  EXPECT_EQ(call({"trial", "kill", "7"}).out, "trial 7 of experiment 3: COMPLETED, job-9\n");
  // Its job has ended, without output.
  EXPECT_EQ(call({"trial", "logs", "7", "--follow"}).code, 0);
  trial_.set_state("ERROR");
  EXPECT_EQ(call({"trial", "logs", "7", "--follow"}).code, 1);
  EXPECT_EQ(call({"experiment", "logs", "3"}).code, 0);
}

TEST_F(ExperimentOfCluster, CheckpointsAreCopiedAndDeleted) {
  const std::string stored = write("shared/" + checkpoint_.id() + "/weights.pt", "bytes");
  checkpoint_.set_storage(fs::path(stored).parent_path().string());
  EXPECT_THAT(call({"checkpoint", "describe", "0b5f"}).out, HasSubstr("weights.pt"));
  const fs::path target = folder_.path() / "model";
  const Output output = call({"checkpoint", "download", "0b5f", target.string()});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_THAT(output.out, HasSubstr("checkpoint " + checkpoint_.id() + " is in " + target.string()));
  EXPECT_TRUE(fs::exists(target / "weights.pt"));
  EXPECT_EQ(json({"trial", "download", "7", (folder_.path() / "best").string()})["bytes"], 5);
  trial_.clear_best_checkpoint();
  EXPECT_THAT(call({"trial", "download", "7"}).error, HasSubstr("--latest downloads 9c5f1c62"));
  checkpoint_.set_storage("/nowhere/" + checkpoint_.id());
  const Output elsewhere = call({"checkpoint", "download", "0b5f"});
  EXPECT_EQ(elsewhere.code, 6);
  EXPECT_THAT(elsewhere.error, HasSubstr("which this machine does not have"));
  v1::DeleteCheckpointsRequest deleted;
  head_.on<v1::DeleteCheckpointsRequest, v1::DeleteCheckpointsReply>(
      "Experiments/DeleteCheckpoints",
      [&](const v1::DeleteCheckpointsRequest& request) -> Result<v1::DeleteCheckpointsReply> {
        deleted = request;
        return v1::DeleteCheckpointsReply();
      });
  EXPECT_EQ(call({"checkpoint", "rm", "0b5f", "-y"}).code, 0);
  EXPECT_THAT(deleted.ids(), ElementsAre(checkpoint_.id()));
  head_.on<v1::ListCheckpointsRequest, v1::ListCheckpointsReply>(
      "Experiments/ListCheckpoints",
      [this](const v1::ListCheckpointsRequest& request) -> Result<v1::ListCheckpointsReply> {
        v1::ListCheckpointsReply reply;
        if (request.trial() != 8) *reply.add_checkpoints() = checkpoint_;
        return reply;
      });
  EXPECT_THAT(call({"checkpoint", "list", "3"}).out, HasSubstr(checkpoint_.id()));
  EXPECT_EQ(call({"experiment", "list-checkpoints", "3", "--trial=8"}).out, "no checkpoints\n");
  checkpoint_.set_state("DELETED");
  EXPECT_THAT(call({"checkpoint", "download", "0b5f"}).error, HasSubstr("is DELETED"));
}

TEST_F(ExperimentOfCluster, HiddenCommandsAreNotInTheHelp) {
  const Output help = run({"experiment", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("create"));
  EXPECT_THAT(help.out, Not(HasSubstr("run-trial")));
  EXPECT_THAT(help.out, Not(HasSubstr("run-gc")));
}

}  // namespace
}  // namespace volador::cli
