import assert from "node:assert/strict";
import { test } from "node:test";
import type { Trial } from "../src/live/protocol";
import { beside, best_places } from "../src/pages/beside";
import { csv_of, json_of } from "../src/pages/trial_export";
import { flat } from "../src/pages/trials";

const trial = (id: string, more: Partial<Trial>): Trial => ({ id, experiment: "e", status: "finished", node: "n", step: 3, config: {}, metrics: {}, error: "", reason: "", ...more });

test("side by side: every name once, what is absent or of another type differs", () => {
  const rows = beside([{ lr: 0.1, width: 8, kind: "a" }, { lr: 0.1, width: "8" }], (value) => (value === undefined ? "–" : String(value)));
  assert.deepEqual(rows, [
    { name: "lr", shown: ["0.1", "0.1"], differs: false },
    { name: "width", shown: ["8", "8"], differs: true },
    { name: "kind", shown: ["a", "–"], differs: true },
  ]);
});

test("the best value is marked where there is something to compare, and all that are equal", () => {
  assert.deepEqual([...best_places([0.5, null, 0.9, 0.9], "max")], [2, 3]);
  assert.deepEqual([...best_places([0.5, undefined, 0.9], "min")], [0]);
  assert.deepEqual([...best_places([0.5, null], "max")], []);
});

test("CSV has the columns of the head's table, quotes what needs it, and keeps a parameter and a metric of one name apart", () => {
  const some = [trial("a", { config: { opt: { lr: 0.1 }, note: 'x, "y"\nz' }, metrics: { lr: 2 }, tags: ["p", "q"] }), trial("b", { name: "second", config: { list: [1, 2] }, error: "lost" })];
  assert.equal(csv_of(some), "trial,name,status,node,step,config.list,config.note,config.opt.lr,metrics.lr,tags,reason,error\n" +
    'a,a,finished,n,3,,"x, ""y""\nz",0.1,2,p q,,\nb,second,finished,n,3,"[1,2]",,,,,,lost\n');
});

test("JSON keeps the whole configuration", () => {
  const [row] = JSON.parse(json_of([trial("a", { config: { opt: { lr: 0.1 } }, metrics: { loss: null } })]));
  assert.deepEqual(row, { trial: "a", status: "finished", step: 3, node: "n", config: { opt: { lr: 0.1 } }, metrics: { loss: null } });
  assert.deepEqual(flat(trial("a", { config_text: "{…" })), { config: "{…" });
});
