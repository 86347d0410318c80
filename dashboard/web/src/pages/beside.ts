// Rows of a table that has several configurations side by side. Pure.
import type { Value } from "../live/protocol";

export const kCompared = 8;  // Trials in one comparison: as many as there are colours that are told apart.

export interface BesideRow {
  name: string;
  shown: string[];   // One a configuration.
  differs: boolean;  // Not all are the same.
}

// In the order in which the names come first.
export function beside(configs: Record<string, Value>[], show: (value: unknown) => string): BesideRow[] {
  const names = [...new Set(configs.flatMap((config) => Object.keys(config)))];
  return names.map((name) => {
    const shown = configs.map((config) => show(config[name]));
    return { name, shown, differs: new Set(configs.map((config) => JSON.stringify(config[name]))).size > 1 };
  });
}

// Places of the best of some values; several where they are equal, none where all are absent or fewer than two are there.
export function best_places(values: (number | null | undefined)[], mode: string): Set<number> {
  const known = values.filter((value): value is number => typeof value === "number" && Number.isFinite(value));
  if (known.length < 2) return new Set();
  const best = mode === "min" ? Math.min(...known) : Math.max(...known);
  return new Set(values.flatMap((value, i) => (value === best ? [i] : [])));
}
