import assert from "node:assert/strict";
import { test } from "node:test";
import type { Why } from "../src/i18n/reason";
import { explanation_of } from "../src/pages/explanation";

const kText = "trial 3f2a of digits: running, step 4\n  tags: wide\nactor 1f2e (Trial): alive on node a, epoch 2\n  restarts: 1 of 3; the last death: exited with code 3 on node a\n  asks for: cpus 1\n  what it went through:\n" +
  "          made  pending: waits for cpus 1: 4 of 4 in use\n             …  7 more changes are not kept\n       +0.01 s  starting on node a, epoch 2: the fullest node that it fits on\n    +3600.30 s  alive on node a, epoch 2\n  last lines of its stderr:\n  what it went through:\n\nended\n";

const plain = (reason: string) => ({ reason, why: null });

test("an explanation is taken apart: a trial, its actor, facts, changes with times, and what it wrote", () => {
  const [trial, actor, ...rest] = explanation_of(kText);
  assert.deepEqual(rest, []);
  assert.deepEqual(trial, { of: plain("trial 3f2a of digits: running, step 4"), facts: [plain("tags: wide")], history: [], wrote: [] });
  assert.deepEqual(actor.of, plain("actor 1f2e (Trial): alive on node a, epoch 2"));
  assert.deepEqual(actor.facts, [plain("restarts: 1 of 3; the last death: exited with code 3 on node a"), plain("asks for: cpus 1")]);
  assert.deepEqual(actor.history, [
    { after_ms: 0, state: "pending", where: plain(""), why: plain("waits for cpus 1: 4 of 4 in use") },
    { after_ms: null, state: "", where: plain(""), why: plain("7 more changes are not kept") },
    { after_ms: 10, state: "starting", where: plain(" on node a, epoch 2"), why: plain("the fullest node that it fits on") },
    { after_ms: 3_600_300, state: "alive", where: plain(" on node a, epoch 2"), why: plain("") },
  ]);
  assert.deepEqual(actor.wrote, ["  what it went through:", "", "ended"]);
});

test("each piece has the data of its line; one with text of several lines stands for all of them", () => {
  const died: Why = ["joined.because", ["ended.threw"], "no such\nfile"];
  const starting: Why = ["explain.on", { word: "starting" }, "a", 2];
  const [actor] = explanation_of("actor 1f2e (Trial): dead\n  its constructor threw: no such\nfile\n  what it went through:\n    +0.01 s  starting on node a, epoch 2: the fullest node that it fits on\n", [
    ["explain.actor", "1f2e", "Trial", ["explain.state", { word: "dead" }]], died, ["explain.history"], ["explain.later", "+0.01 s", ["joined.because", starting, ["place.fullest", [], []]]],
  ]);
  assert.deepEqual(actor.facts, [{ reason: "its constructor threw: no such\nfile", why: died }]);
  assert.deepEqual(actor.history, [{ after_ms: 10, state: "starting", where: { reason: " on node a, epoch 2", why: ["explain.on", "", "a", 2] }, why: { reason: "the fullest node that it fits on", why: ["place.fullest", [], []] } }]);
});

test("a change of an unknown form keeps its words; a text of one line is one part", () => {
  const [part] = explanation_of("node a (1f2e): alive\n  what it went through:\n    +1.00 s  Something New: odd\n");
  assert.deepEqual(part.history, [{ after_ms: 1000, state: "", where: plain(""), why: plain("Something New: odd") }]);
  assert.deepEqual(explanation_of("placement group p: removed\n").map((one) => one.of.reason), ["placement group p: removed"]);
  assert.deepEqual(explanation_of(""), []);
});
