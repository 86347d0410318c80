// What the form of a resource of kind Experiment makes of its text.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { findings_of } from "../src/pages/config_findings";
import { command_of, number, range_of, renamed_parameter, ResourceText, script_of, text_of_path, whole, with_parameter, with_setting, without_parameter, words, type Path, type Setting } from "../src/pages/katib_document";
import { settings_of, sizes, values_of, with_architecture, with_nas_algorithm, with_operation, with_parameters } from "../src/pages/katib_nas_document";
import { amount_path, container_names, counts_of, differ, kTrialKinds, parts_of, with_count, with_equal_parts, with_kind } from "../src/pages/katib_trial_document";

const first = readFileSync("src/pages/katib_first.yaml", "utf8");
const kSettings: Path = ["spec", "algorithm", "algorithmSettings"];
const text_of = (text: string | null) => {
  assert.ok(text !== null, "the text allows the change");
  return new ResourceText(text as string);
};

test("fields show values of the text, and a change keeps comments and other keys", () => {
  const text = new ResourceText("# Rates\nkind: Experiment\nspec:\n  objective:\n    goal: 1e-3  # Enough.\n    type: minimize\n  maxTrialCount:\n");
  assert.ok(text.usable);
  assert.equal(text.shown(["spec", "objective", "goal"]), "1e-3");
  assert.equal(text.shown(["spec", "maxTrialCount"]), "");
  const next = text.with([["spec", "objective", "goal"], number("0.25")], [["spec", "maxTrialCount"], whole("12")], [["spec", "algorithm", "algorithmName"], "random"]);
  assert.equal(next, "# Rates\nkind: Experiment\nspec:\n  objective:\n    goal: 0.25 # Enough.\n    type: minimize\n  maxTrialCount: 12\n  algorithm:\n    algorithmName: random\n");
});

test("a value of undefined removes the key and what it leaves empty", () => {
  const text = new ResourceText("metadata: {name: a}\nspec:\n  algorithm:\n    algorithmName: tpe\n    algorithmSettings:\n      - {name: gamma, value: \"0.2\"}\n");
  assert.equal(with_setting(text, kSettings, "gamma", ""), "metadata: {name: a}\nspec:\n  algorithm:\n    algorithmName: tpe\n");
  assert.equal(text.with([["spec", "algorithm"], undefined]), "metadata: {name: a}\n");
});

test("values that YAML would read as something else are in quotes", () => {
  const text = text_of(new ResourceText("kind: Experiment\n").with([["spec", "a"], "0.001"], [["spec", "b"], "on"], [["spec", "c"], "1"], [["spec", "d"], "two\nlines\n"]));
  assert.equal(text.text, "kind: Experiment\nspec:\n  a: \"0.001\"\n  b: \"on\"\n  c: \"1\"\n  d: |\n    two\n    lines\n");
  const plain = text_of(new ResourceText("spec: {min: 5}\n").with([["spec", "min"], "0.5"]));
  assert.equal(plain.text, "spec: {min: \"0.5\"}\n", "a number that becomes a text");
});

test("numbers can be written letter by letter", () => {
  assert.deepEqual(["0", "0.", "0.0", "0.01", "1e-3", "-2", "x", ""].map(number), [0, "0.", "0.0", 0.01, "1e-3", -2, "x", undefined]);
  assert.deepEqual(["12", "1.5", " ", "-1"].map(whole), [12, "1.5", undefined, -1]);
  assert.deepEqual(words("a, b，c"), ["a", "b", "c"]);
});

test("the form refuses texts of another structure", () => {
  for (const text of ["", "- a\n", "a: [\n", "kind: Job\n", "kind: Experiment\n---\nkind: Experiment\n"]) assert.equal(new ResourceText(text).usable, false, text);
  assert.equal(new ResourceText("kind: Experiment\nspec: none\n").with([["spec", "algorithm", "algorithmName"], "random"]), null);
});

test("the placeholders of a trial follow the parameters of the search", () => {
  const text = new ResourceText(first);
  const added = text_of(with_parameter(text));
  assert.deepEqual(added.maps(["spec", "parameters"]).map((one) => one.name), ["lr", "parameter_2"]);
  assert.deepEqual(added.maps(["spec", "trialTemplate", "trialParameters"])[1], { name: "parameter_2", reference: "parameter_2" });
  const renamed = text_of(renamed_parameter(added, 0, "rate"));
  assert.deepEqual(renamed.maps(["spec", "trialTemplate", "trialParameters"])[0], { name: "learningRate", reference: "rate" });
  const gone = text_of(without_parameter(renamed, 0));
  assert.deepEqual(gone.maps(["spec", "trialTemplate", "trialParameters"]), [{ name: "parameter_2", reference: "parameter_2" }]);
});

