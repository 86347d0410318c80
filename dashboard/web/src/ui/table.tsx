// A table for 10,000 rows that renders only the rows in view. Filter and order are part of the address.
import { Component, type ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { t } from "../i18n";
import { columns_of, narrow, set_columns } from "../prefs";
import { query, route, set_query } from "../router";
import { compile, sorted, type Cell } from "./arrange";
import { card_of, type CardColumn, type CardLayout } from "./cards";
import { bounded, moved, ordered, shared } from "./columns";
import { Icon } from "./icons";
import { Menu, type Choice } from "./menu";
import { Middle, Select, count, num } from "./parts";
import { use_rows_in_sight } from "./sight";
import { Slots } from "./slots";

// `key`: name in filters and in the address; `right`: right-aligned; `small`: preferred on a phone.
export interface Column<T> extends CardColumn {
  title: string;
  width: number;      // Minimum in px; spare room is divided in proportion to it.
  look: (row: T) => Cell;
  cell?: (row: T) => ComponentChildren;
}

interface Props<T> {
  label: string;
  rows: T[];
  columns: Column<T>[];
  id: (row: T) => string;
  open?: (row: T) => void;
  empty: ComponentChildren;     // Shown if there are no rows.
  prefix?: string;              // Prefix of its keys in the address, for pages with several tables.
  order?: string;               // Default order.
  tools?: ComponentChildren;
  bare?: boolean;               // Hides filter and count.
  height?: number;              // Maximum height of the box; default: the remaining height.
  choose?: Choose<T>;           // Makes rows selectable.
  optional?: boolean;           // Makes columns hideable; the address has the hidden ones.
}

export interface Choose<T> {
  chosen: Set<string>;
  set: (chosen: Set<string>) => void;
  name: (row: T) => string;        // Accessible name of a row.
  bar: () => ComponentChildren;    // Actions on the selected rows, shown in place of the filter.
}

const kRow = 34;
const kBeside = 8;  // Number of rows rendered above and below the visible ones.
const kPick = 44;  // Width of the checkbox column in px.

export function Table<T>({ label, rows, columns: all_columns, id, open, empty, prefix = "", order = "", tools, bare, height, choose, optional }: Props<T>) {
  const hidden = optional ? query(prefix + "hide") : "";
  // Key of the table in the stored column settings: page, prefix and first column.
  const table = [route.value.path[0] ?? "", prefix, all_columns[0].key].join(".");
  const order_by_hand = columns_of.value[table]?.order;
  const columns = useMemo(() => {
    const names = new Set(hidden.split(","));
    const shown_columns = hidden ? all_columns.filter((column, i) => i === 0 || !names.has(column.key)) : all_columns;
    return ordered(shown_columns, order_by_hand);
  }, [all_columns, hidden, order_by_hand]);
  const filter = bare ? "" : query(prefix + "q");
  const by = query(prefix + "sort", order);
  const shown = useMemo(() => arrange(rows, columns, filter, by), [rows, columns, filter, by]);
  if (rows.length === 0) return <div class="table-empty">{empty}</div>;
  return (
    <div class={`table-box${height ? "" : " fill"}`}>
      {choose && choose.chosen.size > 0 && choose.bar()}
      {!bare && !(choose && choose.chosen.size > 0) && (
        <div class="tools">
          <FilterBox value={filter} columns={columns} on_change={(text) => set_query({ [prefix + "q"]: text })} />
          {tools}
          {optional && <ColumnChoice columns={all_columns} table={table} hidden={hidden} on_change={(keys) => set_query({ [prefix + "hide"]: keys || null })} />}
          <span class="count" role="status">
            {shown.length === rows.length ? t("table.count", { n: rows.length, shown: count(rows.length) }) : t("table.some", { shown: count(shown.length), n: count(rows.length) })}
          </span>
        </div>
      )}
      {shown.length === 0 ? (
        <div class="empty">
          <Icon name="search" />
          <p class="strong">{t("table.nothing")}</p>
          <button type="button" class="button" onClick={() => set_query({ [prefix + "q"]: null })}>{t("table.clear")}</button>
        </div>
      ) : (
        <Body label={label} table={table} rows={shown} columns={columns} id={id} open={open} by={by} prefix={prefix} height={height} choose={choose} />
      )}
    </div>
  );
}

// Menu that hides and shows columns, except the first, which names the row.
function ColumnChoice<T>({ columns, table, hidden, on_change }: { columns: Column<T>[]; table: string; hidden: string; on_change: (hidden: string) => void }) {
  const names = new Set(hidden.split(",").filter(Boolean));
  const turn = (key: string) => {
    if (!names.delete(key)) names.add(key);
    on_change([...names].join(","));
  };
  const choices: Choice[] = ordered(columns, columns_of.value[table]?.order).slice(1).map((column) => ({ key: column.key, text: column.title, checked: !names.has(column.key), run: () => turn(column.key) }));
  if (columns_of.value[table]) choices.push({ key: "#reset", text: t("table.reset"), run: () => set_columns(table, { widths: undefined, order: undefined }) });
  return <Menu text={t("table.columns")} small={false} choices={choices} />;
}

// Width that fits the longest number of a sample of rows, since numbers must not be truncated.
const kSample = 400;
function fitted<T>(rows: T[], column: Column<T>): number {
  if (!column.right) return column.width;
  let longest = 0;
  const step = Math.max(1, Math.floor(rows.length / kSample));
  for (let i = 0; i < rows.length; i += step) {
    const cell = column.look(rows[i]);
    if (typeof cell === "number") longest = Math.max(longest, num(cell).length);
  }
  return Math.max(column.width, Math.min(200, longest * 7.6 + 28));
}

function arrange<T>(rows: T[], columns: Column<T>[], filter: string, by: string): T[] {
  const looks = new Map(columns.map((column) => [column.key, column.look]));
  const look = (row: T, key: string) => looks.get(key)?.(row);
  const kept = filter ? rows.filter(compile(filter, [...looks.keys()], look)) : rows;
  return sorted(kept, by, look);
}

export function FilterBox({ value, columns, on_change }: { value: string; columns: { key: string }[]; on_change: (text: string) => void }) {
  const [text, set_text] = useState(value);
  const box = useRef<HTMLInputElement>(null);
  // The address lags behind the input; copying it back into a focused box would lose letters.
  useEffect(() => { if (document.activeElement !== box.current) set_text(value); }, [value]);
  const example = columns.slice(0, 12).map((column) => column.key).join(", ");
  return (
    <label class="filter">
      <Icon name="search" />
      <span class="visually-hidden">{t("table.filter")}</span>
      <input ref={box} type="search" data-filter onBlur={() => set_text(value)} value={text} placeholder={t("table.filter")} title={t("table.filter.help", { columns: example })} spellcheck={false} autocomplete="off"
        onInput={(event) => { set_text(event.currentTarget.value); on_change(event.currentTarget.value); }} />
      <kbd>/</kbd>
    </label>
  );
}

function Body<T>({ label, table, rows, columns, id, open, by, prefix, height, choose }: {
  label: string; table: string; rows: T[]; columns: Column<T>[]; id: (row: T) => string; open?: (row: T) => void; by: string; prefix: string; height?: number; choose?: Choose<T>;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [active, set_active] = useState("");
  const cards = narrow.value;
  const said = cards ? columns.filter((column) => column.card === "wide" && rows.some((row) => Boolean(column.look(row)))).map((column) => column.key).join() : "";
  const layout = useMemo(() => (cards ? card_of(columns, (column) => said.split(",").includes(column.key)) : undefined), [cards, columns, said]);
  const row_height = layout?.height ?? kRow;
  const { first, end, width: box_width, show } = use_rows_in_sight(rows.length, row_height, kBeside, box);
  const widths = useMemo(() => columns.map((column) => fitted(rows, column)), [columns, rows]);
  const by_hand = columns.map((column) => columns_of.value[table]?.widths?.[column.key]);
  const given = widths.map((width, i) => by_hand[i] ?? width);
  const wide = given.reduce((sum, width) => sum + width, 0);
  // Widths in px if the user set any; else the columns share the width in proportion.
  const exact = by_hand.some((width) => width !== undefined) && box_width ? shared(widths, by_hand, box_width - (choose ? kPick : 0)) : null;
  const [slots] = useState(() => new Slots());
  const elements = slots.of(first, end - 1);
  const at = rows.findIndex((row) => id(row) === active);

  const move = (to: number) => {
    const next = Math.min(rows.length - 1, Math.max(0, to));
    set_active(id(rows[next]));
    show(next, "near");
  };
  const on_key = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor((box.current?.clientHeight ?? 300) / row_height) - 2);
    const steps: Record<string, number> = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length };
    if (event.key === "Enter" && at >= 0 && open && !(event.target as Element).closest("input")) open(rows[at]);
    else if ((event.key === " " || event.key === "x") && at >= 0 && choose && !(event.target as Element).closest("input,button")) turn(rows[at], event.shiftKey);
    else if (event.key in steps && !event.ctrlKey && !event.metaKey) move((at < 0 && steps[event.key] > 0 ? -1 : at) + steps[event.key]);
    else return;
    event.preventDefault();
  };
  const last_turned = useRef(-1);
  // With Shift, applies to all rows from the last toggled one to this.
  const turn = (row: T, with_shift: boolean) => {
    if (!choose) return;
    const next = new Set(choose.chosen);
    const on = !next.has(id(row));
    const here = rows.findIndex((one) => id(one) === id(row));
    const from = with_shift && last_turned.current >= 0 ? last_turned.current : here;
    for (let i = Math.min(from, here); i <= Math.max(from, here) && i < rows.length; i++) {
      if (on) next.add(id(rows[i]));
      else next.delete(id(rows[i]));
    }
    last_turned.current = here;
    choose.set(next);
  };
  const row_id = (key: string) => `${prefix}row-${key}`;
  const latest = useRef({ open, id, turn });
  latest.current = { open, id, turn };
  const [on_click] = useState(() => (row: T, event: MouseEvent) => {
    set_active(latest.current.id(row));
    if ((event.target as Element).closest("td.pick")) return latest.current.turn(row, event.shiftKey);
    if (!(event.target as Element).closest("a,button")) latest.current.open?.(row);
  });
  const cells = (cards ? 1 : columns.length) + (choose ? 1 : 0);
  const all_chosen = Boolean(choose) && rows.length > 0 && rows.every((row) => choose!.chosen.has(id(row)));
  return (
    <div class={`scroll${choose ? " picks-rows" : ""}${cards ? " cards" : ""}`} ref={box} tabIndex={0} onKeyDown={on_key} role="group" aria-label={label} aria-activedescendant={at >= 0 ? row_id(active) : undefined}
      style={height ? { maxHeight: height + "px" } : {}}>
      <table aria-rowcount={rows.length + 1} aria-label={label} style={{ minWidth: cards ? "0" : wide + (choose ? kPick : 0) + "px", ...(!cards && exact ? { width: exact.reduce((sum, width) => sum + width, choose ? kPick : 0) + "px" } : {}) }}>
        <colgroup>
          {choose && <col style={{ width: kPick + "px" }} />}
          {!cards && columns.map((column, i) => <col key={column.key} style={{ width: exact ? exact[i] + "px" : (100 * given[i]) / wide + "%" }} />)}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {choose && <th class="pick"><input type="checkbox" checked={all_chosen} aria-label={t("table.choose_all")} onChange={() => choose.set(all_chosen ? new Set() : new Set(rows.map(id)))} /></th>}
            {cards ? <th scope="col"><OrderChoice columns={columns} by={by} prefix={prefix} /></th> : columns.map((column, i) => <Title key={column.key} column={column} by={by} prefix={prefix} table={table} keys={columns.map((one) => one.key)} first={i === 0} />)}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr class="spacer" aria-hidden="true"><td colSpan={cells} style={{ height: first * row_height + "px" }} /></tr>}
          {rows.slice(first, end).map((row, i) => {
            const key = id(row);
            return <OneRow key={elements[i]} id={key === active ? row_id(key) : undefined} index={first + i} chosen={key === active} row={row} columns={columns} card={layout} opens={open !== undefined} on_click={on_click} picked={choose && choose.chosen.has(key)} name={choose?.name} />;
          })}
          {end < rows.length && end > 0 && <tr class="spacer" aria-hidden="true"><td colSpan={cells} style={{ height: (rows.length - end) * row_height + "px" }} /></tr>}
        </tbody>
      </table>
    </div>
  );
}

