// The list of experiments of a configuration: filters with their counts, and columns of the user's choice. Pure.
import type { Experiment } from "../live/protocol";
import { acts_of, type Act, type Configured } from "./configured";
import { flatten } from "./trials";

export interface ListRow extends Configured {
  hparams: Record<string, unknown>;  // The best trial's.
  latest?: number;                   // Last value of the trial that ended best.
}

const kNothing = {};
const flat = new WeakMap<object, Record<string, unknown>>();  // By configuration: most rows stay as they are.
function flat_of(config: Parameters<typeof flatten>[0]): Record<string, unknown> {
  const known = flat.get(config) ?? flatten(config);
  flat.set(config, known);
  return known;
}

// Hyperparameters and last values come from the rows of the live connection.
export function joined(rows: Configured[], runs: Map<string, Experiment>): ListRow[] {
  return rows.map((row) => {
    const run = row.run ? runs.get(row.run) : undefined;
    return { ...row, hparams: run?.best?.config ? flat_of(run.best.config) : kNothing, latest: run?.best?.value };
  });
}

export const hparams_in = (rows: ListRow[]): string[] => [...new Set(rows.flatMap((row) => Object.keys(row.hparams)))].sort();

export const base_state = (state: string): string => (state.startsWith("STOPPING_") ? "STOPPING" : state);
export const project_of = (row: { workspace: string; project: string }): string => (row.project ? `${row.workspace} / ${row.project}` : "");

export interface Filters { state: string; label: string; user: string; project: string; archived: boolean }
export const kNone = "-";  // Stands for an empty user or project in a filter.

const keys_of: Record<"state" | "label" | "user" | "project", (row: Configured) => string[]> = {
  state: (row) => [base_state(row.state)], label: (row) => row.labels, user: (row) => [row.user || kNone], project: (row) => [project_of(row) || kNone],
};
export type FilterName = keyof typeof keys_of;
export const kFilters = Object.keys(keys_of) as FilterName[];

export function filtered<T extends Configured>(rows: T[], filters: Filters, but?: FilterName): T[] {
  return rows.filter((row) => (filters.archived || !row.archived) && kFilters.every((name) => name === but || !filters[name] || keys_of[name](row).includes(filters[name])));
}

// The values of a filter with the number of rows that each would leave, the most frequent first.
export function counts_of(rows: Configured[], filters: Filters, name: FilterName): [string, number][] {
  const out = new Map<string, number>();
  for (const row of filtered(rows, filters, name)) for (const key of keys_of[name](row)) out.set(key, (out.get(key) ?? 0) + 1);
  return [...out].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
}

// Which of the chosen experiments each action is for.
export function acts_of_all(rows: Configured[]): [Act, Configured[]][] {
  const kAll: Act[] = ["activate", "pause", "cancel", "kill", "archive", "unarchive", "delete"];
  return kAll.map((act): [Act, Configured[]] => [act, rows.filter((row) => acts_of(row).includes(act))]).filter(([, which]) => which.length > 0);
}

export const duration_of = (row: Configured, now: number): number | null => (row.created_ms ? (row.ended_ms || now) - row.created_ms : null);

export const kDefaultColumns = ["id", "state", "trials", "progress", "metric", "best", "user", "created", "duration", "labels", "searcher"];
