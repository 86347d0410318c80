// Ranges selected on the axes of parallel coordinates, as the page's address has them: "lr=0.100,0.500;batch=0.000,0.250". Pure.

export type Brush = [low: number, high: number];  // Places on the axis, 0 to 1.

export function write_brushes(brushes: Record<string, Brush>): string {
  return Object.entries(brushes).map(([name, [low, high]]) => `${encodeURIComponent(name)}=${low.toFixed(3)},${high.toFixed(3)}`).join(";");
}

// Ignores parts that it cannot read.
export function parse_brushes(text: string): Record<string, Brush> {
  const found: Record<string, Brush> = {};
  for (const part of text.split(";")) {
    const parts = /^(.+)=([\d.]+),([\d.]+)$/.exec(part);
    if (!parts) continue;
    try {
      found[decodeURIComponent(parts[1])] = [Number(parts[2]), Number(parts[3])];
    } catch {
      continue;  // A "%" without its digits.
    }
  }
  return found;
}
