// What the form of a resource of kind Experiment makes of its text.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { findings_of } from "../src/pages/config_findings";
import { command_of, containers_of, number, range_of, renamed_parameter, ResourceText, script_of, text_of_path, trial_of_kind, whole, with_parameter, with_setting, without_parameter, words, workers_of, type Path, type Setting } from "../src/pages/katib_document";

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
  const [container] = containers_of(new ResourceText(first));
  assert.equal(text_of_path(container), "spec.trialTemplate.trialSpec.spec.template.spec.containers[0]");
  assert.equal(script_of({ command: ["python3", "train.py"], args: ["--lr=${trialParameters.lr}", "a b", "it's ${trialParameters.lr}", "it's $HOME"] }), "python3 train.py --lr=${trialParameters.lr} 'a b' \"it's ${trialParameters.lr}\" 'it'\\''s $HOME'");
  assert.equal(script_of({ command: ["bash", "-c", "echo $HOME"] }), "echo $HOME");
  assert.deepEqual(command_of("echo $HOME"), ["bash", "-c", "echo $HOME"]);
  assert.equal(command_of(" "), undefined);
});

test("a trial of another kind keeps its container", () => {
  for (const kind of ["PyTorchJob", "TFJob", "Job"]) {
    const made = trial_of_kind(kind, { name: "training", command: ["true"] });
    const text = text_of(new ResourceText(first).with([["spec", "trialTemplate", "primaryContainerName"], made.primary], [["spec", "trialTemplate", "trialSpec"], made.spec]));
    const containers = containers_of(text);
    assert.equal(containers.length, kind === "Job" ? 1 : 2, kind);
    for (const one of containers) assert.deepEqual(text.value(one), { name: made.primary, command: ["true"] });
    assert.equal(text_of_path(workers_of(text) ?? []), { PyTorchJob: "spec.trialTemplate.trialSpec.spec.pytorchReplicaSpecs.Worker.replicas", TFJob: "spec.trialTemplate.trialSpec.spec.tfReplicaSpecs.Worker.replicas" }[kind] ?? "");
  }
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
