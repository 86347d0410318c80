import assert from "node:assert/strict";
import { test } from "node:test";
import { rows_at, top_for } from "../src/ui/sight";
import { Slots } from "../src/ui/slots";
import { at, axis_of, log_splits, may_be_log, rank_correlation, round_ticks, ticks } from "../src/charts/axes";
import { dash_of, group_by, join, mean_of, nearest, over_time, range_of, smooth, wants_log } from "../src/charts/lines";
import { bytes, duration, number } from "../src/format";
import type { Event, Experiment, LogLine, Points, Trial, Waiting } from "../src/live/protocol";
import { at_least, bare, cut, find, next_trouble, painted, tone_of, without_start } from "../src/pages/log_text";
import { parse_brushes, write_brushes } from "../src/pages/brushes";
import { envelope } from "../src/pages/envelope";
import { importance_of, numbered } from "../src/pages/importance_of";
import { slots_of } from "../src/pages/slots";
import { changed_parameters, differs, flatten, left_ms, parameters, ranked, rungs, shown_name } from "../src/pages/trials";
import { best_so_far, distribution, pareto } from "../src/pages/history";
import { functions_of } from "../src/pages/functions";
import { fold } from "../src/pages/queue_rows";
import { head_of_state, space_rows, stop_rule } from "../src/pages/run_state";
import { surface } from "../src/charts/surface";
import { bounded, moved, ordered, shared } from "../src/ui/columns";
import { sentence } from "../src/pages/sentences";
import { actor_name, ends_of } from "../src/ui/names";
import { build, parse } from "../src/route";
import { compile, sorted } from "../src/ui/arrange";
import { fits } from "../src/ui/match";

test("addresses come back as they went, also with odd names", () => {
  const route = { path: ["experiments", "a/b c?#%"], query: { q: 'status:running "x y" lr>0.1', tab: "curves" } };
  assert.deepEqual(parse(build(route)), route);
  assert.deepEqual(parse("/"), { path: [], query: {} });
  assert.deepEqual(parse("/nodes/%E0%A4%A"), { path: ["nodes", "%E0%A4%A"], query: {} });
});

const rows = [
  { name: "a1", lr: 0.1, note: "went well" },
  { name: "b2", lr: 0.001, note: "" },
  { name: "B10", lr: undefined, note: "odd" },
];
const look = (row: (typeof rows)[0], column: string) => row[column as "name"];
const names = (filter: string) => rows.filter(compile(filter, ["name", "lr", "note"], look)).map((row) => row.name);

test("filters: words, columns, numbers, left out, quoted, half typed", () => {
  assert.deepEqual(names("b"), ["b2", "B10"]);
  assert.deepEqual(names("name:b lr<=0.001"), ["b2"]);
  assert.deepEqual(names("lr>0.01"), ["a1"]);
  assert.deepEqual(names("-odd"), ["a1", "b2"]);
  assert.deepEqual(names('note:"went well"'), ["a1"]);
  assert.deepEqual(names("lr>"), ["a1", "b2", "B10"]);
  assert.deepEqual(names(""), ["a1", "b2", "B10"]);
});

test("a trial is called by its name, else by the start of its id; a long name is cut", () => {
  assert.equal(shown_name({ id: "3f2a90c1aa" }), "3f2a90c1");
  assert.equal(shown_name({ id: "3f2a90c1", name: "7_lr=0.1" }), "7_lr=0.1");
  assert.equal(shown_name({ id: "3f2a90c1", name: "a".repeat(41) }), "a".repeat(39) + "…");
  assert.equal(shown_name({ id: "3f2a90c1", name: "abcdef" }, 4), "abc…");
});

test("a clone changes whole top-level parameters, new ones among them", () => {
  const before = { lr: 0.1, width: 32, optimizer: { name: "adam", beta: 0.5 } };
  assert.deepEqual(changed_parameters(before, before), {});
  assert.deepEqual(changed_parameters(before, { ...before, lr: 0.2 }), { lr: 0.2 });
  assert.deepEqual(changed_parameters(before, { optimizer: { name: "adam", beta: 0.25 }, depth: 2 }), { optimizer: { name: "adam", beta: 0.25 }, depth: 2 });
});

test("order: numbers as numbers, names by their numbers, absent ones last both ways", () => {
  const order = (by: string) => sorted(rows, by, look).map((row) => row.name);
  assert.deepEqual(order("lr"), ["b2", "a1", "B10"]);
  assert.deepEqual(order("-lr"), ["a1", "b2", "B10"]);
  assert.deepEqual(order("name"), ["a1", "b2", "B10"]);
});

