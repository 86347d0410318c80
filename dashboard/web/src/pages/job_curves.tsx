// Resource use of a job over time, a line for each rank: what the command and its children took, and the GPUs that the rank has.
import { useState } from "preact/hooks";
import { call } from "../api";
import { group_color } from "../charts/colors";
import { LineChart } from "../charts/line_chart";
import { dash_of, type Line } from "../charts/lines";
import { t } from "../i18n";
import { use_topic } from "../live/use";
import { query } from "../router";
import { Card, num, share, size } from "../ui/parts";
import type { JobRank } from "./job_rows";
import { RangeSelect, kRanges, use_range, type Steps } from "./usage";

const kRanks = 16;  // With a line of their own.
interface Asked { rank: number; of: Record<string, string>; label: string }
interface Found extends Asked { series: Steps }

// The series of all queries, asked for again now and then.
function use_found(asked: Asked[], range: string): Found[] | null {
  const [found, set_found] = useState<Found[] | null>(null);
  use_range((times, wanted) => {
    const part = (one: Asked) => call<{ series: Steps[] }>("GET", "/api/v1/series?" + new URLSearchParams({ ...one.of, ...times, points: "300" })).then(
      (answer) => answer.series.map((series): Found => ({ ...one, series })));
    Promise.all(asked.map(part)).then((all) => { if (wanted()) set_found(all.flat()); }, () => undefined);  // The notice about the connection reports it.
  }, range, JSON.stringify(asked));
  return found;
}

const kCharts: { title: "usage.cpu" | "usage.memory" | "node.gpu_chart"; metric: RegExp; show: (value: number) => string; bytes?: boolean; top?: number }[] = [
  { title: "usage.cpu", metric: /^cpu_cores$/, show: num },
  { title: "usage.memory", metric: /^memory_bytes$/, show: size, bytes: true },
  { title: "node.gpu_chart", metric: /^gpu\d+_utilization_ratio$/, show: share, top: 1 },
];

export function RankCurves({ ranks, ended }: { ranks: JobRank[]; ended: boolean }) {
  const range = kRanges[query("range")] ? query("range") : "hour";
  const actors = use_topic("actors", {}, 1000).list();
  const shown = ranks.filter((rank) => rank.actor).slice(0, kRanks);
  // A node measures its GPUs for all processes: they are those of a rank while it runs.
  const gpus_of = (rank: JobRank) => (rank.state === "running" ? actors.find((one) => one.id === rank.actor)?.gpus ?? [] : []);
  const name_of = (rank: JobRank) => `${rank.rank} · ${rank.node || "–"}`;
  const found = use_found([
    ...shown.map((rank): Asked => ({ rank: rank.rank, of: { actor: rank.actor }, label: name_of(rank) })),
    ...shown.flatMap((rank) => gpus_of(rank).map((gpu): Asked => ({ rank: rank.rank, of: { node: rank.node, name: `gpu${gpu}_utilization_ratio` }, label: `${name_of(rank)}, ${t("node.gpu_n", { n: gpu })}` }))),
  ], range);
  if (!found) return null;
  const charts = kCharts.flatMap((chart) => {
    const lines = found.filter((one) => chart.metric.test(one.series.metric ?? "") && one.series.x.length > 0).map((one, i): Line => ({ id: one.series.id, label: one.label, x: one.series.x, y: one.series.y, color: group_color(one.rank), dash: dash_of(i) }));
    return lines.length ? [{ ...chart, title: t(chart.title), lines }] : [];
  });
  return (
    <Card title={t("usage.title")} action={<RangeSelect />}>
      {!charts.length ? <p class="quiet-line">{t(ended ? "usage.none_ended" : "usage.none")}</p> : (
        <div class="small-charts">
          {charts.map(({ title, show, bytes, top, lines }) => (
            <section key={title}>
              <h3>{title}</h3>
              <LineChart label={title} height={150} time from_zero named={lines.length > 1} top={top} show={show} bytes={bytes} lines={lines} />
            </section>
          ))}
        </div>
      )}
    </Card>
  );
}
