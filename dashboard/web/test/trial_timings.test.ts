import assert from "node:assert/strict";
import { test } from "node:test";
import { configured_trial } from "../src/pages/configured";
import { timings_of } from "../src/pages/trial_timings";

test("the parts of a batch have their order, and what is absent counts as nothing", () => {
  const { parts, rows } = timings_of([
    { metric: "train_batch", batches: ["8", "12"], values: [0.2, 0.3] },
    { metric: "samples_per_second", batches: [12, 8], values: [90, 100] },
    { metric: "mine", batches: [12], values: [0.01] },
    { metric: "dataloader_next", batches: [8, 12, 16], values: [0.1, "NaN", null] },
  ], 10);
  assert.deepEqual(parts, ["dataloader_next", "train_batch", "mine"]);
  assert.deepEqual(rows, [{ batches: 8, values: [0.1, 0.2, 0], rate: 100 }, { batches: 12, values: [0, 0.3, 0.01], rate: 90 }]);
  assert.deepEqual(timings_of([], 10), { parts: [], rows: [] });
});

test("many reports become means of consecutive ones", () => {
  const batches = [1, 2, 3, 4, 5];
  const { rows } = timings_of([{ metric: "train_batch", batches, values: [1, 3, 5, 7, 9] }, { metric: "samples_per_second", batches: [2], values: [6] }], 3);
  assert.deepEqual(rows, [{ batches: 2, values: [2], rate: 6 }, { batches: 4, values: [6], rate: null }, { batches: 5, values: [9], rate: null }]);
});

test("rows of trials of configurations have the number in their id", () => {
  assert.equal(configured_trial("trial-12"), "12");
  assert.equal(configured_trial("3f2a0001"), null);
});
