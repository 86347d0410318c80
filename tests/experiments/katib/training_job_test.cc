#include "experiments/katib/training_job.h"

#include <gmock/gmock.h>

#include "experiments/katib/trial_template.h"
#include "runtime/yaml/reader.h"
#include "tests/experiments/katib/katib_data.h"

namespace volador::experiments::katib {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

v1::JobSpec job(const std::string& text) {
  const auto document = yaml::read(text, "job.yaml");
  EXPECT_TRUE(document) << document.error().text();
  auto made = job_of(document->root);
  EXPECT_TRUE(made) << made.error().message;
  return made.value_or(v1::JobSpec());
}

v1::JobSpec job_of_trial(const std::string& file, const Assignments& assignments) {
  const Resource resource = katib_resource(file);
  const TrialTemplate& trial_template = resource.experiment->trial_template;
  const auto object = substitute(trial_template, {.name = "trial-1", .name_space = "kubeflow"}, assignments);
  EXPECT_TRUE(object) << object.error().message;
  const auto made = job_of(*object, trial_template.primary_container);
  EXPECT_TRUE(made) << made.error().message;
  return made.value_or(v1::JobSpec());
}

std::vector<std::string> words(const v1::JobSpec& spec) { return {spec.command().begin(), spec.command().end()}; }

TEST(KatibTrainingJob, MakesTheJobOfTheGuide) {
  const v1::JobSpec spec = job_of_trial("bayesian-optimization.yaml",
                                        {{"lr", "0.014183662191100063"}, {"num-layers", "3"}, {"optimizer", "sgd"}});
  EXPECT_THAT(words(spec), ElementsAre("python3", "/opt/mxnet-mnist/mnist.py", "--batch-size=64",
                                       "--lr=0.014183662191100063", "--num-layers=3", "--optimizer=sgd"));
  EXPECT_EQ(spec.name(), "trial-1");
  EXPECT_EQ(spec.project(), "kubeflow");
  EXPECT_EQ(spec.mode(), "single");
  EXPECT_EQ(spec.nodes(), 1);
  EXPECT_EQ(spec.max_restarts(), 6);
}

TEST(KatibTrainingJob, MakesThePyTorchJobOfTheGuide) {
  const v1::JobSpec spec = job_of_trial("pytorch.yaml", {{"lr", "0.02"}, {"momentum", "0.7"}});
  EXPECT_THAT(words(spec),
              ElementsAre("bash", "-c",
                          "export PET_NNODES=\"$VOLADOR_JOB_NODES\" PET_NODE_RANK=\"$RANK\" PET_NPROC_PER_NODE=1 "
                          "PET_MASTER_ADDR=\"$MASTER_ADDR\" PET_MASTER_PORT=\"$MASTER_PORT\"; exec \"$0\" \"$@\"",
                          "python3", "/opt/pytorch-mnist/mnist.py", "--epochs=1", "--lr=0.02", "--momentum=0.7"));
  EXPECT_EQ(spec.mode(), "torch");  // MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK.
  EXPECT_EQ(spec.nodes(), 3);
  EXPECT_THAT(spec.env(), UnorderedElementsAre(Pair("PYTHONUNBUFFERED", "1")));
}

TEST(KatibTrainingJob, ReadsResourcesLimitsAndPlaces) {
  const v1::JobSpec spec = job(R"yaml(
apiVersion: batch/v1
kind: Job
metadata: {name: hello, namespace: default}
spec:
  backoffLimit: 2
  activeDeadlineSeconds: 3600
  template:
    spec:
      terminationGracePeriodSeconds: 60
      priorityClassName: urgent
      nodeSelector: {disk: ssd, kubernetes.io/os: linux, kubernetes.io/hostname: gpu-1, pool: a100}
      containers:
      - name: main
        command: [python3, "$(FOLDER)/train.py", "$$(FOLDER)", "$(OTHER)"]
        args: ["--name=$(NAME)"]
        workingDir: /opt/code
        env:
        - {name: FOLDER, value: /opt/code}
        - {name: NAME, value: "in $(FOLDER)"}
        - {name: HF_TOKEN, value: hf_abc}
        - {
  name:
    POD, valueFrom : {
    fieldRef : {
    fieldPath:
      metadata.name
    }
    }}
        resources:
          requests: {cpu: 500m, memory: 1Gi}
          limits: {cpu: "2", memory: 4Gi, nvidia.com/gpu: 2, example.com/fpga: 1}
)yaml");
  EXPECT_THAT(words(spec),
              ElementsAre("python3", "/opt/code/train.py", "$(FOLDER)", "$(OTHER)", "--name=in /opt/code"));
  EXPECT_THAT(spec.env(),
              UnorderedElementsAre(Pair("FOLDER", "/opt/code"), Pair("NAME", "in /opt/code"), Pair("POD", "hello")));
  EXPECT_THAT(spec.secrets(), UnorderedElementsAre(Pair("HF_TOKEN", "hf_abc")));
  EXPECT_EQ(spec.cpus(), 0.5);
  EXPECT_FALSE(spec.share_nodes()) << "of one pod";
  EXPECT_EQ(spec.gpus(), 2);
  EXPECT_EQ(spec.memory_bytes(), int64_t{4} << 30);
  EXPECT_THAT(spec.resources(), UnorderedElementsAre(Pair("example.com/fpga", 1)));
  EXPECT_EQ(spec.max_restarts(), 2);
  EXPECT_EQ(spec.duration_s(), 3600);
  EXPECT_EQ(spec.graceful_s(), 60);
  EXPECT_EQ(spec.priority(), "urgent");
  EXPECT_THAT(spec.labels(), UnorderedElementsAre(Pair("disk", "ssd")));
  EXPECT_THAT(spec.node_names(), ElementsAre("gpu-1"));
  EXPECT_EQ(spec.pool(), "a100");
  EXPECT_EQ(spec.directory(), "/opt/code");
  EXPECT_EQ(spec.project(), "");
}

TEST(KatibTrainingJob, PathsBelowTheWorkingDirectoryAreThoseOfTheCodeFolder) {
  v1::JobSpec spec =
      job("apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: m, "
          "workingDir: "
          "/opt/mnist, command: [python3, /opt/mnist/train.py, --data=/opt/mnist, /opt/mnist2/x]}]}}}\n");
  add_code(std::string(64, 'a'), spec);
  EXPECT_THAT(words(spec), ElementsAre("python3", "train.py", "--data=/opt/mnist", "/opt/mnist2/x"));
  EXPECT_EQ(spec.directory(), "");
  EXPECT_EQ(spec.files_sha256(), std::string(64, 'a'));
}

TEST(KatibTrainingJob, PodsOfAnIndexedJobAreNodes) {
  const v1::JobSpec spec = job(
      "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {completions: 3, parallelism: 3, completionMode: "
      "Indexed, template: {spec: {initContainers: [{name: i, command: [sh, -c, \"echo it's\"]}], containers: [{name: "
      "m, "
      "command: [work]}]}}}\n");
  EXPECT_EQ(spec.nodes(), 3);
  EXPECT_THAT(
      words(spec),
      ElementsAre("bash", "-c", "export JOB_COMPLETION_INDEX=\"$VOLADOR_JOB_RANK\"; exec \"$0\" \"$@\"", "work"));
  EXPECT_EQ(spec.setup(), R"('sh' '-c' 'echo it'\''s')");
}

TEST(KatibTrainingJob, ReplicasWithCommandsOfTheirOwnAreChosenByTheRank) {
  const v1::JobSpec spec = job(R"(
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: a}
spec:
  runPolicy: {backoffLimit: 1, schedulingPolicy: {priorityClass: very-urgent}}
  tfReplicaSpecs:
    Worker: {replicas: 2, template: {spec: {containers: [{name: tensorflow, command: [work, b], env: [{name: A, value: "1"}, {name: B, value: "2"}]}]}}}
    PS: {replicas: 2, template: {spec: {containers: [{name: tensorflow, command: [serve], env: [{name: A, value: "1"}]}]}}}
    Chief: {template: {spec: {containers: [{name: tensorflow, command: [work, b], env: [{name: A, value: "1"}, {name: B, value: "2"}], resources: {limits: {cpu: 4}}}]}}}
)");
  EXPECT_EQ(spec.mode(), "tensorflow");
  EXPECT_EQ(spec.nodes(), 5);
  EXPECT_TRUE(spec.share_nodes());
  EXPECT_EQ(spec.parameter_servers(), 2);
  EXPECT_EQ(spec.cpus(), 4);
  EXPECT_EQ(spec.max_restarts(), 1);
  EXPECT_EQ(spec.priority(), "very_urgent");
  EXPECT_THAT(words(spec),
              ElementsAre("bash", "-c",
                          "while [ \"$VOLADOR_JOB_RANK\" -ge \"$1\" ]; do shift \"$(($2 + 2))\"; done; exec "
                          "\"${@:3:$2}\"",
                          "bash", "2", "1", "serve", "5", "4", "env", "B=2", "work", "b"));
  EXPECT_THAT(spec.env(), UnorderedElementsAre(Pair("A", "1")));
}

