// What the pages of experiments compute: completion, findings, differences, archives of code.
import assert from "node:assert/strict";
import { test } from "node:test";
import { written } from "../dev/config_keys.mjs";
import sections from "../src/i18n/config_keys.json";
import chinese from "../src/i18n/config_keys_zh.json";
import { Sha256, from_base64, hex, pack_code, text_in, to_base64, unpack_code, type ArchiveError } from "../src/pages/code_archive";
import { rules_of } from "../src/pages/code_upload";
import { Config } from "../src/pages/config_document";
import { about_key, offers_at, place_of, values_of } from "../src/pages/config_keys";
import { findings_of, span_of } from "../src/pages/config_findings";
import type { Configured } from "../src/pages/configured";
import { acts_of_all, counts_of, filtered, hparams_in, joined, kNone, type Filters } from "../src/pages/experiment_rows";
import { applied_yaml, best_so_far, conditions_of, objective_of, optimal_of, parameter_value, resource_yaml, trials_of, type Resource } from "../src/pages/katib_resource";
import { bars_of, is_simulated } from "../src/pages/search_rows";
import { diff_of, folded, is_equal, unified } from "../src/pages/text_diff";

// `|` is the cursor.
const offers = (marked: string, zh = false) => {
  const at = marked.indexOf("|");
  const text = marked.replace("|", "");
  const place = place_of(text, at);
  return place ? offers_at(text, place, zh) : [];
};
const names = (marked: string) => offers(marked).map((one) => one.name);

test("the keys are those of the reference, each with a Chinese text", () => {
  assert.deepEqual(sections, written());
  const texts = new Set(sections.flatMap((one) => Object.values(one.keys as unknown as Record<string, string[]>)).flatMap(([kind, , about]) => [kind, about]).filter(Boolean));
  assert.deepEqual(Object.keys(chinese).sort(), [...texts].sort());
  assert.deepEqual(Object.values(chinese).filter((text) => !/[\u4e00-\u9fff]/.test(text)), []);
});

test("keys are offered where they belong", () => {
  assert.ok(names("na|").includes("name") && names("|").includes("searcher"));
  assert.ok(names("searcher:\n  |").includes("metric"));
  assert.ok(!names("searcher:\n  name: single\n  |").includes("max_trials"));
  assert.ok(names("searcher:\n  name: random\n  max|").includes("max_trials"));
  assert.ok(names("searcher: {name: grid, |").includes("max_concurrent_trials"));
  assert.ok(names("hyperparameters:\n  lr:\n    type: log\n    |").includes("base"));
  assert.deepEqual(names("hyperparameters:\n  lr: {|"), ["type"]);
  assert.ok(names("bind_mounts:\n  - host_path: /a\n    |").includes("container_path"));
  assert.ok(names("bind_mounts:\n- |").includes("host_path"));
  assert.ok(names("resources:\n  devices:\n    - |").includes("mode"));
  assert.ok(names("environment:\n  proxy_ports:\n    - proxy_port: 80\n      |").includes("proxy_tcp"));
  assert.deepEqual(names("name: x # |"), []);
  assert.deepEqual(names("hyperparameters:\n  |"), []);
});

test("values are offered behind their key", () => {
  assert.ok(names("searcher:\n  name: |").includes("adaptive_asha"));
  assert.deepEqual(names("searcher:\n  name: adaptive_asha\n  mode: a|"), ["aggressive", "standard", "conservative"]);
  assert.ok(names("hyperparameters:\n  lr: {type: |").includes("categorical"));
  assert.deepEqual(names("debug: |"), ["true", "false"]);
  assert.deepEqual(names("name: |"), []);
  assert.ok(/指标/.test(offers("searcher:\n  met|", true).find((one) => one.name === "metric")!.about));
  assert.ok(/metric/.test(about_key(["searcher", "metric"], false)));
  assert.ok(values_of(["checkpoint_storage", "type"]).includes("s3"));
});

test("findings have their places", () => {
  const [one, two, three] = findings_of('searcher.max_trials: expected a number (at least 1), got "ten" (config.yaml:3:15)\nconfig.yaml:2:1: a tab\nand 3 further errors', true);
  assert.deepEqual([one.line, one.column, one.message], [3, 15, 'searcher.max_trials: expected a number (at least 1), got "ten"']);
  assert.deepEqual([two.line, two.message, three.line], [2, "a tab", 0]);
  const text = "a: 1\nb:\n  max_trials: ten  # x\n";
  assert.deepEqual(span_of(text, { ...one, column: 15 }), [22, 25]);
  assert.equal(span_of(text, three), null);
  assert.deepEqual(span_of("a: b", { ...one, line: 99, column: 99 }), [0, 4]);
});