test("a command is shown as a script, and written for a shell", () => {
  const [part] = parts_of(new ResourceText(first));
  assert.equal(text_of_path(part.at), "spec.trialTemplate.trialSpec.spec.template.spec.containers[0]");
  assert.equal(script_of({ command: ["python3", "train.py"], args: ["--lr=${trialParameters.lr}", "a b", "it's ${trialParameters.lr}", "it's $HOME"] }), "python3 train.py --lr=${trialParameters.lr} 'a b' \"it's ${trialParameters.lr}\" 'it'\\''s $HOME'");
  assert.equal(script_of({ command: ["bash", "-c", "echo $HOME"] }), "echo $HOME");
  assert.deepEqual(command_of("echo $HOME"), ["bash", "-c", "echo $HOME"]);
  assert.equal(command_of(" "), undefined);
});

const kTemplate: Path = ["spec", "trialTemplate"];
const kTrial: Path = [...kTemplate, "trialSpec"];
const kConditions = 'successCondition: status.conditions.#(type=="Complete")#|#(status=="True")#';
const with_trial = (primary: string, trial: string) => new ResourceText(`kind: Experiment\nspec:\n  trialTemplate:\n    primaryContainerName: ${primary}\n    trialSpec:\n${trial.replace(/^/gm, "      ").trimEnd()}\n`);

test("a trial of another kind keeps its container, its pod, its metadata and their comments", () => {
  const job = with_trial("training", `apiVersion: batch/v1
kind: Job
metadata:
  labels: {team: vision} # Who asks.
spec:
  template:
    spec:
      restartPolicy: OnFailure
      nodeSelector: {pool: gpu}
      containers:
        - name: sidecar
          command: [sleep, inf]
        # It trains.
        - name: training
          workingDir: /opt/mnist
          command: [python3, train.py] # All epochs.
          resources: {requests: {cpu: 2}}
`);
  for (const kind of kTrialKinds.filter((one) => one !== "Job")) {
    const text = text_of(with_kind(job, kind));
    assert.equal(text.shown([...kTrial, "kind"]), kind);
    const [part] = parts_of(text);
    assert.deepEqual(text.value([...part.at, "command"]), ["python3", "train.py"], kind);
    assert.deepEqual(text.value(part.resources), { requests: { cpu: 2 } }, kind);
    assert.equal(differ(text, parts_of(text)), false, kind);
    assert.ok(text.text.includes("labels: {team: vision} # Who asks."), kind);
    assert.ok(text.text.includes("# All epochs."), kind);
    if (kind !== "TrainJob") for (const part of ["# It trains.", "workingDir: /opt/mnist", "nodeSelector: {pool: gpu}", "name: sidecar", "restartPolicy: OnFailure"]) assert.ok(text.text.includes(part), `${kind} keeps ${part}: ${text.text}`);
    assert.ok(container_names(text).includes(text.shown([...kTemplate, "primaryContainerName"])), kind);
    const back = text_of(with_kind(text, "Job"));
    assert.deepEqual(back.value([...parts_of(back)[0].at, "command"]), ["python3", "train.py"], `${kind} and back`);
    assert.deepEqual(back.value(parts_of(back)[0].resources), { requests: { cpu: 2 } }, `${kind} and back`);
    assert.equal(back.shown([...kTrial, "spec", "template", "spec", "restartPolicy"]), kind === "TrainJob" ? "Never" : "OnFailure", `${kind} and back`);
  }
});

