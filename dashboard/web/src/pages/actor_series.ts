// Calculations on an actor's own metrics, as GET /api/v1/actors/{id}/metrics returns them. Pure.
export interface Series {
  name: string;
  kind: "counter" | "gauge" | "histogram";
  help?: string;
  labels?: Record<string, string>;
  value: number;      // For a histogram, the sum of the observations.
  counts?: number[];  // For a histogram, the number of observations in each bucket.
}
interface Look {
  at: number;  // ms
  series: Series[];
}

export const label_text = (one: Series) => Object.entries(one.labels ?? {}).map(([key, value]) => `${key}=${value}`).join(" ");
const observed = (one: Series) => (one.counts ?? []).reduce((sum, part) => sum + part, 0);
const total = (one: Series) => (one.kind === "histogram" ? observed(one) : one.value);

// Returns the rate of a counter, or of a histogram's observations, between two samples; null for gauges and after a reset.
export function per_second(one: Series, now: Look, before: Look | undefined): number | null {
  const then = before?.series.find((other) => other.name === one.name && label_text(other) === label_text(one));
  if (one.kind === "gauge" || !before || !then || now.at <= before.at || total(one) < total(then)) return null;
  return (total(one) - total(then)) / ((now.at - before.at) / 1000);
}

export const summary = (one: Series, shown: (value: number) => string) => {
  const n = observed(one);
  return { count: shown(n), mean: n > 0 ? shown(one.value / n) : "–" };
};

const kPast = 300;  // Number of samples kept.

// Appends the newest sample to the history of each metric, by name and labels: the rate of a counter or histogram, the value of a gauge.
export function past_with(past: Record<string, number[]>, now: Look, before: Look | undefined): Record<string, number[]> {
  const next: Record<string, number[]> = {};
  for (const one of now.series) {
    const key = one.name + label_text(one);
    const value = one.kind === "gauge" ? one.value : per_second(one, now, before);
    next[key] = value === null ? past[key] ?? [] : [...(past[key] ?? []), value].slice(-kPast);
  }
  return next;
}