test("numbers, sizes and times as people read them", () => {
  assert.equal(number(0.00012345, "en"), "1.234e−4");
  assert.equal(number(0.98765432, "en"), "0.9877");
  assert.equal(number(12345, "en"), "12,345");
  assert.equal(number(null, "en"), "–");
  assert.equal(number(NaN, "en"), "–");
  assert.equal(bytes(1536, "en"), "1.5 KiB");
  assert.equal(bytes(0, "en"), "0 B");
  assert.equal(duration(400, "en"), "0.4 s");
  assert.equal(duration(3_725_000, "en"), "1 h 2 min");
  assert.equal(duration(60_000, "zh-CN"), "1 分");
});

test("lines of different steps share one x; what a log axis cannot show is left out", () => {
  const line = (x: number[], y: (number | null)[]) => ({ id: "", label: "", color: "", x, y });
  assert.deepEqual(join([line([1, 3], [5, 6]), line([2, 3], [7, NaN])], false, false), { x: [1, 2, 3], ys: [[5, null, 6], [null, 7, null]] });
  assert.deepEqual(join([line([0, 1], [5, 6])], true, false), { x: [1], ys: [[6]] });
  assert.deepEqual(join([line([1, 2], [0, 6])], false, true), { x: [2], ys: [[6]] });
});

test("smoothing keeps the first value and the level", () => {
  assert.deepEqual(smooth([2, 2, 2], 0.9).map((y) => Math.round(y! * 1e9) / 1e9), [2, 2, 2]);
  assert.deepEqual(smooth([1, null, 3], 0), [1, null, 3]);
  assert.equal(smooth([1, 3], 0.5)[1], (0.5 * 0.5 * 1 + 0.5 * 3) / 0.75);
});

test("groups: words each, numbers in parts of equal count, means by step", () => {
  const words = group_by([["a", "x"], ["b", "y"], ["c", "x"]], 4, String);
  assert.deepEqual(words.groups.map((one) => one.ids), [["a", "c"], ["b"]]);
  assert.equal(words.ramp, false);
  const parts = group_by(Array.from({ length: 20 }, (_, i) => [String(i), i]), 4, String);
  assert.deepEqual(parts.groups.map((one) => one.ids.length), [5, 5, 5, 5]);
  assert.equal(parts.groups[3].label, "15 – 19");
  const mean = mean_of([{ id: "", label: "", color: "", x: [1, 2], y: [1, 2] }, { id: "", label: "", color: "", x: [1], y: [3] }]);
  assert.deepEqual(mean, { x: [1, 2], y: [2, 2] });
});

test("the nearest line is found over gaps", () => {
  const ys = [[1, null, null, 4], [null, null, 9, null]];
  assert.equal(nearest(ys, 1, 3, (y) => Math.abs(y - 2)), 0);
  assert.equal(nearest(ys, 2, 3, (y) => Math.abs(y - 8)), 1);
  assert.equal(nearest([[null, null]], 0, 3, () => 0), -1);
});

test("axes: log where numbers crowd low, words in order, marks where values are few", () => {
  const rates = Array.from({ length: 50 }, (_, i) => 10 ** (-4 + (3 * i) / 49));
  assert.ok(axis_of("lr", rates).log);
  assert.ok(!wants_log(Array.from({ length: 50 }, (_, i) => 0.001 + i / 100)));
  assert.equal(at(axis_of("lr", rates), 10 ** -2.5)!.toFixed(3), "0.500");
  assert.deepEqual(axis_of("act", ["b", "a", "b"]).words, ["a", "b"]);
  assert.deepEqual(ticks(axis_of("batch", [16, 64, 16])).map((tick) => tick.value), [16, 64]);
  assert.deepEqual(ticks(axis_of("accuracy", [0.1, 0.9815, 0.9852])).map((tick) => tick.value), [0.1, 0.9815]);
  assert.equal(at(axis_of("act", ["a"]), "zz"), null);
  assert.equal(rank_correlation([[1, 1], [2, 4], [3, 9], [4, 16], [5, 25]]), 1);
  assert.equal(rank_correlation([[1, 1], [1, 2], [1, 3], [1, 4], [1, 5]]), null);
});

const trial = (id: string, status: string, step: number, lr: number, accuracy?: number) =>
  ({ id, status, step, config: { opt: { lr }, fixed: 1 }, metrics: accuracy === undefined ? {} : { accuracy } }) as unknown as Trial;
