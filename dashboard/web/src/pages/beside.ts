// Rows of a table that shows several configurations side by side. Pure.
import type { Value } from "../live/protocol";

export const kCompared = 8;  // Most trials in one comparison; there are as many distinct colours.

export interface BesideRow {
  name: string;
  shown: string[];   // One text per configuration.
  differs: boolean;  // At least two configurations differ.
}

// Rows are in the order in which their names first occur.
export function beside(configs: Record<string, Value>[], show: (value: unknown) => string): BesideRow[] {
  const names = [...new Set(configs.flatMap((config) => Object.keys(config)))];
  return names.map((name) => {
    const shown = configs.map((config) => show(config[name]));
    return { name, shown, differs: new Set(configs.map((config) => JSON.stringify(config[name]))).size > 1 };
  });
}

// Returns the indices of the best value, several for ties; none if fewer than two values are known.
export function best_places(values: (number | null | undefined)[], mode: string): Set<number> {
  const known = values.filter((value): value is number => typeof value === "number" && Number.isFinite(value));
  if (known.length < 2) return new Set();
  const best = mode === "min" ? Math.min(...known) : Math.max(...known);
  return new Set(values.flatMap((value, i) => (value === best ? [i] : [])));
}