test("each kind has the version, the replicas and the names of containers of its operator", () => {
  const of = (kind: string) => text_of(with_kind(new ResourceText(first), kind));
  const shown = (kind: string) => [of(kind).shown([...kTrial, "apiVersion"]), of(kind).shown([...kTemplate, "primaryContainerName"]), Object.keys(of(kind).value([...kTrial, "spec"]) as object).join()];
  assert.deepEqual(kTrialKinds.filter((one) => one !== "Job").map(shown), [
    ["kubeflow.org/v1", "pytorch", "pytorchReplicaSpecs"],
    ["kubeflow.org/v1", "tensorflow", "tfReplicaSpecs"],
    ["kubeflow.org/v1", "mpi-launcher", "slotsPerWorker,mpiReplicaSpecs"],
    ["trainer.kubeflow.org/v1alpha1", "node", "runtimeRef,trainer"],
  ]);
  const command = ["python3", "-c", "print('loss=' + str(${trialParameters.learningRate}))"];
  assert.deepEqual(of("MPIJob").value([...kTrial, "spec"]), {
    slotsPerWorker: 1,
    mpiReplicaSpecs: {
      Launcher: { replicas: 1, restartPolicy: "Never", template: { spec: { containers: [{ name: "mpi-launcher", command }] } } },
      Worker: { replicas: 1, restartPolicy: "Never", template: { spec: { containers: [{ name: "mpi-worker" }] } } },
    },
  });
  assert.deepEqual(of("TrainJob").value([...kTrial, "spec"]), { runtimeRef: { name: "torch-distributed" }, trainer: { numNodes: 1, command } });
});

test("conditions that are those of the former kind go, others stay", () => {
  const text = text_of(with_kind(with_trial(`training\n    ${kConditions}\n    failureCondition: mine`, "kind: Job\nspec: {template: {spec: {containers: [{name: training, command: [a]}]}}}"), "MPIJob"));
  assert.deepEqual(["successCondition", "failureCondition"].map((key) => text.shown([...kTemplate, key])), ["", "mine"]);
});

test("an MPIJob of Katib's examples: the command is the launcher's, the amounts are the workers'", () => {
  const text = with_trial("mpi-launcher", `apiVersion: kubeflow.org/v1
kind: MPIJob
spec:
  slotsPerWorker: 1
  cleanPodPolicy: Running # Logs stay.
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template: {spec: {containers: [{name: mpi-launcher, command: [mpirun], args: [-np, "2", python, train.py], resources: {limits: {cpu: 500m}}}]}}
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: mpi-worker, resources: {limits: {cpu: 1, memory: 4Gi}}}]}}
`);
  const [part, ...more] = parts_of(text);
  assert.equal(more.length, 0);
  assert.equal(script_of(text.value(part.at) as Record<string, unknown>), "mpirun -np 2 python train.py");
  assert.equal(text_of_path(amount_path(text, part.resources, "cpu")), "spec.trialTemplate.trialSpec.spec.mpiReplicaSpecs.Worker.template.spec.containers[0].resources.limits.cpu");
  assert.deepEqual(container_names(text), ["mpi-launcher"]);
  const [workers, slots] = counts_of(text);
  assert.deepEqual([workers.label, text.shown(workers.path), slots.label, text.shown(slots.path)], ["workers", "2", "slots", "1"]);
  const next = text_of(with_count(text, workers, 4));
  assert.equal(next.text, text.text.replace("replicas: 2", "replicas: 4"), "only the number changes");
});

test("a TrainJob of Katib's examples: its trainer has the command and the amounts", () => {
  const text = with_trial("node", `apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
spec:
  runtimeRef:
    name: torch-distributed # Of the cluster.
  trainer:
    numNodes: 2
    command: [python3, mnist.py]
`);
  const [part] = parts_of(text);
  assert.deepEqual([text_of_path(part.at), text_of_path(amount_path(text, part.resources, "memory"))], ["spec.trialTemplate.trialSpec.spec.trainer", "spec.trialTemplate.trialSpec.spec.trainer.resourcesPerNode.limits.memory"]);
  assert.deepEqual(container_names(text), ["node", "trainer"]);
  assert.deepEqual(counts_of(text).map((one) => text.shown(one.path)), ["2", ""]);
  assert.equal(text.with([counts_of(text)[0].path, 3]), text.text.replace("numNodes: 2", "numNodes: 3"), "only the number changes");
});

