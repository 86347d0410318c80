#include "experiments/launch/trial_launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/protocol/volador/v1/experiments.pb.h"

namespace volador::experiments {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Environment = std::map<std::string, std::string>;
using Json = nlohmann::json;

v1::StartTrialRunReply run_of(const std::string& entrypoint, std::vector<std::string> command,
                              const std::string& trial_class = "") {
  v1::StartTrialRunReply run;
  run.mutable_trial()->set_id(7);
  run.mutable_trial()->set_experiment(3);
  run.mutable_trial()->set_seed(1234);
  run.mutable_trial()->set_run(2);
  run.mutable_trial()->set_hparams(R"({"lr":0.1,"layers":{"n":2}})");
  run.set_config(R"({"name":"digits","entrypoint":)" + entrypoint + R"(,"searcher":{"metric":"loss"}})");
  run.set_storage(R"({"type":"shared_fs","host_path":"/shared"})");
  (*run.mutable_env())["DET_TRIAL_ID"] = "7";
  (*run.mutable_env())["DET_CLUSTER_ID"] = "heron";
  (*run.mutable_env())["DET_TASK_ID"] = "trial-7";
  (*run.mutable_env())["DET_ALLOCATION_ID"] = "trial-7.2";
  for (const std::string& word : command) run.add_command(word);
  run.set_trial_class(trial_class);
  run.set_slots(1);
  run.set_slots_on_node(1);
  run.set_batches(100);
  run.set_latest_checkpoint("0b5f1c62");
  return run;
}

TrialNode node_of(int rank = 0, std::vector<std::string> hosts = {"first"}) {
  TrialNode node;
  node.address = "10.0.0.1:7700";
  node.token = "vt_secret";
  node.job = "job-9";
  node.name = hosts[static_cast<size_t>(rank)];
  node.rank = rank;
  node.hosts = std::move(hosts);
  node.port = 29507;
  node.directory = "/scratch/code";
  node.info_folder = "/scratch/job/trial";
  return node;
}

TEST(TrialLaunch, OneNodeWithAProgram) {
  const auto launch = make_trial_launch(run_of(R"("python3 train.py --fast")", {"python3 train.py --fast"}), node_of());
  ASSERT_TRUE(launch) << launch.error().message;
  EXPECT_THAT(launch->command, ElementsAre("bash", "-c", "python3 train.py --fast"));
  EXPECT_EQ(launch->env, (Environment{{"DET_AGENT_ID", "first"},
                                      {"DET_ALLOCATION_ID", "trial-7.2"},
                                      {"DET_CHIEF_IP", "127.0.0.1"},
                                      {"DET_CLUSTER_ID", "heron"},
                                      {"DET_CONTAINER_ID", "job-9.0"},
                                      {"DET_MASTER", "https://10.0.0.1:7700"},
                                      {"DET_RESOURCES_ID", "job-9.0"},
                                      {"DET_SESSION_TOKEN", "vt_secret"},
                                      {"DET_SLOT_IDS", "[0]"},
                                      {"DET_TASK_ID", "trial-7"},
                                      {"DET_TRIAL_ID", "7"},
                                      {"DET_WORKDIR", "/scratch/code"},
                                      {"MASTER_ADDR", "127.0.0.1"},
                                      {"MASTER_PORT", "29507"},
                                      {"VOLADOR_INFO_DIR", "/scratch/job/trial"},
                                      {"VOLADOR_TRIAL_CONFIG", "/scratch/job/trial/config.json"}}));
  EXPECT_THAT(launch->left_out, IsEmpty());
  std::map<std::string, Json> files;
  for (const auto& [name, text] : launch->files) files[name] = Json::parse(text);
  const Json config = {
      {"name", "digits"}, {"entrypoint", "python3 train.py --fast"}, {"searcher", {{"metric", "loss"}}}};
  EXPECT_EQ(
      files,
      (std::map<std::string, Json>{
          {"rendezvous.json", {{"container_addrs", {"first"}}, {"container_rank", 0}, {"container_slot_counts", {1}}}},
          {"resources.json", {{"gpu_uuids", Json::array()}}},
          {"trial.json",
           {{"trial_id", 7},
            {"experiment_id", 3},
            {"trial_seed", 1234},
            {"hparams", {{"lr", 0.1}, {"layers", {{"n", 2}}}}},
            {"config", config},
            {"steps_completed", 100},
            {"trial_run_id", 2},
            {"debug", false},
            {"inter_node_network_interface", nullptr}}},
          {"cluster.json",
           {{"master_url", "https://10.0.0.1:7700"},
            {"cluster_id", "heron"},
            {"agent_id", "first"},
            {"slot_ids", {0}},
            {"task_id", "trial-7"},
            {"allocation_id", "trial-7.2"},
            {"session_token", "vt_secret"},
            {"task_type", "TRIAL"},
            {"latest_checkpoint", "0b5f1c62"}}},
          {"config.json", config},
          {"storage.json", {{"type", "shared_fs"}, {"host_path", "/shared"}}}}));
}

TEST(TrialLaunch, TwoNodesWithATrialClass) {
  auto run = run_of(R"("model_def:Digits")", {}, "model_def:Digits");
  run.set_slots(8);
  run.set_slots_on_node(4);
  run.set_gpu(true);
  auto node = node_of(1, {"first", "second"});
  node.chief = "10.0.0.5";
  node.visible_gpus = "4,5,6,7";
  node.shims = "/venv/volador/compat/shims";
  node.python_path = "/home/ann/lib";
  const auto launch = make_trial_launch(run, node);
  ASSERT_TRUE(launch) << launch.error().message;
  EXPECT_THAT(launch->command,
              ElementsAre("python3", "-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "4",
                          "--node_rank", "1", "--max_restarts", "0", "--master_addr", "10.0.0.5", "--master_port",
                          "29507", "-m", "volador.determined", "--trial"));
  EXPECT_EQ(launch->env, (Environment{{"DET_AGENT_ID", "second"},
                                      {"DET_ALLOCATION_ID", "trial-7.2"},
                                      {"DET_CHIEF_IP", "10.0.0.5"},
                                      {"DET_CLUSTER_ID", "heron"},
                                      {"DET_CONTAINER_ID", "job-9.1"},
                                      {"DET_MASTER", "https://10.0.0.1:7700"},
                                      {"DET_RESOURCES_ID", "job-9.1"},
                                      {"DET_SESSION_TOKEN", "vt_secret"},
                                      {"DET_SLOT_IDS", "[4,5,6,7]"},
                                      {"DET_TASK_ID", "trial-7"},
                                      {"DET_TRIAL_ID", "7"},
                                      {"DET_WORKDIR", "/scratch/code"},
                                      {"MASTER_ADDR", "10.0.0.5"},
                                      {"MASTER_PORT", "29507"},
                                      {"PYTHONPATH", "/home/ann/lib:/venv/volador/compat/shims"},
                                      {"VOLADOR_INFO_DIR", "/scratch/job/trial"},
                                      {"VOLADOR_TRIAL_CLASS", "model_def:Digits"},
                                      {"VOLADOR_TRIAL_CONFIG", "/scratch/job/trial/config.json"}}));
  EXPECT_EQ(Json::parse(launch->files.at("rendezvous.json")),
            (Json{{"container_addrs", {"first", "second"}}, {"container_rank", 1}, {"container_slot_counts", {4, 4}}}));
}

TEST(TrialLaunch, TheHeadNamesItsPage) {
  auto run = run_of(R"("true")", {"true"});
  (*run.mutable_env())["DET_MASTER"] = "http://10.0.0.1:8265";
  const auto launch = make_trial_launch(run, node_of());
  EXPECT_EQ(launch->env.at("DET_MASTER"), "http://10.0.0.1:8265");
  EXPECT_EQ(Json::parse(launch->files.at("cluster.json"))["master_url"], "http://10.0.0.1:8265");
}

TEST(TrialLaunch, TheAuthorityOfTheHeadsPageIsAFile) {
  auto run = run_of(R"("true")", {"true"});
  (*run.mutable_env())[kMasterAuthority] = "-----BEGIN CERTIFICATE-----\n";
  const auto launch = make_trial_launch(run, node_of());
  EXPECT_EQ(launch->files.at("master.pem"), "-----BEGIN CERTIFICATE-----\n");
  EXPECT_EQ(launch->env.at("DET_MASTER_CERT_FILE"), node_of().info_folder + "/master.pem");
  EXPECT_FALSE(launch->env.contains(kMasterAuthority));
}

TEST(TrialLaunch, AClassInOneProcessNeedsNoLauncher) {
  auto run = run_of(R"("model_def:Digits")", {}, "model_def:Digits");
  run.set_slots(0);
  auto node = node_of();
  node.shims = "/shims";
  const auto launch = make_trial_launch(run, node);
  EXPECT_THAT(launch->command, ElementsAre("python3", "-m", "volador.determined", "--trial"));
  EXPECT_EQ(launch->env.at("DET_SLOT_IDS"), "[]") << "it has no slot";
  EXPECT_EQ(launch->env.at("PYTHONPATH"), "/shims");
}

TEST(TrialLaunch, AClassInSeveralProcessesOfOneNodeMeetsThere) {
  auto run = run_of(R"("model_def:Digits")", {}, "model_def:Digits");
  run.set_slots(2);
  run.set_slots_on_node(2);
  EXPECT_THAT(make_trial_launch(run, node_of())->command,
              ElementsAre("python3", "-m", "torch.distributed.run", "--nnodes", "1", "--nproc_per_node", "2",
                          "--node_rank", "0", "--max_restarts", "0", "--master_addr", "127.0.0.1", "--master_port",
                          "29507", "-m", "volador.determined", "--trial"));
}

TEST(TrialLaunch, AListIsAProgramWithItsArguments) {
  EXPECT_THAT(make_trial_launch(run_of(R"(["python3","a b.py"])", {"python3", "a b.py"}), node_of())->command,
              ElementsAre("python3", "a b.py"));
  EXPECT_THAT(make_trial_launch(run_of(R"(["./my train"])", {"./my train"}), node_of())->command,
              ElementsAre("./my train"));
  EXPECT_THAT(make_trial_launch(run_of(R"("a && b")", {"bash", "-c", "a && b"}), node_of())->command,
              ElementsAre("bash", "-c", "a && b"))
      << "the head has added the shell";
}

TEST(TrialLaunch, AStartupHookIsReadFirst) {
  auto node = node_of();
  node.has_startup_hook = true;
  EXPECT_THAT(
      make_trial_launch(run_of(R"(["python3","train.py"])", {"python3", "train.py"}), node)->command,
      ElementsAre("bash", "-c", "set -e; . ./startup-hook.sh; exec \"$@\"", "startup-hook.sh", "python3", "train.py"));
}

TEST(TrialLaunch, GpusWithNamesHaveNumbersToo) {
  auto run = run_of(R"("a:B")", {}, "a:B");
  run.set_gpu(true);
  run.set_slots(2);
  run.set_slots_on_node(2);
  auto node = node_of();
  node.visible_gpus = "GPU-1a,GPU-2b";
  const auto launch = make_trial_launch(run, node);
  EXPECT_EQ(launch->env.at("DET_SLOT_IDS"), "[0,1]");
  EXPECT_EQ(Json::parse(launch->files.at("resources.json")), (Json{{"gpu_uuids", {"GPU-1a", "GPU-2b"}}}));
}

TEST(TrialLaunch, LeavesOutVariablesThatNoProcessCanHave) {
  auto run = run_of(R"("true")", {"true"});
  (*run.mutable_env())["DET_EXPERIMENT_CONFIG"] = std::string(128 * 1024, 'x');
  const auto launch = make_trial_launch(run, node_of());
  EXPECT_THAT(launch->left_out, ElementsAre("DET_EXPERIMENT_CONFIG"));
  EXPECT_EQ(launch->env.count("DET_EXPERIMENT_CONFIG"), 0U);
}

TEST(TrialLaunch, RefusesWhatItCannotStart) {
  EXPECT_THAT(make_trial_launch(run_of(R"("true")", {}), node_of()).error().message,
              HasSubstr("no command for trial 7"));
  auto run = run_of(R"("true")", {"true"});
  run.set_config("{");
  EXPECT_THAT(make_trial_launch(run, node_of()).error().message, HasSubstr("configuration of the trial"));
  auto node = node_of();
  node.rank = 1;
  EXPECT_EQ(make_trial_launch(run_of(R"("true")", {"true"}), node).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace volador::experiments
