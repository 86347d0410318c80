import assert from "node:assert/strict";
import { test } from "node:test";
import catalogue from "../src/i18n/reasons.json";
import { said_en, type Why } from "../src/i18n/reason";
import { explanation_of } from "../src/pages/explanation";

const english = Object.fromEntries(Object.entries(catalogue).map(([key, { en }]) => [key, en]));
const on = (state: string, epoch: number): Why => ["explain.on", { word: state }, "a", epoch];
const in_use: Why = ["waits.in_use_only", { amounts: { cpus: 1 } }, "4", "4"];
const fullest: Why = ["place.fullest", [], []];

const kText = "trial 3f2a of digits: running, step 4\n  tags: wide\nactor 1f2e (Trial): alive on node a, epoch 2\n  asks for: cpus 1\n  what it went through:\n" +
  "          made  pending: waits for cpus 1: 4 of 4 in use\n             …  7 more changes are not kept\n       +0.01 s  starting on node a, epoch 2: the fullest node that it fits on\n    +3600.30 s  alive on node a, epoch 2\n  last lines of its stderr:\n  what it went through:\n\nended\n";
const kWhys: (Why | null)[] = [
  ["explain.trial", "3f2a", "", "digits", { word: "running" }, 4], ["explain.tags", "wide"], ["explain.actor", "1f2e", "Trial", on("alive", 2)], ["explain.asks", { amounts: { cpus: 1 } }], ["explain.history"],
  ["explain.made", ["joined.because", ["explain.state", { word: "pending" }], in_use]], ["explain.later", "…", ["explain.left_out", 7]], ["explain.later", "+0.01 s", ["joined.because", on("starting", 2), fullest]], ["explain.later", "+3600.30 s", ["explain.on", ["state.alive"], "a", 2]],
  ["explain.stderr"], null, null, null,
];

test("an explanation is taken apart by its data: a trial, its actor, facts, changes with times, and what it wrote", () => {
  const [trial, actor, ...rest] = explanation_of(kText, kWhys);
  assert.deepEqual(rest, []);
  assert.deepEqual(trial, { of: { reason: "trial 3f2a of digits: running, step 4", why: kWhys[0] }, facts: [{ reason: "tags: wide", why: kWhys[1] }], history: [], wrote: [] });
  assert.equal(actor.of.reason, "actor 1f2e (Trial): alive on node a, epoch 2");
  assert.deepEqual(actor.facts, [{ reason: "asks for: cpus 1", why: kWhys[3] }]);
  assert.deepEqual(actor.history, [
    { time: "", state: "pending", node: "", epoch: 0, why: in_use },
    { time: "…", state: "", node: "", epoch: 0, why: ["explain.left_out", 7] },
    { time: "+0.01 s", state: "starting", node: "a", epoch: 2, why: fullest },
    { time: "+3600.30 s", state: "alive", node: "a", epoch: 2, why: null },
  ]);
  assert.deepEqual(actor.wrote, ["  what it went through:", "", "ended"]);
});

test("texts of the head may change: nothing depends on them", () => {
  const other = kText.split("\n").map((line) => (line ? "X " + line.replace(/[a-z]/g, "y") : line)).join("\n");
  assert.deepEqual(explanation_of(other, kWhys).map((one) => [one.facts.length, one.history.map((change) => change.state), one.wrote.length]), [[1, [], 0], [1, ["pending", "", "starting", "alive"], 3]]);
});

test("each piece has the data of its line; one with text of several lines stands for all of them", () => {
  const died: Why = ["joined.because", ["ended.threw"], "no such\nfile"];
  const [actor] = explanation_of("actor 1f2e (Trial): dead\n  its constructor threw: no such\nfile\n  asks for: cpus 1\n", [["explain.actor", "1f2e", "Trial", ["explain.state", { word: "dead" }]], died, ["explain.asks", { amounts: { cpus: 1 } }]]);
  assert.deepEqual(actor.facts, [{ reason: "its constructor threw: no such\nfile", why: died }, { reason: "asks for: cpus 1", why: ["explain.asks", { amounts: { cpus: 1 } }] }]);
});

test("a text without data is one part, with facts below", () => {
  assert.deepEqual(explanation_of("placement group p: removed\n  why\n"), [{ of: { reason: "placement group p: removed", why: null }, facts: [{ reason: "why", why: null }], history: [], wrote: [] }]);
  assert.deepEqual(explanation_of(""), []);
});

test("a part of a reason is said in English from its data", () => {
  assert.equal(said_en(in_use, english), "waits for cpus 1: 4 of 4 in use on the only node");
  assert.equal(said_en(fullest, english), "the fullest node that it fits on");
  assert.equal(said_en(["explain.left_out", 1], english), "1 more change is not kept");
  assert.equal(said_en(["of.a.newer.head"], english), null);
});
