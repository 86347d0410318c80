// The frame of every chart: its accessible name, its tools, and its numbers as a table.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { t } from "../i18n";
import { Icon } from "../ui/icons";

export function ChartFrame({ label, tools, note, table, children }: {
  label: string; tools?: ComponentChildren; note?: string; table: () => ComponentChildren; children: ComponentChildren;
}) {
  const [as_table, set_as_table] = useState(false);
  return (
    <figure class="chart" aria-label={label}>
      <div class={`chart-tools${tools ? "" : " bare"}`}>
        {tools}
        {note && <span class="note">{note}</span>}
        <button type="button" class={`icon-button end${as_table ? " on" : ""}`} aria-pressed={as_table} onClick={() => set_as_table(!as_table)} title={t("chart.table")} aria-label={t("chart.table")}>
          <Icon name="table" />
        </button>
      </div>
      {as_table ? table() : <div class="chart-body">{children}</div>}
    </figure>
  );
}

export const DataTable = ({ heads, rows }: { heads: string[]; rows: string[][] }) => (
  <div class="data-table" tabIndex={0}>
    <table>
      <thead>
        <tr>{heads.map((head, i) => <th key={i} scope="col">{head}</th>)}</tr>
      </thead>
      <tbody>
        {rows.map((row, i) => <tr key={i}>{row.map((cell, k) => (k === 0 ? <th key={k} scope="row">{cell}</th> : <td key={k}>{cell}</td>))}</tr>)}
      </tbody>
    </table>
  </div>
);