const trials = [trial("a", "stopped", 1, 0.1, 0.2), trial("b", "finished", 3, 0.2, 0.9), trial("c", "running", 2, 0.3, 0.6), trial("d", "waiting", 0, 0.4)];

test("parameters by path, those that vary first", () => {
  assert.deepEqual(flatten({ a: { b: 1 }, c: [1] }), { "a.b": 1, c: [1] });
  assert.deepEqual(parameters(trials).map((one) => [one.path, one.varies]), [["opt.lr", true], ["fixed", false]]);
  assert.deepEqual(ranked(trials, "accuracy", "max").map((one) => one.id), ["b", "c", "a"]);
  assert.deepEqual(ranked(trials, "accuracy", "min").map((one) => one.id), ["a", "c", "b"]);
});

test("rungs stand where trials stopped; each trial has its value there", () => {
  const curves: Record<string, Points> = { a: { id: "a", x: [1], y: [0.2] }, b: { id: "b", x: [1, 2, 3], y: [0.5, 0.7, 0.9] }, c: { id: "c", x: [1, 2], y: [0.4, 0.6] } };
  const found = rungs(trials, (id) => curves[id], "max", undefined);
  assert.deepEqual(found.map((rung) => [rung.step, rung.entries.map((entry) => entry.trial.id + ":" + entry.fate), rung.cut]), [[1, ["b:on", "c:on", "a:stopped"], 0.4], [3, ["b:on"], null]]);
});

test("the scheduler's own rungs come before derived ones", () => {
  const trials = [trial("a", "stopped", 1, 0.1), trial("b", "finished", 3, 0.2), trial("c", "paused", 1, 0.3)];
  const rung = { bracket: 0, step: 1, trials: 3, passed: 1, cutoff: 0.4, state: "decided", awaited: 0 };
  const members = [{ trial: "b", value: 0.4, act: "passed" }, { trial: "c", value: 0.3, act: "paused" }, { trial: "a", value: 0.2, act: "stopped" }];
  const own = rungs(trials, () => undefined, "max", [{ ...rung, members }, { ...rung, step: 9, trials: 0, members: [] }]);
  assert.deepEqual(own.map((one) => [one.step, one.cut, one.entries.map((entry) => entry.trial.id + ":" + entry.fate)]), [[1, 0.4, ["b:on", "c:here", "a:stopped"]]]);
  const cut = rungs(trials, (id) => ({ id, x: [1], y: [0.5] }), "max", [{ ...rung, members: members.slice(0, 1) }]);
  assert.deepEqual([cut[0].entries.length, cut[0].cut], [3, 0.4]);
});

test("time left is the head's, less what has passed since, and none where it says none", () => {
  const experiment = (left: unknown) => ({ left }) as unknown as Experiment;
  assert.deepEqual(left_ms(experiment({ seconds: 10, low: 4, high: 30, at_ms: 1000 }), 6000), { point: 5000, low: 0, high: 25_000 });
  assert.equal(left_ms(experiment(null), 6000), null);
});

test("best at the end and best so far differ by trial or by value", () => {
  const best = (trial: string, value: number) => ({ trial, value, step: 1, config: {} });
  const experiment = (one: unknown, other: unknown) => ({ best: one, best_so_far: other }) as unknown as Experiment;
  assert.equal(differs(experiment(best("a", 1), best("a", 1))), false);
  assert.equal(differs(experiment(best("a", 1), best("a", 2))), true);
  assert.equal(differs(experiment(best("a", 1), best("b", 1))), true);
  assert.equal(differs(experiment(best("a", 1), undefined)), false);
});

test("an actor is called by its name, else by its class with the start of its id", () => {
  const id = "0123456789abcdef";
  assert.equal(actor_name({ id, name: "replay-buffer", class_name: "rl::ReplayBuffer", display: "ReplayBuffer" }), "replay-buffer");
  assert.equal(actor_name({ id, class_name: "rl::Cell<int>", display: "rl::Cell<int>" }), "Cell 01234567");
  assert.equal(actor_name({ id, class_name: "volador::tune::TrialActor", display: "Trial 1975bbb2" }), "Trial 1975bbb2");
});

test("a name that is cut keeps its end", () => {
  assert.deepEqual(ends_of("optimizer.learning_rate", 13), ["optimizer.", "learning_rate"]);
  assert.deepEqual(ends_of("short"), ["short", ""]);
});