test("the difference of two texts is the shortest one", () => {
  const rows = diff_of("a\nb\nc\nd\n", "a\nx\nc\nd\ne\n");
  assert.deepEqual(rows.map((row) => row.kind), ["same", "changed", "same", "same", "added"]);
  assert.deepEqual(unified(rows).map((row) => `${row.kind[0]}${(row.left ?? row.right)!.text}`), ["sa", "rb", "ax", "sc", "sd", "ae"]);
  assert.ok(is_equal(diff_of("a\n", "a")));
  assert.deepEqual(diff_of("", "a\nb").map((row) => row.kind), ["added", "added"]);
  const long = Array.from({ length: 100 }, (_, i) => `line ${i}`);
  const parts = folded(diff_of(long.join("\n"), long.map((line, i) => (i === 50 ? "other" : line)).join("\n")));
  assert.deepEqual(parts.map((one) => ("hidden" in one ? one.hidden : one.kind)), [47, "same", "same", "same", "changed", "same", "same", "same", 46]);
});

test("any two texts are rebuilt from their difference", () => {
  let seed = 11;
  const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
  for (let round = 0; round < 300; ++round) {
    const make = () => Array.from({ length: random(20) }, () => "abc"[random(3)]).join("\n");
    const [a, b] = [make(), make()];
    const rows = diff_of(a, b);
    const side = (key: "left" | "right") => rows.filter((row) => row[key]).map((row) => row[key]!.text).join("\n");
    assert.equal(side("left"), a.replace(/\n$/, ""));
    assert.equal(side("right"), b.replace(/\n$/, ""));
  }
});

test("the hash is SHA-256", async () => {
  for (const length of [0, 1, 55, 56, 63, 64, 65, 1000, 70_000]) {
    const data = new Uint8Array(length).map((_, i) => i * 7);
    const parts = new Sha256().update(data.subarray(0, 13)).update(data.subarray(13));
    assert.equal(hex(parts.digest()), hex(new Uint8Array(await crypto.subtle.digest("SHA-256", data))));
  }
});

test("what is packed is read again, whatever the order of the files", async () => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  const big = new Uint8Array(300_000).map((_, i) => i);
  const files = [{ path: "b/c.py", data: bytes("print(1)\n") }, { path: "a.bin", data: big }, { path: "b/run.sh", data: bytes("#!"), executable: true }, { path: "空.txt", data: bytes("") }];
  const { archive, sha256 } = pack_code(files);
  assert.equal(sha256, hex(new Uint8Array(await crypto.subtle.digest("SHA-256", archive.slice()))));
  const entries = unpack_code(archive, 1 << 20);
  assert.deepEqual(entries.map((one) => [one.path, one.folder, one.executable]), [["a.bin", false, false], ["b", true, true], ["b/c.py", false, false], ["b/run.sh", false, true], ["空.txt", false, false]]);
  assert.deepEqual(entries[0].data, big);
  assert.equal(pack_code([...files].reverse()).sha256, sha256);
  assert.deepEqual(unpack_code(pack_code([]).archive, 100), []);
  assert.deepEqual(from_base64(to_base64(archive)), archive);
});

test("a damaged or too large archive is refused", () => {
  const { archive } = pack_code([{ path: "a", data: new Uint8Array(5000) }]);
  const broken = archive.slice();
  broken[40] ^= 1;
  const why = (bytes: Uint8Array, most: number) => {
    try {
      return unpack_code(bytes, most).length;
    } catch (error) {
      return (error as ArchiveError).why;
    }
  };
  assert.equal(why(broken, 1e6), "corrupt");
  assert.equal(why(archive, 1000), "large");
  assert.equal(why(archive.subarray(0, 30), 1e6), "corrupt");
  assert.equal(text_in(new Uint8Array([0x61, 0, 0x62])), null);
  assert.equal(text_in(new Uint8Array([0xff, 0xfe])), null);
  assert.equal(text_in(new TextEncoder().encode("é\n")), "é\n");
});

