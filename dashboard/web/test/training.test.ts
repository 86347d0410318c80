import assert from "node:assert/strict";
import { test } from "node:test";
import { time_ticks } from "../src/charts/axes";
import type { Config, Experiment, Points, Trial } from "../src/live/protocol";
import { awaited, binned, doing_of, is_event, is_training, metric_groups, parts_of, phase_of, progress_of, rank_of, splits_of, workers_asked, workers_text, world_of } from "../src/pages/training_rows";

const row = (name: string, more: Partial<Trial> = {}): Trial => ({ id: name, experiment: "x", name, status: "running", node: "heron", step: 0, config: {}, metrics: {}, error: "", reason: "", ...more });
const event = (n: number, time: number, config: Config, reason = ""): Trial => row(`event ${n}`, { status: "finished", started_ms: time, config, reason });
const open = { state: "running" } as Experiment;

test("a training run is told by its scheduler text, which names its workers", () => {
  const of = (text?: string) => ({ scheduler: text === undefined ? undefined : { text } });
  assert.deepEqual([of("train"), of("train: 2 workers with cpus 1 each"), of("trained"), of("ASHA"), of()].map(is_training), [true, true, false, false, false]);
  assert.equal(workers_text(of("train: 2 to 4 workers with cpus 0.5 each")), "2 to 4 workers with cpus 0.5 each");
  assert.equal(workers_text(of("train")), "");
  assert.deepEqual(workers_asked("2 to 4 workers with cpus 0.5, gpus 1 each"), { range: "2–4", each: { cpus: 0.5, gpus: 1 } });
  assert.deepEqual(workers_asked("8 workers with cpus 1 each"), { range: "8", each: { cpus: 1 } });
  assert.equal(workers_asked("2 workers with memory 2 GiB each"), null);
  assert.equal(workers_asked("some machines"), null);
});

test("rows of a run are told by their names; ranks and events are in the order of their numbers", () => {
  const trials = [row("rank 10"), row("event 2"), row("rank 2"), row("train"), row("event 10"), row("rank x"), row("ranks 1"), row("")];
  const { run, ranks, events } = parts_of(trials, open);
  assert.equal(run?.name, "train");
  assert.deepEqual(ranks.map(rank_of), [2, 10]);
  assert.deepEqual(events.map((one) => one.id), ["event 2", "event 10"]);
  assert.equal(is_event(row("event")), false);
});

test("a change of the group knows the size before it and the fault that led to it", () => {
  const { events } = parts_of([
    event(1, 10, { event: "group", workers: 4, step: 0 }, "The run trains with 4 workers."), event(2, 20, { event: "fault", rank: 3, workers: 3, step: 80 }, "killed\nwith a stack"),
    event(3, 21, { event: "group", workers: 3, step: 95 }), event(4, 30, { event: "note", workers: 3 }, "Rank 0 is slow."), event(5, 40, { event: "group", workers: 4 }),
  ], open);
  assert.deepEqual(events.map((one) => [one.kind, one.workers, one.before, one.cause]), [["group", 4, null, ""], ["fault", 3, 4, ""], ["group", 3, 4, "killed"], ["note", 3, 3, ""], ["group", 4, 3, ""]]);
  assert.deepEqual([events[1].rank, events[1].step, events[4].step], [3, 80, null]);
  assert.deepEqual(world_of(events, 5), [{ time: 5, workers: 0 }, { time: 10, workers: 4 }, { time: 20, workers: 3 }, { time: 40, workers: 4 }]);
});

test("what a rank does is parsed, and the ranks that hold up the others are found", () => {
  assert.deepEqual(doing_of("forward pass"), { activity: "forward pass", seconds: null, waits_for: [] });
  assert.deepEqual(doing_of("all_reduce of 64 elements of Float for 4.2 s; waits for ranks 0, 3"), { activity: "all_reduce of 64 elements of Float", seconds: 4.2, waits_for: [0, 3] });
  assert.deepEqual(doing_of("barrier; waits for rank 1"), { activity: "barrier", seconds: null, waits_for: [1] });
  assert.deepEqual(doing_of(""), { activity: "", seconds: null, waits_for: [] });
  // Rank 1 waits for rank 3 itself, and a rank that left waits for none.
  const ranks = [row("rank 0", { reason: "barrier; waits for ranks 1, 3" }), row("rank 1", { reason: "sum; waits for rank 3" }), row("rank 2", { status: "failed", reason: "barrier; waits for rank 9" }), row("rank 3", { reason: "forward pass" })];
  assert.deepEqual(awaited(ranks), { ranks: [3], waiting: 2 });
  assert.deepEqual(awaited([]), { ranks: [], waiting: 0 });
});

