// Best value of any trial up to each step. Pure.
export interface Curve {
  x: number[];
  y: (number | null)[];
}

export function envelope(curves: Curve[], mode: string): { x: number[]; y: number[] } {
  const sign = mode === "min" ? 1 : -1;
  const best = new Map<number, number>();
  for (const curve of curves) {
    curve.x.forEach((x, i) => {
      const value = curve.y[i];
      if (value === null || value === undefined || !Number.isFinite(value)) return;
      const known = best.get(x);
      if (known === undefined || sign * value < sign * known) best.set(x, value);
    });
  }
  const x = [...best.keys()].sort((a, b) => a - b);
  let so_far = Infinity;
  return { x, y: x.map((step) => sign * (so_far = Math.min(so_far, sign * best.get(step)!))) };
}