const row = (id: number, more: Partial<Configured>) => ({ id, name: "digits", labels: [], state: "COMPLETED", archived: false, user: "", workspace: "", project: "", run: `digits-${id}`, ...more }) as unknown as Configured;
const kRows = [row(1, { labels: ["a", "b"], user: "mei" }), row(2, { state: "STOPPING_KILLED", labels: ["a"] }), row(3, { archived: true, user: "mei" }), row(4, { state: "ACTIVE", workspace: "vision", project: "digits" })];
const kAll: Filters = { state: "", label: "", user: "", project: "", archived: false };

test("filters leave what fits all of them, and count what each value would leave", () => {
  const ids = (filters: Partial<Filters>) => filtered(kRows, { ...kAll, ...filters }).map((one) => one.id);
  assert.deepEqual(ids({}), [1, 2, 4]);
  assert.deepEqual(ids({ archived: true, user: "mei" }), [1, 3]);
  assert.deepEqual(ids({ state: "STOPPING" }), [2]);
  assert.deepEqual(ids({ label: "a", user: kNone }), [2]);
  assert.deepEqual(ids({ project: "vision / digits" }), [4]);
  assert.deepEqual(counts_of(kRows, { ...kAll, label: "a" }, "label"), [["a", 2], ["b", 1]]);
  assert.deepEqual(counts_of(kRows, { ...kAll, label: "a" }, "state"), [["COMPLETED", 1], ["STOPPING", 1]]);
});

test("each action is for those that it fits", () => {
  assert.deepEqual(acts_of_all(kRows).map(([act, which]) => [act, which.map((one) => one.id)]), [["pause", [4]], ["cancel", [4]], ["kill", [4]], ["archive", [1]], ["unarchive", [3]], ["delete", [1, 3]]]);
});

test("hyperparameters of the best trial are columns", () => {
  const runs = new Map([["digits-1", { name: "digits-1", best: { value: 0.5, config: { lr: 0.1, net: { width: 3 } } } }]]);
  const rows = joined(kRows, runs as unknown as Parameters<typeof joined>[1]);
  assert.deepEqual(hparams_in(rows), ["lr", "net.width"]);
  assert.deepEqual([rows[0].latest, rows[0].hparams.lr, rows[1].latest], [0.5, 0.1, undefined]);
});

test("files that patterns name stay behind", () => {
  const ignored = rules_of("# data\n*.bin\n/data/\nout/*\n!out/keep.txt\n**/tmp\n");
  assert.deepEqual(["a.bin", "x/a.bin", "data/a", "x/data/a", "out/a", "out/keep.txt", "x/tmp/a", "train.py"].map(ignored), [true, true, true, false, true, false, true, false]);
});

test("a resource is shown as YAML, with its conditions and its optimal trial", () => {
  const object = { apiVersion: "kubeflow.org/v1beta1", metadata: { name: "x", labels: {} }, spec: { parameters: [{ name: "lr", feasibleSpace: { list: ["1", "a b"] } }], on: true, none: null }, status: { conditions: [{ type: "Created", status: "True" }, { type: "Running", status: "False" }], currentOptimalTrial: { bestTrialName: "x-1" } } };
  const resource = { kind: "Experiment", namespace: "default", name: "x", object, version: 1 };
  const text = resource_yaml(object);
  assert.deepEqual(new Config(text).value([]), object);
  assert.ok(text.includes('  - name: lr\n    feasibleSpace:\n      list:\n      - "1"\n      - "a b"\n'));
  assert.deepEqual(conditions_of(resource).map((one) => one.type), ["Running", "Created"]);
  assert.equal(optimal_of(resource)!.bestTrialName, "x-1");
  assert.equal(optimal_of({ ...resource, object: {} }), null);
});

const trial = (name: string, at: string, { value, condition = "Succeeded", ended = "", id = 0 }: { value?: string; condition?: string; ended?: string; id?: number }): Resource => ({
  kind: "Trial", namespace: "team", name, version: 1, trial: id, job: id ? `job-${id}` : "",
  object: {
    metadata: { name, creationTimestamp: at }, spec: { parameterAssignments: [{ name: "lr", value: "0.01" }, { name: "optimizer", value: "adam" }] },
    status: {
      conditions: [{ type: "Running", status: condition === "Running" ? "True" : "False" }, ...(condition === "Running" ? [] : [{ type: condition, status: "True", message: "as it ended" }])],
      ...(value === undefined ? {} : { observation: { metrics: [{ name: "loss", min: value, max: "9", latest: "5" }] } }), ...(ended ? { completionTime: ended } : {}),
    },
  },
});
const katib_experiment = (objective: Record<string, unknown>): Resource => ({ kind: "Experiment", namespace: "team", name: "grid", version: 1, object: { spec: { objective } } });