test("equal rows of the queue are one, in the order of the queue", () => {
  const row = (id: string, position: number, more: object) => ({ id, position, kind: "trial", resources: { gpus: 1 }, reason: "waits", since_ms: 100 - position, experiment: "vit", display: id, ...more }) as Waiting;
  const folded = fold([row("b", 2, {}), row("g", 1, { kind: "group", experiment: "" }), row("c", 3, {}), row("d", 4, { reason: "other" })]);
  assert.deepEqual(folded.map((one) => one.members.map((member) => member.id)), [["g"], ["b", "c"], ["d"]]);
  assert.equal(folded[1].since_ms, 97);
});

test("an event is a sentence with links, in both languages", () => {
  const actors = new Map([["0123456789abcdef0123456789abcdef", { id: "0123456789abcdef0123456789abcdef", name: "replay-buffer", class_name: "ReplayBuffer" }]]);
  const event = { id: "1", time_ms: 1, level: "info", text: "actor is dead", fields: { actor: "0123456789abcdef0123456789abcdef", class: "ReplayBuffer", cause: "killed on request: by uxtune" } } as unknown as Event;
  const parts = sentence(event, "en", (id) => actors.get(id));
  assert.equal(parts.map((part) => part.text).join(""), "Actor replay-buffer ended: killed on request: by uxtune");
  assert.deepEqual(parts.find((part) => part.path)?.path, ["actors", "0123456789abcdef0123456789abcdef"]);
  assert.ok(sentence(event, "zh", (id) => actors.get(id)).map((part) => part.text).join("").startsWith("Actor replay-buffer 已结束"));
  const unknown = { ...event, text: "an event of a later version" } as Event;
  assert.equal(sentence(unknown, "en", () => undefined).map((part) => part.text).join(""), "an event of a later version");
});

test("events of experiments and trials are sentences with links, without what is not known", () => {
  const said = (text: string, fields: Record<string, string>, language: "en" | "zh" = "en") => sentence({ id: "1", time_ms: 1, level: "info", text, fields } as unknown as Event, language, () => undefined);
  const words = (...of: Parameters<typeof said>) => said(...of).map((part) => part.text).join("");
  const end = { experiment: "digits", best: "accuracy 0.98", trial: "0123456789ab", failed: "0" };
  assert.equal(words("experiment finished", end), "Experiment digits finished: best accuracy 0.98, trial 01234567");
  assert.deepEqual(said("experiment finished", end).flatMap((part) => (part.path ? [part.path.join("/")] : [])), ["experiments/digits", "experiments/digits/trials/0123456789ab"]);
  assert.equal(words("experiment finished", { experiment: "digits", best: "", trial: "", failed: "3" }), "Experiment digits finished; 3 failed");
  assert.equal(words("experiment finished", end, "zh"), "实验 digits 已完成：最佳 accuracy 0.98，试验 01234567");
  assert.equal(words("trial failed", { experiment: "digits", trial: "t1", error: "out of memory" }), "Trial t1 of digits failed: out of memory");
  assert.equal(words("asked of an experiment", { experiment: "digits", trial: "", act: "add", by: "ann" }), "ann asked digits to add a configuration");
  assert.equal(words("asked of an experiment", { experiment: "digits", trial: "t1", act: "add", by: "ann" }), "ann asked digits to clone trial t1");
  assert.equal(words("trial failed", { experiment: "digits", trial: "t1", error: "" }), "Trial t1 of digits failed");
  assert.deepEqual(said("experiment started", { experiment: "digits", driver: "/home/ada/tune_digits", id: "4f1c" })[3], { text: "tune_digits", path: ["drivers", "4f1c"] });
  assert.equal(words("actor is dead", { actor: "0123456789ab", class: "volador::tune::TrialActor", cause: "killed on request: by tune_digits" }), "The actor of TrialActor 01234567 ended with it");
  assert.equal(words("actor is dead", { actor: "0123456789ab", class: "volador::tune::TrialActor", cause: "exited with code 3" }), "Actor TrialActor 01234567 ended: exited with code 3");
  assert.equal(words("actor is dead", {}), "Actor ended");
  assert.equal(words("experiment started", { experiment: "digits", driver: "", id: "4f1c" }), "Experiment digits started");
});