TEST(KatibTrainingJob, AnElasticPyTorchJobHasBounds) {
  const v1::JobSpec spec = job(R"(
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: elastic}
spec:
  nprocPerNode: "2"
  elasticPolicy: {minReplicas: 1, maxReplicas: 4, maxRestarts: 3, rdzvBackend: c10d}
  pytorchReplicaSpecs:
    Worker: {replicas: 2, restartPolicy: Never, template: {spec: {containers: [{name: pytorch, command: [torchrun, x.py]}]}}}
)");
  EXPECT_EQ(spec.nodes(), 4);
  EXPECT_EQ(spec.min_nodes(), 1);
  EXPECT_EQ(spec.max_restarts(), 0);
  EXPECT_THAT(words(spec)[2],
              "export PET_RDZV_BACKEND='c10d' PET_RDZV_ENDPOINT=\"$MASTER_ADDR:$MASTER_PORT\" PET_RDZV_ID='elastic' "
              "PET_MAX_RESTARTS=3 PET_NNODES=\"$VOLADOR_JOB_NODES\" PET_NODE_RANK=\"$RANK\" PET_NPROC_PER_NODE=2 "
              "PET_MASTER_ADDR=\"$MASTER_ADDR\" PET_MASTER_PORT=\"$MASTER_PORT\" "
              "WORLD_SIZE=$((VOLADOR_JOB_NODES * 2)); exec \"$0\" \"$@\"");
}

