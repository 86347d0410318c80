import assert from "node:assert/strict";
import { test } from "node:test";
import type { Actor, AuditEntry } from "../src/live/protocol";
import { finder, joined, kEntriesMax, outcome_of, trial_of } from "../src/pages/audit_rows";
import { compile } from "../src/ui/arrange";

const entry = (id: number, more: Partial<AuditEntry> = {}): AuditEntry => ({ id, time_ms: 1000 * id, by: "t-7f21c0", action: "drain", object: "osprey", outcome: "done", message: "", ...more });
const actor = (id: string, name: string, state: string) => ({ id, name, class_name: "app::Embedder", display: name, state }) as Actor;
const ids = (rows: AuditEntry[]) => rows.map((row) => row.id);

test("outcomes of the audit log: done, refused, failed, unknown", () => {
  const of = (outcome: string) => outcome_of(entry(1, { outcome }));
  assert.deepEqual(["done", "kNotFound", "kPermissionDenied", "kInvalidArgument", "kUnavailable", "kInternal", "kUnknownOutcome", "kCodeOfALaterVersion"].map(of),
    ["done", "refused", "refused", "refused", "failed", "failed", "unknown_outcome", "refused"]);
});

test("new entries of the audit log stand above the known ones, each once, and the oldest make room", () => {
  const known = joined([], [entry(2), entry(3), entry(1)]);
  assert.deepEqual(ids(known), [3, 2, 1]);
  assert.deepEqual(ids(joined(known, [entry(5), entry(4), entry(3)])), [5, 4, 3, 2, 1]);
  assert.equal(joined(known, [entry(3)]), known);
  const full = joined([], Array.from({ length: kEntriesMax }, (_, i) => entry(i + 1)));
  const next = joined(full, [entry(kEntriesMax + 1)]);
  assert.deepEqual([next.length, next[0].id, next[next.length - 1].id], [kEntriesMax, kEntriesMax + 1, 2]);
});

test("objects of the audit log lead to their pages where they exist", () => {
  const actors = [actor("aa11223344", "embedder", "dead"), actor("bb11223344", "embedder", "alive"), actor("bb11999999", "", "alive")];
  const find = finder([{ name: "osprey" }], actors, [{ name: "digits" }, { name: "sleep_2026-11-21" }, { name: "twice_a" }, { name: "twice_b" }]);
  const path = (action: string, object: string, outcome = "done") => find(entry(1, { action, object, outcome })).path?.join("/");
  assert.equal(path("drain", "osprey"), "nodes/osprey");
  assert.equal(path("undrain", "osprey"), "nodes/osprey");
  assert.equal(path("drain", "gone", "kNotFound"), undefined);
  assert.equal(path("kill", "embedder"), "actors/bb11223344", "an actor that is alive before a dead one of the same name");
  assert.equal(path("kill", "aa11223344"), "actors/aa11223344");
  assert.equal(path("kill", "bb112"), "actors/bb11223344", "the prefix of one id");
  assert.equal(path("kill", "bb11"), undefined, "the prefix of two ids");
  assert.equal(path("kill", "nobody", "kNotFound"), undefined);
  assert.equal(path("annotate", "digits"), "experiments/digits");
  assert.equal(path("stop", "sleep/1a2b3c4d"), "experiments/sleep_2026-11-21/trials/1a2b3c4d", "the start of one name");
  assert.equal(path("stop", "digits/lr=1/2"), "experiments/digits/trials/lr=1/2", "a trial whose name contains a slash");
  assert.equal(path("stop", "twice"), undefined);
  assert.equal(path("kill_job", "job-7"), "jobs/job-7");
  assert.equal(path("start_command", "digits"), undefined, "a name, which several jobs may have");
  assert.equal(path("delete_job", "job-7"), undefined);
  assert.equal(path("an action of a later version", "osprey"), undefined);
  assert.deepEqual(find(entry(1, { action: "create_token", object: "t-7f21c0 viewer" })), { text: "t-7f21c0", role: "viewer", path: ["tokens"], query: { q: "t-7f21c0" } });
  assert.equal(path("create_token", "viewer", "kUnavailable"), undefined, "it was not created");
  assert.equal(path("revoke_token", "t-7f"), "tokens");
  assert.equal(path("revoke_token", "t-00", "kNotFound"), undefined);
  assert.equal(trial_of(entry(1, { object: "digits" })), "");
  assert.equal(find(entry(1, { action: "kill", object: "" })).text, "");
});

test("filters of the audit log find outcomes by their kind and by the code of the error", () => {
  const rows = [entry(1), entry(2, { outcome: "kNotFound" })];
  const found = (filter: string) => ids(rows.filter(compile(filter, ["outcome"], (row) => `${outcome_of(row)} ${row.outcome}`)));
  assert.deepEqual(found("outcome:refused"), [2]);
  assert.deepEqual(found("outcome:knotfound"), [2]);
  assert.deepEqual(found("-refused"), [1]);
});
