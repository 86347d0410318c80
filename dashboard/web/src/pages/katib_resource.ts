// A resource of kind Experiment, as an object of the Kubernetes API. Pure.
import { yaml_text, yaml_value } from "./yaml_text";

export interface Resource {
  kind: string;
  namespace: string;
  name: string;
  object: Record<string, unknown>;
  version: number;
  trial?: number;  // Id of the trial of ours; 0: none.
  job?: string;    // Empty: none.
}
export interface Condition { type: string; status: string; reason: string; message: string; lastTransitionTime: string }
export interface Optimal {
  bestTrialName: string;
  parameterAssignments?: { name: string; value: string }[];
  observation?: { metrics?: { name: string; min?: string; max?: string; latest?: string }[] };
}

const status_of = ({ object }: Resource) => (object.status ?? {}) as { conditions?: Condition[]; currentOptimalTrial?: Optimal };
// The newest first.
export const conditions_of = (resource: Resource): Condition[] => [...(status_of(resource).conditions ?? [])].reverse();
export const has_ended = (resource: Resource): boolean => (status_of(resource).conditions ?? []).some((one) => (one.type === "Succeeded" || one.type === "Failed") && one.status === "True");
export function optimal_of(resource: Resource): Optimal | null {
  const found = status_of(resource).currentOptimalTrial;
  return found?.bestTrialName ? found : null;
}

// ---- Objective and trials ----

export interface Objective { metric: string; maximize: boolean; goal: number | null; strategy: "min" | "max" | "latest" }
export const kTrialConditions = ["Created", "Running", "Succeeded", "EarlyStopped", "MetricsUnavailable", "Failed", "Killed"] as const;
export type TrialCondition = (typeof kTrialConditions)[number];

interface ObjectiveObject { type?: string; goal?: number; objectiveMetricName?: string; metricStrategies?: { name: string; value: string }[] }

export function objective_of({ object }: Resource): Objective {
  const given = ((object.spec ?? {}) as { objective?: ObjectiveObject }).objective ?? {};
  const maximize = given.type === "maximize";
  const strategy = given.metricStrategies?.find((one) => one.name === given.objectiveMetricName)?.value;
  return { metric: given.objectiveMetricName ?? "", maximize, goal: typeof given.goal === "number" ? given.goal : null, strategy: strategy === "min" || strategy === "max" || strategy === "latest" ? strategy : maximize ? "max" : "min" };
}

export interface KatibTrial {
  name: string;
  number: number;             // In the order in which they were created, from 1.
  condition: TrialCondition;
  message: string;
  value: number | null;       // The objective; null: it was not seen.
  parameters: Record<string, string>;
  metrics: { name: string; text: string }[];
  created_ms: number;
  ended_ms: number;           // 0: it has not ended.
  trial: number;
  job: string;
}

type TrialStatus = { conditions?: Condition[]; completionTime?: string; observation?: Observation };
type Observation = { metrics?: { name: string; min?: string; max?: string; latest?: string }[] };
type TrialSpec = { parameterAssignments?: { name: string; value: string }[] };

const ms_of = (time: unknown): number => (typeof time === "string" ? Date.parse(time) || 0 : 0);
// Texts of numbers; empty texts and words are none.
const number_of = (text: string | undefined): number | null => (text !== undefined && text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : null);

// The trials of an experiment, in the order in which they were created.
export function trials_of(resources: Resource[], objective: Objective): KatibTrial[] {
  const rows = resources.map((resource): KatibTrial => {
    const status = (resource.object.status ?? {}) as TrialStatus;
    const spec = (resource.object.spec ?? {}) as TrialSpec;
    const metadata = (resource.object.metadata ?? {}) as { creationTimestamp?: string };
    const true_ones = (status.conditions ?? []).filter((one) => one.status === "True");
    const newest = [...true_ones].reverse().find((one) => (kTrialConditions as readonly string[]).includes(one.type));
    const metrics = status.observation?.metrics ?? [];
    const own = metrics.find((one) => one.name === objective.metric);
    return {
      name: resource.name, number: 0, condition: (newest?.type ?? "Created") as TrialCondition, message: newest?.message ?? "",
      value: own ? number_of(own[objective.strategy]) ?? number_of(own.latest) : null,
      parameters: Object.fromEntries((spec.parameterAssignments ?? []).map((one) => [one.name, one.value])),
      metrics: metrics.map((one) => ({ name: one.name, text: one.latest ?? one.max ?? "" })),
      created_ms: ms_of(metadata.creationTimestamp), ended_ms: ms_of(status.completionTime), trial: resource.trial ?? 0, job: resource.job ?? "",
    };
  });
  rows.sort((a, b) => a.created_ms - b.created_ms || a.trial - b.trial || (a.name < b.name ? -1 : 1));
  rows.forEach((row, i) => { row.number = i + 1; });
  return rows;
}

// A parameter's value as a number where it is one.
export const parameter_value = (text: string | undefined): number | string | undefined => (text === undefined ? undefined : number_of(text) ?? text);

// The best value so far after each trial that has one, in the order of their ends or of their numbers.
export function best_so_far(trials: KatibTrial[], { maximize }: Objective, by: "ended" | "number"): { trial: KatibTrial; best: number }[] {
  const counted = trials.filter((one) => one.value !== null && one.ended_ms > 0 && (one.condition === "Succeeded" || one.condition === "EarlyStopped")).sort((a, b) => (by === "ended" ? a.ended_ms - b.ended_ms : 0) || a.number - b.number);
  let best: number | null = null;
  return counted.map((trial) => {
    best = best === null ? trial.value! : maximize ? Math.max(best, trial.value!) : Math.min(best, trial.value!);
    return { trial, best };
  });
}

// ---- As YAML ----

// The part of a resource that is applied: without what the server adds.
export function applied_yaml(object: Record<string, unknown>): string {
  const { status: _status, metadata, ...rest } = object;
  const { uid: _uid, creationTimestamp: _created, generation: _generation, resourceVersion: _version, ...kept } = (metadata ?? {}) as Record<string, unknown>;
  const { apiVersion, kind, ...spec } = rest;
  return resource_yaml({ apiVersion, kind, metadata: kept, ...spec });
}

// Lines of a value at this depth; lists stand at the indentation of their key, as kubectl prints them.
function lines(value: unknown, depth: number): string[] {
  const margin = "  ".repeat(depth);
  if (Array.isArray(value)) {
    return value.flatMap((one) => {
      const inner = is_block(one) ? lines(one, depth + 1) : [margin + "  " + scalar(one, depth + 1)];
      return [margin + "- " + inner[0].slice(margin.length + 2), ...inner.slice(1)];
    });
  }
  return Object.entries(value as Record<string, unknown>).flatMap(([key, one]) => (is_block(one) ? [`${margin}${yaml_text(key)}:`, ...lines(one, Array.isArray(one) ? depth : depth + 1)] : [`${margin}${yaml_text(key)}: ${scalar(one, depth + 1)}`]));
}
const is_block = (value: unknown): boolean => typeof value === "object" && value !== null && Object.keys(value).length > 0;
const scalar = (value: unknown, depth: number): string => (typeof value === "string" ? yaml_value(value, depth) : typeof value === "object" && value !== null ? (Array.isArray(value) ? "[]" : "{}") : String(value));

export const resource_yaml = (object: Record<string, unknown>): string => lines(object, 0).join("\n") + "\n";
