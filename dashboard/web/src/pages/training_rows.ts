// What the page of a training run derives from its rows, which train/report/run_report.h describes. Pure.
import type { Experiment, Points, Trial } from "../live/protocol";

export const is_training = (experiment: { scheduler?: { text: string } }): boolean => /^train(: |$)/.test(experiment.scheduler?.text ?? "");

// Workers and their resources as the program wrote them: "2 to 4 workers with cpus 1 each"; empty: unknown.
export const workers_text = (experiment: { scheduler?: { text: string } }): string => (experiment.scheduler?.text ?? "").replace(/^train(: |$)/, "");

// Parses workers_text(); null: the program wrote it in another way.
export function workers_asked(text: string): { range: string; each: Record<string, number> } | null {
  const found = /^(\d+)(?: to (\d+))? workers with (.+) each$/.exec(text);
  const pairs = found?.[3].split(", ").map((part) => /^(\S+) ([\d.]+)$/.exec(part));
  if (!found || !pairs || pairs.some((pair) => pair === null)) return null;
  return { range: found[2] ? `${found[1]}–${found[2]}` : found[1], each: Object.fromEntries(pairs.map((pair) => [pair![1], Number(pair![2])])) };
}

export interface RunEvent {
  id: string;
  kind: "group" | "fault" | "note";
  time: number;           // Unix ms
  text: string;
  workers: number;        // Size of the group from then on.
  before: number | null;  // Workers of the previous group; null: there was none.
  rank: number | null;    // Rank of a fault; null: unknown.
  step: number | null;    // Optimizer steps done; null: unknown.
  cause: string;          // For a group: the last fault since the previous group; empty: none.
}

export interface RunParts {
  run: Trial | undefined;
  ranks: Trial[];      // By rank.
  events: RunEvent[];  // Oldest first.
}

const number_in = (name: string | undefined, word: string): number | null => {
  const found = name?.startsWith(word + " ") ? Number(name.slice(word.length + 1)) : NaN;
  return Number.isInteger(found) ? found : null;
};
export const rank_of = (trial: Trial): number | null => number_in(trial.name, "rank");
export const is_event = (trial: Trial): boolean => number_in(trial.name, "event") !== null;
const numeric = (value: unknown): number | null => (typeof value === "number" && Number.isFinite(value) ? value : null);

// Rows of a run whose program left still say that they run; they count as interrupted at its last report.
export function parts_of(trials: Trial[], experiment: { state: string; updated_ms?: number }): RunParts {
  const is_open = experiment.state === "running" || experiment.state === "paused";
  const now = (row: Trial): Trial => (is_open || row.status !== "running" ? row : { ...row, status: "interrupted", ended_ms: experiment.updated_ms });
  const run = trials.find((one) => one.name === "train");
  const ranks = trials.filter((one) => rank_of(one) !== null).sort((a, b) => rank_of(a)! - rank_of(b)!).map(now);
  const rows = trials.filter(is_event).sort((a, b) => number_in(a.name, "event")! - number_in(b.name, "event")!);
  const events: RunEvent[] = [];
  let before: number | null = null;
  let cause = "";
  for (const row of rows) {
    const kind = row.config?.event === "group" || row.config?.event === "fault" ? row.config.event : "note";
    const event: RunEvent = { id: row.id, kind, time: row.started_ms ?? 0, text: row.reason, workers: numeric(row.config?.workers) ?? 0, before, rank: numeric(row.config?.rank), step: numeric(row.config?.step), cause: kind === "group" ? cause : "" };
    events.push(event);
    if (kind === "fault") cause = first_line(event.text);
    if (kind === "group") [before, cause] = [event.workers, ""];
  }
  return { run: run && now(run), ranks, events };
}

export const first_line = (text: string): string => text.split("\n", 1)[0];

// Workers over time: each entry holds until the next one. Begins with 0 at the start of the run.
export function world_of(events: RunEvent[], from: number): { time: number; workers: number }[] {
  const world = [{ time: from, workers: 0 }];
  for (const event of events) {
    if (event.kind !== "note" && event.workers !== world[world.length - 1].workers) world.push({ time: event.time, workers: event.workers });
  }
  return world;
}

// Parses what a rank does: "barrier for 4.2 s; waits for ranks 0, 3".
export function doing_of(reason: string): { activity: string; seconds: number | null; waits_for: number[] } {
  const [, activity, seconds, ranks] = /^(.*?)(?: for ([\d.]+) s)?(?:; waits for ranks? ([\d, ]+))?$/s.exec(reason) ?? ["", reason];
  return { activity, seconds: seconds === undefined ? null : Number(seconds), waits_for: ranks ? ranks.split(", ").map(Number) : [] };
}

