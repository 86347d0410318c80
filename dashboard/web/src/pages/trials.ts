// Values that pages derive from the trials of an experiment. Pure.
import type { Config, Experiment, Points, Trial, Value, SchedulerRung } from "../live/protocol";

// Flattens `{"opt": {"lr": 0.1}}` to `opt.lr`, as the head's tables name parameters.
export function flatten(config: Config, prefix = "", into: Record<string, Value> = {}): Record<string, Value> {
  for (const [key, value] of Object.entries(config ?? {})) {
    const path = prefix ? prefix + "." + key : key;
    if (value !== null && typeof value === "object" && !Array.isArray(value)) flatten(value, path, into);
    else into[path] = value;
  }
  return into;
}

// Returns the changed parameters of a clone as whole top-level values, since a choice's option that is a map must be given whole.
export const changed_parameters = (before: Config, after: Config): Config =>
  Object.fromEntries(Object.entries(after).filter(([name, value]) => !(name in before) || JSON.stringify(value) !== JSON.stringify(before[name])));

// Returns the displayed name of a trial: from its run's template, else the start of its id.
export const shown_name = (trial: { id: string; name?: string }, most = 40) => {
  const name = trial.name || trial.id.slice(0, 8);
  return name.length > most ? name.slice(0, most - 1) + "…" : name;
};

const flat_of = new WeakMap<Trial, Record<string, Value>>();
export function flat(trial: Trial): Record<string, Value> {
  let found = flat_of.get(trial);
  if (!found) flat_of.set(trial, (found = trial.config_text ? { config: trial.config_text } : flatten(trial.config)));
  return found;
}

export interface Parameter {
  path: string;
  varies: boolean;
  numeric: boolean;
}

// Returns the parameters in order of first occurrence, those that vary first.
export function parameters(trials: Trial[]): Parameter[] {
  const seen = new Map<string, { first: string; varies: boolean; numeric: boolean; times: number }>();
  for (const trial of trials) {
    for (const [path, value] of Object.entries(flat(trial))) {
      const text = typeof value === "number" ? String(value) : JSON.stringify(value);
      const known = seen.get(path);
      if (!known) seen.set(path, { first: text, varies: false, numeric: typeof value === "number", times: 1 });
      else {
        known.varies ||= known.first !== text;
        known.numeric &&= typeof value === "number";
        known.times++;
      }
    }
  }
  const all = [...seen.entries()].map(([path, one]) => ({ path, varies: one.varies || one.times < trials.length, numeric: one.numeric }));
  return [...all.filter((one) => one.varies), ...all.filter((one) => !one.varies)];
}

// Values of the varying parameters, for the tooltip of a trial.
export const varying = (trial: Trial, params: Parameter[], show: (value: unknown) => string, most = 6): [string, string][] =>
  params.filter((one) => one.varies).slice(0, most).map((one) => [one.path, show(flat(trial)[one.path])]);

const kBookkeeping = new Set(["training_iteration", "time_this_iter_s", "time_total_s", "done"]);
const kNoMeasures = new Set(["timestamp", "pid", "planned_iterations"]);  // Numbers of the training loop that make no useful curve.
// Returns the names of metrics, the experiment's own first, those of the training loop last.
export function metrics(trials: Trial[], experiment: Experiment | undefined): string[] {
  const names = new Set<string>(experiment?.metrics ?? []);
  for (const trial of trials) for (const name of Object.keys(trial.metrics ?? {})) names.add(name);
  const own = experiment?.metric;
  const rest = [...names].filter((name) => name !== own && !kNoMeasures.has(name)).sort((a, b) => Number(kBookkeeping.has(a)) - Number(kBookkeeping.has(b)) || (a < b ? -1 : 1));
  return own ? [own, ...rest] : rest;
}

export const better = (mode: string) => (mode === "min" ? (a: number, b: number) => a < b : (a: number, b: number) => a > b);

// Sorts trials best first; leaves out those without the metric.
export function ranked(trials: Trial[], metric: string, mode: string): Trial[] {
  const sign = mode === "min" ? 1 : -1;
  const value = (trial: Trial) => trial.metrics?.[metric];
  return trials.filter((trial) => typeof value(trial) === "number" && Number.isFinite(value(trial))).sort((a, b) => sign * (value(a)! - value(b)!));
}

export interface Rung {
  step: number;
  bracket?: number;
  entries: { trial: Trial; value: number; fate: "on" | "stopped" | "here" }[];  // Best first.
  cut: number | null;  // Value at the rank of the number of continued trials; a stopped trial may be better, if the cutoff was stricter then.
}

