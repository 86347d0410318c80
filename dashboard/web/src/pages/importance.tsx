// Bar chart of the most important parameters for a metric.
import { useMemo } from "preact/hooks";
import { t } from "../i18n";
import type { Experiment, Trial } from "../live/protocol";
import { link, query, set_query } from "../router";
import { rank_correlation } from "../charts/axes";
import { ChartFrame, DataTable } from "../charts/frame";
import { Card, Empty, Select, num, share } from "../ui/parts";
import { importance_of, numbered } from "./importance_of";
import { flat, metrics, parameters } from "./trials";

export function Importance({ trials, experiment }: { trials: Trial[]; experiment: Experiment }) {
  const metric = query("metric", experiment.metric);
  const names = useMemo(() => metrics(trials, experiment), [trials.length, experiment.metric]);
  // Recomputed when the number of reporting trials grows by a tenth, because it takes tens of milliseconds.
  const known = trials.filter((trial) => Number.isFinite(trial.metrics?.[metric] ?? NaN));
  const stamp = Math.floor(Math.log(Math.max(1, known.length)) * 10);
  const found = useMemo(() => {
    const params = parameters(known).filter((one) => one.varies).map((one) => one.path);
    const values = known.map((trial) => trial.metrics[metric] as number);
    const columns = params.map((path) => numbered(known.map((trial) => flat(trial)[path]), values));
    const shares = importance_of({ names: params, rows: known.map((_, i) => columns.map((column) => column[i])), values });
    const correlation = (path: string) => rank_correlation(columns[params.indexOf(path)].map((x, i): [number, number] => [x, values[i]]).filter(([x]) => !Number.isNaN(x)));
    const is_number = (path: string) => known.every((trial) => typeof flat(trial)[path] === "number");
    return shares.slice(0, 30).map((one) => ({ ...one, correlation: is_number(one.name) ? correlation(one.name) : null }));
  }, [stamp, metric, experiment.name]);
  const title = t("importance.title", { metric });
  return (
    <Card title={title}>
      {!found.length ? <Empty icon="experiments" title={t("importance.none")}>{t("importance.none.next")}</Empty> : (
        <ChartFrame label={title} tools={<Select label={t("curves.metric")} value={metric} on_change={(value) => set_query({ metric: value })} options={names.map((name) => [name, name])} />}
          table={() => <DataTable heads={[t("col.parameter"), t("importance.share"), t("parallel.correlation", { metric })]} rows={found.map((one) => [one.name, share(one.share), one.correlation === null ? "–" : num(one.correlation)])} />}>
          <ul class="bars">
            {found.map((one) => (
              <li key={one.name}>
                <a href={link(["experiments", experiment.name], { tab: "scatter", sx: one.name, sy: metric })} title={one.name}>{one.name}</a>
                <span class="bar"><i style={{ width: `${100 * one.share}%` }} /></span>
                <b class="num">{share(one.share)}</b>
                <small class="num">{one.correlation === null ? "" : (one.correlation > 0 ? "↗ " : "↘ ") + num(Math.round(one.correlation * 100) / 100)}</small>
              </li>
            ))}
          </ul>
          <p class="quiet-line">{t("importance.how")}</p>
        </ChartFrame>
      )}
    </Card>
  );
}
