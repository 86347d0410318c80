// User-defined widths and order of a table's columns. Pure.

const kLeast = 48, kMost = 900;  // px
export const bounded = (width: number): number => Math.round(Math.min(kMost, Math.max(kLeast, width)));

// Returns widths in px that fill `room`: user-defined widths are kept, the other columns share the rest in proportion to their minimum.
export function shared(least: number[], by_hand: (number | undefined)[], room: number): number[] {
  const given = least.map((width, i) => by_hand[i] ?? width);
  const free = least.reduce((sum, width, i) => sum + (by_hand[i] === undefined ? width : 0), 0);
  const spare = Math.max(0, room - given.reduce((sum, width) => sum + width, 0));
  return given.map((width, i) => (by_hand[i] === undefined ? width + (spare * width) / free : width));
}

// Sorts columns by `order`. The first column, which names the row, stays first; columns missing from `order` follow in their own order.
export function ordered<C extends { key: string }>(columns: C[], order: string[] | undefined): C[] {
  if (!order?.length) return columns;
  const [first, ...rest] = columns;
  const place = (column: C) => { const at = order.indexOf(column.key); return at < 0 ? order.length : at; };
  return [first, ...rest.map((column, i) => ({ column, i })).sort((a, b) => place(a.column) - place(b.column) || a.i - b.i).map((one) => one.column)];
}

// Moves `key` to the position of `to`. Has no effect if one of them is the first key or unknown.
export function moved(keys: string[], key: string, to: string): string[] {
  const [from, at] = [keys.indexOf(key), keys.indexOf(to)];
  if (from < 1 || at < 1) return keys;
  const next = keys.filter((one) => one !== key);
  next.splice(at, 0, key);
  return next;
}
