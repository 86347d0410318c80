// The configuration in the form and in the text: neither loses what the other has.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Config, list_shown } from "../src/pages/config_document";

const kText = `# Digits, for the demo.
name: digits   # shown in lists
my_key: {a: 1, b: [2, 3]}   # unknown to Volador
searcher:
  name: random   # or grid
  max_trials: 4

  # How long a trial trains.
  max_length:
    batches: 300
hyperparameters:
  lr: {type: log, base: 10, minval: -4, maxval: -1}
  # The size of a batch.
  global_batch_size: 64
resources:
labels: [a, "b c"]
bind_mounts:
  - host_path: /data
    container_path: /data
`;
const put = (text: string, path: string, source: string | null) => new Config(text).with(path.split("/"), source)!;
const changed = (before: string, after: string) => {
  const [a, b] = [before.split("\n"), after.split("\n")];
  return { gone: a.filter((line) => !b.includes(line)), come: b.filter((line) => !a.includes(line)) };
};

test("a changed value leaves every other byte alone", () => {
  assert.deepEqual(changed(kText, put(kText, "searcher/name", "grid")), { gone: ["  name: random   # or grid"], come: ["  name: grid   # or grid"] });
  assert.deepEqual(changed(kText, put(kText, "name", '"a # b"')), { gone: ["name: digits   # shown in lists"], come: ['name: "a # b"   # shown in lists'] });
  assert.deepEqual(changed(kText, put(kText, "hyperparameters/lr/minval", "-5")).come, ["  lr: {type: log, base: 10, minval: -5, maxval: -1}"]);
  assert.equal(put(put(kText, "searcher/max_trials", "16"), "searcher/max_trials", "4"), kText);
});

test("a value takes the place of a block", () => {
  assert.equal(put("a:  # why\n  b: 1\n  c: 2\nd: 3\n", "a", "5"), "a: 5  # why\nd: 3\n");
  assert.equal(put("a: |\n  one\n  two\nb: 1\n", "a", "x"), "a: x\nb: 1\n");
  assert.equal(put("a: 'x y'\n", "a", "z"), "a: z\n");
});

test("a new key goes behind the last one of its map", () => {
  assert.ok(/    batches: 300\n  metric: loss\nhyperparameters:/.test(put(kText, "searcher/metric", "loss")));
  assert.ok(/resources:\n  slots_per_trial: 0\nlabels/.test(put(kText, "resources/slots_per_trial", "0")));
  assert.ok(/container_path: \/data\nenvironment:\n  image: x\n$/.test(put(kText, "environment/image", "x")));
  assert.ok(/maxval: -1, count: 3\}/.test(put(kText, "hyperparameters/lr/count", "3")));
  assert.ok(/\{a: 1, b: \[2, 3\], c: 1\}   # unknown/.test(put(kText, "my_key/c", "1")));
  assert.equal(put("", "searcher/name", "single"), "searcher:\n  name: single\n");
  assert.equal(put("# nothing yet\n", "name", "x"), "# nothing yet\nname: x\n");
  assert.equal(put("a: {}", "a/b", "1"), "a: {b: 1}");
  assert.equal(put("a: 1", "b/c", "2"), "a: 1\nb:\n  c: 2\n");
});

test("a key without a value goes, with the maps that this empties", () => {
  assert.equal(put(put(kText, "searcher/metric", "loss"), "searcher/metric", null), kText);
  assert.ok(!/max_length/.test(put(kText, "searcher/max_length/batches", null)));
  assert.ok(/# How long a trial trains/.test(put(kText, "searcher/max_length/batches", null)));
  assert.ok(/\{type: log, minval/.test(put(kText, "hyperparameters/lr/base", null)));
  assert.ok(/minval: -4\}/.test(put(kText, "hyperparameters/lr/maxval", null)));
  assert.equal(put(kText, "searcher/metric", null), kText);
});

test("what the form cannot change it leaves alone", () => {
  assert.equal(new Config("a: [").usable, false);
  assert.equal(new Config("a: [").with(["b"], "1"), null);
  assert.equal(new Config("- a\n").usable, false);
  assert.equal(new Config("name: x\n").with(["name", "y"], "1"), null);
  assert.equal(new Config("base: &b {x: 1}\nother: *b\n").with(["other", "x"], "1"), null);
});

test("fields show texts without quotes and the rest as it is written", () => {
  const config = new Config(kText);
  assert.equal(config.shown(["name"]), "digits");
  assert.equal(config.shown(["searcher", "max_length"]), "batches: 300");
  assert.equal(config.shown(["labels"]), '[a, "b c"]');
  assert.equal(config.shown(["absent", "key"]), "");
  assert.equal(new Config("a: 50_000\nb: 'x'\nc:\n").shown(["a"]), "50_000");
  assert.deepEqual(config.names(["hyperparameters"]), ["lr", "global_batch_size"]);
  assert.equal(list_shown(config.value(["labels"])), "a, b c");
  assert.equal(list_shown([{ a: 1 }]), null);
  assert.ok(/  rate: \{type: log/.test(config.renamed(["hyperparameters", "lr"], "rate")!));
});

test("random edits and their opposites give the text back", () => {
  let seed = 7;
  const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
  const paths = ["name", "searcher/name", "searcher/max_trials", "searcher/metric", "resources/max_slots", "hyperparameters/lr/minval", "hyperparameters/lr/count", "my_key/z", "a/b/c"];
  for (let round = 0; round < 200; ++round) {
    const path = paths[random(paths.length)].split("/");
    const before = new Config(kText);
    const old = before.value(path);
    const after = before.with(path, String(random(1000)))!;
    const comments = (text: string) => text.match(/#.*/g);
    assert.deepEqual(comments(after), comments(kText));
    assert.equal(typeof new Config(after).value(path), "number");
    const back = new Config(after).with(path, old === undefined ? null : before.shown(path))!;
    assert.deepEqual(new Config(back).value(["searcher"]), before.value(["searcher"]));
  }
});
