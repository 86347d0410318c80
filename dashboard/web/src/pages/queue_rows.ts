// Rows of the queue, with equal requests folded into one row. Pure.
import type { Waiting } from "../live/protocol";

// Requests of the same kind, resources, reason and run.
export interface Folded extends Waiting {
  members: Waiting[];  // By position; the row has the id of the first one.
}

const key_of = (row: Waiting) => JSON.stringify([row.kind, row.experiment || row.class_name || "", row.kind === "group" ? row.id : "", row.resources, row.reason, row.blocker?.id ?? "", row.name || ""]);

export function fold(rows: Waiting[]): Folded[] {
  const found = new Map<string, Folded>();
  for (const row of [...rows].sort((a, b) => (a.position ?? 0) - (b.position ?? 0))) {
    const key = key_of(row);
    const known = found.get(key);
    if (!known) found.set(key, { ...row, members: [row] });
    else {
      known.members.push(row);
      known.since_ms = Math.min(known.since_ms, row.since_ms);
    }
  }
  return [...found.values()];
}

// Returns the page of an object in the queue.
export function path_of(one: { kind: string; id: string; experiment?: string; trial?: string }): string[] {
  if (one.kind === "group") return ["groups", one.id];
  if (one.kind === "trial" && one.experiment && one.trial) return ["experiments", one.experiment, "trials", one.trial];
  return ["actors", one.id];
}