TEST(KatibTrainingJob, TheLauncherOfAnMpiJobRunsOnTheFirstWorker) {
  const v1::JobSpec spec = job(R"(
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: pi}
spec:
  slotsPerWorker: 2
  mpiReplicaSpecs:
    Launcher: {replicas: 1, template: {spec: {containers: [{name: launcher, command: [mpirun, -n, "4", pi]}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: worker, resources: {limits: {cpu: 2}}}]}}}
)");
  EXPECT_EQ(spec.mode(), "mpi");
  EXPECT_EQ(spec.nodes(), 2);
  EXPECT_EQ(spec.cpus(), 2);
  EXPECT_THAT(words(spec), ElementsAre("mpirun", "-n", "4", "pi"));
  EXPECT_THAT(spec.env(), Contains(Pair("OMPI_MCA_rmaps_base_oversubscribe", "1")));
}

TEST(KatibTrainingJob, MakesTheJobOfATrainJob) {
  const v1::JobSpec spec = job(R"(
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: mnist}
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 2
    numProcPerNode: 4
    command: [torchrun, mnist.py]
    env: [{name: A, value: b}]
    resourcesPerNode: {requests: {cpu: 4, nvidia.com/gpu: 4}}
)");
  EXPECT_EQ(spec.mode(), "torch");
  EXPECT_EQ(spec.nodes(), 2);
  EXPECT_EQ(spec.gpus(), 4);
  EXPECT_EQ(words(spec).at(3), "torchrun");
  EXPECT_NE(words(spec).at(2).find("PET_NPROC_PER_NODE=4 "), std::string::npos);
}

}  // namespace
}  // namespace volador::experiments::katib
