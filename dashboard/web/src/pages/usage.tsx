// Resource usage of a node, actor or trial over time, with minimum and maximum, from the head's history.
import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import { t } from "../i18n";
import type { Series } from "../live/protocol";
import { head_now } from "../live/use";
import { query, set_query } from "../router";
import { group_color, with_alpha } from "../charts/colors";
import type { Line } from "../charts/lines";
import { LineChart } from "../charts/line_chart";
import { Card, Select, num, size } from "../ui/parts";

export interface Steps extends Series {
  min: (number | null)[];
  max: (number | null)[];
}

export const kRanges: Record<string, number> = { hour: 3_600_000, day: 86_400_000, month: 30 * 86_400_000 };

// Calls `load` at once and then now and then, while the page is visible. `load` gets the queries' times, and whether the result is still wanted.
export function use_range(load: ((times: { from_ms: string; to_ms: string }, wanted: () => boolean) => void) | null, range: string, key: string | null) {
  useEffect(() => {
    if (!load) return undefined;
    let gone = false;
    const again = () => {
      if (document.visibilityState === "hidden") return;
      const to = Math.floor(head_now());
      load({ from_ms: String(to - kRanges[range]), to_ms: String(to) }, () => !gone);
    };
    again();
    const timer = setInterval(again, range === "hour" ? 10_000 : 60_000);
    return () => {
      gone = true;
      clearInterval(timer);
    };
  }, [key, range]);
}

// `of`: query of /api/v1/series; null: nothing is requested.
export function use_series(of: Record<string, string> | null, range: string): Steps[] | null {
  const [rows, set_rows] = useState<Steps[] | null>(null);
  const key = of && JSON.stringify(of);
  useEffect(() => set_rows(null), [key, range]);
  use_range(of && ((times, wanted) => {
    call<{ series: Steps[] }>("GET", "/api/v1/series?" + new URLSearchParams({ ...of, ...times, points: "400" })).then((answer) => { if (wanted()) set_rows(answer.series); }, () => undefined);  // The notice about the connection reports it.
  }), range, key);
  return rows;
}

export function RangeSelect({ live }: { live?: boolean }) {
  const first = live ? "live" : "hour";
  return (
    <Select label={t("range")} value={query("range", first)} on_change={(value) => set_query({ range: value === first ? null : value })}
      options={[...(live ? [["live", t("range.live")] as [string, string]] : []), ["hour", t("range.hour")], ["day", t("range.day")], ["month", t("range.month")]]} />
  );
}

// Returns the line of means and, if they differ from it, fainter lines of minimum and maximum.
export function band(row: Steps, label: string, color: string): Line[] {
  const varies = row.y.some((value, i) => row.min[i] !== value || row.max[i] !== value);
  const mean = { id: row.id, label, x: row.x, y: row.y, color };
  if (!varies) return [mean];
  const faint = with_alpha(color, 0.35);
  return [{ id: row.id + ":max", label: `${label}, ${t("chart.max").toLowerCase()}`, x: row.x, y: row.max, color: faint }, { id: row.id + ":min", label: `${label}, ${t("chart.min").toLowerCase()}`, x: row.x, y: row.min, color: faint }, mean];
}

const kMeasures: [string, "usage.cpu" | "usage.memory" | "usage.calls" | "usage.call_ms", number][] = [
  ["cpu_cores", "usage.cpu", 0], ["memory_bytes", "usage.memory", 2], ["calls_per_s", "usage.calls", 3], ["call_ms", "usage.call_ms", 1],
];

// Usage charts of an actor or trial, which are updated every 10 s.
export function UsageCharts({ of, ended }: { of: Record<string, string>; ended?: boolean }) {
  const rows = use_series(of, kRanges[query("range")] ? query("range") : "hour");
  if (!rows) return null;
  const found = kMeasures.flatMap(([metric, title, color]) => {
    const row = rows.find((one) => one.metric === metric);
    return row?.x.length ? [{ metric, title: t(title), row, color }] : [];
  });
  return (
    <Card title={t("usage.title")} action={<RangeSelect />}>
      {!found.length ? <p class="quiet-line">{t(ended ? "usage.none_ended" : "usage.none")}</p> : (
        <div class="small-charts">
          {found.map(({ metric, title, row, color }) => (
            <section key={metric}>
              <h3>{title}</h3>
              <LineChart label={title} height={130} time from_zero show={metric === "memory_bytes" ? size : num} bytes={metric === "memory_bytes"} lines={band(row, title, group_color(color))} />
            </section>
          ))}
        </div>
      )}
    </Card>
  );
}
