// Experiments of a configuration: which rows are theirs, and what their states allow.
import assert from "node:assert/strict";
import { test } from "node:test";
import { acts_of, configured_id } from "../src/pages/configured";

test("the name of the rows ends with the id of the experiment", () => {
  assert.equal(configured_id("mnist-12", ""), "12");
  assert.equal(configured_id("mnist-a-7", undefined), "7");
  assert.equal(configured_id("mnist", ""), null);
  assert.equal(configured_id("digits-2", "/results/digits-2"), null); // Rows of a program.
});

test("a state allows what the head accepts", () => {
  assert.deepEqual(acts_of({ state: "ACTIVE", archived: false }), ["pause", "cancel", "kill"]);
  assert.deepEqual(acts_of({ state: "PAUSED", archived: false })[0], "activate");
  assert.deepEqual(acts_of({ state: "STOPPING_KILLED", archived: false }), []);
  assert.deepEqual(acts_of({ state: "COMPLETED", archived: false }), ["archive", "delete"]);
  assert.deepEqual(acts_of({ state: "ERROR", archived: true }), ["unarchive", "delete"]);
  assert.deepEqual(acts_of({ state: "DELETING", archived: true }), []);
});