test("what a run does follows from its state, its ranks and its last event", () => {
  const phase = (trials: Trial[], experiment = open) => phase_of(experiment, parts_of(trials, experiment));
  const group = event(1, 1, { event: "group", workers: 2 });
  const lost = event(2, 2, { event: "fault", rank: 1, workers: 1 });
  assert.equal(phase([row("train")]), "starting");
  assert.equal(phase([row("train"), row("rank 0"), row("rank 1"), group]), "trains");
  assert.equal(phase([row("train"), row("rank 0"), row("rank 1", { status: "failed" }), group, lost]), "regroups");
  assert.equal(phase([row("train"), row("rank 0"), group, lost, event(3, 3, { event: "group", workers: 1 })]), "trains");
  assert.equal(phase([row("train"), row("rank 0"), group, event(2, 2, { event: "fault", workers: 2 })]), "trains", "a worker that was not in the group");
  assert.equal(phase([row("train"), row("rank 0", { status: "failed" }), group, lost]), "regroups");
  for (const [state, expected] of [["finished", "finished"], ["failed", "failed"], ["interrupted", "stopped"], ["crashed", "crashed"]]) assert.equal(phase([row("train")], { state } as Experiment), expected);
});

test("rows of a run whose program left count as interrupted at its last report", () => {
  const { run, ranks } = parts_of([row("train"), row("rank 0"), row("rank 1", { status: "failed" })], { state: "crashed", updated_ms: 77 });
  assert.deepEqual([run?.status, run?.ended_ms], ["interrupted", 77]);
  assert.deepEqual(ranks.map((one) => one.status), ["interrupted", "failed"]);
});

test("progress counts the steps of the ranks within an epoch, and the share of what is planned", () => {
  const of = (run: Trial | undefined, ranks: Trial[] = []) => progress_of({ run, ranks, events: [] });
  assert.deepEqual(of(row("train")), { steps: null, epochs: null, part: null });
  assert.deepEqual(of(row("train", { step: 3, metrics: { step: 120, epoch: 3, planned_iterations: 12 } })), { steps: 120, epochs: 3, part: 0.25 });
  assert.deepEqual(of(row("train", { metrics: { step: 120, epoch: 3 } }), [row("rank 0", { metrics: { step: 130 } }), row("rank 1")]), { steps: 130, epochs: 3.25, part: null });
  assert.equal(of(row("train", { metrics: { step: 120, epoch: 3 } }), [row("rank 0", { metrics: { step: 999 } })]).epochs, 3.99, "the report of an epoch is not here yet");
  assert.equal(of(row("train"), [row("rank 0", { metrics: { step: 7 } })]).steps, 7);
});

const curves = (of: Record<string, number[]>) => (metric: string): Points | undefined => (of[metric] ? { id: "t", x: of[metric].map((_, i) => i + 1), y: of[metric] } : undefined);

test("a step is split into its parts and the rest, also where its whole time follows from the throughput only", () => {
  const parts = { mean_data_s: [0.1, 0.1], mean_forward_s: [0.2, 0.2], mean_backward_s: [0.3, 0.3], mean_communication_s: [0.1, 0.1], mean_optimizer_s: [0.1, 0.1] };
  const other = (of: Record<string, number[]>) => splits_of(curves(of)).map((one) => Math.round(one.values[5] * 1000) / 1000);
  assert.deepEqual(other({ ...parts, mean_step_s: [1, 0.5] }), [0.2, 0]);
  assert.deepEqual(other({ ...parts, num_samples: [1000, 1000], samples_per_s: [100, 125], batch_count: [10, 10] }), [0.2, 0]);
  assert.deepEqual(other(parts), [0, 0]);
  assert.deepEqual(splits_of(curves({})), []);
  const rows = Array.from({ length: 5 }, (_, i) => ({ x: i + 1, values: [i, 1] }));
  assert.deepEqual(binned(rows, 2), [{ x: 3, values: [1, 1] }, { x: 5, values: [3.5, 1] }]);
  assert.equal(binned(rows, 5), rows);
});

test("metrics of training and validation share a chart; the run's own comes first", () => {
  const names = ["epoch", "train_loss", "val_loss", "val_accuracy", "last_train_loss", "train_aux", "samples_per_s"];
  assert.deepEqual(metric_groups(names, "train_loss", 4), [{ name: "loss", metrics: ["train_loss", "val_loss"] }, { name: "aux", metrics: ["train_aux"] }, { name: "accuracy", metrics: ["val_accuracy"] }]);
  assert.deepEqual(metric_groups([], "reward", 4), [{ name: "reward", metrics: ["reward"] }]);
  assert.equal(metric_groups(names, "train_loss", 2).length, 2);
});

test("ticks of a time axis are round, and few", () => {
  assert.deepEqual(time_ticks(61_000, 181_000, 4), [90_000, 120_000, 150_000, 180_000]);
  assert.ok(time_ticks(0, 9e9, 5).length <= 6);
  assert.ok(time_ticks(0, 86_400_000 * 400, 5).length <= 6, "more than a year");
});