test("numbers of replicas: a type that is missing gets a pod, and completions follow", () => {
  const job = new ResourceText(first);
  const [pods] = counts_of(job);
  assert.deepEqual(text_of(with_count(job, pods, 2)).value([...kTrial, "spec", "parallelism"]), 2);
  const completing = text_of(job.with([[...kTrial, "spec", "completions"], 1]));
  assert.equal(text_of(with_count(completing, pods, 3)).value([...kTrial, "spec", "completions"]), 3);
  const master = text_of(text_of(with_kind(job, "PyTorchJob")).with([[...kTrial, "spec", "pytorchReplicaSpecs", "Worker"], undefined]));
  const [workers] = counts_of(master);
  assert.equal(workers.usual, "0");
  assert.equal(with_count(master, workers, undefined), master.text);
  const both = text_of(with_count(master, workers, 3));
  assert.deepEqual(both.value([...kTrial, "spec", "pytorchReplicaSpecs", "Worker"]), { ...(master.value([...kTrial, "spec", "pytorchReplicaSpecs", "Master"]) as object), replicas: 3 });
  assert.deepEqual(counts_of(both).map((one) => [one.label, one.is_text]), [["workers", undefined], ["slots", true]]);
  const servers = counts_of(text_of(with_kind(job, "TFJob")))[1];
  assert.deepEqual(parts_of(text_of(with_count(text_of(with_kind(job, "TFJob")), servers, 2))).map((one) => one.type), ["Chief", "Worker", "PS"]);
  const launcher = text_of(text_of(with_kind(job, "MPIJob")).with([[...kTrial, "spec", "mpiReplicaSpecs", "Worker"], undefined]));
  assert.deepEqual(text_of(with_count(launcher, counts_of(launcher)[0], 2)).value([...kTrial, "spec", "mpiReplicaSpecs", "Worker"]), { replicas: 2, restartPolicy: "Never", template: { spec: { containers: [{ name: "mpi-worker" }] } } });
});

test("replicas with different commands are apart until they are made equal", () => {
  const text = with_trial("pytorch", `kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Master: {template: {spec: {containers: [{name: pytorch, command: [a], resources: {limits: {cpu: 1}}}]}}}
    Worker: {template: {spec: {containers: [{name: logs, command: [c]}, {name: pytorch, command: [b], env: [{name: X, value: "1"}]}]}}}
`);
  const parts = parts_of(text);
  assert.deepEqual(parts.map((one) => text.shown([...one.at, "name"])), ["pytorch", "pytorch"]);
  assert.ok(differ(text, parts));
  const equal = text_of(with_equal_parts(text, parts));
  assert.equal(differ(equal, parts_of(equal)), false);
  assert.deepEqual(equal.value(parts[1].at), { name: "pytorch", command: ["a"], env: [{ name: "X", value: "1" }], resources: { limits: { cpu: 1 } } });
});

test("amounts are changed where they count", () => {
  const resources: Path = ["r"];
  const at = (text: string, name: string) => text_of_path(amount_path(new ResourceText(text), resources, name));
  assert.equal(at("r: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2}}", "cpu"), "r.requests.cpu");
  assert.equal(at("r: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2}}", "memory"), "r.requests.memory");
  assert.equal(at("r: {limits: {cpu: 2}}", "cpu"), "r.limits.cpu");
  assert.equal(at("{}", "memory"), "r.limits.memory");
});

test("an architecture takes the place of the parameters, with the values that its service suggests", () => {
  const text = new ResourceText(first);
  const nas = text_of(with_architecture(text, false));
  assert.equal(nas.value(["spec", "parameters"]), undefined);
  assert.equal(nas.shown(["spec", "algorithm", "algorithmName"]), "enas");
  assert.deepEqual(nas.value(["spec", "nasConfig", "graphConfig"]), { numLayers: 8, inputSizes: [32, 32, 3], outputSizes: [10] });
  assert.deepEqual(nas.maps([...kTemplate, "trialParameters"]), [{ name: "neuralNetworkArchitecture", reference: "architecture" }, { name: "neuralNetworkConfig", reference: "nn_config" }]);
  const darts = text_of(with_nas_algorithm(nas, "darts"));
  assert.deepEqual(darts.maps([...kTemplate, "trialParameters"]).map((one) => one.reference), values_of("darts"));
  assert.deepEqual(darts.maps(["spec", "nasConfig", "operations"]).map((one) => one.operationType), ["separable_convolution", "max_pooling", "skip_connection"], "the operations of enas were not changed");
  const changed = text_of(nas.with([["spec", "nasConfig", "operations", 0, "operationType"], "reduction"]));
  assert.deepEqual(text_of(with_nas_algorithm(changed, "darts")).maps(["spec", "nasConfig", "operations"]).map((one) => one.operationType), ["reduction"]);
  assert.deepEqual(text_of(with_nas_algorithm(darts, "mine")).maps([...kTemplate, "trialParameters"]), darts.maps([...kTemplate, "trialParameters"]), "another service defines its values");
  const back = text_of(with_parameters(darts));
  assert.equal(back.value(["spec", "nasConfig"]), undefined);
  assert.equal(back.shown(["spec", "algorithm", "algorithmName"]), "random");
  assert.deepEqual([back.maps(["spec", "parameters"]).length, back.maps([...kTemplate, "trialParameters"])], [1, [{ name: "learningRate", reference: "lr" }]]);
  assert.equal(text_of(with_architecture(text_of(text.with([["spec", "algorithm", "algorithmName"], "mine"])), true)).shown(["spec", "algorithm", "algorithmName"]), "mine", "a registered service stays");
});

