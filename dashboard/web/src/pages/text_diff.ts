// Differences between two texts, line by line. Pure.
export interface DiffRow {
  kind: "same" | "removed" | "added" | "changed";
  left?: { line: number; text: string };   // Lines count from 1.
  right?: { line: number; text: string };
}

const kEditsMost = 4000;  // More differences than this are shown as one replaced block.

const lines_of = (text: string): string[] => {
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  return lines;
};

// The shortest edit (Myers): pairs of equal lines in order.
function matches(a: string[], b: string[]): [number, number][] | null {
  const most = Math.min(a.length + b.length, kEditsMost);
  const trace: Int32Array[] = [];
  const v = new Int32Array(2 * most + 2);
  const at = (k: number) => k + most;
  for (let d = 0; d <= most; ++d) {
    trace.push(v.slice(at(-d) - 1 < 0 ? 0 : at(-d) - 1, at(d) + 2));
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && v[at(k - 1)] < v[at(k + 1)]) ? v[at(k + 1)] : v[at(k - 1)] + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) { ++x; ++y; }
      v[at(k)] = x;
      if (x >= a.length && y >= b.length) return backward(trace, a.length, b.length, d, most);
    }
  }
  return null;
}

function backward(trace: Int32Array[], a: number, b: number, edits: number, most: number): [number, number][] {
  const pairs: [number, number][] = [];
  let [x, y] = [a, b];
  for (let d = edits; d >= 0; --d) {
    const kept = trace[d];
    const base = Math.max(0, -d + most - 1);
    const v = (k: number) => kept[k + most - base] ?? 0;
    const k = x - y;
    const before = k === -d || (k !== d && v(k - 1) < v(k + 1)) ? k + 1 : k - 1;
    const [from_x, from_y] = d === 0 ? [0, 0] : [v(before), v(before) - before];
    while (x > from_x && y > from_y) pairs.push([--x, --y]);
    if (d > 0) [x, y] = [from_x, from_y];
  }
  return pairs.reverse();
}

export function diff_of(before: string, after: string): DiffRow[] {
  const [a, b] = [lines_of(before), lines_of(after)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) ++head;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) ++tail;
  const middle = matches(a.slice(head, a.length - tail), b.slice(head, b.length - tail)) ?? [];
  const equal: [number, number][] = [
    ...Array.from({ length: head }, (_, i): [number, number] => [i, i]),
    ...middle.map(([x, y]): [number, number] => [x + head, y + head]),
    ...Array.from({ length: tail }, (_, i): [number, number] => [a.length - tail + i, b.length - tail + i]),
    [a.length, b.length],
  ];
  const rows: DiffRow[] = [];
  let [x, y] = [0, 0];
  for (const [to_x, to_y] of equal) {
    // Removed lines stand beside the added ones.
    while (x < to_x || y < to_y) {
      const left = x < to_x ? { line: x + 1, text: a[x++] } : undefined;
      const right = y < to_y ? { line: y + 1, text: b[y++] } : undefined;
      rows.push({ kind: left && right ? "changed" : left ? "removed" : "added", left, right });
    }
    if (to_x < a.length && to_y < b.length) rows.push({ kind: "same", left: { line: ++x, text: a[to_x] }, right: { line: ++y, text: b[to_y] } });
  }
  return rows;
}

export const is_equal = (rows: DiffRow[]): boolean => rows.every((row) => row.kind === "same");

// Runs of equal lines further than `around` from a difference become a number of hidden lines.
export function folded(rows: DiffRow[], around = 3): (DiffRow | { hidden: number; from: number })[] {
  const near = rows.map(() => false);
  rows.forEach((row, i) => {
    if (row.kind !== "same") for (let j = Math.max(0, i - around); j <= Math.min(rows.length - 1, i + around); ++j) near[j] = true;
  });
  const out: (DiffRow | { hidden: number; from: number })[] = [];
  for (let i = 0; i < rows.length;) {
    let end = i;
    while (end < rows.length && !near[end]) ++end;
    if (end - i > 1) out.push({ hidden: end - i, from: i });
    else if (end > i) out.push(rows[i]);
    if (end < rows.length) out.push(rows[end]);
    i = end + 1;
  }
  return out;
}

// Both sides below each other: what is removed before what is added.
export function unified(rows: DiffRow[]): DiffRow[] {
  const out: DiffRow[] = [];
  let added: DiffRow[] = [];
  for (const row of rows) {
    if (row.kind === "same") {
      out.push(...added, row);
      added = [];
      continue;
    }
    if (row.left) out.push({ kind: "removed", left: row.left });
    if (row.right) added.push({ kind: "added", right: row.right });
  }
  return [...out, ...added];
}