test("columns keep the widths that a person set, share the rest, and stand in their order", () => {
  assert.deepEqual(shared([100, 50, 50], [undefined, undefined, undefined], 400), [200, 100, 100]);
  assert.deepEqual(shared([100, 50, 50], [300, undefined, undefined], 500), [300, 100, 100]);
  assert.deepEqual(shared([100, 50, 50], [300, undefined, undefined], 200), [300, 50, 50], "no room: the table scrolls");
  assert.deepEqual(shared([100, 50], [70, 60], 400), [70, 60]);
  assert.equal(bounded(3), 48);
  assert.equal(bounded(5000), 900);
  const columns = ["name", "a", "b", "c"].map((key) => ({ key }));
  const keys = (order?: string[]) => ordered(columns, order).map((one) => one.key).join();
  assert.equal(keys(), "name,a,b,c");
  assert.equal(keys(["c", "a"]), "name,c,a,b");
  assert.equal(keys(["gone", "name", "b"]), "name,b,a,c");
  assert.equal(moved(["name", "a", "b", "c"], "c", "a").join(), "name,c,a,b");
  assert.equal(moved(["name", "a", "b", "c"], "a", "b").join(), "name,b,a,c");
  assert.equal(moved(["name", "a", "b"], "a", "name").join(), "name,a,b", "the first stays");
});

test("a surface has the values of its points near them and lies between them elsewhere", () => {
  const points = [{ x: 6, y: 6, value: 0 }, { x: 90, y: 6, value: 1 }, { x: 90, y: 90, value: 1 }];
  const cells = surface(points, { left: 0, top: 0, right: 100, bottom: 96 });
  assert.equal(cells.length, 9 * 8);
  assert.ok(cells[0].value < 0.01 && cells[7].value > 0.99);
  assert.ok(cells.every((one) => one.value >= 0 && one.value <= 1));
  assert.equal(cells[8].width, 4, "the last one ends where its place does");
  assert.deepEqual(surface(points.slice(1), { left: 0, top: 0, right: 10, bottom: 10 }), []);
});

test("numbers that only round to a whole one show it", () => {
  assert.equal(number(3.99976, "en"), "4.000");
  assert.equal(number(4, "en"), "4");
  assert.equal(number(0.5, "en"), "0.5");
  assert.equal(number(12345678901, "en"), "1.235e10");
});

test("logs: search, marks, from error to error round the end", () => {
  const lines = [["fine"], ["Error: shard 3", "error"], ["fine", "debug"], ["killed by signal 9", "error"]].map(([text, level], i) => ({ id: String(i), source: "s", node: "n", stderr: false, text, level }) as LogLine);
  assert.deepEqual(["error", "warn", "info", "debug", undefined].map((level) => tone_of({ level })), ["bad", "warn", "", "dim", ""]);
  const own = '2026-11-21T21:37:55.141Z info  worker "host ended" cause="KILLED: error"';
  assert.equal(without_start({ text: own, time_ms: 1 }), 'worker "host ended" cause="KILLED: error"');
  assert.equal(without_start({ text: own }), own, "where the time stands nowhere else it stays");
  assert.equal(find(lines, "SHARD").length, 1);
  assert.equal(next_trouble(lines, -1, 1), 1);
  assert.equal(next_trouble(lines, 1, 1), 3);
  assert.equal(next_trouble(lines, 3, 1), 1);
  assert.equal(next_trouble(lines, 1, -1), 3);
  assert.equal(next_trouble([lines[0]], 0, 1), -1);
  assert.deepEqual(cut("a Shard shard", "shard"), [{ text: "a ", hit: false }, { text: "Shard", hit: true }, { text: " ", hit: false }, { text: "shard", hit: true }]);
});

test("the palette puts what begins with the typed text first", () => {
  assert.ok(fits("dig", "digits") > fits("dig", "my-undigested"));
  assert.ok(fits("dts", "digits") > 0);
  assert.equal(fits("xyz", "digits"), -1);
});

test("a curve over time leaves out steps whose time is not known", () => {
  const line = { x: [1, 2, 3], y: [0.5, 0.6, 0.7] };
  assert.deepEqual(over_time(line, { x: [1, 3], y: [2.5, 8] }), { x: [2.5, 8], y: [0.5, 0.7] });
  assert.equal(over_time(line, undefined), undefined);
});

test("the best so far never gets worse, whichever way is better", () => {
  const curves = [{ x: [1, 2, 4], y: [5, 3, 4] }, { x: [1, 3], y: [4, null] }];
  assert.deepEqual(envelope(curves, "min"), { x: [1, 2, 4], y: [4, 3, 3] });
  assert.deepEqual(envelope(curves, "max"), { x: [1, 2, 4], y: [5, 5, 5] });
  assert.deepEqual(envelope([], "min"), { x: [], y: [] });
});

