// Axes of parallel coordinates and scatter plots: numbers on a linear or log scale, words at equal distances. Pure.
import { place, wants_log } from "./lines";

export interface Axis {
  name: string;
  log: boolean;
  words: string[] | null;  // In order, bottom first; null: numbers.
  marks: number[] | null;  // The values themselves, where they are few.
  low: number;
  high: number;
  whole?: boolean;         // All values are whole numbers, and so are the ticks.
}

// `log`: as a person chose it; not given: as the values suggest.
export function axis_of(name: string, values: unknown[], log?: boolean): Axis {
  const known = values.filter((value) => value !== undefined && value !== null);
  const numbers = known.filter((value): value is number => typeof value === "number" && Number.isFinite(value));
  if (numbers.length === known.length && numbers.length > 0) {
    let [low, high] = [Infinity, -Infinity];
    for (const value of numbers) [low, high] = [Math.min(low, value), Math.max(high, value)];
    const distinct = [...new Set(numbers)].sort((a, b) => a - b);
    return { name, log: low > 0 && high > low && (log ?? wants_log(numbers)), words: null, marks: distinct.length <= 8 ? distinct : null, low, high, whole: numbers.every(Number.isInteger) };
  }
  const words = [...new Set(known.map(text))].sort();
  return { name, log: false, words, marks: null, low: 0, high: Math.max(1, words.length - 1) };
}

const text = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));

// 0 at the low end, 1 at the high one; null where there is no value.
export function at(axis: Axis, value: unknown): number | null {
  if (value === undefined || value === null) return null;
  if (axis.words) {
    const i = axis.words.indexOf(text(value));
    return i < 0 ? null : axis.words.length === 1 ? 0.5 : i / (axis.words.length - 1);
  }
  if (typeof value !== "number" || !Number.isFinite(value) || (axis.log && value <= 0)) return null;
  return place(value, axis.low, axis.high, axis.log);
}

// The value that stands at a place.
export function value_at(axis: Axis, place_: number): number | string {
  if (axis.words) return axis.words[Math.round(place_ * (axis.words.length - 1))] ?? "";
  if (axis.log) return Math.exp(Math.log(axis.low) + place_ * (Math.log(axis.high) - Math.log(axis.low)));
  return axis.low + place_ * (axis.high - axis.low);
}

interface Tick {
  at: number;
  value: number | string;
}

// Those that stand too near to the one before are left out, so that no two texts overlap.
// `round`: at round numbers instead of the ends of a linear axis and quarters between.
export function ticks(axis: Axis, round = false): Tick[] {
  const kept: Tick[] = [];
  const linear = round && !axis.words && !axis.log && !axis.marks && axis.low < axis.high;
  for (const tick of linear ? round_ticks(axis.low, axis.high, axis.whole ? Math.min(5, axis.high - axis.low) : 5).map((value) => ({ at: at(axis, value)!, value })) : all_ticks(axis)) if (!kept.length || tick.at - kept[kept.length - 1].at >= 0.045) kept.push(tick);
  return kept;
}

function all_ticks(axis: Axis): Tick[] {
  if (axis.words) {
    const every = Math.ceil(axis.words.length / 12);
    return axis.words.map((value, i) => ({ at: at(axis, value) ?? 0, value, i })).filter((one) => one.i % every === 0);
  }
  if (axis.marks) return axis.marks.map((value) => ({ at: at(axis, value) ?? 0, value }));
  if (axis.low === axis.high) return [{ at: 0.5, value: axis.low }];
  if (axis.log) {
    const found: { at: number; value: number }[] = [];
    for (let power = Math.ceil(Math.log10(axis.low) - 1e-9); power <= Math.floor(Math.log10(axis.high) + 1e-9); power++) found.push({ at: at(axis, 10 ** power)!, value: 10 ** power });
    if (found.length >= 2) return found;
  }
  return [0, 0.25, 0.5, 0.75, 1].map((where) => ({ at: where, value: Number((value_at(axis, where) as number).toPrecision(3)) }));
}

// Round numbers between low and high, about so many.
export function round_ticks(low: number, high: number, about: number): number[] {
  const rough = (high - low) / Math.max(1, about);
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((one) => one >= rough * 0.999)!;
  const found: number[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

// Spearman's rank correlation; null below five pairs or where one side does not vary.
export function rank_correlation(pairs: [number, number][]): number | null {
  if (pairs.length < 5) return null;
  const [a, b] = [ranks(pairs.map((pair) => pair[0])), ranks(pairs.map((pair) => pair[1]))];
  const mean = (pairs.length - 1) / 2;
  let [up, da, db] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    up += (a[i] - mean) * (b[i] - mean);
    da += (a[i] - mean) ** 2;
    db += (b[i] - mean) ** 2;
  }
  return da && db ? up / Math.sqrt(da * db) : null;
}

// Ties share the mean of their ranks.
function ranks(values: number[]): number[] {
  const order = values.map((_, i) => i).sort((i, j) => values[i] - values[j]);
  const found = new Array<number>(values.length);
  for (let i = 0; i < order.length; ) {
    let end = i;
    while (end < order.length && values[order[end]] === values[order[i]]) end++;
    for (let k = i; k < end; k++) found[order[k]] = (i + end - 1) / 2;
    i = end;
  }
  return found;
}