// Returns the ranks that others wait for and that wait for none themselves, with the number of those that wait.
export function awaited(ranks: Trial[]): { ranks: number[]; waiting: number } {
  const doing = ranks.filter((one) => one.status === "running").map((one) => ({ rank: rank_of(one)!, waits_for: doing_of(one.reason).waits_for }));
  const waiting = doing.filter((one) => one.waits_for.length > 0);
  const blocked = new Set(waiting.map((one) => one.rank));
  const found = new Set(waiting.flatMap((one) => one.waits_for).filter((rank) => !blocked.has(rank)));
  return { ranks: [...found].sort((a, b) => a - b), waiting: waiting.length };
}

export type Phase = "starting" | "trains" | "regroups" | "finished" | "failed" | "stopped" | "crashed";
export function phase_of(experiment: Experiment, { run, ranks, events }: RunParts): Phase {
  if (experiment.state === "crashed") return "crashed";
  if (experiment.state === "failed" || run?.status === "failed") return "failed";
  if (experiment.state === "finished") return "finished";
  if (experiment.state === "interrupted") return "stopped";
  if (!ranks.some((one) => one.status === "running")) return events.some((one) => one.kind === "group") ? "regroups" : "starting";
  const last = [...events].reverse().find((one) => one.kind !== "note");
  return last?.kind === "fault" && last.workers < (last.before ?? 0) ? "regroups" : "trains";
}

// Progress. `steps`: optimizer steps done; `epochs`: with the part of the current one if its length is known; `part`: share of the planned
// reports, from 0 to 1. null: unknown.
export function progress_of({ run, ranks }: RunParts): { steps: number | null; epochs: number | null; part: number | null } {
  const reported = { step: numeric(run?.metrics?.step), epoch: numeric(run?.metrics?.epoch) };
  const seen = ranks.map((one) => numeric(one.metrics?.step)).filter((step): step is number => step !== null);
  const steps = seen.length || reported.step !== null ? Math.max(reported.step ?? 0, ...seen) : null;
  const per_epoch = reported.step && reported.epoch ? reported.step / reported.epoch : 0;
  const begun = per_epoch > 0 && steps !== null ? (steps - reported.step!) / per_epoch : 0;
  const planned = numeric(run?.metrics?.planned_iterations);
  return { steps, part: planned && run ? Math.min(1, run.step / planned) : null, epochs: reported.epoch === null ? null : reported.epoch + Math.min(0.99, Math.max(0, begun)) };
}

// Parts of a step, in their order, with the metric of each: mean seconds a step on rank 0.
export const kStepParts = [["data", "mean_data_s"], ["forward", "mean_forward_s"], ["backward", "mean_backward_s"], ["communication", "mean_communication_s"], ["optimizer", "mean_optimizer_s"]] as const;
export const kStepMetrics = [...kStepParts.map(([, metric]) => metric), "mean_step_s", "num_samples", "samples_per_s", "batch_count"];

export interface Split {
  x: number;
  values: number[];  // Seconds of each of kStepParts, then of what else the step took.
}

// Splits the time of a step by report. The whole time is mean_step_s, or else follows from the throughput.
export function splits_of(curve: (metric: string) => Points | undefined): Split[] {
  const at = (metric: string) => {
    const points = curve(metric);
    return new Map(points?.x.map((x, i) => [x, points.y[i]]) ?? []);
  };
  const parts = kStepParts.map(([, metric]) => at(metric));
  const [whole, samples, rate, batches] = ["mean_step_s", "num_samples", "samples_per_s", "batch_count"].map(at);
  return [...parts[0].keys()].flatMap((x) => {
    const values = parts.map((part) => Math.max(0, part.get(x) ?? 0));
    const known = values.reduce((sum, value) => sum + value, 0);
    const all = whole.get(x) ?? (samples.get(x) ?? NaN) / (rate.get(x) ?? NaN) / (batches.get(x) ?? NaN);
    return [{ x, values: [...values, Number.isFinite(all) ? Math.max(0, all - known) : 0] }];
  });
}

// Means of consecutive rows, at most `most` of them.
export function binned(rows: Split[], most: number): Split[] {
  const every = Math.ceil(rows.length / most);
  if (every <= 1) return rows;
  return Array.from({ length: Math.ceil(rows.length / every) }, (_, i) => {
    const some = rows.slice(i * every, (i + 1) * every);
    return { x: some[some.length - 1].x, values: some[0].values.map((_, k) => some.reduce((sum, row) => sum + row.values[k], 0) / some.length) };
  });
}

// Metrics of training and validation with a common name, in one chart each; the run's own metric first.
export interface MetricGroup {
  name: string;       // "loss"
  metrics: string[];  // "train_loss", "val_loss"
}
export function metric_groups(names: string[], own: string, most: number): MetricGroup[] {
  const base = (name: string) => /^(?:train|val)_(.+)$/.exec(name)?.[1];
  const groups = new Map<string, string[]>([[base(own) ?? own, [own]]]);
  for (const name of [...names].sort()) {
    const of = base(name);
    if (of === undefined || name === own) continue;
    groups.set(of, [...(groups.get(of) ?? []), name].sort());
  }
  return [...groups].map(([name, metrics]) => ({ name, metrics })).slice(0, most);
}
