// Layout of a row as a card on a phone: which columns are shown, and where. Pure.

export interface CardColumn {
  key: string;
  right?: boolean;
  small?: boolean;
  // Place on a card: title, beside the title, a wide block, a button below, or hidden. Default: a line with the column's name.
  card?: "title" | "side" | "wide" | "act" | "never";
}

export interface CardLayout<C> {
  title: C;
  side?: C;
  fields: C[];
  wide: C[];
  acts: C[];
  height: number;  // px; the same for all rows, since the list is virtual.
}

const kFields = 4;
const kHeights = { around: 22, title: 28, field: 23, wide: 40, act: 48 };

// Selects the columns of a card. The title is the column marked so, else the first text column; fields are `small` columns, then others in order.
// `says`: whether any row has a value in a wide column.
export function card_of<C extends CardColumn>(columns: C[], says: (column: C) => boolean = () => true): CardLayout<C> {
  const title = columns.find((column) => column.card === "title") ?? columns.find((column) => !column.right && !column.card) ?? columns[0];
  const rest = columns.filter((column) => column !== title);
  const side = rest.find((column) => column.card === "side");
  const plain = rest.filter((column) => !column.card || column.card === "title" || (column.card === "side" && column !== side));
  const chosen = new Set([...plain.filter((column) => column.small), ...plain.filter((column) => !column.small)].slice(0, kFields));
  const fields = plain.filter((column) => chosen.has(column));
  const wide = rest.filter((column) => column.card === "wide" && says(column)).slice(0, 1);
  const acts = rest.filter((column) => column.card === "act").slice(0, 1);
  return { title, side, fields, wide, acts, height: kHeights.around + kHeights.title + fields.length * kHeights.field + wide.length * kHeights.wide + acts.length * kHeights.act };
}
