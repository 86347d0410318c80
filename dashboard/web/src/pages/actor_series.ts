// Pure half of an actor's own measures, as GET /api/v1/actors/{id}/metrics has them.
export interface Series {
  name: string;
  kind: "counter" | "gauge" | "histogram";
  help?: string;
  labels?: Record<string, string>;
  value: number;      // Of a histogram: the sum of what was observed.
  counts?: number[];  // Of a histogram: how many, by bucket.
}
interface Look {
  at: number;  // ms.
  series: Series[];
}

export const label_text = (one: Series) => Object.entries(one.labels ?? {}).map(([key, value]) => `${key}=${value}`).join(" ");
const observed = (one: Series) => (one.counts ?? []).reduce((sum, part) => sum + part, 0);
const total = (one: Series) => (one.kind === "histogram" ? observed(one) : one.value);

// How fast a counter or the number of observations grew between two looks; nothing of gauges, or where it began anew.
export function per_second(one: Series, now: Look, before: Look | undefined): number | null {
  const then = before?.series.find((other) => other.name === one.name && label_text(other) === label_text(one));
  if (one.kind === "gauge" || !before || !then || now.at <= before.at || total(one) < total(then)) return null;
  return (total(one) - total(then)) / ((now.at - before.at) / 1000);
}

export const summary = (one: Series, shown: (value: number) => string) => {
  const n = observed(one);
  return { count: shown(n), mean: n > 0 ? shown(one.value / n) : "–" };
};

const kPast = 300;  // Looks that are kept.

// What each measure was at the last looks: of a counter or histogram how fast it grew, of a gauge its value. By name and labels.
export function past_with(past: Record<string, number[]>, now: Look, before: Look | undefined): Record<string, number[]> {
  const next: Record<string, number[]> = {};
  for (const one of now.series) {
    const key = one.name + label_text(one);
    const value = one.kind === "gauge" ? one.value : per_second(one, now, before);
    next[key] = value === null ? past[key] ?? [] : [...(past[key] ?? []), value].slice(-kPast);
  }
  return next;
}
