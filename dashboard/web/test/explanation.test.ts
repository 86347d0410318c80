import assert from "node:assert/strict";
import { test } from "node:test";
import { explanation_of } from "../src/pages/explanation";

const kText = "trial 3f2a of digits: running, step 4\n  tags: wide\nactor 1f2e (Trial): alive on node a, epoch 2\n  restarts: 1 of 3; the last death: exited with code 3 on node a\n  asks for: cpus 1\n  what it went through:\n" +
  "          made  pending: waits for cpus 1: 4 of 4 in use\n             …  7 more changes are not kept\n       +0.01 s  starting on node a, epoch 2: the fullest node that it fits on\n    +3600.30 s  alive on node a, epoch 2\n  last lines of its stderr:\n  what it went through:\n\nended\n";

test("an explanation is taken apart: a trial, its actor, facts, changes with times, and what it wrote", () => {
  const [trial, actor, ...rest] = explanation_of(kText);
  assert.deepEqual(rest, []);
  assert.deepEqual(trial, { of: "trial 3f2a of digits: running, step 4", facts: ["tags: wide"], history: [], said: [] });
  assert.equal(actor.of, "actor 1f2e (Trial): alive on node a, epoch 2");
  assert.deepEqual(actor.facts, ["restarts: 1 of 3; the last death: exited with code 3 on node a", "asks for: cpus 1"]);
  assert.deepEqual(actor.history, [
    { after_ms: 0, state: "pending", where: "", why: "waits for cpus 1: 4 of 4 in use" },
    { after_ms: null, state: "", where: "", why: "7 more changes are not kept" },
    { after_ms: 10, state: "starting", where: " on node a, epoch 2", why: "the fullest node that it fits on" },
    { after_ms: 3_600_300, state: "alive", where: " on node a, epoch 2", why: "" },
  ]);
  assert.deepEqual(actor.said, ["  what it went through:", "", "ended"]);
});

test("a change of an unknown form keeps its words; a text of one line is one part", () => {
  const [part] = explanation_of("node a (1f2e): alive\n  what it went through:\n    +1.00 s  Something New: odd\n");
  assert.deepEqual(part.history, [{ after_ms: 1000, state: "", where: "", why: "Something New: odd" }]);
  assert.deepEqual(explanation_of("placement group p: removed\n").map((one) => one.of), ["placement group p: removed"]);
  assert.deepEqual(explanation_of(""), []);
});