test("runs take the first free slot of their node", () => {
  const run = (id: string, node: string, from: number, to: number) => ({ id, node, from, to });
  const rows = slots_of([run("c", "b", 0, 500), run("a", "a", 0, 1000), run("b", "a", 100, 400), run("d", "a", 450, 900), run("e", "a", 1000, 2000)]);
  assert.deepEqual(rows.map((row) => [row.node, row.slot, row.runs.map((one) => one.id).join("")]), [["a", 0, "ae"], ["a", 1, "bd"], ["b", 0, "c"]]);
});

test("importance: what decides the metric comes first; the same trials give the same answer", () => {
  const rows: number[][] = [];
  const values: number[] = [];
  let state = 7;
  const random = () => (state = (state * 16807) % 2147483647) / 2147483647;
  for (let i = 0; i < 200; i++) {
    const row = [random(), random(), random()];
    rows.push(row);
    values.push(10 * (row[1] - 0.5) ** 2 + 0.5 * row[0] + 0.05 * random());
  }
  const found = importance_of({ names: ["little", "much", "nothing"], rows, values });
  assert.deepEqual(found.map((one) => one.name), ["much", "little", "nothing"]);
  assert.ok(found[0].share > 0.6 && Math.abs(found.reduce((sum, one) => sum + one.share, 0) - 1) < 1e-9);
  assert.deepEqual(importance_of({ names: ["little", "much", "nothing"], rows, values }), found);
  assert.deepEqual(importance_of({ names: ["x"], rows: rows.slice(0, 7).map((row) => [row[0]]), values: values.slice(0, 7) }), []);
  assert.deepEqual(numbered(["sgd", "adam", "sgd", undefined], [3, 1, 5, 9]), [1, 0, 1, 2]);
});

test("row elements: rows in sight keep theirs; where all change, the elements take over the new rows", () => {
  const slots = new Slots();
  assert.deepEqual(slots.of(0, 4), [0, 1, 2, 3, 4]);
  assert.deepEqual(slots.of(2, 6), [2, 3, 4, 5, 6]);
  assert.deepEqual(slots.of(1, 5), [7, 2, 3, 4, 5]);
  assert.deepEqual(slots.of(100, 105), [7, 2, 3, 4, 5, 8]);
  assert.deepEqual(slots.of(10, 12), [7, 2, 3]);
  assert.deepEqual(slots.of(13, 14), [7, 2]);
  assert.deepEqual(slots.of(0, -1), []);
});

test("round numbers on an axis", () => {
  assert.deepEqual(round_ticks(0.311, 1.01, 5), [0.4, 0.6, 0.8, 1]);
  assert.deepEqual(round_ticks(-3, 3, 6), [-3, -2, -1, 0, 1, 2, 3]);
  assert.deepEqual(round_ticks(12_000, 47_000, 4), [20_000, 30_000, 40_000]);
  assert.deepEqual(round_ticks(5, 5, 4), [5]);
});

test("a linear axis at round numbers, where that is wanted", () => {
  const axis = axis_of("loss", [0.107, 0.2, 0.3, 0.41, 0.5, 0.55, 0.61, 0.7, 0.83, 0.937]);
  assert.deepEqual(ticks(axis).map((one) => one.value), [0.2, 0.4, 0.6, 0.8]);
});

test("small numbers carry no zeros that say nothing", () => {
  assert.equal(number(0.0001, "en"), "1e\u22124");
  assert.equal(number(0.00012, "en"), "1.2e\u22124");
  assert.equal(number(0.000123, "en"), "1.23e\u22124");
  assert.equal(number(2e12, "en"), "2e12");
});

test("a log axis begins above 0, whatever the values are", () => {
  for (const of of [{ log_y: true }, { log_y: true, from_zero: true }, { log_y: true, top: 1 }]) {
    for (const [low, high] of [[null, null], [0, 0], [0, 5], [-3, 7], [-3, -1], [2, 9], [2, null]] as [number | null, number | null][]) {
      const [from, to] = range_of(low, high, of);
      assert.ok(from > 0 && to > from && Number.isFinite(to), `${low} to ${high} gives ${from} to ${to}`);
    }
  }
  assert.deepEqual(range_of(null, null, {}), [0, 1]);
});

test("ticks of a log axis end wherever its range begins", () => {
  assert.deepEqual(log_splits(0.0958622, 1.1862), [0.1, 1]);
  assert.deepEqual(log_splits(0.12, 0.9), [0.2, 0.5]);
  for (let low = 1e-9; low < 1e9; low *= 1.037) {
    for (const factor of [1.001, 3, 10, 1e6, 1e20]) {
      const found = log_splits(low, low * factor);
      assert.ok(found.length >= 2 && found.length <= 8, `${low} times ${factor}: ${found}`);
      assert.ok(found.every((tick, i) => tick >= low * 0.999 && tick <= low * factor * 1.001 && (i === 0 || tick > found[i - 1])), `${low} times ${factor}: ${found}`);
    }
  }
});

