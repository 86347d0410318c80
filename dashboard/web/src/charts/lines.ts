// Calculations of the line charts: joining, smoothing, grouping, picking. Pure.

export interface Line {
  id: string;
  label: string;
  x: number[];
  y: (number | null)[];
  color: string;
  dash?: number[];     // Lengths of strokes and gaps in px, for lines that may overlap.
  strong?: boolean;    // Drawn over the other lines, with its name at its end.
}

// Dash patterns of lines that may have equal values: the first is solid, and each further one has different gaps that show the lines below it.
const kDashes: (number[] | undefined)[] = [undefined, [9, 5], [3, 4], [12, 4, 3, 4], [6, 3, 2, 3, 2, 3], [2, 6], [14, 8], [5, 2]];
export const dash_of = (i: number): number[] | undefined => kDashes[i % kDashes.length];

// Merges all lines onto one x array, as uPlot requires; null where a line has no point.
export function join(lines: Line[], log_x: boolean, log_y: boolean): { x: number[]; ys: (number | null)[][] } {
  const keep = (line: Line, i: number) => {
    const y = line.y[i];
    return y !== null && y !== undefined && Number.isFinite(y) && !(log_y && y <= 0) && !(log_x && line.x[i] <= 0);
  };
  const all = new Set<number>();
  for (const line of lines) for (let i = 0; i < line.x.length; i++) if (keep(line, i)) all.add(line.x[i]);
  const x = [...all].sort((a, b) => a - b);
  const at = new Map(x.map((value, i) => [value, i]));
  const ys = lines.map((line) => {
    const y: (number | null)[] = new Array(x.length).fill(null);
    for (let i = 0; i < line.x.length; i++) if (keep(line, i)) y[at.get(line.x[i])!] = line.y[i];
    return y;
  });
  return { x, ys };
}

// Returns the ends of the y axis for values from `low` to `high`, which are null without values. A log axis always begins above 0,
// because uPlot would otherwise add ticks without end.
export function range_of(low: number | null, high: number | null, of: { log_y?: boolean; from_zero?: boolean; top?: number }): [number, number] {
  if (of.log_y) {
    if (low === null || high === null || !(high > 0)) return [0.1, 1];
    return [(low > 0 ? low : high / 1000) * 0.8, high * 1.25];
  }
  if (low === null || high === null) return [0, of.top ?? 1];
  const pad = (high - low || Math.abs(high) || 1) * 0.06;
  return [of.from_zero ? 0 : low - pad, Math.max(high + pad, of.top ?? -Infinity)];
}

// Exponential moving average without start-up bias: the first value is unchanged.
export function smooth(y: (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) return y;
  let sum = 0;
  let scale = 0;
  return y.map((value) => {
    if (value === null || !Number.isFinite(value)) return value;
    sum = sum * weight + (1 - weight) * value;
    scale = scale * weight + (1 - weight);
    return sum / scale;
  });
}

// Returns the mean of a group's lines at each x that any of them has.
export function mean_of(lines: Line[]): { x: number[]; y: number[] } {
  const sums = new Map<number, [number, number]>();
  for (const line of lines) {
    for (let i = 0; i < line.x.length; i++) {
      const value = line.y[i];
      if (value === null || !Number.isFinite(value)) continue;
      const sum = sums.get(line.x[i]) ?? [0, 0];
      sums.set(line.x[i], [sum[0] + value, sum[1] + 1]);
    }
  }
  const x = [...sums.keys()].sort((a, b) => a - b);
  return { x, y: x.map((key) => sums.get(key)![0] / sums.get(key)![1]) };
}

export interface Group {
  label: string;
  from: number;  // Position on a ramp from 0 to 1; for categories, the index of the group.
  ids: string[];
}

// Returns a group for each distinct value if there are at most eight; more numbers are split into `parts` groups of equal count.
export function group_by(values: [string, unknown][], parts: number, show: (value: unknown) => string): { groups: Group[]; ramp: boolean } {
  const numbers = values.filter(([, value]) => typeof value === "number" && Number.isFinite(value)) as [string, number][];
  const distinct = new Set(values.map(([, value]) => show(value)));
  const numeric = numbers.length === values.length && numbers.length > 0;
  if (distinct.size <= 8) {
    const groups = new Map<string, { first: unknown; ids: string[] }>();
    for (const [id, value] of values) {
      const label = show(value);
      const group = groups.get(label) ?? { first: value, ids: [] };
      group.ids.push(id);
      groups.set(label, group);
    }
    const order = [...groups.entries()].sort(([a, one], [b, other]) => (numeric ? (one.first as number) - (other.first as number) : a < b ? -1 : 1));
    const step = numeric ? 1 / Math.max(1, order.length - 1) : 1;
    return { groups: order.map(([label, group], i) => ({ label, from: i * step, ids: group.ids })), ramp: numeric };
  }
  if (!numeric) return { groups: [{ label: "", from: 0, ids: values.map(([id]) => id) }], ramp: false };
  numbers.sort((a, b) => a[1] - b[1]);
  const groups: Group[] = [];
  for (let part = 0; part < parts; part++) {
    const some = numbers.slice(Math.floor((part * numbers.length) / parts), Math.floor(((part + 1) * numbers.length) / parts));
    if (!some.length) continue;
    groups.push({ label: `${show(some[0][1])} – ${show(some[some.length - 1][1])}`, from: part / Math.max(1, parts - 1), ids: some.map(([id]) => id) });
  }
  return { groups, ramp: true };
}

// Returns the line nearest to a point on the screen, by its value at index `at` or at the nearest index within `reach`; -1: none.
export function nearest(ys: (number | null)[][], at: number, reach: number, far: (value: number, index: number) => number): number {
  let best = -1;
  let best_far = Infinity;
  for (let line = 0; line < ys.length; line++) {
    for (let step = 0; step <= reach; step++) {
      const index = ys[line][at - step] != null ? at - step : ys[line][at + step] != null ? at + step : -1;
      if (index < 0) continue;
      const distance = far(ys[line][index]!, index);
      if (distance < best_far) [best, best_far] = [line, distance];
      break;
    }
  }
  return best;
}

// Returns the position of a value between two ends, on a linear or log scale.
export function place(value: number, from: number, to: number, log: boolean): number {
  if (log) [value, from, to] = [Math.log(value), Math.log(from), Math.log(to)];
  return to === from ? 0.5 : (value - from) / (to - from);
}

// Returns whether positive values span more than a factor of 30 and cluster at the low end.
export function wants_log(values: number[]): boolean {
  const order = [...values].sort((a, b) => a - b);
  const [low, middle, high] = [order[0], order[order.length >> 1], order[order.length - 1]];
  return values.length > 1 && low > 0 && high / low > 30 && place(middle, low, high, false) < 0.25;
}

// Converts a line over steps to a line over time, with the time of each step; steps without a time are left out.
export function over_time<T extends { x: number[]; y: (number | null)[] }>(line: T | undefined, times: { x: number[]; y: (number | null)[] } | undefined): T | undefined {
  if (!line || !times) return undefined;
  const at = new Map(times.x.map((step, i) => [step, times.y[i]]));
  const kept = line.x.map((_, i) => i).filter((i) => Number.isFinite(at.get(line.x[i]) ?? NaN));
  return { ...line, x: kept.map((i) => at.get(line.x[i])!), y: kept.map((i) => line.y[i]) };
}