test("an architecture of Katib's examples opens, and a change keeps comments and unknown keys", () => {
  const text = new ResourceText(`kind: Experiment
spec:
  algorithm:
    algorithmName: darts
  # Small on purpose.
  nasConfig:
    graphConfig:
      numLayers: 1 # Cells.
      outputSizes: [10]
      mine: kept
    operations:
      - operationType: max_pooling # 3 by 3.
        parameters:
          - name: filter_size
            parameterType: categorical
            feasibleSpace:
              list:
                - "3"
`);
  const layers: Path = ["spec", "nasConfig", "graphConfig", "numLayers"];
  assert.equal(text.shown(layers), "1");
  assert.equal(text.with([layers, whole("3")]), text.text.replace("numLayers: 1", "numLayers: 3"), "only the number changes");
  const added = text_of(with_operation(text));
  assert.ok(added.text.startsWith(text.text), "an operation is added at the end");
  assert.deepEqual(added.maps(["spec", "nasConfig", "operations"]).map((one) => one.operationType), ["max_pooling", "separable_convolution"]);
  const both = text_of(text.with([["spec", "parameters"], [{ name: "lr" }]]));
  assert.deepEqual([text_of(with_architecture(both, false)).text, text_of(with_parameters(both)).value(["spec", "parameters"])], [text.text + "  trialTemplate:\n    trialParameters:\n      - name: algorithmSettings\n        reference: algorithm-settings\n      - name: searchSpace\n        reference: search-space\n      - name: numberLayers\n        reference: num-layers\n", [{ name: "lr" }]], "of both, one is kept as it is");
  assert.deepEqual(sizes("32, 32，x"), [32, 32, "x"]);
  assert.equal(sizes(" "), undefined);
  assert.deepEqual(settings_of("enas").slice(0, 2).map(({ name, usual }) => [name, usual]), [["controller_hidden_size", "64"], ["controller_temperature", "5"]]);
  assert.equal(settings_of("random").length, 0);
});

test("what a change would leave without its anchor is refused", () => {
  assert.equal(new ResourceText("kind: Experiment\na: &x [1]\nb: *x\n").with([["a"], undefined]), null);
  assert.deepEqual(new ResourceText("a: &x [1]\nb: {c: *x}\n").value(["b"]), { c: [1] });
});

test("settings are changed by name, and their ranges are shown in signs", () => {
  const text = text_of(with_setting(new ResourceText(first), kSettings, "random_state", "7"));
  assert.deepEqual(text.value(kSettings), [{ name: "random_state", value: "7" }]);
  assert.deepEqual(text_of(with_setting(text, kSettings, "random_state", "8")).value(kSettings), [{ name: "random_state", value: "8" }]);
  const range = (one: Partial<Setting>) => range_of({ name: "", form: "number", words: [], above_low: false, below_high: false, ...one });
  assert.deepEqual([range({}), range({ low: 0 }), range({ low: 0, above_low: true }), range({ low: 0, high: 1 }), range({ low: 0, high: 1, above_low: true })], ["", "≥ 0", "> 0", "0 … 1", "0 < x ≤ 1"]);
});

test("findings name the value that they are about", () => {
  const [a, b, c, d] = findings_of("spec.parameters[0].feasibleSpace.min: expected less than max (1), got 2 (r.yaml:3:4)\nr.yaml:4:5: spec.algorithm: setting gamma of algorithm tpe: expected a number\nnothing is here\nsearcher.max_trials: expected 1", true);
  assert.deepEqual([a.path, b.path, c.path, d.path], ["spec.parameters[0].feasibleSpace.min", "spec.algorithm", "", "searcher.max_trials"]);
  assert.equal(a.said, "expected less than max (1), got 2");
  assert.equal(b.message, "spec.algorithm: setting gamma of algorithm tpe: expected a number");
});