// Returns the scheduler's rungs, or else the steps at which trials were stopped or paused, with the reported value of each trial.
export function rungs(trials: Trial[], curves: (id: string) => Points | undefined, mode: string, own: SchedulerRung[] | undefined): Rung[] {
  if (!own?.length) return derived_rungs(trials, curves, mode, stop_steps(trials));
  const by_id = new Map(trials.map((trial) => [trial.id, trial]));
  return own.filter((rung) => rung.trials > 0).map((rung) => {
    const known = { step: rung.step, bracket: rung.bracket, cut: rung.cutoff };
    // The head truncates large rungs; the values then come from the curves.
    if (rung.members.length < rung.trials) return { ...derived_rungs(trials, curves, mode, [rung.step])[0], ...known };
    const entries: Rung["entries"] = [];
    for (const member of rung.members) {
      const trial = by_id.get(member.trial);
      if (trial && member.value !== null) entries.push({ trial, value: member.value, fate: fate_of(member.act, trial, rung.step) });
    }
    return { ...known, entries };
  });
}

// The highest rung that each trial has reached, as its scheduler records it.
export function rungs_reached(own: SchedulerRung[] | undefined): Map<string, number> {
  const reached = new Map<string, number>();
  for (const rung of own ?? []) for (const { trial } of rung.members) reached.set(trial, Math.max(rung.step, reached.get(trial) ?? 0));
  return reached;
}

function fate_of(act: string, trial: Trial, step: number): "on" | "stopped" | "here" {
  if (act === "stopped") return "stopped";
  return act === "paused" || (trial.step <= step && trial.status === "running") ? "here" : "on";
}

function derived_rungs(trials: Trial[], curves: (id: string) => Points | undefined, mode: string, steps: number[]): Rung[] {
  const better_than = better(mode);
  return steps.map((step) => {
    const entries: Rung["entries"] = [];
    for (const trial of trials) {
      if (trial.step < step) continue;
      const points = curves(trial.id);
      const value = points ? value_at(points, step) : null;
      if (value === null) continue;
      const ended = trial.status === "stopped" || trial.status === "paused";
      entries.push({ trial, value, fate: trial.step > step ? "on" : ended ? "stopped" : trial.status === "finished" ? "on" : "here" });
    }
    entries.sort((a, b) => (better_than(a.value, b.value) ? -1 : 1));
    const passed = entries.filter((entry) => entry.fate === "on");
    const cut = passed.length && passed.length < entries.length ? entries[passed.length - 1].value : null;
    return { step, entries, cut };
  });
}

function stop_steps(trials: Trial[]): number[] {
  const times = new Map<number, number>();
  for (const trial of trials) {
    if ((trial.status === "stopped" || trial.status === "paused") && trial.step > 0) times.set(trial.step, (times.get(trial.step) ?? 0) + 1);
  }
  const steps = [...times.entries()].sort((a, b) => b[1] - a[1]).slice(0, 10).map(([step]) => step);
  const top = trials.reduce((most, trial) => (trial.status === "finished" ? Math.max(most, trial.step) : most), 0);
  if (top > 0 && steps.length && !steps.includes(top)) steps.push(top);
  return steps.sort((a, b) => a - b);
}

function value_at(points: Points, step: number): number | null {
  const at = points.x.lastIndexOf(step);
  const value = at >= 0 ? points.y[at] : null;
  return value !== null && value !== undefined && Number.isFinite(value) ? value : null;
}

const kEnded = ["finished", "stopped", "failed", "interrupted", "unstarted"];
export const has_ended = (trial: Trial) => kEnded.includes(trial.status);
// Number of ended trials of an experiment.
export const ended_count = (experiment: Experiment) => kEnded.reduce((sum, state) => sum + (experiment.trials_by_status[state] ?? 0), 0);

// Returns the time left in ms, as estimated by the head; null: no estimate.
export function left_ms(experiment: Experiment, now: number): { point: number; low: number; high: number } | null {
  const left = experiment.left;
  if (!left) return null;
  const since = now - left.at_ms;
  const shown = (seconds: number) => Math.max(0, seconds * 1000 - since);
  return { point: shown(left.seconds), low: shown(left.low), high: shown(left.high) };
}

// Returns whether the best trial by last value differs from the best at any step.
export const differs = (experiment: Experiment): boolean =>
  Boolean(experiment.best && experiment.best_so_far && (experiment.best.trial !== experiment.best_so_far.trial || experiment.best.value !== experiment.best_so_far.value));
