// Counts task functions from the timeline of the processes that run tasks. Pure.

export interface TraceEvent {
  ph: string;
  name: string;
  dur?: number;  // µs
  args?: { actor?: string; calls?: number; running?: boolean; failed?: boolean };
}

export interface FunctionRow {
  id: string;
  name: string;
  running: number;
  ended: number;
  failed: number;
  ms: number;  // Total of the ended calls.
}

// `runners`: ids of the actors that run tasks; calls of other actors are ignored. Sorted by running, then ended calls.
export function functions_of(events: TraceEvent[], runners: Set<string>): FunctionRow[] {
  const found = new Map<string, FunctionRow>();
  for (const event of events) {
    if (event.ph !== "X" || !runners.has(event.args?.actor ?? "")) continue;
    const row = found.get(event.name) ?? { id: event.name, name: event.name, running: 0, ended: 0, failed: 0, ms: 0 };
    found.set(event.name, row);
    if (event.args?.running) {
      row.running++;
      continue;
    }
    const calls = Math.max(1, event.args?.calls ?? 1);
    row.ended += calls;
    row.failed += event.args?.failed ? calls : 0;
    row.ms += (event.dur ?? 0) / 1000;
  }
  return [...found.values()].sort((a, b) => b.running - a.running || b.ended - a.ended);
}