test("history and Pareto front", () => {
  assert.deepEqual(best_so_far([NaN, 3, 5, 2, 4], "max").slice(1), [3, 5, 5, 5]);
  assert.deepEqual(best_so_far([3, 5, 2], "min"), [3, 3, 2]);
  const points = [[1, 9], [2, 7], [3, 8], [4, 1], [2, 6], [5, 1]].map(([x, y]) => ({ of: `${x},${y}`, x, y }));
  assert.deepEqual(pareto(points, true, true).map((one) => one.of), ["1,9", "2,6", "4,1"]);
  assert.deepEqual(pareto(points, false, false).map((one) => one.of), ["5,1", "3,8", "1,9"]);
  // Compares with the definition on random points with ties.
  for (let round = 0; round < 200; round++) {
    const some = Array.from({ length: 30 }, (_, i) => ({ of: i, x: Math.floor(Math.random() * 8), y: Math.floor(Math.random() * 8) }));
    const beaten = (a: { x: number; y: number }) => some.some((b) => b.x <= a.x && b.y >= a.y && (b.x < a.x || b.y > a.y));
    const front = new Set(pareto(some, true, false).map((one) => `${one.x} ${one.y}`));
    assert.deepEqual([...front].sort(), [...new Set(some.filter((one) => !beaten(one)).map((one) => `${one.x} ${one.y}`))].sort(), JSON.stringify(some));
  }
});

test("the head of a run's state is read without its trials, and its seed keeps all digits", () => {
  const state = head_of_state('{\n "name": "digits",\n "seed": 3470764243901293141,\n "origin": {"hostname": "vm"},\n "trials": [\n {"trial_id": "6d');
  assert.equal(state?.seed, "3470764243901293141");
  assert.equal(state?.origin?.hostname, "vm");
  assert.equal(head_of_state("no json"), null);
});

test("colours of terminals are shown, other sequences are taken out", () => {
  const esc = "\u001b";
  assert.deepEqual(painted(`plain ${esc}[1;31mred${esc}[0m ${esc}[92mgreen${esc}[39m${esc}[2K end`), [
    { text: "plain ", look: "" }, { text: "red", look: "ansi-31 ansi-bold" }, { text: " ", look: "" }, { text: "green", look: "ansi-32" }, { text: " end", look: "" }]);
  assert.deepEqual(painted(`${esc}[38;5;196mfar${esc}[0m`), [{ text: "far", look: "" }]);
  assert.deepEqual(painted(`${esc}[38;2;1;31;3mfar`), [{ text: "far", look: "" }]);
  for (const text of [`${esc}[1;31mred${esc}[m x`, `a${esc}]8;;http://x${esc}\\b`, "none"]) assert.equal(painted(text).map((one) => one.text).join(""), bare(text));
});

test("lines by their level", () => {
  const lines = [undefined, "debug", "info", "warn", "error"].map((level, i) => ({ id: String(i), source: "s", node: "n", stderr: false, text: "x", level }) as LogLine);
  assert.deepEqual(["", "debug", "info", "warn", "error"].map((least) => at_least(lines, least).length), [5, 4, 3, 2, 1]);
});

test("ticks are round: whole for whole values, 1-2-5 on a short log axis, the ends where nothing round is between", () => {
  const values = (axis: ReturnType<typeof axis_of>) => ticks(axis).map((one) => one.value);
  const many = Array.from({ length: 12 }, (_, i) => 3 + i * 4);
  assert.deepEqual(values(axis_of("width", many)), [10, 20, 30, 40]);
  assert.deepEqual(values(axis_of("width", many, true)), [5, 10, 20]);
  assert.ok(values(axis_of("steps", [1, 2, 3, 4, 5, 6, 7, 8, 9])).every(Number.isInteger));
  assert.deepEqual(values(axis_of("accuracy", [0.107, 0.3, 0.21, 0.44, 0.666, 0.7, 0.81, 0.93, 0.95])), [0.2, 0.4, 0.6, 0.8]);
  assert.deepEqual(values(axis_of("lr", [0.00011, 0.0004, 0.001, 0.003, 0.02, 0.05, 0.09, 0.3, 0.7], true)), [0.001, 0.01, 0.1]);
  assert.deepEqual(values(axis_of("x", [0.31, 0.32, 0.33, 0.34, 0.35, 0.36, 0.37, 0.38, 0.39], true)), [0.31, 0.39]);
});