interface RowProps<T> {
  id?: string;
  index: number;
  chosen: boolean;
  row: T;
  columns: Column<T>[];
  card?: CardLayout<Column<T>>;  // Set on a phone.
  opens: boolean;
  on_click: (row: T, event: MouseEvent) => void;
  picked?: boolean;             // undefined: rows are not selectable.
  name?: (row: T) => string;
}

// Rerenders only if its props changed; scrolling and deltas change few of the visible rows.
class OneRow<T> extends Component<RowProps<T>> {
  shouldComponentUpdate(next: RowProps<T>): boolean {
    const now = this.props;
    return now.row !== next.row || now.columns !== next.columns || now.card !== next.card || now.chosen !== next.chosen || now.index !== next.index || now.opens !== next.opens || now.picked !== next.picked;
  }
  render({ id, index, chosen, row, columns, card, opens, on_click, picked, name }: RowProps<T>) {
    return (
      <tr id={id} aria-rowindex={index + 2} aria-selected={chosen} class={opens ? "opens" : ""} onClick={(event) => on_click(row, event)}>
        {picked !== undefined && <td class="pick"><input type="checkbox" tabIndex={-1} checked={picked} aria-label={t("table.choose", { name: name?.(row) ?? "" })} /></td>}
        {card ? <td><Card row={row} layout={card} /></td> : columns.map((column) => (
          <td key={column.key} class={column.right ? "right" : ""}>{shown_cell(column, row)}</td>
        ))}
      </tr>
    );
  }
}

