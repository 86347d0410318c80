// Widths and order of a table's columns, as a person set them. Pure.

const kLeast = 48, kMost = 900;  // px
export const bounded = (width: number): number => Math.round(Math.min(kMost, Math.max(kLeast, width)));

// Widths in px that fill `room`: those set by hand stay as they are, the others share what is left by their least widths.
export function shared(least: number[], by_hand: (number | undefined)[], room: number): number[] {
  const given = least.map((width, i) => by_hand[i] ?? width);
  const free = least.reduce((sum, width, i) => sum + (by_hand[i] === undefined ? width : 0), 0);
  const spare = Math.max(0, room - given.reduce((sum, width) => sum + width, 0));
  return given.map((width, i) => (by_hand[i] === undefined ? width + (spare * width) / free : width));
}

// The first column, which names the row, stays the first; columns that the order does not name keep their places after those it names.
export function ordered<C extends { key: string }>(columns: C[], order: string[] | undefined): C[] {
  if (!order?.length) return columns;
  const [first, ...rest] = columns;
  const place = (column: C) => { const at = order.indexOf(column.key); return at < 0 ? order.length : at; };
  return [first, ...rest.map((column, i) => ({ column, i })).sort((a, b) => place(a.column) - place(b.column) || a.i - b.i).map((one) => one.column)];
}

// Keys in a new order: `key` goes to the place of `to`. Neither may be the first.
export function moved(keys: string[], key: string, to: string): string[] {
  const [from, at] = [keys.indexOf(key), keys.indexOf(to)];
  if (from < 1 || at < 1) return keys;
  const next = keys.filter((one) => one !== key);
  next.splice(at, 0, key);
  return next;
}