test("trials of Katib have their objective by its strategy, their parameters and their condition", () => {
  const objective = objective_of(katib_experiment({ type: "minimize", goal: 0.1, objectiveMetricName: "loss" }));
  assert.deepEqual(objective, { metric: "loss", maximize: false, goal: 0.1, strategy: "min" });
  const resources = [
    trial("grid-b", "2026-01-01T00:00:02Z", { value: "0.5", ended: "2026-01-01T00:00:09Z", id: 2 }), trial("grid-a", "2026-01-01T00:00:01Z", { value: "0.7", ended: "2026-01-01T00:00:05Z", id: 1 }),
    trial("grid-c", "2026-01-01T00:00:03Z", { condition: "Running" }), trial("grid-d", "2026-01-01T00:00:04Z", { value: "unavailable", condition: "MetricsUnavailable", ended: "2026-01-01T00:00:08Z" }),
    trial("grid-e", "2026-01-01T00:00:05Z", { value: "0.1", condition: "Failed", ended: "2026-01-01T00:00:07Z" }), trial("grid-f", "2026-01-01T00:00:06Z", { value: "0.6", condition: "EarlyStopped", ended: "2026-01-01T00:00:08Z" }),
  ];
  const rows = trials_of(resources, objective);
  assert.deepEqual(rows.map((one) => [one.name, one.number, one.condition, one.value, one.job]), [
    ["grid-a", 1, "Succeeded", 0.7, "job-1"], ["grid-b", 2, "Succeeded", 0.5, "job-2"], ["grid-c", 3, "Running", null, ""], ["grid-d", 4, "MetricsUnavailable", 5, ""], ["grid-e", 5, "Failed", 0.1, ""], ["grid-f", 6, "EarlyStopped", 0.6, ""],
  ]);
  assert.deepEqual(Object.entries(rows[0].parameters).map(([name, text]) => [name, parameter_value(text)]), [["lr", 0.01], ["optimizer", "adam"]]);
  assert.equal(parameter_value(""), "");
  assert.deepEqual(best_so_far(rows, objective, "ended").map(({ trial: of, best }) => [of.name, best]), [["grid-a", 0.7], ["grid-f", 0.6], ["grid-b", 0.5]]);
  assert.deepEqual(best_so_far(rows, objective, "number").map(({ best }) => best), [0.7, 0.5, 0.5]);
  const own = objective_of(katib_experiment({ type: "maximize", objectiveMetricName: "loss", metricStrategies: [{ name: "loss", value: "latest" }] }));
  assert.deepEqual([own.strategy, own.goal, trials_of(resources, own)[0].value], ["latest", null, 5]);
});

test("a resource that is edited has nothing that the server added", () => {
  const object = { kind: "Experiment", apiVersion: "kubeflow.org/v1beta1", metadata: { name: "grid", namespace: "team", uid: "x", resourceVersion: "7", generation: 1, creationTimestamp: "2026-01-01T00:00:00Z" }, spec: { maxTrialCount: 3 }, status: { trials: 3 } };
  assert.equal(applied_yaml(object), "apiVersion: kubeflow.org/v1beta1\nkind: Experiment\nmetadata:\n  name: grid\n  namespace: team\nspec:\n  maxTrialCount: 3\n");
});

test("a preview has one bar for each length", () => {
  const preview = { searcher: "adaptive_asha", unit: "batches", seed: 1, trials: 12, units: 1, rows: [{ trials: 2, lengths: [16, 64] }, { trials: 8, lengths: [16] }, { trials: 1, lengths: [64] }, { trials: 1, lengths: [16, 64, 256] }], brackets: [] };
  assert.deepEqual(bars_of(preview), [{ length: 16, trials: 8, ways: [[16]] }, { length: 64, trials: 3, ways: [[16, 64], [64]] }, { length: 256, trials: 1, ways: [[16, 64, 256]] }]);
  assert.ok(is_simulated(preview) && !is_simulated({ ...preview, searcher: "random" }));
  assert.deepEqual(bars_of({ ...preview, rows: [{ trials: 4, lengths: [] }] }), [{ length: 0, trials: 4, ways: [[]] }]);
});
