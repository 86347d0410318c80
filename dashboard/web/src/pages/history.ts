// Best value after each trial, and Pareto front of two metrics. Pure.

export function best_so_far(values: number[], mode: string): number[] {
  let best = NaN;
  return values.map((value) => {
    if (!Number.isNaN(value) && (Number.isNaN(best) || (mode === "min" ? value < best : value > best))) best = value;
    return best;
  });
}

export interface Scored<T> {
  of: T;
  x: number;
  y: number;
}

// Returns the points of the Pareto front, sorted by x. `x_low`, `y_low`: lower is better.
export function pareto<T>(points: Scored<T>[], x_low: boolean, y_low: boolean): Scored<T>[] {
  const sign = (low: boolean) => (low ? 1 : -1);
  const order = [...points].sort((a, b) => sign(x_low) * (a.x - b.x) || sign(y_low) * (a.y - b.y));
  const front: Scored<T>[] = [];
  let best = Infinity;
  for (const point of order) {
    const y = sign(y_low) * point.y;
    if (y < best) {
      front.push(point);
      best = y;
    }
  }
  return front;
}

// Guesses from the name of a metric whether lower is better.
export const lower_is_better = (name: string): boolean => /loss|error|err$|time|latency|size|bytes|cost|memory|params|rmse|mse|mae/i.test(name) && !/accuracy|score/i.test(name);

// Returns the empirical distribution: the values in ascending order and the share of values up to each. Non-finite values are left out.
export function distribution(values: (number | null | undefined)[]): { x: number[]; y: number[] } {
  const known = values.filter((value): value is number => typeof value === "number" && Number.isFinite(value)).sort((a, b) => a - b);
  const [x, y]: [number[], number[]] = [[], []];
  known.forEach((value, i) => {
    if (x[x.length - 1] === value) y[y.length - 1] = (i + 1) / known.length;
    else {
      x.push(value);
      y.push((i + 1) / known.length);
    }
  });
  return { x, y };
}
