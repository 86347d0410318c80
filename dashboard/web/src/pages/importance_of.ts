// Parameter importance: a random forest (Breiman, Machine Learning 45, 2001) predicts the metric from the parameters; the importance of a
// parameter is its share of the total gain of splits (mean decrease in impurity). The forest predicts ranks of values, so that outliers
// have little effect. Pure; the same trials give the same result.

const kTrees = 64;
const kDepth = 7;
const kLeaf = 2;         // Minimum of trials in a leaf.
const kRowsMax = 2000;   // A larger set of trials is sampled evenly.

export interface Table {
  names: string[];
  rows: number[][];   // One row per trial, its parameters as numbers; NaN: absent.
  values: number[];   // Value of the metric per trial.
}

// Mulberry32: short, and the same numbers on every platform.
function random_from(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

function ranks(values: number[]): number[] {
  const order = values.map((_, i) => i).sort((a, b) => values[a] - values[b]);
  const out = new Array<number>(values.length);
  for (let from = 0; from < order.length; ) {
    let to = from;
    while (to < order.length && values[order[to]] === values[order[from]]) to++;
    for (let i = from; i < to; i++) out[order[i]] = (from + to - 1) / 2;
    from = to;
  }
  return out;
}

// Encodes categories by the rank of their mean metric.
export function numbered(column: unknown[], values: number[]): number[] {
  if (column.every((one) => typeof one === "number" || one === undefined || one === null)) return column.map((one) => (typeof one === "number" ? one : NaN));
  const sums = new Map<string, [number, number]>();
  column.forEach((one, i) => {
    const sum = sums.get(JSON.stringify(one) ?? "") ?? [0, 0];
    sums.set(JSON.stringify(one) ?? "", [sum[0] + values[i], sum[1] + 1]);
  });
  const order = [...sums.entries()].sort((a, b) => a[1][0] / a[1][1] - b[1][0] / b[1][1]).map(([word]) => word);
  return column.map((one) => order.indexOf(JSON.stringify(one) ?? ""));
}

interface Split {
  column: number;
  at: number;
  gain: number;
}

function best_split(rows: number[][], values: number[], members: number[], columns: number[]): Split | null {
  let best: Split | null = null;
  const total = members.reduce((sum, i) => sum + values[i], 0);
  const whole = (total * total) / members.length;
  for (const column of columns) {
    const known = members.filter((i) => !Number.isNaN(rows[i][column])).sort((a, b) => rows[a][column] - rows[b][column]);
    if (known.length < members.length) continue;  // A parameter that some trials lack is not split on.
    let left = 0;
    for (let n = 1; n < known.length; n++) {
      left += values[known[n - 1]];
      if (n < kLeaf || known.length - n < kLeaf || rows[known[n]][column] === rows[known[n - 1]][column]) continue;
      const gain = (left * left) / n + ((total - left) * (total - left)) / (known.length - n) - whole;
      if (!best || gain > best.gain) best = { column, at: (rows[known[n - 1]][column] + rows[known[n]][column]) / 2, gain };
    }
  }
  return best && best.gain > 1e-12 ? best : null;
}

// Returns the importance of each parameter, highest first, with sum 1; empty for fewer than 8 trials or a constant metric.
export function importance_of({ names, rows, values }: Table): { name: string; share: number }[] {
  if (values.length < 8 || !names.length) return [];
  const step = Math.max(1, values.length / kRowsMax);
  const kept = Array.from({ length: Math.min(values.length, kRowsMax) }, (_, i) => Math.floor(i * step));
  const x = kept.map((i) => rows[i]);
  const y = ranks(kept.map((i) => values[i]));
  const random = random_from(20010101);
  const gains = new Array<number>(names.length).fill(0);
  const tried = Math.max(1, Math.ceil(names.length / 3));
  const grow = (members: number[], depth: number): void => {
    if (depth === 0 || members.length < 2 * kLeaf) return;
    const columns = names.map((_, i) => i);
    for (let i = columns.length - 1; i > 0; i--) {
      const other = Math.floor(random() * (i + 1));
      [columns[i], columns[other]] = [columns[other], columns[i]];
    }
    const split = best_split(x, y, members, columns.slice(0, tried)) ?? best_split(x, y, members, columns.slice(tried));
    if (!split) return;
    gains[split.column] += split.gain;
    grow(members.filter((i) => x[i][split.column] <= split.at), depth - 1);
    grow(members.filter((i) => x[i][split.column] > split.at), depth - 1);
  };
  const trees = Math.max(8, Math.min(kTrees, Math.floor(40_000 / x.length)));
  for (let tree = 0; tree < trees; tree++) grow(x.map(() => Math.floor(random() * x.length)), kDepth);
  const sum = gains.reduce((all, gain) => all + gain, 0);
  if (!(sum > 0)) return [];
  return names.map((name, i) => ({ name, share: gains[i] / sum })).sort((a, b) => b.share - a.share);
}