const shown_cell = <T,>(column: Column<T>, row: T) => {
  const cell = column.cell ? column.cell(row) : column.look(row);
  return cell === undefined || cell === null || cell === "" ? <span class="soft">–</span> : cell;
};

// A row on a phone: name and state, some fields, and wide blocks.
function Card<T>({ row, layout }: { row: T; layout: CardLayout<Column<T>> }) {
  return (
    <div class="row-card" style={{ height: layout.height - 1 + "px" }}>
      <div class="row-card-head"><span class="row-card-title">{layout.title.right && <small>{layout.title.title} </small>}{shown_cell(layout.title, row)}</span>{layout.side && <span class="row-card-side">{shown_cell(layout.side, row)}</span>}</div>
      {layout.fields.length > 0 && (
        <dl>{layout.fields.map((column) => <div key={column.key} class={column.right ? "right" : ""}><dt>{column.title}</dt><dd>{shown_cell(column, row)}</dd></div>)}</dl>
      )}
      {layout.wide.map((column) => <div key={column.key} class="row-card-wide">{shown_cell(column, row)}</div>)}
      {layout.acts.map((column) => <div key={column.key} class="row-card-act">{column.cell?.(row)}</div>)}
    </div>
  );
}

// Selects the order on a phone, since cards have no column headings.
function OrderChoice<T>({ columns, by, prefix }: { columns: Column<T>[]; by: string; prefix: string }) {
  const down = by.startsWith("-");
  const key = down ? by.slice(1) : by;
  const set = (next: string) => set_query({ [prefix + "sort"]: next || null });
  return (
    <span class="order-choice">
      <Select label={t("table.order")} value={columns.some((column) => column.key === key) ? key : ""} options={[...(columns.some((column) => column.key === key) ? [] : [["", "–"] as [string, string]]), ...columns.filter((column) => column.card !== "act").map((column): [string, string] => [column.key, column.title])]}
        on_change={(next) => set((columns.find((column) => column.key === next)?.right ? "-" : "") + next)} />
      <button type="button" class="icon-button" disabled={!key} onClick={() => set((down ? "" : "-") + key)} aria-label={t(down ? "table.downwards" : "table.upwards")} title={t(down ? "table.downwards" : "table.upwards")}><Icon name={down ? "down" : "up"} /></button>
    </span>
  );
}

