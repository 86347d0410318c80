import assert from "node:assert/strict";
import { test } from "node:test";
import { label_text, past_with, per_second, summary, type Series } from "../src/pages/actor_series";

const counter = (value: number, labels?: Record<string, string>): Series => ({ name: "requests", kind: "counter", value, labels });
const look = (at: number, ...series: Series[]) => ({ at, series });

test("a counter's rate is what it grew by between two looks at the same labels", () => {
  const before = look(1000, counter(5, { of: "a" }), counter(100, { of: "b" }));
  assert.equal(per_second(counter(25, { of: "a" }), look(3000), before), 10);
  assert.equal(per_second(counter(25), look(3000), before), null);
  assert.equal(per_second(counter(25, { of: "a" }), look(3000), undefined), null);
});

test("an actor that began anew has no rate below zero, and a gauge has none", () => {
  assert.equal(per_second(counter(1), look(2000), look(1000, counter(5))), null);
  assert.equal(per_second({ ...counter(9), kind: "gauge" }, look(2000), look(1000, { ...counter(5), kind: "gauge" })), null);
});

test("a histogram is its count and mean", () => {
  const one: Series = { name: "latency", kind: "histogram", value: 6, counts: [1, 2, 0] };
  assert.deepEqual(summary(one, String), { count: "3", mean: "2" });
  assert.deepEqual(summary({ ...one, counts: [0, 0] }, String), { count: "0", mean: "–" });
  assert.equal(per_second(one, look(2000), look(1000, { ...one, counts: [0, 1, 0] })), 2);
  assert.equal(label_text({ ...one, labels: { a: "1", b: "x" } }), "a=1 b=x");
});

test("the past of a gauge is its values, of a counter how fast it grew", () => {
  const gauge = (value: number): Series => ({ ...counter(value), name: "queue", kind: "gauge" });
  const first = past_with({}, { at: 0, series: [counter(1), gauge(7)] }, undefined);
  assert.deepEqual(Object.values(first), [[], [7]]);
  const next = past_with(first, { at: 1000, series: [counter(5), gauge(3)] }, { at: 0, series: [counter(1), gauge(7)] });
  assert.deepEqual(Object.values(next), [[4], [7, 3]]);
});
