// Series of the group "timing", which a profiled trial reports. Pure.
export interface MetricSeries {
  metric: string;
  batches: (number | string)[];
  values: (number | string | null)[];
}

export interface Timing {
  batches: number;
  values: number[];     // Mean seconds a batch of each part, in the order of `parts`.
  rate: number | null;  // Records a second.
}

export const kRate = "samples_per_second";
// The usual parts, in the order of a batch; others follow by name.
export const kUsualParts = ["dataloader_next", "to_device", "train_batch", "step_lr_schedulers", "reduce_metrics"] as const;

// Rows by batches, means of consecutive ones where there are more than `most`.
export function timings_of(series: MetricSeries[], most: number): { parts: string[]; rows: Timing[] } {
  const usual: readonly string[] = kUsualParts;
  const place = (name: string) => (usual.includes(name) ? usual.indexOf(name) : usual.length);
  const parts = series.map((one) => one.metric).filter((name) => name !== kRate).sort((a, b) => place(a) - place(b) || a.localeCompare(b));
  const found = new Map<number, Map<string, number>>();
  for (const one of series) {
    one.batches.forEach((at, i) => {
      const value = Number(one.values[i] ?? NaN);
      if (!Number.isFinite(value)) return;
      const row = found.get(Number(at)) ?? new Map<string, number>();
      found.set(Number(at), row.set(one.metric, value));
    });
  }
  const rows = [...found].sort(([a], [b]) => a - b).map(([batches, row]): Timing => ({ batches, values: parts.map((name) => row.get(name) ?? 0), rate: row.get(kRate) ?? null }));
  const every = Math.ceil(rows.length / most);
  if (every <= 1) return { parts, rows };
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  return {
    parts,
    rows: Array.from({ length: Math.ceil(rows.length / every) }, (_, i) => {
      const some = rows.slice(i * every, (i + 1) * every);
      const rates = some.flatMap((row) => (row.rate === null ? [] : [row.rate]));
      return { batches: some[some.length - 1].batches, values: parts.map((_, k) => mean(some.map((row) => row.values[k]))), rate: rates.length ? mean(rates) : null };
    }),
  };
}