// Returns the width at which no visible cell of the column is truncated.
function fitting(head: HTMLTableCellElement): number {
  const table = head.closest("table")!;
  const cols = [...table.querySelectorAll("col")];
  const before = [table.style.cssText, ...cols.map((col) => col.style.width)];
  table.style.cssText = "table-layout: auto; width: max-content; min-width: 0";
  for (const col of cols) col.style.width = "0";
  const width = head.getBoundingClientRect().width;
  table.style.cssText = before[0];
  cols.forEach((col, i) => { col.style.width = before[i + 1]; });
  return bounded(Math.ceil(width) + 1);
}

const kStep = 16;  // px per key press.

// Heading of a column. Its edge is dragged to resize and double-clicked to fit; its name is dragged to move. With Shift, ← and → resize and
// Enter fits; with Ctrl and Shift, ← and → move.
function Title<T>({ column, by, prefix, table, keys, first }: { column: Column<T>; by: string; prefix: string; table: string; keys: string[]; first: boolean }) {
  const up = by === column.key;
  const down = by === "-" + column.key;
  const next = up ? "-" + column.key : down ? null : column.right ? "-" + column.key : column.key;
  const head = useRef<HTMLTableCellElement>(null);
  const from = useRef<{ x: number; width: number } | null>(null);
  const wide = () => head.current!.getBoundingClientRect().width;
  const set_width = (width: number) => set_columns(table, { widths: { ...columns_of.value[table]?.widths, [column.key]: bounded(width) } });
  const fit = () => set_width(fitting(head.current!));
  const move = (key: string, to: string | undefined) => { if (to) set_columns(table, { order: moved(keys, key, to).slice(1) }); };
  const on_key = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!event.shiftKey || !(step || event.key === "Enter")) return;
    event.preventDefault();
    event.stopPropagation();
    if (!step) fit();
    else if (event.ctrlKey || event.metaKey) move(column.key, keys[keys.indexOf(column.key) + step]);
    else set_width(wide() + step * kStep);
  };
  return (
    <th scope="col" ref={head} class={column.right ? "right" : ""} aria-sort={up ? "ascending" : down ? "descending" : "none"}
      onDragOver={(event) => { if (event.dataTransfer?.types.includes(kDragged)) event.preventDefault(); }}
      onDrop={(event) => { event.preventDefault(); move(event.dataTransfer!.getData(kDragged), column.key); }}>
      <button type="button" draggable={!first} onKeyDown={on_key} onDragStart={(event) => event.dataTransfer!.setData(kDragged, column.key)}
        onClick={() => set_query({ [prefix + "sort"]: up && column.right ? null : down && !column.right ? null : down ? column.key : next })} title={column.title}>
        <Middle text={column.title} kept={12} />
        {(up || down) && <Icon name={up ? "up" : "down"} />}
      </button>
      <span class="width-handle" title={t("table.width")} onDblClick={fit}
        onPointerDown={(event) => { event.preventDefault(); event.currentTarget.setPointerCapture(event.pointerId); from.current = { x: event.clientX, width: wide() }; }}
        onPointerMove={(event) => { if (from.current) set_width(from.current.width + event.clientX - from.current.x); }}
        onPointerUp={() => { from.current = null; }} />
    </th>
  );
}
const kDragged = "application/x-volador-column";