test("a log scale is offered where every value is above 0 and they differ", () => {
  assert.deepEqual([[0.1, 1], [0, 1], [2, 2], ["a", "b"]].map((values) => may_be_log(axis_of("x", values))), [true, false, false, false]);
});

test("eight lines on each other have eight strokes", () => {
  assert.equal(new Set(Array.from({ length: 8 }, (_, i) => JSON.stringify(dash_of(i) ?? null))).size, 8);
});

test("a distribution goes up at each value by its share; what is not finite is left out", () => {
  assert.deepEqual(distribution([3, 1, null, 1, NaN, 2]), { x: [1, 2, 3], y: [0.5, 0.75, 1] });
  assert.deepEqual(distribution([]), { x: [], y: [] });
});

test("a search space is read from its lines: domains, options behind them, constants", () => {
  assert.deepEqual(space_rows('lr loguniform(0.0001, 0.1)\nmodel.act choice of 2\nmodel.act[0] "relu"\nmodel.act[1] "tanh"\nopt choice of 2\nopt[0].lr uniform(0, 1)\nopt[1] 3\nepochs 81\nnote "a b"\n'), [
    { name: "lr", domain: "loguniform(0.0001, 0.1)", options: [], fixed: false },
    { name: "model.act", domain: "choice of 2", options: ['"relu"', '"tanh"'], fixed: false },
    { name: "opt", domain: "choice of 2", options: ["lr uniform(0, 1)", "3"], fixed: false },
    { name: "epochs", domain: "81", options: [], fixed: true },
    { name: "note", domain: '"a b"', options: [], fixed: true },
  ]);
  assert.deepEqual(space_rows(""), []);
});

test("stop rules are read: a metric, steps, a time, another one", () => {
  assert.deepEqual(stop_rule("eval/accuracy 0.995"), { kind: "metric", metric: "eval/accuracy", value: 0.995 });
  assert.deepEqual(stop_rule("after 81 steps"), { kind: "steps", value: 81 });
  assert.deepEqual(stop_rule("after 60000000000 ns"), { kind: "time", value: 60_000 });
  assert.equal(stop_rule("condition 6").kind, "other");
});

test("tasks are counted by function: running, ended with repeated calls, failed; calls of other actors are none", () => {
  const event = (name: string, args: object, dur = 1000) => ({ ph: "X", name, dur, args: { actor: "r1", ...args } });
  const rows = functions_of([event("f", {}), event("f", { calls: 10, failed: true }), event("g", { running: true }), event("h", { actor: "other" }), { ph: "M", name: "thread_name" }], new Set(["r1"]));
  assert.deepEqual(rows, [{ id: "g", name: "g", running: 1, ended: 0, failed: 0, ms: 0 }, { id: "f", name: "f", running: 0, ended: 11, failed: 10, ms: 2 }]);
});

test("of a long list the rows in sight are drawn, with some beside them; none before the box has a height", () => {
  assert.deepEqual(rows_at(0, 340, 34, 10_000, 8), { first: 0, end: 18 });
  assert.deepEqual(rows_at(3400, 340, 34, 10_000, 8), { first: 92, end: 118 });
  assert.deepEqual(rows_at(3410, 340, 34, 10_000, 0), { first: 100, end: 111 });
  assert.deepEqual(rows_at(9e9, 340, 34, 10_000, 8), { first: 9982, end: 10_000 });
  assert.deepEqual(rows_at(3400, 340, 34, 5, 8), { first: 0, end: 5 });
  assert.deepEqual(rows_at(0, 0, 34, 10_000, 8), { first: 0, end: 0 });
});

test("a box moves no further than it has to in order to show a row below its head, or puts the row in the middle", () => {
  const near = (row: number, top: number) => top_for(row, "near", top, 340, 34, 40);
  assert.deepEqual([near(3, 0), near(9, 0), near(10, 0), near(0, 500)], [0, 40, 74, 0]);
  assert.equal(top_for(100, "center", 0, 340, 20, 0), 1840);
});

test("ranges of parallel coordinates survive the address, whatever their parameters are called", () => {
  const brushes = { lr: [0.1, 0.5], "a;b=c,d %": [0, 0.25] } as Record<string, [number, number]>;
  assert.deepEqual(parse_brushes(write_brushes(brushes)), brushes);
  assert.deepEqual(parse_brushes("lr=0.100,0.500;broken;%=0,1"), { lr: [0.1, 0.5] });
});
