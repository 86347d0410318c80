// What a search had reached after each trial, and which trials no other one beats in two metrics at once. Pure.

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

// Those that are not worse in both and better in one than any other, by x. `low`: lower is better.
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

// Metrics of which people mean that less is better.
export const lower_is_better = (name: string): boolean => /loss|error|err$|time|latency|size|bytes|cost|memory|params|rmse|mse|mae/i.test(name) && !/accuracy|score/i.test(name);
