// Filtering and sorting of a table's rows. Pure.
//
// A filter is a list of terms that must all match. A word matches in any column, `status:running` in one; `lr>0.01` and `step<=3` compare
// numbers; `-term` excludes. Text in "double quotes" may contain spaces.

export type Cell = string | number | null | undefined;
export type Look<T> = (row: T, column: string) => Cell;
type Test<T> = (row: T) => boolean;

export function compile<T>(filter: string, columns: string[], look: Look<T>): Test<T> {
  const tests = (filter.match(/-?[^\s":<>=]*[:<>=]+"[^"]*"|-?"[^"]*"|\S+/g) ?? []).map((term) => one_test(term, columns, look));
  return (row) => tests.every((test) => test(row));
}

function one_test<T>(term: string, columns: string[], look: Look<T>): Test<T> {
  if (term.length > 1 && term.startsWith("-") && Number.isNaN(Number(term))) {
    const test = one_test(term.slice(1), columns, look);
    return (row) => !test(row);
  }
  const parts = /^([^:<>=]+)(:|<=|>=|<|>|=)(.*)$/.exec(term);
  const column = parts && columns.find((name) => name.toLowerCase() === parts[1].toLowerCase());
  if (parts && column) {
    const wanted = unquoted(parts[3]);
    if (wanted === "") return () => true;  // An unfinished term matches everything.
    if (parts[2] === ":") return (row) => lower(look(row, column)).includes(wanted.toLowerCase());
    return (row) => compares(look(row, column), parts[2], wanted);
  }
  const wanted = unquoted(term).toLowerCase();
  return (row) => columns.some((name) => lower(look(row, name)).includes(wanted));
}

const unquoted = (text: string) => text.replace(/^"(.*)"$/, "$1");
const lower = (cell: Cell) => (cell === null || cell === undefined ? "" : String(cell).toLowerCase());

function compares(cell: Cell, operator: string, wanted: string): boolean {
  const limit = Number(wanted);
  if (operator === "=" && Number.isNaN(limit)) return lower(cell) === wanted.toLowerCase();
  if (typeof cell !== "number" || Number.isNaN(limit)) return false;
  if (operator === "<") return cell < limit;
  if (operator === ">") return cell > limit;
  if (operator === "<=") return cell <= limit;
  if (operator === ">=") return cell >= limit;
  return cell === limit;
}

// `-column` sorts in descending order. Rows without a value come last in both directions; equal rows keep their order.
export function sorted<T>(rows: T[], order: string, look: Look<T>): T[] {
  if (!order) return rows;
  const down = order.startsWith("-");
  const column = down ? order.slice(1) : order;
  const keyed = rows.map((row) => ({ row, cell: look(row, column) }));
  const absent = (cell: Cell) => cell === null || cell === undefined || cell === "" || Number.isNaN(cell);
  keyed.sort((a, b) => {
    if (absent(a.cell) || absent(b.cell)) return Number(absent(a.cell)) - Number(absent(b.cell));
    const less = typeof a.cell === "number" && typeof b.cell === "number" ? a.cell - b.cell : kCollator.compare(String(a.cell), String(b.cell));
    return down ? -less : less;
  });
  return keyed.map((one) => one.row);
}
const kCollator = new Intl.Collator("en", { numeric: true });
