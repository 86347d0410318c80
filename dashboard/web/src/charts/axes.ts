// Axes of parallel coordinates and scatter plots: numbers on a linear or log scale, categories at equal distances. Pure.
import { place, wants_log } from "./lines";

export interface Axis {
  name: string;
  log: boolean;
  words: string[] | null;  // Categories, lowest first; null: numbers.
  marks: number[] | null;  // The distinct values if there are at most eight; else null.
  low: number;
  high: number;
  whole?: boolean;         // All values are integers; ticks are then integers too.
}

// `log`: the scale that the user chose; undefined: chosen from the values.
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

// Returns whether a log scale can hold all values of the axis.
export const may_be_log = (axis: Axis): boolean => !axis.words && axis.low > 0 && axis.high > axis.low;

const text = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));

// Returns the position of a value: 0 at the low end, 1 at the high end; null if it has none.
export function at(axis: Axis, value: unknown): number | null {
  if (value === undefined || value === null) return null;
  if (axis.words) {
    const i = axis.words.indexOf(text(value));
    return i < 0 ? null : axis.words.length === 1 ? 0.5 : i / (axis.words.length - 1);
  }
  if (typeof value !== "number" || !Number.isFinite(value) || (axis.log && value <= 0)) return null;
  return place(value, axis.low, axis.high, axis.log);
}

// Returns the value at a position.
export function value_at(axis: Axis, place_: number): number | string {
  if (axis.words) return axis.words[Math.round(place_ * (axis.words.length - 1))] ?? "";
  if (axis.log) return Math.exp(Math.log(axis.low) + place_ * (Math.log(axis.high) - Math.log(axis.low)));
  return axis.low + place_ * (axis.high - axis.low);
}

interface Tick {
  at: number;
  value: number | string;
}

// Ticks at round numbers, at integers on an integer axis. Ticks too close to the previous one are dropped, so that labels do not overlap.
export function ticks(axis: Axis): Tick[] {
  const kept: Tick[] = [];
  for (const tick of all_ticks(axis)) if (!kept.length || tick.at - kept[kept.length - 1].at >= 0.045) kept.push(tick);
  return kept;
}

function all_ticks(axis: Axis): Tick[] {
  if (axis.words) {
    const every = Math.ceil(axis.words.length / 12);
    return axis.words.map((value, i) => ({ at: at(axis, value) ?? 0, value, i })).filter((one) => one.i % every === 0);
  }
  if (axis.low === axis.high && !axis.marks) return [{ at: 0.5, value: axis.low }];
  const about = axis.whole ? Math.min(5, axis.high - axis.low) : 5;
  const values = axis.marks ?? (axis.log ? log_ticks(axis.low, axis.high, axis.whole) : round_ticks(axis.low, axis.high, about));
  return values.map((value) => ({ at: at(axis, value) ?? 0, value }));
}

// Powers of ten, with multiples of 2 and 5 if these are few; the two ends if no round number lies between them.
function log_ticks(low: number, high: number, whole = false): number[] {
  const among = (digits: number[]) => {
    const found: number[] = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const digit of digits) {
        const value = Number((digit * 10 ** power).toPrecision(12));
        if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9) && (!whole || Number.isInteger(value))) found.push(value);
      }
    }
    return found;
  };
  const found = [among([1]), among([1, 2, 5])].find((values) => values.length >= 2);
  return found ?? [low, high];
}

// Ticks of a line chart's log axis, at most eight. uPlot 1.6.32 adds rounded increments to find them and does not terminate for a
// range that begins at 9.5 to 10 times a power of ten.
export function log_splits(low: number, high: number): number[] {
  const found = log_ticks(low, high);
  const every = Math.ceil(found.length / 8);
  return found.filter((_, i) => i % every === 0);
}

// Returns about `about` round numbers between low and high.
export function round_ticks(low: number, high: number, about: number): number[] {
  const rough = (high - low) / Math.max(1, about);
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((one) => one >= rough * 0.999)!;
  const found: number[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

// Steps of a time axis: 1, 2, 5, 10, 15, 30 s, 1 min, …
const kTimeSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400].map((s) => s * 1000);

// Returns at most about `most` round times between two times in ms.
export function time_ticks(from: number, to: number, most: number): number[] {
  const step = kTimeSteps.find((one) => (to - from) / one <= Math.max(1, most)) ?? Math.ceil((to - from) / Math.max(1, most) / 86_400_000) * 86_400_000;
  const found: number[] = [];
  for (let time = Math.ceil(from / step) * step; time <= to; time += step) found.push(time);
  return found;
}

// Spearman's rank correlation; null for fewer than five pairs or a constant variable.
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

// Ties get the mean of their ranks.
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
