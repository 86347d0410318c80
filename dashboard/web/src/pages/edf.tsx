// Empirical distribution of the trials' last values, overall and by group.
import { useMemo } from "preact/hooks";
import { plain } from "../format";
import { locale, t } from "../i18n";
import type { Experiment, Trial } from "../live/protocol";
import { chart_height, dark } from "../prefs";
import { query, set_query } from "../router";
import { group_color, ramp } from "../charts/colors";
import { LineChart } from "../charts/line_chart";
import { group_by, type Line } from "../charts/lines";
import { Card, Empty, Select, Toggle, share } from "../ui/parts";
import { distribution, lower_is_better } from "./history";
import { flat, metrics, parameters } from "./trials";

export function Edf({ trials, experiment }: { trials: Trial[]; experiment: Experiment }) {
  const metric = query("metric", experiment.metric);
  const by = query("split");
  const log = query("x") === "log";
  const names = useMemo(() => metrics(trials, experiment), [trials.length, experiment.metric]);
  const params = useMemo(() => parameters(trials).filter((one) => one.varies), [trials.length]);
  const lines = useMemo((): Line[] => {
    const known = trials.filter((one) => Number.isFinite(one.metrics?.[metric] ?? NaN));
    const line = (id: string, label: string, some: Trial[], color: string, strong = false): Line => {
      const { x, y } = distribution(some.map((one) => one.metrics?.[metric]));
      // The distribution starts at 0 and steps up at each value.
      return { id, label, x: x.length ? [x[0], ...x] : [], y: y.length ? [0, ...y] : [], color, strong };
    };
    if (!by) return [line("all", t("edf.all"), known, group_color(0))];
    const value_of = new Map(known.map((one) => [one.id, one]));
    const { groups, ramp: graded } = group_by(known.map((one) => [one.id, flat(one)[by]]), 4, (value) => plain(value, locale()));
    return groups.map((group, i) => line(group.label, `${by} ${group.label}`, group.ids.map((id) => value_of.get(id)!), graded ? ramp(group.from) : group_color(i)));
  }, [trials, metric, by, dark.value, locale()]);
  const title = t("edf.title", { metric });
  const low = metric === experiment.metric ? experiment.mode === "min" : lower_is_better(metric);
  return (
    <Card title={title}>
      {!lines.some((line) => line.x.length) ? <Empty icon="experiments" title={t("curves.none", { metric })}>{t("curves.none.next")}</Empty> : (
        <LineChart label={title} lines={lines} named stairs height={chart_height.value} x_label={metric} log_x={log} from_zero top={1} show={share} tools={<>
          <Select label={t("curves.metric")} value={metric} on_change={(value) => set_query({ metric: value })} options={names.map((name) => [name, name])} />
          <Select label={t("curves.color")} value={by} on_change={(value) => set_query({ split: value || null })} options={[["", t("edf.all")], ...params.map((one): [string, string] => [one.path, one.path])]} />
          <Toggle label={t("curves.log_x")} on={log} on_change={(on) => set_query({ x: on ? "log" : null })} />
        </>} />
      )}
      <p class="quiet-line">{t(low ? "edf.how_min" : "edf.how_max")}</p>
    </Card>
  );
}
